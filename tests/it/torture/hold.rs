//! A worker that stays attached: opens, is cut, comes back by another way, and leaves with the outcome.

use std::{sync::Arc, time::Duration};

use abeyance::proto::v1::{self, wait_event::Event as WaitEvent};
use tokio::time::timeout;
use tonic::Streaming;

use super::{
    history::{Began, Seen},
    load::Load,
    process::BOUND,
    rng::Rng,
    wire::{Case, Line, Lost},
};

/// Stays attached until the outcome, whatever is cut. Opens the wait if nobody did, and tells [`Case::handed_on`].
pub async fn hold(load: Arc<Load>, case: Arc<Case>, rng: Rng) {
    stay(load, &case, rng).await;
    // If it could not be opened, nobody waits for that any more.
    case.handed_on.notify_one();
}

async fn stay(load: Arc<Load>, case: &Arc<Case>, mut rng: Rng) {
    loop {
        load.is_up().await;
        let line = load.line(&mut rng).clone();
        let handed_on = case.token().is_some();
        let keyed = !case.spec.key.is_empty();
        let way = rng.below(3);
        let end = if !handed_on || way == 0 {
            let request = v1::WaitRequest {
                spec: Some(case.spec.clone()),
                request_id: case.request_id.clone(),
            };
            let mut client = line.waits.clone();
            let call = line.call(case, client.wait(request)).await;
            attached(&load, &line, case, &mut rng, call).await
        } else {
            let request = Line::target(case, keyed && way == 1);
            let mut client = line.waits.clone();
            let call = line.call(case, client.attach(request)).await;
            attached(&load, &line, case, &mut rng, call).await
        };
        match end {
            End::Over => return,
            End::Again => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

enum End {
    /// The outcome was told, or a fault was written down.
    Over,
    /// The stream ended without an outcome: attach again.
    Again,
}

/// The message of either stream.
trait Message {
    fn into_event(self) -> Option<WaitEvent>;
}

impl Message for v1::WaitResponse {
    fn into_event(self) -> Option<WaitEvent> {
        self.event?.event
    }
}

impl Message for v1::AttachResponse {
    fn into_event(self) -> Option<WaitEvent> {
        self.event?.event
    }
}

async fn attached<M: Message>(
    load: &Arc<Load>,
    line: &Line,
    case: &Arc<Case>,
    rng: &mut Rng,
    call: Result<(Began, Streaming<M>), Lost>,
) -> End {
    let (began, mut stream) = match call {
        Ok(attached) => attached,
        Err(Lost::Cut) => return End::Again,
        Err(Lost::Answered) => return End::Over,
    };
    // The first event comes at once: the present state.
    let first = timeout(BOUND, stream.message()).await;
    match first {
        Ok(Ok(Some(message))) => match message.into_event() {
            Some(WaitEvent::Opened(opened)) => {
                let is_first = case.token().is_none();
                line.opened(case, began, &opened);
                if is_first {
                    load.hand_on(case, rng).await;
                    case.handed_on.notify_one();
                }
            }
            _ => {
                return fault(
                    line,
                    case,
                    began,
                    "a stream that does not begin with `opened`",
                );
            }
        },
        Ok(Ok(None)) => return fault(line, case, began, "a stream without events"),
        Ok(Err(status)) => return again_after(line, case, began, &status),
        Err(_) => {
            let seen = Seen::Hung(format!("no first event within {BOUND:?}"));
            line.history.saw(case.number, began, seen);
            return End::Over;
        }
    }
    if rng.chance(10) {
        // A worker that crashes: the stream is dropped unread.
        return End::Again;
    }
    until_outcome(line, case, began, stream).await
}

async fn until_outcome<M: Message>(
    line: &Line,
    case: &Case,
    began: Began,
    mut stream: Streaming<M>,
) -> End {
    loop {
        match stream.message().await {
            Ok(Some(message)) => match message.into_event() {
                Some(WaitEvent::Outcome(outcome)) => {
                    line.told(case, began, &outcome);
                    return read_to_the_end(line, case, began, stream).await;
                }
                Some(WaitEvent::Opened(_)) => return fault(line, case, began, "opened twice"),
                Some(WaitEvent::Detached(_)) => return End::Again,
                Some(WaitEvent::Alive(_) | WaitEvent::Progress(_)) | None => {}
            },
            Ok(None) => return End::Again,
            Err(status) => return again_after(line, case, began, &status),
        }
    }
}

/// Nothing follows an outcome but the end, or a cut.
async fn read_to_the_end<M>(
    line: &Line,
    case: &Case,
    began: Began,
    mut stream: Streaming<M>,
) -> End {
    match timeout(BOUND, stream.message()).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(_))) => drop(line.unexpected(case, began, "an event after the outcome")),
        Ok(Err(status)) => drop(line.judge(case, began, None, &status)),
        Err(_) => drop(line.unexpected(case, began, "no end after the outcome")),
    }
    End::Over
}

fn again_after(line: &Line, case: &Case, began: Began, status: &tonic::Status) -> End {
    match line.judge(case, began, None, status) {
        Lost::Cut => End::Again,
        Lost::Answered => End::Over,
    }
}

fn fault(line: &Line, case: &Case, began: Began, what: &str) -> End {
    let _ = line.unexpected(case, began, what);
    End::Over
}
