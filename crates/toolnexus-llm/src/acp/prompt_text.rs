//! A request of a client as the text of one turn.

use serde_json::Value;

use crate::InProcessRequest;
use crate::in_process::{role, text_of};

/// The whole conversation, for an agent that knows nothing of it: system text first, then the
/// messages. One lone user message stands for itself; in a dialogue each says who speaks.
pub(super) fn whole_text(request: &InProcessRequest) -> String {
    let (system, said): (Vec<&Value>, Vec<&Value>) =
        request.messages.iter().partition(|message| role(message) == "system");
    let is_dialogue = said.len() > 1;
    let system = system.into_iter().map(text_of);
    let said = said.into_iter().filter_map(|message| {
        let text = text_of(message);
        if text.is_empty() {
            return None;
        }
        Some(if is_dialogue { format!("{}: {text}", speaker(role(message))) } else { text })
    });
    let texts: Vec<String> = system.chain(said).filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

/// What the user said last, for an agent that knows the rest.
pub(super) fn newest_text(request: &InProcessRequest) -> String {
    request.newest_user_text().filter(|text| !text.is_empty()).unwrap_or_else(|| whole_text(request))
}

fn speaker(role: &str) -> &'static str {
    match role {
        "assistant" => "Assistant",
        "tool" => "Tool",
        _ => "User",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(messages: Value) -> InProcessRequest {
        InProcessRequest { messages: messages.as_array().unwrap().clone(), ..Default::default() }
    }

    // CLIENT-140, open point 31
    #[test]
    fn a_conversation_is_rendered_as_text() {
        let lone = request(json!([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "what is"}, {"type": "text", "text": "this?"}]},
        ]));
        assert_eq!(whole_text(&lone), "be brief\n\nwhat is\nthis?");

        let dialogue = request(json!([
            {"role": "user", "content": "2+3?"},
            {"role": "assistant", "content": null, "tool_calls": []},
            {"role": "tool", "content": "5"},
            {"role": "assistant", "content": "five"},
            {"role": "user", "content": "sure?"},
        ]));
        assert_eq!(whole_text(&dialogue), "User: 2+3?\n\nTool: 5\n\nAssistant: five\n\nUser: sure?");
        assert_eq!(newest_text(&dialogue), "sure?");
        assert_eq!(newest_text(&request(json!([{"role": "system", "content": "go"}]))), "go");
    }
}
