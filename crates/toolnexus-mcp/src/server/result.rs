//! A tool's result as `tools/call` gives it: the reverse of what this crate's client reads.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;
use toolnexus_core::{ContentPart, ToolResult};

/// Whether a result's data goes out beside its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Structured {
    /// As `structuredContent`, when it is an object: MCP knows no other data.
    Sent,
    /// The text has to do.
    Left,
}

/// The result of `tools/call`. Metadata never goes out, and a suspension is a failure that says
/// what is asked.
pub(crate) struct CallResult<'a>(pub(crate) &'a ToolResult, pub(crate) Structured);

impl Serialize for CallResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CallResult(result, structured) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("content", &Content(result))?;
        if let (Structured::Sent, Some(data @ Value::Object(_))) = (structured, &result.structured) {
            map.serialize_entry("structuredContent", data)?;
        }
        map.serialize_entry("isError", &result.is_error)?;
        map.end()
    }
}

struct Content<'a>(&'a ToolResult);

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ToolResult { output, parts, .. } = self.0;
        let mut seq = serializer.serialize_seq(Some(1 + parts.len()))?;
        seq.serialize_element(&Entry::Text { text: output })?;
        for part in parts {
            seq.serialize_element(&entry(part))?;
        }
        seq.end()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Entry<'a> {
    Text { text: &'a str },
    Image { data: &'a str, mime_type: &'a str },
    Audio { data: &'a str, mime_type: &'a str },
    ResourceLink { uri: &'a str, name: &'a str, mime_type: &'a str },
    Resource { resource: Blob<'a> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blob<'a> {
    uri: &'a str,
    mime_type: &'a str,
    blob: &'a str,
}

/// The uri of data that has no name: a client may ask for one that reads as such.
const NAMELESS: &str = "urn:toolnexus:file";

/// A part as an entry of content, in results and prompts.
pub(crate) fn entry(part: &ContentPart) -> Entry<'_> {
    match part {
        ContentPart::Text { text } => Entry::Text { text },
        ContentPart::Image { mime_type, data: Some(data), .. } => Entry::Image { data, mime_type },
        ContentPart::Audio { mime_type, data: Some(data), .. } => Entry::Audio { data, mime_type },
        ContentPart::File { mime_type, data: Some(blob), name, .. } => {
            let uri = name.as_deref().filter(|name| !name.is_empty()).unwrap_or(NAMELESS);
            Entry::Resource { resource: Blob { uri, mime_type, blob } }
        }
        ContentPart::Image { mime_type, url, .. } | ContentPart::Audio { mime_type, url, .. } => {
            link(url.as_deref(), None, mime_type)
        }
        ContentPart::File { mime_type, url, name, .. } => link(url.as_deref(), name.as_deref(), mime_type),
    }
}

/// A link needs a name: where the part has none, the last step of its path, or all of it.
fn link<'a>(url: Option<&'a str>, name: Option<&'a str>, mime_type: &'a str) -> Entry<'a> {
    let uri = url.unwrap_or(NAMELESS);
    let path = uri.split(['?', '#']).next().unwrap_or(uri);
    let last = path.rsplit('/').next().filter(|last| !last.is_empty());
    Entry::ResourceLink { uri, name: name.or(last).unwrap_or(uri), mime_type }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, json};
    use toolnexus_core::{Request, pending};

    fn sent(result: &ToolResult, structured: Structured) -> Value {
        let text = serde_json::to_string(&CallResult(result, structured)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    // MCP-152, SERVE-69, case 78
    #[test]
    fn a_result_is_its_text_and_whether_it_failed() {
        let text =
            |result: &ToolResult| serde_json::to_string(&CallResult(result, Structured::Left)).unwrap();
        assert_eq!(
            text(&ToolResult::success("hi")),
            r#"{"content":[{"type":"text","text":"hi"}],"isError":false}"#
        );
        assert_eq!(
            text(&ToolResult::failure("")),
            r#"{"content":[{"type":"text","text":""}],"isError":true}"#
        );
        let secret =
            ToolResult::success("x").with_metadata(Map::from_iter([("path".into(), json!("/home/me"))]));
        assert!(!text(&secret).contains("/home/me"));

        let asked = pending(Request { prompt: "Which city?".into(), ..Default::default() });
        assert_eq!(text(&asked), r#"{"content":[{"type":"text","text":"Which city?"}],"isError":true}"#);
    }

    // MCP-152
    #[test]
    fn parts_follow_the_text() {
        let file = |data: Option<&str>, url: Option<&str>, name: Option<&str>| ContentPart::File {
            mime_type: "application/pdf".into(),
            data: data.map(str::to_owned),
            url: url.map(str::to_owned),
            name: name.map(str::to_owned),
        };
        let result = ToolResult::success("see").with_parts(vec![
            ContentPart::from_base64("image/png", "AAAA", None),
            ContentPart::from_base64("audio/wav", "BBBB", None),
            file(Some("CCCC"), None, Some("mem:1")),
            file(Some("DDDD"), None, None),
            file(None, Some("https://h/a/b.pdf?x=1"), Some("plan")),
            file(None, Some("https://h/a/b.pdf?x=1"), None),
            ContentPart::from_link("image/png", "https://h/", None),
            ContentPart::text("and"),
        ]);
        let content = json!([
            {"type": "text", "text": "see"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "BBBB", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "mem:1", "mimeType": "application/pdf", "blob": "CCCC"}},
            {"type": "resource", "resource":
                {"uri": "urn:toolnexus:file", "mimeType": "application/pdf", "blob": "DDDD"}},
            {"type": "resource_link", "uri": "https://h/a/b.pdf?x=1", "name": "plan", "mimeType": "application/pdf"},
            {"type": "resource_link", "uri": "https://h/a/b.pdf?x=1", "name": "b.pdf", "mimeType": "application/pdf"},
            {"type": "resource_link", "uri": "https://h/", "name": "https://h/", "mimeType": "image/png"},
            {"type": "text", "text": "and"},
        ]);
        assert_eq!(sent(&result, Structured::Left), json!({"content": content, "isError": false}));
    }

    // MCP-172
    #[test]
    fn data_goes_beside_the_text() {
        let object = ToolResult::structured(json!({"b": 1, "a": [2]}));
        let content = json!([{"type": "text", "text": r#"{"b":1,"a":[2]}"#}]);
        assert_eq!(
            sent(&object, Structured::Sent),
            json!({"content": content, "structuredContent": {"b": 1, "a": [2]}, "isError": false})
        );
        assert_eq!(sent(&object, Structured::Left), json!({"content": content, "isError": false}));
        // A client would refuse the whole result for it.
        let list = sent(&ToolResult::structured(json!([1])), Structured::Sent);
        assert_eq!(list, json!({"content": [{"type": "text", "text": "[1]"}], "isError": false}));
    }

    proptest! {
        // MCP-152, MCP-81, MCP-83: what goes out is what this crate's client reads again
        #[test]
        fn results_come_through(
            output in ".{0,40}",
            is_error in any::<bool>(),
            parts in proptest::collection::vec(part(), 0..4),
        ) {
            let result = ToolResult { output, is_error, parts, ..Default::default() };
            let wire = serde_json::to_string(&CallResult(&result, Structured::Left)).unwrap();
            let read = crate::result::tool_result(&wire).unwrap();
            if !is_error {
                prop_assert_eq!(&read.output, &result.output);
            }
            prop_assert_eq!(read.is_error, result.is_error);
            prop_assert_eq!(read.parts, result.parts);
        }
    }

    fn part() -> impl Strategy<Value = ContentPart> {
        let data = "[A-Za-z0-9+/]{4,20}";
        prop_oneof![
            data.prop_map(|data| ContentPart::from_base64("image/png", data, None)),
            data.prop_map(|data| ContentPart::from_base64("audio/wav", data, None)),
            (data, "[a-z]{1,8}")
                .prop_map(|(data, name)| { ContentPart::from_base64("application/pdf", data, Some(name)) }),
            "[a-z]{1,8}".prop_map(|name| {
                ContentPart::from_link("text/plain", format!("https://h/{name}"), Some(name))
            }),
        ]
    }
}
