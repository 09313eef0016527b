//! One tool call of a model, decoded where it stands in the message and as it will be used.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolnexus_llm::run::ModelCall;

use super::members::{Members, text_of};
use crate::decode::DecodedArguments;
use crate::json_text::literal_of;
use crate::{ArgumentResolution, CallAudit, ModelToolCall, Registry};

/// Decodes a call whose arguments stand in the model's message as this JSON; `None`: they do not stand
/// there. Gives the new JSON, where it differs.
pub(super) fn decode_call(
    registry: &Registry,
    call: &mut ModelCall,
    json: Option<&str>,
    audit: &mut dyn FnMut(CallAudit),
) -> Option<String> {
    let own = || Value::Object((*call.args).clone()).to_string();
    let (json, stands_there) = match json {
        Some(json) if json != "null" => (json.to_owned(), true),
        _ => (own(), false),
    };
    // The arguments are an object, or text that holds one.
    let written = text_of(&json);
    let model_arguments = written.as_deref().unwrap_or(&json);
    let decoded = match call.via.is_some() {
        true => decode_inner(registry, call, model_arguments),
        false => Decoded::of(registry, &call.name, model_arguments),
    };
    take(registry, call, &decoded, audit);
    let new = decoded.outer?;
    stands_there.then(|| if written.is_some() { literal_of(&new) } else { new })
}

/// What decoding came to.
struct Decoded {
    /// The text in the message, where it differs.
    outer: Option<String>,
    /// The arguments of the call itself, as the model wrote them.
    model_arguments: String,
    arguments: DecodedArguments,
}

impl Decoded {
    fn of(registry: &Registry, tool: &str, model_arguments: &str) -> Self {
        let arguments = decode_text(registry, tool, model_arguments);
        Decoded { outer: arguments.text.clone(), model_arguments: model_arguments.to_owned(), arguments }
    }
}

/// Decodes text that should be an object. In what is none, known handles are restored as in any text:
/// it never runs, but it is kept.
fn decode_text(registry: &Registry, tool: &str, text: &str) -> DecodedArguments {
    if Members::read(text).is_some() {
        return registry.decode_arguments(tool, text);
    }
    let decoded = registry.decode_arguments(tool, &literal_of(text));
    let restored = decoded.text.as_deref().and_then(text_of);
    DecodedArguments { text: restored, resolution: ArgumentResolution::Unchanged, unresolved: Vec::new() }
}

/// Decodes the arguments of the call inside a `call_tool`: the policy is that of the tool inside.
fn decode_inner(registry: &Registry, call: &ModelCall, outer: &str) -> Decoded {
    let via = call.via.as_deref().unwrap_or_default();
    let Some(mut members) = Members::read(outer) else { return Decoded::of(registry, via, outer) };
    let inner = members.get("arguments").unwrap_or("null").to_owned();
    let written = text_of(&inner);
    let model_arguments = written.clone().unwrap_or_else(|| inner.clone());
    let mut arguments = match inner.as_str() {
        "null" => {
            DecodedArguments { text: None, resolution: ArgumentResolution::Unchanged, unresolved: Vec::new() }
        }
        _ => decode_text(registry, &call.name, &model_arguments),
    };
    // What stands beside the two is nobody's, but no handle may be in it either.
    let beside = decode_beside(registry, via, &members);
    arguments.unresolved.extend(beside.unresolved);
    arguments.unresolved.sort_unstable();
    arguments.unresolved.dedup();
    let mut is_changed = false;
    if let Some(decoded) = beside.text.as_deref().and_then(Members::read) {
        for name in decoded.names() {
            members.set(name, decoded.get(name).unwrap_or("null"));
        }
        is_changed = true;
    }
    if let Some(text) = &arguments.text {
        match written {
            Some(_) => members.set_text("arguments", text),
            None => members.set("arguments", text),
        }
        is_changed = true;
    }
    Decoded { outer: is_changed.then(|| members.to_json()), model_arguments, arguments }
}

fn decode_beside(registry: &Registry, via: &str, members: &Members<'_>) -> DecodedArguments {
    let others = members.names().filter(|name| !matches!(*name, "name" | "arguments"));
    let others: Vec<String> =
        others.filter_map(|name| Some(format!("{}:{}", literal_of(name), members.get(name)?))).collect();
    registry.decode_arguments(via, &format!("{{{}}}", others.join(",")))
}

/// Makes the decoded arguments those of the call, or refuses it.
fn take(registry: &Registry, call: &mut ModelCall, decoded: &Decoded, audit: &mut dyn FnMut(CallAudit)) {
    let Decoded { model_arguments, arguments, .. } = decoded;
    let resolved = arguments.text.as_deref().unwrap_or(model_arguments);
    if call.invalid.is_none() {
        if arguments.text.is_some() {
            match serde_json::from_str::<Map<String, Value>>(resolved) {
                Ok(args) => call.args = Arc::new(args),
                Err(error) => call.invalid = Some(format!("not valid JSON: {error}")),
            }
        }
        let refused = ModelToolCall {
            model_arguments: Some(model_arguments.clone()),
            argument_resolution: Some(arguments.resolution),
            unresolved_handles: arguments.unresolved.clone(),
            ..ModelToolCall::new(call.id.as_str(), call.name.as_str(), resolved)
        };
        call.rejected = refused.rejection();
    }
    let is_sensitive = registry.settings().policy(&call.name).is_some_and(|policy| policy.sensitive);
    let shown = |text: &str| (!is_sensitive).then(|| text.to_owned());
    audit(CallAudit {
        id: call.id.clone(),
        name: call.name.clone(),
        model_arguments: shown(model_arguments),
        resolved_arguments: shown(resolved),
        argument_keys: call.args.keys().cloned().collect(),
        argument_resolution: arguments.resolution,
        unresolved: arguments.unresolved.len(),
        unresolved_handles: if is_sensitive { Vec::new() } else { arguments.unresolved.clone() },
    });
}
