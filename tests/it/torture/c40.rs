//! C40: 100 waits, the broker killed, all of them answered; then the kill in the middle of opening and of answering.

use std::sync::Arc;

use super::{
    history::Said,
    load::Ask,
    rng::seed,
    run::Run,
    wire::{Case, Lost},
};

const WAITS: usize = 100;

async fn begin(name: &'static str) -> (Run, Vec<Arc<Case>>) {
    let run = Run::new(name, seed()).await;
    let cases = (0..WAITS)
        .map(|n| run.load.plain_case(n % 2 == 0))
        .collect();
    (run, cases)
}

/// Opens each with a stream that stays.
fn attach_all(run: &mut Run, cases: &[Arc<Case>]) {
    for case in cases {
        drop(run.load.hold(case, &mut run.rng));
    }
}

/// Answers each until the broker has answered.
fn answer_all(run: &mut Run, cases: &[Arc<Case>]) -> tokio::task::JoinSet<bool> {
    let mut answers = tokio::task::JoinSet::new();
    for case in cases.iter().cloned() {
        let (load, line) = (run.load.clone(), run.load.line(&mut run.rng).clone());
        answers.spawn(async move {
            let said = Said::Resolve(format!("{{\"answer\":{}}}", case.number));
            load.insist(&line, &case, Ask::Say(&said, "")).await
        });
    }
    answers
}

async fn end(mut run: Run, waits: usize) {
    let (faults, summary) = run.finish().await;
    run.judge(&faults);
    assert!(summary.outcomes >= waits * 3, "each is told by three ways");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c40_every_wait_outlives_a_kill_and_is_answered() {
    let (mut run, cases) = begin("c40").await;
    attach_all(&mut run, &cases);
    run.until_opened(&cases).await;
    run.kill().await;
    run.restart().await;
    let answered = answer_all(&mut run, &cases).join_all().await;
    assert!(answered.iter().all(|ok| *ok), "an answer was refused");
    end(run, WAITS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c40_a_kill_in_the_middle_of_opening_loses_nothing_acknowledged() {
    let (mut run, cases) = begin("c40 opening").await;
    attach_all(&mut run, &cases);
    let some = 1 + run.rng.below(WAITS as u64 / 2);
    run.go_on(some).await;
    run.kill().await;
    run.restart().await;
    // Those whose open was cut open again and are given the same wait, or a new one if nothing was kept.
    run.until_opened(&cases).await;
    let answered = answer_all(&mut run, &cases).join_all().await;
    assert!(answered.iter().all(|ok| *ok), "an answer was refused");
    end(run, WAITS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c40_a_kill_in_the_middle_of_answering_loses_nothing_acknowledged() {
    let (mut run, cases) = begin("c40 answering").await;
    attach_all(&mut run, &cases);
    run.until_opened(&cases).await;
    let answers = answer_all(&mut run, &cases);
    let some = 1 + run.rng.below(WAITS as u64 / 2);
    run.go_on(some).await;
    run.kill().await;
    run.restart().await;
    let answered = answers.join_all().await;
    assert!(answered.iter().all(|ok| *ok), "an answer was refused");
    end(run, WAITS).await;
}

/// One that was never opened is not made by asking for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c40_a_key_that_was_never_opened_is_unknown_after_a_kill() {
    let (mut run, cases) = begin("c40 never").await;
    run.kill().await;
    run.restart().await;
    let line = run.load.line(&mut run.rng).clone();
    let mut client = line.waits.clone();
    let request = super::wire::Line::target(&cases[0], true);
    let attached = line.call(&cases[0], client.attach(request)).await;
    assert_eq!(attached.err(), Some(Lost::Answered));
}
