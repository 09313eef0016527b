//! Arguments that a tool will take.

use serde_json::{Map, Value, json};

/// An object with a value for every property of a schema.
pub(crate) fn from_schema(schema: &Value) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let filled = properties.into_iter().flatten();
    filled.map(|(name, property)| (name.clone(), value(name, property))).collect::<Map<_, _>>().into()
}

fn value(name: &str, property: &Value) -> Value {
    let choices = property.get("enum").and_then(Value::as_array);
    if let Some(given) = property
        .get("default")
        .or_else(|| property.get("const"))
        .or_else(|| choices.and_then(|choices| choices.first()))
    {
        return given.clone();
    }
    match property.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => json!(3),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => from_schema(property),
        _ => json!(name),
    }
}
