//! The model-context boundary: the same runs with it and without.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::json;
use toolnexus::client::{Message, RunOptions, StreamOptions, Transcript};
use toolnexus::context::{Registry, SourceRef};
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
    let sides = [None, Some(Arc::new(registry()))].map(|boundary| {
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
    let sides = [None, Some(Arc::new(registry()))].map(|boundary| {
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
fn registry() -> Registry {
    let registry = Registry::new(true);
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
    registry
}

fn uuid(n: usize) -> String {
    format!("{:08x}-a495-40d2-a13f-{:012x}", n * 2_654_435_761 % 4_294_967_296, n * 97)
}

fn url(n: usize) -> String {
    format!("https://docs.example.com/handbook/section-{}/page-{n}", n % 17)
}

/// Messages of users and assistants with a tool result now and then, until the size is reached; each names
/// an identity or two.
fn transcript() -> Transcript {
    let (mut messages, mut size, mut n) = (Vec::<Message>::new(), 0, 0);
    while size < TRANSCRIPT {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        let content = format!(
            "Message {n} of a long conversation about the handbook. The passage {} was compared with what \
             {} says, and nobody found a difference worth telling: the rules of travel are the same in both, \
             receipts are due within thirty days, and whoever books late asks first.",
            uuid(n * 7 % IDENTITIES),
            if n % 3 == 0 {
                url(n * 4 % IDENTITIES / 4 * 4 + 3)
            } else {
                format!("toolnexus://doc/{}", uuid(n % 250 * 4))
            },
        );
        size += content.len();
        messages.push(json!({"role": role, "content": content}).into());
        n += 1;
    }
    messages.into_iter().collect()
}
