//! How much work a check can be, told from the schema alone.
//!
//! The model: at each place of an answer some subschemas look at the value, some of them more than once. From one level of an
//! answer to the next these counts are passed on as the keywords do it, with multiplicity and without ever expanding a
//! reference. A schema whose counts grow from level to level is exponential, and its count passes the bound.
//!
//! A subschema is counted apart for each way the validator uses it. For its verdict alone; for its faults, where a choice that
//! failed is tried again to tell why; and for `unevaluated…`, which tries the subschemas beside it a second time.

use std::collections::BTreeMap;

use super::{
    graph::{Children, Down, Graph, InPlace},
    weigh::Weight,
};

/// How often subschemas may look at one value of an answer, all together.
pub(super) const MAX_EVALUATIONS: u64 = 4_000;

/// The most levels of an answer, which JSON text guarantees, and one for the names of the deepest properties.
const LEVELS: usize = 128;

/// Steps to read a byte of an answer, and to begin.
const PARSE: u64 = 3;

/// How often `unevaluated…` may try one condition: it keeps at most so many parts, each with the conditions around it.
const CONDITIONS: u64 = 64;

/// The ways the validator uses a subschema, in the order in which they are passed on within one.
const MODES: usize = 3;
const FAULTS: usize = 0;
const VERDICT: usize = 1;
const MARK: usize = 2;

/// Counts of one subschema, by mode.
type Counts = [u64; MODES];

/// A bound of the work for an answer: so much, and so much for each byte. In steps of about ten nanoseconds.
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

/// The work of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Costs {
    /// To tell whether the answer is valid.
    pub(super) verdict: Cost,
    /// To tell what is wrong with it.
    pub(super) faults: Cost,
}

/// Why a schema's work is not bounded well enough.
pub(super) enum Unbounded {
    /// These subschemas, by their indices in the graph, refer to each other at the same place of the answer.
    Loop(Vec<usize>),
    /// This subschema looks at one value so often.
    TooMany(usize, u64),
    /// The patterns together have so many places.
    Patterns(u64),
}

/// Bounds the work of `graph`.
pub(super) fn costs(graph: &Graph) -> Result<Costs, Unbounded> {
    let order = order(graph)?;
    let patterns = graph
        .nodes
        .iter()
        .fold(0, |sum: u64, node| sum.saturating_add(node.weight.patterns));
    if patterns > 5 * super::pattern::MAX_SIZE {
        return Err(Unbounded::Patterns(patterns));
    }
    let levels = Levels::new(graph, &order);
    levels.check_marking()?;
    Ok(Costs {
        verdict: levels.run(VERDICT)?,
        faults: levels.run(FAULTS)?,
    })
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
            let mut found = path.split_off(start);
            found.reverse();
            return found;
        }
        path.push(at);
        match before.get(&at) {
            Some(&from) => at = from,
            None => return path,
        }
    }
}

/// How often, and in which modes, a subschema passes a value on to another one at the same place: `(from, to, times)`.
fn in_place_modes(how: InPlace) -> &'static [(usize, usize, u64)] {
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

/// The same for children of the value.
fn down_modes(down: &Down) -> &'static [(usize, usize, u64)] {
    if down.twice {
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

/// All edges to children, with what the target costs together with everything in place below it.
struct Levels<'g> {
    graph: &'g Graph,
    order: &'g [usize],
    closure: Vec<[Weight; MODES]>,
    /// `(to, children, from, modes)`, sorted, so that what may add up stands together.
    edges: Vec<(usize, usize, usize, &'static [(usize, usize, u64)])>,
    /// Whether the children of this number are items, and whether they are any of them. By number of `Children`.
    kinds: Vec<(bool, bool)>,
}

impl<'g> Levels<'g> {
    fn new(graph: &'g Graph, order: &'g [usize]) -> Self {
        let mut numbers: BTreeMap<&Children, usize> = BTreeMap::new();
        let mut kinds = Vec::new();
        let mut edges = Vec::new();
        for (from, node) in graph.nodes.iter().enumerate() {
            for down in &node.down {
                let number = *numbers.entry(&down.children).or_insert_with(|| {
                    kinds.push(match down.children {
                        Children::Named(_) => (false, false),
                        Children::AnyProperty => (false, true),
                        Children::At(_) => (true, false),
                        Children::AnyItem => (true, true),
                    });
                    kinds.len() - 1
                });
                edges.push((down.to, number, from, down_modes(down)));
            }
        }
        edges.sort_unstable_by_key(|&(to, number, from, _)| (to, number, from));
        Self {
            graph,
            order,
            closure: closure(graph, order),
            edges,
            kinds,
        }
    }

    /// `unevaluated…` is compiled as a tree of all that it may try, so these trees are bounded too.
    fn check_marking(&self) -> Result<(), Unbounded> {
        let mut sum = 0_u64;
        for (at, node) in self.graph.nodes.iter().enumerate() {
            if node.unevaluated {
                sum = sum.saturating_add(self.closure[at][MARK].evaluations);
                if sum > 10 * MAX_EVALUATIONS {
                    return Err(Unbounded::TooMany(at, sum));
                }
            }
        }
        Ok(())
    }

    /// Goes down level by level from the root, which is used in `mode`.
    fn run(&self, mode: usize) -> Result<Cost, Unbounded> {
        let mut seeds = vec![[0; MODES]; self.graph.nodes.len()];
        seeds[0][mode] = 1;
        let root = self.closure[0][mode];
        self.check(mode, root, &seeds)?;
        let (mut deepest, mut sum, mut whole) = (root.byte, root.byte, root.whole);
        for level in 1..=LEVELS {
            let (next, weight) = self.descend(&self.spread(&seeds));
            if weight.evaluations == 0 {
                break;
            }
            self.check(mode, weight, &next)?;
            // Once a level is like the one before it, so are all below.
            let steady = next == seeds;
            let times = if steady { LEVELS - level + 1 } else { 1 } as u64;
            // A value is at least two bytes long, with what parts it from the next.
            let here = weight.value.div_ceil(2).saturating_add(weight.byte);
            deepest = deepest.max(here);
            sum = sum.saturating_add(here.saturating_mul(times));
            whole = whole.saturating_add(weight.whole.saturating_mul(times));
            if mode == FAULTS {
                // A fault within a choice keeps a copy of what it is about.
                whole = whole.saturating_add(weight.evaluations.saturating_mul(times));
            }
            if steady {
                break;
            }
            seeds = next;
        }
        // The levels share the bytes of an answer among them. Only faults are found anew on each level.
        let levels = if mode == FAULTS { sum } else { deepest };
        Ok(Cost {
            fixed: PARSE + root.value,
            per_byte: PARSE.saturating_add(levels).saturating_add(whole),
        })
    }

    fn check(&self, mode: usize, weight: Weight, seeds: &[Counts]) -> Result<(), Unbounded> {
        // Faults are only looked for where that is cheap enough, which the answer's length decides.
        if mode == FAULTS || weight.evaluations <= MAX_EVALUATIONS {
            return Ok(());
        }
        let total = |counts: &Counts| counts.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
        let most = self
            .spread(seeds)
            .iter()
            .enumerate()
            .max_by_key(|(_, counts)| total(counts))
            .map_or(0, |(at, _)| at);
        Err(Unbounded::TooMany(most, weight.evaluations))
    }

    /// How often each subschema looks at a value, if those that look at it first do so `seeds` times.
    fn spread(&self, seeds: &[Counts]) -> Vec<Counts> {
        let mut counts = seeds.to_vec();
        for &from in self.order {
            let node = &self.graph.nodes[from];
            if counts[from] == [0; MODES] {
                continue;
            }
            if node.unevaluated {
                let marks = counts[from][FAULTS].saturating_add(counts[from][VERDICT]);
                counts[from][MARK] = counts[from][MARK].saturating_add(marks);
            }
            for &(how, to) in &node.in_place {
                pass_on(in_place_modes(how), counts[from], &mut counts[to]);
            }
        }
        counts
    }

    /// The counts for a child of a value, the largest of any child, and what the costliest child costs.
    fn descend(&self, counts: &[Counts]) -> (Vec<Counts>, Weight) {
        let mut next = vec![[0; MODES]; counts.len()];
        let mut weights = vec![Weight::default(); self.kinds.len()];
        for group in self.edges.chunk_by(|a, b| a.0 == b.0) {
            let to = group[0].0;
            let mut child = Most::<Counts>::default();
            for same in group.chunk_by(|a, b| a.1 == b.1) {
                let number = same[0].1;
                let mut sum = [0; MODES];
                for &(_, _, from, modes) in same {
                    pass_on(modes, counts[from], &mut sum);
                }
                for (mode, times) in sum.into_iter().enumerate() {
                    weights[number] = weights[number].plus_times(self.closure[to][mode], times);
                }
                child.add(self.kinds[number], sum);
            }
            next[to] = child.most();
        }
        let mut costliest = Most::<Weight>::default();
        for (number, weight) in weights.into_iter().enumerate() {
            costliest.add(self.kinds[number], weight);
        }
        (next, costliest.most())
    }
}

/// What each subschema costs with all those that it passes the same value on to, by mode.
fn closure(graph: &Graph, order: &[usize]) -> Vec<[Weight; MODES]> {
    let mut closure = vec![[Weight::default(); MODES]; graph.nodes.len()];
    for &at in order.iter().rev() {
        let node = &graph.nodes[at];
        let mut sums = [node.weight; MODES];
        for &(how, to) in &node.in_place {
            for &(from, into, times) in in_place_modes(how) {
                sums[from] = sums[from].plus_times(closure[to][into], times);
            }
        }
        if node.unevaluated {
            sums[FAULTS] = sums[FAULTS].plus(sums[MARK]);
            sums[VERDICT] = sums[VERDICT].plus(sums[MARK]);
        }
        closure[at] = sums;
    }
    closure
}

fn pass_on(modes: &[(usize, usize, u64)], from: Counts, to: &mut Counts) {
    for &(of, into, times) in modes {
        to[into] = to[into].saturating_add(from[of].saturating_mul(times));
    }
}

/// Adds up over the children that may be one: a property is any property and one of a name, an item likewise.
#[derive(Default)]
struct Most<T> {
    any: [T; 2],
    one: [T; 2],
}

/// What [`Most`] can add up.
trait Amount: Copy + Default {
    fn plus(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
}

impl Amount for Weight {
    fn plus(self, other: Self) -> Self {
        self.plus(other)
    }

    fn max(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Amount for Counts {
    fn plus(self, other: Self) -> Self {
        std::array::from_fn(|mode| self[mode].saturating_add(other[mode]))
    }

    fn max(self, other: Self) -> Self {
        std::array::from_fn(|mode| self[mode].max(other[mode]))
    }
}

impl<T: Amount> Most<T> {
    fn add(&mut self, (is_item, is_any): (bool, bool), amount: T) {
        let which = usize::from(is_item);
        if is_any {
            self.any[which] = self.any[which].plus(amount);
        } else {
            self.one[which] = self.one[which].max(amount);
        }
    }

    fn most(&self) -> T {
        let [property, item] = std::array::from_fn(|which| self.any[which].plus(self.one[which]));
        property.max(item)
    }
}
