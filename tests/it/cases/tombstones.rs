//! What is told of waits that are gone: purged, or missing.

use abeyance::{
    domain::WaitId,
    proto::v1::{self, attach_request::Target},
};
use tonic::{Code, Status};

use super::{
    rig::{Rig, Setup, TestClock},
    say::*,
};

/// Purges what is due, as the broker's own task does from time to time.
async fn purge(rig: &Rig) {
    let options = abeyance::broker::Options::default();
    let purged = rig.store.purge(options.retention, options.tombstones, 1000);
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
pub async fn every_call(rig: &Rig, token: &str) -> Vec<Status> {
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
        told(rig.attach(token).await),
        told(rig.worker().set_question(question).await),
        told(rig.mark_asked(token).await),
        told(rig.cancel(token, "").await),
        told(rig.resolve(token, "1").await),
        told(rig.fail(token, "no").await),
        told(rig.try_describe(token).await),
        told(rig.resolver().heartbeat(heartbeat).await),
    ]
}

async fn purged(rig: Rig) {
    let first = rig.open(keyed("approve", "k")).await;
    rig.resolve(&first.token, "1").await.expect("resolves");
    rig.clock.advance(30 * DAY - SECOND);
    purge(&rig).await;
    // Kept to the last second of the retention time, and given to each attach.
    assert_eq!(payload(&rig.outcome(&first.token).await), "1");

    rig.clock.advance(2 * SECOND);
    purge(&rig).await;
    for status in every_call(&rig, &first.token).await {
        let gone = refused(Err::<(), _>(status)).assert(Code::NotFound, "WAIT_PURGED");
        assert_eq!(gone.metadata["wait_id"], first.wait_id);
    }
    let wait_id = first.wait_id.clone();
    let get = rig.inbox().get_wait(v1::GetWaitRequest { wait_id }).await;
    refused(get).assert(Code::NotFound, "WAIT_UNKNOWN");

    // The key is not asked a second time, whatever is asked under it.
    rig.clock.advance(364 * DAY);
    purge(&rig).await;
    for spec in [keyed("approve", "k"), keyed("other", "k")] {
        refused(rig.try_open(spec.clone()).await).assert(Code::FailedPrecondition, "WAIT_PURGED");
        let stream = rig.wait(wait(spec)).await.map(|_| ());
        refused(stream).assert(Code::FailedPrecondition, "WAIT_PURGED");
    }
    let attach = rig.attach_to(by_key("k")).await.map(|_| ());
    refused(attach).assert(Code::FailedPrecondition, "WAIT_PURGED");

    // A year after the purge it is free again, and the old token stays what it was.
    rig.clock.advance(2 * DAY);
    purge(&rig).await;
    let attach = rig.attach_to(by_key("k")).await.map(|_| ());
    refused(attach).assert(Code::NotFound, "WAIT_UNKNOWN");
    let second = rig.open(keyed("approve", "k")).await;
    assert!(!second.resumed && second.token != first.token);
    refused(rig.resolve(&first.token, "1").await).assert(Code::NotFound, "WAIT_PURGED");
}

#[tokio::test]
async fn a_purged_wait_is_told_so_by_token_and_by_key_in_memory() {
    purged(Rig::standing().await).await;
}

#[tokio::test]
async fn a_purged_wait_is_told_so_by_token_and_by_key_in_sqlite() {
    purged(Setup::sqlite(TestClock::standing()).start().await).await;
}

#[tokio::test]
async fn a_purged_request_id_leaves_no_tombstone() {
    let rig = Rig::standing().await;
    let first = rig.try_open_as(spec("approve"), "r").await.expect("opens");
    let first = first.opened.expect("opened");
    rig.cancel(&first.token, "").await.expect("cancels");
    rig.clock.advance(31 * DAY);
    purge(&rig).await;
    let second = rig.try_open_as(spec("approve"), "r").await.expect("opens");
    let second = second.opened.expect("opened");
    assert!(!second.resumed);
    assert_ne!(second.token, first.token);
}

#[tokio::test]
async fn a_pending_wait_is_never_purged() {
    let rig = Rig::standing().await;
    let long = v1::WaitSpec {
        expiry: timeout(300 * DAY),
        ..spec("approve")
    };
    let token = rig.open(long).await.token;
    rig.clock.advance(299 * DAY);
    purge(&rig).await;
    rig.assert_pending(&token).await;
    // It is kept from when it was settled, not from when it was opened.
    rig.resolve(&token, "1").await.expect("resolves");
    purge(&rig).await;
    assert_eq!(payload(&rig.outcome(&token).await), "1");
}

#[tokio::test]
async fn a_genuine_token_without_a_record_is_a_loss_while_it_is_young() {
    let rig = Rig::standing().await;
    let id = WaitId::new(abeyance::store::Clock::now(&*rig.clock), [1; 10]);
    let token = rig.keys.token(1, id).expect("a token");
    for status in every_call(&rig, token.expose()).await {
        let lost = refused(Err::<(), _>(status)).assert(Code::DataLoss, "RECORD_MISSING");
        assert_eq!(lost.metadata["wait_id"], id.to_string());
    }
    rig.clock.advance(30 * DAY);
    for status in every_call(&rig, token.expose()).await {
        refused(Err::<(), _>(status)).assert(Code::NotFound, "WAIT_PURGED");
    }
}
