//! A question whose answer must fit a JSON Schema: what `RequestInput` of Google ADK asks.

use crate::domain::{
    json::{JsonText, same_if_any},
    limits::Description,
};

/// A form. Its schema is compiled outside the rules, which would otherwise do so inside a store's transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// What is asked, for people.
    pub message: Description,
    /// What the answer is about.
    pub payload: Option<JsonText>,
    /// What an answer must fit. None: any JSON fits.
    pub schema: Option<JsonText>,
}

impl Form {
    /// Whether two forms are the same: the same message, and the same values in payload and schema.
    pub fn same(&self, other: &Self) -> bool {
        self.message == other.message
            && same_if_any(self.payload.as_ref(), other.payload.as_ref())
            && same_if_any(self.schema.as_ref(), other.schema.as_ref())
    }

    /// How many bytes its texts have.
    pub fn bytes(&self) -> usize {
        let json = [&self.payload, &self.schema];
        let json = json.into_iter().flatten().map(|json| json.as_str().len());
        self.message.as_str().len() + json.sum::<usize>()
    }
}
