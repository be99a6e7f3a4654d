//! Tables of schemas and answers.

use serde_json::json;

use super::*;

fn json(text: &str) -> JsonText {
    JsonText::new(text).expect(text)
}

fn schema(text: &str) -> Schema {
    Schema::compile(&json(text)).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

fn refused(text: &str) -> Vec<Fault> {
    Schema::compile(&json(text)).expect_err(text)
}

fn faults(schema_text: &str, answer: &str) -> Vec<(String, String)> {
    match schema(schema_text).check(&json(answer)) {
        Ok(()) => Vec::new(),
        Err(faults) => faults
            .into_iter()
            .map(|f| (f.path, f.description))
            .collect(),
    }
}

#[test]
fn good_answers_pass() {
    for (schema, answer) in [
        ("true", "null"),
        ("{}", "[1]"),
        (r#"{"type":"integer"}"#, "1.0"),
        (r#"{"const":9007199254740993}"#, "9007199254740993"),
        (r#"{"format":"date-time"}"#, r#""2026-11-30T12:00:00Z""#),
        (r#"{"format":"int32"}"#, r#""x""#),
        (r#"{"format":"password"}"#, r#""x""#),
        (
            r#"{"$schema":"http://json-schema.org/draft-04/schema#","format":"idn-email"}"#,
            r#""x""#,
        ),
        (r#"{"uniqueItems":true}"#, "[1,\"1\"]"),
        (
            r##"{"$defs":{"a":{"$anchor":"x","type":"null"}},"$ref":"#x"}"##,
            "null",
        ),
        (
            r#"{"$id":"https://a.example/root","properties":{"a":{"$ref":"part"}},
                "$defs":{"p":{"$id":"part","type":"string"}}}"#,
            r#"{"a":"x"}"#,
        ),
        (
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"null"}},
                "items":[{"$ref":"#/definitions/a"}]}"##,
            "[null,1]",
        ),
    ] {
        assert_eq!(faults(schema, answer), [], "{schema} {answer}");
    }
}

#[test]
fn bad_answers_are_told_where_and_what() {
    for (schema, answer, path, description) in [
        ("false", "1", "", "is not allowed here"),
        (
            r#"{"type":"integer"}"#,
            "1.5",
            "",
            "must be an integer; it is a number",
        ),
        (
            r#"{"type":["string","null"]}"#,
            "1",
            "",
            "must be null or a string; it is a number",
        ),
        (
            r#"{"properties":{"order":{"properties":{"a b":{"prefixItems":[true,true,{"minimum":3}]}}}}}"#,
            r#"{"order":{"a b":[1,1,1]}}"#,
            r#".order["a b"][2]"#,
            "must be at least 3",
        ),
        (
            r#"{"properties":{"o":{"required":["x"]}}}"#,
            r#"{"o":{}}"#,
            ".o",
            r#"lacks the property "x""#,
        ),
        (
            r#"{"properties":{"amount":{}},"additionalProperties":false}"#,
            r#"{"amuont":1}"#,
            ".amuont",
            r#"is not a known property; did you mean "amount"?"#,
        ),
        (
            r#"{"properties":{"amount":{}},"additionalProperties":false}"#,
            r#"{"reason":1}"#,
            ".reason",
            r#"is not a known property; known are "amount""#,
        ),
        (
            r#"{"properties":{"a":{}},"unevaluatedProperties":false}"#,
            r#"{"b\n":1}"#,
            r#"["b\n"]"#,
            "is not a known property",
        ),
        (
            r#"{"enum":["a",1,null]}"#,
            "2",
            "",
            r#"must be one of "a", 1, null"#,
        ),
        (r#"{"const":{"a":1}}"#, "2", "", r#"must be {"a":1}"#),
        (
            r#"{"pattern":"^a+$"}"#,
            r#""b""#,
            "",
            "must match the pattern ^a+$",
        ),
        (
            r#"{"format":"email"}"#,
            r#""b""#,
            "",
            "is not a valid email",
        ),
        (
            r#"{"minLength":2}"#,
            r#""b""#,
            "",
            "is too short; at least 2 characters are wanted",
        ),
        (
            r#"{"uniqueItems":true}"#,
            "[1,1.0]",
            "",
            "has the same item twice; each may be there once",
        ),
        (
            r#"{"multipleOf":0.1}"#,
            "0.35",
            "",
            "must be a multiple of 0.1",
        ),
        (
            r#"{"propertyNames":{"maxLength":2}}"#,
            r#"{"abc":1}"#,
            "",
            r#"has the property "abc", whose name is too long; at most 2 characters are taken"#,
        ),
        (
            r#"{"properties":{"0":{"type":"null"},"a/b~":{"type":"null"}}}"#,
            r#"{"0":1}"#,
            r#"["0"]"#,
            "must be null; it is a number",
        ),
        (
            r#"{"properties":{"a/b~":{"type":"null"}}}"#,
            r#"{"a/b~":1}"#,
            r#"["a/b~"]"#,
            "must be null; it is a number",
        ),
    ] {
        let expected = [(path.to_owned(), description.to_owned())];
        assert_eq!(faults(schema, answer), expected, "{schema} {answer}");
    }
}

#[test]
fn alternatives_tell_of_the_one_that_was_meant() {
    let tagged = r#"{"oneOf":[
        {"properties":{"kind":{"const":"card"},"number":{"type":"string"}},"required":["kind","number"]},
        {"properties":{"kind":{"const":"cash"},"amount":{"type":"integer"}},"required":["kind","amount"]}]}"#;
    for (schema, answer, path, description) in [
        (
            tagged,
            r#"{"kind":"cash","amount":"x"}"#,
            ".amount",
            "must be an integer; it is a string (as alternative 2 of 2, the closest)",
        ),
        (
            tagged,
            r#"{"kind":"cash"}"#,
            "",
            r#"fits none of the 2 alternatives; of the closest, number 2, it lacks the property "amount""#,
        ),
        (
            r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
            "1",
            "",
            "fits none of the 2 alternatives: it must be a string, or must be null",
        ),
        (
            r#"{"anyOf":[{"type":"string","maxLength":1},{"type":"null"}]}"#,
            r#""ab""#,
            "",
            "fits none of the 2 alternatives; of the closest, number 1, it is too long; at most 1 characters are taken",
        ),
        (
            r#"{"oneOf":[{"type":"integer"},{"minimum":1},{"type":"null"}]}"#,
            "1",
            "",
            "fits 2 of 3 alternatives (1, 2); it must fit exactly one",
        ),
    ] {
        let expected = [(path.to_owned(), description.to_owned())];
        assert_eq!(faults(schema, answer), expected, "{schema} {answer}");
    }
}

#[test]
fn faults_stand_in_the_order_of_the_answer() {
    let schema = r#"{"additionalProperties":{"items":{"type":"null"}},"required":["m"]}"#;
    let paths: Vec<String> = faults(schema, r#"{"z":[null,1,2],"a":[3],"k":[null]}"#)
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert_eq!(paths, ["", ".z[1]", ".z[2]", ".a[0]"]);
}

#[test]
fn faults_are_bounded_in_number_and_never_hold_a_value() {
    let answer = format!("[{}]", vec!["\"secret\""; 500].join(","));
    let faults = faults(
        r#"{"items":{"anyOf":[{"maxLength":2},{"minLength":9},{"pattern":"^x"}]}}"#,
        &answer,
    );
    assert_eq!(faults.len(), MAX_FAULTS);
    assert!(!format!("{faults:?}").contains("secret"));
}

#[test]
fn long_names_are_cut() {
    let name = "n".repeat(100);
    let found = faults(
        r#"{"additionalProperties":false}"#,
        &json!({ &name: 1 }).to_string(),
    );
    assert_eq!(found[0].0, format!("[\"{}…\"]", "n".repeat(64)));
}

#[test]
fn bad_schemas_are_told_where() {
    for (schema, path, word) in [
        ("1", "", "is not a schema"),
        ("[]", "", "is not a schema"),
        (r#"{"type":"strnig"}"#, ".type", "alternatives"),
        (
            r#"{"properties":{"a":{"minimum":"1"}}}"#,
            ".properties.a.minimum",
            "must be a number",
        ),
        (
            r#"{"items":{"pattern":"("}}"#,
            ".items.pattern",
            "not a valid pattern",
        ),
        (
            r#"{"patternProperties":{"(?=a)":{}}}"#,
            ".patternProperties",
            "look-around",
        ),
        (
            r#"{"$schema":"https://a.example/mine"}"#,
            r#"["$schema"]"#,
            "not a dialect",
        ),
        (
            r##"{"properties":{"a":{"$ref":"#/$defs/no"}}}"##,
            r#".properties.a["$ref"]"#,
            "not within",
        ),
        (r##"{"$ref":"#no"}"##, r#"["$ref"]"#, "not within"),
        (
            r#"{"items":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}"#,
            r#".items["$ref"]"#,
            "not within",
        ),
        (r#"{"properties":1}"#, ".properties", "must be an object"),
        (
            r#"{"properties":{"a":{"format":"idn-email"}}}"#,
            ".properties.a.format",
            "idn-email, which is not checked here",
        ),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","format":"idn-hostname"}"#,
            ".format",
            "Checked are date,",
        ),
    ] {
        let faults = refused(schema);
        assert_eq!(faults[0].path, path, "{schema}: {faults:?}");
        assert!(faults[0].description.contains(word), "{schema}: {faults:?}");
    }
}

/// What pydantic makes of a form of fifty fields.
pub(super) fn pydantic() -> String {
    let mut properties = serde_json::Map::new();
    for at in 0..50 {
        let property = match at % 5 {
            0 => json!({"type": "string", "title": "Text", "minLength": 1, "maxLength": 200}),
            1 => {
                json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "default": null})
            }
            2 => json!({"$ref": "#/$defs/Colour"}),
            3 => json!({"type": "string", "format": "date-time"}),
            _ => json!({"type": "array", "items": {"$ref": "#/$defs/Line"}, "maxItems": 20}),
        };
        properties.insert(format!("field_{at}"), property);
    }
    json!({
        "$defs": {
            "Colour": {"enum": ["red", "green", "blue"], "type": "string"},
            "Line": {
                "type": "object",
                "properties": {"sku": {"type": "string", "pattern": "^[A-Z]{3}-\\d{4}$"}, "count": {"type": "integer"}},
                "required": ["sku"],
                "additionalProperties": false
            }
        },
        "type": "object",
        "title": "Order",
        "properties": properties,
        "required": ["field_0", "field_2", "field_3"],
        "additionalProperties": false
    })
    .to_string()
}

/// A valid answer to it, of about two kilobytes.
pub(super) fn pydantic_answer() -> Value {
    let mut answer = serde_json::Map::new();
    for at in 0..50 {
        let value = match at % 5 {
            0 => json!("a text that somebody has typed into a field"),
            1 => json!(if at % 2 == 0 { Some(at) } else { None }),
            2 => json!("green"),
            3 => json!("2026-11-30T12:00:00Z"),
            _ => json!([{"sku": "ABC-1234", "count": 2}]),
        };
        answer.insert(format!("field_{at}"), value);
    }
    Value::Object(answer)
}

#[test]
fn a_form_of_fifty_fields() {
    let schema = schema(&pydantic());
    let mut answer = pydantic_answer();
    schema
        .check(&json(&answer.to_string()))
        .expect("a good answer");
    answer["field_1"] = json!(-1);
    answer["field_4"][0] = json!({"sku": "abc", "cuont": 1});
    answer["field_48"] = json!(true);
    let faults = schema
        .check(&json(&answer.to_string()))
        .expect_err("a bad one");
    let paths: Vec<&str> = faults.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            ".field_1",
            ".field_4[0].cuont",
            ".field_4[0].sku",
            ".field_48"
        ]
    );
}

#[test]
fn simple_forms_are_checked_in_line() {
    let names: Vec<String> = (0..50).map(|at| format!("field_{at}")).collect();
    let properties: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| {
            (
                name.clone(),
                json!({"type": ["string", "null"], "maxLength": 99}),
            )
        })
        .collect();
    let flat = json!({"type": "object", "properties": properties, "required": names}).to_string();
    assert!(
        schema(&flat).cost(2_000) <= INLINE_COST,
        "{}",
        schema(&flat).cost(2_000)
    );
    assert!(schema(&pydantic()).cost(2_000) <= MAX_COST / 100);
}

#[test]
fn every_format_that_is_said_to_be_checked_is() {
    for format in [
        "date",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "iri",
        "iri-reference",
        "json-pointer",
        "regex",
        "relative-json-pointer",
        "time",
        "uri",
        "uri-reference",
        "uri-template",
        "uuid",
    ] {
        let schema = json!({ "format": format }).to_string();
        let found = faults(&schema, r#""( {\\""#);
        assert_eq!(found.len(), 1, "{format}");
        let named = refused(r#"{"format":"idn-email"}"#);
        assert!(named[0].description.contains(format));
    }
}

#[test]
fn what_would_take_much_memory_is_refused_and_what_is_taken_is_weighed() {
    let patterns: Vec<Value> = (0..5)
        .map(|at| json!({"pattern": format!("([a-z]|é){{2400}}%d{at}")}))
        .collect();
    let description = &refused(&json!({ "allOf": patterns }).to_string())[0].description;
    assert!(
        description.contains("bytes of memory") && description.contains("at most 16777216"),
        "{description}"
    );
    for at in [".{0,900}", "(a?b?c?d?e?f?g?h?){9}", r"[\p{L}\p{N}]x?"] {
        let patterns: Vec<Value> = (0..90)
            .map(|n| json!({"pattern": format!("a{n}{at}z")}))
            .collect();
        refused(&json!({ "allOf": patterns }).to_string());
    }
    let one = schema(&patterns[0].to_string());
    assert!(one.bytes(1) > 1 << 20, "{}", one.bytes(1));
    assert!(one.bytes(4) > one.bytes(1));
    // The same pattern is compiled once.
    let same = json!({"allOf": vec![&patterns[0]; 5]}).to_string();
    assert!(schema(&same).bytes(1) < one.bytes(1) + (20 << 10));
    let form = schema(&pydantic()).bytes(4);
    assert!((100 << 10..1 << 20).contains(&form), "{form}");
}

#[test]
fn debug_shows_nothing() {
    assert_eq!(
        format!("{:?}", schema(r#"{"const":"secret"}"#)),
        "Schema(..)"
    );
}
