//! The schema of an argument type, as providers read it.
//!
//! `schemars` describes a type as a general JSON schema. Providers want less: everything inlined, no
//! names and formats of Rust's, optional fields without their `null`.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The argument schema of `T`, in the form that providers read: subschemas inlined, without
/// `$schema`, `title` and `format`, optional fields without their `null` alternative, objects
/// closed by `additionalProperties: false`.
///
/// ```
/// # use schemars::JsonSchema;
/// #[derive(JsonSchema)]
/// struct Args { n: i64, unit: Option<String> }
/// let schema = toolnexus_core::schema_of::<Args>();
/// assert_eq!(schema["required"], serde_json::json!(["n"]));
/// assert_eq!(schema["properties"]["unit"]["type"], "string");
/// ```
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema, false);
    if let Value::Object(root) = &mut schema {
        // A recursive type keeps definitions for the place where it meets itself; `tidy` has
        // replaced the references.
        root.shift_remove("$defs");
        root.shift_remove("definitions");
        // What the arguments as a whole are is said by the tool's description.
        root.shift_remove("description");
    }
    schema
}

/// Brings one subschema, and those below it, into the providers' form. A `part` describes an object
/// that others describe too (a flattened enum), so it must not refuse what is not its own.
fn tidy(schema: &mut Value, part: bool) {
    let Value::Object(map) = schema else {
        // `true` is the schema of "anything".
        if schema.as_bool() == Some(true) {
            *schema = Value::Object(Map::new());
        }
        return;
    };
    // First, since what is left of an option's alternatives brings its own keys.
    drop_null_alternative(map);
    for key in ["$schema", "title", "format", "uniqueItems"] {
        map.shift_remove(key);
    }
    if map.contains_key("$ref") {
        // A type that meets itself.
        map.retain(|key, _| key == "description");
        map.insert("type".into(), "object".into());
        return;
    }
    merge_constants(map);

    for key in ["properties", "patternProperties", "$defs", "definitions"] {
        if let Some(Value::Object(children)) = map.get_mut(key) {
            children.values_mut().for_each(|child| tidy(child, false));
        }
    }
    for key in ["items", "additionalProperties", "not", "contains", "propertyNames"] {
        match map.get_mut(key) {
            Some(child @ Value::Object(_)) => tidy(child, false),
            Some(child @ Value::Bool(true)) if key == "items" => tidy(child, false),
            _ => {}
        }
    }
    if let Some(Value::Array(children)) = map.get_mut("prefixItems") {
        children.iter_mut().for_each(|child| tidy(child, false));
    }
    let is_object = map.contains_key("properties") || map.get("type").is_some_and(|kind| kind == "object");
    let composed = map.contains_key("allOf")
        || (is_object && ["anyOf", "oneOf"].iter().any(|alternatives| map.contains_key(*alternatives)));
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(children)) = map.get_mut(key) {
            children.iter_mut().for_each(|child| tidy(child, part || composed));
        }
    }
    if part {
        if map.get("additionalProperties") == Some(&Value::Bool(false)) {
            map.shift_remove("additionalProperties");
        }
    } else if is_object && !composed && !map.contains_key("additionalProperties") {
        map.entry("properties").or_insert_with(|| json!({}));
        map.insert("additionalProperties".into(), Value::Bool(false));
    }
    if map.get("required").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        map.shift_remove("required");
    }
}

/// `Option<T>` is described as `T`: a `null` argument still reads as `None`.
fn drop_null_alternative(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|t| t != "null");
        if let [single] = types.as_slice() {
            let single = single.clone();
            map.insert("type".into(), single);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|v| !v.is_null());
    }
    if map.get("default").is_some_and(Value::is_null) {
        map.shift_remove("default");
    }
    let Some(Value::Array(alternatives)) = map.get_mut("anyOf") else { return };
    alternatives.retain(|alternative| alternative.get("type").is_none_or(|t| t != "null"));
    if let [Value::Object(single)] = alternatives.as_mut_slice() {
        let single = std::mem::take(single);
        map.shift_remove("anyOf");
        for (key, value) in single {
            map.entry(key).or_insert(value);
        }
    }
}

/// An enum whose variants are plain words is one list of them, also where some have comments of their
/// own, which makes `schemars` describe each by itself.
fn merge_constants(map: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = map.get("oneOf") else { return };
    let words = |alternative: &Value| match (alternative.get("const"), alternative.get("enum")) {
        (Some(word @ Value::String(_)), None) => Some(vec![word.clone()]),
        (None, Some(Value::Array(words))) if words.iter().all(Value::is_string) => Some(words.clone()),
        _ => None,
    };
    let Some(words) = alternatives.iter().map(words).collect::<Option<Vec<_>>>() else { return };
    map.shift_remove("oneOf");
    map.insert("type".into(), "string".into());
    map.insert("enum".into(), Value::Array(words.concat()));
}
