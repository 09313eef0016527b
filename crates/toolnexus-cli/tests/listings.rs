//! `toolnexus tools` and `skills list`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use common::Place;
use serde_json::json;
use toolnexus_testkit::mcp::{FixtureTool, McpFixture};

/// Two servers that work or not, two skills of which one is none.
fn place() -> Place {
    Place::new()
        .servers([
            (
                "docs",
                McpFixture::new()
                    .tool(FixtureTool::text("find", "x").description("Finds a page\nand more"))
                    .server_json()
                    .unwrap(),
            ),
            ("broken", McpFixture::new().exits_at_start(3, ["no licence found"]).server_json().unwrap()),
            ("later", json!({"command": "absent", "enabled": false})),
        ])
        .file("skills/greet/SKILL.md", "---\nname: greet\ndescription: How to greet.\n---\nHello.\n")
        .file("skills/nameless/SKILL.md", "---\ndescription: forgot\n---\nHello.\n")
}

#[tokio::test]
async fn tools_are_listed_by_source_with_what_failed_and_why() {
    let ran = place().run(&["tools"]).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    for text in [
        "MCP server docs\n  docs_find  Finds a page\n",
        "skills\n  skill  Load a specialized skill",
        "built-in\n  bash",
        "failed MCP server broken\n  failed at initialize: peer-exited (status 3)",
        "stderr: no licence found",
        "skipped skills/nameless/SKILL.md  missing-name",
        "12 tools, 1 server failed, 1 skill file skipped\n",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
    // It is all in the listing; nothing is told twice.
    assert_eq!(ran.stderr, "");
}

#[tokio::test]
async fn tools_as_json_have_everything() {
    let ran = place().run(&["tools", "--json"]).await;
    assert_eq!(ran.code, 0, "{ran:#?}");
    let document = ran.document();
    let names: Vec<&str> =
        document["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["docs_find", "skill", "bash"]);
    assert_eq!(names.len(), 12);
    assert_eq!(
        (&document["tools"][0]["server"], &document["tools"][0]["source"]),
        (&json!("docs"), &json!("mcp"))
    );
    assert!(document["tools"][2]["inputSchema"].is_object());
    assert_eq!(
        document["statuses"],
        json!({"docs": "connected", "broken": "failed", "later": "disabled", "builtin": "connected"})
    );
    assert!(document["errors"]["broken"].as_str().unwrap().contains("no licence found"));
    assert_eq!(document["skipped"][0]["reason"], "missing-name");
}

#[tokio::test]
async fn tools_come_in_the_shape_of_a_provider() {
    let place = place();
    let args = |style| vec!["tools", "--no-builtins", "--no-skills", "--schema", style];
    let ran = place.run(&args("openai")).await;
    assert_eq!(ran.document()[0]["function"]["name"], "docs_find");
    ran.says(&["warning: MCP server broken"]);
    assert_eq!(place.run(&args("anthropic")).await.document()[0]["name"], "docs_find");
    assert_eq!(
        place.run(&args("gemini")).await.document()[0]["functionDeclarations"][0]["name"],
        "docs_find"
    );
    let ran = place.run(&args("cobol")).await;
    assert_eq!(ran.code, 2);
    ran.says(&["cobol", "openai"]);
}

#[tokio::test]
async fn a_skill_whose_name_is_taken_is_told_once() {
    let place = Place::new()
        .file("skills/a/SKILL.md", "---\nname: twin\n---\nx\n")
        .file("skills/b/SKILL.md", "---\nname: twin\n---\nx\n");
    for args in [&["skills", "list"][..], &["tools"], &["skills", "list", "--json"], &["tools", "--json"]] {
        let ran = place.run(args).await;
        assert_eq!(ran.stderr, "", "{args:?}");
        assert_eq!(ran.stdout.matches("duplicate-name").count(), 1, "{args:?}: {}", ran.stdout);
    }
    // This output has no place for it.
    let ran = place.run(&["tools", "--schema", "openai"]).await;
    assert_eq!(ran.stderr.matches("skill \"twin\"").count(), 1, "{ran:#?}");
}

#[tokio::test]
async fn skills_are_listed_with_what_was_skipped() {
    let place = place();
    let ran = place.run(&["skills", "list"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    assert!(
        ran.stdout.starts_with("greet  How to greet.\nskipped skills/nameless/SKILL.md  missing-name"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.ends_with("1 skill, 1 file skipped\n"), "{}", ran.stdout);
    let document = place.run(&["skills", "list", "--json"]).await.document();
    assert_eq!(document["skills"][0]["name"], "greet");
    assert_eq!(document["skipped"][0]["reason"], "missing-name");
}

#[tokio::test]
async fn nothing_to_list_is_no_failure() {
    let place = Place::new();
    let ran = place.run(&["tools"]).await;
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("built-in") && ran.stdout.ends_with("10 tools\n"), "{}", ran.stdout);
    let ran = place.run(&["skills", "list"]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    ran.says(&["skills", "--skills"]);
}

#[tokio::test]
async fn what_others_wrote_cannot_steer_the_terminal() {
    let place = Place::new().servers([(
        "evil",
        McpFixture::new()
            .tool(FixtureTool::text("x", "y").description("\u{1b}]0;owned\u{7}fine"))
            .server_json()
            .unwrap(),
    )]);
    let ran = place.run(&["tools"]).await;
    assert!(ran.stdout.contains("fine") && !ran.stdout.contains('\u{1b}'), "{ran:#?}");
}
