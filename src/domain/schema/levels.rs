//! Which subschemas look at a value, and how often, level by level of an answer.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
};

use super::{
    cost::{self, FAULTS, MARK, MODES, Passes, Unbounded, VERDICT},
    graph::{Children, Graph, InPlace},
    weigh::Weight,
};

/// The levels of an answer, of which JSON text has at most 127, and one for the names of the deepest properties.
const LEVELS: usize = 128;

/// How many places of a kind are counted. Of a kind with more there may be as many as an answer's length allows.
const MAX_PLACES: u64 = 256;

/// The work that may go into finding a bound, in edges walked.
const MAX_WORK: u64 = 1_000_000;

/// How often each subschema looks at one place of an answer, by [`Levels::id`].
type Looks = BTreeMap<usize, u64>;

/// The kinds of places of one level, and how many of each an answer can have. `u64::MAX` stands for any number.
type Kinds = BTreeMap<Looks, u64>;

/// What the places of one level cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// All those together of which an answer can only have a few.
    pub(super) few: Weight,
    /// The costliest of those of which an answer can have any number.
    pub(super) many: Weight,
    /// The costliest of all.
    pub(super) worst: Weight,
    /// The most faults at one place that may be those of a choice.
    pub(super) copies: u64,
    /// The subschema that looks most often at one place.
    pub(super) most: usize,
}

/// A graph's edges, made ready to be walked.
pub(super) struct Levels<'g> {
    graph: &'g Graph,
    order: &'g [usize],
    /// Where each subschema stands in the order.
    rank: Vec<usize>,
    /// Which subschemas are reached through a choice.
    in_choice: Vec<bool>,
}

impl<'g> Levels<'g> {
    /// `order` holds each subschema before those that it passes the same value on to.
    pub(super) fn new(graph: &'g Graph, order: &'g [usize]) -> Self {
        let mut rank = vec![0; order.len()];
        for (at, &node) in order.iter().enumerate() {
            rank[node] = at;
        }
        Self {
            graph,
            order,
            rank,
            in_choice: in_choice(graph),
        }
    }

    /// Goes down from the root, which is used in `mode`, and shows what each level costs.
    pub(super) fn run(
        &self,
        mode: usize,
        mut show: impl FnMut(usize, Level) -> Result<(), Unbounded>,
    ) -> Result<(), Unbounded> {
        let work = Cell::new(0);
        let root = self.spread(Looks::from([(self.id(0, mode), 1)]), &work)?;
        let (mut before, mut kinds) = (Kinds::new(), Kinds::from([(root, 1)]));
        for depth in 0..LEVELS {
            show(depth, self.level(&kinds))?;
            let mut next = Kinds::new();
            for (looks, places) in &kinds {
                self.descend(looks, *places, &work, &mut next)?;
            }
            if next.is_empty() {
                break;
            }
            let same = |other: &Kinds| next.keys().eq(other.keys());
            if same(&kinds) || same(&before) {
                // All levels below are like these two.
                let all = before.into_keys().chain(kinds.into_keys());
                let level = self.level(&all.map(|looks| (looks, u64::MAX)).collect());
                for depth in depth + 1..LEVELS {
                    show(depth, level)?;
                }
                break;
            }
            before = std::mem::replace(&mut kinds, next);
        }
        Ok(())
    }

    /// Numbers a subschema and mode, so that whatever leads to another at the same place has the lower number.
    fn id(&self, node: usize, mode: usize) -> usize {
        self.rank[node] * MODES + mode
    }

    fn level(&self, kinds: &Kinds) -> Level {
        let mut level = Level::default();
        let mut most = 0;
        for (looks, places) in kinds {
            let (mut sum, mut copies) = (Weight::default(), 0_u64);
            for (id, times) in looks {
                let node = self.order[id / MODES];
                let mut weight = self.graph.nodes[node].weight;
                if id % MODES != FAULTS {
                    weight.faults = 0;
                }
                if self.in_choice[node] {
                    copies = copies.saturating_add(weight.faults.saturating_mul(*times));
                }
                sum = sum.plus_times(weight, *times);
                if *times > most {
                    (most, level.most) = (*times, node);
                }
            }
            level.worst = level.worst.max(sum);
            level.copies = level.copies.max(copies);
            if *places > MAX_PLACES {
                level.many = level.many.max(sum);
            } else {
                level.few = level.few.plus_times(sum, *places);
            }
        }
        level
    }

    /// Adds those that the first ones pass the same value on to.
    fn spread(&self, mut looks: Looks, work: &Cell<u64>) -> Result<Looks, Unbounded> {
        let mut at = 0;
        while let Some((&id, &times)) = looks.range(at..).next() {
            at = id + 1;
            let (node, mode) = (self.order[id / MODES], id % MODES);
            if self.graph.nodes[node].unevaluated && mode != MARK {
                add(&mut looks, self.id(node, MARK), times);
            }
            for &(how, to) in &self.graph.nodes[node].in_place {
                self.pass(cost::in_place(how), (mode, times), to, &mut looks);
                spend(work)?;
            }
        }
        Ok(looks)
    }

    fn pass(&self, passes: Passes, (mode, times): (usize, u64), to: usize, looks: &mut Looks) {
        for &(from, into, factor) in passes {
            if from == mode {
                add(looks, self.id(to, into), times.saturating_mul(factor));
            }
        }
    }

    /// The kinds of children that a value may have.
    fn descend(
        &self,
        looks: &Looks,
        places: u64,
        work: &Cell<u64>,
        next: &mut Kinds,
    ) -> Result<(), Unbounded> {
        let mut one: HashMap<&Children, Looks> = HashMap::new();
        for (id, times) in looks {
            let (node, mode) = (self.order[id / MODES], id % MODES);
            for down in &self.graph.nodes[node].down {
                let child = one.entry(&down.children).or_default();
                self.pass(cost::down(down.twice), (mode, *times), down.to, child);
                spend(work)?;
            }
        }
        let properties = one.remove(&Children::AnyProperty).unwrap_or_default();
        let items = one.remove(&Children::AnyItem).unwrap_or_default();
        // A child that has its own subschemas is looked at by those for any child too.
        let mut distinct = Kinds::new();
        for (children, mut child) in one {
            let any = match children {
                Children::Named(_) | Children::AnyProperty => &properties,
                Children::At(_) | Children::AnyItem => &items,
            };
            for (id, times) in any {
                add(&mut child, *id, *times);
                spend(work)?;
            }
            add(&mut distinct, child, places);
        }
        add(&mut distinct, properties, u64::MAX);
        add(&mut distinct, items, u64::MAX);
        for (child, places) in distinct {
            if !child.is_empty() {
                let places = if places > MAX_PLACES {
                    u64::MAX
                } else {
                    places
                };
                add(next, self.spread(child, work)?, places);
            }
        }
        Ok(())
    }
}

fn in_choice(graph: &Graph) -> Vec<bool> {
    let mut found = vec![false; graph.nodes.len()];
    let choices = graph.nodes.iter().flat_map(|node| &node.in_place);
    let mut stack: Vec<usize> = choices
        .filter(|(how, _)| *how == InPlace::Choice)
        .map(|(_, to)| *to)
        .collect();
    while let Some(node) = stack.pop() {
        if !std::mem::replace(&mut found[node], true) {
            stack.extend(graph.nodes[node].in_place.iter().map(|(_, to)| *to));
            stack.extend(graph.nodes[node].down.iter().map(|down| down.to));
        }
    }
    found
}

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, times: u64) {
    let sum = counts.entry(key).or_default();
    *sum = sum.saturating_add(times);
}

fn spend(work: &Cell<u64>) -> Result<(), Unbounded> {
    work.set(work.get() + 1);
    if work.get() > MAX_WORK {
        return Err(Unbounded::Intricate);
    }
    Ok(())
}

// The numbering relies on it: within a subschema, looking for faults or a verdict leads to marking.
const _: () = assert!(FAULTS < MARK && VERDICT < MARK);
