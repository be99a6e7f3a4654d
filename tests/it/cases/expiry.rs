//! When a wait is over, and lengths of time that are none.

use std::time::Duration;

use abeyance::proto::v1::{self, WaitSpec, wait::State, wait_spec::Expiry};
use prost_types::Duration as Length;
use tokio::time::Instant;
use tonic::Code;

use super::{
    say::*,
    stage::{START, Setup, Stage, TestClock},
    stores::Front,
};

#[tokio::test]
async fn c38_a_an_answer_after_the_expiry_is_told_when_that_was() {
    let stage = Stage::standing().await;
    let minute = WaitSpec {
        expiry: timeout(60 * SECOND),
        ..spec("approve")
    };
    let opened = stage.open(minute).await;
    stage.clock.advance(60 * SECOND - Duration::from_micros(1));
    stage.assert_pending(&opened.token).await;
    stage.clock.advance(SECOND);
    // Nobody has looked since: the answer itself meets the overdue wait.
    let late = refused(stage.resolve(&opened.token, "1").await);
    let late = late.assert(Code::FailedPrecondition, "ALREADY_SETTLED");
    assert_eq!(late.metadata["state"], "EXPIRED");
    assert_eq!(late.metadata["wait_id"], opened.wait_id);
    assert_eq!(late.metadata["settle_time"], "2027-01-15T08:01:00.999999Z");
    let late = refused(stage.fail(&opened.token, "no").await);
    assert_eq!(late.metadata["state"], "EXPIRED");
    let outcome = stage.outcome(&opened.token).await;
    assert_eq!(expired(&outcome).1, "No resolution arrived within 0:01:00.");
    assert_eq!(
        stage.describe(&opened.token).await.expire_time,
        at(START.after(60 * SECOND))
    );
}

#[tokio::test(start_paused = true)]
async fn c60_a_jump_of_the_wall_clock_is_noticed_within_a_sweep() {
    // The clock stands still beside the runtime's time, which the timers go by.
    let stage = Stage::standing().await;
    let attached = stage.open(spec("approve")).await.token;
    let mut waiting = stage.attach(&attached).await.expect("attaches");
    waiting.opened().await;
    let alone = stage.open(spec("approve")).await.wait_id;
    let later = stage.open(WaitSpec {
        expiry: timeout(3 * HOUR),
        ..spec("approve")
    });
    let later = later.await.token;
    tokio::time::sleep(7 * SECOND).await;

    stage.clock.advance(2 * HOUR);
    let jump = Instant::now();
    assert_eq!(waiting.outcome().await.state(), State::Expired);
    assert!(jump.elapsed() < 30 * SECOND, "{:?}", jump.elapsed());
    // The one that nobody is attached to was swept with it, without anybody meeting it.
    let record = stage.store.load(alone.parse().expect("an id")).await;
    assert!(
        record
            .expect("loads")
            .expect("there")
            .record
            .outcome
            .is_some()
    );
    stage.assert_pending(&later).await;
}

#[tokio::test(start_paused = true)]
async fn c60_a_clock_that_was_set_back_delays_and_expires_nothing_early() {
    let stage = Stage::standing().await;
    stage.clock.advance(DAY);
    let opened = stage.open(spec("approve")).await;
    stage.clock.set_back(DAY);
    let back = stage.open(spec("approve")).await;
    tokio::time::sleep(HOUR).await;
    stage.assert_pending(&opened.token).await;
    stage.assert_pending(&back.token).await;
    // What is decided meanwhile is never earlier than the wait itself.
    stage.resolve(&opened.token, "1").await.expect("resolves");
    let wait = stage.describe(&opened.token).await;
    assert_eq!(wait.settle_time, wait.create_time);
    stage.clock.advance(HOUR);
    assert_eq!(stage.describe(&back.token).await.state(), State::Expired);
}

/// Lengths that are refused, with the reason in short.
const NONE: [(Length, &str); 12] = [
    (
        Length {
            seconds: 0,
            nanos: 0,
        },
        "longer than zero",
    ),
    (
        Length {
            seconds: -1,
            nanos: 0,
        },
        "longer than zero",
    ),
    (
        Length {
            seconds: 0,
            nanos: -1,
        },
        "longer than zero",
    ),
    (
        Length {
            seconds: 0,
            nanos: 1,
        },
        "microsecond",
    ),
    (
        Length {
            seconds: 0,
            nanos: 999,
        },
        "microsecond",
    ),
    (
        Length {
            seconds: 1,
            nanos: -1,
        },
        "not a valid",
    ),
    (
        Length {
            seconds: 1,
            nanos: 2_000_000_000,
        },
        "not a valid",
    ),
    (
        Length {
            seconds: 1_000_000_000_000,
            nanos: 0,
        },
        "not a valid",
    ),
    (
        Length {
            seconds: i64::MAX,
            nanos: i32::MAX,
        },
        "not a valid",
    ),
    (
        Length {
            seconds: i64::MIN,
            nanos: i32::MIN,
        },
        "not a valid",
    ),
    // Ten thousand years.
    (
        Length {
            seconds: 315_576_000_000,
            nanos: 0,
        },
        "366 days",
    ),
    (
        Length {
            seconds: 366 * 86_400,
            nanos: 1_000,
        },
        "366 days",
    ),
];

#[tokio::test]
async fn c62_a_length_that_is_none_is_refused_with_the_field_and_opens_nothing() {
    let setup = Setup::memory(TestClock::standing());
    let front = Front::new(setup.store.clone());
    let stage = setup.wrap(|_| front.clone()).start().await;
    for (length, fault) in NONE {
        let timeout = WaitSpec {
            expiry: Some(Expiry::Timeout(length)),
            ..spec("approve")
        };
        let heartbeat = WaitSpec {
            heartbeat_timeout: Some(length),
            ..spec("approve")
        };
        for (field, spec) in [
            ("spec.timeout", timeout),
            ("spec.heartbeat_timeout", heartbeat),
        ] {
            let unary = refused(stage.try_open(spec.clone()).await);
            let stream = refused(stage.wait(wait(spec)).await.map(|_| ()));
            for refusal in [unary, stream] {
                let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
                assert_eq!(refusal.names(), [field], "{length:?}");
                assert!(
                    refusal.fields[0].1.contains(fault),
                    "{length:?}: {refusal:?}"
                );
            }
        }
    }
    let unset = WaitSpec {
        expiry: Some(Expiry::NoTimeout(false)),
        ..spec("approve")
    };
    assert_eq!(
        refused(stage.try_open(unset).await).names(),
        ["spec.no_timeout"]
    );
    assert_eq!(front.calls(), 0);
}

#[tokio::test]
async fn c62_lengths_of_an_inbox_filter_are_checked_too() {
    let stage = Stage::standing().await;
    for (length, _) in NONE.into_iter().take(10) {
        let filter = v1::WaitFilter {
            min_age: Some(length),
            max_age: Some(length),
            ..Default::default()
        };
        let request = v1::ListWaitsRequest {
            filter: Some(filter),
            ..Default::default()
        };
        let refusal = refused(stage.inbox().list_waits(request).await);
        assert_eq!(
            refusal.names(),
            ["filter.min_age", "filter.max_age"],
            "{length:?}"
        );
    }
}

#[tokio::test]
async fn c62_the_shortest_and_the_longest_are_taken_to_the_microsecond() {
    let stage = Stage::standing().await;
    for (given, kept) in [
        (Duration::from_micros(1), Duration::from_micros(1)),
        (Duration::from_nanos(1999), Duration::from_micros(1)),
        (366 * DAY, 366 * DAY),
        (366 * DAY + Duration::from_nanos(999), 366 * DAY),
    ] {
        let opened = stage.open(WaitSpec {
            expiry: timeout(given),
            ..spec("approve")
        });
        let opened = opened.await;
        assert_eq!(opened.timeout, Some(duration(kept)), "{given:?}");
        assert_eq!(
            opened.expire_time,
            at(abeyance::store::Clock::now(&*stage.clock).after(kept))
        );
    }
}
