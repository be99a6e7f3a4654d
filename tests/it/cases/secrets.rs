//! Tokens: guesses get one answer and reach nothing, and what is stored answers nobody.

use std::{fmt::Write as _, fs, sync::Arc};

use abeyance::proto::v1::WaitSpec;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use tonic::{Code, Status};

use super::{
    say::*,
    stage::{Setup, Stage, TestClock},
    stores::Front,
    tombstones::every_call,
};

/// Whether a text holds eight characters in a row of a token's body.
pub fn holds_part_of(text: &str, token: &str) -> bool {
    let body = token.strip_prefix("abey_").unwrap_or(token);
    (0..body.len().saturating_sub(7)).any(|at| text.contains(&body[at..at + 8]))
}

/// Forgeries of a token, each kind in turn; `number` makes them differ.
fn forged(token: &str, number: usize) -> String {
    let body = &token["abey_".len()..];
    let mut bytes = BASE64.decode(body).expect("base64");
    match number % 8 {
        // The right wait and a guessed secret.
        0 => bytes[17..25].copy_from_slice(&(number as u64 * 0x9e37_79b9).to_be_bytes()),
        // One bit of the genuine one.
        1 => bytes[(number / 8) % 33] ^= 1 << (number % 7),
        // Another wait.
        2 => bytes[9..17].copy_from_slice(&(number as u64).to_be_bytes()),
        // Another key.
        3 => bytes[0] = bytes[0].wrapping_add(1 + (number / 8 % 254) as u8),
        4 => return token[..token.len() - 1 - number / 8 % 40].to_owned(),
        5 => return format!("{token}{number}"),
        6 => return format!("abey_{}", "é".repeat(1 + number / 8 % 60)),
        _ => return format!("{body}{number}"),
    }
    format!("abey_{}", BASE64.encode(bytes))
}

/// All that a caller is told.
fn told(status: &Status) -> (Code, String, Vec<u8>) {
    let details = status.details().to_vec();
    (status.code(), status.message().to_owned(), details)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c48_ten_thousand_guesses_get_the_same_answer_and_never_reach_the_store() {
    let setup = Setup::memory(TestClock::standing());
    let front = Front::new(setup.store.clone());
    let stage = Arc::new(setup.wrap(|_| front.clone()).start().await);
    let token = stage.open(spec("approve")).await.token;
    let before = front.calls();
    let unknown = told(&stage.resolve("abey_", "1").await.expect_err("unknown"));
    assert_eq!(unknown.0, Code::NotFound);
    rounds(1250, 16, |number| {
        let (stage, token, unknown) = (stage.clone(), token.clone(), unknown.clone());
        async move {
            // Eight calls with each.
            let forged = forged(&token, number);
            assert_ne!(forged, token);
            for status in every_call(&stage, &forged).await {
                assert_eq!(told(&status), unknown, "{forged:?}");
            }
        }
    })
    .await;
    assert_eq!(front.calls(), before);
    stage
        .resolve(&token, "1")
        .await
        .expect("the genuine one is good");
    assert_eq!(front.calls(), before + 1);
}

/// The forms in which a secret could lie in a file.
fn forms(token: &str) -> Vec<Vec<u8>> {
    let body = &token["abey_".len()..];
    let bytes = BASE64.decode(body).expect("base64");
    let secret = bytes[17..].to_vec();
    let hex = secret.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    // The last 20 characters of the body hold nothing of number and id.
    let tail = body[body.len() - 20..].as_bytes().to_vec();
    vec![
        tail,
        secret,
        hex.to_uppercase().into_bytes(),
        hex.into_bytes(),
    ]
}

#[tokio::test]
async fn c48_a_dump_of_the_store_holds_no_token() {
    let stage = Stage::sqlite().await;
    let mut tokens = Vec::new();
    for number in 0..40 {
        let asked = WaitSpec {
            question: free("\"in-the-dump\""),
            ..keyed("approve", &number.to_string())
        };
        let token = stage.open(asked).await.token;
        stage.mark_asked(&token).await.expect("marks");
        match number % 4 {
            0 => drop(stage.resolve(&token, "1").await.expect("resolves")),
            1 => drop(stage.fail(&token, "no").await.expect("fails")),
            2 => drop(stage.cancel(&token, "").await.expect("cancels")),
            _ => {}
        }
        tokens.push(token);
    }
    let dump = |stage: &Stage| -> Vec<u8> {
        let files = fs::read_dir(stage.dir()).expect("a directory");
        files
            .flat_map(|file| fs::read(file.expect("a file").path()).expect("reads"))
            .collect()
    };
    // With the log as it is now, and after it went into the database.
    for closed in [false, true] {
        if closed {
            stage.broker.close().await;
        }
        let dump = dump(&stage);
        let holds = |what: &[u8]| dump.windows(what.len()).any(|window| window == what);
        assert!(holds(b"in-the-dump"), "not a dump of the waits");
        for token in &tokens {
            for form in forms(token) {
                assert!(!holds(&form), "a token lies in the store's files");
            }
        }
    }
}
