//! JSON schemas in the subset that Gemini's `parameters` accept.
//!
//! Two passes over a copy. The first puts every local `$ref` in its place and drops what the API
//! has no word for; the second says the rest in the API's words.

use serde_json::{Map, Value, json};

/// The keywords that may come out, in the order in which they do.
const KEPT: [&str; 20] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "propertyOrdering",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "anyOf",
];

/// Keywords whose values are data.
const KEPT_DATA: [&str; 2] = ["default", "example"];

/// Keywords that are said in other words.
const TRANSLATED: [&str; 3] = ["oneOf", "allOf", "const"];

/// How many subschemas an expanded schema may have. References to references grow without bound.
const MOST_SUBSCHEMAS: usize = 10_000;

/// How deep an expanded schema may be nested.
const MAX_DEPTH: usize = 64;

/// The schema of a function's parameters; `None` where the API wants none: an object without
/// properties.
pub(super) fn parameters(schema: &Value) -> Option<Value> {
    let mut inliner = Inliner { root: schema, entered: vec!["#"], subschemas: 0 };
    let cleaned = clean(inliner.subschema(schema, 0));
    if !["type", "properties", "anyOf"].iter().any(|key| cleaned.contains_key(*key)) {
        return None;
    }
    let cleaned = complete(cleaned);
    let properties = cleaned.get("properties").and_then(Value::as_object);
    let has_none = properties.is_none_or(Map::is_empty);
    let is_object = cleaned.get("type").is_some_and(|kind| kind == "object");
    (!is_object || !has_none).then(|| cleaned.into())
}

/// The first pass.
struct Inliner<'s> {
    root: &'s Value,
    /// The references that the current subschema lies in.
    entered: Vec<&'s str>,
    subschemas: usize,
}

impl<'s> Inliner<'s> {
    fn subschema(&mut self, schema: &'s Value, depth: usize) -> Map<String, Value> {
        self.subschemas += 1;
        if depth >= MAX_DEPTH || self.subschemas > MOST_SUBSCHEMAS {
            return any_object();
        }
        // `true`, and what is no schema at all, says nothing.
        let Some(schema) = schema.as_object() else { return Map::new() };
        let mut out = Map::new();
        for (key, value) in schema {
            let value = match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    let inlined = properties.iter().map(|(name, property)| {
                        (name.clone(), Value::Object(self.subschema(property, depth + 1)))
                    });
                    Value::Object(inlined.collect())
                }
                ("anyOf" | "oneOf" | "allOf", Value::Array(members)) => self.list(members, depth),
                // One schema for each place: any of them may stand anywhere.
                ("items", Value::Array(places)) => json!({"anyOf": self.list(places, depth)}),
                ("items", Value::Object(_)) => self.subschema(value, depth + 1).into(),
                ("properties" | "anyOf" | "oneOf" | "allOf" | "items", _) => continue,
                (key, value) if KEPT.contains(&key) || KEPT_DATA.contains(&key) || key == "const" => {
                    value.clone()
                }
                _ => continue,
            };
            out.insert(key.clone(), value);
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = self.target(reference, depth);
            merge(&mut out, target);
        }
        out
    }

    fn list(&mut self, members: &'s [Value], depth: usize) -> Value {
        members.iter().map(|member| Value::Object(self.subschema(member, depth + 1))).collect()
    }

    fn target(&mut self, reference: &'s str, depth: usize) -> Map<String, Value> {
        let found = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(target) = found.filter(|_| !self.entered.contains(&reference)) else { return any_object() };
        self.entered.push(reference);
        let inlined = self.subschema(target, depth + 1);
        self.entered.pop();
        inlined
    }
}

fn any_object() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), Value::from("object"))])
}

/// Adds what `other` says and `into` does not.
fn merge(into: &mut Map<String, Value>, other: Map<String, Value>) {
    for (key, value) in other {
        match (into.get_mut(&key), value) {
            (None, value) => drop(into.insert(key, value)),
            (Some(Value::Object(known)), Value::Object(more)) if key == "properties" => {
                more.into_iter().for_each(|(name, property)| {
                    known.entry(name).or_insert(property);
                });
            }
            (Some(Value::Array(known)), Value::Array(more)) if key == "required" => {
                for name in more {
                    if !known.contains(&name) {
                        known.push(name);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The second pass, without what a subschema must say at least.
fn clean(mut schema: Map<String, Value>) -> Map<String, Value> {
    unfold(&mut schema);
    choose_type(&mut schema);
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    keep_values(&mut schema, &kind);
    // Children, and what depends on them.
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(|property| *property = completed(property.take()));
    }
    if let Some(items) = schema.get_mut("items") {
        *items = completed(items.take());
    }
    let names = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(|name| names.contains_key(name)));
    }
    if schema.get("required").is_some_and(|required| required.as_array().is_none_or(Vec::is_empty)) {
        schema.remove("required");
    }
    if let Some(Value::Array(alternatives)) = schema.remove("anyOf") {
        let alternatives: Vec<_> = alternatives.into_iter().map(object).map(clean).collect();
        // Beside a type, an alternative that says nothing more makes all of them say nothing.
        if kind.is_empty() || alternatives.iter().all(|alternative| !alternative.is_empty()) {
            let alternatives = alternatives.into_iter().map(complete).map(Value::Object).collect();
            schema.insert("anyOf".into(), alternatives);
        }
    }
    KEPT.iter()
        .chain(&KEPT_DATA)
        .filter_map(|key| schema.get_mut(*key).map(|value| ((*key).to_owned(), value.take())))
        .collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn completed(schema: Value) -> Value {
    complete(clean(object(schema))).into()
}

/// What the API demands of every subschema.
fn complete(mut schema: Map<String, Value>) -> Map<String, Value> {
    if !schema.contains_key("type") {
        let kind = if schema.contains_key("properties") {
            Some("object")
        } else {
            (!schema.contains_key("anyOf")).then_some("string")
        };
        if let Some(kind) = kind {
            schema.shift_insert(0, "type".into(), kind.into());
        }
    }
    if schema.get("type").is_some_and(|kind| kind == "array") && !schema.contains_key("items") {
        schema.insert("items".into(), json!({"type": "string"}));
    }
    schema
}

/// Says `allOf`, `oneOf`, `const` and a lone alternative in other words, until none is left.
fn unfold(schema: &mut Map<String, Value>) {
    while schema.keys().any(|key| key == "anyOf" || TRANSLATED.contains(&key.as_str())) {
        if let Some(Value::Array(members)) = schema.remove("allOf") {
            for mut member in members.into_iter().map(object) {
                unfold(&mut member);
                merge(schema, member);
            }
        }
        match schema.remove("const") {
            Some(Value::Null) => drop(schema.insert("nullable".into(), true.into())),
            Some(value) => {
                schema.entry("enum").or_insert_with(|| json!([value]));
            }
            None => {}
        }
        let given = ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.remove(key));
        let alternatives: Vec<Value> = given
            .filter_map(|list| if let Value::Array(list) = list { Some(list) } else { None })
            .flatten()
            .collect();
        let count = alternatives.len();
        let mut alternatives: Vec<Value> =
            alternatives.into_iter().filter(|alternative| !is_null(alternative)).collect();
        if alternatives.len() < count {
            schema.insert("nullable".into(), true.into());
        }
        match alternatives.len() {
            0 => {}
            1 => merge(schema, object(alternatives.pop().unwrap_or_default())),
            _ => {
                schema.insert("anyOf".into(), alternatives.into());
                return;
            }
        }
    }
}

/// Whether a schema allows `null` alone.
fn is_null(schema: &Value) -> bool {
    let only_null = |list: &Value| {
        list.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_null))
    };
    schema.get("type").is_some_and(|kind| *kind == "null" || *kind == json!(["null"]))
        || schema.get("const").is_some_and(Value::is_null)
        || schema.get("enum").is_some_and(only_null)
}

/// Leaves one type, or alternatives of one type each.
fn choose_type(schema: &mut Map<String, Value>) {
    let mut types: Vec<String> = match schema.remove("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    if types.iter().any(|kind| kind == "null") {
        schema.insert("nullable".into(), true.into());
    }
    let mut seen = std::collections::HashSet::new();
    types.retain(|kind| kind != "null" && seen.insert(kind.clone()));
    if types.is_empty() && has_only_strings(schema.get("enum")) {
        types.push("string".into());
    }
    match types.as_slice() {
        [] => {}
        [kind] => drop(schema.insert("type".into(), kind.as_str().into())),
        _ if schema.contains_key("anyOf") => {}
        several => {
            let alternatives = several.iter().map(|kind| {
                let of_kind = schema.iter().filter(|(key, _)| belongs_to(key, kind));
                let mut alternative: Map<String, Value> =
                    of_kind.map(|(key, value)| (key.clone(), value.clone())).collect();
                alternative.insert("type".into(), kind.as_str().into());
                Value::Object(alternative)
            });
            let alternatives = alternatives.collect::<Value>();
            schema.retain(|key, _| !several.iter().any(|kind| belongs_to(key, kind)));
            schema.insert("anyOf".into(), alternatives);
        }
    }
}

fn has_only_strings(list: Option<&Value>) -> bool {
    let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().any(Value::is_string) && list.iter().all(|value| value.is_string() || value.is_null())
}

/// Whether a keyword speaks of values of this type alone.
fn belongs_to(keyword: &str, kind: &str) -> bool {
    match kind {
        "string" => matches!(keyword, "enum" | "format" | "minLength" | "maxLength" | "pattern"),
        "number" | "integer" => matches!(keyword, "format" | "minimum" | "maximum"),
        "array" => matches!(keyword, "items" | "minItems" | "maxItems"),
        "object" => matches!(
            keyword,
            "properties" | "required" | "propertyOrdering" | "minProperties" | "maxProperties"
        ),
        _ => false,
    }
}

/// Drops values that the API does not take with this type.
fn keep_values(schema: &mut Map<String, Value>, kind: &str) {
    // Without a type it becomes one, unless properties or alternatives say what it is.
    let untold = kind.is_empty() && !["properties", "anyOf"].iter().any(|key| schema.contains_key(*key));
    let is_string = kind == "string" || untold;
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        let null = values.iter().any(Value::is_null);
        // The API refuses an empty one.
        values.retain(|value| value.as_str().is_some_and(|text| !text.is_empty()));
        if null {
            schema.insert("nullable".into(), true.into());
        }
    }
    let some_values = schema.get("enum").and_then(Value::as_array).is_some_and(|values| !values.is_empty());
    if !some_values || !is_string {
        schema.remove("enum");
    }
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let known = match kind {
        _ if is_string => matches!(format, "enum" | "date-time"),
        "number" => matches!(format, "float" | "double"),
        "integer" => matches!(format, "int32" | "int64"),
        _ => false,
    };
    if !known {
        schema.remove("format");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn property(schema: &Value) -> Value {
        let whole = json!({"type": "object", "properties": {"p": schema}});
        parameters(&whole).unwrap()["properties"]["p"].clone()
    }

    // CLIENT-153, case N4
    #[test]
    fn the_case_of_the_chapter() {
        let schema = json!({"$schema": "x", "type": "object", "properties": {
            "a": {"type": ["string", "null"], "format": "uri"},
            "b": {"$ref": "#/$defs/B"}, "c": {"type": "array"},
        }, "required": ["a", "z"], "additionalProperties": false, "$defs": {"B": {"const": "x"}}});
        let expected = r#"{"type":"object","properties":{"a":{"type":"string","nullable":true},"b":{"type":"string","enum":["x"]},"c":{"type":"array","items":{"type":"string"}}},"required":["a"]}"#;
        assert_eq!(parameters(&schema).unwrap().to_string(), expected);
    }

    // CLIENT-153 (a), (c)
    #[test]
    fn keywords_and_values_without_a_meaning_there_are_dropped() {
        for (given, expected) in [
            (
                json!({"type": "string", "format": "date-time", "examples": ["x"]}),
                json!({"type": "string", "format": "date-time"}),
            ),
            (
                json!({"type": "integer", "format": "uint32", "exclusiveMinimum": 0}),
                json!({"type": "integer"}),
            ),
            (
                json!({"type": "integer", "format": "int64", "minimum": 1}),
                json!({"type": "integer", "format": "int64", "minimum": 1}),
            ),
            (json!({"type": "number", "format": "double"}), json!({"type": "number", "format": "double"})),
            (json!({"type": "integer", "enum": [1, 2]}), json!({"type": "integer"})),
            (
                json!({"type": "string", "default": {"$ref": "#"}}),
                json!({"type": "string", "default": {"$ref": "#"}}),
            ),
            (
                json!({"type": "object", "properties": {"$ref": {"type": "string"}, "const": {"type": "null"}}}),
                json!({"type": "object", "properties": {"$ref": {"type": "string"}, "const": {"type": "string", "nullable": true}}}),
            ),
        ] {
            assert_eq!(property(&given), expected, "{given}");
        }
    }

    // CLIENT-153 (b), (d), (e)
    #[test]
    fn other_words_are_found() {
        for (given, expected) in [
            (json!({"enum": ["a", "b"]}), json!({"type": "string", "enum": ["a", "b"]})),
            (json!({"enum": ["a", null]}), json!({"type": "string", "nullable": true, "enum": ["a"]})),
            (json!({"enum": ["", "a"]}), json!({"type": "string", "enum": ["a"]})),
            (json!({"type": "string", "enum": [""]}), json!({"type": "string"})),
            (json!({"const": 7}), json!({"type": "string"})),
            (json!({}), json!({"type": "string"})),
            (json!(true), json!({"type": "string"})),
            // Values of strings mean nothing beside properties.
            (
                json!({"enum": ["a", 1], "format": "date-time", "properties": {"x": {}}}),
                json!({"type": "object", "properties": {"x": {"type": "string"}}}),
            ),
            (
                json!({"properties": {"x": {}}}),
                json!({"type": "object", "properties": {"x": {"type": "string"}}}),
            ),
            (
                json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            ),
            (
                json!({"description": "d", "anyOf": [{"type": "integer", "description": "i"}, {"type": "null"}]}),
                json!({"type": "integer", "description": "d", "nullable": true}),
            ),
            (json!({"anyOf": [{"oneOf": [{"const": "a"}]}]}), json!({"type": "string", "enum": ["a"]})),
            (
                json!({"type": ["string", "integer", "null"], "minLength": 1, "title": "t"}),
                json!({"title": "t", "nullable": true, "anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}),
            ),
            (
                json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                              {"allOf": [{"properties": {"b": {"type": "integer"}}, "required": ["b", "c"]}]}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            ),
            (
                json!({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}),
                json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}),
            ),
        ] {
            assert_eq!(property(&given), expected, "{given}");
        }
    }

    // CLIENT-153 (b)
    #[test]
    fn references_are_inlined_and_end() {
        let schema = json!({"type": "object", "properties": {
            "tree": {"$ref": "#/$defs/Tree", "description": "here"}, "lost": {"$ref": "#/$defs/No"},
            "far": {"$ref": "https://x/y"}, "self": {"$ref": "#"},
            "pair": {"allOf": [{"$ref": "#/$defs/Leaf"}], "properties": {"leaf": {"$ref": "#/$defs/Leaf"}}},
        }, "$defs": {
            "Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}},
            "Leaf": {"type": "object", "properties": {"x": {"type": "integer"}}},
        }});
        let leaf = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
        assert_eq!(
            parameters(&schema).unwrap()["properties"],
            json!({
                "tree": {"type": "object", "description": "here", "properties": {"next": {"type": "object"}}},
                "lost": {"type": "object"}, "far": {"type": "object"}, "self": {"type": "object"},
                "pair": {"type": "object", "properties": {"leaf": leaf, "x": {"type": "integer"}}},
            })
        );
    }

    #[test]
    fn references_that_double_at_each_step_are_cut() {
        let step = |n: usize| {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            (format!("d{n}"), json!({"type": "object", "properties": {"a": next, "b": next}}))
        };
        let defs: Map<String, Value> = (0..40).map(step).collect();
        let schema = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
        assert!(parameters(&schema).unwrap().to_string().len() < 1 << 20);
    }

    // CLIENT-153 (f)
    #[test]
    fn an_object_without_properties_is_no_parameter() {
        for schema in
            [json!({"type": "object"}), json!({"type": "object", "properties": {}}), json!({}), json!(null)]
        {
            assert_eq!(parameters(&schema), None, "{schema}");
        }
    }

    fn schema() -> impl Strategy<Value = Value> {
        let kind = || {
            proptest::sample::select(vec![
                "string", "integer", "number", "boolean", "array", "object", "null",
            ])
        };
        let leaf = prop_oneof![
            kind()
                .prop_map(|kind| json!({"type": kind, "format": "date-time", "additionalProperties": false})),
            proptest::collection::vec(kind(), 0..3).prop_map(|kinds| json!({"type": kinds})),
            Just(json!({"$ref": "#/$defs/D"})),
            Just(json!({"$ref": "#"})),
            Just(json!({"const": "x"})),
            Just(json!({"enum": ["a", 1, null]})),
            Just(json!(true)),
        ];
        leaf.prop_recursive(4, 40, 4, |inner| {
            let list = proptest::collection::vec(inner.clone(), 0..4);
            prop_oneof![
                (list.clone(), proptest::sample::select(vec!["anyOf", "oneOf", "allOf"]))
                    .prop_map(|(list, key)| json!({key: list, "description": "d"})),
                list.prop_map(|list| {
                    let properties: Map<String, Value> =
                        list.into_iter().enumerate().map(|(n, schema)| (format!("p{n}"), schema)).collect();
                    json!({"properties": properties, "required": ["p0", "p9"], "$defs": {"D": {"type": "object"}}})
                }),
                inner.prop_map(|items| json!({"type": ["array", "null"], "items": items})),
            ]
        })
    }

    fn check(schema: &Value) {
        let map = schema.as_object().unwrap();
        for key in map.keys() {
            assert!(KEPT.contains(&key.as_str()) || KEPT_DATA.contains(&key.as_str()), "{schema}");
        }
        assert!(map.get("type").map_or(map.contains_key("anyOf"), Value::is_string), "{schema}");
        assert!(map.get("type").is_none_or(|kind| kind != "null"), "{schema}");
        assert!(!map.contains_key("enum") || map["type"] == "string", "{schema}");
        assert!(map.get("type").is_none_or(|kind| kind != "array") || map.contains_key("items"), "{schema}");
        let properties = map.get("properties").and_then(Value::as_object);
        for name in map.get("required").and_then(Value::as_array).into_iter().flatten() {
            assert!(properties.unwrap().contains_key(name.as_str().unwrap()), "{schema}");
        }
        properties.into_iter().flat_map(|properties| properties.values()).for_each(check);
        map.get("items").into_iter().for_each(check);
        map.get("anyOf").and_then(Value::as_array).into_iter().flatten().for_each(check);
    }

    proptest! {
        // CLIENT-153: whatever goes in, the API's words come out, and they are clean already
        #[test]
        fn what_comes_out_is_accepted(schema in schema()) {
            if let Some(cleaned) = parameters(&schema) {
                check(&cleaned);
                prop_assert_eq!(parameters(&cleaned), Some(cleaned));
            }
        }
    }
}
