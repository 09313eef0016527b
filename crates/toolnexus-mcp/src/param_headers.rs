//! `x-mcp-header`: arguments that a modern server wants to see in the headers of a call too, so that
//! what stands between can route it without reading its body.

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

/// The key in a property's schema.
const MARK: &str = "x-mcp-header";

/// What a marked header's name begins with.
const PREFIX: &str = "mcp-param-";

/// The marked properties of one tool's schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParamMarks(Arc<[Mark]>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    /// The names of the properties from the root.
    path: Vec<String>,
    header: HeaderName,
}

/// The headers of one call. Rides on the request to the wire that sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamHeaders(pub(crate) Vec<(HeaderName, HeaderValue)>);

impl ParamMarks {
    /// The marks of a schema.
    ///
    /// # Errors
    /// What is wrong with a mark. The protocol asks clients not to use such a tool.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        let Value::Object(root) = schema else { return Ok(Self::default()) };
        let mut marks = Vec::new();
        collect(root.get("properties"), &mut Vec::new(), &mut marks)?;
        if count(schema) != marks.len() {
            return Err(format!("{MARK} must mark a property that only properties lead to"));
        }
        let mut seen = HashSet::new();
        match marks.iter().find(|mark| !seen.insert(&mark.header)) {
            Some(twice) => Err(format!("{MARK} marks {:?} twice", bare(&twice.header))),
            None => Ok(ParamMarks(marks.into())),
        }
    }

    /// The headers for these arguments; `None` when there are none. Absent and `null` arguments have
    /// no header, nor has one that is no text, number or boolean.
    pub(crate) fn headers(&self, arguments: &Map<String, Value>) -> Option<ParamHeaders> {
        let headers: Vec<_> = self.0.iter().filter_map(|mark| mark.header_of(arguments)).collect();
        (!headers.is_empty()).then_some(ParamHeaders(headers))
    }
}

impl Mark {
    fn header_of(&self, arguments: &Map<String, Value>) -> Option<(HeaderName, HeaderValue)> {
        let (first, rest) = self.path.split_first()?;
        let value = rest.iter().try_fold(arguments.get(first)?, |value, key| value.get(key))?;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return None,
        };
        Some((self.header.clone(), HeaderValue::from_str(&encoded(&text)).ok()?))
    }
}

/// The marks along chains of `properties`.
fn collect(properties: Option<&Value>, path: &mut Vec<String>, marks: &mut Vec<Mark>) -> Result<(), String> {
    let Some(Value::Object(properties)) = properties else { return Ok(()) };
    for (name, schema) in properties {
        path.push(name.clone());
        if let Some(mark) = schema.get(MARK) {
            marks.push(Mark { path: path.clone(), header: header(mark, schema, name)? });
        }
        collect(schema.get("properties"), path, marks)?;
        path.pop();
    }
    Ok(())
}

fn header(mark: &Value, schema: &Value, property: &str) -> Result<HeaderName, String> {
    let name = mark.as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("{MARK} of property {property:?} must be a text"))?;
    if !matches!(schema.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return Err(format!("{MARK} of property {property:?} must mark a string, integer or boolean"));
    }
    HeaderName::try_from(format!("{PREFIX}{name}"))
        .map_err(|_| format!("{MARK} of property {property:?} is not a valid header name"))
}

fn bare(header: &HeaderName) -> &str {
    header.as_str().strip_prefix(PREFIX).unwrap_or_default()
}

/// How many marks there are in a schema, wherever they are.
fn count(schema: &Value) -> usize {
    match schema {
        Value::Object(keys) => {
            let inside = keys.iter().map(|(key, value)| match key.as_str() {
                // A map of names to schemas, in which a property may have the mark's own name.
                "properties" | "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
                    value.as_object().map_or(0, |schemas| schemas.values().map(count).sum())
                }
                // Data and names, no schemas.
                "default" | "const" | "enum" | "examples" | "dependentRequired" | "required" => 0,
                MARK => 1,
                _ => count(value),
            });
            inside.sum()
        }
        Value::Array(schemas) => schemas.iter().map(count).sum(),
        _ => 0,
    }
}

/// A text as a header's value: as it is when it is plain, else in the form `=?base64?…?=`.
fn encoded(text: &str) -> String {
    let padded = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let posing = text.starts_with("=?base64?") && text.ends_with("?=");
    if plain && !padded && !posing {
        return text.to_owned();
    }
    format!("=?base64?{}?=", BASE64_STANDARD.encode(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn schema(properties: Value) -> Value {
        json!({"type": "object", "properties": properties})
    }

    fn headers(properties: Value, arguments: Value) -> Vec<(String, String)> {
        let marks = ParamMarks::of(&schema(properties)).unwrap();
        let headers =
            marks.headers(arguments.as_object().unwrap()).map_or_else(Vec::new, |headers| headers.0);
        headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
    }

    // MCP-117: one header per marked argument that is there
    #[test]
    fn marked_arguments_are_headers() {
        let properties = json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            "deep": {"type": "object", "properties": {"id": {"type": "string", "x-mcp-header": "Deep-Id"}}},
            "other": {"type": "string"},
        });
        let all = json!({"region": "eu", "count": 7, "dry": false, "deep": {"id": "a b"}, "other": "x"});
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            headers(properties.clone(), all),
            [
                pair("mcp-param-region", "eu"),
                pair("mcp-param-count", "7"),
                pair("mcp-param-dry", "false"),
                pair("mcp-param-deep-id", "a b"),
            ]
        );
        assert_eq!(headers(properties.clone(), json!({"region": null, "count": [1], "deep": "x"})), []);
        assert_eq!(
            headers(properties, json!({"region": "é\n"})),
            [pair("mcp-param-region", "=?base64?w6kK?=")]
        );
    }

    // MCP-117: marks that the protocol does not allow
    #[test]
    fn invalid_marks_are_told() {
        for (property, told) in [
            (json!({"type": "string", "x-mcp-header": ""}), "must be a text"),
            (json!({"type": "string", "x-mcp-header": 5}), "must be a text"),
            (json!({"type": "object", "x-mcp-header": "A"}), "must mark a string"),
            (json!({"type": "number", "x-mcp-header": "A"}), "must mark a string"),
            (json!({"type": ["string"], "x-mcp-header": "A"}), "must mark a string"),
            (json!({"type": "string", "x-mcp-header": "A B"}), "not a valid header name"),
            (json!({"type": "string", "x-mcp-header": "Ré"}), "not a valid header name"),
            (
                json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
                "only properties lead",
            ),
            (
                json!({"oneOf": [{"properties": {"b": {"type": "string", "x-mcp-header": "A"}}}]}),
                "only properties lead",
            ),
        ] {
            let error = ParamMarks::of(&schema(json!({"p": property}))).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        let twice = json!({"a": {"type": "string", "x-mcp-header": "R"}, "b": {"type": "string", "x-mcp-header": "r"}});
        assert!(ParamMarks::of(&schema(twice)).unwrap_err().contains("twice"));
        assert!(ParamMarks::of(&json!({"x-mcp-header": "R"})).is_err());
        // A property of that name is no mark, nor is data.
        let named = json!({"x-mcp-header": {"type": "string"}, "b": {"default": {"x-mcp-header": 1}}});
        assert_eq!(ParamMarks::of(&schema(named)).unwrap(), ParamMarks::default());
    }

    proptest! {
        // MCP-117: any text survives as a header
        #[test]
        fn any_text_survives(text in "\\PC{0,20}|[ \t]{0,2}[a-z=?]{0,8}[ \t]{0,2}|=\\?base64\\?[a-zA-Z0-9+/]{0,8}\\?=") {
            let header = HeaderValue::from_str(&encoded(&text)).unwrap();
            let sent = header.to_str().unwrap();
            let inside = sent.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
            let read = inside.map_or(sent.to_owned(), |inside| {
                String::from_utf8(BASE64_STANDARD.decode(inside).unwrap()).unwrap()
            });
            prop_assert_eq!(read, text);
        }
    }
}
