//! Values stay what their senders wrote, and data stays data.

use abeyance::proto::v1::{
    self, DeferredToolResults, tool_approval::Decision as Approves,
    tool_call_result::Result as Returns,
};
use serde_json::{Value, json};
use tonic::Code;

use super::ask::{approval, approved, asking, deferred, external, in_json, typed, value};
use crate::{
    cases::say::refused,
    harness::{Calls, Kind, TestServer, payload},
};

fn both(approval: v1::ToolApproval, result: v1::ToolCallResult) -> DeferredToolResults {
    DeferredToolResults {
        approvals: [("a".to_owned(), approval)].into(),
        calls: [("e".to_owned(), result)].into(),
        ..DeferredToolResults::default()
    }
}

async fn open(calls: &Calls) -> String {
    let question = deferred(vec![approval("a"), external("e")]);
    calls.token(asking(question)).await
}

/// What a worker gets of the answer to the call `e`, as JSON text.
async fn told(calls: &Calls, token: &str) -> String {
    payload(&calls.outcome(token).await).to_owned()
}

#[tokio::test]
async fn every_byte_within_the_frame_is_the_senders() {
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, |_| ()).await;
        let calls = server.calls().await;
        let json = r#"{ "calls": {"e": { "n" : 9007199254740993, "x": 1.50, "s": "\u00e9\/" } },
            "metadata": {"a": { "m" :1e2 }},
            "approvals": {"a": {"override_args": { "amount" : 1.0 }, "kind": "tool-approved"}} }"#;
        let token = open(&calls).await;
        calls.answer(in_json(&token, json)).await.expect("fits");
        let of_json = told(&calls, &token).await;
        assert_eq!(
            of_json,
            r#"{"calls":{"e":{ "n" : 9007199254740993, "x": 1.50, "s": "\u00e9\/" }},"#.to_owned()
                + r#""approvals":{"a":{"kind":"tool-approved","override_args":{ "amount" : 1.0 }}},"#
                + r#""metadata":{"a":{ "m" :1e2 }},"answered_by":{}}"#
        );
        let overriding = v1::ToolApproval {
            decision: Some(Approves::Approved(v1::ToolApproved {
                override_args_json: r#"{ "amount" : 1.0 }"#.to_owned(),
            })),
        };
        let mut results = both(
            overriding,
            value(r#"{ "n" : 9007199254740993, "x": 1.50, "s": "\u00e9\/" }"#),
        );
        let metadata = ("a".to_owned(), r#"{ "m" :1e2 }"#.to_owned());
        results.metadata_json.extend([metadata]);
        let token = open(&calls).await;
        let answered = calls.answer(typed(&token, results.clone())).await;
        answered.expect("fits");
        assert_eq!(told(&calls, &token).await, of_json);
        assert_eq!(calls.outcome(&token).await.results, Some(results));
        // What was asked is theirs, too.
        let asked = calls.describe(&token).await.expect("described").question;
        assert_eq!(asked, Some(deferred(vec![approval("a"), external("e")])));
    }
}

#[tokio::test]
async fn a_value_that_looks_tagged_stays_data() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let plain = |json: &str| json.to_owned();
    let framed = |json: &str| format!(r#"{{"kind":"tool-return","return_value":{json}}}"#);
    let without_files = |json: &str| {
        format!(r#"{{"kind":"tool-return","return_value":{json},"content_file_digests":[]}}"#)
    };
    type Framed<'a> = &'a dyn Fn(&str) -> String;
    let rows: [(&str, Framed<'_>); 11] = [
        (r#"{"status":"shipped"}"#, &plain),
        (r#"[{"kind":"tool-failed","message":"x"}]"#, &plain),
        (r#"{"kind":"tool-failed","message":"x"}"#, &framed),
        (r#"{"kind":"tool-return","return_value":1}"#, &framed),
        (r#"{"kind":"model-retry"}"#, &framed),
        (r#"{"kind":"tool-approved"}"#, &framed),
        (r#"{"part_kind":"retry-prompt","content":"again"}"#, &framed),
        (r#"{"kind":"order","id":9}"#, &framed),
        (r#"{ "kind" : null }"#, &framed),
        // Within a frame the library would make a file of it.
        (
            r#"{"kind":"image-url","url":"https://img.example/x.png","media_type":null}"#,
            &without_files,
        ),
        // Binary data would undo the frame, and needs none.
        (
            r#"{"kind":"binary","data":"AAAA","media_type":"image/png"}"#,
            &plain,
        ),
    ];
    for (json, wanted) in rows {
        let token = open(&calls).await;
        let results = both(approved(), value(json));
        let answered = calls.answer(typed(&token, results.clone())).await;
        answered.expect(json);
        let normal = told(&calls, &token).await;
        let wanted = format!(
            r#"{{"calls":{{"e":{}}},"approvals":{{"a":{{"kind":"tool-approved"}}}},"metadata":{{}},"answered_by":{{}}}}"#,
            wanted(json)
        );
        assert_eq!(normal, wanted, "{json}");
        assert_eq!(calls.outcome(&token).await.results, Some(results), "{json}");
        // Sent as JSON it is the same answer.
        let again = calls.answer(in_json(&token, &normal)).await.expect(json);
        assert!(again.replayed, "{json}");
        let token = open(&calls).await;
        calls.answer(in_json(&token, &normal)).await.expect(json);
        assert_eq!(told(&calls, &token).await, normal);
    }
    let token = open(&calls).await;
    let both_at_once = r#"{"kind":"tool-failed","x":{"kind":"binary","data":"AAAA"}}"#;
    let results = both(approved(), value(both_at_once));
    let refusal = refused(calls.answer(typed(&token, results)).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    assert_eq!(refusal.names(), ["calls[\"e\"]"]);
}

#[tokio::test]
async fn a_full_tool_return_is_told_whole() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let given = v1::ToolReturn {
        return_value_json: r#"{"a": 1}"#.to_owned(),
        content_json: r#"["see", {"kind":"image-url","url":"https://img.example/x.png"}]"#
            .to_owned(),
        metadata_json: "[1.0]".to_owned(),
        tools: vec!["t\"1".to_owned()],
        ..v1::ToolReturn::default()
    };
    let result = |given: &v1::ToolReturn| v1::ToolCallResult {
        result: Some(Returns::ToolReturn(given.clone())),
    };
    let token = open(&calls).await;
    let results = both(approved(), result(&given));
    let answered = calls.answer(typed(&token, results.clone())).await;
    answered.expect("fits");
    assert_eq!(calls.outcome(&token).await.results, Some(results));
    let told: Value = serde_json::from_str(&told(&calls, &token).await).expect("JSON");
    assert_eq!(
        told["calls"]["e"],
        json!({
            "kind": "tool-return",
            "return_value": {"a": 1},
            "content": ["see", {"kind": "image-url", "url": "https://img.example/x.png"}],
            "metadata": [1.0],
            "tools": ["t\"1"],
        })
    );
    let token = open(&calls).await;
    let bad = v1::ToolReturn {
        return_value_json: r#"[{"kind":"binary","data":"AAAA"}]"#.to_owned(),
        content_json: r#"["see", {"kind":"binary","data":"AAAA"}, 5]"#.to_owned(),
        ..given
    };
    let refusal = refused(
        calls
            .answer(typed(&token, both(approved(), result(&bad))))
            .await,
    );
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    assert_eq!(
        refusal.names(),
        [
            "calls[\"e\"].return_value",
            "calls[\"e\"].content[1]",
            "calls[\"e\"].content[2]"
        ]
    );
}

#[tokio::test]
async fn a_message_with_nothing_in_it_decides_nothing() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let token = open(&calls).await;
    let empty = both(v1::ToolApproval::default(), v1::ToolCallResult::default());
    let refusal = refused(calls.answer(typed(&token, empty)).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    assert_eq!(refusal.names(), ["approvals[\"a\"]", "calls[\"e\"]"]);
    let blank = v1::ToolApproval {
        decision: Some(Approves::Approved(v1::ToolApproved {
            override_args_json: " ".to_owned(),
        })),
    };
    // Blank text is no override, and must not run the model's own arguments.
    let refusal = refused(calls.answer(typed(&token, both(blank, value("")))).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    assert_eq!(
        refusal.names(),
        ["approvals[\"a\"].override_args", "calls[\"e\"]"]
    );
    let nothing = calls.answer(typed(&token, DeferredToolResults::default()));
    let refusal = refused(nothing.await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    assert_eq!(refusal.names(), ["approvals[\"a\"]", "calls[\"e\"]"]);
}

#[tokio::test]
async fn a_switch_relays_the_keys_of_a_newer_library() {
    let relay = |config: &mut abeyance::config::Config| {
        config.broker.limits.unknown_keys = abeyance::domain::results::UnknownKeys::Relay;
    };
    let json = r#"{"approvals":{"a":{"kind":"tool-approved","scope":["one", 1.0]}},"calls":{"e":1},"version":{ "v":3 }}"#;
    for kind in Kind::BOTH {
        let server = TestServer::start_with(kind, relay).await;
        let calls = server.calls().await;
        let token = open(&calls).await;
        calls.answer(in_json(&token, json)).await.expect("relays");
        assert_eq!(
            told(&calls, &token).await,
            r#"{"calls":{"e":1},"approvals":{"a":{"kind":"tool-approved","scope":["one", 1.0]}},"metadata":{},"answered_by":{},"version":{ "v":3 }}"#
        );
        assert!(
            calls
                .answer(in_json(&token, json))
                .await
                .expect("again")
                .replayed
        );
    }
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let token = open(&calls).await;
    let refusal = refused(calls.answer(in_json(&token, json)).await);
    assert_eq!(refusal.names(), ["approvals[\"a\"].scope", "version"]);
}

#[tokio::test]
async fn all_faults_of_a_message_are_told_together() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let question = deferred(vec![
        approval("a"),
        approval("b"),
        external("e"),
        external("f"),
    ]);
    let token = calls.token(asking(question)).await;
    let broken = v1::ToolApproval {
        decision: Some(Approves::Approved(v1::ToolApproved {
            override_args_json: "{\"x\":".to_owned(),
        })),
    };
    let results = DeferredToolResults {
        approvals: [("a".to_owned(), broken), ("e".to_owned(), approved())].into(),
        calls: [
            ("z".to_owned(), value("1")),
            ("f".to_owned(), value("nope")),
        ]
        .into(),
        metadata_json: [("a".to_owned(), "1".to_owned())].into(),
        answered_by: [("y".to_owned(), "alice".to_owned())].into(),
    };
    let refusal = refused(calls.answer(typed(&token, results)).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    let mut names = refusal.names();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "answered_by[\"y\"]",
            "approvals[\"a\"].override_args",
            "approvals[\"b\"]",
            "approvals[\"e\"]",
            "calls[\"f\"]",
            "calls[\"z\"]",
            "metadata[\"a\"]",
        ]
    );
}

#[tokio::test]
async fn a_file_is_not_the_same_answer_as_the_data_that_describes_it() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let data = r#"{"kind":"image-url","url":"https://img.example/x.png","media_type":"image/png"}"#;
    let file = format!(r#"{{"kind":"tool-return","return_value":{data}}}"#);
    let framed =
        format!(r#"{{"kind":"tool-return","return_value":{data},"content_file_digests":[]}}"#);
    let part = |token: &str, result: &str| v1::ResolveRequest {
        partial: true,
        ..in_json(token, &format!(r#"{{"calls":{{"e":{result}}}}}"#))
    };
    for (first, same, others) in [
        (&file, &file, [&framed, &data.to_owned()]),
        (&framed, &data.to_owned(), [&file, &"1".to_owned()]),
    ] {
        let token = open(&calls).await;
        calls.answer(part(&token, first)).await.expect("is new");
        assert!(
            calls
                .answer(part(&token, same))
                .await
                .expect("is the same")
                .replayed
        );
        for other in others {
            let refusal = refused(calls.answer(part(&token, other)).await);
            refusal.assert(Code::FailedPrecondition, "ALREADY_DECIDED");
        }
    }
    // Where there is no file, the frame alone makes no difference.
    let token = open(&calls).await;
    calls
        .answer(part(&token, r#"{"kind":"tool-return","return_value":7}"#))
        .await
        .expect("new");
    assert!(
        calls
            .answer(part(&token, "7"))
            .await
            .expect("is the same")
            .replayed
    );
}

#[tokio::test]
async fn a_key_that_is_relayed_is_never_dropped() {
    let server = TestServer::start_with(Kind::Memory, |config| {
        config.broker.limits.unknown_keys = abeyance::domain::results::UnknownKeys::Relay;
    })
    .await;
    let calls = server.calls().await;
    let token = open(&calls).await;
    let part = |json: &str| v1::ResolveRequest {
        partial: true,
        ..in_json(&token, json)
    };
    let first = r#"{"approvals":{"a":{"kind":"tool-approved","scope":1}},"version":3}"#;
    calls.answer(part(first)).await.expect("is new");
    assert!(
        calls
            .answer(part(first))
            .await
            .expect("is the same")
            .replayed
    );
    let other = r#"{"approvals":{"a":{"kind":"tool-approved","scope":2}},"version":3}"#;
    let refusal = refused(calls.answer(part(other)).await);
    refusal.assert(Code::FailedPrecondition, "ALREADY_DECIDED");
    let refusal = refused(calls.answer(part(r#"{"calls":{"e":1},"version":4}"#)).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
    assert_eq!(refusal.names(), ["\"version\""]);
}

/// Objects with a kind, deep below: what looks for files and binary data goes over them once.
#[tokio::test]
async fn a_deep_answer_full_of_kinds_takes_no_longer_than_another() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let nested = |key: &str| {
        let item = format!("{{\"{key}\":\"x\",\"d\":[[[[[1]]]]]}}");
        let items = vec![item; 25_000].join(",");
        format!("{}[{items}]{}", "[".repeat(110), "]".repeat(110))
    };
    let mut times = Vec::new();
    for key in ["kin", "kind"] {
        let token = open(&calls).await;
        let value = nested(key);
        let json = format!(
            r#"{{"approvals":{{"a":true}},"calls":{{"e":{{"kind":"tool-return","return_value":{value}}}}}}}"#
        );
        let begun = std::time::Instant::now();
        calls.answer(in_json(&token, &json)).await.expect("fits");
        times.push(begun.elapsed());
    }
    // By its square it would be a hundred times.
    assert!(
        times[1] < times[0] * 10 + std::time::Duration::from_secs(1),
        "{times:?}"
    );
}
