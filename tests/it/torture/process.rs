//! The broker as its users run it: the binary, on a directory, on a port.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

/// How long anything may take that takes a moment on an idle machine.
pub const BOUND: Duration = Duration::from_secs(60);

/// How to start a broker.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its data directory.
    pub data: PathBuf,
    /// Where its log goes, beside those of the starts before.
    pub log: PathBuf,
    /// Where it listens; port 0 until it was started once.
    pub listen: SocketAddr,
    /// Additional environment.
    pub env: Vec<(&'static str, OsString)>,
}

impl Setup {
    /// A broker whose data and log lie beneath `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            data: root.join("data"),
            log: root.join("broker.log"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            env: Vec::new(),
        }
    }

    /// Starts it, without waiting until it serves.
    pub fn spawn(&self) -> Starting {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .expect("the log can be opened");
        let mut child = Command::new(env!("CARGO_BIN_EXE_abeyance"))
            .args(["serve", "--listen", &self.listen.to_string(), "--data-dir"])
            .arg(&self.data)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::from(log))
            .kill_on_drop(true)
            .spawn()
            .expect("the broker starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        Starting {
            child,
            lines: BufReader::new(stdout).lines(),
            log: self.log.clone(),
        }
    }

    /// Starts it and waits until it serves. From then on it is always started on the same port.
    pub async fn start(&mut self) -> Process {
        let process = self.spawn().ready().await;
        self.listen = process.address;
        process
    }

    /// The end of the log, for a failure's message.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

/// A broker that does not serve yet.
pub struct Starting {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Starting {
    /// Waits until it says where it listens.
    pub async fn ready(self) -> Process {
        let log = self.log.clone();
        match self.ready_or_exit().await {
            Ok(process) => process,
            Err(status) => panic!(
                "the broker ended ({status}) before it served; its log ends:\n{}",
                tail(&log)
            ),
        }
    }

    /// Waits until it says where it listens, or ends.
    pub async fn ready_or_exit(mut self) -> Result<Process, ExitStatus> {
        let address = timeout(BOUND, async {
            while let Some(line) = self.lines.next_line().await.expect("stdout is text") {
                if let Some(address) = address_in(&line) {
                    return Some(address);
                }
            }
            None
        });
        let Some(address) = address.await.expect("the broker serves in time") else {
            return Err(self.child.wait().await.expect("the broker can be awaited"));
        };
        // Whatever else it prints must not fill the pipe.
        let reader =
            tokio::spawn(async move { while let Ok(Some(_)) = self.lines.next_line().await {} });
        Ok(Process {
            child: self.child,
            address,
            reader,
        })
    }

    /// Kills it, however far it came.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("the broker can be killed");
    }
}

/// A broker that serves. Killed when it is dropped.
pub struct Process {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    reader: JoinHandle<()>,
}

impl Process {
    /// Where clients find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("the broker can be killed");
        self.reader.abort();
    }

    /// Waits until it ends by itself.
    pub async fn exit(&mut self) -> ExitStatus {
        timeout(BOUND, self.child.wait())
            .await
            .expect("the broker ends in time")
            .expect("the broker can be awaited")
    }

    /// A line of its `/proc/PID/status`, as a number: `VmRSS` is in KiB.
    pub fn status(&self, name: &str) -> u64 {
        let pid = self.child.id().expect("the broker runs");
        let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("Linux with /proc");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
        number
            .and_then(|number| number.parse().ok())
            .unwrap_or_else(|| panic!("{name} is not in /proc/{pid}/status"))
    }
}

fn address_in(line: &str) -> Option<SocketAddr> {
    line.split(|c: char| c.is_whitespace() || "\"',;()".contains(c))
        .find_map(|word| word.trim_start_matches("http://").parse().ok())
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let start = text.len().saturating_sub(6000);
    String::from_utf8_lossy(&text[start..]).into_owned()
}

/// Copies a directory and the files in it, all of them synced by nobody: for tests that put an old state back.
pub fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the copy's folder can be made");
    for entry in fs::read_dir(from).expect("the folder can be read") {
        let entry = entry.expect("the folder can be read");
        if entry.file_type().expect("it has a type").is_dir() {
            copy_dir(&entry.path(), &to.join(entry.file_name()));
        } else {
            let mut source = File::open(entry.path()).expect("the file can be read");
            let mut target = File::create(to.join(entry.file_name())).expect("the copy is made");
            std::io::copy(&mut source, &mut target).expect("the file is copied");
        }
    }
}
