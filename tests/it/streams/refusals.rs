//! The largest refusals arrive whole where header lists are limited to 8 KiB, as they are in Java by default.

use std::collections::BTreeMap;

use abeyance::proto::v1::{self, ResolveRequest, resolve_request::Answer};
use h2::client::Builder;
use tonic::Code;
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::harness::{
    TestServer,
    raw::{End, OPEN, RESOLVE, RawClient, header_list_bytes},
    spec,
};

const LIMIT: u32 = 8192;

async fn small_client(server: &TestServer) -> RawClient {
    // h2 itself resets a stream whose header list is larger than it told the peer to send.
    let mut builder = Builder::new();
    builder.max_header_list_size(LIMIT);
    RawClient::with(server.addr, &builder).await
}

fn check(end: &End, reason: &str) -> ErrorDetails {
    let size = header_list_bytes(&end.headers);
    assert!(
        size < usize::try_from(LIMIT).expect("small"),
        "{reason}: the header list is {size} bytes: {:?}",
        end.headers
    );
    let details = end.status.get_error_details();
    let info = details.error_info().expect("an ErrorInfo");
    assert_eq!(info.reason, reason);
    assert_eq!(info.domain, abeyance::proto::ERROR_DOMAIN);
    println!("{reason}: {size} bytes of headers");
    details
}

/// 64 labels of which everything is wrong, each as long and as costly to encode as can be.
fn wrong_labels(letter: &str) -> v1::OpenWaitRequest {
    let labels: BTreeMap<_, _> = (0..64)
        .map(|n| (format!("{}{n:02}", letter.repeat(400)), letter.repeat(4000)))
        .collect();
    v1::OpenWaitRequest {
        spec: Some(v1::WaitSpec {
            labels,
            ..spec("labels")
        }),
        request_id: String::new(),
    }
}

/// And everything else wrong as well.
fn all_wrong(letter: &str) -> v1::OpenWaitRequest {
    let long = |count: usize| letter.repeat(count);
    let labels = wrong_labels(letter).spec.expect("a spec").labels;
    let mut wrong = v1::WaitSpec {
        name: long(5000),
        key: long(5000),
        namespace: long(5000),
        labels,
        question: Some(v1::Question {
            kind: Some(v1::question::Kind::FreeJson(long(3000))),
        }),
        question_later: true,
        heartbeat_timeout: Some(prost_types::Duration {
            seconds: i64::MAX,
            nanos: -1,
        }),
        ..spec("")
    };
    wrong.expiry = Some(v1::wait_spec::Expiry::NoTimeout(false));
    v1::OpenWaitRequest {
        spec: Some(wrong),
        request_id: long(4000),
    }
}

#[tokio::test]
async fn the_largest_refusals_of_an_open_arrive_whole() {
    let server = TestServer::start().await;
    let client = small_client(&server).await;
    // One, two, three and four bytes; what JSON escapes in quotes; a control character; a combining one; what gRPC escapes.
    for letter in ["a", "é", "愛", "🦀", "\"", "\\", "\u{1}", "\u{301}", "%"] {
        for request in [wrong_labels(letter), all_wrong(letter)] {
            let end = client.end_of(OPEN, &request).await;
            assert_eq!(end.status.code(), Code::InvalidArgument, "{letter:?}");
            let details = check(&end, "INVALID_FIELD");
            let violations = &details
                .bad_request()
                .expect("a BadRequest")
                .field_violations;
            assert!(violations.len() > 3, "{letter:?}: {violations:?}");
            let last = &violations.last().expect("one").description;
            let left: usize = last
                .strip_prefix("and ")
                .and_then(|rest| rest.strip_suffix(" more"))
                .and_then(|count| count.parse().ok())
                .unwrap_or_else(|| panic!("{letter:?} does not count the rest: {last}"));
            // Of each of 64 labels the key is too long, and so is the value.
            let named = violations.len() - 1 + left;
            assert!(named >= 128, "{letter:?}: only {named} faults");
            assert!(client.is_open());
        }
    }
}

#[tokio::test]
async fn other_large_refusals_arrive_whole() {
    let server = TestServer::start().await;
    let client = small_client(&server).await;
    let calls = server.calls().await;
    let token = calls.token(spec("refused")).await;
    let resolve = |payload: String, request_id: String| ResolveRequest {
        token: token.clone(),
        answer: Some(Answer::PayloadJson(payload)),
        request_id,
        ..Default::default()
    };
    let crab = "🦀".repeat(10_000);
    // JSON that goes wrong at the end of a long and costly path.
    let mut deep = format!("{{\"{crab}\":").repeat(20);
    deep.push('!');
    let end = client.end_of(RESOLVE, &resolve(deep, String::new())).await;
    assert_eq!(end.status.code(), Code::InvalidArgument);
    check(&end, "INVALID_JSON");

    let doubled = format!("{{\"{crab}\":1,\"{crab}\":2}}");
    let end = client
        .end_of(RESOLVE, &resolve(doubled, String::new()))
        .await;
    let details = check(&end, "INVALID_JSON");
    let text = format!("{details:?}");
    assert!(!text.contains("🦀🦀"), "payload text in a refusal: {text}");

    let end = client
        .end_of(RESOLVE, &resolve("1".to_owned(), crab.clone()))
        .await;
    check(&end, "INVALID_FIELD");
    let mut unknown = resolve("1".to_owned(), String::new());
    unknown.token = crab;
    let end = client.end_of(RESOLVE, &unknown).await;
    assert_eq!(end.status.code(), Code::NotFound);
    check(&end, "TOKEN_UNKNOWN");
    assert!(client.is_open());
}
