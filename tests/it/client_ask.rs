//! `wait_for_external_event`: the ask runs beside the stream, and what becomes of the wait if it does not go well.

use std::{future::pending, io, time::Duration};

use abeyance::{
    client::{Ask, Client, ExpiryCause, OpenOptions, Settings, Ticket, WaitError},
    proto::v1::{self, wait_event::Event},
};
use h2::Reason;
use tokio::sync::oneshot;
use tonic::Code;

use crate::client_fake::{
    Fake, Stream, TOKEN, WAIT_ID, answered, cancelled, opened_message, outcome,
};

type Asked = Result<Ask, io::Error>;

async fn hand_on(_: Ticket) -> Asked {
    Ok(Ask::HandedOn)
}

async fn never(_: Ticket) -> Asked {
    panic!("asked, where nobody must be asked")
}

async fn broken(_: Ticket) -> Asked {
    Err(io::Error::other("the mail server is down"))
}

fn keyed() -> OpenOptions {
    OpenOptions::new().key("k")
}

fn settle(mut stream: Stream, outcome: v1::Outcome) {
    stream.send(Event::Outcome(outcome));
    stream.end(Code::Ok);
}

async fn mark_asked(fake: &mut Fake) {
    let call = fake.next("MarkAsked").await;
    assert_eq!(call.message::<v1::MarkAskedRequest>().token, TOKEN);
    call.reply(v1::MarkAskedResponse::default());
}

async fn cancel(fake: &mut Fake, recorded: v1::Outcome) {
    let call = fake.next("CancelWait").await;
    assert_eq!(call.message::<v1::CancelWaitRequest>().token, TOKEN);
    call.reply(v1::CancelWaitResponse {
        outcome: Some(recorded),
    });
}

/// Starts a wait that hangs in its ask, drops it, and gives back the fake for a look at what the client does then.
async fn dropped_while_asking(options: OpenOptions) -> (Fake, Client, Stream) {
    let (mut fake, client) = Fake::new(Settings::new());
    let (asking, asked) = oneshot::channel();
    let ask = move |_: Ticket| async move {
        let _ = asking.send(());
        pending::<Asked>().await
    };
    let stream = {
        let wait = client.wait_for_external_event("n", ask, options);
        tokio::select! {
            _ = wait => panic!("nobody answered"),
            stream = async {
                let stream = fake.opened().await;
                asked.await.expect("the ask begins");
                stream
            } => stream,
        }
    };
    (fake, client, stream)
}

#[tokio::test(start_paused = true)]
async fn what_was_handed_on_is_marked_and_the_answer_comes_byte_for_byte() {
    let (mut fake, client) = Fake::new(Settings::new().patience(Duration::ZERO));
    let ask = async |ticket: Ticket| {
        assert_eq!(ticket.token.expose(), TOKEN);
        assert_eq!(ticket.wait_id, WAIT_ID);
        Ok::<_, io::Error>(Ask::HandedOn)
    };
    let broker = async {
        let stream = fake.opened().await;
        // Handed on is handed on: the mark is made, whatever the client's patience with other calls.
        for _ in 0..3 {
            fake.next("MarkAsked").await.reset(Reason::CANCEL);
        }
        mark_asked(&mut fake).await;
        settle(stream, answered("{ \"n\": 9007199254740993 }"));
    };
    let (answer, ()) = tokio::join!(
        client.wait_for_external_event("n", ask, OpenOptions::new()),
        broker
    );
    assert_eq!(answer.expect("an answer"), "{ \"n\": 9007199254740993 }");
    fake.quiet_for(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_place_is_recorded_like_any_other() {
    let (mut fake, client) = Fake::new(Settings::new());
    let ask = async |_| Ok::<_, io::Error>(Ask::Answer("true".to_owned()));
    let broker = async {
        let stream = fake.opened().await;
        let call = fake.next("Resolve").await;
        let answer = call.message::<v1::ResolveRequest>().answer;
        let json = v1::resolve_request::Answer::PayloadJson("true".to_owned());
        assert_eq!(answer, Some(json));
        call.reply(v1::ResolveResponse {
            wait_id: WAIT_ID.to_owned(),
            state: v1::wait::State::Resolved.into(),
            settle_time: Some(prost_types::Timestamp::default()),
            ..v1::ResolveResponse::default()
        });
        settle(stream, answered("true"));
    };
    let (answer, ()) = tokio::join!(
        client.wait_for_external_event("n", ask, OpenOptions::new()),
        broker
    );
    assert_eq!(answer.expect("an answer"), "true");
}

#[tokio::test(start_paused = true)]
async fn if_somebody_was_faster_than_an_answer_in_place_theirs_counts() {
    let (mut fake, client) = Fake::new(Settings::new());
    let ask = async |_| Ok::<_, io::Error>(Ask::Answer("true".to_owned()));
    let broker = async {
        let stream = fake.opened().await;
        let call = fake.next("Resolve").await;
        call.refuse(Code::FailedPrecondition, "ALREADY_SETTLED");
        settle(stream, answered("false"));
    };
    let (answer, ()) = tokio::join!(
        client.wait_for_external_event("n", ask, OpenOptions::new()),
        broker
    );
    assert_eq!(answer.expect("an answer"), "false");
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_place_that_is_refused_is_an_error() {
    let (mut fake, client) = Fake::new(Settings::new());
    let ask = async |_| Ok::<_, io::Error>(Ask::Answer("yes".to_owned()));
    let broker = async {
        let _stream = fake.opened().await;
        let call = fake.next("Resolve").await;
        call.refuse(Code::InvalidArgument, "INVALID_JSON");
        cancel(&mut fake, cancelled()).await;
    };
    let (answer, ()) = tokio::join!(
        client.wait_for_external_event("n", ask, OpenOptions::new()),
        broker
    );
    let Err(WaitError::Client(error)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(error.reason(), Some("INVALID_JSON"));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_arrives_drops_the_ask() {
    let (mut fake, client) = Fake::new(Settings::new());
    let (alive, gone) = oneshot::channel::<()>();
    let ask = move |_: Ticket| async move {
        let _alive = alive;
        pending::<Asked>().await
    };
    let broker = async { settle(fake.opened().await, answered("1")) };
    let (answer, ()) = tokio::join!(
        client.wait_for_external_event("n", ask, OpenOptions::new()),
        broker
    );
    assert_eq!(answer.expect("an answer"), "1");
    gone.await.expect_err("the ask was dropped");
    // What was never handed on is not marked, and what is settled is not cancelled.
    fake.quiet_for(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_ask_cancels_a_wait_without_a_key() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let _stream = fake.opened().await;
        cancel(&mut fake, cancelled()).await;
    };
    let (answer, ()) = tokio::join!(
        client.wait_for_external_event("n", broken, OpenOptions::new()),
        broker
    );
    let Err(WaitError::Ask(error)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(error.to_string(), "the mail server is down");
    fake.quiet_for(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_recorded_before_the_ask_failed_counts() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let _stream = fake.opened().await;
        cancel(&mut fake, answered("1")).await;
    };
    let (answer, ()) = tokio::join!(
        client.wait_for_external_event("n", broken, OpenOptions::new()),
        broker
    );
    assert_eq!(answer.expect("an answer"), "1");
}

#[tokio::test(start_paused = true)]
async fn a_failed_ask_leaves_a_wait_with_a_key_open_and_not_asked() {
    let (mut fake, client) = Fake::new(Settings::new());
    let (answer, stream) = tokio::join!(
        client.wait_for_external_event("n", broken, keyed()),
        fake.opened()
    );
    assert!(matches!(answer, Err(WaitError::Ask(_))), "{answer:?}");
    drop(stream);
    fake.quiet_for(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn c42_a_wait_that_was_asked_is_not_asked_again() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let mut stream = fake.next("Wait").await.stream();
        stream.send(Event::Opened(v1::Opened {
            asked: true,
            resumed: true,
            ..opened_message()
        }));
        settle(stream, answered("1"));
    };
    let (answer, ()) = tokio::join!(client.wait_for_external_event("n", never, keyed()), broker);
    assert_eq!(answer.expect("an answer"), "1");
}

#[tokio::test(start_paused = true)]
async fn c42_a_wait_that_is_settled_is_not_asked_though_its_outcome_comes_late() {
    let (mut fake, client) = Fake::new(Settings::new());
    let broker = async {
        let mut stream = fake.next("Wait").await.stream();
        stream.send(Event::Opened(v1::Opened {
            resumed: true,
            ..opened_message()
        }));
        fake.next("DescribeWait")
            .await
            .reply(v1::DescribeWaitResponse {
                wait: Some(v1::Wait {
                    state: v1::wait::State::Resolved.into(),
                    create_time: Some(prost_types::Timestamp::default()),
                    expire_time: Some(prost_types::Timestamp::default()),
                    ..v1::Wait::default()
                }),
            });
        settle(stream, answered("1"));
    };
    let (answer, ()) = tokio::join!(client.wait_for_external_event("n", never, keyed()), broker);
    assert_eq!(answer.expect("an answer"), "1");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_cancels_a_wait_without_a_key() {
    let (mut fake, _client, stream) = dropped_while_asking(OpenOptions::new()).await;
    cancel(&mut fake, cancelled()).await;
    // The stream is read to its end even now.
    let mut stream = stream;
    let early = tokio::time::timeout(Duration::from_secs(5), stream.given_up());
    early.await.expect_err("the stream was reset");
    settle(stream, cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_future_leaves_a_wait_with_a_key() {
    let (mut fake, _client, _stream) = dropped_while_asking(keyed()).await;
    fake.quiet_for(Duration::from_secs(600)).await;
}

#[tokio::test(start_paused = true)]
async fn a_future_dropped_while_it_opens_finds_its_wait_and_cancels_it() {
    let (mut fake, client) = Fake::new(Settings::new());
    let request: v1::WaitRequest = {
        let wait = client.wait_for_external_event("n", never, OpenOptions::new());
        tokio::select! {
            _ = wait => panic!("nobody answered"),
            call = fake.next("Wait") => call.message(),
        }
    };
    let call = fake.next("OpenWait").await;
    let again: v1::OpenWaitRequest = call.message();
    assert_eq!(again.request_id, request.request_id);
    assert_eq!(again.spec, request.spec);
    call.reply(v1::OpenWaitResponse {
        opened: Some(opened_message()),
        outcome: None,
    });
    cancel(&mut fake, cancelled()).await;
}

#[tokio::test(start_paused = true)]
async fn c39_each_end_without_an_answer_is_an_error_of_its_own() {
    use v1::{outcome::Result as End, wait::State};
    let failed = v1::Failed {
        reason: "no budget".to_owned(),
        error_type: "Denied".to_owned(),
        details_json: "{}".to_owned(),
    };
    let expired = v1::Expired {
        cause: v1::expired::Cause::Heartbeat.into(),
        reason: "No heartbeat arrived within 0:01:00.".to_owned(),
    };
    for (state, end) in [
        (State::Failed, End::Failed(failed)),
        (State::Expired, End::Expired(expired)),
        (State::Cancelled, End::Cancelled(v1::Cancelled::default())),
    ] {
        let (mut fake, client) = Fake::new(Settings::new());
        let broker = async {
            let stream = fake.opened().await;
            mark_asked(&mut fake).await;
            settle(stream, outcome(state, end));
        };
        let (answer, ()) = tokio::join!(
            client.wait_for_external_event("n", hand_on, OpenOptions::new()),
            broker
        );
        let as_told = match answer.expect_err("no answer") {
            WaitError::Failed {
                reason,
                error_type,
                details_json,
                ..
            } => {
                state == State::Failed
                    && reason == "no budget"
                    && error_type.as_deref() == Some("Denied")
                    && details_json.as_deref() == Some("{}")
            }
            WaitError::Expired { cause, .. } => {
                state == State::Expired && cause == ExpiryCause::Heartbeat
            }
            WaitError::Cancelled { .. } => state == State::Cancelled,
            other => panic!("{other:?}"),
        };
        assert!(as_told, "{state:?} told as something else");
    }
}
