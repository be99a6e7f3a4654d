//! A wait that is attached to.

use tokio::{sync::watch, task::AbortHandle};

use super::{
    attached::{self, Beginning, Progress, Stream, Told},
    calls::Client,
    decided::Decided,
    error::Error,
    options::OpenOptions,
    outcome::Outcome,
    token::Token,
    types::Opened,
};
use crate::proto::v1::{self, attach_request::Target};

/// A wait that is attached to, through cuts and restarts of the broker, until its outcome.
///
/// A task of its own reads its streams and attaches again by itself: with full jitter after a cut, at once after the planned
/// end of a stream. A stream on which no sign of life arrives for twice the period that the broker named is dead and is given
/// up.
///
/// Dropping it detaches and nothing more: the wait stays as it is. To withdraw it, call [`Client::cancel`].
#[derive(Debug)]
pub struct Wait {
    opened: Opened,
    progress: watch::Receiver<Progress>,
    decided: watch::Receiver<Option<Decided>>,
    task: AbortHandle,
}

impl Wait {
    fn follow(client: Client, stream: Stream) -> Self {
        let opened = stream.opened.clone();
        let (tell_progress, progress) = watch::channel(Progress::new());
        let (tell_decided, decided) = watch::channel(None);
        let told = Told {
            progress: tell_progress,
            decided: tell_decided,
        };
        let task = tokio::spawn(attached::follow(client, stream, told)).abort_handle();
        Self {
            opened,
            progress,
            decided,
            task,
        }
    }

    /// The wait's token.
    pub fn token(&self) -> &Token {
        &self.opened.token
    }

    /// The wait's public name.
    pub fn wait_id(&self) -> &str {
        &self.opened.wait_id
    }

    /// What the wait was when it was first attached to.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Waits for the outcome. May be called any number of times, and gives the same each time.
    ///
    /// # Errors
    /// [`Error::Refused`] if the broker no longer knows the wait; [`Error::Protocol`]. A broker that cannot be reached is no
    /// error here: the wait goes on.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is lost, and the wait stays attached.
    pub async fn outcome(&self) -> Result<Outcome, Error> {
        let mut progress = self.progress.clone();
        match progress.wait_for(|p| p.result.is_some()).await {
            Ok(progress) => progress.result.clone().unwrap_or(Err(Error::Stopped)),
            Err(_) => Err(Error::Stopped),
        }
    }

    /// How the following of the wait is going: a receiver that sees each change, for a display of it.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Which of the wait's tool calls are decided so far: a receiver that holds what is known now and sees each change. `None`
    /// before the broker tells of a decision, and for other questions. It only grows, through cuts too; what is decided last may
    /// be told by the outcome alone, after which there are no more changes.
    ///
    /// ```no_run
    /// # async fn show(wait: &abeyance::client::Wait) {
    /// let mut decided = wait.decided();
    /// while decided.changed().await.is_ok() {
    ///     if let Some(decided) = &*decided.borrow_and_update() {
    ///         println!("{} calls are still open", decided.pending_calls);
    ///     }
    /// }
    /// # }
    /// ```
    pub fn decided(&self) -> watch::Receiver<Option<Decided>> {
        self.decided.clone()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Client {
    /// Opens a wait, or re-opens it by its key, and stays attached. Returns once the wait is durable; the outcome may be there
    /// already.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// As for [`Client::open`].
    ///
    /// # Cancel safety
    /// If it is dropped the wait may have been opened or not; with a key it can be opened again, without one it is lost and runs
    /// until its timeout.
    pub async fn wait(&self, name: &str, options: OpenOptions) -> Result<Wait, Error> {
        self.wait_request(options.request(name)).await
    }

    pub(super) async fn wait_request(&self, request: v1::WaitRequest) -> Result<Wait, Error> {
        let stream = self
            .begin_patiently(&Beginning::Wait(Box::new(request)))
            .await?;
        Ok(Wait::follow(self.clone(), stream))
    }

    /// Attaches to a wait by its token, in any state. Never opens one.
    ///
    /// # Errors
    /// [`Error::Refused`] with `TOKEN_UNKNOWN` or `WAIT_PURGED`; [`Error::Unavailable`].
    pub async fn attach(&self, token: &Token) -> Result<Wait, Error> {
        self.attach_to(Target::Token(token.expose().to_owned()))
            .await
    }

    /// Attaches to a wait by its namespace (empty: `default`) and key, in any state. Never opens one.
    ///
    /// # Errors
    /// [`Error::Refused`] with `WAIT_UNKNOWN` or `WAIT_PURGED`; [`Error::Unavailable`].
    pub async fn attach_by_key(&self, namespace: &str, key: &str) -> Result<Wait, Error> {
        self.attach_to(Target::Key(v1::WaitKey {
            namespace: namespace.to_owned(),
            key: key.to_owned(),
        }))
        .await
    }

    async fn attach_to(&self, target: Target) -> Result<Wait, Error> {
        let stream = self.begin_patiently(&Beginning::Attach(target)).await?;
        Ok(Wait::follow(self.clone(), stream))
    }
}
