//! The real binary: a broker of its own for each test, and commands against it.

use std::{
    ffi::OsStr,
    net::SocketAddr,
    path::Path,
    process::{ExitStatus, Output, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    time::timeout,
};

pub const BINARY: &str = env!("CARGO_BIN_EXE_abeyance");

/// No journey takes as long as this, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `abeyance serve`. Killed when it is dropped.
pub struct Broker {
    process: Child,
    address: SocketAddr,
    data: TempDir,
}

impl Broker {
    pub async fn start() -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let (process, address) = serve(data.path(), "127.0.0.1:0").await;
        Self {
            process,
            address,
            data,
        }
    }

    /// Kills it with SIGKILL, and starts it again at the same address and with the same data.
    pub async fn kill_and_restart(&mut self) {
        self.process.kill().await.expect("it runs");
        let listen = self.address.to_string();
        (self.process, self.address) = serve(self.data.path(), &listen).await;
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A path beside the broker's data, gone with it.
    pub fn path(&self, name: &str) -> String {
        let path = self.data.path().join(name);
        path.to_str().expect("UTF-8").to_owned()
    }

    /// A command that talks to this broker, and to nothing else that the environment may name.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bare(arguments);
        command.env("ABEYANCE_SERVER", self.url());
        command
    }

    /// Runs a command to its end.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        run(self.command(arguments)).await
    }

    /// Runs a command that must succeed and print one JSON object.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(arguments).await;
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).expect("one JSON object")
    }

    /// Opens a wait and returns its token and id.
    pub async fn open(&self, arguments: &[&str]) -> (String, String) {
        let opened = self.json(&[&["open", "--json"], arguments].concat()).await;
        let text = |field: &str| opened[field].as_str().expect(field).to_owned();
        (text("token"), text("wait_id"))
    }

    /// Starts `wait` with these arguments.
    pub fn wait(&self, arguments: &[&str]) -> Waiting {
        Waiting::start(self.command(&[&["wait"], arguments].concat()))
    }

    /// The state of a wait.
    pub async fn state(&self, token_or_id: &str) -> String {
        let wait = self.json(&["show", "--json", token_or_id]).await;
        wait["state"].as_str().expect("a state").to_owned()
    }
}

async fn serve(data: &Path, listen: &str) -> (Child, SocketAddr) {
    let mut command = bare(&["serve", "--listen", listen]);
    let mut process = command
        .arg("--data-dir")
        .arg(data.join("broker"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    let line = timeout(PATIENCE, lines.next_line());
    let line = line.await.expect("it begins in time").expect("readable");
    let line = line.expect("the broker says where it listens");
    let address = line.strip_prefix("listening on ").expect("an address");
    (process, address.parse().expect("an address"))
}

/// The binary with nothing of ours in its environment.
pub fn bare(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments).kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ABEYANCE_") {
            command.env_remove(name);
        }
    }
    command
}

/// A command that has ended.
pub struct Ran {
    /// 128 and the signal's number, if a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

pub async fn run(mut command: Command) -> Ran {
    let output = command.stdin(Stdio::null()).output();
    let output = timeout(PATIENCE, output).await.expect("it ends in time");
    ran(output.expect("it starts"))
}

/// Runs a command with this on its stdin.
pub async fn run_with_stdin(mut command: Command, input: &str) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = timeout(PATIENCE, child.wait_with_output()).await;
    ran(output.expect("it ends in time").expect("it runs"))
}

fn ran(output: Output) -> Ran {
    Ran {
        code: code(output.status),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A `wait` that runs.
pub struct Waiting {
    process: Child,
    stderr: Lines<BufReader<ChildStderr>>,
    said: String,
}

impl Waiting {
    pub fn start(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stderr = BufReader::new(process.stderr.take().expect("piped")).lines();
        Self {
            process,
            stderr,
            said: String::new(),
        }
    }

    /// Reads stderr up to a line that begins so, and returns what follows.
    pub async fn says(&mut self, beginning: &str) -> String {
        loop {
            let line = timeout(PATIENCE, self.stderr.next_line()).await;
            let Some(line) = line.expect("in time").expect("readable") else {
                panic!("it never said {beginning:?}, but:\n{}", self.said);
            };
            self.said.push_str(&line);
            self.said.push('\n');
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.trim().to_owned();
            }
        }
    }

    /// The token that it prints.
    pub async fn token(&mut self) -> String {
        self.says("token ").await
    }

    /// Waits until it listens for SIGINT and SIGTERM, in this order. Before that a signal may neither be heard nor end it: what a shell
    /// starts in the background ignores SIGINT, and so do its children.
    pub async fn listens(&self) {
        let id = self.process.id().expect("it runs");
        let listening = async {
            loop {
                let status = std::fs::read_to_string(format!("/proc/{id}/status"));
                let status = status.expect("Linux with /proc");
                let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
                let caught = caught.and_then(|m| u64::from_str_radix(m.trim(), 16).ok());
                if caught.expect("a mask") & (1 << (Signal::TERM.as_raw() - 1)) != 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, listening).await.expect("in time");
    }

    pub fn signal(&self, signal: Signal) {
        let id = self.process.id().expect("it runs").cast_signed();
        let id = Pid::from_raw(id).expect("a process");
        kill_process(id, signal).expect("it runs");
    }

    /// Waits for its end.
    pub async fn end(mut self) -> Ran {
        let mut stdout = String::new();
        let mut output = self.process.stdout.take().expect("piped");
        let end = async {
            output.read_to_string(&mut stdout).await.expect("UTF-8");
            while let Some(line) = self.stderr.next_line().await.expect("UTF-8") {
                self.said.push_str(&line);
                self.said.push('\n');
            }
            self.process.wait().await.expect("it runs")
        };
        let status = timeout(PATIENCE, end).await.expect("it ends in time");
        Ran {
            code: code(status),
            stdout,
            stderr: self.said,
        }
    }
}

/// Waits until a file is there, and returns what it says. The shell commands of these tests write one as their last step.
pub async fn file(path: impl AsRef<OsStr>) -> String {
    let path = Path::new(path.as_ref());
    let wait = async {
        loop {
            match std::fs::read_to_string(path) {
                Ok(text) if !text.is_empty() => return text.trim().to_owned(),
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let text = timeout(PATIENCE, wait).await;
    text.unwrap_or_else(|_| panic!("{} never appeared", path.display()))
}
