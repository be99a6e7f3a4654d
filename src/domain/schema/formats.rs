//! Formats that a draft defines and the validator passes over.

use referencing::Draft;
use serde_json::{Map, Value};

/// Says why the format of `schema` is not taken: it would be taken for an annotation, though its draft defines it.
///
/// Formats that no draft defines, or only a later one, are annotations to the validator as well, as the drafts have it.
pub(super) fn ignored(schema: &Map<String, Value>, draft: Draft) -> Option<String> {
    let format = schema.get("format")?.as_str()?;
    // The validator checks them with its feature `idna` alone, which brings large tables.
    let ignored = matches!(format, "idn-email" | "idn-hostname") && draft >= Draft::Draft7;
    ignored.then(|| {
        format!(
            "is {format}, which is not checked here; leave it out, or use a pattern. Checked are date, date-time, duration, \
             email, hostname, ipv4, ipv6, iri, iri-reference, json-pointer, regex, relative-json-pointer, time, uri, \
             uri-reference, uri-template and uuid"
        )
    })
}
