//! How the client follows a wait through cuts. The clock is paused: time passes only where everybody waits.

use std::{collections::BTreeSet, time::Duration};

use abeyance::{
    client::{Client, Error, OpenOptions, Settings, Token, Verdict, Wait},
    proto::v1::{self, wait_event::Event},
};
use h2::Reason;
use tokio::time::Instant;
use tonic::Code;

use crate::client_fake::{Fake, Stream, TOKEN, answered, opened, opened_message, seconds};

/// The planned end of a stream that lived for this long is no trouble.
const HEALTHY: Duration = Duration::from_secs(5);

/// A wait that is attached to, and its first stream.
async fn attached() -> (Fake, Client, Wait, Stream) {
    let (mut fake, client) = Fake::new(Settings::new());
    let (wait, stream) = tokio::join!(client.wait("n", OpenOptions::new()), fake.opened());
    (fake, client, wait.expect("opened"), stream)
}

async fn finish(fake: &mut Fake, wait: &Wait) {
    let mut stream = fake.attached().await;
    stream.send(Event::Outcome(answered("1")));
    stream.end(Code::Ok);
    assert_eq!(answer(wait).await, "1");
}

async fn answer(wait: &Wait) -> String {
    let outcome = wait.outcome().await.expect("an outcome");
    outcome.into_answer().expect("an answer")
}

#[tokio::test(start_paused = true)]
async fn c03_c23_a_reset_is_no_answer_and_no_end() {
    for reason in [
        Reason::CANCEL,
        Reason::INTERNAL_ERROR,
        Reason::NO_ERROR,
        Reason::REFUSED_STREAM,
        Reason::ENHANCE_YOUR_CALM,
    ] {
        let (mut fake, _client, wait, stream) = attached().await;
        stream.reset(reason);
        finish(&mut fake, &wait).await;
        assert_eq!(wait.progress().borrow().reattached, 1, "{reason:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn c02_every_end_without_an_outcome_means_attach_again() {
    for code in [
        Code::Ok,
        Code::Unavailable,
        Code::Internal,
        Code::Unknown,
        Code::Cancelled,
        Code::ResourceExhausted,
        Code::DeadlineExceeded,
        Code::Aborted,
    ] {
        let (mut fake, _client, wait, stream) = attached().await;
        stream.end(code);
        finish(&mut fake, &wait).await;
        assert_eq!(wait.progress().borrow().reattached, 1, "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clear_refusal_ends_the_wait_with_an_error() {
    for (code, reason) in [
        (Code::NotFound, "WAIT_PURGED"),
        (Code::DataLoss, "RECORD_MISSING"),
        (Code::FailedPrecondition, "WAIT_PURGED"),
        (Code::InvalidArgument, "INVALID_FIELD"),
        (Code::PermissionDenied, "NO"),
        (Code::Unauthenticated, "NO"),
        (Code::Unimplemented, "NO"),
        (Code::AlreadyExists, "KEY_CONFLICT"),
    ] {
        // In the middle of a stream, and when attaching again.
        let (_fake, _client, wait, stream) = attached().await;
        stream.end_refused(code, reason);
        let error = wait.outcome().await.expect_err("refused");
        assert_eq!((error.code(), error.reason()), (Some(code), Some(reason)));

        let (mut fake, _client, wait, stream) = attached().await;
        stream.end(Code::Unavailable);
        fake.next("Attach").await.refuse(code, reason);
        let error = wait.outcome().await.expect_err("refused");
        assert_eq!((error.code(), error.reason()), (Some(code), Some(reason)));
    }
}

#[tokio::test(start_paused = true)]
async fn c23_an_answer_counts_though_the_stream_breaks_after_it() {
    let (mut fake, _client, wait, mut stream) = attached().await;
    stream.send(Event::Outcome(answered("1")));
    // The frame must be on its way before the reset overtakes it.
    tokio::task::yield_now().await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    stream.reset(Reason::NO_ERROR);
    assert_eq!(answer(&wait).await, "1");
    assert_eq!(answer(&wait).await, "1", "asked again, it says the same");
    fake.quiet_for(Duration::from_secs(600)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_read_to_its_end_and_never_reset_after_its_outcome() {
    let (_fake, _client, wait, mut stream) = attached().await;
    stream.send(Event::Outcome(answered("1")));
    let early = tokio::time::timeout(Duration::from_millis(900), stream.given_up());
    early
        .await
        .expect_err("the stream was reset before its end");
    stream.end(Code::Ok);
    assert_eq!(answer(&wait).await, "1");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_never_comes_does_not_keep_the_answer() {
    let (_fake, _client, wait, mut stream) = attached().await;
    let begun = Instant::now();
    stream.send(Event::Outcome(answered("1")));
    assert_eq!(answer(&wait).await, "1");
    assert!(begun.elapsed() < Duration::from_secs(2));
    stream.given_up().await;
}

#[tokio::test(start_paused = true)]
async fn silence_for_two_intervals_means_that_the_stream_is_dead() {
    let (mut fake, _client, wait, mut stream) = attached().await;
    let begun = Instant::now();
    stream.given_up().await;
    let silent = begun.elapsed();
    assert!(silent >= Duration::from_secs(50) && silent < Duration::from_secs(51));
    finish(&mut fake, &wait).await;
}

#[tokio::test(start_paused = true)]
async fn c01_signs_of_life_keep_a_stream_for_as_long_as_it_takes() {
    let (mut fake, _client, wait, mut stream) = attached().await;
    // Up to the end of the shortest window.
    for left in (0..71).rev() {
        fake.quiet_for(Duration::from_secs(45)).await;
        let time_left = Some(seconds(left));
        stream.send(Event::Alive(v1::Alive { time_left }));
    }
    stream.send(Event::Outcome(answered("1")));
    stream.end(Code::Ok);
    assert_eq!(answer(&wait).await, "1");
    let progress = wait.progress().borrow().clone();
    assert_eq!(progress.reattached, 0);
    assert_eq!(progress.time_left.expect("told").0, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn c16_a_stream_is_held_for_an_hour_at_most_and_then_attached_to_anew() {
    let (mut fake, client) = Fake::new(Settings::new());
    let options = OpenOptions::new().timeout(Duration::from_secs(60 * 86_400));
    let (wait, call) = tokio::join!(client.wait("n", options), async {
        let call = fake.next("Wait").await;
        let timeout = call.timeout();
        let mut stream = call.stream();
        stream.send(opened());
        (timeout, stream)
    });
    let (wait, (mut window, mut stream)) = (wait.expect("opened"), call);
    let mut windows = BTreeSet::new();
    for broker_keeps_time in [true, false, true, false] {
        assert!(window > Duration::from_secs(54 * 60 - 1) && window <= Duration::from_secs(3600));
        windows.insert(window);
        let begun = Instant::now();
        while begun.elapsed() + Duration::from_secs(40) < window {
            tokio::time::sleep(Duration::from_secs(40)).await;
            stream.send(Event::Alive(v1::Alive::default()));
        }
        tokio::time::sleep_until(begun + window).await;
        if broker_keeps_time {
            stream.end(Code::DeadlineExceeded);
        } else {
            // It sent its deadline, and lets go by itself where that is not kept.
            stream.given_up().await;
        }
        let call = fake.next("Attach").await;
        let late = begun.elapsed() - window;
        assert!(late < Duration::from_millis(1100), "{late:?}");
        window = call.timeout();
        stream = call.stream();
        stream.send(opened());
    }
    assert_eq!(windows.len(), 4, "drawn anew each time");
    stream.send(Event::Outcome(answered("1")));
    stream.end(Code::Ok);
    assert_eq!(answer(&wait).await, "1");
    assert_eq!(wait.progress().borrow().reattached, 4);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_stream_is_no_timeout_of_its_wait() {
    use v1::wait_spec::Expiry;
    let (mut fake, client) = Fake::new(Settings::new());
    let minute = Duration::from_secs(60);
    for (options, expiry) in [
        (OpenOptions::new(), Expiry::NoTimeout(true)),
        (OpenOptions::new().no_timeout(), Expiry::NoTimeout(true)),
        (
            OpenOptions::new().timeout(minute),
            Expiry::Timeout(seconds(60)),
        ),
    ] {
        let opening = tokio::spawn({
            let client = client.clone();
            async move { client.wait("n", options).await.map(drop) }
        });
        let call = fake.next("Wait").await;
        let spec = call.message::<v1::WaitRequest>().spec.expect("a spec");
        assert_eq!(spec.expiry, Some(expiry));
        opening.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn frames_that_nobody_asks_for_do_not_pile_up() {
    let (mut fake, _client, wait, mut stream) = attached().await;
    // A connection with some 11,500 small unread frames is killed; here nobody looks at the wait at all.
    for _ in 0..400 {
        for _ in 0..100 {
            stream.send(Event::Alive(v1::Alive::default()));
        }
        fake.quiet_for(Duration::from_millis(1)).await;
    }
    stream.send(Event::Outcome(answered("1")));
    stream.end(Code::Ok);
    assert_eq!(answer(&wait).await, "1");
    assert_eq!(wait.progress().borrow().reattached, 0);
}

#[tokio::test(start_paused = true)]
async fn c19_an_attach_that_hangs_is_given_up_and_tried_again() {
    let (mut fake, _client, wait, stream) = attached().await;
    stream.end(Code::Unavailable);
    let begun = Instant::now();
    // One that gets a head and no event, and one that gets nothing at all.
    let mut hanging = fake.next("Attach").await.stream();
    hanging.given_up().await;
    assert!(begun.elapsed() >= Duration::from_secs(15));
    let _nothing = fake.next("Attach").await;
    finish(&mut fake, &wait).await;
    assert!(begun.elapsed() < Duration::from_secs(40));
}

#[tokio::test(start_paused = true)]
async fn c42_an_open_whose_reply_is_lost_is_repeated_with_the_same_id() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let first = fake.next("Wait").await;
        let request: v1::WaitRequest = first.message();
        assert_eq!(request.request_id.len(), 36);
        first.reset(Reason::CANCEL);

        let second = fake.next("Wait").await;
        assert_eq!(second.message::<v1::WaitRequest>(), request);
        second.stream().end(Code::Ok);

        let third = fake.next("Wait").await;
        assert_eq!(third.message::<v1::WaitRequest>(), request);
        let mut stream = third.stream();
        stream.send(opened());
        stream.send(Event::Outcome(answered("1")));
        stream.end(Code::Ok);
    };
    let (wait, ()) = tokio::join!(client.wait("n", OpenOptions::new().key("k")), broker);
    assert_eq!(answer(&wait.expect("opened")).await, "1");
}

#[tokio::test(start_paused = true)]
async fn the_planned_end_of_a_stream_costs_no_delay() {
    let (mut fake, _client, wait, mut stream) = attached().await;
    let begun = Instant::now();
    for _ in 0..20 {
        tokio::time::sleep(HEALTHY).await;
        stream.send(detached(v1::detached::Reason::Lifetime, 0));
        stream.end(Code::Ok);
        stream = fake.attached().await;
    }
    assert_eq!(begun.elapsed(), 20 * HEALTHY);
    stream.send(Event::Outcome(answered("1")));
    stream.end(Code::Ok);
    assert_eq!(answer(&wait).await, "1");
    assert_eq!(wait.progress().borrow().reattached, 20);
}

#[tokio::test(start_paused = true)]
async fn short_planned_streams_are_backed_off_from() {
    let (mut fake, _client, wait, mut stream) = attached().await;
    let begun = Instant::now();
    for _ in 0..10 {
        stream.send(detached(v1::detached::Reason::Lifetime, 0));
        stream.end(Code::Ok);
        stream = fake.attached().await;
    }
    // The bounds add up to two minutes; that full jitter stays below this is one case in a million.
    assert!(begun.elapsed() >= Duration::from_secs(5));
    stream.send(Event::Outcome(answered("1")));
    stream.end(Code::Ok);
    assert_eq!(answer(&wait).await, "1");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_without_its_answer_is_never_taken_for_one() {
    let (_fake, _client, wait, mut stream) = attached().await;
    stream.send(Event::Outcome(answered("")));
    stream.end(Code::Ok);
    let error = wait.outcome().await.expect_err("no answer");
    assert!(matches!(error, Error::Protocol(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_drain_keeps_the_client_away_for_as_long_as_it_says() {
    let (mut fake, _client, wait, mut stream) = attached().await;
    let begun = Instant::now();
    stream.send(detached(v1::detached::Reason::Drain, 7));
    stream.end(Code::Unavailable);
    finish(&mut fake, &wait).await;
    let away = begun.elapsed();
    assert!(away >= Duration::from_secs(7) && away < Duration::from_secs(8));
}

fn detached(reason: v1::detached::Reason, retry_delay: i64) -> Event {
    Event::Detached(v1::Detached {
        reason: reason.into(),
        retry_delay: Some(seconds(retry_delay)),
    })
}

#[tokio::test(start_paused = true)]
async fn c12_a_scolding_server_is_tried_a_handful_of_times_a_minute() {
    let (mut fake, _client, _wait, mut stream) = attached().await;
    let begun = Instant::now();
    let mut attempts = 0;
    while begun.elapsed() < Duration::from_secs(600) {
        tokio::time::sleep(Duration::from_secs(2)).await;
        stream.reset(Reason::ENHANCE_YOUR_CALM);
        stream = fake.attached().await;
        attempts += 1;
    }
    // Full jitter of 30 s is 15 s on average, beside the 2 s: about 35 in ten minutes, and some more at the beginning.
    assert!(attempts < 75, "{attempts} attempts in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn backoff_grows_while_streams_die_at_once_and_is_forgotten_after_a_healthy_one() {
    let (mut fake, _client, wait, mut stream) = attached().await;
    for _ in 0..12 {
        stream.end(Code::Unavailable);
        stream = fake.attached().await;
    }
    let begun = Instant::now();
    for _ in 0..20 {
        stream.end(Code::Unavailable);
        stream = fake.attached().await;
    }
    let grown = begun.elapsed();
    assert!(
        grown > Duration::from_secs(60),
        "20 tries took only {grown:?}"
    );

    tokio::time::sleep(Duration::from_secs(6)).await;
    let begun = Instant::now();
    stream.end(Code::Unavailable);
    finish(&mut fake, &wait).await;
    assert!(begun.elapsed() <= Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn events_that_are_not_known_are_passed_over() {
    let (_fake, _client, wait, mut stream) = attached().await;
    stream.message(v1::WaitResponse {
        event: Some(v1::WaitEvent { event: None }),
    });
    stream.message(v1::WaitResponse { event: None });
    stream.send(Event::Outcome(answered("1")));
    stream.end(Code::Ok);
    assert_eq!(answer(&wait).await, "1");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_is_not_known_is_an_error_and_no_answer() {
    let (_fake, _client, wait, mut stream) = attached().await;
    let mut unknown = answered("true");
    unknown.result = None;
    stream.send(Event::Outcome(unknown));
    stream.end(Code::Ok);
    let error = wait.outcome().await.expect_err("no outcome");
    assert!(matches!(error, Error::Protocol(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn c41_a_settled_wait_gives_its_outcome_to_each_attach() {
    let (mut fake, client) = Fake::new(Settings::new());
    for _ in 0..2 {
        let broker = async {
            let mut stream = fake.attached().await;
            stream.send(Event::Outcome(answered("[1.0]")));
            stream.end(Code::Ok);
        };
        let token = Token::new(TOKEN);
        let (wait, ()) = tokio::join!(client.attach(&token), broker);
        let outcome = wait.expect("attached").outcome().await.expect("settled");
        let expected = Verdict::Resolved {
            payload_json: "[1.0]".to_owned(),
            answered_by: None,
        };
        assert_eq!(outcome.verdict, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attach_by_key_goes_on_by_token() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let call = fake.next("Attach").await;
        let key = v1::WaitKey {
            namespace: "ns".to_owned(),
            key: "k".to_owned(),
        };
        let target = call.message::<v1::AttachRequest>().target;
        assert_eq!(target, Some(v1::attach_request::Target::Key(key)));
        let mut stream = call.stream();
        stream.send(Event::Opened(v1::Opened {
            asked: true,
            ..opened_message()
        }));
        stream.end(Code::Unavailable);
        fake
    };
    let (wait, mut fake) = tokio::join!(client.attach_by_key("ns", "k"), broker);
    let wait = wait.expect("attached");
    assert!(wait.opened().asked);
    finish(&mut fake, &wait).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_a_wait_detaches_and_withdraws_nothing() {
    let (mut fake, _client, wait, mut stream) = attached().await;
    drop(wait);
    assert_eq!(stream.given_up().await, Reason::CANCEL);
    fake.quiet_for(Duration::from_secs(600)).await;
}
