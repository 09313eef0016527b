//! Images, files and audio in prompts and tool results: what goes over the wire, what the
//! transcript keeps, and what stops a run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::{Value, json};
use support::double::{Answer, Double};
use support::{CONTENT_STYLES, STYLES};
use toolnexus_core::content::UnsupportedPart;
use toolnexus_core::{ContentPart, Tool, ToolResult, ToolSource, Toolkit, define_tool};
use toolnexus_llm::translate::TranslateRequest;
use toolnexus_llm::{
    ClientError, ClientOptions, Prompt, RunOptions, RunStatus, StreamEvent, Style, create_client, limits,
};

const IMAGE: &str = "iVBORw0KGgo=";

fn image() -> ContentPart {
    ContentPart::from_base64("image/png", IMAGE, None)
}

fn sound() -> ContentPart {
    ContentPart::from_base64("audio/wav", "AAAAAAAA", None)
}

fn sent_image(style: Style) -> Value {
    match style {
        Style::Anthropic => {
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}})
        }
        _ => json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{IMAGE}")}}),
    }
}

/// A tool that returns these parts beside its output.
fn showing(name: &str, parts: Vec<ContentPart>) -> Tool {
    define_tool(name, "", None, move |_args, _context| {
        let parts = parts.clone();
        async move { ToolResult::success("screenshot, 8x8 png").with_parts(parts) }
    })
}

// CLIENT-110, CORE-35, CORE-37, cases 44 and 45
#[tokio::test]
async fn a_prompt_may_be_a_list_of_parts() {
    for style in CONTENT_STYLES {
        let double = Double::new([Answer::text(style, "a cat")]);
        let client = create_client(double.options(style));
        let prompt = vec![ContentPart::text("before"), image(), "after".into()];
        let result = client.run(prompt, &Toolkit::default()).await.unwrap();
        assert_eq!(result.text, "a cat");
        let expected = json!([
            {"type": "text", "text": "before"}, sent_image(style), {"type": "text", "text": "after"},
        ]);
        assert_eq!(double.body(0)["messages"][0]["content"], expected);
        // CORE-36: the transcript keeps parts, not provider blocks.
        let kept = result.messages.iter().find(|message| message.role() == "user").unwrap();
        assert_eq!(kept["content"][1], json!({"type": "image", "mimeType": "image/png", "data": IMAGE}));

        // CORE-46: the parts of a history are encoded again.
        let double = Double::new([Answer::text(style, "still a cat")]);
        let options = RunOptions { history: result.messages, ..Default::default() };
        let client = create_client(double.options(style));
        client.run_with("sure?", &Toolkit::default(), options).await.unwrap();
        assert_eq!(double.body(0)["messages"][0]["content"], expected);
    }
}

// CLIENT-111, CORE-37, CORE-38: OpenAI's blocks, in the order of the parts, buffered and streamed
#[tokio::test]
async fn openai_has_a_block_for_each_kind() {
    let style = Style::OpenAI;
    let prompt = || {
        Prompt::from(vec![
            ContentPart::text("look"),
            image(),
            ContentPart::from_url("https://x/cat.jpg?size=2").unwrap(),
            sound(),
            ContentPart::from_base64("application/pdf", "AAAA", Some("a.pdf".into())),
        ])
    };
    let blocks = json!([
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{IMAGE}")}},
        {"type": "image_url", "image_url": {"url": "https://x/cat.jpg?size=2"}},
        {"type": "input_audio", "input_audio": {"data": "AAAAAAAA", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
    ]);
    let double = Double::new([Answer::text(style, "ok"), Answer::streamed_text(style, "ok")]);
    let client = create_client(double.options(style));
    client.run(prompt(), &Toolkit::default()).await.unwrap();
    client.stream(prompt(), &Toolkit::default()).finish().await.unwrap();
    for at in 0..2 {
        assert_eq!(double.body(at)["messages"], json!([{"role": "user", "content": blocks}]));
    }
}

// CLIENT-110: a prompt is made from text, owned or not, and from a list of parts
#[tokio::test]
async fn a_prompt_is_made_from_what_there_is() {
    let style = Style::OpenAI;
    let double = Double::new([Answer::text(style, "1"), Answer::text(style, "2"), Answer::text(style, "3")]);
    let client = create_client(double.options(style));
    client.run("hi", &Toolkit::default()).await.unwrap();
    client.run(String::from("hi"), &Toolkit::default()).await.unwrap();
    client.run(vec![ContentPart::text("hi")], &Toolkit::default()).await.unwrap();
    assert_eq!(double.body(0), double.body(1));
    assert_eq!(double.body(2)["messages"][0]["content"], json!([{"type": "text", "text": "hi"}]));
}

// CORE-35: a string prompt is sent as if there were no parts
#[tokio::test]
async fn a_text_prompt_is_a_string() {
    for style in CONTENT_STYLES {
        let double = Double::new([Answer::text(style, "ok")]);
        create_client(double.options(style)).run("hello", &Toolkit::default()).await.unwrap();
        assert_eq!(double.body(0)["messages"], json!([{"role": "user", "content": "hello"}]));
    }
}

// CORE-43, CORE-44, CORE-36, CORE-15, CLIENT-48, case 46
#[tokio::test]
async fn openai_reads_a_tools_parts_in_a_message_of_their_own() {
    let style = Style::OpenAI;
    let double = Double::new([
        Answer::calls(style, &[("c1", "shot_a", json!({})), ("c2", "shot_b", json!({}))]),
        Answer::text(style, "two pictures"),
    ]);
    let toolkit = Toolkit::from_tools([showing("shot_a", vec![image()]), showing("shot_b", vec![image()])]);
    let result = create_client(double.options(style)).run("look", &toolkit).await.unwrap();
    let sent = double.body(1)["messages"].as_array().unwrap().clone();
    assert_eq!(
        sent[2..],
        [
            json!({"role": "tool", "tool_call_id": "c1", "content": "screenshot, 8x8 png"}),
            json!({"role": "tool", "tool_call_id": "c2", "content": "screenshot, 8x8 png"}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "Output of tool shot_a (c1):"}, sent_image(style),
                {"type": "text", "text": "Output of tool shot_b (c2):"}, sent_image(style),
            ]}),
        ]
    );
    // The extra message is on the wire alone: user, assistant, two results, the answer.
    assert_eq!(result.messages.len(), 5);
    assert_eq!(result.messages[2]["name"], "shot_a");
    assert_eq!(result.messages[2]["parts"][0]["mimeType"], "image/png");
    // Files and records carry the parts to the host.
    assert_eq!(result.files.len(), 2);
    assert_eq!((result.files[0].from.as_str(), result.files[0].call_id.as_str()), ("shot_a", "c1"));
    assert_eq!((result.files[1].data.as_deref(), result.files[1].url.as_deref()), (Some(IMAGE), None));
    assert_eq!(result.tool_calls[1].parts, [image()]);
}

// CORE-43: text parts stay in the tool message
#[tokio::test]
async fn text_parts_of_a_result_stay_with_it() {
    let style = Style::OpenAI;
    let double = Double::new([Answer::calls(style, &[("c1", "t", json!({}))]), Answer::text(style, "ok")]);
    let toolkit = Toolkit::from_tools([showing("t", vec![ContentPart::text("more"), image()])]);
    create_client(double.options(style)).run("look", &toolkit).await.unwrap();
    let sent = double.body(1)["messages"].as_array().unwrap().clone();
    assert_eq!(
        sent[2],
        json!({"role": "tool", "tool_call_id": "c1", "content": [
            {"type": "text", "text": "screenshot, 8x8 png"}, {"type": "text", "text": "more"},
        ]})
    );
    assert_eq!(
        sent[3]["content"],
        json!([{"type": "text", "text": "Output of tool t (c1):"}, sent_image(style)])
    );
}

// CORE-45, case 47
#[tokio::test]
async fn anthropic_reads_a_tools_parts_inside_its_result() {
    let style = Style::Anthropic;
    let double =
        Double::new([Answer::calls(style, &[("c1", "shot_a", json!({}))]), Answer::text(style, "ok")]);
    let toolkit = Toolkit::from_tools([showing("shot_a", vec![image()])]);
    create_client(double.options(style)).run("look", &toolkit).await.unwrap();
    let sent = double.body(1)["messages"].as_array().unwrap().clone();
    assert_eq!(sent.len(), 3);
    assert_eq!(
        sent[2]["content"],
        json!([{
            "type": "tool_result", "tool_use_id": "c1",
            "content": [{"type": "text", "text": "screenshot, 8x8 png"}, sent_image(style)],
            "is_error": false,
        }])
    );
}

// CLIENT-112, CLIENT-113, CORE-40, case 41: buffered and streamed
#[tokio::test]
async fn an_attached_part_without_a_block_stops_the_run_before_the_request() {
    let linked_pdf = ContentPart::from_link("application/pdf", "https://x/spec.pdf", None);
    for (style, part, mime) in
        [(Style::OpenAI, linked_pdf, "application/pdf"), (Style::Anthropic, sound(), "audio/wav")]
    {
        let double = Double::new([]);
        let client = create_client(double.options(style));
        let prompt = || Prompt::from(vec![ContentPart::text("read"), part.clone()]);
        let result = client.run(prompt(), &Toolkit::default()).await.unwrap();
        assert_eq!(
            (result.status, result.limit.as_deref()),
            (RunStatus::Incomplete, Some(limits::CONTENT_PART))
        );
        assert!(result.text.contains(mime) && result.text.contains(style.as_str()), "{}", result.text);
        assert_eq!((result.turns, result.messages.len()), (0, 0));
        let streamed = client.stream(prompt(), &Toolkit::default()).finish().await.unwrap();
        assert_eq!(streamed, result);
        // Translation has no result to say it with.
        let content = json!([serde_json::to_value(&part).unwrap()]);
        let messages = vec![json!({"role": "user", "content": content})];
        let request = TranslateRequest { messages, ..Default::default() };
        let refused = client.translate(request).await;
        assert!(matches!(refused, Err(ClientError::ContentPart(_))), "{refused:?}");
        assert_eq!(double.count(), 0);
    }
}

// CLIENT-112, CORE-32, CORE-40, case 40: what a tool returned becomes a line of text
#[tokio::test]
async fn a_tools_part_without_a_block_is_a_placeholder() {
    let style = Style::Anthropic;
    let double = Double::new([Answer::calls(style, &[("c1", "talk", json!({}))]), Answer::text(style, "ok")]);
    let toolkit = Toolkit::from_tools([showing("talk", vec![sound()])]);
    let result = create_client(double.options(style)).run("speak", &toolkit).await.unwrap();
    assert_eq!(result.status, RunStatus::Done);
    assert_eq!(
        double.body(1)["messages"][2]["content"][0]["content"][1],
        json!({"type": "text", "text": "[unsupported audio part (audio/wav, 6 bytes)]"})
    );
    assert_eq!(result.files.len(), 1);
}

// CORE-46: blocks of the provider's own in a history are sent as they are
#[tokio::test]
async fn native_blocks_pass_through() {
    for style in CONTENT_STYLES {
        let native =
            json!([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}, sent_image(style)]);
        let history = vec![json!({"role": "user", "content": native})];
        let double = Double::new([Answer::text(style, "ok")]);
        let options = RunOptions { history: history.into(), ..Default::default() };
        // A part in the prompt makes sure that the whole transcript goes through the encoder.
        let client = create_client(double.options(style));
        client.run_with(vec![image()], &Toolkit::default(), options).await.unwrap();
        assert_eq!(double.body(0)["messages"][0]["content"], native);
    }
}

// CORE-20, CLIENT-115: no event and no debug output shows a part's data
#[tokio::test]
async fn nothing_that_prints_shows_data() {
    use futures::StreamExt as _;
    let style = Style::OpenAI;
    let chunk = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "c1", "function": {"name": "shot", "arguments": "{}"}},
    ]}}]});
    let call = Answer::pieces([Ok(format!("data: {chunk}\n\ndata: [DONE]\n\n"))]);
    let double = Double::new([call, Answer::streamed_text(style, "ok")]);
    let toolkit = Toolkit::from_tools([showing("shot", vec![image()])]);
    let client = create_client(double.options(style));
    let mut events = client.stream(vec![image()], &toolkit);
    let mut seen = 0;
    while let Some(event) = events.next().await {
        let event = event.unwrap();
        assert!(!format!("{event:?}").contains(IMAGE), "{event:?}");
        if !matches!(event, StreamEvent::Done { .. }) {
            assert!(!serde_json::to_string(&event).unwrap().contains(IMAGE));
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen} events");
}

// CORE-36, case 73: of a media tool the model sees the pictures, the host gets everything
#[tokio::test]
async fn a_media_tool_keeps_only_images_in_the_transcript() {
    for style in CONTENT_STYLES {
        let double =
            Double::new([Answer::calls(style, &[("c1", "draw", json!({}))]), Answer::text(style, "ok")]);
        let tool = showing("draw", vec![sound(), image()]).source(ToolSource::Media);
        let result =
            create_client(double.options(style)).run("go", &Toolkit::from_tools([tool])).await.unwrap();
        assert_eq!((result.files.len(), result.tool_calls[0].parts.len()), (2, 2));
        let sent = double.body(1)["messages"].to_string();
        assert!(
            sent.contains(IMAGE) && !sent.contains("audio/wav") && !sent.contains("unsupported"),
            "{sent}"
        );
        let kept = serde_json::to_string(&result.messages).unwrap();
        assert!(kept.contains(IMAGE) && !kept.contains("audio/wav"), "{kept}");
    }
}

// CORE-40, CORE-41, CORE-42, CORE-46, CLIENT-112, case 42 and P1: sizes, buffered and streamed
#[tokio::test]
async fn a_part_over_the_limit_is_refused_or_replaced() {
    for style in CONTENT_STYLES {
        let limited = |double: &std::sync::Arc<Double>, max_part_bytes, mode: Option<UnsupportedPart>| {
            let options =
                ClientOptions { max_part_bytes, on_unsupported_part: mode, ..double.options(style) };
            create_client(options)
        };
        // Attached: no request.
        let double = Double::new([]);
        let client = limited(&double, 7, None);
        let result = client.run(vec![image()], &Toolkit::default()).await.unwrap();
        assert_eq!(
            (result.status, result.limit.as_deref(), result.turns),
            (RunStatus::Incomplete, Some(limits::CONTENT_PART), 0)
        );
        assert!(result.text.contains('8') && result.text.contains('7'), "{}", result.text);
        let streamed = client.stream(vec![image()], &Toolkit::default()).finish().await.unwrap();
        assert_eq!((streamed, double.count()), (result, 0));

        // Exactly at the limit, and as text on request.
        let double = Double::new([Answer::text(style, "ok"), Answer::text(style, "ok")]);
        limited(&double, 8, None).run(vec![image()], &Toolkit::default()).await.unwrap();
        let texts = limited(&double, 7, Some(UnsupportedPart::Text));
        texts.run(vec![image()], &Toolkit::default()).await.unwrap();
        assert_eq!(double.body(0)["messages"][0]["content"], json!([sent_image(style)]));
        let placeholder = json!({"type": "text", "text": "[unsupported image part (image/png, 8 bytes)]"});
        assert_eq!(double.body(1)["messages"][0]["content"], json!([placeholder]));

        // A tool's: text in its place, also when the transcript comes back from a store as JSON.
        let double = Double::new([
            Answer::calls(style, &[("c1", "shot", json!({}))]),
            Answer::text(style, "ok"),
            Answer::text(style, "again"),
        ]);
        let client = limited(&double, 7, None);
        let toolkit = Toolkit::from_tools([showing("shot", vec![image()])]);
        let result = client.run("look", &toolkit).await.unwrap();
        assert_eq!(result.status, RunStatus::Done);
        let stored = serde_json::to_string(&result.messages).unwrap();
        let history = serde_json::from_str(&stored).unwrap();
        let options = RunOptions { history, ..Default::default() };
        client.run_with("sure?", &toolkit, options).await.unwrap();
        for request in [1, 2] {
            let sent = double.body(request)["messages"].to_string();
            assert!(sent.contains(&placeholder.to_string()) && !sent.contains(IMAGE), "{sent}");
            assert!(!sent.contains("\"parts\""), "{sent}");
        }

        // A tool's, with the mode that makes it an error: one turn was made.
        let double = Double::new([Answer::calls(style, &[("c1", "shot", json!({}))])]);
        let client = limited(&double, 7, Some(UnsupportedPart::Error));
        let result = client.run("look", &toolkit).await.unwrap();
        assert_eq!((result.limit.as_deref(), result.turns), (Some(limits::CONTENT_PART), 1));
        assert_eq!(double.count(), 1);
    }
}

// CORE-41, CLIENT-112: a malformed part stops the run in every mode
#[tokio::test]
async fn a_malformed_part_stops_the_run() {
    for style in STYLES {
        for mode in [None, Some(UnsupportedPart::Text)] {
            let double = Double::new([]);
            let options = ClientOptions { on_unsupported_part: mode, ..double.options(style) };
            let part = ContentPart::Image { mime_type: "image/png".into(), data: None, url: None };
            let result = create_client(options).run(vec![part], &Toolkit::default()).await.unwrap();
            assert_eq!(result.limit.as_deref(), Some(limits::CONTENT_PART));
            assert_eq!(double.count(), 0);
        }
    }
}
