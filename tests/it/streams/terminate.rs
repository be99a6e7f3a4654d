//! The end of the broker: SIGTERM to the binary, with everything in full swing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use abeyance::proto::v1::{self, detached::Reason, resolve_request::Answer, wait_event::Event};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep},
};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::harness::{
    Attached, Calls, RealBroker, ms, payload,
    raw::{RESOLVE, RawCall, RawClient, frame},
    soon, spec,
};

const WAITS: usize = 500;
const IN_FLIGHT: usize = 50;

/// The answers that were told OK, by token.
type Answered = Arc<Mutex<BTreeMap<String, String>>>;

/// How one stream ended: when its `detached` came, or with the answer.
enum Ended {
    Detached(Instant),
    Answered(String),
}

/// A health check that watches. Ends with the moment in which it hears that the broker does not serve.
async fn watch_health(url: String) -> JoinHandle<Instant> {
    let channel = tonic::transport::Channel::from_shared(url).expect("a URL");
    let mut client = HealthClient::new(channel.connect_lazy());
    let request = HealthCheckRequest::default();
    let mut statuses = client.watch(request).await.expect("watches").into_inner();
    let first = statuses.message().await.expect("a status").expect("one");
    assert_eq!(first.status(), ServingStatus::Serving);
    tokio::spawn(async move {
        let next = statuses.message().await.expect("a status").expect("one");
        assert_eq!(next.status(), ServingStatus::NotServing);
        Instant::now()
    })
}

/// Follows a stream to its end.
async fn follow(mut stream: Attached) -> Ended {
    loop {
        match stream.event().await {
            Ok(Some(Event::Alive(_))) => {}
            Ok(Some(Event::Detached(detached))) => {
                let now = Instant::now();
                assert_eq!(detached.reason(), Reason::Drain);
                let status = stream
                    .event()
                    .await
                    .expect_err("a drain ends with a status");
                assert_eq!(status.code(), Code::Unavailable, "{status}");
                return Ended::Detached(now);
            }
            Ok(Some(Event::Outcome(outcome))) => {
                assert!(matches!(stream.event().await, Ok(None)));
                return Ended::Answered(payload(&outcome).to_owned());
            }
            other => panic!("a stream ended without a last event: {other:?}"),
        }
    }
}

/// Resolves of which the broker has the first half and waits for the second.
async fn half_sent(client: &RawClient, tokens: &[String]) -> Vec<(RawCall, bytes::Bytes)> {
    let mut calls = Vec::new();
    for token in tokens {
        let mut message = frame(&v1::ResolveRequest {
            token: token.clone(),
            answer: Some(Answer::PayloadJson("\"in flight\"".to_owned())),
            request_id: String::new(),
            ..Default::default()
        });
        let rest = message.split_off(message.len() / 2);
        let mut call = client.begin(RESOLVE, &[]).await;
        call.body.send_data(message, false).expect("sends");
        calls.push((call, rest));
    }
    // The answer to a whole call behind them says that the broker has them.
    let end = client.end_of(RESOLVE, &v1::ResolveRequest::default()).await;
    assert_ne!(end.status.code(), Code::Ok);
    calls
}

/// Resolves that go on arriving, each on a new connection, until there is nobody to connect to.
async fn newcomers(url: String, tokens: Vec<String>, answered: Answered) -> usize {
    let mut refused = 0;
    for token in tokens {
        let channel = tonic::transport::Channel::from_shared(url.clone()).expect("a URL");
        let Ok(channel) = channel.connect().await else {
            refused += 1;
            if refused == 5 {
                break;
            }
            sleep(ms(20)).await;
            continue;
        };
        match Calls::over(channel).resolve(&token, "\"new\"").await {
            Ok(_) => {
                let mut answered = answered.lock().expect("whole");
                answered.insert(token, "\"new\"".to_owned());
            }
            // A connection that was made in the last moment breaks, and the client says so in its own words.
            Err(status) if std::error::Error::source(&status).is_some() => {}
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
        sleep(ms(2)).await;
    }
    refused
}

/// The ends are spread over a second or two.
fn check_spread(detached: &[Instant], health: Instant) {
    let (first, last) = (detached[0], detached[detached.len() - 1]);
    let spread = last - first;
    assert!(
        (ms(300)..Duration::from_secs(3)).contains(&spread),
        "the streams ended within {spread:?}"
    );
    for window in detached.windows(detached.len() / 2) {
        let half = window[window.len() - 1] - window[0];
        assert!(half >= ms(100), "half of the streams ended within {half:?}");
    }
    // What comes on two connections may be seen in the other order, but only by a moment.
    assert!(
        health < detached[detached.len() / 10],
        "health was told too late: {:?} after the first stream",
        health - first
    );
}

/// Attaches to all again. What was told OK is there; the rest is pending, and can be answered.
async fn nothing_is_lost(broker: &RealBroker, tokens: &[String], answered: &Answered) {
    let answered = answered.lock().expect("whole").clone();
    let mut lanes = JoinSet::new();
    for lane in tokens.chunks(WAITS / 10) {
        let (calls, lane) = (broker.calls().await, lane.to_vec());
        let answered = answered.clone();
        lanes.spawn(async move {
            for token in lane {
                let mut attached = calls.attach(&token).await.expect("attaches");
                let expected = match answered.get(&token) {
                    Some(answer) => answer.clone(),
                    None => {
                        let settled = calls.resolve(&token, "\"after\"").await;
                        assert!(!settled.expect("is pending").replayed);
                        "\"after\"".to_owned()
                    }
                };
                assert_eq!(attached.answer().await, expected);
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c70_sigterm_with_everything_in_full_swing_loses_nothing() {
    let mut broker = RealBroker::start().await;
    let health = watch_health(broker.url()).await;
    let (mut tokens, mut streams) = (Vec::new(), JoinSet::new());
    for _ in 0..5 {
        let calls = broker.calls().await;
        for _ in 0..WAITS / 5 {
            let stream = calls.wait(spec("c70")).await.expect("opens");
            tokens.push(stream.token().to_owned());
            streams.spawn(follow(stream));
        }
    }
    let raw = RawClient::connect(broker.addr).await;
    let in_flight = half_sent(&raw, &tokens[..IN_FLIGHT]).await;
    let answered = Answered::default();
    let new = tokio::spawn(newcomers(
        broker.url(),
        tokens[IN_FLIGHT..300].to_vec(),
        answered.clone(),
    ));
    let enough = async || answered.lock().expect("whole").len() >= 5;
    crate::harness::eventually("newcomers are answered", enough).await;

    let begun = Instant::now();
    broker.terminate();
    let health = soon("health says so", health).await.expect("no panic");
    for (mut call, rest) in in_flight {
        call.body.send_data(rest, true).expect("sends");
        let end = call.response().await.end().await;
        assert_eq!(end.status.code(), Code::Ok, "{}", end.status);
    }
    for token in &tokens[..IN_FLIGHT] {
        let mut answered = answered.lock().expect("whole");
        answered.insert(token.clone(), "\"in flight\"".to_owned());
    }
    let mut detached = Vec::new();
    while let Some(ended) = streams.join_next().await {
        match ended.expect("a stream ends as it should") {
            Ended::Detached(at) => detached.push(at),
            Ended::Answered(answer) => {
                assert!(["\"in flight\"", "\"new\""].contains(&&*answer), "{answer}");
            }
        }
    }
    detached.sort();
    let exit = broker.exit().await;
    let took = begun.elapsed();
    assert_eq!(exit.code(), Some(0), "{exit}\n{}", broker.log());
    assert!(took < Duration::from_secs(10), "the end took {took:?}");
    assert!(new.await.expect("no panic") > 0, "newcomers never stopped");
    assert!(detached.len() > 100, "only {} streams", detached.len());
    check_spread(&detached, health);

    broker.restart().await;
    nothing_is_lost(&broker, &tokens, &answered).await;
}
