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
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
    assert_eq!(refusal.names(), ["approvals[\"a\"]", "calls[\"e\"]"]);
    let blank = v1::ToolApproval {
        decision: Some(Approves::Approved(v1::ToolApproved {
            override_args_json: " ".to_owned(),
        })),
    };
    // Blank text is no override, and must not run the model's own arguments.
    let refusal = refused(calls.answer(typed(&token, both(blank, value("1")))).await);
    refusal.assert(Code::InvalidArgument, "INVALID_JSON");
    let refusal = refused(
        calls
            .answer(typed(&token, both(approved(), value(""))))
            .await,
    );
    refusal.assert(Code::InvalidArgument, "INVALID_JSON");
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
