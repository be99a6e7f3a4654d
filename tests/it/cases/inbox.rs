//! What people's tools are shown of one wait: all of it but its token, and in lists no payload.

use abeyance::proto::v1::{self, WaitSpec};
use prost::Message as _;
use tonic::Code;

use super::{say::*, stage::Stage};

#[tokio::test]
async fn lists_carry_no_payload_and_nothing_of_the_inbox_a_token() {
    let stage = Stage::sqlite().await;
    let asked = WaitSpec {
        question: free("\"QUESTION-MARK\""),
        labels: labels([("team", "pay")]),
        ..keyed("approve", "order-1")
    };
    let opened = stage.open(asked).await;
    stage.mark_asked(&opened.token).await.expect("marks");
    stage
        .resolve(&opened.token, "\"ANSWER-MARK\"")
        .await
        .expect("resolves");
    let listed = stage
        .inbox()
        .list_waits(v1::ListWaitsRequest::default())
        .await;
    let listed = listed.expect("lists").into_inner();
    let wait_id = opened.wait_id.clone();
    let whole = stage.inbox().get_wait(v1::GetWaitRequest { wait_id }).await;
    let whole = whole.expect("gets").into_inner();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (list, one) = (text(listed.encode_to_vec()), text(whole.encode_to_vec()));
    assert!(!list.contains("-MARK") && list.contains("order-1") && list.contains("pay"));
    assert!(one.contains("QUESTION-MARK") && one.contains("ANSWER-MARK"));
    for text in [list, one] {
        assert!(!super::secrets::holds_part_of(&text, &opened.token));
    }
    let shown = whole.wait.expect("a wait");
    assert_eq!(Some(&shown), Some(&stage.describe(&opened.token).await));
    let bare = v1::Wait {
        question: None,
        outcome: None,
        ..shown
    };
    assert_eq!(listed.waits, [bare]);
}

#[tokio::test]
async fn a_wait_is_got_by_its_id_alone() {
    let stage = Stage::standing().await;
    let opened = stage.open(spec("approve")).await;
    let unknown = "01890000-0000-7000-8000-000000000000".to_owned();
    let get = |wait_id: String| {
        let mut inbox = stage.inbox();
        async move { inbox.get_wait(v1::GetWaitRequest { wait_id }).await }
    };
    refused(get(unknown).await).assert(Code::NotFound, "WAIT_UNKNOWN");
    for none in ["", "7", &opened.token] {
        let refusal = refused(get(none.to_owned()).await);
        assert_eq!(refusal.names(), ["wait_id"]);
        assert!(!super::secrets::holds_part_of(
            &format!("{refusal:?}"),
            &opened.token
        ));
        refusal.assert(Code::InvalidArgument, "INVALID_FIELD");
    }
    assert!(get(opened.wait_id).await.is_ok());
}

#[tokio::test]
async fn ids_sort_by_the_time_of_the_open() {
    let stage = Stage::standing().await;
    let mut last = String::new();
    for _ in 0..50 {
        stage.clock.advance(SECOND / 1000);
        let id = stage.open(spec("approve")).await.wait_id;
        assert!(id > last, "{id} after {last}");
        last = id;
    }
}
