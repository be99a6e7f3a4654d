//! Calls with one answer: repeated while the broker cannot be reached, never after a clear word. Lists, and watches.

use std::time::Duration;

use abeyance::{
    client::{Error, Filter, OpenOptions, Settings, State, Token, WatchEvent},
    proto::v1::{self, watch_waits_response::Event},
};
use h2::Reason;
use tokio::time::Instant;
use tonic::Code;
use tonic_types::ErrorDetails;

use crate::client_fake::{Fake, TOKEN, WAIT_ID, opened_message, seconds};

fn resolved() -> v1::ResolveResponse {
    v1::ResolveResponse {
        wait_id: WAIT_ID.to_owned(),
        state: v1::wait::State::Resolved.into(),
        settle_time: Some(prost_types::Timestamp::default()),
        replayed: true,
        ..v1::ResolveResponse::default()
    }
}

fn wait(id: &str, state: v1::wait::State) -> v1::Wait {
    v1::Wait {
        wait_id: id.to_owned(),
        state: state.into(),
        create_time: Some(prost_types::Timestamp::default()),
        expire_time: Some(prost_types::Timestamp::default()),
        ..v1::Wait::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_repeated_until_it_gets_through() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        fake.next("Resolve").await.reset(Reason::CANCEL);
        fake.next("Resolve")
            .await
            .refuse(Code::Unavailable, "STORE_UNAVAILABLE");
        fake.next("Resolve")
            .await
            .refuse(Code::Internal, "INTERNAL");
        // One that hangs is given up after its time.
        let _hanging = fake.next("Resolve").await;
        fake.next("Resolve").await.reply(resolved());
    };
    let token = Token::new(TOKEN);
    let (settled, ()) = tokio::join!(client.resolve(&token, "1"), broker);
    let settled = settled.expect("resolved");
    assert_eq!((settled.state, settled.replayed), (State::Resolved, true));
}

#[tokio::test(start_paused = true)]
async fn the_broker_may_ask_for_a_delay() {
    let (mut fake, client) = Fake::new(Settings::new());
    let begun = Instant::now();
    let broker = async {
        let mut details = ErrorDetails::new();
        details.set_retry_info(Some(Duration::from_secs(9)));
        let call = fake.next("Resolve").await;
        call.refuse_with(Code::ResourceExhausted, "OVERLOADED", details);
        fake.next("Resolve").await.reply(resolved());
    };
    let token = Token::new(TOKEN);
    let (settled, ()) = tokio::join!(client.resolve(&token, "1"), broker);
    settled.expect("resolved");
    assert!(begun.elapsed() >= Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn patience_has_an_end() {
    let patience = Duration::from_secs(60);
    let (mut fake, client) = Fake::new(Settings::new().patience(patience));
    let begun = Instant::now();
    let broker = async {
        loop {
            fake.next("OpenWait")
                .await
                .refuse(Code::Unavailable, "SHUTTING_DOWN");
        }
    };
    let error = tokio::select! {
        opened = client.open("n", OpenOptions::new()) => opened.expect_err("unavailable"),
        () = broker => unreachable!(),
    };
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    assert_eq!(error.reason(), Some("SHUTTING_DOWN"));
    assert!(begun.elapsed() <= patience);
}

#[tokio::test(start_paused = true)]
async fn a_clear_refusal_is_told_at_once_and_whole() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation("payload_json", "line 1 column 1: no value");
        let call = fake.next("Resolve").await;
        call.refuse_with(Code::InvalidArgument, "INVALID_JSON", details);
    };
    let token = Token::new(TOKEN);
    let (error, ()) = tokio::join!(client.resolve(&token, "yes"), broker);
    let error = error.expect_err("refused");
    assert_eq!(error.code(), Some(Code::InvalidArgument));
    assert_eq!(error.reason(), Some("INVALID_JSON"));
    assert_eq!(error.violations()[0].field, "payload_json");
    fake.quiet_for(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn an_open_keeps_its_request_id_when_it_is_repeated() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let first = fake.next("OpenWait").await;
        let request: v1::OpenWaitRequest = first.message();
        first.reset(Reason::INTERNAL_ERROR);
        let second = fake.next("OpenWait").await;
        assert_eq!(second.message::<v1::OpenWaitRequest>(), request);
        assert!(!request.request_id.is_empty());
        second.reply(v1::OpenWaitResponse {
            opened: Some(opened_message()),
            outcome: None,
        });
    };
    let (opened, ()) = tokio::join!(client.open("n", OpenOptions::new()), broker);
    let opened = opened.expect("opened");
    assert_eq!(opened.opened.wait_id, WAIT_ID);
    assert!(!format!("{opened:?}").contains(TOKEN), "a token was shown");
}

#[tokio::test(start_paused = true)]
async fn an_empty_page_is_not_the_last_one() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        for (expected, waits, next) in [("", 0, "a"), ("a", 2, "b"), ("b", 0, "")] {
            let call = fake.next("ListWaits").await;
            assert_eq!(call.message::<v1::ListWaitsRequest>().page_token, expected);
            call.reply(v1::ListWaitsResponse {
                waits: vec![wait("w", v1::wait::State::Pending); waits],
                next_page_token: next.to_owned(),
            });
        }
    };
    let pages = async {
        let mut list = client.list(&Filter::new().state(State::Pending));
        let page = list.next_page().await.expect("a page").expect("waits");
        assert_eq!(page.len(), 2);
        assert!(list.next_page().await.expect("a page").is_none());
        assert!(list.next_page().await.expect("the end").is_none());
    };
    tokio::join!(pages, broker);
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_again_and_says_so() {
    use v1::wait::State as Wire;
    let (mut fake, client) = Fake::new(Settings::new());
    let tell = |event| v1::WatchWaitsResponse { event: Some(event) };
    let broker = async {
        let mut stream = fake.next("WatchWaits").await.stream();
        stream.message(tell(Event::Wait(wait("a", Wire::Pending))));
        stream.message(tell(Event::Synced(v1::Synced {})));
        let alive_interval = Some(seconds(10));
        stream.message(tell(Event::Alive(v1::WatchAlive { alive_interval })));
        // Silence: the client gives up after two intervals.
        let mut second = fake.next("WatchWaits").await.stream();
        second.message(tell(Event::Wait(wait("b", Wire::Pending))));
        second.end(Code::Unavailable);
        let third = fake.next("WatchWaits").await;
        third.refuse(Code::InvalidArgument, "INVALID_FIELD");
    };
    let told = async {
        let mut watch = client.watch(&Filter::new());
        let mut told = Vec::new();
        loop {
            match watch.next().await {
                Ok(WatchEvent::Began) => told.push("began".to_owned()),
                Ok(WatchEvent::Wait(wait)) => told.push(wait.wait_id),
                Ok(WatchEvent::Synced) => told.push("synced".to_owned()),
                Ok(other) => panic!("{other:?}"),
                Err(error) => return (told, error),
            }
        }
    };
    let ((told, error), ()) = tokio::join!(told, broker);
    assert_eq!(told, ["began", "a", "synced", "began", "b"]);
    assert_eq!(error.reason(), Some("INVALID_FIELD"));
}
