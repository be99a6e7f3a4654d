//! The line on a terminal that shows what is waited for.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

use super::{
    output::{clean, note, without_secrets},
    progress::Teller,
    time,
};
use crate::client::{Decided, Wait};

/// How long the broker may be gone before it is worth a word.
const OUTAGE: Duration = Duration::from_secs(5);

/// A line on stderr that is written over again and again, if stderr is a terminal. Gone when it is dropped.
pub(super) struct Line {
    shown: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { shown: false }
    }

    /// Shows the line until it is dropped. Never returns.
    pub(super) async fn show(&mut self, what: &str, wait: &Wait) -> std::convert::Infallible {
        if !io::stderr().is_terminal() {
            tokio::join!(tell_outages(wait), tell_decisions(wait));
            return std::future::pending().await;
        }
        // One line must do: a terminal cannot take back a line that wrapped.
        let what: String = clean(what).chars().take(40).collect();
        let mut progress = wait.progress();
        let mut decided = wait.decided();
        let mut teller = Teller::default();
        loop {
            for news in news(&mut decided, &mut teller) {
                self.clear();
                note(news);
            }
            let state = progress.borrow_and_update().clone();
            let left = match state.time_left {
                // The broker's word, which needs no clock in common.
                Some((left, told)) => left.saturating_sub(told.elapsed()),
                None => wait
                    .opened()
                    .expire_time
                    .duration_since(SystemTime::now())
                    .unwrap_or_default(),
            };
            let connection = if state.attached {
                ""
            } else {
                ", connecting again"
            };
            self.write(&format!(
                "waiting for {}, {} left{connection}",
                what,
                time::length(left)
            ));
            let tick = tokio::time::sleep(Duration::from_secs(1));
            tokio::select! {
                () = tick => {}
                Ok(()) = decided.changed() => {}
                changed = progress.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
            }
        }
    }

    fn write(&mut self, text: &str) {
        self.clear();
        self.shown = true;
        // A terminal that has gone needs no line.
        let _ = write!(io::stderr(), "{text}");
    }

    /// Returns to the first column and erases what was there.
    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

/// The lines about decisions that were not told yet.
fn news(decided: &mut watch::Receiver<Option<Decided>>, teller: &mut Teller) -> Vec<String> {
    match &*decided.borrow_and_update() {
        Some(decided) => {
            let news = teller.news(decided);
            news.iter().map(|line| without_secrets(line)).collect()
        }
        None => Vec::new(),
    }
}

/// Says in a line of its own what is decided about each tool call. Ends with the wait.
async fn tell_decisions(wait: &Wait) {
    let mut decided = wait.decided();
    let mut teller = Teller::default();
    loop {
        news(&mut decided, &mut teller).iter().for_each(note);
        if decided.changed().await.is_err() {
            return;
        }
    }
}

/// Says in plain lines when the broker is gone for longer than a restart takes, and when it is back. Ends with the wait.
async fn tell_outages(wait: &Wait) {
    let mut progress = wait.progress();
    loop {
        if progress.wait_for(|p| !p.attached).await.is_err() {
            return;
        }
        match tokio::time::timeout(OUTAGE, progress.wait_for(|p| p.attached)).await {
            Ok(Ok(_)) => continue,
            Ok(Err(_)) => return,
            Err(_) => note("the broker cannot be reached; the wait goes on, trying again"),
        }
        if progress.wait_for(|p| p.attached).await.is_err() {
            return;
        }
        note("attached again");
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}
