//! What fuzzing found: each input stands here for good.

use super::properties;

/// A schema and an answer.
const SCHEMAS: [(&str, &str); 2] = [
    // Each level told once more that it was the closest alternative.
    (
        r##"{"$dynamicAnchor":"n","anyOf":[{"type":"array","items":{"$dynamicRef":"#n"}},{"type":"null"}]}"##,
        r#"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["x"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"#,
    ),
    (
        r##"{"anyOf":[{"minimum":9,"anyOf":[{"minimum":9,"anyOf":[{"minimum":9,"anyOf":[{"minimum":9,"anyOf":[{"minimum":9,"anyOf":[
            {"minimum":9},false]},false]},false]},false]},false]},false]}"##,
        "1",
    ),
];

/// Tool calls that wait, and an answer.
const ANSWERS: [(&str, &str); 2] = [
    // A value of 125 levels, without a frame: as a message it was taken to 124 only.
    (
        r#"{"calls":[{"tool_name":"t","tool_call_id":"c"}]}"#,
        r#"{"calls":{"c":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}}"#,
    ),
    // A value that no frame fits around, and that stands for itself all the same: as a message it was refused.
    (
        r#"{"calls":[{"tool_name":"t","tool_call_id":"c"}]}"#,
        r#"{"calls":{"c":{"kind":"retry-prompt","content":{"kind":"binary","data":"AAAA"}}}}"#,
    ),
];

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
