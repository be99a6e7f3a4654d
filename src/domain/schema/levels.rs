//! Which subschemas look at a value, and how often, level by level of an answer.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use super::{
    cost::{self, FAULTS, MARK, MODES, Passes, Unbounded, VERDICT},
    graph::{Children, Graph},
    weigh::Weight,
};

/// The levels of an answer, of which JSON text has at most 127, and one for the names of the deepest properties.
const LEVELS: usize = 128;

/// How many kinds of places are told apart on one level. If there are more, they are taken for one that is the worst of each.
const MAX_KINDS: usize = 64;

/// The work that may go into finding a bound, in edges walked.
const MAX_WORK: u64 = 3_000_000;

/// How often each subschema looks at one place of an answer, by [`Levels::id`].
type Looks = BTreeMap<usize, u64>;

/// A graph's edges, made ready to be walked.
pub(super) struct Levels<'g> {
    graph: &'g Graph,
    order: &'g [usize],
    /// Where each subschema stands in the order.
    rank: Vec<usize>,
}

impl<'g> Levels<'g> {
    /// `order` holds each subschema before those that it passes the same value on to.
    pub(super) fn new(graph: &'g Graph, order: &'g [usize]) -> Self {
        let mut rank = vec![0; order.len()];
        for (at, &node) in order.iter().enumerate() {
            rank[node] = at;
        }
        Self { graph, order, rank }
    }

    /// Goes down from the root, which is used in `mode`, and shows what the costliest place of each level costs and which
    /// subschema looks at it most often.
    pub(super) fn run(
        &self,
        mode: usize,
        mut level: impl FnMut(usize, Weight, usize) -> Result<(), Unbounded>,
    ) -> Result<(), Unbounded> {
        let work = Cell::new(0);
        let root = self.spread(Looks::from([(self.id(0, mode), 1)]), &work)?;
        let mut kinds = BTreeSet::from([root]);
        for depth in 0..LEVELS {
            let (weight, most) = self.costliest(&kinds);
            level(depth, weight, most)?;
            let mut next = BTreeSet::new();
            for looks in &kinds {
                self.descend(looks, &work, &mut next)?;
            }
            if next.is_empty() {
                break;
            }
            if next.len() > MAX_KINDS {
                next = BTreeSet::from([worst(&next)]);
            }
            if mode == VERDICT && next == kinds {
                // All levels below are like this one. Of their whole text, each pays once more.
                for depth in depth + 1..LEVELS {
                    level(depth, weight, most)?;
                }
                break;
            }
            kinds = next;
        }
        Ok(())
    }

    /// Numbers a subschema and mode, so that whatever leads to another at the same place has the lower number.
    fn id(&self, node: usize, mode: usize) -> usize {
        self.rank[node] * MODES + mode
    }

    fn costliest(&self, kinds: &BTreeSet<Looks>) -> (Weight, usize) {
        let mut costliest = Weight::default();
        let mut most = (0, 0);
        for looks in kinds {
            let mut sum = Weight::default();
            for (id, times) in looks {
                let node = self.order[id / MODES];
                sum = sum.plus_times(self.graph.nodes[node].weight, *times);
                most = most.max((*times, node));
            }
            costliest = costliest.max(sum);
        }
        (costliest, most.1)
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
        work: &Cell<u64>,
        next: &mut BTreeSet<Looks>,
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
        let mut distinct = BTreeSet::from([properties.clone(), items.clone()]);
        for (children, mut child) in one {
            let any = match children {
                Children::Named(_) | Children::AnyProperty => &properties,
                Children::At(_) | Children::AnyItem => &items,
            };
            for (id, times) in any {
                add(&mut child, *id, *times);
                spend(work)?;
            }
            distinct.insert(child);
        }
        for child in distinct {
            if !child.is_empty() {
                next.insert(self.spread(child, work)?);
            }
        }
        Ok(())
    }
}

/// At least as bad as each of `kinds`.
fn worst(kinds: &BTreeSet<Looks>) -> Looks {
    let mut worst = Looks::new();
    for (&id, &times) in kinds.iter().flatten() {
        let most = worst.entry(id).or_default();
        *most = times.max(*most);
    }
    worst
}

fn add(looks: &mut Looks, id: usize, times: u64) {
    let sum = looks.entry(id).or_default();
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
