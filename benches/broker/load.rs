//! Closed loops: each caller does one operation after the other.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::Result;

/// How long a loop runs, and how long before that it warms up.
#[derive(Clone, Copy)]
pub struct Span {
    pub warm_up: Duration,
    pub length: Duration,
}

/// What a loop brought.
pub struct Sample {
    /// Of each operation that ended after the warm-up, shortest first.
    latencies: Vec<Duration>,
    /// From the end of the warm-up to the end of the last operation.
    elapsed: Duration,
    /// All operations, also those of the warm-up.
    pub operations: usize,
}

impl Sample {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that a share of the operations kept, in microseconds.
    pub fn percentile(&self, share: f64) -> f64 {
        percentile(&self.latencies, share)
    }
}

/// The value, in microseconds, that a share of the sorted `durations` does not exceed.
pub fn percentile(durations: &[Duration], share: f64) -> f64 {
    let at = (durations.len() as f64 * share) as usize;
    durations
        .get(at.min(durations.len().saturating_sub(1)))
        .map_or(f64::NAN, |d| d.as_secs_f64() * 1e6)
}

/// Runs `operation` from `callers` tasks at once. It is given the caller's number, and says how long it took, or `None` when
/// nothing is left to do.
pub async fn closed_loop<F, R>(callers: usize, span: Span, operation: F) -> Result<Sample>
where
    F: Fn(usize) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Option<Duration>>> + Send + 'static,
{
    let operation = Arc::new(operation);
    let counted_from = Instant::now() + span.warm_up;
    let end = counted_from + span.length;
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let operation = operation.clone();
        tasks.spawn(async move {
            let (mut latencies, mut operations, mut now) = (Vec::new(), 0, Instant::now());
            while now < end {
                let Some(took) = operation(caller).await? else {
                    break;
                };
                operations += 1;
                now = Instant::now();
                if now >= counted_from {
                    latencies.push(took);
                }
            }
            Ok::<_, crate::Fault>((latencies, operations, now))
        });
    }
    let (mut latencies, mut operations, mut last) = (Vec::new(), 0, counted_from);
    while let Some(joined) = tasks.join_next().await {
        let (of_one, count, ended) = joined??;
        latencies.extend(of_one);
        operations += count;
        last = last.max(ended);
    }
    latencies.sort_unstable();
    Ok(Sample {
        latencies,
        elapsed: last - counted_from,
        operations,
    })
}
