//! Which tools there are, and what they say about themselves.

// Helpers are tests too, and may fail by panicking.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::path::PathBuf;

use common::{Place, call};
use proptest::prelude::*;
use serde_json::{Value, json};
use toolnexus_core::{Tool, ToolSource};
use toolnexus_tools::{
    BUILTIN_NAMES, BuiltinLimits, BuiltinsConfig, BuiltinsError, builtins_enabled, create_builtin_tools,
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

// BUILTIN-5, BUILTIN-21: case 1, of the tools that are there
#[test]
fn nothing_configured_is_everything_on() {
    let tools = select_builtins(None).unwrap();
    assert_eq!(names(&tools), ["bash", "read", "glob"]);
    assert_eq!(names(&tools), BUILTIN_NAMES);
    assert!(tools.iter().all(|tool| tool.source == ToolSource::Builtin));
    assert_eq!(names(&create_builtin_tools(None)), BUILTIN_NAMES);
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
        assert_eq!(selected(config.clone()).len(), if on { 3 } else { 0 }, "{config}");
    }
    assert!(!builtins_enabled(Some(&BuiltinsConfig::off())));
    // Toggles are not for `create_builtin_tools`.
    assert_eq!(names(&create_builtin_tools(Some(&BuiltinsConfig::off()))), BUILTIN_NAMES);
}

// BUILTIN-6: cases 4, 5, 6
#[test]
fn the_map_only_drops() {
    assert_eq!(selected(json!({"tools": {"bash": true}})), BUILTIN_NAMES);
    assert_eq!(selected(json!({"tools": {"bash": false, "read": true, "nope": false}})), ["read", "glob"]);
    assert_eq!(selected(json!({"tools": {"read": false, "glob": false}})), ["bash"]);
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
        "confineToBaseDir": true, "killGraceMs": 5, "respectGitignore": true,
        "limits": {"bashBytes": 1, "bashSpillBytes": 2, "readBytes": 3, "searchMs": 4}
    });
    let expected = BuiltinsConfig {
        enabled: Some(true),
        disabled: Some(false),
        tools: [("bash".to_owned(), false)].into(),
        kill_grace_ms: Some(5),
        shell: vec!["bash".into(), "-lc".into()],
        base_dir: Some(PathBuf::from("project")),
        confine_to_base_dir: true,
        respect_gitignore: true,
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
    ] {
        let error = refused(section);
        assert!(error.starts_with(start), "{error}");
    }
    let long = refused(json!({"enabled": "x".repeat(500)}));
    assert!(long.len() < 120 && long.ends_with('…'), "{long}");
}

// BUILTIN-17
#[test]
fn hints_say_what_a_tool_may_do() {
    let hints: Vec<_> = create_builtin_tools(None)
        .iter()
        .map(|tool| tool.hints.map(|hints| (hints.read_only, hints.destructive, hints.open_world)).unwrap())
        .collect();
    assert_eq!(hints, [(false, true, true), (true, false, false), (true, false, false)]);
}

// BUILTIN-21, BUILTIN-22
#[test]
fn schemas_have_the_names_types_and_required_sets_of_the_contract() {
    let expected = [
        json!({"command": "string", "workdir": "string", "timeout": "number", "description": "string"}),
        json!({"path": "string", "offset": "number", "limit": "number"}),
        json!({"pattern": "string", "path": "string", "limit": "number"}),
    ];
    let required = [json!(["command"]), json!(["path"]), json!(["pattern"])];
    let tools = create_builtin_tools(None);
    for ((tool, types), required) in tools.iter().zip(expected).zip(required) {
        let schema = tool.input_schema.as_object().unwrap();
        assert_eq!(schema.keys().collect::<Vec<_>>(), ["type", "properties", "required"]);
        assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &required));
        let properties = schema["properties"].as_object().unwrap();
        let found: serde_json::Map<String, Value> =
            properties.iter().map(|(name, property)| (name.clone(), property["type"].clone())).collect();
        assert_eq!(Value::Object(found), types, "{}", tool.name);
        for (name, property) in properties {
            assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        }
        assert!(!tool.description.is_empty());
    }
    let timeout = tools[0].input_schema["properties"]["timeout"]["description"].as_str().unwrap();
    assert!(timeout.contains("milliseconds"));
}

// BUILTIN-23
#[test]
fn a_tools_face_does_not_depend_on_the_host() {
    let elsewhere = BuiltinsConfig {
        shell: vec!["pwsh".into(), "-Command".into()],
        base_dir: Some("elsewhere".into()),
        confine_to_base_dir: true,
        ..Default::default()
    };
    let face = |tools: Vec<Tool>| serde_json::to_string(&tools).unwrap();
    assert_eq!(face(create_builtin_tools(Some(&elsewhere))), face(create_builtin_tools(None)));
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
        tools in proptest::collection::btree_map("bash|read|glob|grep|nope", any::<bool>(), 0..5),
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
