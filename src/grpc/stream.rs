//! What a stream attached to a wait says, and when: the present state, signs of life, and one last event.
//!
//! One plain state machine for each stream and no task: a held wait costs a timer, a place in the registry, and little more.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep};
use tokio_stream::Stream;
use tonic::Status;

use super::{
    Options, answer,
    bounds::{Bounds, chance},
    convert, status,
};
use crate::{
    broker::{Attached, News, Subscription},
    domain::Outcome,
    proto::v1::{self, detached::Reason, wait_event::Event},
};

/// The events of one attached wait, each in the response message `M` of its rpc.
pub struct WaitStream<M> {
    stage: Stage,
    subscription: Subscription,
    alive_interval: Duration,
    next_alive: Instant,
    /// When the broker lets go: the stream's lifetime, or sooner once it drains.
    let_go: LetGo,
    /// The call's own deadline.
    deadline: Option<Instant>,
    /// How many decisions on tool calls were told.
    told: usize,
    /// Fires at the earliest of the three.
    timer: Pin<Box<Sleep>>,
    wrap: fn(v1::WaitEvent) -> M,
}

enum Stage {
    /// Nothing was said yet. Boxed, since it is gone after the first event.
    Begin(Box<v1::Opened>),
    Listening,
    /// The last event was `detached` for a drain; the status follows.
    Drained,
    Ended,
}

#[derive(Clone, Copy)]
struct LetGo {
    at: Instant,
    reason: Reason,
}

impl<M> WaitStream<M> {
    /// A stream that begins with the present state. The bounds are the stream's, never the wait's.
    pub(super) fn new(
        attached: Attached,
        bounds: Bounds,
        options: &Options,
        wrap: fn(v1::WaitEvent) -> M,
    ) -> Self {
        let now = Instant::now();
        let Attached {
            wait,
            token,
            resumed,
            subscription,
        } = attached;
        let opened = convert::opened(&wait, &token, resumed, Some(options.alive_interval));
        let mut stream = Self {
            stage: Stage::Begin(Box::new(opened)),
            subscription,
            alive_interval: options.alive_interval,
            // The first comes early by chance, so that many streams opened at once do not speak at once for ever.
            next_alive: now + options.alive_interval.mul_f64(1.0 - 0.5 * chance()),
            let_go: LetGo {
                at: bounds.let_go,
                reason: Reason::Lifetime,
            },
            deadline: bounds.deadline,
            told: 0,
            timer: Box::pin(tokio::time::sleep_until(now)),
            wrap,
        };
        stream.rearm();
        stream
    }

    fn rearm(&mut self) {
        let next = self.next_alive.min(self.let_go.at);
        let next = self.deadline.map_or(next, |deadline| deadline.min(next));
        self.timer.as_mut().reset(next);
    }

    /// Once the broker drains, the stream ends within [`DRAIN_SPREAD`], spread by chance so that not all workers come back at
    /// once.
    fn notice_drain(&mut self) {
        if self.let_go.reason != Reason::Drain && self.subscription.draining() {
            self.let_go = LetGo {
                at: Instant::now() + DRAIN_SPREAD.mul_f64(chance()),
                reason: Reason::Drain,
            };
            self.rearm();
        }
    }

    /// What the timer brought up. `None`: it fired early.
    fn timed(&mut self) -> Option<Result<M, Status>> {
        let now = Instant::now();
        if self.let_go.at <= now {
            let reason = self.let_go.reason;
            self.stage = match reason {
                Reason::Drain => Stage::Drained,
                _ => Stage::Ended,
            };
            return Some(self.say(Event::Detached(v1::Detached {
                reason: reason.into(),
                retry_delay: Some(convert::to_duration(Duration::ZERO)),
            })));
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.stage = Stage::Ended;
            return Some(Err(status::deadline_exceeded()));
        }
        if self.next_alive <= now {
            self.next_alive = now + self.alive_interval;
            self.rearm();
            let time_left = self.subscription.time_left();
            return Some(self.say(Event::Alive(v1::Alive {
                time_left: Some(convert::to_duration(time_left)),
            })));
        }
        self.rearm();
        None
    }

    fn last(&mut self, outcome: &Arc<Outcome>) -> Result<M, Status> {
        self.stage = Stage::Ended;
        self.say(Event::Outcome(convert::outcome(
            self.subscription.id(),
            outcome,
        )))
    }

    fn say(&self, event: Event) -> Result<M, Status> {
        Ok((self.wrap)(v1::WaitEvent { event: Some(event) }))
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<M, Status>>> {
        match &mut self.stage {
            Stage::Begin(opened) => {
                let opened = std::mem::take(&mut **opened);
                self.stage = Stage::Listening;
                return Poll::Ready(Some(self.say(Event::Opened(opened))));
            }
            Stage::Drained => {
                self.stage = Stage::Ended;
                return Poll::Ready(Some(Err(status::shutting_down())));
            }
            Stage::Ended => return Poll::Ready(None),
            Stage::Listening => {}
        }
        match self.subscription.poll_news(cx, self.told) {
            Poll::Ready(News::Outcome(outcome)) => return Poll::Ready(Some(self.last(&outcome))),
            Poll::Ready(News::Part(part)) => {
                self.told = part.progress.decided;
                let progress = answer::progress(Some(&part.decided), part.progress);
                return Poll::Ready(Some(self.say(Event::Progress(progress))));
            }
            Poll::Pending => {}
        }
        self.notice_drain();
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if let Some(event) = self.timed() {
                return Poll::Ready(Some(event));
            }
        }
    }
}

/// How long a drain takes to end all streams.
const DRAIN_SPREAD: Duration = Duration::from_secs(1);

impl<M> Stream for WaitStream<M> {
    type Item = Result<M, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(cx)
    }
}

impl<M> fmt::Debug for WaitStream<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitStream")
            .field("wait_id", &self.subscription.id())
            .finish_non_exhaustive()
    }
}
