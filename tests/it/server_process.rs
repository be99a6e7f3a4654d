//! The real binary, and the signals that stop it.

use std::{net::SocketAddr, process::Stdio, time::Instant};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, Command},
};

use super::{
    server_frames::{Frames, GOAWAY},
    server_harness::{MS, framed, soon, wait_request},
};

/// A broker in a process of its own, which is killed if a test leaves it behind.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    /// Starts one and waits until it says that it listens.
    async fn start(flags: &[&str]) -> Self {
        let mut child = command(flags)
            .env("ABEYANCE_LISTEN", "127.0.0.1:0")
            .spawn()
            .expect("started");
        let stdout = child.stdout.take().expect("its output");
        let mut lines = BufReader::new(stdout).lines();
        let line = soon("the first line", lines.next_line()).await;
        let line = line.expect("text").expect("a line");
        let address = line.strip_prefix("listening on ").expect("the address");
        Self {
            address: address.parse().expect("an address"),
            child,
        }
    }

    fn signal(&self, number: libc::c_int) {
        signal(self.child.id().expect("it runs"), number);
    }

    async fn exit_code(mut self) -> Option<i32> {
        let status = soon("the end of the process", self.child.wait()).await;
        status.expect("a status").code()
    }
}

/// Signals a process that was not waited for yet.
fn signal(id: u32, number: libc::c_int) {
    let id = libc::pid_t::try_from(id).expect("a process id");
    // SAFETY: no memory is involved, and the child was not waited for, so the id is its own.
    assert_eq!(unsafe { libc::kill(id, number) }, 0);
}

fn command(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abeyance"));
    command
        .args(["serve", "--store", "memory"])
        .args(flags)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

#[tokio::test]
async fn a_signal_as_soon_as_it_listens_stops_it_in_order() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let process = Process::start(&[]).await;
        process.signal(signal);
        assert_eq!(process.exit_code().await, Some(0));
    }
}

#[tokio::test]
async fn c69c_it_exits_with_zero_within_the_drain_timeout_and_at_once_when_told_twice() {
    for twice in [false, true] {
        let drain = if twice { "1h" } else { "1s" };
        let process = Process::start(&["--drain-timeout", drain]).await;
        let mut frames = Frames::connect(process.address, 65_535).await;
        let wait = framed(&wait_request());
        let stream = frames.call("/abeyance.v1.WaitService/Wait", &wait).await;
        frames.until_data(stream, "abey_").await;
        frames.polite = false;
        let start = Instant::now();
        process.signal(libc::SIGTERM);
        frames.until("a GOAWAY", GOAWAY).await;
        if twice {
            // What comes at once is the same signal again, sent by a wrapper to the process and to its group. So it is told again and
            // again, and ends once that can no longer be meant.
            let id = process.child.id().expect("it runs");
            let end = process.exit_code();
            tokio::pin!(end);
            let code = loop {
                tokio::select! {
                    code = &mut end => break code,
                    () = tokio::time::sleep(50 * MS) => signal(id, libc::SIGTERM),
                }
            };
            assert_eq!(code, Some(71));
            assert!(start.elapsed() >= 1000 * MS, "{:?}", start.elapsed());
        } else {
            assert_eq!(process.exit_code().await, Some(0));
            assert!(start.elapsed() >= 900 * MS, "{:?}", start.elapsed());
        }
    }
}

#[tokio::test]
async fn a_bad_setting_exits_with_64_and_says_which() {
    for (flag, value) in [
        ("--listen", "0.0.0.0:2239"),
        ("--alive-interval", "0s"),
        ("--keepalive-interval", "never"),
    ] {
        let mut child = command(&[flag, value]).spawn().expect("started");
        let mut stderr = String::new();
        let mut pipe = child.stderr.take().expect("its errors");
        let read = pipe.read_to_string(&mut stderr);
        soon("its errors", read).await.expect("text");
        let status = soon("its end", child.wait()).await.expect("a status");
        assert_eq!(status.code(), Some(64), "{flag}: {stderr}");
        assert!(stderr.contains(flag) && stderr.contains(value), "{stderr}");
    }
}
