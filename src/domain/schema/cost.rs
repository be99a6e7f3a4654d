//! How much work a check can be, told from the schema alone.
//!
//! The model: at each place of an answer some subschemas look at the value, some of them more than once. From one level of an
//! answer to the next these counts are passed on as the keywords do it ([`super::levels`]), with multiplicity and without ever
//! expanding a reference. A schema whose counts grow from level to level is exponential, and they soon pass the bound.
//!
//! A subschema is counted apart for each way in which the validator uses it: for its verdict alone; for its faults, where a
//! choice that failed is tried again to tell why; and for `unevaluated…`, which tries the subschemas beside it a second time.

use std::collections::BTreeMap;

use super::{
    graph::{Graph, InPlace},
    levels::{Level, Levels},
};

/// How often subschemas may look at one value of an answer, all together.
pub(super) const MAX_EVALUATIONS: u64 = 4_000;

/// Steps to read a byte of an answer, and to begin.
const PARSE: u64 = 4;

/// Steps for a fault that is found, which takes about half a kilobyte of memory too.
const FAULT: u64 = 60;

/// How often `unevaluated…` may try one condition: it keeps at most so many parts, each with the conditions around it.
const CONDITIONS: u64 = 64;

/// The ways in which the validator uses a subschema, in the order in which one of them leads to another within it.
pub(super) const MODES: usize = 3;
pub(super) const FAULTS: usize = 0;
pub(super) const VERDICT: usize = 1;
pub(super) const MARK: usize = 2;

/// How often, and in which modes, a subschema passes a value on to another: `(from, to, times)`.
pub(super) type Passes = &'static [(usize, usize, u64)];

/// A bound of the work for an answer: so much, and so much for each byte. In steps of at most about six nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    fixed: u64,
    per_byte: u64,
}

impl Cost {
    /// The bound for an answer of `bytes` bytes.
    pub(super) fn of(self, bytes: usize) -> u64 {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.fixed
            .saturating_add(self.per_byte.saturating_mul(bytes))
    }

    /// The longest answer whose cost is at most `most`.
    pub(super) fn longest(self, most: u64) -> u64 {
        most.saturating_sub(self.fixed) / self.per_byte.max(1)
    }
}

/// A bound that depends on how deep an answer goes as well, in the same steps: for each level what is fixed and what comes for
/// each byte, if the deepest value is there. An answer that goes deeper costs as much as the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeepCost(Vec<(u64, u64)>);

impl DeepCost {
    /// The bound for an answer of `bytes` bytes with `levels` levels below the root.
    pub(super) fn of(&self, bytes: usize, levels: usize) -> u64 {
        let level = self.0.get(levels).or(self.0.last());
        let (fixed, per_byte) = level.copied().unwrap_or((PARSE, PARSE));
        Cost { fixed, per_byte }.of(bytes)
    }
}

/// The work of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Costs {
    /// To tell whether the answer is valid.
    pub(super) verdict: Cost,
    /// To tell what is wrong with it.
    pub(super) faults: DeepCost,
    /// Subschemas in the trees that `unevaluated…` is compiled as.
    pub(super) trees: u64,
}

/// Why a schema's work is not bounded well enough.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unbounded {
    /// These subschemas, by their indices in the graph, refer to each other at the same place of the answer.
    Loop(Vec<usize>),
    /// This subschema, with others, looks at one value so often.
    TooMany(usize, u64),
    /// The patterns together have so many places.
    Patterns(u64),
    /// Even to find the bound takes too long.
    Intricate,
}

/// Bounds the work of `graph`.
pub(super) fn costs(graph: &Graph) -> Result<Costs, Unbounded> {
    let order = order(graph)?;
    let patterns = graph
        .nodes
        .iter()
        .fold(0, |sum: u64, node| sum.saturating_add(node.weight.patterns));
    if patterns > super::pattern::MAX_TOTAL {
        return Err(Unbounded::Patterns(patterns));
    }
    let trees = marking(graph, &order)?;
    let levels = Levels::new(graph, &order);
    Ok(Costs {
        verdict: verdict(&levels)?,
        faults: faults(&levels),
        trees,
    })
}

/// The levels of an answer share its bytes among them, so the costliest level bounds them all.
fn verdict(levels: &Levels<'_>) -> Result<Cost, Unbounded> {
    let (mut fixed, mut most, mut whole) = (PARSE, 0, 0_u64);
    levels.run(VERDICT, |_, level| {
        if level.worst.evaluations > MAX_EVALUATIONS {
            return Err(Unbounded::TooMany(level.most, level.worst.evaluations));
        }
        fixed = fixed.saturating_add(level.few.value);
        most = most.max(per_byte(level));
        whole = whole.saturating_add(level.worst.whole);
        Ok(())
    })?;
    Ok(Cost {
        fixed,
        per_byte: most.saturating_add(whole).saturating_add(PARSE),
    })
}

/// Each fault takes time and memory, and one within a choice keeps a copy of all that it is about.
fn faults(levels: &Levels<'_>) -> DeepCost {
    let (mut fixed, mut most, mut whole, mut sums) = (PARSE, 0, PARSE, Vec::new());
    let run = levels.run(FAULTS, |_, mut level| {
        for weight in [&mut level.few, &mut level.many] {
            let faults = weight.faults.saturating_mul(FAULT);
            weight.value = weight.value.saturating_add(faults);
        }
        fixed = fixed.saturating_add(level.few.value);
        most = most.max(per_byte(level));
        whole = whole
            .saturating_add(level.worst.whole)
            .saturating_add(level.copies);
        let sum = most.saturating_add(whole);
        sums.push((fixed, sum));
        if fixed.saturating_add(sum) > super::MAX_FAULTS_COST {
            // No answer that goes deeper is short enough, so there is no need to go on.
            return Err(Unbounded::Intricate);
        }
        Ok(())
    });
    if run.is_err() {
        sums.push((u64::MAX, u64::MAX));
    }
    DeepCost(sums)
}

/// A value is at least two bytes long, with what parts it from the next.
fn per_byte(level: Level) -> u64 {
    let byte = level.worst.byte;
    level.many.value.div_ceil(2).saturating_add(byte)
}

/// The subschemas, each before those that it passes the same value on to.
fn order(graph: &Graph) -> Result<Vec<usize>, Unbounded> {
    let mut waiting = vec![0_usize; graph.nodes.len()];
    for (_, to) in graph.nodes.iter().flat_map(|node| &node.in_place) {
        waiting[*to] += 1;
    }
    let mut order: Vec<usize> = (0..waiting.len()).filter(|&n| waiting[n] == 0).collect();
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        next += 1;
        for (_, to) in &graph.nodes[node].in_place {
            waiting[*to] -= 1;
            if waiting[*to] == 0 {
                order.push(*to);
            }
        }
    }
    if order.len() == waiting.len() {
        return Ok(order);
    }
    Err(Unbounded::Loop(a_loop(graph, &waiting)))
}

/// One loop among the subschemas that still wait for another. Each of them has a predecessor that waits too.
fn a_loop(graph: &Graph, waiting: &[usize]) -> Vec<usize> {
    let mut before = BTreeMap::new();
    for (from, node) in graph.nodes.iter().enumerate() {
        if waiting[from] > 0 {
            before.extend(node.in_place.iter().map(|(_, to)| (*to, from)));
        }
    }
    let mut path: Vec<usize> = Vec::new();
    let mut at = waiting.iter().position(|&n| n > 0).unwrap_or_default();
    loop {
        if let Some(start) = path.iter().position(|&seen| seen == at) {
            return path.split_off(start);
        }
        path.push(at);
        match before.get(&at) {
            Some(&from) => at = from,
            None => return path,
        }
    }
}

/// `unevaluated…` is compiled as a tree of all that it may try, so these trees are bounded too. Tells how large they are.
fn marking(graph: &Graph, order: &[usize]) -> Result<u64, Unbounded> {
    let mut trees = vec![[1_u64; MODES]; graph.nodes.len()];
    let mut sum = 0_u64;
    for &at in order.iter().rev() {
        let node = &graph.nodes[at];
        for &(how, to) in &node.in_place {
            for &(from, into, times) in in_place(how) {
                let more = trees[to][into].saturating_mul(times);
                trees[at][from] = trees[at][from].saturating_add(more);
            }
        }
        if node.unevaluated {
            let tree = trees[at][MARK];
            trees[at][FAULTS] = trees[at][FAULTS].saturating_add(tree);
            trees[at][VERDICT] = trees[at][VERDICT].saturating_add(tree);
            sum = sum.saturating_add(tree);
            if sum > 10 * MAX_EVALUATIONS {
                return Err(Unbounded::TooMany(at, sum));
            }
        }
    }
    Ok(sum)
}

/// How a value is passed on to another subschema at the same place.
pub(super) fn in_place(how: InPlace) -> Passes {
    match how {
        InPlace::Must => &[(FAULTS, FAULTS, 1), (VERDICT, VERDICT, 1), (MARK, MARK, 1)],
        InPlace::Each => &[
            (FAULTS, FAULTS, 1),
            (VERDICT, VERDICT, 1),
            (MARK, VERDICT, 1),
            (MARK, MARK, 1),
        ],
        InPlace::Choice => &[
            (FAULTS, VERDICT, 1),
            (FAULTS, FAULTS, 1),
            (VERDICT, VERDICT, 1),
            (MARK, VERDICT, 1),
            (MARK, MARK, 1),
        ],
        InPlace::Verdict => &[
            (FAULTS, VERDICT, 1),
            (VERDICT, VERDICT, 1),
            (MARK, VERDICT, CONDITIONS),
            (MARK, MARK, 1),
        ],
    }
}

/// How the children of a value are passed on.
pub(super) fn down(twice: bool) -> Passes {
    if twice {
        &[
            (FAULTS, FAULTS, 1),
            (FAULTS, VERDICT, 1),
            (VERDICT, VERDICT, 1),
            (MARK, VERDICT, 1),
        ]
    } else {
        &[(FAULTS, FAULTS, 1), (VERDICT, VERDICT, 1)]
    }
}
