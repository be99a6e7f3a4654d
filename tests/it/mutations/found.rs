//! What fuzzing found: each input stands here for good.

use super::properties;

/// A schema and an answer.
const SCHEMAS: [(&str, &str); 0] = [];

/// Tool calls that wait, and an answer.
const ANSWERS: [(&str, &str); 0] = [];

#[test]
fn what_was_found_once_stays_mended() {
    for (schema, answer) in SCHEMAS {
        properties::schemas(schema, answer);
    }
    for (requests, answer) in ANSWERS {
        for may_leave_pending in [false, true] {
            properties::answers(requests, answer, may_leave_pending);
        }
    }
}
