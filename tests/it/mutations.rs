//! Documents that nobody wrote: questions, answers and schemas, changed at random from those in `tests/data` and held against what
//! must be true of all. `tests/fuzz/` looks for the same faults for hours.
//!
//! `ABEYANCE_TEST_MUTATIONS` is how many of each are made; a failure prints the seed, and `ABEYANCE_TEST_SEED` repeats it.

mod found;
mod mutate;
mod properties;
mod vectors;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use abeyance::proto::v1::{self, question::Kind, wait::State};
use serde_json::Value;
use tonic::Code;

use self::{
    mutate::{Pool, write},
    properties::Seen,
};
use crate::{
    harness::{Calls, TestServer, spec},
    torture::rng::{Rng, number, seed},
};

/// How many are made where nobody says otherwise: some seconds of them.
const MUTATIONS: u64 = 4000;

fn mutations() -> u64 {
    number("ABEYANCE_TEST_MUTATIONS").unwrap_or(MUTATIONS)
}

/// A question about tool calls and an answer, near what is taken.
struct Case {
    requests: String,
    answer: String,
    may_leave_pending: bool,
}

/// Makes cases out of the vectors.
struct Cases {
    vectors: Vec<vectors::Vector>,
    requests: Pool,
    answers: Pool,
}

impl Cases {
    fn new() -> Self {
        let vectors = vectors::answers();
        let all = |part: fn(&vectors::Vector) -> &Value| -> Vec<Value> {
            vectors.iter().map(|vector| part(vector).clone()).collect()
        };
        Self {
            requests: Pool::of(&all(|vector| &vector.requests)),
            answers: Pool::of(&all(|vector| &vector.answer)),
            vectors,
        }
    }

    fn make(&self, rng: &mut Rng) -> Case {
        let vector = &self.vectors[rng.index(self.vectors.len())];
        let (mut requests, mut answer) = (vector.requests.clone(), vector.answer.clone());
        let ids = vectors::ids(&requests);
        if rng.chance(15) {
            self.requests.mutate(rng, &mut requests, &ids);
        }
        self.answers.mutate(rng, &mut answer, &ids);
        Case {
            requests: write(rng, &requests),
            answer: write(rng, &answer),
            may_leave_pending: vector.may_leave_pending != rng.chance(10),
        }
    }
}

/// Runs `case` many times, each with a generator of its own, and prints how to run the one that fails again.
fn each(name: &str, mut case: impl FnMut(&mut Rng) -> Seen) {
    let seed = seed();
    let rng = Rng::new(seed);
    let mut seen = [0_u64; 3];
    for number in 0..mutations() {
        let mut rng = rng.fork(number);
        match catch_unwind(AssertUnwindSafe(|| case(&mut rng))) {
            Ok(came) => seen[came as usize] += 1,
            Err(fault) => {
                eprintln!("{name}: case {number} fails with ABEYANCE_TEST_SEED={seed}");
                resume_unwind(fault);
            }
        }
    }
    let [no_question, refused, taken] = seen;
    println!("{name}: {no_question} without a question, {refused} refused, {taken} taken");
    assert!(
        mutations() < 1000 || seen.iter().all(|count| *count > 0),
        "{name}: the documents are too far from what is taken, or too near"
    );
}

#[test]
fn whatever_the_answer_it_is_refused_or_taken_whole() {
    let cases = Cases::new();
    each("answers", |rng| {
        let case = cases.make(rng);
        properties::answers(&case.requests, &case.answer, case.may_leave_pending)
    });
}

#[test]
fn whatever_the_schema_compiling_and_checking_end() {
    let pairs = vectors::schemas();
    let (schemas, answers): (Vec<_>, Vec<_>) = pairs.iter().cloned().unzip();
    let (schemas, answers) = (Pool::of(&schemas), Pool::of(&answers));
    each("schemas", |rng| {
        let (mut schema, mut answer) = pairs[rng.index(pairs.len())].clone();
        if rng.chance(70) {
            schemas.mutate(rng, &mut schema, &[]);
        }
        if rng.chance(70) {
            answers.mutate(rng, &mut answer, &[]);
        }
        properties::schemas(&write(rng, &schema), &write(rng, &answer))
    });
}

/// Through the whole broker: what is refused leaves the wait as it was, and a good answer is taken behind it.
#[tokio::test]
async fn a_bad_answer_never_settles() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let cases = Cases::new();
    let seed = seed();
    println!("bad answers: ABEYANCE_TEST_SEED={seed}");
    let rng = Rng::new(seed);
    let mut refused = 0;
    // Each takes four calls over a connection.
    for number in 0..mutations() / 10 {
        let case = cases.make(&mut rng.fork(number));
        refused += u64::from(bad_answer(&calls, &case).await);
    }
    assert!(mutations() < 1000 || refused > 0);
    server.stop().await;
}

/// Whether the answer was refused.
async fn bad_answer(calls: &Calls, case: &Case) -> bool {
    let question = v1::DeferredToolRequestsJson {
        requests_json: case.requests.clone(),
        may_leave_pending: case.may_leave_pending,
    };
    let spec = v1::WaitSpec {
        question: Some(v1::Question {
            kind: Some(Kind::DeferredJson(question)),
        }),
        ..spec("mutations")
    };
    let asked = properties::asked(&case.requests, case.may_leave_pending);
    let (token, asked) = match (calls.open(spec).await, asked) {
        (Ok(opened), Some(asked)) => (opened.opened.expect("opened").token, asked),
        (Err(status), _) => {
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            return false;
        }
        (Ok(_), None) => panic!("a bad question was taken: {}", case.requests),
    };
    let Err(status) = calls.resolve(&token, &case.answer).await else {
        assert_eq!(calls.state(&token).await, State::Resolved);
        return false;
    };
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let wait = calls.describe(&token).await.expect("is there");
    assert_eq!(wait.state(), State::Pending, "{}", case.answer);
    assert!(wait.outcome.is_none());
    let good = properties::good_answer(&asked, &[]);
    let taken = calls.resolve(&token, good.as_str()).await;
    assert!(!taken.expect("a good answer is taken").replayed);
    assert_eq!(calls.state(&token).await, State::Resolved);
    true
}
