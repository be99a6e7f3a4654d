//! What is told of waits that are gone: purged, or missing.

use abeyance::{
    domain::WaitId,
    proto::v1::{self, attach_request::Target},
};
use tonic::{Code, Status};

use super::{
    say::*,
    stage::{Setup, Stage, TestClock},
};

/// Purges what is due, as the broker's own task does from time to time.
async fn purge(stage: &Stage) {
    let options = abeyance::broker::Options::default();
    let purged = stage
        .store
        .purge(options.retention, options.tombstones, 1000);
    purged.await.expect("purges");
}

fn by_key(key: &str) -> v1::AttachRequest {
    v1::AttachRequest {
        target: Some(Target::Key(v1::WaitKey {
            namespace: String::new(),
            key: key.to_owned(),
        })),
    }
}

/// Every call that takes a token, with that token.
pub async fn every_call(stage: &Stage, token: &str) -> Vec<Status> {
    fn told<T>(result: Result<T, Status>) -> Status {
        result.err().expect("a refusal")
    }
    let owned = || token.to_owned();
    let question = v1::SetQuestionRequest {
        token: owned(),
        question: free("1"),
    };
    let heartbeat = v1::HeartbeatRequest { token: owned() };
    vec![
        told(stage.attach(token).await),
        told(stage.worker().set_question(question).await),
        told(stage.mark_asked(token).await),
        told(stage.cancel(token, "").await),
        told(stage.resolve(token, "1").await),
        told(stage.fail(token, "no").await),
        told(stage.try_describe(token).await),
        told(stage.resolver().heartbeat(heartbeat).await),
    ]
}

async fn purged(stage: Stage) {
    let first = stage.open(keyed("approve", "k")).await;
    stage.resolve(&first.token, "1").await.expect("resolves");
    stage.clock.advance(30 * DAY - SECOND);
    purge(&stage).await;
    // Kept to the last second of the retention time, and given to each attach.
    assert_eq!(payload(&stage.outcome(&first.token).await), "1");

    stage.clock.advance(2 * SECOND);
    purge(&stage).await;
    for status in every_call(&stage, &first.token).await {
        let gone = refused(Err::<(), _>(status)).assert(Code::NotFound, "WAIT_PURGED");
        assert_eq!(gone.metadata["wait_id"], first.wait_id);
    }
    let wait_id = first.wait_id.clone();
    let get = stage.inbox().get_wait(v1::GetWaitRequest { wait_id }).await;
    refused(get).assert(Code::NotFound, "WAIT_UNKNOWN");

    // The key is not asked a second time, whatever is asked under it.
    stage.clock.advance(364 * DAY);
    purge(&stage).await;
    for spec in [keyed("approve", "k"), keyed("other", "k")] {
        refused(stage.try_open(spec.clone()).await).assert(Code::FailedPrecondition, "WAIT_PURGED");
        let stream = stage.wait(wait(spec)).await.map(|_| ());
        refused(stream).assert(Code::FailedPrecondition, "WAIT_PURGED");
    }
    let attach = stage.attach_to(by_key("k")).await.map(|_| ());
    refused(attach).assert(Code::FailedPrecondition, "WAIT_PURGED");

    // A year after the purge it is free again, and the old token stays what it was.
    stage.clock.advance(2 * DAY);
    purge(&stage).await;
    let attach = stage.attach_to(by_key("k")).await.map(|_| ());
    refused(attach).assert(Code::NotFound, "WAIT_UNKNOWN");
    let second = stage.open(keyed("approve", "k")).await;
    assert!(!second.resumed && second.token != first.token);
    refused(stage.resolve(&first.token, "1").await).assert(Code::NotFound, "WAIT_PURGED");
}

#[tokio::test]
async fn a_purged_wait_is_told_so_by_token_and_by_key_in_memory() {
    purged(Stage::standing().await).await;
}

#[tokio::test]
async fn a_purged_wait_is_told_so_by_token_and_by_key_in_sqlite() {
    purged(Setup::sqlite(TestClock::standing()).start().await).await;
}

#[tokio::test]
async fn a_purged_request_id_leaves_no_tombstone() {
    let stage = Stage::standing().await;
    let first = stage
        .try_open_as(spec("approve"), "r")
        .await
        .expect("opens");
    let first = first.opened.expect("opened");
    stage.cancel(&first.token, "").await.expect("cancels");
    stage.clock.advance(31 * DAY);
    purge(&stage).await;
    let second = stage
        .try_open_as(spec("approve"), "r")
        .await
        .expect("opens");
    let second = second.opened.expect("opened");
    assert!(!second.resumed);
    assert_ne!(second.token, first.token);
}

#[tokio::test]
async fn a_pending_wait_is_never_purged() {
    let stage = Stage::standing().await;
    let long = v1::WaitSpec {
        expiry: timeout(300 * DAY),
        ..spec("approve")
    };
    let token = stage.open(long).await.token;
    stage.clock.advance(299 * DAY);
    purge(&stage).await;
    stage.assert_pending(&token).await;
    // It is kept from when it was settled, not from when it was opened.
    stage.resolve(&token, "1").await.expect("resolves");
    purge(&stage).await;
    assert_eq!(payload(&stage.outcome(&token).await), "1");
}

#[tokio::test]
async fn a_genuine_token_without_a_record_is_a_loss_while_it_is_young() {
    let stage = Stage::standing().await;
    let id = WaitId::new(abeyance::store::Clock::now(&*stage.clock), [1; 10]);
    let token = stage.keys.token(1, id).expect("a token");
    for status in every_call(&stage, token.expose()).await {
        let lost = refused(Err::<(), _>(status)).assert(Code::DataLoss, "RECORD_MISSING");
        assert_eq!(lost.metadata["wait_id"], id.to_string());
    }
    stage.clock.advance(30 * DAY);
    for status in every_call(&stage, token.expose()).await {
        refused(Err::<(), _>(status)).assert(Code::NotFound, "WAIT_PURGED");
    }
}
