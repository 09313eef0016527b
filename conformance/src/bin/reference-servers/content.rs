//! Every kind of content that server-everything gives, over both wires.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use toolnexus::{ContentPart, Toolkit};
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::servers::{Setting, Wire, call, json_of, structured, text};

/// server-everything over one wire.
struct Peer<'a> {
    toolkit: &'a Toolkit,
    wire: Wire,
}

impl Peer<'_> {
    async fn call(&self, tool: &str, args: Value) -> Result<toolnexus::ToolResult, String> {
        call(self.toolkit, &format!("{}{tool}", self.wire.prefix()), args).await
    }

    /// Calls a tool and compares the whole result as it serialises.
    async fn gives(&self, tool: &str, args: Value, expected: Value) -> Outcome {
        equal("result", &json_of(&self.call(tool, args).await?), &expected)
    }

    fn text(&self, output: impl Into<String>) -> Value {
        text(self.wire.server(), output)
    }
}

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    let image = tiny_image(setting)?;
    for wire in Wire::BOTH {
        let toolkit = setting.load_everything(wire).await?;
        let peer = Peer { toolkit: &toolkit, wire };
        let name = |what: &str| format!("{}: {what}", wire.as_str());
        report.check(&name("text"), plain(&peer)).await;
        report.check(&name("text in any script, and line ends"), any_text(&peer)).await;
        report.check(&name("numbers"), numbers(&peer)).await;
        report.check(&name("an image between texts"), between_texts(&peer, &image)).await;
        report.check(&name("annotated text and image"), annotated(&peer, &image)).await;
        report.check(&name("structured content"), data(&peer)).await;
        report.check(&name("resource links"), links(&peer)).await;
        report.check(&name("an embedded text resource"), embedded_text(&peer)).await;
        report.check(&name("an embedded blob resource"), embedded_blob(&peer)).await;
        report.check(&name("a blob and nothing else"), blob_alone(&peer)).await;
        report.check(&name("a link and nothing else"), link_alone(&peer)).await;
        toolkit.close().await;
    }
    Ok(())
}

/// The image as the server's own source spells it.
fn tiny_image(setting: &Setting) -> Result<String, String> {
    let source = setting.read_everything("tools/get-tiny-image.js")?;
    let (_, after) = source.split_once("MCP_TINY_IMAGE = \"").ok_or("no image in the server's source")?;
    let (image, _) = after.split_once('"').ok_or("no end of the image in the server's source")?;
    Ok(image.to_owned())
}

// MCP-81, MCP-82
async fn plain(peer: &Peer<'_>) -> Outcome {
    peer.gives("echo", json!({"message": "hello"}), peer.text("Echo: hello")).await?;
    peer.gives("echo", json!({"message": ""}), peer.text("Echo: ")).await
}

async fn any_text(peer: &Peer<'_>) -> Outcome {
    let message = "a\nb\r\n\tc \u{2028}\u{2029}\u{0}\u{7f} ünï 漢字 🦀 \"quoted\" \\ </script> data: x\n\n";
    peer.gives("echo", json!({"message": message}), peer.text(format!("Echo: {message}"))).await
}

async fn numbers(peer: &Peer<'_>) -> Outcome {
    peer.gives("get-sum", json!({"a": 2, "b": 40}), peer.text("The sum of 2 and 40 is 42.")).await?;
    peer.gives("get-sum", json!({"a": 0.5, "b": -2}), peer.text("The sum of 0.5 and -2 is -1.5.")).await
}

// MCP-83
async fn between_texts(peer: &Peer<'_>, image: &str) -> Outcome {
    let mut expected = peer.text("Here's the image you requested:\nThe image above is the MCP logo.");
    put_parts(&mut expected, json!([{"type": "image", "mimeType": "image/png", "data": image}]));
    peer.gives("get-tiny-image", json!({}), expected).await
}

async fn annotated(peer: &Peer<'_>, image: &str) -> Outcome {
    let tool = "get-annotated-message";
    let args = json!({"messageType": "error", "includeImage": false});
    peer.gives(tool, args, peer.text("Error: Operation failed")).await?;
    let args = json!({"messageType": "debug"});
    peer.gives(tool, args, peer.text("Debug: Cache hit ratio 0.95, latency 150ms")).await?;
    let mut expected = peer.text("Operation completed successfully");
    put_parts(&mut expected, json!([{"type": "image", "mimeType": "image/png", "data": image}]));
    peer.gives(tool, json!({"messageType": "success", "includeImage": true}), expected).await
}

// MCP-80
async fn data(peer: &Peer<'_>) -> Outcome {
    for (city, temperature, conditions, humidity) in [
        ("New York", 33, "Cloudy", 82),
        ("Chicago", 36, "Light rain / drizzle", 82),
        ("Los Angeles", 73, "Sunny / Clear", 48),
    ] {
        let weather = json!({"temperature": temperature, "conditions": conditions, "humidity": humidity});
        let expected = structured(peer.wire.server(), weather);
        peer.gives("get-structured-content", json!({"location": city}), expected).await?;
    }
    Ok(())
}

// MCP-83
async fn links(peer: &Peer<'_>) -> Outcome {
    let mut expected = peer.text("Here are 3 resource links to resources available in this server:");
    let link = |kind: &str, number: u8| {
        json!({
            "type": "file",
            "mimeType": "text/plain",
            "url": format!("demo://resource/dynamic/{}/{number}", kind.to_lowercase()),
            "name": format!("{kind} Resource {number}"),
        })
    };
    put_parts(&mut expected, json!([link("Blob", 1), link("Text", 2), link("Blob", 3)]));
    peer.gives("get-resource-links", json!({}), expected).await
}

// MCP-84: text that is embedded stands in its place among the texts
async fn embedded_text(peer: &Peer<'_>) -> Outcome {
    let args = json!({"resourceType": "Text", "resourceId": 5});
    let result = peer.call("get-resource-reference", args).await?;
    let lines: Vec<&str> = result.output.split('\n').collect();
    let [first, embedded, last] = lines.as_slice() else { return Err(format!("output: {lines:?}")) };
    equal("first line", *first, "Returning resource reference for Resource 5:")?;
    // The line ends with the time of day.
    let start = "Resource 5: This is a plaintext resource created at ";
    holds(embedded.starts_with(start), || format!("embedded text: {embedded:?}"))?;
    equal("last line", *last, "You can access this resource using the URI: demo://resource/dynamic/text/5")?;
    equal("rest", &json_of(&result), &peer.text(result.output.clone()))
}

// MCP-83: a blob is a file, its data untouched
async fn embedded_blob(peer: &Peer<'_>) -> Outcome {
    let args = json!({"resourceType": "Blob", "resourceId": 6});
    let result = peer.call("get-resource-reference", args).await?;
    let data = only_data(&result.parts)?.to_owned();
    let decoded = STANDARD.decode(&data).map_err(|error| error.to_string())?;
    let decoded = String::from_utf8_lossy(&decoded).into_owned();
    let start = "Resource 6: This is a base64 blob created at ";
    holds(decoded.starts_with(start), || format!("blob: {decoded:?}"))?;
    let mut expected = peer.text(concat!(
        "Returning resource reference for Resource 6:\n",
        "You can access this resource using the URI: demo://resource/dynamic/blob/6"
    ));
    let name = "demo://resource/dynamic/blob/6";
    put_parts(&mut expected, json!([{"type": "file", "mimeType": "text/plain", "data": data, "name": name}]));
    equal("result", &json_of(&result), &expected)
}

// MCP-85: without any text the output names the part
async fn blob_alone(peer: &Peer<'_>) -> Outcome {
    let args = json!({"name": "five.gz", "data": "data:text/plain,hello", "outputType": "resource"});
    let result = peer.call("gzip-file-as-resource", args).await?;
    let data = only_data(&result.parts)?.to_owned();
    let decoded = STANDARD.decode(&data).map_err(|error| error.to_string())?;
    // A gzip file starts with its magic and ends with the checksum and size of what it holds.
    holds(decoded.starts_with(&[0x1f, 0x8b]), || "no gzip magic".into())?;
    let hello = [0x86, 0xa6, 0x10, 0x36, 5, 0, 0, 0];
    holds(decoded.ends_with(&hello), || "the gzip file holds something else".into())?;
    let mut expected = peer.text(format!("file (application/gzip, {} bytes)", decoded.len()));
    let name = "demo://resource/session/five.gz";
    put_parts(
        &mut expected,
        json!([{"type": "file", "mimeType": "application/gzip", "data": data, "name": name}]),
    );
    equal("result", &json_of(&result), &expected)
}

async fn link_alone(peer: &Peer<'_>) -> Outcome {
    let args = json!({"name": "link.gz", "data": "data:text/plain,hello"});
    let mut expected = peer.text("file (application/gzip, 0 bytes)");
    let url = "demo://resource/session/link.gz";
    put_parts(
        &mut expected,
        json!([{"type": "file", "mimeType": "application/gzip", "url": url, "name": "link.gz"}]),
    );
    peer.gives("gzip-file-as-resource", args, expected).await
}

fn put_parts(result: &mut Value, parts: Value) {
    if let Some(result) = result.as_object_mut() {
        result.insert("parts".into(), parts);
    }
}

fn only_data(parts: &[ContentPart]) -> Result<&str, String> {
    match parts {
        [part] => part.data().ok_or_else(|| format!("a part without data: {part:?}")),
        _ => Err(format!("expected one part, got {parts:?}")),
    }
}
