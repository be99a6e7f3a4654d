//! A schema and an answer that is held against it: a flag byte that says nothing, the schema, a zero byte, the answer.
#![no_main]

mod shared;

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use shared::{Pool, mutated, properties, split, vectors};

static POOLS: LazyLock<[Pool; 2]> = LazyLock::new(|| {
    let (schemas, answers): (Vec<_>, Vec<_>) = vectors::schemas().into_iter().unzip();
    [Pool::of(&schemas), Pool::of(&answers)]
});

fuzz_target!(|data: &[u8]| {
    if let Some((_, schema, answer)) = split(data) {
        properties::schemas(schema, answer);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match mutated(&data[..size], max_size, seed, POOLS.each_ref(), |_| {
        Vec::new()
    }) {
        Some(changed) => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});
