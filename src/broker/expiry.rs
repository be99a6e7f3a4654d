//! The task that settles waits whose time is up. It goes through the same door as everybody: the rules decide, and a look that
//! comes too early is harmless. Its timer lives here; when a wait is over is written in the store.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinSet;

use super::{Error, hub::Hub};
use crate::{
    domain::{Command, WaitId},
    store::Store,
};

/// The longest sleep. The wall clock may jump while the timer sleeps, so it is looked at again and again.
const MAX_SLEEP: Duration = Duration::from_secs(5);

/// How many overdue waits are settled together: one group commit.
pub(super) const PAGE: usize = 500;

/// After a failure of the store.
const RETRY: Duration = Duration::from_secs(1);

pub(super) struct Expiry {
    pub(super) store: Arc<dyn Store>,
    pub(super) hub: Arc<Hub>,
}

impl Expiry {
    /// Runs until it is dropped. Dropping it loses nothing: the store knows what is due.
    pub(super) async fn run(self) {
        loop {
            let sleep = self.sweep().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "could not expire waits, trying again");
                RETRY
            });
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = self.hub.alarm.earlier() => {}
            }
        }
    }

    /// Settles one page of what is due and says how long to sleep.
    async fn sweep(&self) -> Result<Duration, Error> {
        // Before the read, so that nothing which is committed behind it goes unnoticed.
        self.hub.alarm.reset();
        let due = self.store.due(PAGE).await?;
        settle(&self.store, due.waits).await?;
        let sleep = due.next_in.map_or(MAX_SLEEP, |next| next.min(MAX_SLEEP));
        self.hub.alarm.set(self.store.now().after(sleep));
        Ok(sleep)
    }
}

/// Settles those of the waits whose time is up, together.
pub(super) async fn settle(store: &Arc<dyn Store>, waits: Vec<WaitId>) -> Result<(), Error> {
    let mut commands = JoinSet::new();
    for id in waits {
        let store = store.clone();
        commands.spawn(async move { store.apply(id, Command::Expire).await });
    }
    // One damaged row must not keep the others from their end.
    let (mut settled, mut failure) = (false, None);
    while let Some(joined) = commands.join_next().await {
        match joined {
            Ok(Ok(_)) => settled = true,
            Ok(Err(error)) => failure = Some(Error::from(error)),
            Err(panic) => failure = Some(Error::Internal(format!("expiring a wait: {panic}"))),
        }
    }
    match failure {
        Some(error) if settled => tracing::warn!(%error, "could not expire some waits"),
        Some(error) => return Err(error),
        None => {}
    }
    Ok(())
}
