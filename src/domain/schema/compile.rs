//! From a schema's text to a validator: everything is bounded before the validator's own compiler sees it.

use jsonschema::{PatternOptions, ValidationError, error::ValidationErrorKind as Kind, uri};
use referencing::{Draft, Registry};
use serde_json::Value;

use super::{
    Compiled, Fault, MAX_FAULTS, MAX_SCHEMA_BYTES,
    cost::{self, MAX_EVALUATIONS, Unbounded},
    graph::{Graph, NOT_FOUND},
    pattern,
    places::Places,
    size::{self, Size},
    unique, words,
};

/// The base of a schema without `$id`, as the validator names it. No reference can lead out to it.
const NO_ID: &str = "json-schema:///";

pub(super) fn compile(text: &str) -> Result<Compiled, Vec<Fault>> {
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(root(format!(
            "is {} bytes long; at most {MAX_SCHEMA_BYTES} are taken",
            text.len()
        )));
    }
    let source: Value = serde_json::from_str(text).map_err(|_| root("is not valid JSON"))?;
    if !source.is_object() && !source.is_boolean() {
        return Err(root("is not a schema; an object, true or false is wanted"));
    }
    let draft = Draft::default().detect(&source);
    if draft == Draft::Unknown {
        let description = "is not a dialect that is known; use for example \
                           https://json-schema.org/draft/2020-12/schema";
        return Err(vec![Fault::new("[\"$schema\"]", description)]);
    }
    let (places, graph) = graph(&source, draft)?;
    let costs = cost::costs(&graph).map_err(|unbounded| tell(&unbounded, &places, &graph))?;
    let size = Size::of(&source, text.len(), &graph, &costs);
    if size.bytes(1) > size::MAX_BYTES {
        return Err(root(format!(
            "would take {} bytes of memory once it is compiled, {} of them for its patterns; at most {} are taken",
            size.bytes(1),
            size.patterns(),
            size::MAX_BYTES
        )));
    }
    // Compiling takes memory of its own.
    drop((places, graph));
    let options = PatternOptions::regex()
        .size_limit(size::PATTERN)
        .dfa_size_limit(size::STATES);
    let validator = jsonschema::options()
        .offline()
        .with_pattern_options(options)
        .with_keyword("uniqueItems", unique::keyword)
        .should_validate_formats(true)
        .build(&source)
        .map_err(|error| invalid(&error, &source))?;
    Ok(Compiled {
        source,
        validator,
        costs,
        size,
    })
}

fn root(description: impl Into<String>) -> Vec<Fault> {
    vec![Fault::new("", description)]
}

/// Resolves every reference, with the validator's own registry, in which there is nothing but the schema itself and the
/// known meta-schemas.
fn graph<'a>(source: &'a Value, draft: Draft) -> Result<(Places<'a>, Graph), Vec<Fault>> {
    let places = Places::new(source);
    let resource = draft.create_resource_ref(source);
    let id = resource.id().unwrap_or(NO_ID);
    let bad_id = || vec![Fault::new("[\"$id\"]", "is not a URI")];
    let base = uri::from_str(id).map_err(|_| bad_id())?;
    let registry = Registry::new()
        .draft(draft)
        .add(base.as_str(), resource)
        .and_then(|registry| registry.prepare())
        .map_err(|error| unresolved(&error, source, &places))?;
    let graph = Graph::new(source, &places, registry.resolver(base), draft)?;
    Ok((places, graph))
}

/// Names the references that the registry could not find.
fn unresolved(error: &referencing::Error, source: &Value, places: &Places<'_>) -> Vec<Fault> {
    let message = error.to_string();
    let mut all = Vec::new();
    let mut named = Vec::new();
    let mut stack = vec![source];
    while let Some(value) = stack.pop() {
        match value {
            Value::Object(members) => {
                for (keyword, value) in members {
                    stack.push(value);
                    let is_reference =
                        matches!(keyword.as_str(), "$ref" | "$dynamicRef" | "$schema" | "$id");
                    let Some(reference) = value.as_str().filter(|_| is_reference) else {
                        continue;
                    };
                    let document = reference.split('#').next().unwrap_or_default();
                    if document.is_empty() {
                        continue;
                    }
                    let place = places
                        .of(value)
                        .map(|at| places.path(at))
                        .unwrap_or_default();
                    if message.contains(document.trim_start_matches("./")) {
                        named.push(place.clone());
                    }
                    all.push(place);
                }
            }
            Value::Array(items) => stack.extend(items),
            _ => {}
        }
    }
    // An `$id` is only at fault if no reference is.
    let is_reference = |path: &&String| !path.ends_with("[\"$id\"]");
    let place = named
        .iter()
        .filter(is_reference)
        .min()
        .or(named.iter().min())
        .or(all.iter().filter(is_reference).min())
        .cloned()
        .unwrap_or_default();
    vec![Fault::new(place, NOT_FOUND)]
}

/// Tells why a schema's work cannot be bounded.
fn tell(unbounded: &Unbounded, places: &Places<'_>, graph: &Graph) -> Vec<Fault> {
    let path = |node: usize| {
        graph
            .nodes
            .get(node)
            .map_or(String::new(), |n| places.path(n.place))
    };
    match unbounded {
        Unbounded::Loop(nodes) => {
            let first = nodes
                .iter()
                .map(|node| path(*node))
                .min()
                .unwrap_or_default();
            vec![Fault::new(
                first,
                "refers back to itself without going into the answer, so a check of it would never end",
            )]
        }
        Unbounded::TooMany(node, times) => vec![Fault::new(
            path(*node),
            format!(
                "is among subschemas that look at one place of an answer {} times, with references written out; at most \
                 {MAX_EVALUATIONS} times are taken",
                if *times == u64::MAX {
                    "endlessly many".to_owned()
                } else {
                    times.to_string()
                }
            ),
        )],
        Unbounded::Intricate => root(
            "refers to itself in so many ways that the work of a check cannot be bounded; make it simpler",
        ),
        Unbounded::Patterns(size) => root(format!(
            "has patterns of {size} places in all with their repetitions written out; at most {} are taken",
            pattern::MAX_TOTAL
        )),
    }
}

/// Tells what the meta-schema, or the validator's compiler, has found.
fn invalid(error: &ValidationError<'static>, source: &Value) -> Vec<Fault> {
    let path = || words::path(error.instance_path().as_str(), source);
    match error.kind() {
        Kind::Referencing(_) => return vec![Fault::new(path(), NOT_FOUND)],
        // Its syntax was good, or it would have been refused before.
        Kind::Format { format } if format == "regex" => {
            return vec![Fault::new(
                path(),
                "is too large a pattern; shorten its repetitions",
            )];
        }
        _ => {}
    }
    let mut faults = words::faults(error, source, &Value::Null);
    faults.truncate(MAX_FAULTS);
    faults
}
