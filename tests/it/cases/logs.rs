//! No part of a token in anything that is written: logs at their most verbose, refusals, and what commands print.

use std::{
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use abeyance::{
    client::{Ask, OpenOptions, Token, WaitError},
    proto::v1::{self, WaitSpec, wait::State},
    telemetry,
};
use tokio::process::Command;
use tonic::Status;

use super::{say, secrets::holds_part_of};
use crate::harness::{Calls, Kind, RealBroker, TestServer, eventually, soon, spec, spec_with_key};

/// What was given out and what was told, to be searched in the end.
#[derive(Default)]
struct Told {
    tokens: Vec<String>,
    texts: Vec<String>,
}

impl Told {
    fn refusal<T>(&mut self, result: Result<T, Status>) {
        let status = result.err().expect("a refusal");
        let details = String::from_utf8_lossy(status.details()).into_owned();
        self.texts.push(format!("{status:?} {status} {details}"));
    }

    fn assert_clean(&self, log: &str) {
        for token in &self.tokens {
            for line in log.lines().chain(self.texts.iter().map(|t| &**t)) {
                assert!(!holds_part_of(line, token), "a part of a token in: {line}");
            }
        }
    }
}

async fn open(calls: &Calls, told: &mut Told, spec: WaitSpec) -> String {
    let token = calls.token(spec).await;
    told.tokens.push(token.clone());
    token
}

/// A life with all that can happen to a wait.
async fn live(calls: &Calls, told: &mut Told) -> String {
    let token = open(calls, told, spec_with_key("approve", "k")).await;
    let mut waiting = calls.attach(&token).await.expect("attaches");
    let mark = v1::MarkAskedRequest {
        token: token.clone(),
    };
    calls.waits.clone().mark_asked(mark).await.expect("marks");
    told.refusal(calls.resolve(&token, "{").await);
    told.refusal(calls.resolve(&token, &"1".repeat((1 << 20) + 1)).await);
    told.refusal(calls.resolve(&token, &"1".repeat(3 << 20)).await);
    calls.resolve(&token, "[1]").await.expect("resolves");
    assert_eq!(waiting.answer().await, "[1]");
    calls.resolve(&token, "[1]").await.expect("a repeat");
    told.refusal(calls.resolve(&token, "[2]").await);
    told.refusal(calls.fail(&token, "no").await);
    let heartbeat = v1::HeartbeatRequest {
        token: token.clone(),
    };
    told.refusal(calls.resolves.clone().heartbeat(heartbeat).await);
    told.refusal(calls.open(spec_with_key("other", "k")).await);

    let failed = open(calls, told, spec("approve")).await;
    calls.fail(&failed, "no").await.expect("fails");
    let cancelled = open(calls, told, spec("approve")).await;
    calls.cancel(&cancelled, "no").await.expect("cancels");
    let short = WaitSpec {
        expiry: say::timeout(say::SECOND / 20),
        ..spec("approve")
    };
    let short = open(calls, told, short).await;
    let mut waiting = calls.attach(&short).await.expect("attaches");
    assert_eq!(waiting.outcome().await.state(), State::Expired);
    misplaced(calls, told, &token).await;
    token
}

/// A token where none belongs, and forgeries of it where one does.
async fn misplaced(calls: &Calls, told: &mut Told, token: &str) {
    let owned = || token.to_owned();
    for forged in [
        format!("{token}A"),
        token.replace("abey_", ""),
        owned().to_uppercase(),
    ] {
        told.refusal(calls.resolve(&forged, "1").await);
        told.refusal(calls.attach(&forged).await.map(|_| ()));
    }
    told.refusal(calls.resolve(token, token).await);
    let get = v1::GetWaitRequest { wait_id: owned() };
    told.refusal(calls.inbox.clone().get_wait(get).await);
    let list = v1::ListWaitsRequest {
        page_token: owned(),
        ..Default::default()
    };
    told.refusal(calls.inbox.clone().list_waits(list).await);
    let mut late = tonic::Request::new(say::resolve(token, "1"));
    late.metadata_mut()
        .insert("grpc-timeout", "0S".parse().expect("a header"));
    told.refusal(calls.resolves.clone().resolve(late).await);
}

/// Commands that are refused or that answer; none of them has to print the token.
async fn commands(broker: &RealBroker, told: &mut Told, token: &str) {
    let forged = format!("{token}A");
    for args in [
        vec!["show", token],
        vec!["show", token, "--json"],
        vec!["show", &forged],
        vec!["resolve", token, "[2]"],
        vec!["resolve", token, "{"],
        vec!["resolve", &forged, "1", "--json"],
        vec!["fail", token, "no"],
        vec!["heartbeat", token],
        vec!["cancel", token],
        vec!["wait", "--token", token],
        vec!["list"],
        vec!["list", "--json"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_abeyance"))
            .args(&args)
            .env("ABEYANCE_SERVER", broker.url())
            .env("RUST_LOG", "trace")
            .env("ABEYANCE_LOG", "trace")
            .stdin(Stdio::null())
            .output();
        let output = soon("the command ends", output).await.expect("it runs");
        let printed = [output.stdout, output.stderr].concat();
        assert!(!printed.is_empty(), "{args:?}");
        told.texts
            .push(String::from_utf8_lossy(&printed).into_owned());
    }
}

#[tokio::test]
async fn c46_a_broker_that_logs_everything_logs_no_part_of_a_token() {
    for format in ["text", "json"] {
        let flags = ["--log", "trace", "--log-format", format];
        let mut broker = RealBroker::start_with(&flags).await;
        let calls = broker.calls().await;
        let mut told = Told::default();
        let token = live(&calls, &mut told).await;
        if format == "text" {
            commands(&broker, &mut told, &token).await;
        }
        // A stream that the stop lets go.
        let pending = open(&calls, &mut told, spec("approve")).await;
        let mut waiting = calls.attach(&pending).await.expect("attaches");
        broker.terminate();
        told.refusal(waiting.last().await.1);
        assert!(broker.exit().await.success());
        let log = broker.log();
        assert!(
            log.contains("TRACE") && log.contains("h2"),
            "the log is not verbose"
        );
        assert!(log.contains("stopped"), "the log is not whole");
        told.assert_clean(&log);
    }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Waits by our client while all of the process's logs go to the sink; the broker is cut off in between.
async fn wait_by_client(server: TestServer, told: &mut Told) -> TestServer {
    let given = Arc::new(Mutex::new(None));
    let (client, handed) = (server.client(), given.clone());
    let waiting = tokio::spawn(async move {
        let ask = async |ticket: abeyance::client::Ticket| {
            *handed.lock().expect("whole") = Some(ticket.token.expose().to_owned());
            Ok::<_, std::io::Error>(Ask::HandedOn)
        };
        let options = OpenOptions::new().key("by-client");
        client
            .wait_for_external_event("approve", ask, options)
            .await
    });
    eventually("the token is handed on", async || {
        given.lock().expect("whole").is_some()
    })
    .await;
    let token = given.lock().expect("whole").clone().expect("a token");
    told.tokens.push(token.clone());
    let server = server.restart().await;
    let client = server.client();
    let wrong = Token::new(format!("{token}A"));
    let error = client.resolve(&wrong, "1").await.expect_err("unknown");
    told.texts.push(format!("{error} {error:?} {wrong:?}"));
    client
        .fail(&Token::new(token), "no", None, None)
        .await
        .expect("fails");
    let ended = soon("the wait ends", waiting).await.expect("no panic");
    match ended {
        Err(error @ WaitError::Failed { .. }) => told.texts.push(format!("{error} {error:?}")),
        other => panic!("not failed: {other:?}"),
    }
    server
}

#[tokio::test]
async fn c46_client_and_broker_in_one_process_log_no_part_of_a_token() {
    let options = telemetry::Options {
        filter: "trace".parse().expect("a filter"),
        ..Default::default()
    };
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber = telemetry::subscriber(&options, move || writer.clone());
    // For this thread, on which all of this runtime runs.
    let guard = tracing::subscriber::set_default(subscriber);
    let mut told = Told::default();
    let server = TestServer::start_with(Kind::Sqlite, |_| ()).await;
    let server = wait_by_client(server, &mut told).await;
    server.stop().await;
    drop(guard);
    let log = sink
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let log = String::from_utf8_lossy(&log);
    assert!(
        log.contains("TRACE") && log.contains("abeyance"),
        "the log is not verbose"
    );
    told.assert_clean(&log);
}
