//! Which waits there are.

use std::{collections::BTreeMap, time::Duration};

use super::{
    calls::Client,
    convert,
    error::Error,
    types::{State, WaitInfo},
};
use crate::proto::v1;

/// Which waits. Everything that is set must match.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    namespace: String,
    states: Vec<State>,
    name: String,
    labels: BTreeMap<String, String>,
    min_age: Option<Duration>,
    max_age: Option<Duration>,
}

impl Filter {
    /// All waits of the namespace `default`.
    pub fn new() -> Self {
        Self::default()
    }

    /// The namespace. Default: `default`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Waits in this state; called again, in this one too. Default: in any.
    pub fn state(mut self, state: State) -> Self {
        self.states.push(state);
        self
    }

    /// Waits of exactly this name. Default: of any.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Waits with exactly this label; called again, with that one too.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Waits opened at least this long ago.
    pub fn min_age(mut self, age: Duration) -> Self {
        self.min_age = Some(age);
        self
    }

    /// Waits opened at most this long ago.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    pub(super) fn to_wire(&self) -> v1::WaitFilter {
        v1::WaitFilter {
            namespace: self.namespace.clone(),
            states: self
                .states
                .iter()
                .map(|s| convert::state_to_wire(*s))
                .collect(),
            name: self.name.clone(),
            labels: self.labels.clone(),
            min_age: self.min_age.map(convert::to_wire),
            max_age: self.max_age.map(convert::to_wire),
        }
    }
}

/// The waits that match a filter, newest first, page by page. Made by [`Client::list`].
#[derive(Debug)]
pub struct List {
    client: Client,
    filter: v1::WaitFilter,
    page_size: i32,
    /// `None` when there is no further page.
    page_token: Option<String>,
}

impl Client {
    /// Lists waits, newest first, without question and outcome. Calls the broker page by page, as [`List::next_page`] is
    /// called.
    pub fn list(&self, filter: &Filter) -> List {
        List {
            client: self.clone(),
            filter: filter.to_wire(),
            page_size: 0,
            page_token: Some(String::new()),
        }
    }
}

impl List {
    /// How many waits a page holds at most: the broker's default is 50, its maximum 1000.
    pub fn page_size(mut self, waits: u16) -> Self {
        self.page_size = i32::from(waits);
        self
    }

    /// The next page that is not empty; `None` when there is none left.
    ///
    /// # Errors
    /// [`Error::Refused`] with `INVALID_FIELD`; [`Error::Unavailable`].
    ///
    /// # Cancel safety
    /// Cancel safe: called again it goes on where it was.
    pub async fn next_page(&mut self) -> Result<Option<Vec<WaitInfo>>, Error> {
        while let Some(page_token) = self.page_token.clone() {
            let request = v1::ListWaitsRequest {
                filter: Some(self.filter.clone()),
                page_size: self.page_size,
                page_token,
            };
            let page = self.client.list_page(request).await?;
            let waits = page
                .waits
                .into_iter()
                .map(|w| convert::info(Some(w)))
                .collect::<Result<Vec<_>, _>>()?;
            self.page_token = Some(page.next_page_token).filter(|t| !t.is_empty());
            // The broker bounds the rows it looks at, so an empty page need not be the last one.
            if !waits.is_empty() {
                return Ok(Some(waits));
            }
        }
        Ok(None)
    }
}
