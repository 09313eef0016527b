//! One tool call of a model, decoded where it stands in the message and as it will be used.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolnexus_llm::run::ModelCall;

use super::members::Members;
use crate::decode::DecodedArguments;
use crate::json_text::{literal_of, string_value};
use crate::{ArgumentResolution, CallAudit, ModelToolCall, Registry};

/// Decodes a call whose arguments stand in the model's message as this JSON; `None`: they do not stand
/// there. Gives the new JSON, where it differs.
pub(super) fn decode_call(
    registry: &Registry,
    call: &mut ModelCall,
    json: Option<&str>,
    audit: &mut dyn FnMut(CallAudit),
) -> Option<String> {
    let Some(json) = json.filter(|json| *json != "null") else {
        let own = Value::Object((*call.args).clone()).to_string();
        let decoded = decode_text(registry, &call.name, &own);
        take(registry, call, &own, decoded.text.as_deref().unwrap_or(&own), &decoded, audit);
        return None;
    };
    // The arguments are an object, or text that holds one.
    let written = string_value(json);
    let before = written.as_deref().unwrap_or(json);
    let decoded = decode_text(registry, call.via.as_deref().unwrap_or(&call.name), before);
    let after = decoded.text.as_deref().unwrap_or(before);
    if call.via.is_some() {
        take(registry, call, &inner(before), &inner(after), &decoded, audit);
    } else {
        take(registry, call, before, after, &decoded, audit);
    }
    decoded.text.map(|text| if written.is_some() { literal_of(&text) } else { text })
}

/// The arguments inside those of a `call_tool`: an object, or text that holds one.
fn inner(outer: &str) -> String {
    let members = Members::read(outer);
    let arguments = members.as_ref().and_then(|members| members.get("arguments"));
    let arguments = arguments.filter(|json| *json != "null").unwrap_or("{}");
    string_value(arguments).unwrap_or_else(|| arguments.to_owned())
}

/// Decodes text that should be an object. In what is none, known handles are restored as in any text:
/// it never runs, but it is kept.
fn decode_text(registry: &Registry, tool: &str, text: &str) -> DecodedArguments {
    if Members::read(text).is_some() {
        return registry.decode_arguments(tool, text);
    }
    let wrapped = format!("{{\"\":{}}}", literal_of(text));
    let decoded = registry.decode_arguments("", &wrapped).text;
    let restored = decoded.as_deref().and_then(|wrapped| Members::read(wrapped)?.text(""));
    DecodedArguments { text: restored, resolution: ArgumentResolution::Unchanged, unresolved: Vec::new() }
}

/// Makes the decoded arguments those of the call, or refuses it.
fn take(
    registry: &Registry,
    call: &mut ModelCall,
    before: &str,
    after: &str,
    decoded: &DecodedArguments,
    audit: &mut dyn FnMut(CallAudit),
) {
    if call.invalid.is_none() {
        if after != before {
            // Blank text is an empty object, and such text does not change.
            match serde_json::from_str::<Map<String, Value>>(after) {
                Ok(args) => call.args = Arc::new(args),
                Err(error) => call.invalid = Some(format!("not valid JSON: {error}")),
            }
        }
        let decoded = ModelToolCall {
            model_arguments: Some(before.to_owned()),
            argument_resolution: Some(decoded.resolution),
            unresolved_handles: decoded.unresolved.clone(),
            ..ModelToolCall::new(call.id.as_str(), call.name.as_str(), after)
        };
        call.rejected = decoded.rejection();
    }
    let is_sensitive = registry.settings().policy(&call.name).is_some_and(|policy| policy.sensitive);
    let shown = |text: &str| (!is_sensitive).then(|| text.to_owned());
    audit(CallAudit {
        id: call.id.clone(),
        name: call.name.clone(),
        model_arguments: shown(before),
        resolved_arguments: shown(after),
        argument_keys: call.args.keys().cloned().collect(),
        argument_resolution: decoded.resolution,
        unresolved: decoded.unresolved.len(),
        unresolved_handles: if is_sensitive { Vec::new() } else { decoded.unresolved.clone() },
    });
}
