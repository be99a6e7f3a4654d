//! JSON: what is taken is carried byte for byte, and what parsers read differently is refused with its position.

use abeyance::proto::v1::{
    self, ResolveRequest, ResolveResponse, WaitSpec, outcome::Result as Ended,
};
use tonic::{Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;

use super::{
    say::*,
    stage::{Stage, origin},
};

/// Text that every language must get as it was sent.
const KEPT: [&str; 12] = [
    "9007199254740993",
    "9223372036854775807",
    "12345678901234567890123",
    "1.10",
    "1e2",
    "-0",
    "1E-400",
    " [ 1 ,\r\n\t2 ] ",
    r#"{"z":1,"a":2,"":null}"#,
    r#""\ud83d\ude00 \u0000 \/ é 😀""#,
    "\"\u{7f}\u{202e}\u{feff}\"",
    "false",
];

#[tokio::test]
async fn c64_json_reaches_the_worker_byte_for_byte() {
    for stage in [Stage::standing().await, Stage::sqlite().await] {
        for text in KEPT {
            let asked = WaitSpec {
                question: free(text),
                ..spec("approve")
            };
            let mut waiting = stage.wait(wait(asked.clone())).await.expect("waits");
            let token = waiting.opened().await.token;
            assert_eq!(stage.describe(&token).await.question, free(text));
            stage.resolve(&token, text).await.expect(text);
            assert_eq!(payload(&waiting.outcome().await), text);
            assert_eq!(payload(&stage.outcome(&token).await), text);

            let token = stage.open(asked).await.token;
            let failure = v1::FailRequest {
                details_json: text.to_owned(),
                ..fail(&token, "no")
            };
            stage.resolver().fail(failure).await.expect(text);
            match stage.outcome(&token).await.result {
                Some(Ended::Failed(failed)) => assert_eq!(failed.details_json, text),
                other => panic!("not failed: {other:?}"),
            }
        }
    }
}

/// What is refused. Where it holds `SECRET`, that must not come back.
const REFUSED: [&str; 24] = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "[\"SECRET\",-1e999]",
    r#""SECRET\ud800""#,
    r#""\udc00SECRET""#,
    r#""\ud800\u0041""#,
    "\u{feff}{}",
    "{} SECRET",
    "1 2",
    "\"SECRET\u{1}\"",
    "\"a\nSECRET\"",
    "01",
    "+1",
    ".5",
    "'SECRET'",
    "[1,]",
    "{SECRET:1}",
    r#"{"SECRET":1,"SECRET":2}"#,
    r#"{"approvals":{"c1":false,"c1":true}}"#,
    r#"[{"c1":1,"\u00631":2}]"#,
    "tru",
    "{\"SECRET\":",
];

/// Asserts that a refusal names the field and the position, and quotes nothing.
fn assert_named(refusal: &Refused, field: &str, text: &str) {
    assert!(
        refusal.is(Code::InvalidArgument, "INVALID_JSON"),
        "{text:?}: {refusal:?}"
    );
    assert_eq!(refusal.names(), [field], "{text:?}");
    let told = &refusal.fields[0].1;
    let placed = told.contains(" at line ") && told.contains(" column ");
    assert!(
        placed || told.contains("byte order mark"),
        "{text:?}: {told}"
    );
    assert!(!format!("{refusal:?}").contains("SECRET"), "{refusal:?}");
}

#[tokio::test]
async fn c65_what_is_no_json_is_refused_with_its_position_and_quotes_nothing() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    let later = WaitSpec {
        question_later: true,
        ..spec("approve")
    };
    let later = stage.open(later).await.token;
    for text in REFUSED {
        assert_named(
            &refused(stage.resolve(&token, text).await),
            "payload_json",
            text,
        );
        let failure = v1::FailRequest {
            details_json: text.to_owned(),
            ..fail(&token, "no")
        };
        assert_named(
            &refused(stage.resolver().fail(failure).await),
            "details_json",
            text,
        );
        let asked = WaitSpec {
            question: free(text),
            ..spec("approve")
        };
        assert_named(
            &refused(stage.try_open(asked).await),
            "spec.question.free_json",
            text,
        );
        let request = v1::SetQuestionRequest {
            token: later.clone(),
            question: free(text),
        };
        let refusal = refused(stage.worker().set_question(request).await);
        assert_named(&refusal, "question.free_json", text);
    }
    stage.assert_pending(&token).await;
    stage.assert_pending(&later).await;
    stage
        .resolve(&token, "{}")
        .await
        .expect("the token is unspent");
}

#[tokio::test]
async fn c65_the_position_is_that_of_the_fault() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    for (text, position) in [
        ("{\n  \"a\": 1,\n  \"a\": 2\n}", "line 3 column 5"),
        ("[1, 2, x]", "line 1 column 8"),
        ("{} x", "line 1 column 4"),
    ] {
        let refusal = refused(stage.resolve(&token, text).await);
        assert!(refusal.fields[0].1.ends_with(position), "{refusal:?}");
    }
}

/// A `ResolveRequest` that may hold what no `string` may.
#[derive(Clone, PartialEq, prost::Message)]
struct Raw {
    #[prost(string, tag = "1")]
    token: String,
    #[prost(bytes = "vec", tag = "2")]
    payload: Vec<u8>,
}

async fn resolve_raw(
    stage: &Stage,
    token: &str,
    payload: &[u8],
) -> Result<ResolveResponse, Status> {
    let mut grpc = Grpc::with_origin(stage.line.clone(), origin());
    grpc.ready().await.expect("connected");
    let path = PathAndQuery::from_static("/abeyance.v1.ResolveService/Resolve");
    let raw = Raw {
        token: token.to_owned(),
        payload: payload.to_owned(),
    };
    let codec = ProstCodec::<Raw, ResolveResponse>::default();
    Ok(grpc
        .unary(Request::new(raw), path, codec)
        .await?
        .into_inner())
}

#[tokio::test]
async fn c65_what_is_no_utf_8_is_a_malformed_request() {
    let stage = Stage::standing().await;
    let token = stage.open(spec("approve")).await.token;
    for payload in [
        b"\"\xff\"".as_slice(),
        b"\"\xc3\"",
        b"\"\xed\xa0\x80\"",
        b"\xfe\xff\0{\0}",
    ] {
        let refusal = refused(resolve_raw(&stage, &token, payload).await);
        refusal.assert(Code::InvalidArgument, "MALFORMED_REQUEST");
    }
    stage.assert_pending(&token).await;
    resolve_raw(&stage, &token, "\"é\"".as_bytes())
        .await
        .expect("UTF-8");
}

fn nested(open: &str, inner: &str, close: &str, levels: usize) -> String {
    format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
}

#[tokio::test]
async fn c66_depth_ends_at_127_levels_and_the_broker_lives() {
    let stage = Stage::standing().await;
    for (open, inner, close) in [("[", "", "]"), ("{\"a\":", "1", "}"), ("[0,", "0", "]")] {
        for levels in [100, 127] {
            let text = nested(open, inner, close, levels);
            let asked = WaitSpec {
                question: free(&text),
                ..keyed("approve", &format!("{open}{levels}"))
            };
            let token = stage.open(asked.clone()).await.token;
            stage.resolve(&token, &text).await.expect("resolves");
            // Compared with itself in other white space, in full depth.
            let repeat = stage
                .resolve(&token, &format!(" {text} "))
                .await
                .expect("resolves");
            assert!(repeat.replayed);
            let asked = WaitSpec {
                question: free(&format!("\n{text}")),
                ..asked
            };
            assert!(stage.open(asked).await.resumed);
            assert_eq!(payload(&stage.outcome(&token).await), text);
        }
        let token = stage.open(spec("approve")).await.token;
        for levels in [128, 1000, 100_000] {
            let text = nested(open, inner, close, levels);
            let ResolveRequest { answer, .. } = resolve(&token, &text);
            let request = ResolveRequest {
                answer,
                ..resolve(&token, "")
            };
            let refusal = refused(stage.resolver().resolve(request).await);
            assert_named(&refusal, "payload_json", open);
            assert!(refusal.fields[0].1.contains("127 levels"), "{refusal:?}");
            let asked = WaitSpec {
                question: free(&text),
                ..spec("approve")
            };
            refused(stage.try_open(asked).await).assert(Code::InvalidArgument, "INVALID_JSON");
        }
        // Nothing but opening brackets.
        let refusal = refused(stage.resolve(&token, &open.repeat(100_000)).await);
        assert_named(&refusal, "payload_json", open);
        stage.assert_pending(&token).await;
    }
}
