//! Tool calls that wait, and an answer: a flag byte (its lowest bit: whether calls may be left pending), the requests, a zero byte,
//! the answer.
#![no_main]

mod shared;

use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use shared::{Pool, mutated, properties, split, vectors};

static POOLS: LazyLock<[Pool; 2]> = LazyLock::new(|| {
    let (requests, answers): (Vec<_>, Vec<_>) = vectors::answers()
        .into_iter()
        .map(|v| (v.requests, v.answer))
        .unzip();
    [Pool::of(&requests), Pool::of(&answers)]
});

fuzz_target!(|data: &[u8]| {
    if let Some((may_leave_pending, requests, answer)) = split(data) {
        properties::answers(requests, answer, may_leave_pending);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match mutated(
        &data[..size],
        max_size,
        seed,
        POOLS.each_ref(),
        vectors::ids,
    ) {
        Some(changed) => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});
