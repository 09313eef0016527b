//! server-filesystem: what it does inside its folder, and what it refuses outside.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use toolnexus::Toolkit;
use toolnexus_conformance::{Outcome, Report, equal, holds};

use crate::servers::{Setting, call, failure, json_of, load, structured};

/// server-filesystem over a folder of its own, beside which lies a file that is none of its business.
struct Files<'a> {
    toolkit: &'a Toolkit,
    /// The folder that the server may use, as it spells it.
    inside: &'a str,
    outside: &'a Path,
}

impl Files<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.inside)
    }

    /// Calls a tool and compares the whole result; the server gives all its text as structured
    /// content too.
    async fn says(&self, tool: &str, args: Value, content: &str) -> Outcome {
        let result = call(self.toolkit, &format!("files_{tool}"), args).await?;
        equal(tool, &json_of(&result), &structured("files", json!({"content": content})))
    }

    async fn refuses(&self, tool: &str, args: Value, output: &str) -> Outcome {
        let result = call(self.toolkit, &format!("files_{tool}"), args).await?;
        equal(tool, &json_of(&result), &failure("files", output))
    }
}

pub(crate) async fn checks(report: &mut Report, setting: &Setting) -> Outcome {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let root = folder.path().canonicalize().map_err(|error| error.to_string())?;
    let inside = root.join("inside");
    std::fs::create_dir(&inside).map_err(|error| error.to_string())?;
    let outside = root.join("secret.txt");
    std::fs::write(&outside, "secret").map_err(|error| error.to_string())?;
    let inside = inside.display().to_string();
    let toolkit = load(json!({"files": setting.local("filesystem", &[&inside])})).await?;
    let files = Files { toolkit: &toolkit, inside: &inside, outside: &outside };

    report.check("filesystem: the folder it may use", allowed(&files)).await;
    report.check("filesystem: write and read", write_and_read(&files)).await;
    report.check("filesystem: edit", edit(&files)).await;
    report.check("filesystem: directories", directories(&files)).await;
    report.check("filesystem: an image and another file", media(&files)).await;
    report.check("filesystem: a file that is not there", missing(&files)).await;
    report.check("filesystem: nothing outside its folder", refusals(&files)).await;
    toolkit.close().await;
    Ok(())
}

async fn allowed(files: &Files<'_>) -> Outcome {
    let content = format!("Allowed directories:\n{}", files.inside);
    files.says("list_allowed_directories", json!({}), &content).await
}

async fn write_and_read(files: &Files<'_>) -> Outcome {
    let path = files.path("note.txt");
    let content = "first\nsecond ünï 🦀\nthird\n";
    let args = json!({"path": path, "content": content});
    files.says("write_file", args, &format!("Successfully wrote to {path}")).await?;
    let written = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    equal("on disk", written.as_str(), content)?;
    files.says("read_text_file", json!({"path": path}), content).await?;
    files.says("read_text_file", json!({"path": path, "head": 2}), "first\nsecond ünï 🦀").await
}

async fn edit(files: &Files<'_>) -> Outcome {
    let path = files.path("edited.txt");
    std::fs::write(&path, "one\ntwo\n").map_err(|error| error.to_string())?;
    let args = json!({"path": path, "edits": [{"oldText": "two", "newText": "2"}]});
    let result = call(files.toolkit, "files_edit_file", args).await?;
    holds(!result.is_error && result.output.contains("-two\\n+2"), || format!("output: {}", result.output))?;
    let written = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    equal("on disk", written.as_str(), "one\n2\n")
}

async fn directories(files: &Files<'_>) -> Outcome {
    let path = files.path("tree");
    files
        .says("create_directory", json!({"path": path}), &format!("Successfully created directory {path}"))
        .await?;
    std::fs::write(format!("{path}/leaf"), "").map_err(|error| error.to_string())?;
    files.says("list_directory", json!({"path": path}), "[FILE] leaf").await?;
    files.says("search_files", json!({"path": path, "pattern": "l*"}), &format!("{path}/leaf")).await?;
    let (from, to) = (format!("{path}/leaf"), files.path("fallen"));
    let args = json!({"source": from, "destination": to});
    files.says("move_file", args, &format!("Successfully moved {from} to {to}")).await?;
    files.says("list_directory", json!({"path": path}), "").await
}

// MCP-80, MCP-83: content that comes as structured content too
async fn media(files: &Files<'_>) -> Outcome {
    let bytes: Vec<u8> = (0..=255).collect();
    let data = STANDARD.encode(&bytes);
    let picture = files.path("all.png");
    std::fs::write(&picture, &bytes).map_err(|error| error.to_string())?;
    let result = call(files.toolkit, "files_read_media_file", json!({"path": picture})).await?;
    let content = json!({"type": "image", "data": data, "mimeType": "image/png"});
    let mut expected = structured("files", json!({"content": [content]}));
    put(&mut expected, json!([{"type": "image", "mimeType": "image/png", "data": data}]));
    equal("image", &json_of(&result), &expected)?;

    let other = files.path("all.bin");
    std::fs::write(&other, &bytes).map_err(|error| error.to_string())?;
    let result = call(files.toolkit, "files_read_media_file", json!({"path": other})).await?;
    let mime = "application/octet-stream";
    let uri = format!("file://{other}");
    let content = json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "blob": data}});
    let mut expected = structured("files", json!({"content": [content]}));
    put(&mut expected, json!([{"type": "file", "mimeType": mime, "data": data, "name": uri}]));
    equal("other", &json_of(&result), &expected)
}

fn put(result: &mut Value, parts: Value) {
    if let Some(result) = result.as_object_mut() {
        result.insert("parts".into(), parts);
    }
}

// MCP-79
async fn missing(files: &Files<'_>) -> Outcome {
    let path = files.path("missing.txt");
    let output = format!("ENOENT: no such file or directory, open '{path}'");
    files.refuses("read_text_file", json!({"path": path}), &output).await
}

async fn refusals(files: &Files<'_>) -> Outcome {
    let outside = files.outside.display().to_string();
    let output =
        format!("Access denied - path outside allowed directories: {outside} not in {}", files.inside);
    files.refuses("read_text_file", json!({"path": outside}), &output).await?;
    files.refuses("read_text_file", json!({"path": files.path("../secret.txt")}), &output).await?;
    files.refuses("write_file", json!({"path": outside, "content": "x"}), &output).await?;
    #[cfg(unix)]
    through_a_link(files, &outside).await?;
    let secret = std::fs::read_to_string(files.outside).map_err(|error| error.to_string())?;
    equal("the file outside", secret.as_str(), "secret")
}

#[cfg(unix)]
async fn through_a_link(files: &Files<'_>, outside: &str) -> Outcome {
    let link = files.path("link");
    std::os::unix::fs::symlink(files.outside, &link).map_err(|error| error.to_string())?;
    let output = format!(
        "Access denied - symlink target outside allowed directories: {outside} not in {}",
        files.inside
    );
    files.refuses("read_text_file", json!({"path": link}), &output).await
}
