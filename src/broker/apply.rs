//! Commands on a wait: the one way to change it.

use super::{Broker, Error};
use crate::domain::{Command, Question, Record, Submission, Verdict, WaitId};

impl Broker {
    /// Decides a command on the wait of a token: the only way to settle one. Gives the record as it is now.
    ///
    /// # Errors
    /// What the rules refuse, and what the store fails with.
    ///
    /// # Cancel safety
    /// The command may be carried out, and then whoever waits is told, even if the future is dropped.
    pub async fn apply(&self, token: &str, command: Command) -> Result<(Record, Verdict), Error> {
        self.apply_to(self.verify(token)?, command).await
    }

    /// Reads a token and gives the wait it is for, without a look at the store.
    ///
    /// # Errors
    /// A token that was never given out.
    pub fn verify(&self, token: &str) -> Result<WaitId, Error> {
        Ok(self.0.keys.verify(token)?)
    }

    /// Decides a command on a wait whose token was verified. All else as for [`Broker::apply`].
    pub async fn apply_to(&self, id: WaitId, command: Command) -> Result<(Record, Verdict), Error> {
        let command = match command {
            Command::Resolve(submission) => return self.resolve(id, submission).await,
            Command::SetQuestion(question) => {
                let checked = self.check_question("question", Some(&question));
                Box::pin(checked).await?;
                Command::SetQuestion(question)
            }
            command => command,
        };
        self.decide(id, command).await
    }

    /// Most answers are judged by the rules alone. One to a form comes back unjudged, is held against its schema here, where it keeps
    /// nobody waiting, and is put to the rules again.
    async fn resolve(
        &self,
        id: WaitId,
        submission: Box<Submission>,
    ) -> Result<(Record, Verdict), Error> {
        let submission = Submission {
            fits_form: self.0.forms.surely_fits(id, &submission),
            ..*submission
        };
        let (record, verdict) = self
            .decide(id, Command::Resolve(Box::new(submission.clone())))
            .await?;
        if verdict != Verdict::CheckForm {
            return Ok((record, verdict));
        }
        Box::pin(self.0.forms.check(&record, &submission)).await?;
        let submission = Submission {
            fits_form: true,
            ..submission
        };
        self.decide(id, Command::Resolve(Box::new(submission)))
            .await
    }

    async fn decide(&self, id: WaitId, command: Command) -> Result<(Record, Verdict), Error> {
        let applied = self.0.store.apply(id, command).await?;
        let applied = applied.ok_or_else(|| self.missing(id))?;
        let (record, verdict) = (applied.record, applied.verdict?);
        // A repeat wakes again: perhaps the first wake was lost.
        if verdict == Verdict::Repeat {
            match &record.outcome {
                Some(outcome) => self.0.hub.registry.publish(id, outcome),
                None => self.0.hub.registry.publish_part(&record),
            }
        }
        Ok((record, verdict))
    }

    /// Compiles the schema of a form, so that nobody waits for an answer that can never be judged. `field` is where it came from.
    pub(super) async fn check_question(
        &self,
        field: &str,
        question: Option<&Question>,
    ) -> Result<(), Error> {
        if let Some(Question::Form(form)) = question
            && let Some(schema) = &form.schema
        {
            let field = format!("{field}.form.response_schema_json");
            Box::pin(self.0.forms.compile(&field, schema)).await?;
        }
        Ok(())
    }
}
