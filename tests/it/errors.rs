//! Every reason of `error_reason.proto`, provoked over the wire: its code, its details as the comment there promises them, and
//! nothing of a payload or a token in any.

use std::{collections::BTreeSet, future::Future, pin::Pin, sync::Arc};

use abeyance::{
    domain::WaitId,
    proto::{
        FILE_DESCRIPTOR_SET,
        v1::{self, ErrorReason, WaitSpec, attach_request::Target},
    },
    store::Clock as _,
};
use prost::Message as _;
use tonic::{Code, Request, Status};

use crate::{
    cases::{
        say::*,
        secrets::holds_part_of,
        stage::{Setup, Stage, TestClock},
        stores::{Fault, Front},
    },
    questions::ask::{approval, asking, deferred, external, form},
};

/// Stands in every payload, and must not come back in any refusal.
const MARK: &str = "PAYLOAD-MARK";

/// What each case stands on: a broker, and one open wait with a marked question.
struct Ground {
    stage: Stage,
    front: Arc<Front>,
    token: String,
}

impl Ground {
    async fn new() -> Self {
        let setup = Setup::memory(TestClock::standing());
        let front = Front::new(setup.store.clone());
        let stage = setup.wrap(|_| front.clone()).start().await;
        let token = stage.open(marked("key")).await.token;
        Self {
            stage,
            front,
            token,
        }
    }

    async fn resolve(&self, json: &str) -> Status {
        told(self.stage.resolve(&self.token, json).await)
    }

    async fn failing(&self, fault: Fault) -> Status {
        self.front.fail(Some(fault));
        self.resolve(MARKED).await
    }

    async fn attach(&self, target: Target) -> Status {
        let target = Some(target);
        told(
            self.stage
                .attach_to(v1::AttachRequest { target })
                .await
                .map(|_| ()),
        )
    }

    /// Settles the wait and lets its retention time go by.
    async fn purge(&self) {
        self.stage
            .resolve(&self.token, MARKED)
            .await
            .expect("resolves");
        self.stage.clock.advance(31 * DAY);
        let purged = self.stage.store.purge(30 * DAY, 365 * DAY, 10).await;
        assert_eq!(purged.expect("purges").waits, 1);
    }

    async fn set_question(&self, token: &str, json: &str) -> Result<(), Status> {
        let request = v1::SetQuestionRequest {
            token: token.to_owned(),
            question: free(json),
        };
        self.stage.worker().set_question(request).await.map(|_| ())
    }
}

const MARKED: &str = "\"PAYLOAD-MARK\"";

fn marked(key: &str) -> WaitSpec {
    WaitSpec {
        question: free(MARKED),
        ..keyed("approve", key)
    }
}

fn key(key: &str) -> Target {
    Target::Key(v1::WaitKey {
        namespace: String::new(),
        key: key.to_owned(),
    })
}

#[track_caller]
fn told<T>(result: Result<T, Status>) -> Status {
    match result {
        Ok(_) => panic!("not refused"),
        Err(status) => status,
    }
}

type Provoke = fn(&Ground) -> Pin<Box<dyn Future<Output = Status> + '_>>;

/// A way to be refused, and what the refusal must hold.
struct Case {
    reason: ErrorReason,
    code: Code,
    metadata: &'static [&'static str],
    provoke: Provoke,
}

macro_rules! cases {
    ($($reason:ident, $code:ident, [$($key:literal),*], |$ground:ident| $provoke:expr;)*) => {
        vec![$(Case {
            reason: ErrorReason::$reason,
            code: Code::$code,
            metadata: &[$($key),*],
            provoke: |$ground| Box::pin(async move { $provoke }),
        }),*]
    };
}

fn cases() -> Vec<Case> {
    cases![
        InvalidField, InvalidArgument, [], |g| told(g.stage.try_open(WaitSpec { name: String::new(), ..marked("k") }).await);
        InvalidField, InvalidArgument, [], |g| told(g.stage.fail(&g.token, &MARK.repeat(1000)).await);
        InvalidField, InvalidArgument, [], |g| {
            let schema = r#"{"$ref":"https://example.com/x"}"#;
            told(g.stage.try_open(asking(form(schema))).await)
        };
        InvalidAnswer, InvalidArgument, ["wait_id"], |g| {
            let token = g.stage.open(asking(form(r#"{"type":"number"}"#))).await.token;
            told(g.stage.resolve(&token, MARKED).await)
        };
        InvalidAnswer, InvalidArgument, ["wait_id"], |g| {
            let token = g.stage.open(asking(deferred(vec![approval("a"), external("b")]))).await.token;
            let answer = r#"{"approvals":{"a":"PAYLOAD-MARK"},"answered_by":{"a":["PAYLOAD-MARK"]},
                             "calls":{"b":{"kind":"tool-failed","message":{"PAYLOAD-MARK":1}}}}"#;
            told(g.stage.resolve(&token, answer).await)
        };
        AlreadyDecided, FailedPrecondition, ["tool_call_id", "wait_id"], |g| {
            let token = g.stage.open(asking(deferred(vec![approval("a"), external("b")]))).await.token;
            let part = |json: &str| v1::ResolveRequest { partial: true, ..resolve(&token, json) };
            let yes = g.stage.resolver().resolve(part(r#"{"approvals":{"a":true}}"#)).await;
            yes.expect("decides");
            told(g.stage.resolver().resolve(part(r#"{"approvals":{"a":false}}"#)).await)
        };
        InvalidJson, InvalidArgument, [], |g| g.resolve(r#"{"PAYLOAD-MARK":1,"PAYLOAD-MARK":2}"#).await;
        InvalidDeadline, InvalidArgument, ["header"], |g| deadline(g, &["5s"]).await;
        InvalidDeadline, InvalidArgument, ["header"], |g| deadline(g, &["5S", "5S"]).await;
        MalformedRequest, InvalidArgument, [], |g| g.resolve(&format!("\"{}\"", MARK.repeat(1 << 18))).await;
        RequestIdReused, InvalidArgument, ["wait_id"], |g| {
            g.stage.try_open_as(WaitSpec { key: String::new(), ..marked("") }, "r").await.expect("opens");
            told(g.stage.try_open_as(spec("other"), "r").await)
        };
        TokenUnknown, NotFound, [], |g| told(g.stage.resolve(&g.token.replace("abey_A", "abey_B"), MARKED).await);
        WaitUnknown, NotFound, [], |g| g.attach(key(MARK)).await;
        WaitPurged, NotFound, ["wait_id"], |g| {
            g.purge().await;
            g.resolve(MARKED).await
        };
        WaitPurged, FailedPrecondition, [], |g| {
            g.purge().await;
            told(g.stage.try_open(marked("key")).await)
        };
        RecordMissing, DataLoss, ["wait_id"], |g| {
            let id = WaitId::new(g.stage.clock.now(), [1; 10]);
            let token = g.stage.keys.token(1, id).expect("a token");
            told(g.stage.resolve(token.expose(), MARKED).await)
        };
        KeyConflict, AlreadyExists, ["field", "wait_id"], |g| {
            told(g.stage.try_open(WaitSpec { question: free("\"PAYLOAD-MARK 2\""), ..marked("key") }).await)
        };
        AlreadySettled, FailedPrecondition, ["settle_time", "state", "wait_id"], |g| {
            g.stage.fail(&g.token, MARK).await.expect("fails");
            g.resolve(MARKED).await
        };
        QuestionNotSet, FailedPrecondition, ["wait_id"], |g| {
            let later = WaitSpec { question_later: true, ..spec("approve") };
            let token = g.stage.open(later).await.token;
            told(g.stage.resolve(&token, MARKED).await)
        };
        QuestionConflict, FailedPrecondition, ["wait_id"], |g| told(g.set_question(&g.token, "\"PAYLOAD-MARK 2\"").await);
        DeadlineExceeded, DeadlineExceeded, [], |g| deadline(g, &["0S"]).await;
        ShuttingDown, Unavailable, [], |g| {
            g.stage.broker.begin_drain();
            g.attach(Target::Token(g.token.clone())).await
        };
        StoreUnavailable, Unavailable, [], |g| g.failing(Fault::Unavailable).await;
        Overloaded, ResourceExhausted, [], |g| g.failing(Fault::Overloaded).await;
        Internal, Internal, [], |g| g.failing(Fault::Corrupt).await;
    ]
}

async fn deadline(ground: &Ground, values: &[&str]) -> Status {
    let mut request = Request::new(resolve(&ground.token, MARKED));
    for value in values {
        let value = value.parse().expect("a header");
        request.metadata_mut().append("grpc-timeout", value);
    }
    told(ground.stage.resolver().resolve(request).await)
}

/// A reason as it goes over the wire.
fn short(reason: ErrorReason) -> &'static str {
    reason.as_str_name().trim_start_matches("ERROR_REASON_")
}

/// The reasons with their comments, by the descriptor.
fn documented() -> Vec<(ErrorReason, String)> {
    let set = prost_types::FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("descriptors");
    let file = set
        .file
        .iter()
        .find(|f| f.name().ends_with("v1/error_reason.proto"));
    let file = file.expect("the file");
    let comments = &file.source_code_info.as_ref().expect("comments").location;
    let values = file.enum_type[0].value.iter().enumerate().skip(1);
    values
        .map(|(at, value)| {
            // The path of a value of the first enum: field 5 of the file, field 2 of the enum.
            let path = [5, 0, 2, i32::try_from(at).expect("few")];
            let comment = comments.iter().find(|l| l.path == path).expect("a comment");
            let text = comment.leading_comments().replace("\n ", " ");
            (
                ErrorReason::try_from(value.number()).expect("a reason"),
                text,
            )
        })
        .collect()
}

/// A code as comments write it.
fn code_name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[test]
fn every_reason_has_a_case_that_agrees_with_its_comment() {
    let (cases, documented) = (cases(), documented());
    assert!(documented.len() >= 18);
    for (reason, comment) in &documented {
        let of: Vec<_> = cases.iter().filter(|c| c.reason == *reason).collect();
        assert!(!of.is_empty(), "nothing provokes {}", short(*reason));
        let keys: BTreeSet<_> = of.iter().flat_map(|c| c.metadata).collect();
        for key in &keys {
            assert!(
                comment.contains(&format!("`{key}`")),
                "{key} of {reason:?}: {comment}"
            );
        }
        if let Some((_, promised)) = comment.split_once("metadata: ") {
            let promised = promised.split('.').next().unwrap_or_default();
            // What is in brackets tells of values.
            let promised: String =
                promised
                    .split('(')
                    .enumerate()
                    .fold(String::new(), |all, (at, part)| {
                        all + if at == 0 {
                            part
                        } else {
                            part.split_once(')').map_or("", |p| p.1)
                        }
                    });
            let promised: BTreeSet<_> = promised.split('`').skip(1).step_by(2).collect();
            assert_eq!(promised, keys.into_iter().copied().collect(), "{comment}");
        }
        for case in of {
            let code = code_name(case.code);
            assert!(comment.contains(&code), "{code} of {reason:?}: {comment}");
        }
    }
}

#[tokio::test]
async fn every_reason_comes_over_the_wire_as_its_comment_says() {
    let documented = documented();
    for case in cases() {
        let ground = Ground::new().await;
        let status = (case.provoke)(&ground).await;
        let name = short(case.reason);
        assert!(!status.message().is_empty(), "{name}");
        assert!(status.details().len() <= 4096, "{name}");
        let text = format!("{status:?}{}", String::from_utf8_lossy(status.details()));
        assert!(!text.contains(MARK), "{name} tells of a payload: {text}");
        assert!(
            !holds_part_of(&text, &ground.token),
            "{name} tells of a token: {text}"
        );

        let refusal = refused(Err::<(), _>(status)).assert(case.code, name);
        let keys: Vec<_> = refusal.metadata.keys().map(String::as_str).collect();
        assert_eq!(keys, case.metadata, "{name}");
        assert!(refusal.metadata.values().all(|v| !v.is_empty()), "{name}");
        let comment = documented.iter().find(|(r, _)| *r == case.reason);
        let comment = &comment.expect("documented").1;
        let retry = refusal.retry.is_some_and(|delay| !delay.is_zero());
        assert_eq!(retry, comment.contains("`RetryInfo`"), "{name}");
        assert_eq!(
            !refusal.fields.is_empty(),
            comment.contains("`BadRequest`"),
            "{name}"
        );
        for (field, fault) in refusal.fields {
            assert!(!field.is_empty() && !fault.is_empty(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_failed_store_changes_nothing_and_the_same_call_works_later() {
    let ground = Ground::new().await;
    for fault in [Fault::Unavailable, Fault::Overloaded, Fault::Corrupt] {
        ground.failing(fault).await;
        let spec = marked("new");
        refused(ground.stage.try_open(spec).await);
        refused(ground.stage.attach(&ground.token).await.map(|_| ()));
        let list = ground
            .stage
            .inbox()
            .list_waits(v1::ListWaitsRequest::default())
            .await;
        refused(list);
        ground.front.fail(None);
        ground.stage.assert_pending(&ground.token).await;
        assert!(
            !ground
                .stage
                .open(marked(&format!("{fault:?}")))
                .await
                .resumed
        );
    }
    ground
        .stage
        .resolve(&ground.token, "1")
        .await
        .expect("resolves");
}

/// As many faults as a request can hold, each as long as it gets.
fn faulty() -> WaitSpec {
    WaitSpec {
        labels: (0..100)
            .map(|n| (format!("{n:03}{}", "é".repeat(200)), "x".repeat(300)))
            .collect(),
        namespace: "A".to_owned(),
        ..marked(&"k".repeat(600))
    }
}

#[tokio::test]
async fn the_largest_refusal_arrives_whole_at_a_client_with_8_kib_for_headers() {
    let mut setup = Setup::memory(TestClock::standing());
    setup.header_limit = 8 << 10;
    let stage = setup.start().await;
    for _ in 0..3 {
        let status = told(stage.try_open(faulty()).await);
        assert!(
            status.details().len() > 3000,
            "{} bytes are not large",
            status.details().len()
        );
        let refusal = refused(Err::<(), _>(status)).assert(Code::InvalidArgument, "INVALID_FIELD");
        let (last, told) = refusal.fields.split_last().expect("faults");
        assert!(told.len() > 3);
        // 100 keys and 100 values too long, too many labels, namespace and key.
        assert_eq!(last.1, format!("and {} more", 203 - told.len()));
        assert_eq!(
            refusal.names()[..3],
            ["spec.key", "spec.namespace", "spec.labels"]
        );
    }
    stage.open(spec("approve")).await;
}
