//! One stream that is attached to a wait.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    Broker,
    registry::{self, News},
};
use crate::domain::{Outcome, Timestamp, Token, Wait, WaitId};

/// A wait as it was when somebody attached, and the place from which its outcome is heard.
#[derive(Debug)]
pub struct Attached {
    /// The wait. If it has an outcome, that is the end; it never changes.
    pub wait: Wait,
    /// Its token.
    pub token: Token,
    /// It was there before.
    pub resumed: bool,
    /// Where to listen.
    pub subscription: Subscription,
}

/// A place from which the outcome of one wait is heard. Dropping it detaches; the wait is unharmed.
pub struct Subscription {
    pub(super) place: registry::Subscription,
    pub(super) broker: Broker,
    pub(super) expire_time: Timestamp,
}

impl Subscription {
    /// The wait.
    pub fn id(&self) -> WaitId {
        self.place.id()
    }

    /// What is news to somebody who was told of `told` decisions on tool calls, as soon as it is recorded. Also wakes without any
    /// when the broker begins to drain.
    pub fn poll_news(&self, cx: &mut Context<'_>, told: usize) -> Poll<News> {
        self.place.poll_news(cx, told)
    }

    /// Waits for the outcome.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn outcome(&self) -> Arc<Outcome> {
        // Nobody decides so many calls.
        let mut news = std::future::poll_fn(|cx| self.poll_news(cx, usize::MAX));
        loop {
            if let News::Outcome(outcome) = (&mut news).await {
                return outcome;
            }
        }
    }

    /// The time left until the wait expires, by the store's clock.
    pub fn time_left(&self) -> std::time::Duration {
        self.expire_time.since(self.broker.now())
    }

    /// Whether the broker lets go of its streams.
    pub fn draining(&self) -> bool {
        self.broker.drain().begun()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("id", &self.id())
            .finish()
    }
}
