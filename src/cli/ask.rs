//! The command of `wait --ask`.

use std::{
    io,
    os::fd::AsFd,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use super::input::TOKEN_VARIABLE;
use crate::client::Ticket;

/// How long a command may go on once there is an outcome: one that answered itself has just a few lines left.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long it may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// A shell command in a process group of its own, so that everything it started can be ended with it.
pub(super) struct Ask<'a> {
    command: &'a str,
    server: &'a str,
    running: Option<Group>,
}

/// A process group that is killed when this is dropped.
struct Group {
    leader: Child,
    id: Option<Pid>,
}

impl<'a> Ask<'a> {
    pub(super) fn new(command: &'a str, server: &'a str) -> Self {
        Self {
            command,
            server,
            running: None,
        }
    }

    /// Runs the command to its end. If it is dropped the command runs on, until [`Ask::stop`].
    pub(super) async fn run(&mut self, ticket: Ticket) -> io::Result<ExitStatus> {
        // Its output is for people: stdout is for the answer alone.
        let stderr = io::stderr().as_fd().try_clone_to_owned()?;
        let leader = Command::new("sh")
            .arg("-c")
            .arg(self.command)
            .env(TOKEN_VARIABLE, ticket.token.expose())
            .env("ABEYANCE_WAIT_ID", &ticket.wait_id)
            .env("ABEYANCE_SERVER", self.server)
            // A process group of its own cannot read the terminal; and stdin may have given the question.
            .stdin(Stdio::null())
            .stdout(Stdio::from(stderr))
            .process_group(0)
            .spawn()?;
        let id = leader
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        let group = self.running.insert(Group { leader, id });
        let status = group.leader.wait().await?;
        // What it left running in the background was left on purpose.
        group.id = None;
        self.running = None;
        Ok(status)
    }

    /// Ends the command with everything it started, if it still runs.
    pub(super) async fn stop(&mut self, last_words: bool) {
        let Some(mut group) = self.running.take() else {
            return;
        };
        if last_words && timeout(LAST_WORDS, group.leader.wait()).await.is_ok() {
            group.id = None;
            return;
        }
        group.signal(Signal::TERM);
        if timeout(GRACE, group.leader.wait()).await.is_err() {
            super::output::note("the command of --ask does not end; it is killed");
        }
        // Dropping the group kills what is left of it.
    }
}

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            // It may have ended by itself.
            let _ = kill_process_group(id, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
