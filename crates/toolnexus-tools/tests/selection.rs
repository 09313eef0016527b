//! Which tools there are, and what they say about themselves.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::{Place, call};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolnexus_core::adapters::{to_anthropic, to_gemini, to_openai};
use toolnexus_core::{SourceStatus, Tool, ToolSource};
use toolnexus_tools::{
    BUILTIN_NAMES, BackgroundShells, BuiltinLimits, BuiltinsConfig, BuiltinsError, HostPolicy,
    builtin_status, builtin_toolkit, builtins_enabled, create_builtin_tools, is_builtin_name,
    select_builtins,
};

fn names(tools: &[Tool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn selected(config: Value) -> Vec<String> {
    let config = BuiltinsConfig::from_value(&config).unwrap();
    names(&select_builtins(config.as_ref()).unwrap()).into_iter().map(str::to_owned).collect()
}

/// A configuration to compare: it holds functions, so it has no equality of its own.
fn shown(config: Option<BuiltinsConfig>) -> String {
    format!("{:#?}", config.unwrap())
}

fn refused(config: Value) -> String {
    BuiltinsConfig::from_value(&config).unwrap_err().to_string()
}

/// The ten in the order of the contract, said here once more so that the constant cannot drift.
const TEN: [&str; 10] =
    ["bash", "read", "write", "edit", "grep", "glob", "webfetch", "question", "apply_patch", "todowrite"];

const OPT_INS: [&str; 4] = ["bash_output", "kill_shell", "websearch", "notebook_edit"];

/// A configuration with everything that must be asked for.
fn everything() -> BuiltinsConfig {
    BuiltinsConfig {
        background: Some(BackgroundShells::new()),
        web_search: Some(Arc::new(|_query, _limit, _cancel| Box::pin(async { Ok(Vec::new()) }))),
        notebook_edit: true,
        ..Default::default()
    }
}

// BUILTIN-1, BUILTIN-5: case 1
#[test]
fn nothing_configured_is_everything_on() {
    let tools = select_builtins(None).unwrap();
    assert_eq!(names(&tools), TEN);
    assert_eq!(BUILTIN_NAMES, TEN);
    assert!(tools.iter().all(|tool| tool.source == ToolSource::Builtin));
    assert_eq!(names(&create_builtin_tools(None)), TEN);
    // In a toolkit too: its tools keep the order, and the list of their names is sorted by the source's key.
    assert_eq!(names(&builtin_toolkit(None).unwrap().tools()), TEN);
}

// BUILTIN-2
#[test]
fn what_must_be_asked_for_comes_behind_the_ten() {
    let all: Vec<&str> = TEN.into_iter().chain(OPT_INS).collect();
    let tools = select_builtins(Some(&everything())).unwrap();
    assert_eq!(names(&tools), all);
    assert!(tools.iter().all(|tool| tool.source == ToolSource::Builtin));
    assert_eq!(names(&create_builtin_tools(Some(&everything()))), all);
    // Each is there for itself.
    let base = BuiltinsConfig::default;
    for (config, expected) in [
        (BuiltinsConfig { background: everything().background, ..base() }, &OPT_INS[..2]),
        (BuiltinsConfig { web_search: everything().web_search, ..base() }, &OPT_INS[2..3]),
        (BuiltinsConfig { notebook_edit: true, ..base() }, &OPT_INS[3..]),
        (base(), &[]),
    ] {
        assert_eq!(names(&select_builtins(Some(&config)).unwrap())[10..], *expected);
    }
    for name in ["skill", "memory"] {
        assert!(!all.contains(&name) && !is_builtin_name(name));
    }
    assert!(all.into_iter().all(is_builtin_name));
}

// BUILTIN-6, BUILTIN-7
#[test]
fn what_was_asked_for_can_be_dropped_and_goes_with_what_it_needs() {
    let without = |dropped: &str| {
        let config = BuiltinsConfig { tools: [(dropped.to_owned(), false)].into(), ..everything() };
        let tools = select_builtins(Some(&config)).unwrap();
        names(&tools).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for name in OPT_INS {
        let left = without(name);
        assert!(left.len() == 13 && !left.contains(&name.to_owned()), "{name}: {left:?}");
    }
    let left = without("bash");
    assert_eq!(left.len(), 11);
    assert_eq!(left[..2], ["read", "write"]);
    assert_eq!(left[9..], ["websearch", "notebook_edit"]);
    // Not the other way around.
    assert!(without("bash_output").contains(&"kill_shell".to_owned()));
}

// BUILTIN-5: off is off for what was asked for, too
#[test]
fn off_is_off_for_all() {
    for config in [
        BuiltinsConfig { disabled: Some(true), ..everything() },
        BuiltinsConfig { enabled: Some(false), ..everything() },
    ] {
        assert!(select_builtins(Some(&config)).unwrap().is_empty());
    }
    // Not consulted: a shell that is not there is no error of tools that are off.
    let config = BuiltinsConfig {
        tools: [("nope".to_owned(), true)].into(),
        shell: vec!["no-such-shell-here".into()],
        ..BuiltinsConfig::off()
    };
    assert!(select_builtins(Some(&config)).unwrap().is_empty());
}

// BUILTIN-101, BUILTIN-10
#[test]
fn the_decision_can_be_had_as_a_toolkit() {
    for (config, status) in [
        (json!(null), SourceStatus::Connected),
        (json!(true), SourceStatus::Connected),
        (json!({"tools": {"bash": false, "todowrite": false}}), SourceStatus::Connected),
        (json!(false), SourceStatus::Disabled),
        (json!({"disabled": true, "tools": {"bash": true}}), SourceStatus::Disabled),
    ] {
        let config = BuiltinsConfig::from_value(&config).unwrap();
        let toolkit = builtin_toolkit(config.as_ref()).unwrap();
        let selected = select_builtins(config.as_ref()).unwrap();
        let shown = |tools: &[Tool]| serde_json::to_string(tools).unwrap();
        assert_eq!(shown(&toolkit.tools()), shown(&selected));
        assert_eq!(toolkit.statuses()["builtin"], status);
        assert_eq!(builtin_status(config.as_ref()), status);
    }
}

// BUILTIN-3: what a configuration names need not exist when the tools are built, and is not touched
#[test]
fn building_looks_at_nothing() {
    let place = Place::new();
    let missing = place.path().join("not/there");
    let config =
        BuiltinsConfig { base_dir: Some(missing.clone()), confine_to_base_dir: true, ..everything() };
    assert_eq!(select_builtins(Some(&config)).unwrap().len(), 14);
    assert!(!missing.exists() && std::fs::read_dir(place.path()).unwrap().next().is_none());
}

// BUILTIN-5: cases 2, 3
#[test]
fn disabled_is_stronger_than_enabled_and_both_than_the_map() {
    for (config, on) in [
        (json!({"enabled": true, "disabled": true}), false),
        (json!({"disabled": true, "tools": {"bash": true}}), false),
        (json!({"enabled": false, "tools": {"bash": true}}), false),
        (json!({"enabled": false, "disabled": false}), false),
        (json!(false), false),
        (json!({"enabled": true}), true),
        (json!({"disabled": false}), true),
        (json!({}), true),
        (json!(true), true),
    ] {
        let parsed = BuiltinsConfig::from_value(&config).unwrap();
        assert_eq!(builtins_enabled(parsed.as_ref()), on, "{config}");
        assert_eq!(selected(config.clone()).len(), if on { 10 } else { 0 }, "{config}");
    }
    assert!(!builtins_enabled(Some(&BuiltinsConfig::off())));
    // Toggles are not for `create_builtin_tools`.
    assert_eq!(names(&create_builtin_tools(Some(&BuiltinsConfig::off()))), BUILTIN_NAMES);
}

// BUILTIN-6: cases 4, 5, 6
#[test]
fn the_map_only_drops() {
    assert_eq!(selected(json!({"tools": {"bash": true}})), TEN);
    let left = selected(json!({"tools": {"bash": false, "apply_patch": false, "read": true, "nope": false}}));
    let expected = ["read", "write", "edit", "grep", "glob", "webfetch", "question", "todowrite"];
    assert_eq!(left, expected);
    let left =
        selected(json!({"tools": {"bash": false, "write": false, "edit": false, "apply_patch": false}}));
    assert_eq!(left, ["read", "grep", "glob", "webfetch", "question", "todowrite"]);
}

// BUILTIN-8
#[test]
fn a_section_is_a_boolean_or_an_object() {
    let read = |section: Value| BuiltinsConfig::from_value(&section).unwrap();
    assert!(read(Value::Null).is_none());
    assert_eq!(shown(read(json!(true))), shown(Some(BuiltinsConfig::default())));
    assert_eq!(shown(read(json!(false))), shown(Some(BuiltinsConfig::off())));
    let section = json!({
        "enabled": true, "disabled": false, "tools": {"bash": false}, "shell": ["bash", "-lc"], "baseDir": "project",
        "confineToBaseDir": true, "killGraceMs": 5, "notebookEdit": true, "respectGitignore": true,
        "web": {"allow": ["*.example.com"], "deny": ["loopback"]},
        "limits": {
            "bashBytes": 1, "bashSpillBytes": 2, "readBytes": 3, "searchMs": 4, "lineBytes": 5, "webBytes": 6
        }
    });
    let expected = BuiltinsConfig {
        enabled: Some(true),
        disabled: Some(false),
        tools: [("bash".to_owned(), false)].into(),
        kill_grace_ms: Some(5),
        shell: vec!["bash".into(), "-lc".into()],
        base_dir: Some(PathBuf::from("project")),
        confine_to_base_dir: true,
        notebook_edit: true,
        respect_gitignore: true,
        web: HostPolicy { allow: vec!["*.example.com".into()], deny: vec!["loopback".into()] },
        limits: BuiltinLimits {
            bash_bytes: 1,
            bash_spill_bytes: 2,
            read_bytes: 3,
            line_bytes: 5,
            web_bytes: 6,
            search_ms: 4,
        },
        ..Default::default()
    };
    assert_eq!(shown(read(section.clone())), shown(Some(expected.clone())));
    let parsed = |section| shown(Some(serde_json::from_value::<BuiltinsConfig>(section).unwrap()));
    assert_eq!(parsed(section), shown(Some(expected)));
    assert_eq!(parsed(Value::Null), shown(Some(BuiltinsConfig::default())));
}

// BUILTIN-9: case 7
#[test]
fn a_value_of_a_wrong_type_is_an_error_that_names_the_key() {
    assert_eq!(
        refused(json!({"tools": {"bash": "false"}})),
        "builtins.tools.bash must be a boolean, not \"false\""
    );
    for (section, start) in [
        (json!("off"), "builtins must be a boolean or an object, not"),
        (json!(0), "builtins must be a boolean or an object, not 0"),
        (json!([]), "builtins must be a boolean or an object, not"),
        (json!({"enabled": 0}), "builtins.enabled must be a boolean, not 0"),
        (json!({"disabled": "true"}), "builtins.disabled must be a boolean, not"),
        (json!({"disabled": null}), "builtins.disabled must be a boolean, not null"),
        (json!({"tools": ["bash"]}), "builtins.tools must be an object, not"),
        (json!({"tools": {"nope": 1}}), "builtins.tools.nope must be a boolean, not 1"),
        (json!({"shell": "sh -c"}), "builtins.shell must be an array of strings, not"),
        (json!({"shell": [1]}), "builtins.shell must be an array of strings, not"),
        (json!({"baseDir": 1}), "builtins.baseDir must be a string, not 1"),
        (json!({"confineToBaseDir": "yes"}), "builtins.confineToBaseDir must be a boolean, not"),
        (json!({"killGraceMs": -1}), "builtins.killGraceMs must be a whole number of at least 0, not -1"),
        (
            json!({"limits": {"readBytes": 1.5}}),
            "builtins.limits.readBytes must be a whole number of at least 0, not 1.5",
        ),
        (json!({"limits": true}), "builtins.limits must be an object, not true"),
        (json!({"notebookEdit": 1}), "builtins.notebookEdit must be a boolean, not 1"),
        (json!({"respectGitignore": "no"}), "builtins.respectGitignore must be a boolean, not"),
        (json!({"web": true}), "builtins.web must be an object, not true"),
        (json!({"web": {"deny": "loopback"}}), "builtins.web.deny must be an array of strings, not"),
        (json!({"web": {"deny": ["10.0.0.0/99"]}}), "builtins.web: "),
        (
            json!({"tools": {"notebook_edit": null}}),
            "builtins.tools.notebook_edit must be a boolean, not null",
        ),
    ] {
        let error = refused(section);
        assert!(error.starts_with(start), "{error}");
    }
    let long = refused(json!({"enabled": "x".repeat(500)}));
    assert!(long.len() < 120 && long.ends_with('…'), "{long}");
}

// BUILTIN-9: nor from code
#[test]
fn a_policy_that_cannot_be_read_arms_nothing() {
    let web = HostPolicy { deny: vec!["10.0.0.0/99".into()], ..Default::default() };
    let config = BuiltinsConfig { web, ..Default::default() };
    let error = select_builtins(Some(&config)).unwrap_err().to_string();
    assert!(error.starts_with("builtins.web: ") && error.contains("10.0.0.0/99"), "{error}");
    assert!(builtin_toolkit(Some(&config)).is_err());
}

// BUILTIN-17
#[test]
fn hints_say_what_a_tool_may_do() {
    let reads = (true, false, false);
    let changes = (false, true, false);
    let expected = [
        ("bash", (false, true, true)),
        ("read", reads),
        ("write", changes),
        ("edit", changes),
        ("grep", reads),
        ("glob", reads),
        ("webfetch", (true, false, true)),
        ("question", reads),
        ("apply_patch", changes),
        ("todowrite", reads),
        ("bash_output", reads),
        ("kill_shell", changes),
        ("websearch", (true, false, true)),
        ("notebook_edit", changes),
    ];
    let tools = create_builtin_tools(Some(&everything()));
    let found: Vec<_> = tools
        .iter()
        .map(|tool| {
            let hints = tool.hints.unwrap();
            (tool.name.as_str(), (hints.read_only, hints.destructive, hints.open_world))
        })
        .collect();
    assert_eq!(found, expected);
    // Never sent to a model.
    for adapted in [to_openai(&tools), to_anthropic(&tools), to_gemini(&tools)] {
        let text = serde_json::to_string(&adapted).unwrap();
        assert!(!text.contains("read_only") && !text.contains("readOnly") && !text.contains("estructive"));
    }
}

// BUILTIN-21, BUILTIN-22, BUILTIN-87, BUILTIN-97, BUILTIN-98
#[test]
fn schemas_have_the_names_types_and_required_sets_of_the_contract() {
    let expected = [
        (
            json!({
                "command": "string", "workdir": "string", "timeout": "number", "description": "string",
                "run_in_background": "boolean"
            }),
            json!(["command"]),
        ),
        (json!({"path": "string", "offset": "number", "limit": "number"}), json!(["path"])),
        (json!({"path": "string", "content": "string"}), json!(["path", "content"])),
        (
            json!({"path": "string", "oldString": "string", "newString": "string", "replaceAll": "boolean"}),
            json!(["path", "oldString", "newString"]),
        ),
        (
            json!({
                "pattern": "string", "path": "string", "include": "string", "limit": "number", "context": "number",
                "before": "number", "after": "number"
            }),
            json!(["pattern"]),
        ),
        (json!({"pattern": "string", "path": "string", "limit": "number"}), json!(["pattern"])),
        (json!({"url": "string", "format": "string", "timeout": "number"}), json!(["url"])),
        (json!({"questions": "array"}), json!(["questions"])),
        (json!({"patchText": "string"}), json!(["patchText"])),
        (json!({"todos": "array"}), json!(["todos"])),
        (json!({"id": "string"}), json!(["id"])),
        (json!({"id": "string"}), json!(["id"])),
        (json!({"query": "string", "limit": "number"}), json!(["query"])),
        (
            json!({
                "path": "string", "mode": "string", "cellId": "string", "cellIndex": "number", "source": "string",
                "cellType": "string"
            }),
            json!(["path"]),
        ),
    ];
    let tools = create_builtin_tools(Some(&everything()));
    assert_eq!(tools.len(), expected.len());
    for (tool, (types, required)) in tools.iter().zip(expected) {
        let schema = tool.input_schema.as_object().unwrap();
        assert_eq!(schema.keys().collect::<Vec<_>>(), ["type", "properties", "required"], "{}", tool.name);
        assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &required), "{}", tool.name);
        let properties = schema["properties"].as_object().unwrap();
        let found: serde_json::Map<String, Value> =
            properties.iter().map(|(name, property)| (name.clone(), property["type"].clone())).collect();
        // As text: the order in which a model reads them counts.
        assert_eq!(Value::Object(found).to_string(), types.to_string(), "{}", tool.name);
        for (name, property) in properties {
            assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        }
        assert!(!tool.description.is_empty());
    }
    let property = |tool: usize, name: &str| &tools[tool].input_schema["properties"][name];
    assert!(property(0, "timeout")["description"].as_str().unwrap().contains("milliseconds"));
    assert!(property(6, "timeout")["description"].as_str().unwrap().contains("seconds"));
    assert!(!property(6, "timeout")["description"].as_str().unwrap().contains("milliseconds"));
    assert_eq!(property(6, "format")["enum"], json!(["text", "markdown", "html"]));
    assert_eq!(property(13, "mode")["enum"], json!(["replace", "insert", "delete"]));
    assert_eq!(property(13, "cellType")["enum"], json!(["code", "markdown", "raw"]));
    for (tool, list, types, required) in [
        (
            7,
            "questions",
            json!({"question": "string", "header": "string", "options": "array", "multiple": "boolean"}),
            json!(["question"]),
        ),
        (
            9,
            "todos",
            json!({"id": "string", "text": "string", "completed": "boolean"}),
            json!(["id", "text", "completed"]),
        ),
    ] {
        let items = &property(tool, list)["items"];
        assert_eq!((&items["type"], &items["required"]), (&json!("object"), &required));
        let found: serde_json::Map<String, Value> = items["properties"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, property)| (name.clone(), property["type"].clone()))
            .collect();
        assert_eq!(Value::Object(found), types);
    }
    assert_eq!(property(7, "questions")["items"]["properties"]["options"]["items"]["type"], "string");
}

// BUILTIN-87: without a registry, `bash` does not offer what it cannot do
#[test]
fn background_is_offered_with_a_registry_only() {
    let plain = create_builtin_tools(None);
    assert!(plain[0].input_schema["properties"].get("run_in_background").is_none());
    let all = create_builtin_tools(Some(&everything()));
    let shown = |tools: &[Tool]| serde_json::to_string(tools).unwrap();
    assert_eq!(shown(&plain[1..]), shown(&all[1..10]), "the others are unchanged");
}

// BUILTIN-21: every word that a model reads of these tools, to see what a change does to it
#[test]
fn the_tools_read_like_this() {
    let tools = create_builtin_tools(Some(&everything()));
    let shown: Vec<Value> = tools
        .iter()
        .map(|tool| json!({"name": tool.name, "description": tool.description, "schema": tool.input_schema}))
        .collect();
    insta::assert_json_snapshot!("tools", shown);
}

// BUILTIN-23
#[test]
fn a_tools_face_does_not_depend_on_the_host() {
    let elsewhere = BuiltinsConfig {
        shell: vec!["pwsh".into(), "-Command".into()],
        base_dir: Some("elsewhere".into()),
        confine_to_base_dir: true,
        ..everything()
    };
    let face = |tools: Vec<Tool>| serde_json::to_string(&tools).unwrap();
    assert_eq!(face(create_builtin_tools(Some(&elsewhere))), face(create_builtin_tools(Some(&everything()))));
}

// BUILTIN-26
#[tokio::test]
async fn a_configured_shell_is_used_as_it_is() {
    let place = Place::new();
    let config = BuiltinsConfig { shell: vec!["no-such-shell-here".into(), "-c".into()], ..place.config() };
    assert_eq!(names(&select_builtins(Some(&config)).unwrap()), BUILTIN_NAMES);
    let result = call(&config, "bash", json!({"command": "true"})).await;
    assert!(result.is_error && result.output.starts_with("bash: "), "{}", result.output);
    assert_eq!(result.metadata.unwrap()["shell"], "no-such-shell-here -c");
}

// BUILTIN-26
#[test]
fn the_error_without_a_shell_has_the_remedy() {
    let error = BuiltinsError::NoShell { tried: "sh -c".into() };
    assert_eq!(
        error.to_string(),
        "no shell interpreter found (tried: sh -c); set builtins.shell, or disable the bash builtin with \
         builtins.tools {\"bash\": false}"
    );
}

// BUILTIN-99
#[test]
fn limits_have_documented_defaults() {
    let limits = BuiltinLimits::default();
    assert_eq!(
        (limits.bash_bytes, limits.bash_spill_bytes, limits.read_bytes, limits.search_ms),
        (1 << 20, 64 << 20, 16 << 20, 60_000)
    );
}

proptest! {
    // BUILTIN-5, BUILTIN-6: against the rules said plainly
    #[test]
    fn toggles_are_those_of_the_rule(
        enabled in any::<Option<bool>>(),
        disabled in any::<Option<bool>>(),
        tools in proptest::collection::btree_map("bash|read|glob|grep|todowrite|nope", any::<bool>(), 0..5),
    ) {
        let config = BuiltinsConfig { enabled, disabled, tools: tools.clone(), ..Default::default() };
        let on = disabled != Some(true) && enabled != Some(false);
        let expected: Vec<&str> =
            BUILTIN_NAMES.into_iter().filter(|name| on && tools.get(*name) != Some(&false)).collect();
        prop_assert_eq!(builtins_enabled(Some(&config)), on);
        let tools = select_builtins(Some(&config)).unwrap();
        prop_assert_eq!(names(&tools), expected);
    }
}
