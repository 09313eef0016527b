//! Places to route to: their ids in definitions, directories and text.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod client_support;
mod support;

use proptest::prelude::*;

use client_support::{STYLES, fixed, options, reply, result_texts, sent, server, tool, within};
use serde_json::{Value, json};
use support::{S, T, config, fixture};
use toolnexus_context::{Registry, RegistryConfig, ToolPolicy};
use toolnexus_core::{ToolResult, Toolkit};
use toolnexus_llm::{BeforeToolEvent, ClientOptions, Hooks, Message, ToolOverride, create_client};

/// Another server.
const S2: &str = "5f0d1a55-9f0a-4c0c-8a53-0f6a0c0f7a11";

fn directory(ids: &[&str], description: &str) -> Value {
    json!({"name": "discover_mcp_tools", "description": description,
        "input_schema": {"type": "object", "properties": {"server_id": {"type": "string", "enum": ids}}}})
}

fn bridge(ids: &[&str]) -> Value {
    json!({"name": "call_mcp_tool", "description": "calls",
        "input_schema": {"type": "object", "properties": {"tool_ref": {"type": "string", "enum": ids}}}})
}

/// The fixture with `ms1` and `mt1`.
fn routed() -> Registry {
    let registry = fixture();
    registry.encode_tools(&[directory(&[S], ""), bridge(&[T])]);
    registry
}

fn result_view(registry: &Registry, tool: &str, output: &str) -> String {
    registry.model_tool_result_for_tool(tool, &ToolResult::success(output))
}

fn text_view(registry: &Registry, role: &str, text: &str) -> String {
    let message: Message = json!({"role": role, "content": text}).into();
    registry.encode_messages(&[message])[0]["content"].as_str().unwrap().to_owned()
}

// CTX-41, CTX-91. Case 54
#[test]
fn a_definition_lists_handles_and_the_toolkit_keeps_its_own() {
    let registry = fixture();
    let line = format!(r#"{{"server_id":"{S}","name":"amap"}}"#);
    let durable = [directory(&[S], &format!("Servers:\n{line}\n"))];
    let before = durable.clone();
    let encoded = registry.encode_tools(&durable);
    assert_eq!(encoded[0]["input_schema"]["properties"]["server_id"]["enum"], json!(["ms1"]));
    assert_eq!(encoded[0]["description"], "Servers:\n{\"server_id\":\"ms1\",\"name\":\"amap\"}\n");
    assert_eq!(durable, before);
    assert_eq!(registry.encode_tools(&durable), encoded, "again");
    assert_eq!(registry.encode_tools(&encoded), encoded, "encoded again");
}

// CTX-91: every dialect's definitions
#[test]
fn definitions_of_every_dialect_are_encoded() {
    let schema =
        |id: &str| json!({"type": "object", "properties": {"server_id": {"enum": [id]}, "q": {"enum": [S]}}});
    let of = |id: &str| {
        [
            json!({"type": "function", "function": {"name": "discover_mcp_tools", "description": "d", "parameters": schema(id)}}),
            json!({"name": "discover_mcp_tools", "description": "d", "input_schema": schema(id), "cache_control": {"type": "ephemeral"}}),
            json!({"functionDeclarations": [
                {"name": "discover_mcp_tools", "description": "d", "parameters": schema(id)},
                {"name": "x", "parameters": schema(S)},
            ]}),
            json!({"name": "discover_mcp_tools", "description": "d", "inputSchema": schema(id)}),
        ]
    };
    assert_eq!(fixture().encode_tools(&of(S)), of("ms1"));
}

// CTX-91: all schemas first, then descriptions: the order of the tools does not matter
#[test]
fn a_description_may_name_what_a_later_tool_lists() {
    let registry = fixture();
    registry.mark_mcp_tools(["server_tool"]);
    let tools = [
        json!({"name": "server_tool", "description": format!(r#"of server_id="{S}", not server_id="{S2}" or {S}"#)}),
        json!({"name": "call_mcp_tool", "description": format!(r#"call server_id="{S}""#)}),
        directory(&[S], ""),
    ];
    let encoded = registry.encode_tools(&tools);
    assert_eq!(encoded[0]["description"], format!(r#"of server_id="ms1", not server_id="{S2}" or {S}"#));
    assert_eq!(encoded[1]["description"], r#"call server_id="ms1""#);
}

// CTX-91: descriptions of other tools stay
#[test]
fn descriptions_of_other_tools_stay() {
    let registry = routed();
    let tools = [
        json!({"name": "somebody_elses", "description": format!("server_id=\"{S}\"\n{{\"server_id\":\"{S}\"}}"),
        "input_schema": {"properties": {"server_id": {"enum": [S]}}}}),
    ];
    assert_eq!(registry.encode_tools(&tools), tools);
}

// CTX-91: numbers follow the lists; lines of the directory register too
#[test]
fn lines_of_the_directory_register_places() {
    let registry = fixture();
    let line = |id: &str| {
        format!(
            "{{ \"name\":\"a\", \"server_id\" : \"{id}\", \"nested\":{{\"server_id\":\"{S}\"}}, \"n\":1.00 }}"
        )
    };
    let description = format!("Servers\n{}\r\n  {}\n- {}\n", line(S2), line(S), line(S));
    let encoded = registry.encode_tools(&[directory(&[S], &description)]);
    let expected = format!("Servers\n{}\r\n  {}\n- {}\n", line("ms2"), line("ms1"), line(S));
    assert_eq!(encoded[0]["description"], expected);
}

// CTX-91: what is malformed is left
#[test]
fn malformed_definitions_are_left() {
    let registry = fixture();
    let tools = [
        json!(null),
        json!("discover_mcp_tools"),
        json!([]),
        json!({"name": 5, "input_schema": {"properties": {"server_id": {"enum": [S]}}}}),
        json!({"name": "discover_mcp_tools"}),
        json!({"name": "discover_mcp_tools", "description": 7, "input_schema": {"properties": []}}),
        json!({"name": "discover_mcp_tools", "input_schema": {"properties": {"server_id": {"enum": S}}}}),
        json!({"name": "discover_mcp_tools", "input_schema": {"properties": {"server_id": {"enum": [1, null, "", "ms9", "doc://1"]}}}}),
        json!({"name": "discover_mcp_tools", "description": format!("{{\"server_id\":\"{S}\"\n{{\"server_id\":[\"{S}\"]}}\n[{{\"server_id\":\"{S}\"}}]\n{{\"server_id\":7}}")}),
        json!({"function": [], "functionDeclarations": {}}),
        json!({"functionDeclarations": [1, {"function": {}}]}),
    ];
    assert_eq!(registry.encode_tools(&tools), tools);
}

// CTX-89: names and keys are the configuration's
#[test]
fn bridges_have_names_of_their_own() {
    let config = RegistryConfig::default().policy(
        "places",
        ToolPolicy::default().routing_key("place", "mcp_server").directory().opaque_output(),
    );
    let registry = Registry::with_config(config).unwrap();
    let tool = json!({"name": "places", "description": format!("{{\"place\":\"{S}\"}}\nplace=\"{S}\""),
        "parameters": {"properties": {"PLACE": {"enum": [S]}}}});
    let encoded = &registry.encode_tools(&[tool])[0];
    assert_eq!(encoded["parameters"]["properties"]["PLACE"]["enum"], json!(["ms1"]));
    assert_eq!(encoded["description"], "{\"place\":\"ms1\"}\nplace=\"ms1\"");
    assert_eq!(
        text_view(&registry, "user", &format!("place=\"{S}\" server_id=\"{S}\"")),
        "place=\"ms1\" server_id=\"ms1\""
    );
    assert_eq!(result_view(&registry, "places", &format!(r#"{{"place":"{S}"}}"#)), r#"{"place":"ms1"}"#);
}

// CTX-92, CTX-90. Case 55
#[test]
fn a_directory_s_rows_show_handles() {
    let registry = fixture();
    let output = |s: &str, t: &str| {
        format!(
            r#"{{"server_id":"{s}","tool_ref":"{t}","input_schema":{{"properties":{{"server_id":{{"const":"{S}"}}}}}}}}"#
        )
    };
    let encoded = result_view(&registry, "discover_mcp_tools", &output(S, T));
    assert_eq!(encoded, output("ms1", "mt1"));
    assert_eq!(result_view(&registry, "discover_mcp_tools", &encoded), encoded);
}

// CTX-92: rows of `servers` and `tools`; all other bytes stay
#[test]
fn rows_are_those_of_servers_and_tools() {
    let registry = fixture();
    let output = |s: &str, t: &str| {
        format!(
            "{{ \"servers\" : [ {{\"server_id\":\"{s}\", \"n\":1.00}}, \"{S}\" ],\n\"tools\":[{{\"tool_ref\":\"{t}\",\"server_id\":\"{s}\",\
             \"input_schema\":{{\"tool_ref\":\"{T}\",\"servers\":[{{\"server_id\":\"{S}\"}}]}}}}],\
             \"other\":[{{\"server_id\":\"{S}\"}}],\"servers\":{{\"server_id\":\"{S}\"}},\"x\":\"{S}\"}}"
        )
    };
    assert_eq!(result_view(&registry, "discover_mcp_tools", &output(S, T)), output("ms1", "mt1"));
}

// CTX-92: a value of the shape of a handle is left, known or not
#[test]
fn handles_in_a_directory_are_left() {
    let registry = routed();
    let output = r#"{"server_id":"ms1","tool_ref":"mt9","servers":[{"server_id":"ms77"},{"server_id":5},{"server_id":""}]}"#;
    assert_eq!(result_view(&registry, "discover_mcp_tools", output), output);
    let next = format!(r#"{{"server_id":"{S2}"}}"#);
    assert_eq!(
        result_view(&registry, "discover_mcp_tools", &next),
        r#"{"server_id":"ms2"}"#,
        "nothing was registered"
    );
}

// CTX-92: in what is no object known ids are replaced, and none is registered
#[test]
fn known_places_are_replaced_in_other_output() {
    let registry = routed();
    for (output, expected) in [
        (format!("server {S} has {T}, not {S2}"), format!("server ms1 has mt1, not {S2}")),
        (
            format!(r#"[{{"server_id":"{S}"}},{{"server_id":"{S2}"}}]"#),
            format!(r#"[{{"server_id":"ms1"}},{{"server_id":"{S2}"}}]"#),
        ),
        (format!(r#"{{"server_id":"{S}""#), r#"{"server_id":"ms1""#.to_owned()),
    ] {
        assert_eq!(result_view(&registry, "discover_mcp_tools", &output), expected);
    }
}

// CTX-88, CTX-90: results of calls are never looked through for places
#[test]
fn results_of_calls_are_opaque() {
    let registry = routed();
    let output = format!(r#"{{"server_id":"{S}","tool_ref":"{T}"}}"#);
    for tool in ["call_mcp_tool", "somebody_elses"] {
        assert_eq!(result_view(&registry, tool, &output), output);
    }
}

// CTX-93. Case 58
#[test]
fn text_names_a_known_server_by_its_handle() {
    let registry = routed();
    for role in ["user", "system"] {
        assert_eq!(text_view(&registry, role, &format!(r#"Use server_id="{S}""#)), r#"Use server_id="ms1""#);
        assert_eq!(text_view(&registry, role, S), S);
    }
    assert_eq!(
        text_view(&registry, "assistant", &format!(r#"server_id="{S}""#)),
        format!(r#"server_id="{S}""#)
    );
}

// CTX-93: that form alone, of known servers alone
#[test]
fn other_forms_stay() {
    let registry = routed();
    for text in [
        format!(r#"server_id="{S2}""#),
        format!("server_id='{S}'"),
        format!(r#"server_id = "{S}""#),
        format!(r#"server_id="{S}"#),
        format!(r#"my_server_id="{S}""#),
        format!(r#"SERVER_ID="{S}""#),
        format!(r#"server_id=" {S}""#),
        format!(r#"tool_ref="{T}""#),
        r#"server_id="ms1""#.to_owned(),
        r#"server_id="server_id=""#.to_owned(),
        r#"=""#.to_owned(),
    ] {
        assert_eq!(text_view(&registry, "user", &text), text);
    }
    assert_eq!(
        text_view(
            &registry,
            "user",
            &format!(r#"见server_id="{S}"server_id="{S}"，server_id="{S2}" server_id="{S}""#)
        ),
        format!(r#"见server_id="ms1"server_id="ms1"，server_id="{S2}" server_id="ms1""#)
    );
}

// CTX-111: what `tool_search` lists and finds is as in the tools array
#[test]
fn found_definitions_are_those_of_the_array() {
    let registry = routed();
    registry.mark_mcp_tools(["server_tool"]);
    let listed = json!({"name": "tool_search", "description": format!("Search.\n- server_tool — of server_id=\"{S}\"")});
    assert_eq!(
        registry.encode_tools(&[listed])[0]["description"],
        "Search.\n- server_tool — of server_id=\"ms1\""
    );
}

// CTX-96, CTX-95: hooks, approval and the tool itself decide on durable ids, once the envelope is an object
#[tokio::test]
async fn a_decoded_route_passes_the_ordinary_checks() {
    for style in STYLES {
        let call = |reference: &str| json!({"tool_ref": reference, "arguments": "{\"q\": \"x\"}"});
        let server = server([
            reply(style).tool_call("c1", "discover_mcp_tools", json!({"query": "maps"})),
            reply(style)
                .tool_call("c2", "call_mcp_tool", call("mt1"))
                .tool_call("c3", "call_mcp_tool", call("mt2"))
                .tool_call("c4", "call_mcp_tool", call("mt3")),
            reply(style).text("done"),
        ])
        .await;
        let found = format!(r#"{{"tools":[{{"tool_ref":"{T}"}},{{"tool_ref":"mcpt_forbidden"}}]}}"#);
        let (bridge, called) = tool("call_mcp_tool", |_| ToolResult::success("routed"));
        let hooks = Hooks::default().with_before_tool(|event: BeforeToolEvent| async move {
            let is_forbidden = event.args.get("tool_ref").is_some_and(|id| id == "mcpt_forbidden");
            Ok(is_forbidden.then(|| ToolOverride::result(ToolResult::failure("not approved"))))
        });
        let client = create_client(ClientOptions { hooks: Some(hooks), ..options(style, &server, config()) });
        let toolkit = Toolkit::from_tools([fixed("discover_mcp_tools", &found), bridge]);
        within(client.run("find it", &toolkit)).await.unwrap();
        assert_eq!(called.all(), [json!({"tool_ref": T, "arguments": {"q": "x"}})], "{style:?}");
        let bodies: Vec<Value> = server.requests().iter().map(|request| request.json()).collect();
        assert_eq!(
            result_texts(sent(style, &bodies[2]))[1..],
            [
                "routed",
                "not approved",
                "unresolved model handles: mt3. Use only handles shown in this conversation."
            ]
        );
    }
}

// CTX-93, CTX-92: the work is linear
#[test]
fn routing_text_is_linear() {
    let registry = routed();
    for part in ["server_id=\"", "=\"", "server_id", "\"", "server_id=\"x\""] {
        let text = part.repeat(50_000);
        assert_eq!(text_view(&registry, "user", &text), text);
    }
    let deep = format!("{{\"servers\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(result_view(&registry, "discover_mcp_tools", &deep), deep);
}

/// JSON that is built of what definitions are built of.
fn any_definition() -> impl Strategy<Value = Value> {
    let line = format!("x\n{{\"server_id\":\"{S}\"}}\nserver_id=\"{S2}\"");
    let strings = ["discover_mcp_tools", "call_mcp_tool", "x", S, S2, "ms1", "ms7", &line].map(Value::from);
    let keys = [
        "name",
        "description",
        "parameters",
        "input_schema",
        "properties",
        "server_id",
        "tool_ref",
        "enum",
        "function",
        "functionDeclarations",
    ];
    let leaf = prop_oneof![prop::sample::select(strings.to_vec()), Just(json!(null)), Just(json!(1.5))];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((prop::sample::select(keys.to_vec()), inner), 0..5).prop_map(|members| {
                Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CTX-91: whatever stands in a tools array, encoding it again changes nothing more
    #[test]
    fn definitions_are_encoded_once(tools in prop::collection::vec(any_definition(), 0..4)) {
        let registry = Registry::new(true);
        let encoded = registry.encode_tools(&tools);
        prop_assert_eq!(encoded.len(), tools.len());
        prop_assert_eq!(registry.encode_tools(&encoded), encoded.clone());
        prop_assert_eq!(registry.encode_tools(&tools), encoded);
    }

    // CTX-93: nothing else in a text changes
    #[test]
    fn routing_text_keeps_all_else(
        pieces in prop::collection::vec(
            prop::sample::select(vec!["server_id=\"", "\"", "=", S, S2, "server_id", " ", "x", "中", "tool_ref=\""]),
            0..12,
        ),
    ) {
        let registry = Registry::new(true);
        registry.encode_tools(&[directory(&[S], "")]);
        let text = pieces.concat();
        let encoded = text_view(&registry, "user", &text);
        prop_assert_eq!(encoded.replace(r#"server_id="ms1""#, &format!(r#"server_id="{S}""#)), text);
        prop_assert_eq!(text_view(&registry, "user", &encoded), encoded);
    }
}
