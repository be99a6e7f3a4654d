//! The broker as its users run it: the binary, on a directory, on a port.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use super::{Calls, soon};

/// The binary on a data directory of its own. Killed when it is dropped.
pub struct RealBroker {
    /// Where it listens; the same over all its starts.
    pub addr: SocketAddr,
    dir: TempDir,
    args: Vec<String>,
    child: Child,
}

impl RealBroker {
    /// Starts it and waits until it serves.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts it with more flags of `serve`, which hold for all its starts.
    pub async fn start_with(args: &[&str]) -> Self {
        let dir = TempDir::new().expect("a directory");
        let args: Vec<_> = args.iter().map(|&arg| arg.to_owned()).collect();
        let (child, addr) = spawn(&dir, "127.0.0.1:0", &args).await;
        Self {
            addr,
            dir,
            args,
            child,
        }
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The generated client, on a connection of its own.
    pub async fn calls(&self) -> Calls {
        Calls::connect(&self.url()).await
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// What it logged so far, over all its starts.
    pub fn log(&self) -> String {
        let log = fs::read(log_file(&self.dir)).expect("a log");
        String::from_utf8_lossy(&log).into_owned()
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        let pid = self.child.id().expect("it runs");
        let pid = libc::pid_t::try_from(pid).expect("a process id");
        // SAFETY: no memory is touched, and the process is our own child that was not waited for.
        let sent = unsafe { libc::kill(pid, libc::SIGTERM) };
        assert_eq!(sent, 0, "SIGTERM was not sent");
    }

    /// Waits until it ends by itself.
    pub async fn exit(&mut self) -> ExitStatus {
        let exit = soon("the broker ends", self.child.wait()).await;
        exit.expect("it can be awaited")
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("it can be killed");
    }

    /// Starts it again, after it ended, on the same data and port.
    pub async fn restart(&mut self) {
        let listen = self.addr.to_string();
        (self.child, _) = spawn(&self.dir, &listen, &self.args).await;
    }
}

fn log_file(dir: &TempDir) -> PathBuf {
    dir.path().join("broker.log")
}

async fn spawn(dir: &TempDir, listen: &str, args: &[String]) -> (Child, SocketAddr) {
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log_file(dir));
    let mut child = Command::new(env!("CARGO_BIN_EXE_abeyance"))
        .args(["serve", "--listen", listen, "--data-dir"])
        .arg(dir.path().join("data"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.expect("the log can be opened"))
        .kill_on_drop(true)
        .spawn()
        .expect("the broker starts");
    let stdout = child.stdout.take().expect("stdout is piped");
    let mut lines = BufReader::new(stdout).lines();
    let address = soon("the broker says where it listens", async {
        while let Some(line) = lines.next_line().await.expect("text") {
            if let Some(address) = address_in(&line) {
                return address;
            }
        }
        let log = fs::read_to_string(log_file(dir)).unwrap_or_default();
        panic!("the broker ended before it served:\n{log}")
    })
    .await;
    // Whatever else it prints must not fill the pipe. Ends with the process.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, address)
}

fn address_in(line: &str) -> Option<SocketAddr> {
    line.split(|c: char| c.is_whitespace() || "\"',;()".contains(c))
        .find_map(|word| word.trim_start_matches("http://").parse().ok())
}
