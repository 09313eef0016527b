//! The model-context boundary: the same runs with it and without.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value, json};
use toolnexus::client::{Message, RunOptions, StreamOptions, Transcript};
use toolnexus::context::{Registry, RegistryConfig, SourceRef, ToolPolicy};
use toolnexus::{BoxError, Client, StreamEvent, Toolkit};
use toolnexus_testkit::model::{ModelServer, Reply, Script};

use crate::cases::{Sides, Work, client};

/// How many identities are known.
const IDENTITIES: usize = 1000;

/// The size of the transcript.
const TRANSCRIPT: usize = 200 * 1024;

/// One turn over a transcript that mentions a thousand known identities. The floor is the turn without a
/// boundary, so the difference is what encoding all of it and decoding the answer takes.
pub(crate) async fn one_turn() -> Result<Sides, BoxError> {
    let text = "It is in toolnexus docs, see [the page](url://7) and chunk://3 <ref id=\"chunk://3\"/>.";
    let (server, client) = server(Script::always(Reply::openai().text(text).usage(50_000, 20).json()))?;
    let history = transcript();
    let sides = [None, Some(Arc::new(registry()?))].map(|boundary| {
        let (server, client, history) = (Arc::clone(&server), client.clone(), history.clone());
        let work: Work = Box::new(move || {
            let (client, history, boundary) = (client.clone(), history.clone(), boundary.clone());
            let _alive = Arc::clone(&server);
            Box::pin(async move {
                let length = history.len();
                let mut options = RunOptions { history, ..Default::default() };
                if let Some(registry) = boundary {
                    options.boundary = Some(registry);
                }
                let result = client.run_with("And one more thing.", &Toolkit::default(), options).await?;
                if result.messages.len() == length + 2 {
                    Ok(())
                } else {
                    Err("two more messages were expected".into())
                }
            })
        });
        work
    });
    let [floor, work] = sides;
    Ok(Sides { floor, work })
}

/// A streamed answer with a handle and a citation in every sentence, cut without regard to them. The floor streams it undecoded.
pub(crate) async fn stream() -> Result<Sides, BoxError> {
    let sentence = "The rule is in doc://12 and has been there for years: whoever books late asks first, and \
                    receipts are due within thirty days <ref id=\"chunk://8\"/>. ";
    let letters: Vec<char> = sentence.chars().cycle().take(500 * 12).collect();
    let deltas: Vec<String> = letters.chunks(12).map(|piece| piece.iter().collect()).collect();
    let (server, client) = server(Script::always(Reply::openai().deltas(deltas).usage(20, 500).sse()))?;
    let sides = [None, Some(Arc::new(registry()?))].map(|boundary| {
        let (server, client) = (Arc::clone(&server), client.clone());
        let work: Work = Box::new(move || {
            let (client, boundary) = (client.clone(), boundary.clone());
            let _alive = Arc::clone(&server);
            Box::pin(async move {
                let mut options = StreamOptions::default();
                if let Some(registry) = boundary {
                    options.boundary = Some(registry);
                }
                let mut stream = client.stream_with("Where is the rule?", &Toolkit::default(), options);
                let mut bytes = 0;
                while let Some(event) = stream.next().await {
                    if let StreamEvent::Text { delta } = event? {
                        bytes += delta.len();
                    }
                }
                if bytes > 3000 { Ok(()) } else { Err("more text was expected".into()) }
            })
        });
        work
    });
    let [floor, work] = sides;
    Ok(Sides { floor, work })
}

fn server(script: Script) -> Result<(Arc<ModelServer>, Client), BoxError> {
    let server = ModelServer::start_on_thread(script.without_recording())?;
    let client = client(server.base_url());
    Ok((Arc::new(server), client))
}

/// A registry that knows documents, their pieces and pages, as a retrieval leaves it.
fn registry() -> Result<Registry, BoxError> {
    // The default configuration and a tool of the application's.
    let search = ToolPolicy::default().id_keys(["knowledge_id"]);
    let registry = Registry::with_config(RegistryConfig::default().policy("search", search))?;
    for n in 0..IDENTITIES {
        match n % 4 {
            0 => registry.register_document(&uuid(n)),
            1 | 2 => {
                let mut chunk = SourceRef::new(uuid(n));
                chunk.document_id = uuid(n - n % 4);
                chunk.title = format!("Document {n}");
                registry.register_chunk(chunk)
            }
            _ => registry.register_url(&url(n), "A page"),
        };
    }
    Ok(registry)
}

fn uuid(n: usize) -> String {
    format!("{:08x}-a495-40d2-a13f-{:012x}", n * 2_654_435_761 % 4_294_967_296, n * 97)
}

fn url(n: usize) -> String {
    format!("https://docs.example.com/handbook/section-{}/page-{n}", n % 17)
}

/// Questions, searches, what they found and answers, until the size is reached. A result names twelve
/// known identities, a call and an answer one each.
fn transcript() -> Transcript {
    let (mut messages, mut size, mut n) = (Vec::<Message>::new(), 0, 0);
    let mut add = |message: Value| {
        let message = Message::from(message);
        size += message.json().len();
        messages.push(message);
        size
    };
    loop {
        let id = format!("call_{n}");
        let document = uuid(n % 250 * 4);
        let arguments = json!({"knowledge_id": document, "query": "travel"}).to_string();
        let passages: Vec<String> = (0..12)
            .map(|m| {
                let source = if m % 4 == 3 { url((n * 12 + m) % 250 * 4 + 3) } else { uuid((n * 12 + m) % IDENTITIES / 4 * 4) };
                format!("{m}. ({source}) The rules of travel are the same for all: receipts are due within thirty days, and whoever books late asks first.")
            })
            .collect();
        add(
            json!({"role": "user", "content": format!("Question {n} about the handbook: may I book first class?")}),
        );
        let call =
            json!({"id": id, "type": "function", "function": {"name": "search", "arguments": arguments}});
        add(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        add(json!({"role": "tool", "tool_call_id": id, "content": passages.join("\n")}));
        let answer = format!(
            "Whoever books late asks first, says toolnexus://doc/{document}; nobody found a difference."
        );
        if add(json!({"role": "assistant", "content": answer})) >= TRANSCRIPT {
            return messages.into_iter().collect();
        }
        n += 1;
    }
}
