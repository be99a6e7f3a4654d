//! Seeded randomness: the same seed makes the same choices (not the same interleaving).

use std::{
    env,
    time::{SystemTime, UNIX_EPOCH},
};

/// SplitMix64: small, and good enough to choose what a test does next.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for part `number` of what this one decides.
    pub fn fork(&self, number: u64) -> Self {
        let mut rng = Self(self.0 ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        rng.next();
        rng
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to but not including `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("it is below a usize")
    }
}

/// The seed of this run: `ABEYANCE_TEST_SEED`, or another one each time. Print it: it is what a failure is repeated with.
pub fn seed() -> u64 {
    number("ABEYANCE_TEST_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |since| since.as_secs() ^ u64::from(since.subsec_nanos()))
    })
}

/// A number from the environment. What is not one ends the test: a typo must not make it run with the default.
pub fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}
