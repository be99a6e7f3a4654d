//! What a watch says, and when.

use std::time::Duration;

use tokio::{sync::mpsc, time::Instant};
use tonic::Status;

use super::{Options, bounds::Bounds, convert, status};
use crate::{
    broker::{Broker, Told, Watch},
    proto::v1::{self, detached::Reason, watch_waits_response::Event},
};

/// Runs one watch until it ends or its client leaves. A task of its own: unlike a held wait, watches are few.
pub(super) struct WatchTask {
    pub(super) broker: Broker,
    pub(super) watch: Watch,
    pub(super) bounds: Bounds,
    pub(super) options: Options,
    /// Small: what the watcher has not read yet waits in the store, not here.
    pub(super) out: mpsc::Sender<Result<v1::WatchWaitsResponse, Status>>,
}

impl WatchTask {
    pub(super) async fn run(mut self) {
        let let_go = tokio::time::sleep_until(self.bounds.let_go);
        let deadline = sleep_until(self.bounds.deadline);
        let drain = self.broker.drain().clone();
        let out = self.out.clone();
        let last = tokio::select! {
            last = self.tell() => last,
            () = let_go => Some((Reason::Lifetime, None)),
            () = drain.wait() => Some((Reason::Drain, Some(status::shutting_down()))),
            () = deadline => {
                // It fails only if the client is gone.
                let _ = out.send(Err(status::deadline_exceeded())).await;
                return;
            }
            () = out.closed() => return,
        };
        let Some((reason, status)) = last else { return };
        let detached = v1::Detached {
            reason: reason.into(),
            retry_delay: Some(convert::to_duration(Duration::ZERO)),
        };
        if out
            .send(Ok(response(Event::Detached(detached))))
            .await
            .is_ok()
            && let Some(status) = status
        {
            let _ = out.send(Err(status)).await;
        }
    }

    /// Tells until the watch must end. `None`: everything is said.
    async fn tell(&mut self) -> Option<(Reason, Option<Status>)> {
        let interval = self.options.alive_interval;
        let mut alive = tokio::time::interval_at(Instant::now() + interval, interval);
        loop {
            let told = {
                // `next` is not cancel safe, so it is finished whatever else happens.
                let next = self.watch.next();
                tokio::pin!(next);
                loop {
                    tokio::select! {
                        told = &mut next => break told,
                        _ = alive.tick() => {
                            let alive = v1::WatchAlive {
                                alive_interval: Some(convert::to_duration(interval)),
                            };
                            self.out.send(Ok(response(Event::Alive(alive)))).await.ok()?;
                        }
                    }
                }
            };
            let event = match told {
                Ok(Told::Wait(wait)) => Event::Wait(convert::summary(&wait)),
                Ok(Told::Synced) => Event::Synced(v1::Synced {}),
                Ok(Told::Lagged) => return Some((Reason::Lagged, None)),
                Err(error) => {
                    let _ = self.out.send(Err(error.into())).await;
                    return None;
                }
            };
            self.out.send(Ok(response(event))).await.ok()?;
        }
    }
}

fn response(event: Event) -> v1::WatchWaitsResponse {
    v1::WatchWaitsResponse { event: Some(event) }
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
