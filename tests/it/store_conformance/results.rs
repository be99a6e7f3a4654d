//! Decisions of every kind, in either form: what was taken is read back as it was.

use abeyance::domain::{
    JsonText, Question, State, Submission, Verdict, Wait,
    question::read_requests,
    results::{Approval, CallResult, DENIED, Results, ToolReturn, UnknownKeys},
    transition::Body,
};
use serde_json::Value;

use super::deciding::is_kept;
use crate::{
    decisions::{answers, asks, part},
    store_fixture::{Env, json, key},
};

/// Decisions that came as a message, of every kind, come back from their JSON form as they were.
pub async fn decisions_in_a_message_are_kept_as_they_were_given(env: Env) {
    let bare = |value: &str| ToolReturn {
        value: json(value),
        content: None,
        metadata: None,
        tools: Vec::new(),
        file_digests: None,
    };
    let rich = ToolReturn {
        content: Some(json(r#"["see", "this"]"#)),
        metadata: Some(json(r#"{"m" : 1}"#)),
        tools: vec!["more \"tools\"".to_owned()],
        ..bare("1.0")
    };
    let value = |text: &str| CallResult::Value(json(text));
    let results = [
        value("null"),
        value(r#" {"a" : 1.0} "#.trim()),
        value(r#"{"kind":"tool-failed","message":"as data"}"#),
        value(r#"{"kind":"tool-return","return_value":1}"#),
        value(r#"{"part_kind":"retry-prompt","content":"x"}"#),
        value(r#"{"kind":"tool-denied"}"#),
        value(r#"{"kind":7}"#),
        value(r#"[{"kind":"tool-return"}]"#),
        CallResult::Return(bare("1")),
        CallResult::Return(bare(r#"{"kind":"x"}"#)),
        CallResult::Return(rich),
        CallResult::Failed(String::new()),
        CallResult::Failed("quoted \" \\ \u{1} \u{2028} é".to_owned()),
        CallResult::Retry("again".to_owned()),
    ];
    let approved = |args: Option<JsonText>| Approval::Approved {
        override_args: args,
        unknown: Vec::new(),
    };
    let denied = |text: &str| Approval::Denied {
        message: text.to_owned(),
        unknown: Vec::new(),
    };
    let approvals = [
        approved(None),
        approved(Some(json("{ }"))),
        denied(DENIED),
        denied(""),
    ];
    let mut ids: Vec<_> = (0..results.len()).map(|n| format!("e{n}")).collect();
    ids.extend((0..approvals.len()).map(|n| format!("a \"{n}\" é")));
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let mut new = env.new_wait();
    new.spec.key = Some(key("typed"));
    new.question = Some(asks(&ids, false));
    let mut wait = env.create(new).await;
    for (n, result) in results.iter().enumerate() {
        let given = Results {
            calls: vec![(ids[n].to_owned(), result.clone())],
            metadata: vec![(ids[n].to_owned(), json("{\"n\" :1}"))],
            ..Results::default()
        };
        decide_typed(&env, &mut wait, given).await;
    }
    for (n, approval) in approvals.iter().enumerate() {
        let id = ids[results.len() + n].to_owned();
        let approvals = vec![(id, approval.clone())];
        decide_typed(
            &env,
            &mut wait,
            Results {
                approvals,
                ..Results::default()
            },
        )
        .await;
    }
    assert_eq!(wait.record.state(), State::Resolved);
}

async fn decide_typed(env: &Env, wait: &mut Wait, given: Results<String>) {
    let answer = || {
        answers(Submission {
            body: Body::Results(given.clone()),
            ..part("null")
        })
    };
    let applied = env.apply(wait.record.id, answer()).await;
    assert_eq!(applied.verdict, Ok(Verdict::Done), "{given:?}");
    wait.record = applied.record;
    is_kept(env, wait).await;
    let again = env.apply(wait.record.id, answer()).await;
    assert_eq!(again.verdict, Ok(Verdict::Repeat), "{given:?}");
}

/// Whatever Pydantic AI's vectors hold that is taken.
pub async fn every_answer_that_is_taken_is_kept(env: Env) {
    let vectors: Value =
        serde_json::from_str(include_str!("../../data/deferred_tool_results.json")).expect("JSON");
    let mut kept = 0;
    for (n, case) in vectors["cases"]
        .as_array()
        .expect("a list")
        .iter()
        .enumerate()
    {
        let requests = json(&case["requests"].to_string());
        let Ok(requests) = read_requests("q", &requests, true) else {
            continue;
        };
        let Ok(text) = JsonText::new(&case["answer"].to_string()) else {
            continue;
        };
        for unknown_keys in [UnknownKeys::Refuse, UnknownKeys::Relay] {
            let mut new = env.new_wait();
            new.spec.key = Some(key(&format!("{n} {unknown_keys:?}")));
            new.question = Some(Question::Deferred(requests.clone()));
            let mut wait = env.create(new).await;
            let answer = Submission {
                unknown_keys,
                ..Submission::json(text.clone())
            };
            let applied = env.apply(wait.record.id, answers(answer.clone())).await;
            wait.record = applied.record;
            if applied.verdict == Ok(Verdict::Done) {
                kept += 1;
                let again = env.apply(wait.record.id, answers(answer)).await;
                assert_eq!(again.verdict, Ok(Verdict::Repeat), "{}", case["id"]);
            }
            assert_eq!(env.load(wait.record.id).await, wait, "{}", case["id"]);
        }
    }
    assert!(kept > 100, "{kept} were taken");
}
