//! Schemas and answers that mean harm: loops, explosions, references out of the schema, patterns, depth.

use std::{net::TcpListener, thread};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn json(text: &str) -> JsonText {
    JsonText::new(text).expect("JSON")
}

/// On a thread as small as any that the broker has.
fn on_a_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(run)
        .expect("a thread")
        .join()
        .expect("no panic")
}

fn compile(text: impl Into<String>) -> Result<Schema, Vec<Fault>> {
    let text = text.into();
    on_a_small_stack(move || Schema::compile(&json(&text)))
}

fn check(schema: &Schema, answer: impl Into<String>) -> Result<(), Vec<Fault>> {
    let (schema, answer) = (schema.clone(), answer.into());
    on_a_small_stack(move || schema.check(&json(&answer)))
}

#[test]
fn a_schema_that_can_only_loop_is_refused() {
    for (schema, path) in [
        (r#"{"$ref":""}"#, ""),
        (r##"{"$ref":"#"}"##, ""),
        (
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##,
            r#"["$defs"].a"#,
        ),
        (
            r##"{"properties":{"x":{"allOf":[true,{"$ref":"#/properties/x"}]}}}"##,
            ".properties.x",
        ),
        (
            r##"{"items":{"not":{"anyOf":[{"$ref":"#/items"}]}}}"##,
            ".items",
        ),
        (r##"{"if":{"$ref":"#"}}"##, ""),
        (r##"{"dependentSchemas":{"a":{"$ref":"#"}}}"##, ""),
        (r##"{"$dynamicAnchor":"m","$dynamicRef":"#m"}"##, ""),
        (
            r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"$recursiveRef":"#"}"##,
            "",
        ),
        (
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","oneOf":[{"$ref":"#"}]}"##,
            "",
        ),
        (r#"{"$id":"https://a.example/x","$ref":"x"}"#, ""),
    ] {
        let faults = compile(schema).expect_err(schema);
        assert!(
            faults[0].description.contains("refers back to itself"),
            "{schema}: {faults:?}"
        );
        assert_eq!(faults[0].path, path, "{schema}");
    }
}

#[test]
fn a_tree_is_taken() {
    let tree = r##"{"$defs":{"node":{"type":"object","properties":{
            "value":{"type":"integer"},
            "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]},
            "children":{"type":"array","items":{"$ref":"#/$defs/node"}}},
        "required":["value"]}},"$ref":"#/$defs/node"}"##;
    let schema = compile(tree).expect("a tree");
    let nested = |levels: usize, value: &str| {
        let (open, close) = (r#"{"value":1,"next":"#.repeat(levels), "}".repeat(levels));
        format!("{open}{{\"value\":{value}}}{close}")
    };
    check(&schema, nested(126, "1")).expect("a deep answer");
    let faults = check(&schema, nested(126, "\"x\"")).expect_err("a fault at the bottom");
    assert_eq!(faults[0].path, format!("{}.value", ".next".repeat(126)));
    let faults = check(&schema, r#"{"value":1,"children":[{"value":2},{}]}"#).expect_err("a fault");
    assert_eq!(faults[0].path, ".children[1]");
}

#[test]
fn what_explodes_is_refused() {
    let mut doubled = serde_json::Map::new();
    for at in 0..30 {
        let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
        doubled.insert(format!("d{at}"), json!({"allOf": [next, next]}));
    }
    doubled.insert("d30".to_owned(), json!({"type": "integer"}));
    let doubled = json!({"$ref": "#/$defs/d0", "$defs": doubled}).to_string();
    let marks = format!(
        "{}true{}",
        r#"{"unevaluatedItems":"#.repeat(60),
        "}".repeat(60)
    );
    for schema in [
        doubled.as_str(),
        &marks,
        r##"{"properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##,
        r##"{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}}}"##,
        r##"{"properties":{"a":{"$ref":"#"}},"allOf":[{"properties":{"a":{"$ref":"#"}}}]}"##,
        r##"{"items":{"allOf":[{"$ref":"#"},{"not":{"$ref":"#"}}]}}"##,
        r##"{"anyOf":[{"properties":{"a":{"$ref":"#"}}}],"unevaluatedProperties":false}"##,
        r##"{"unevaluatedItems":{"$ref":"#"}}"##,
        r##"{"$dynamicAnchor":"n","properties":{"a":{"allOf":[{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}]}}}"##,
    ] {
        let faults = compile(schema).expect_err(schema);
        assert!(
            faults[0].description.contains("at most 4000"),
            "{schema}: {faults:?}"
        );
    }
}

#[test]
fn many_resources_that_all_refer_to_each_other_are_bounded() {
    let names: Vec<String> = (0..12)
        .map(|at| format!("https://a.example/{at}"))
        .collect();
    let resources: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| {
            let properties: serde_json::Map<String, Value> = names
                .iter()
                .map(|other| (other.clone(), json!({"$ref": other})))
                .collect();
            (name.clone(), json!({"$id": name, "properties": properties}))
        })
        .collect();
    let schema = json!({"$defs": resources, "$ref": names[0]}).to_string();
    let faults = compile(schema).expect_err("too many ways round");
    assert!(
        faults[0].description.contains("5000 subschemas"),
        "{faults:?}"
    );
}

#[test]
fn large_schemas_are_refused_and_deep_ones_taken() {
    let long = json!({"description": "x".repeat(MAX_SCHEMA_BYTES)}).to_string();
    let wide = json!({"allOf": vec![json!({"type": "integer"}); 6_000]}).to_string();
    let often = json!({"allOf": vec![json!({"type": "integer"}); 4_500]}).to_string();
    for schema in [long, wide, often] {
        let faults = compile(schema).expect_err("too large");
        assert!(
            faults[0].description.contains("at most")
                || faults[0].description.contains("more than")
        );
    }
    for (open, close) in [
        (r#"{"items":"#, "}"),
        (r#"{"not":"#, "}"),
        (r#"{"if":"#, "}"),
        (r#"{"additionalProperties":"#, "}"),
    ] {
        let schema = format!("{}true{}", open.repeat(120), close.repeat(120));
        let schema =
            compile(schema.clone()).unwrap_or_else(|faults| panic!("{schema}: {faults:?}"));
        for answer in [
            "1".to_owned(),
            format!("{}{}", "[".repeat(127), "]".repeat(127)),
        ] {
            let _ = check(&schema, answer);
        }
    }
    let schema = format!("{}true{}", r#"{"anyOf":["#.repeat(60), "]}".repeat(60));
    compile(schema).expect("120 levels");
    let flat: serde_json::Map<String, Value> = (0..3_000)
        .map(|at| (format!("p{at}"), json!({"type": "integer"})))
        .collect();
    let schema = compile(json!({"properties": flat}).to_string()).expect("3000 properties");
    check(&schema, r#"{"p2999":1}"#).expect("an answer");
}

#[test]
fn nothing_is_fetched() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("nonblocking");
    let address = listener.local_addr().expect("an address");
    let http = format!("http://{address}");
    for (schema, path) in [
        (json!({"$ref": format!("{http}/s")}), r#"["$ref"]"#),
        (
            json!({"properties": {"a": {"$ref": format!("{http}/s#/x")}}}),
            r#".properties.a["$ref"]"#,
        ),
        (
            json!({"$id": format!("{http}/root"), "items": {"$ref": "other"}}),
            r#".items["$ref"]"#,
        ),
        (
            json!({"$defs": {"unused": {"$ref": format!("{http}/s")}}}),
            r#"["$defs"].unused["$ref"]"#,
        ),
        (
            json!({"$dynamicRef": format!("{http}/s#x")}),
            r#"["$dynamicRef"]"#,
        ),
        (json!({"$schema": format!("{http}/s")}), r#"["$schema"]"#),
        (
            json!({"items": {"$id": "https://a.example/b", "$schema": format!("{http}/s")}}),
            r#".items["$schema"]"#,
        ),
        (json!({"$ref": "file:///etc/hostname"}), r#"["$ref"]"#),
        (
            json!({"$id": "file:///etc/x", "$ref": "hostname"}),
            r#"["$ref"]"#,
        ),
        (json!({"$schema": "file:///etc/hostname"}), r#"["$schema"]"#),
    ] {
        let faults = compile(schema.to_string()).expect_err("a reference out of the schema");
        assert_eq!(faults[0].path, path, "{schema}: {faults:?}");
    }
    let refused = listener.accept().expect_err("nobody has connected");
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn patterns_are_linear_or_refused() {
    for pattern in [
        r"^((a|a)+)\1b$",
        "(?=a)b",
        "^(?=a)b",
        "(?<!a)b",
        "(a{1,1000}){1,1000}",
    ] {
        for schema in [
            json!({"pattern": pattern}),
            json!({"patternProperties": {pattern: true}}),
        ] {
            compile(schema.to_string()).expect_err(pattern);
        }
    }
    for pattern in [
        "^(a+)+$",
        "^(a|a)*$",
        "^(a|aa)+$",
        "(.*a){20}",
        "a{1,1000}b",
    ] {
        let schema = compile(json!({"pattern": pattern}).to_string()).expect(pattern);
        for letters in [60, 10_000, 1_000_000] {
            let answer = format!("\"{}!\"", "a".repeat(letters));
            let _ = check(&schema, answer);
        }
    }
}

#[test]
fn an_answer_that_costs_too_much_is_refused_for_its_length() {
    let schema = compile(r#"{"items":{"pattern":"(.*a){100}"}}"#).expect("a schema");
    let answer = format!("[\"{}\"]", "a".repeat(1_000_000));
    assert!(schema.cost(answer.len()) > MAX_COST);
    let faults = check(&schema, answer).expect_err("too long");
    assert!(
        faults[0]
            .description
            .starts_with("is 1000004 bytes long; with this schema at most ")
    );
    check(&schema, "[1]").expect("a short one");
}

/// Small schemas of every kind of keyword, and now and then nonsense.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        prop::sample::select(vec!["null", "integer", "string", "array", "object"])
            .prop_map(|kind| json!({"type": kind})),
        prop::sample::select(vec!["#", "#/$defs/d", "#/properties/a", "#/items", "#x"])
            .prop_map(|reference| json!({"$ref": reference})),
        Just(json!({"$dynamicRef": "#x"})),
        Just(json!({"$dynamicAnchor": "x"})),
        Just(json!({"enum": [1, "a", [1]]})),
        Just(json!({"required": ["a"], "uniqueItems": true, "multipleOf": 0.5})),
        Just(json!({"pattern": "^a+$", "minLength": 1, "format": "date"})),
        Just(json!({"minimum": "nonsense"})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let key = prop::sample::select(vec![
            "not",
            "if",
            "then",
            "else",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
        ]);
        let list = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]);
        let map = prop::sample::select(vec![
            "properties",
            "patternProperties",
            "$defs",
            "dependentSchemas",
        ]);
        let name = prop::sample::select(vec!["a", "b", "d"]);
        prop_oneof![
            prop::collection::vec((key, inner.clone()), 1..3)
                .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            (list, prop::collection::vec(inner.clone(), 1..3)).prop_map(|(k, v)| json!({k: v})),
            (map, prop::collection::btree_map(name, inner, 1..3)).prop_map(|(k, v)| json!({k: v})),
        ]
    })
}

fn answers() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(1)),
        Just(json!(1.5)),
        Just(json!(18_446_744_073_709_551_615_u64)),
        Just(json!("aaa")),
        Just(json!("")),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        let name = prop::sample::select(vec!["a", "b", "c"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..3).prop_map(|members| json!(members)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nothing_panics_and_the_verdict_is_the_validators(schema in schemas(), answer in answers()) {
        let compiled = Schema::compile(&json(&schema.to_string()));
        let theirs = jsonschema::options().offline().should_validate_formats(true).build(&schema);
        match (compiled, theirs) {
            (Ok(ours), Ok(theirs)) => {
                let verdict = ours.check(&json(&answer.to_string()));
                prop_assert_eq!(verdict.is_ok(), theirs.is_valid(&answer));
                if let Err(faults) = verdict {
                    prop_assert!(!faults.is_empty());
                }
            }
            (Ok(_), Err(error)) => prop_assert!(false, "taken though it is invalid: {error}"),
            (Err(faults), Ok(_)) => {
                // What we refuse beyond the validator, and nothing else.
                let ours = ["refers back", "at most", "more than", "not within"];
                prop_assert!(ours.iter().any(|word| faults[0].description.contains(word)), "{faults:?}");
            }
            (Err(_), Err(_)) => {}
        }
    }
}
