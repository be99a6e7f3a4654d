//! How much memory a compiled schema takes, told before it is compiled.
//!
//! The numbers were measured with an allocator that counts, on schemas of many kinds. Each is rounded up, so that the whole is
//! rather twice of what is taken than less.

use serde_json::Value;

use super::{
    cost::Costs,
    graph::Graph,
    pattern::{Measure, Patterns},
};

/// The largest a compiled schema may be, with what one thread needs beside it to match patterns. To compile it takes up to twice as much.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// The largest pattern in the engine, which compiles it for both directions.
pub(super) const PATTERN: usize = 1 << 20;

/// The memory in which the engine keeps the states that it has found, for each direction and thread. One that needs more for
/// its work goes without, in the time that its places tell.
pub(super) const STATES: usize = 64 << 10;

/// A value of the schema's text: it is kept as it came, and once or twice within the validator.
const VALUE: u64 = 150;
const LIST: u64 = 200;
const OBJECT: u64 = 2_000;

/// A subschema, for each base that it has.
const NODE: u64 = 1_000;

/// A subschema within the trees of `unevaluated…`.
const TREE: u64 = 1_000;

/// A pattern, and each of its places.
const PATTERN_BASE: u64 = 16 << 10;
const PLACE: u64 = 256;

/// What a compiled schema takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    fixed: u64,
    /// How much of that is patterns.
    patterns: u64,
    /// For each thread that checks answers at the same time.
    thread: u64,
}

impl Size {
    pub(super) fn of(source: &Value, text: usize, graph: &Graph, costs: &Costs) -> Self {
        let document = values(source).saturating_add(2 * text as u64);
        let nodes = NODE * graph.nodes.len() as u64;
        let trees = TREE.saturating_mul(costs.trees);
        let (patterns, thread) = of_patterns(&graph.patterns);
        Self {
            fixed: patterns
                .saturating_add(document)
                .saturating_add(nodes)
                .saturating_add(trees),
            patterns,
            thread,
        }
    }

    /// What its patterns take of it, with one thread.
    pub(super) fn patterns(self) -> u64 {
        self.patterns.saturating_add(self.thread)
    }

    /// With so many threads.
    pub(super) fn bytes(self, threads: u64) -> u64 {
        self.fixed
            .saturating_add(self.thread.saturating_mul(threads))
    }
}

/// JSON text nests at most 127 levels deep, and so does this.
fn values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => LIST + items.iter().map(values).sum::<u64>(),
        Value::Object(members) if members.is_empty() => LIST,
        Value::Object(members) => OBJECT + members.values().map(values).sum::<u64>(),
        _ => VALUE,
    }
}

fn of_patterns(patterns: &Patterns) -> (u64, u64) {
    patterns.taken().fold((0, 0), |(fixed, thread), one| {
        (
            fixed.saturating_add(fixed_of(one)),
            thread.saturating_add(thread_of(one)),
        )
    })
}

fn fixed_of(pattern: Measure) -> u64 {
    // Above the engine's bound it is refused.
    let most = 9 * PATTERN as u64 / 4;
    PATTERN_BASE + PLACE.saturating_mul(pattern.size).min(most)
}

/// The engine has three ways to match, and what each of them needs is kept once it was used.
fn thread_of(pattern: Measure) -> u64 {
    // Even a short pattern may have more states than fit, as `a.{15}b` does.
    let states = 2 * STATES as u64;
    // For each place where each group began and ended, of now and of next; the whole is a group too.
    let groups = pattern.size.saturating_mul(32 + 32 * (1 + pattern.groups));
    // It goes back to what it left, in texts of up to 128 bytes.
    let back = 20 * pattern.size + 129 * 24 * pattern.branches;
    states.saturating_add(groups).saturating_add(back)
}
