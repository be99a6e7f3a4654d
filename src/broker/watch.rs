//! Following the waits that match a filter, with memory that does not grow with their number.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::broadcast::{
    self,
    error::{RecvError, TryRecvError},
};

use super::{Broker, Error, Filter, hub::Change};
use crate::domain::{State, Summary, Timestamp, WaitId};

/// How many waits are read at once for the first pass.
const PAGE: usize = 200;

/// Changes that come within this time are told as one, so that a busy wait does not flood a watcher.
const GATHER: Duration = Duration::from_millis(20);

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The latest state of a wait.
    Wait(Box<Summary>),
    /// The first pass is over; what follows are changes.
    Synced,
    /// The watcher did not keep up: watch again. Nothing follows.
    Lagged,
}

/// One watch.
#[derive(Debug)]
pub struct Watch {
    broker: Broker,
    filter: Filter,
    /// Waits opened before this were too old for the filter at all times of this watch.
    created_from: Option<Timestamp>,
    changes: broadcast::Receiver<Arc<Change>>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Still listing. The page at hand is told from its end.
    Listing { page: Vec<Summary>, next: Next },
    /// Telling changes.
    Following {
        changed: BTreeMap<WaitId, Arc<Change>>,
    },
}

#[derive(Debug)]
enum Next {
    Page(Option<WaitId>),
    Synced,
}

impl Watch {
    pub(super) fn new(broker: Broker, filter: Filter) -> Self {
        // Before the first read, so that no change slips between the two.
        let changes = broker.hub().changes();
        let created_from = filter.max_age.map(|age| broker.now().before(age));
        Self {
            broker,
            created_from,
            filter,
            changes,
            stage: Stage::Listing {
                page: Vec::new(),
                next: Next::Page(None),
            },
        }
    }

    /// What to tell next.
    ///
    /// # Errors
    /// [`Error::Unavailable`] and others of the store; the watch can go on or be begun anew.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped call may swallow a change.
    pub async fn next(&mut self) -> Result<Told, Error> {
        loop {
            match &mut self.stage {
                Stage::Listing { page, next } => {
                    if let Some(wait) = page.pop() {
                        return Ok(Told::Wait(Box::new(wait)));
                    }
                    match next {
                        Next::Page(before) => {
                            let read = self.broker.list(&self.filter, *before, PAGE).await?;
                            *page = read.waits;
                            page.reverse();
                            *next = read.next.map_or(Next::Synced, |id| Next::Page(Some(id)));
                        }
                        Next::Synced => {
                            self.stage = Stage::Following {
                                changed: BTreeMap::new(),
                            };
                            return Ok(Told::Synced);
                        }
                    }
                }
                Stage::Following { changed } => {
                    if changed.is_empty() && !gather(&mut self.changes, changed).await {
                        return Ok(Told::Lagged);
                    }
                    while let Some((id, change)) = changed.pop_first() {
                        let read = || self.broker.summary(id);
                        if let Some(wait) = change.read.get_or_try_init(read).await?
                            && concerns(&self.broker, &self.filter, self.created_from, wait)
                        {
                            return Ok(Told::Wait(Box::new(wait.clone())));
                        }
                    }
                }
            }
        }
    }
}

/// Whether a watcher must hear of this change: the wait matches now, or it matched while it was pending.
fn concerns(
    broker: &Broker,
    filter: &Filter,
    created_from: Option<Timestamp>,
    wait: &Summary,
) -> bool {
    let mut query = broker.query(filter, None, 1);
    if query.states.contains(&State::Pending) {
        query.states.clear();
    }
    if wait.settled.is_some() {
        // It may have grown too old since it was told. Its end is told all the same.
        query.created_from = created_from;
    }
    query.matches(wait)
}

/// Waits for a change and takes what came with it. `false` if changes were lost.
async fn gather(
    changes: &mut broadcast::Receiver<Arc<Change>>,
    changed: &mut BTreeMap<WaitId, Arc<Change>>,
) -> bool {
    match changes.recv().await {
        Ok(change) => changed.insert(change.id, change),
        // The sender lives as long as the broker, which the watch holds.
        Err(RecvError::Lagged(_) | RecvError::Closed) => return false,
    };
    tokio::time::sleep(GATHER).await;
    loop {
        match changes.try_recv() {
            Ok(change) => changed.insert(change.id, change),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Lagged(_) | TryRecvError::Closed) => return false,
        };
    }
}
