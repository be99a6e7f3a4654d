//! What both targets are made of: the properties of the tests, and a mutator that knows JSON.
#![allow(dead_code)]

use serde_json::Value;

#[path = "../../it/mutations/mutate.rs"]
pub mod mutate;
#[path = "../../it/mutations/properties.rs"]
pub mod properties;
#[path = "../../it/torture/rng.rs"]
mod rng;
#[path = "../../it/mutations/vectors.rs"]
pub mod vectors;

pub use mutate::Pool;
pub use rng::Rng;

/// An input: a flag, a document, a zero byte, another document.
pub fn split(data: &[u8]) -> Option<(bool, &str, &str)> {
    let (flag, rest) = data.split_first()?;
    let at = rest.iter().position(|byte| *byte == 0)?;
    let first = std::str::from_utf8(&rest[..at]).ok()?;
    let second = std::str::from_utf8(&rest[at + 1..]).ok()?;
    Some((flag & 1 == 1, first, second))
}

/// Changes one of the two documents as JSON. None: it is none, or what came of it is too long.
pub fn mutated(
    data: &[u8],
    max: usize,
    seed: u32,
    pools: [&Pool; 2],
    names: fn(&Value) -> Vec<String>,
) -> Option<Vec<u8>> {
    let mut rng = Rng::new(u64::from(seed));
    // Bytes are changed as such, too: not every input is JSON.
    if rng.chance(30) {
        return None;
    }
    let (flag, first, second) = split(data)?;
    let mut first: Value = serde_json::from_str(first).ok()?;
    let mut second: Value = serde_json::from_str(second).ok()?;
    let names = names(&first);
    if rng.chance(25) {
        pools[0].mutate(&mut rng, &mut first, &names);
    } else {
        pools[1].mutate(&mut rng, &mut second, &names);
    }
    let flag = if flag != rng.chance(5) { "1" } else { "0" };
    let first = mutate::write(&mut rng, &first);
    let text = format!("{flag}{first}\0{}", mutate::write(&mut rng, &second));
    (text.len() <= max).then(|| text.into_bytes())
}
