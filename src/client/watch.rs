//! Following the waits that match a filter.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::{Code, Streaming};

use super::{
    calls::{Client, MESSAGE_BYTES},
    convert,
    error::{Error, Refusal},
    inbox::Filter,
    line::Hold,
    types::WaitInfo,
};
use crate::proto::v1::{
    self, inbox_service_client::InboxServiceClient, watch_waits_response::Event,
};

/// How long a watch may be silent before its broker has named the period of its signs of life.
const FIRST_SILENCE: Duration = Duration::from_secs(50);

/// One thing that a watch tells.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchEvent {
    /// A watch begins, for the first time or again after a cut: all waits that match are told anew. Of those told before,
    /// what is not told again before the next [`WatchEvent::Synced`] matches no longer.
    Began,
    /// The latest state of a wait, without question and outcome.
    Wait(Box<WaitInfo>),
    /// All waits that matched when the watch began have been told; what follows are changes.
    Synced,
}

/// A watch that begins again by itself after a cut. Made by [`Client::watch`]. Read it steadily: a watcher that falls behind is
/// let go by the broker, and then begins again.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    request: v1::WatchWaitsRequest,
    stream: Option<(Hold, Streaming<v1::WatchWaitsResponse>)>,
    silence: Duration,
    /// Tries since the last event.
    attempt: u32,
    /// Since when there has been no event, until the first one: whoever watches wants to know that there is no broker.
    first_try: Option<Instant>,
    not_before: Instant,
}

impl Client {
    /// Follows the waits that match a filter: first each of them as it is, then each one that changes. A wait that no longer
    /// matches is told once more.
    pub fn watch(&self, filter: &Filter) -> Watch {
        Watch {
            client: self.clone(),
            request: v1::WatchWaitsRequest {
                filter: Some(filter.to_wire()),
            },
            stream: None,
            silence: FIRST_SILENCE,
            attempt: 0,
            first_try: Some(Instant::now()),
            not_before: Instant::now(),
        }
    }
}

impl Watch {
    /// The next event. Never ends by itself.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::Unavailable`] if the broker could not be reached at first. Once a watch has begun it begins
    /// again for as long as it is read.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost. A watch that is about to begin may begin anew.
    pub async fn next(&mut self) -> Result<WatchEvent, Error> {
        loop {
            let Some((hold, stream)) = &mut self.stream else {
                if self.begin().await? {
                    return Ok(WatchEvent::Began);
                }
                continue;
            };
            let refusal = match timeout(self.silence, stream.message()).await {
                Ok(Ok(Some(message))) => match self.take(message)? {
                    Some(event) => return Ok(event),
                    None => continue,
                },
                Ok(Ok(None)) => Refusal::local(Code::Unavailable, "the watch ended"),
                Ok(Err(status)) => status.into(),
                Err(_) => {
                    hold.went_silent();
                    Refusal::local(Code::Unavailable, "no sign of life on the watch")
                }
            };
            let hold = hold.clone();
            self.cut(&hold, refusal)?;
        }
    }

    /// Makes one try to begin, and says whether it went well.
    async fn begin(&mut self) -> Result<bool, Error> {
        tokio::time::sleep_until(self.not_before).await;
        let mut hold = self.client.watches.hold();
        let request = self.request.clone();
        let watch = async |channel| {
            let client = InboxServiceClient::new(channel);
            let mut client = client.max_decoding_message_size(MESSAGE_BYTES);
            client.watch_waits(request).await
        };
        match self.client.bounded(&mut hold, watch).await {
            Ok(response) => {
                self.silence = FIRST_SILENCE;
                self.stream = Some((hold, response.into_inner()));
                Ok(true)
            }
            Err(refusal) => self.cut(&hold, refusal).map(|()| false),
        }
    }

    fn take(&mut self, message: v1::WatchWaitsResponse) -> Result<Option<WatchEvent>, Error> {
        self.first_try = None;
        match message.event {
            Some(Event::Wait(wait)) => {
                self.attempt = 0;
                Ok(Some(WatchEvent::Wait(Box::new(convert::info(Some(wait))?))))
            }
            Some(Event::Synced(_)) => {
                self.attempt = 0;
                Ok(Some(WatchEvent::Synced))
            }
            Some(Event::Alive(alive)) => {
                let interval = convert::length(alive.alive_interval);
                if !interval.is_zero() {
                    self.silence = 2 * interval;
                }
                Ok(None)
            }
            // The end of the stream follows at once, and begins the watch again.
            Some(Event::Detached(detached)) => {
                self.not_before = Instant::now() + convert::length(detached.retry_delay);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn cut(&mut self, hold: &Hold, refusal: Refusal) -> Result<(), Error> {
        self.stream = None;
        let patience = self.client.settings.patience;
        let (begun, patience) = match self.first_try {
            Some(begun) => (begun, Some(patience)),
            None => (Instant::now(), None),
        };
        let delay = self
            .client
            .next_try(hold, refusal, &mut self.attempt, begun, patience)?;
        self.not_before = self.not_before.max(Instant::now() + delay);
        Ok(())
    }
}
