//! Forms, as whoever fills them in reads them.

use super::{page::Page, schema};
use crate::{
    cli::{json::pretty, way::Way},
    client::{Form, State, WaitInfo},
};

/// Adds what the form asks and what fits it.
pub(super) fn describe(page: &mut Page, wait: &WaitInfo, form: &Form, way: &Way) {
    if !form.message.is_empty() {
        page.words("message", &form.message);
    }
    if let Some(payload) = &form.payload_json {
        page.json("payload", &pretty(payload));
    }
    match &form.response_schema_json {
        None => page.row("wanted", "any JSON"),
        Some(json) => {
            let told = schema::tell(json);
            page.row("wanted", &told.whole);
            let width = told.fields.iter().map(|(name, _)| name.chars().count());
            let width = width.max().unwrap_or_default();
            for (name, words) in &told.fields {
                page.words("", &format!("  {name:<width$}  {words}"));
            }
            if !told.is_complete {
                page.json("schema", &pretty(json));
            }
        }
    }
    if wait.state == State::Pending {
        page.row("to answer", &format!("{} JSON", way.command("resolve")));
    }
}
