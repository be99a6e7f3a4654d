//! The schema as a graph: every subschema that a check can reach, and what it passes an answer on to.
//!
//! References are resolved by the same code as the validator's, so nothing that it evaluates is missing here.

use std::collections::{HashMap, VecDeque};

use referencing::{Draft, Resolver};
use serde_json::{Map, Value};

use super::{
    Fault, formats,
    pattern::Patterns,
    places::Places,
    weigh::{self, Weight},
};

/// The most subschemas that a check may reach. One that is reached under different `$id`s counts for each.
pub(super) const MAX_NODES: usize = 5_000;

/// How an answer is passed on to another subschema at the same place of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InPlace {
    /// All of them must hold: `allOf`, `then`, `else`, `dependentSchemas`, references.
    Must,
    /// `allOf`'s branches, which `unevaluated…` tries a second time.
    Each,
    /// One of several: `anyOf`, `oneOf`. What fails is checked again to tell why.
    Choice,
    /// Only its verdict counts: `if`, `not`.
    Verdict,
}

/// Which children of an answer go to a subschema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Children {
    /// The property of this name.
    Named(String),
    /// Any property, or its name.
    AnyProperty,
    /// The item at this index.
    At(usize),
    /// Any item.
    AnyItem,
}

/// An edge to a subschema that checks children of the answer.
pub(super) struct Down {
    pub(super) children: Children,
    pub(super) to: usize,
    /// `contains`, `propertyNames` and `unevaluated…`: checked for a verdict and then, maybe, once more.
    pub(super) twice: bool,
}

/// One subschema under one base URI.
#[derive(Default)]
pub(super) struct Node {
    pub(super) weight: Weight,
    pub(super) in_place: Vec<(InPlace, usize)>,
    pub(super) down: Vec<Down>,
    /// Has `unevaluatedProperties` or `unevaluatedItems`, which find out by trying what the others evaluated.
    pub(super) unevaluated: bool,
    /// Its place in the schema.
    pub(super) place: usize,
}

/// All subschemas that a check can reach. The first is the root.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) patterns: Patterns,
}

impl Graph {
    /// Walks from the root, breadth first and without recursion.
    pub(super) fn new<'a>(
        schema: &'a Value,
        places: &Places<'a>,
        root: Resolver<'a>,
        draft: Draft,
    ) -> Result<Self, Vec<Fault>> {
        let mut walk = Walk {
            places,
            nodes: Vec::new(),
            patterns: Patterns::default(),
            known: HashMap::new(),
            queue: VecDeque::new(),
            faults: Vec::new(),
        };
        walk.reach(schema, root, draft);
        while let Some(task) = walk.queue.pop_front() {
            walk.visit(&task);
            if walk.nodes.len() > MAX_NODES {
                return Err(vec![Fault::new(
                    "",
                    format!("reaches more than {MAX_NODES} subschemas; split the form"),
                )]);
            }
            if walk.faults.len() >= super::MAX_FAULTS {
                break;
            }
        }
        if walk.faults.is_empty() {
            Ok(Self {
                nodes: walk.nodes,
                patterns: walk.patterns,
            })
        } else {
            Err(walk.faults)
        }
    }
}

struct Task<'a> {
    node: usize,
    schema: &'a Map<String, Value>,
    resolver: Resolver<'a>,
    draft: Draft,
}

struct Walk<'a, 'p> {
    places: &'p Places<'a>,
    nodes: Vec<Node>,
    patterns: Patterns,
    /// By place and dynamic scope, as the validator tells them apart.
    known: HashMap<(usize, String), usize>,
    queue: VecDeque<Task<'a>>,
    faults: Vec<Fault>,
}

impl<'a> Walk<'a, '_> {
    /// The node of a subschema that stands within another one, whose `$id` it may refine.
    fn child(&mut self, schema: &'a Value, task: &Task<'a>) -> Option<usize> {
        let place = self.places.of(schema)?;
        let draft = task.draft.detect(schema);
        match task
            .resolver
            .in_subresource(draft.create_resource_ref(schema))
        {
            Ok(resolver) => self.reach(schema, resolver, draft),
            Err(_) => {
                self.fault(place, None, "has an $id that is not a URI".to_owned());
                None
            }
        }
    }

    /// The node of a subschema whose `resolver` is based at it, queued when it is new.
    fn reach(&mut self, schema: &'a Value, resolver: Resolver<'a>, draft: Draft) -> Option<usize> {
        let place = self.places.of(schema)?;
        if !schema.is_object() && !schema.is_boolean() {
            // The meta-schema refuses it.
            return None;
        }
        let key = (place, scope(&resolver));
        if let Some(&node) = self.known.get(&key) {
            return Some(node);
        }
        let node = self.nodes.len();
        self.known.insert(key, node);
        self.nodes.push(Node {
            place,
            weight: Weight::ONE,
            ..Node::default()
        });
        if let Value::Object(schema) = schema {
            self.queue.push_back(Task {
                node,
                schema,
                resolver,
                draft,
            });
        }
        Some(node)
    }

    fn visit(&mut self, task: &Task<'a>) {
        let place = self.nodes[task.node].place;
        if task.schema.contains_key("$schema") && task.draft == Draft::Unknown {
            let fault = "is not a dialect that is known; use for example \
                         https://json-schema.org/draft/2020-12/schema";
            self.fault(place, Some("$schema"), fault.to_owned());
        }
        if let Some(fault) = formats::ignored(task.schema, task.draft) {
            self.fault(place, Some("format"), fault);
        }
        match weigh::weigh(task.schema, &mut self.patterns) {
            Ok(weight) => self.nodes[task.node].weight = weight,
            Err(faults) => {
                for (step, fault) in faults {
                    self.fault(place, Some(step), fault);
                }
            }
        }
        for (keyword, value) in task.schema {
            self.keyword(task, keyword, value);
        }
    }

    fn keyword(&mut self, task: &Task<'a>, keyword: &str, value: &'a Value) {
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => self.reference(task, keyword, value),
            "allOf" => self.each_in_place(task, value, InPlace::Each),
            "anyOf" | "oneOf" => self.each_in_place(task, value, InPlace::Choice),
            "if" | "not" => self.in_place(task, value, InPlace::Verdict),
            "then" | "else" => self.in_place(task, value, InPlace::Must),
            "dependentSchemas" | "dependencies" => {
                for schema in value.as_object().into_iter().flat_map(Map::values) {
                    self.in_place(task, schema, InPlace::Must);
                }
            }
            "properties" => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    self.down(task, schema, Children::Named(name.clone()), false);
                }
            }
            "patternProperties" => {
                for schema in value.as_object().into_iter().flat_map(Map::values) {
                    self.down(task, schema, Children::AnyProperty, false);
                }
            }
            "additionalProperties" => self.down(task, value, Children::AnyProperty, false),
            "propertyNames" => self.down(task, value, Children::AnyProperty, true),
            "unevaluatedProperties" => {
                self.nodes[task.node].unevaluated = true;
                self.down(task, value, Children::AnyProperty, true);
            }
            "unevaluatedItems" => {
                self.nodes[task.node].unevaluated = true;
                self.down(task, value, Children::AnyItem, true);
            }
            "contains" => self.down(task, value, Children::AnyItem, true),
            "prefixItems" | "items" if value.is_array() => {
                for (at, schema) in value.as_array().into_iter().flatten().enumerate() {
                    self.down(task, schema, Children::At(at), false);
                }
            }
            "items" | "additionalItems" => self.down(task, value, Children::AnyItem, false),
            _ => {}
        }
    }

    fn reference(&mut self, task: &Task<'a>, keyword: &str, value: &'a Value) {
        let place = self.nodes[task.node].place;
        let Some(reference) = value.as_str() else {
            return;
        };
        let resolved = if keyword == "$recursiveRef" {
            task.resolver.lookup_recursive_ref()
        } else {
            task.resolver.lookup(reference)
        };
        let Ok(resolved) = resolved else {
            self.fault(place, Some(keyword), NOT_FOUND.to_owned());
            return;
        };
        let (contents, resolver, draft) = resolved.into_inner();
        if self.places.of(contents).is_none() {
            self.fault(place, Some(keyword), NOT_FOUND.to_owned());
            return;
        }
        let target = self.reach(contents, resolver, draft.detect(contents));
        match target {
            Some(to) => self.nodes[task.node].in_place.push((InPlace::Must, to)),
            None => self.fault(
                place,
                Some(keyword),
                "refers to something that is not a schema".to_owned(),
            ),
        }
    }

    fn each_in_place(&mut self, task: &Task<'a>, list: &'a Value, how: InPlace) {
        for schema in list.as_array().into_iter().flatten() {
            self.in_place(task, schema, how);
        }
    }

    fn in_place(&mut self, task: &Task<'a>, schema: &'a Value, how: InPlace) {
        if let Some(to) = self.child(schema, task) {
            self.nodes[task.node].in_place.push((how, to));
        }
    }

    fn down(&mut self, task: &Task<'a>, schema: &'a Value, children: Children, twice: bool) {
        if let Some(to) = self.child(schema, task) {
            self.nodes[task.node].down.push(Down {
                children,
                to,
                twice,
            });
        }
    }

    fn fault(&mut self, place: usize, keyword: Option<&str>, description: String) {
        let mut path = self.places.path(place);
        if let Some(keyword) = keyword {
            super::words::push_name(&mut path, keyword);
        }
        self.faults.push(Fault { path, description });
    }
}

/// What to say of a reference that leads nowhere within the schema.
pub(super) const NOT_FOUND: &str = "refers to a schema that is not within this one; nothing is ever fetched, so put it \
                                    under $defs and refer to it there";

/// The base URIs that a dynamic reference may look in, outermost last, each once.
fn scope(resolver: &Resolver<'_>) -> String {
    let mut seen: Vec<String> = Vec::new();
    let base = resolver.base_uri();
    let dynamic = resolver.dynamic_scope();
    // Of a URI that comes twice the outer one decides, so the outermost are looked at first.
    let mut all: Vec<&str> = dynamic.iter().map(|uri| uri.as_str()).collect();
    all.insert(0, base.as_str());
    for uri in all.into_iter().rev() {
        if !seen.iter().any(|known| known == uri) {
            seen.push(uri.to_owned());
        }
    }
    // The base is part of what tells nodes apart, wherever it stands in the scope.
    format!("{} {}", base.as_str(), seen.join(" "))
}
