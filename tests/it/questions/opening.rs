//! What may be asked, and when two questions are the same.

use abeyance::proto::v1::{self, WaitSpec, question::Kind};
use tonic::Code;

use super::ask::{approval, asking, deferred, deferred_json, external, form};
use crate::{
    cases::say::refused,
    harness::{Kind as Store, TestServer, payload},
};

fn keyed(question: v1::Question) -> WaitSpec {
    WaitSpec {
        key: "k".to_owned(),
        ..asking(question)
    }
}

#[tokio::test]
async fn the_same_calls_are_the_same_question_however_they_are_written() {
    let json = r#"{"calls":[{"tool_name":"refund","args":{"amount":50},"tool_call_id":"e","provider_name":"x"}],
                   "approvals":[{"tool_call_id":"a","tool_name":"refund","args":{ "amount" : 50 }}]}"#;
    for store in Store::BOTH {
        let server = TestServer::start_with(store, |_| ()).await;
        let calls = server.calls().await;
        let first = calls
            .open(keyed(deferred_json(json, false)))
            .await
            .expect("opens");
        let token = first.opened.expect("opened").token;
        let mut described = approval("a");
        described.description = "Pays back.".to_owned();
        described.metadata_json = r#"{"risk":"high"}"#.to_owned();
        for same in [
            deferred(vec![approval("a"), external("e")]),
            deferred(vec![external("e"), described]),
        ] {
            let again = calls.open(keyed(same)).await.expect("opens");
            let opened = again.opened.expect("opened");
            assert!(opened.resumed && opened.token == token);
        }
        let other = |change: fn(&mut v1::DeferredToolCall)| {
            let mut call = approval("a");
            change(&mut call);
            deferred(vec![call, external("e")])
        };
        for other in [
            other(|call| call.tool_call_id = "b".to_owned()),
            other(|call| call.tool_name = "refund_all".to_owned()),
            other(|call| call.args_json = r#"{"amount": 50.0}"#.to_owned()),
            other(|call| call.args_json = r#""{\"amount\": 50}""#.to_owned()),
            other(|call| call.kind = v1::deferred_tool_call::Kind::Question.into()),
            deferred(vec![approval("a")]),
            deferred_json(json, true),
            form("true"),
            v1::Question {
                kind: Some(Kind::FreeJson(json.to_owned())),
            },
        ] {
            let refusal = refused(calls.open(keyed(other)).await);
            refusal.assert(Code::AlreadyExists, "KEY_CONFLICT");
        }
    }
}

#[tokio::test]
async fn a_form_is_the_same_by_its_values() {
    for store in Store::BOTH {
        let server = TestServer::start_with(store, |_| ()).await;
        let calls = server.calls().await;
        calls
            .open(keyed(form(r#"{"type":"integer","minimum":1}"#)))
            .await
            .expect("opens");
        let same = form(r#"{ "minimum" : 1, "type": "integer" }"#);
        let again = calls.open(keyed(same)).await.expect("opens");
        assert!(again.opened.expect("opened").resumed);
        for other in [r#"{"type":"integer","minimum":1.0}"#, "true", ""] {
            let refusal = refused(calls.open(keyed(form(other))).await);
            refusal.assert(Code::AlreadyExists, "KEY_CONFLICT");
        }
    }
}

#[tokio::test]
async fn every_fault_of_a_question_is_told_and_nothing_is_opened() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let bad = v1::DeferredToolCall {
        tool_call_id: String::new(),
        tool_name: "a\nb".to_owned(),
        args_json: "[1]".to_owned(),
        kind: 0,
        metadata_json: "1".to_owned(),
        description: String::new(),
    };
    let refusal = refused(calls.open(keyed(deferred(vec![approval("a"), bad]))).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
    let at = "spec.question.deferred.calls[1]";
    let names: Vec<_> = [
        "kind",
        "tool_call_id",
        "tool_name",
        "args_json",
        "metadata_json",
    ]
    .map(|name| format!("{at}.{name}"))
    .into();
    assert_eq!(refusal.names(), names);
    let many: Vec<_> = (0..65).map(|n| approval(&n.to_string())).collect();
    let refusal = refused(calls.open(keyed(deferred(many))).await);
    assert_eq!(refusal.names(), ["spec.question.deferred.calls"]);
    let refusal = refused(
        calls
            .open(keyed(deferred_json("{\"calls\":[{}]}", false)))
            .await,
    );
    let at = "spec.question.deferred_json.requests_json.calls[0]";
    assert_eq!(
        refusal.names(),
        [format!("{at}.tool_call_id"), format!("{at}.tool_name")]
    );
    let refusal = refused(calls.open(keyed(form(r#"{"type":"integr"}"#))).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
    assert!(refusal.names()[0].starts_with("spec.question.form.response_schema_json"));
    // Nothing stands under the key.
    let opened = calls.open(keyed(deferred(vec![approval("a")]))).await;
    assert!(!opened.expect("opens").opened.expect("opened").resumed);
}

#[tokio::test]
async fn a_question_may_come_later_and_is_checked_like_any_other() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let later = WaitSpec {
        question_later: true,
        ..crate::harness::spec("ask")
    };
    let token = calls.token(later).await;
    let refusal = refused(calls.resolve(&token, r#"{"approvals":{"a":true}}"#).await);
    let refusal = refusal.assert(Code::FailedPrecondition, "QUESTION_NOT_SET");
    assert!(refusal.retry.is_some());
    let set = async |question| {
        let request = v1::SetQuestionRequest {
            token: token.clone(),
            question: Some(question),
        };
        calls.waits.clone().set_question(request).await
    };
    let refusal = refused(set(form("{\"$ref\":\"#\"}")).await);
    let refusal = refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
    assert!(refusal.names()[0].starts_with("question.form.response_schema_json"));
    set(deferred(vec![approval("a")])).await.expect("sets it");
    set(deferred(vec![approval("a")]))
        .await
        .expect("the same again");
    let refusal = refused(set(deferred(vec![approval("b")])).await);
    refusal.assert(Code::FailedPrecondition, "QUESTION_CONFLICT");
    refused(calls.resolve(&token, "true").await).assert(Code::InvalidArgument, "INVALID_ANSWER");
    calls
        .resolve(&token, r#"{"approvals":{"a":true}}"#)
        .await
        .expect("fits");
}

#[tokio::test]
async fn an_answer_must_fit_the_form_and_says_who_gave_it() {
    for store in Store::BOTH {
        let server = TestServer::start_with(store, |_| ()).await;
        let calls = server.calls().await;
        let schema = r#"{"type":"object","properties":{"amount":{"type":"integer","maximum":9}},"required":["amount"]}"#;
        let token = calls.token(asking(form(schema))).await;
        for (answer, field) in [
            (r#"{"amount":10}"#, "amount"),
            (r#"{"amount":"3"}"#, "amount"),
            ("{}", "payload_json"),
            ("3", "payload_json"),
        ] {
            let refusal = refused(calls.resolve(&token, answer).await);
            let refusal = refusal.assert(Code::InvalidArgument, "INVALID_ANSWER");
            assert_eq!(refusal.names(), [field], "{answer}");
        }
        let by = |who: &str, json: &str| v1::ResolveRequest {
            answered_by: who.to_owned(),
            ..super::ask::in_json(&token, json)
        };
        let first = calls
            .answer(by("alice", r#"{"amount": 3}"#))
            .await
            .expect("fits");
        assert_eq!(
            (first.replayed, first.answered_by.as_str()),
            (false, "alice")
        );
        let again = calls
            .answer(by("bob", r#"{"amount":3}"#))
            .await
            .expect("the same");
        assert_eq!(
            (again.replayed, again.answered_by.as_str()),
            (true, "alice")
        );
        let outcome = calls.outcome(&token).await;
        assert_eq!(payload(&outcome), r#"{"amount": 3}"#);
        let Some(v1::outcome::Result::Resolved(resolved)) = outcome.result else {
            panic!("not resolved");
        };
        assert_eq!(resolved.answered_by, "alice");
        // What fits the form as well is another answer all the same; what does not is told that it is too late.
        for late in [r#"{"amount":4}"#, r#""no object""#] {
            let refusal = refused(calls.resolve(&token, late).await);
            refusal.assert(Code::FailedPrecondition, "ALREADY_SETTLED");
        }
    }
}

#[tokio::test]
async fn what_is_not_about_tool_calls_takes_no_decisions() {
    let server = TestServer::start().await;
    let calls = server.calls().await;
    let free = v1::Question {
        kind: Some(Kind::FreeJson("1".to_owned())),
    };
    for question in [form("{}"), free] {
        let token = calls.token(asking(question)).await;
        let results = v1::DeferredToolResults::default();
        let refusal = refused(calls.answer(super::ask::typed(&token, results)).await);
        assert_eq!(refusal.names(), ["results"]);
        let partial = v1::ResolveRequest {
            partial: true,
            ..super::ask::in_json(&token, "1")
        };
        let refusal = refused(calls.answer(partial).await);
        assert_eq!(refusal.names(), ["partial"]);
        calls.resolve(&token, "1").await.expect("any JSON");
    }
}
