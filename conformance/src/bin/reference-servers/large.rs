//! Large arguments and large results, up to the limit and beyond.

use serde_json::json;
use toolnexus::Toolkit;
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::servers::{Setting, Wire, call, failure, json_of, load, structured, text};

const MIB: usize = 1024 * 1024;

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    for wire in Wire::BOTH {
        let toolkit = setting.load_everything(wire).await?;
        report
            .check(&format!("{}: a mebibyte there and back", wire.as_str()), echoed(&toolkit, wire, MIB))
            .await;
        toolkit.close().await;
    }
    let toolkit = setting.load_everything(Wire::Stdio).await?;
    report.check("stdio: eight mebibytes there and back", echoed(&toolkit, Wire::Stdio, 8 * MIB)).await;
    toolkit.close().await;

    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path().display().to_string();
    let toolkit = load(json!({"files": setting.local("filesystem", &[&folder])})).await?;
    report.check("stdio: a file of five mebibytes", large_file(&toolkit, &folder)).await;
    report.check("stdio: a directory of two thousand files", many_files(&toolkit, &folder)).await;
    report.check("stdio: a result over the limit fails alone", over_the_limit(&toolkit, &folder)).await;
    toolkit.close().await;
    Ok(())
}

/// Text that would show a lost, doubled or swapped piece.
fn message(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut line = 0_u64;
    while text.len() < bytes {
        text.push_str(&format!("{line} é\n"));
        line += 1;
    }
    text
}

async fn echoed(toolkit: &Toolkit, wire: Wire, bytes: usize) -> Outcome {
    let message = message(bytes);
    let result = call(toolkit, &format!("{}echo", wire.prefix()), json!({"message": message})).await?;
    equal("result", &json_of(&result), &text(wire.server(), format!("Echo: {message}")))
}

// The server sends the text twice: as text and as structured content.
async fn large_file(toolkit: &Toolkit, folder: &str) -> Outcome {
    let path = format!("{folder}/large.txt");
    let content = message(5 * MIB);
    std::fs::write(&path, &content).map_err(|error| error.to_string())?;
    let result = call(toolkit, "files_read_text_file", json!({"path": path})).await?;
    equal("result", &json_of(&result), &structured("files", json!({"content": content})))
}

async fn many_files(toolkit: &Toolkit, folder: &str) -> Outcome {
    let folder = format!("{folder}/many");
    std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let names: Vec<String> = (0..2000).map(|number| format!("file-{number:04}.txt")).collect();
    for name in &names {
        std::fs::write(format!("{folder}/{name}"), "").map_err(|error| error.to_string())?;
    }
    let result = call(toolkit, "files_list_directory", json!({"path": folder})).await?;
    let content =
        result.structured.as_ref().and_then(|data| data.get("content")?.as_str()).unwrap_or_default();
    let mut listed: Vec<&str> = content.lines().collect();
    listed.sort_unstable();
    let expected: Vec<String> = names.iter().map(|name| format!("[FILE] {name}")).collect();
    equal("files", &listed, &expected)
}

async fn over_the_limit(toolkit: &Toolkit, folder: &str) -> Outcome {
    let path = format!("{folder}/too-large.txt");
    std::fs::write(&path, message(17 * MIB)).map_err(|error| error.to_string())?;
    let result = call(toolkit, "files_read_text_file", json!({"path": path})).await?;
    let head = "mcp server \"files\" failed at tools/call: malformed-body (response too long)";
    holds(result.output.starts_with(head), || format!("output: {:?}", shortened(&result.output)))?;
    equal("result", &json_of(&result), &failure("files", result.output.clone()))?;
    let result = call(toolkit, "files_list_allowed_directories", json!({})).await?;
    holds(!result.is_error, || format!("the next call failed: {}", result.output))
}

fn shortened(text: &str) -> String {
    text.chars().take(300).collect()
}
