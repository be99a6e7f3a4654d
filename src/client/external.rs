//! Waiting for an event from outside: ask, and use what was answered.

use std::{error::Error as StdError, fmt};

use super::{
    answer::Answer,
    calls::Client,
    error::{Error, WaitError},
    options::OpenOptions,
    outcome::{Outcome, Verdict},
    results::DeferredToolResults,
    token::Token,
    types::State,
    wait::Wait,
};
use crate::proto::v1;

/// What an ask is given, to hand on to whoever can answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ticket {
    /// The bearer credential of the wait. The same each time the same wait is asked, so an ask should be keyed on it.
    pub token: Token,
    /// The wait's public name.
    pub wait_id: String,
}

/// What became of an ask.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ask {
    /// Question and token were handed on; somebody will answer.
    HandedOn,
    /// The answer is known already: JSON text. It is recorded like anybody else's; if somebody was faster, theirs counts.
    Answer(String),
    /// Decisions on the wait's tool calls, all of them, are known already. Recorded in the same way; calls that somebody else
    /// decided meanwhile are left out. To decide only some and hand on the rest, call [`Client::decide`] and return
    /// [`Ask::HandedOn`].
    Results(DeferredToolResults),
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HandedOn => "HandedOn",
            Self::Answer(_) => "Answer(..)",
            Self::Results(_) => "Results(..)",
        })
    }
}

impl Client {
    /// Opens a wait, asks, and returns the answer as JSON text, byte for byte as it was given.
    ///
    /// `ask` is called once with the wait's [`Ticket`] and runs beside the open stream: an outcome that arrives meanwhile drops
    /// it. It is not called for a wait that was asked before, or that is settled. What it returns:
    /// - [`Ask::HandedOn`]: the wait is marked asked, and the answer is awaited.
    /// - [`Ask::Answer`] and [`Ask::Results`]: the answer is recorded, and the recorded one is returned.
    /// - an error: a wait without a key is cancelled; one with a key stays open and not asked, so that running again asks again.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// [`WaitError`]: failed, expired and cancelled each by its own name. Nothing but an answer is ever returned as one.
    ///
    /// # Cancel safety
    /// If it is dropped, a wait with a key lives on, and calling again with the same key, name and question continues it. A wait
    /// without a key is cancelled, by a task that the runtime must live long enough to run.
    pub async fn wait_for_external_event<F, A, E>(
        &self,
        name: &str,
        ask: F,
        options: OpenOptions,
    ) -> Result<String, WaitError>
    where
        F: FnOnce(Ticket) -> A,
        A: Future<Output = Result<Ask, E>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.wait_asking(name, ask, options).await?.into_answer()
    }

    /// Opens a wait, asks, and returns its outcome, whatever it is.
    pub(super) async fn wait_asking<F, A, E>(
        &self,
        name: &str,
        ask: F,
        options: OpenOptions,
    ) -> Result<Outcome, WaitError>
    where
        F: FnOnce(Ticket) -> A,
        A: Future<Output = Result<Ask, E>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let keyed = options.is_keyed();
        let request = options.request(name);
        let mut guard = Guard::new(self, (!keyed).then(|| request.clone()));
        let wait = match self.wait_request(request).await {
            Ok(wait) => guard.attached(wait),
            Err(error) => {
                guard.disarm();
                return Err(error.into());
            }
        };
        if let Err(error) = self.ask(wait, ask).await {
            if keyed {
                return Err(error);
            }
            let cancelled = self.cancel(wait.token(), "The ask failed.").await;
            guard.disarm();
            // An answer that was recorded before the ask failed counts like one that cut it short.
            return match cancelled {
                Ok(outcome) if !matches!(outcome.verdict, Verdict::Cancelled { .. }) => Ok(outcome),
                _ => Err(error),
            };
        }
        let outcome = wait.outcome().await;
        guard.disarm();
        Ok(outcome?)
    }

    /// Asks for a wait that is attached to, unless it was asked before or is settled; marks it asked, or records the answer.
    /// Returns once that is done or the outcome has arrived. The part of [`Client::wait_for_external_event`] between opening
    /// and waiting, for those who do these themselves; it cancels nothing.
    ///
    /// # Errors
    /// [`WaitError::Ask`] if `ask` failed; [`WaitError::Client`] if its answer was refused, for example since it is not JSON
    /// or does not fit the question.
    pub async fn ask<F, A, E>(&self, wait: &Wait, ask: F) -> Result<(), WaitError>
    where
        F: FnOnce(Ticket) -> A,
        A: Future<Output = Result<Ask, E>>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let opened = wait.opened();
        // Opened tells nothing of the state, and the outcome of a settled wait is the event after it: nobody must be asked in
        // between. A wait that this call created is pending.
        if opened.asked
            || (opened.resumed && self.describe(wait.token()).await?.state != State::Pending)
        {
            return Ok(());
        }
        let ticket = Ticket {
            token: wait.token().clone(),
            wait_id: wait.wait_id().to_owned(),
        };
        let asked = async {
            match ask(ticket).await.map_err(|e| WaitError::Ask(e.into()))? {
                Ask::HandedOn => self.mark_asked_at_last(wait.token()).await?,
                Ask::Answer(json) => self.answer(wait.token(), json.into()).await?,
                Ask::Results(results) => self.answer(wait.token(), results.into()).await?,
            }
            Ok(())
        };
        tokio::select! {
            biased;
            _ = wait.outcome() => Ok(()),
            result = asked => result,
        }
    }

    async fn answer(&self, token: &Token, mut answer: Answer) -> Result<(), Error> {
        // Each turn but the last takes a call out of the answer.
        loop {
            let error = match self.resolve(token, answer.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            match error.reason() {
                // Somebody was faster: the stream brings their outcome.
                Some("ALREADY_SETTLED") => return Ok(()),
                // Faster with one call: theirs counts, and the answer is still needed for the others.
                Some("ALREADY_DECIDED")
                    if answer.forget(error.metadata("tool_call_id").unwrap_or_default()) => {}
                _ => return Err(error),
            }
        }
    }
}

/// Holds a wait without a key on behalf of a future, and cancels it when that future is dropped.
struct Guard<'a> {
    client: &'a Client,
    /// How to find the wait again while it is being opened. `None` for a wait with a key, which is never cancelled.
    request: Option<v1::WaitRequest>,
    wait: Option<Wait>,
}

impl<'a> Guard<'a> {
    fn new(client: &'a Client, request: Option<v1::WaitRequest>) -> Self {
        Self {
            client,
            request,
            wait: None,
        }
    }

    fn attached(&mut self, wait: Wait) -> &Wait {
        self.wait.insert(wait)
    }

    fn disarm(&mut self) {
        self.request = None;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let (Some(request), Ok(runtime)) =
            (self.request.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let (client, wait) = (self.client.clone(), self.wait.take());
        // Detached, since a drop cannot wait. Bounded by the client's patience.
        runtime.spawn(async move {
            if let Err(error) = withdraw(&client, request, wait).await {
                tracing::debug!(%error, "a wait whose task was dropped could not be cancelled");
            }
        });
    }
}

async fn withdraw(
    client: &Client,
    request: v1::WaitRequest,
    wait: Option<Wait>,
) -> Result<(), Error> {
    const REASON: &str = "The worker's task was cancelled.";
    match wait {
        Some(wait) => {
            client.cancel(wait.token(), REASON).await?;
            // The stream brings the outcome and ends, so that it need not be reset.
            let end = tokio::time::timeout(client.settings.attempt_timeout, wait.outcome());
            let _ = end.await;
        }
        // Dropped while it was being opened: the request id finds the wait, or makes one that ends at once.
        None => {
            let opened = client.open_request(request).await?.opened;
            client.cancel(&opened.token, REASON).await?;
        }
    }
    Ok(())
}
