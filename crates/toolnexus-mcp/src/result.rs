//! From the result of `tools/call`, or `resources/read`, to a [`ToolResult`].

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toolnexus_core::{ContentPart, ToolResult};

use crate::failure::Fault;

/// The mime type of content that does not say.
const UNKNOWN_MIME: &str = "application/octet-stream";

/// Reads the raw JSON of a result. Metadata is left to the caller.
pub(crate) fn tool_result(raw: &str) -> Result<ToolResult, Fault> {
    let result: CallResult<'_> = serde_json::from_str(raw).map_err(|_| Fault::malformed())?;
    let content = Content::read(result.content);
    let is_error = result.is_error.as_bool() == Some(true);
    let (output, structured) = if is_error {
        (content.error_text(), None)
    } else if let Some(structured) = result.structured_content {
        // What cannot be read here is text that serde_json has just passed as JSON: numbers out of
        // range, at the most.
        let value: Value = serde_json::from_str(structured.get()).map_err(|_| Fault::malformed())?;
        (content.after(value.to_string()), Some(value))
    } else {
        (content.text(), None)
    };
    Ok(ToolResult { output, is_error, parts: content.parts, metadata: None, structured })
}

/// Reads the raw JSON of the result of `resources/read`: its contents are what a call would embed.
pub(crate) fn resource_result(raw: &str) -> Result<ToolResult, Fault> {
    #[derive(Deserialize)]
    struct ReadResult {
        contents: Vec<Value>,
    }
    let result: ReadResult = serde_json::from_str(raw).map_err(|_| Fault::malformed())?;
    let mut content = Content::default();
    for entry in result.contents {
        let resource = serde_json::from_value(entry).ok();
        content.take(Entry { r#type: "resource".to_owned(), resource, ..Default::default() });
    }
    Ok(ToolResult { output: content.text(), parts: content.parts, ..Default::default() })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(default)]
    is_error: Value,
    /// `null` counts as absent.
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// One entry of the content, whatever its type: the keys that any type uses.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    r#type: String,
    text: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    uri: Option<String>,
    name: Option<String>,
    resource: Option<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    uri: Option<String>,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

/// Text that goes into the output.
struct Text {
    text: String,
    /// Of an embedded resource: kept where plain text gives way to structured content.
    embedded: bool,
}

#[derive(Default)]
struct Content {
    texts: Vec<Text>,
    parts: Vec<ContentPart>,
}

impl Content {
    fn read(raw: Option<&RawValue>) -> Self {
        let mut content = Content::default();
        let Some(raw) = raw else { return content };
        // All entries at once, as they nearly always are; one by one where one is odd.
        if let Ok(entries) = serde_json::from_str::<Vec<Entry>>(raw.get()) {
            entries.into_iter().for_each(|entry| content.take(entry));
        } else if let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            for entry in entries {
                match serde_json::from_str::<Entry>(entry.get()) {
                    Ok(entry) => content.take(entry),
                    Err(_) => content.unsupported(&type_of(entry)),
                }
            }
        }
        content
    }

    fn take(&mut self, entry: Entry) {
        let Entry { r#type, text, data, mime_type, uri, name, resource } = entry;
        let mime_type = mime_type.unwrap_or_else(|| UNKNOWN_MIME.to_owned());
        match (r#type.as_str(), text, data, uri, resource) {
            ("text", Some(text), ..) => self.texts.push(Text { text, embedded: false }),
            ("image", _, data @ Some(_), ..) => {
                self.parts.push(ContentPart::Image { mime_type, data, url: None })
            }
            ("audio", _, data @ Some(_), ..) => {
                self.parts.push(ContentPart::Audio { mime_type, data, url: None })
            }
            ("resource_link", _, _, url @ Some(_), _) => {
                self.parts.push(ContentPart::File { mime_type, data: None, url, name });
            }
            ("resource", .., Some(Resource { text: Some(text), .. })) => {
                self.texts.push(Text { text, embedded: true });
            }
            ("resource", .., Some(Resource { uri, mime_type, blob: data @ Some(_), .. })) => {
                let mime_type = mime_type.unwrap_or_else(|| UNKNOWN_MIME.to_owned());
                self.parts.push(ContentPart::File { mime_type, data, url: None, name: uri });
            }
            _ => self.unsupported(&r#type),
        }
    }

    fn unsupported(&mut self, kind: &str) {
        self.texts.push(Text { text: format!("unsupported content ({kind})"), embedded: false });
    }

    /// The output of a plain result.
    fn text(&self) -> String {
        if self.texts.is_empty() {
            let lines: Vec<String> = self.parts.iter().map(ContentPart::summarize).collect();
            return lines.join("\n");
        }
        if let [single] = self.texts.as_slice() {
            return single.text.clone();
        }
        let texts: Vec<&str> = self.texts.iter().map(|text| text.text.as_str()).collect();
        texts.join("\n")
    }

    /// The output of a failure.
    fn error_text(&self) -> String {
        let texts: Vec<&str> =
            self.texts.iter().map(|text| text.text.as_str()).filter(|text| !text.trim().is_empty()).collect();
        if texts.is_empty() { "MCP tool returned an error".to_owned() } else { texts.join("\n\n") }
    }

    /// The output of a structured result: its JSON, then what only embedded resources say.
    fn after(&self, mut json: String) -> String {
        for text in self.texts.iter().filter(|text| text.embedded) {
            json.push('\n');
            json.push_str(&text.text);
        }
        json
    }
}

fn type_of(entry: &RawValue) -> String {
    let value: Value = serde_json::from_str(entry.get()).unwrap_or_default();
    value.get("type").and_then(Value::as_str).unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(value: Value) -> ToolResult {
        tool_result(&value.to_string()).unwrap()
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    // MCP-81, MCP-87, case 44
    #[test]
    fn texts_are_joined_by_line_ends() {
        assert_eq!(read(json!({"content": [text("a"), text("b")]})), ToolResult::success("a\nb"));
        assert_eq!(read(json!({"content": [text("a"), text(" "), text("b")]})).output, "a\n \nb");
        assert_eq!(read(json!({"content": []})), ToolResult::success(""));
    }

    // MCP-79, cases 45, 46 and 97
    #[test]
    fn errors_are_joined_by_blank_lines() {
        let result = read(json!({"isError": true, "content": [text("a"), text(" "), text("b")]}));
        assert_eq!(result, ToolResult::failure("a\n\nb"));
        let nothing = ToolResult::failure("MCP tool returned an error");
        assert_eq!(read(json!({"isError": true, "content": []})), nothing);
        assert_eq!(read(json!({"isError": true})), nothing);
        assert_eq!(read(json!({"isError": true, "structuredContent": {"a": 1}, "content": []})), nothing);
        let odd =
            json!({"content": [text("x")], "action": "accept", "isError": true, "tools": [], "messages": []});
        assert_eq!(read(odd), ToolResult::failure("x"));
        assert!(!read(json!({"isError": "true", "content": [text("x")]})).is_error);
    }

    // MCP-80, cases 47 and 48
    #[test]
    fn structured_content_is_the_output() {
        let raw = r#"{"structuredContent":{ "b": 1, "a": [2] }, "content":[{"type":"text","text":"x"}]}"#;
        let result = tool_result(raw).unwrap();
        assert_eq!(result.output, r#"{"b":1,"a":[2]}"#);
        assert_eq!(result.structured, Some(json!({"b": 1, "a": [2]})));
        assert_eq!(
            read(json!({"structuredContent": null, "content": [text("x")]})),
            ToolResult::success("x")
        );
        for present in [json!({}), json!([]), json!(false), json!(0), json!("")] {
            let result = read(json!({"structuredContent": present, "content": [text("x")]}));
            assert_eq!(result.output, present.to_string());
            assert!(!result.is_error);
        }
        let exact = r#"{"structuredContent":[18446744073709551615,-9223372036854775808]}"#;
        assert_eq!(tool_result(exact).unwrap().output, "[18446744073709551615,-9223372036854775808]");
    }

    // MCP-83, MCP-85, cases 49 and 50
    #[test]
    fn other_content_becomes_parts() {
        let data = "A".repeat(108) + "AA==";
        let result = read(json!({"content": [{"type": "image", "mimeType": "image/png", "data": data}]}));
        assert_eq!(result.output, "image (image/png, 82 bytes)");
        assert_eq!(
            serde_json::to_value(&result.parts).unwrap(),
            json!([{"type": "image", "mimeType": "image/png", "data": data}])
        );

        let content = json!([
            text("see"),
            {"type": "resource_link", "uri": "file:///g.md", "name": "g"},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
            {"type": "resource", "resource": {"uri": "mem:1", "mimeType": "application/pdf", "blob": "AAAA"}},
        ]);
        let parts = json!([
            {"type": "file", "mimeType": "application/octet-stream", "url": "file:///g.md", "name": "g"},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
            {"type": "file", "mimeType": "application/pdf", "data": "AAAA", "name": "mem:1"},
        ]);
        let plain = read(json!({"content": content}));
        assert_eq!(plain.output, "see");
        let failed = read(json!({"content": content, "isError": true}));
        assert_eq!(failed.output, "see");
        let structured = read(json!({"content": content, "structuredContent": 1}));
        assert_eq!(structured.output, "1");
        for result in [plain, failed, structured] {
            assert_eq!(serde_json::to_value(&result.parts).unwrap(), parts);
        }
        let text_only = serde_json::to_value(read(json!({"content": [text("t")]}))).unwrap();
        assert!(text_only.get("parts").is_none());
        let links = json!({"content": [{"type": "resource_link", "uri": "a:1"}, {"type": "resource_link", "uri": "a:2"}]});
        assert_eq!(
            read(links).output,
            "file (application/octet-stream, 0 bytes)\nfile (application/octet-stream, 0 bytes)"
        );
    }

    // MCP-84
    #[test]
    fn embedded_text_is_text_in_its_place() {
        let content = json!([
            text("a"),
            {"type": "resource", "resource": {"uri": "mem:1", "mimeType": "text/plain", "text": "inside"}},
            text("b"),
        ]);
        let plain = read(json!({"content": content}));
        assert_eq!(plain, ToolResult::success("a\ninside\nb"));
        let structured = read(json!({"content": content, "structuredContent": {"n": 1}}));
        assert_eq!(structured.output, "{\"n\":1}\ninside");
        assert!(structured.parts.is_empty());
    }

    // MCP-86
    #[test]
    fn unknown_content_stays_visible() {
        let result = read(json!({"content": [
            text("a"), {"type": "hologram", "data": {"x": 1}}, {"type": "image"}, {"type": "text", "text": 5}, 7
        ]}));
        assert_eq!(
            result.output,
            "a\nunsupported content (hologram)\nunsupported content (image)\nunsupported content (text)\nunsupported content (unknown)"
        );
        assert!(!result.is_error);
        for raw in ["{}", r#"{"content":null}"#, r#"{"content":"x"}"#] {
            assert_eq!(tool_result(raw).unwrap(), ToolResult::success(""), "{raw}");
        }
        for raw in ["5", "null", "\"x\"", "true"] {
            assert_eq!(tool_result(raw).unwrap_err(), Fault::malformed(), "{raw}");
        }
    }

    proptest! {
        // MCP-81, MCP-83: any text and any data come through untouched
        #[test]
        fn text_and_data_are_untouched(words in ".{0,40}", data in "[A-Za-z0-9+/]{0,40}={0,2}") {
            let content = json!([text(&words), {"type": "image", "mimeType": "image/png", "data": data}]);
            let result = read(json!({"content": content}));
            prop_assert_eq!(&result.output, &words);
            prop_assert_eq!(result.parts[0].data(), Some(data.as_str()));
        }
    }
}
