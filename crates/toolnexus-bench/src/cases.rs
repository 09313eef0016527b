//! The cases: what is asked of the library, and of what its floor consists.

use futures::StreamExt as _;
use serde::Serialize;
use serde_json::{Value, json};
use toolnexus::client::{RunOptions, Transcript};
use toolnexus::{
    BoxError, BoxFuture, Client, ClientOptions, StreamEvent, Toolkit, create_client, define_tool,
};
use toolnexus_testkit::model::{Reply, Script};

use crate::measure::Row;
use crate::{context, servers, trees};

/// One thing to measure.
pub(crate) struct Case {
    /// Its name in the report.
    pub(crate) name: &'static str,
    /// What it must not exceed.
    pub(crate) target: Target,
    /// Runs in one round.
    pub(crate) runs_per_round: usize,
    /// How many of them are in flight at once.
    pub(crate) at_once: usize,
    /// What the ratio is of.
    pub(crate) clock: Clock,
    /// Who is at the other end.
    pub(crate) peer: Peer,
}

/// What a case may cost.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// So many times its floor.
    Ratio(f64),
    /// So many microseconds of CPU time more than its floor.
    Extra(f64),
}

impl Target {
    /// Whether the case costs more.
    pub(crate) fn is_missed_by(self, row: &Row) -> bool {
        match self {
            Target::Ratio(ratio) => row.ratio > ratio,
            Target::Extra(micros) => row.cpu_us - row.floor_cpu_us > micros,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Ratio(ratio) => f.pad(&format!("{ratio:.2}")),
            Target::Extra(micros) => f.pad(&format!("+{micros:.0}us")),
        }
    }
}

/// What is compared with the floor.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Clock {
    /// The CPU time of this thread.
    Cpu,
    /// Wall time: for work that consists of waiting for others side by side.
    Wall,
}

/// The other end, and what is done with it.
pub(crate) enum Peer {
    /// A model server. The floor sends the recorded requests of one run again.
    Model {
        /// What it answers.
        script: fn() -> Script,
        /// Makes the work of one run, given the server's base URL.
        work: fn(String) -> Work,
    },
    /// MCP servers or files, which this prepares.
    Prepared(fn() -> BoxFuture<'static, Result<Sides, BoxError>>),
}

/// The two that take turns.
pub(crate) struct Sides {
    pub(crate) floor: Work,
    pub(crate) work: Work,
}

/// One run, again and again.
pub(crate) type Work = Box<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// Every case, in the order of the report.
pub(crate) fn all() -> Vec<Case> {
    vec![
        Case {
            name: "loop",
            target: Target::Ratio(1.10),
            runs_per_round: 100,
            at_once: 1,
            clock: Clock::Cpu,
            peer: Peer::Model { script: two_calls_then_text, work: |url| run_over(url, toolkit(2)) },
        },
        Case {
            name: "loop_200_tools",
            target: Target::Ratio(1.15),
            runs_per_round: 50,
            at_once: 1,
            clock: Clock::Cpu,
            peer: Peer::Model { script: two_calls_then_text, work: |url| run_over(url, toolkit(200)) },
        },
        Case {
            name: "history_1000",
            target: Target::Ratio(1.15),
            runs_per_round: 50,
            at_once: 1,
            clock: Clock::Cpu,
            peer: Peer::Model {
                script: || Script::always(Reply::openai().text("Noted.").usage(20_000, 2).json()),
                work: history,
            },
        },
        Case {
            name: "stream_500",
            target: Target::Ratio(0.80),
            runs_per_round: 20,
            at_once: 1,
            clock: Clock::Cpu,
            peer: Peer::Model {
                script: || Script::always(Reply::openai().text_deltas(500, 12).usage(20, 500).sse()),
                work: stream,
            },
        },
        Case {
            name: "concurrent_1000",
            target: Target::Ratio(1.15),
            runs_per_round: 1000,
            at_once: 1000,
            clock: Clock::Cpu,
            peer: Peer::Model { script: two_calls_then_text, work: |url| run_over(url, toolkit(2)) },
        },
        Case {
            name: "mcp_stdio",
            target: Target::Ratio(1.10),
            runs_per_round: 200,
            at_once: 1,
            clock: Clock::Cpu,
            peer: Peer::Prepared(|| Box::pin(servers::one_call())),
        },
        Case {
            name: "build_20_servers",
            target: Target::Ratio(1.10),
            runs_per_round: 1,
            at_once: 1,
            clock: Clock::Wall,
            peer: Peer::Prepared(|| Box::pin(servers::many_builds())),
        },
        Case {
            name: "grep_tree",
            target: Target::Ratio(1.50),
            runs_per_round: 1,
            at_once: 1,
            clock: Clock::Wall,
            peer: Peer::Prepared(|| Box::pin(trees::grep())),
        },
        Case {
            name: "context_1000",
            target: Target::Extra(3000.0),
            runs_per_round: 5,
            at_once: 1,
            clock: Clock::Cpu,
            peer: Peer::Prepared(|| Box::pin(context::one_turn())),
        },
        Case {
            name: "context_stream",
            target: Target::Ratio(1.30),
            runs_per_round: 20,
            at_once: 1,
            clock: Clock::Cpu,
            peer: Peer::Prepared(|| Box::pin(context::stream())),
        },
    ]
}

pub(crate) fn client(base_url: String) -> Client {
    create_client(ClientOptions {
        base_url,
        model: "bench".into(),
        api_key: "none-needed".into(),
        ..Default::default()
    })
}

fn two_calls_then_text() -> Script {
    let calls = Reply::openai()
        .tool_call("call_a", "tool_0", json!({"city": "Chennai", "unit": "celsius"}))
        .tool_call("call_b", "tool_1", json!({"city": "Kochi", "unit": "celsius"}))
        .usage(120, 30)
        .json();
    let text = Reply::openai().text("It is 33 degrees in Chennai and 29 in Kochi.").usage(180, 20).json();
    // The second request of a run brings the results. Runs may be in flight side by side.
    Script::respond_with(move |request| {
        let has_results = memchr::memmem::find(request.body(), br#""role":"tool""#).is_some();
        if has_results { text.clone() } else { calls.clone() }
    })
}

pub(crate) fn toolkit(tools: usize) -> Toolkit {
    Toolkit::from_tools((0..tools).map(|n| {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city to look up, in English"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city"],
        });
        define_tool(
            format!("tool_{n}"),
            "Looks up the current weather of a city",
            Some(schema),
            |args: Value, _context| async move {
                let city = args.get("city").and_then(Value::as_str).unwrap_or("?");
                Ok::<_, String>(format!("33 degrees in {city}"))
            },
        )
    }))
}

fn run_over(base_url: String, toolkit: Toolkit) -> Work {
    let client = client(base_url);
    Box::new(move || {
        let (client, toolkit) = (client.clone(), toolkit.clone());
        Box::pin(async move {
            let result = client.run("What is the weather in Chennai and Kochi?", &toolkit).await?;
            if result.tool_call_count == 2 { Ok(()) } else { Err("two tool calls were expected".into()) }
        })
    })
}

fn history(base_url: String) -> Work {
    let client = client(base_url);
    let history: Transcript = (0..1000)
        .map(|n| {
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            let content = format!("Message {n} of a long conversation about many things.");
            json!({"role": role, "content": content}).into()
        })
        .collect();
    Box::new(move || {
        let (client, history) = (client.clone(), history.clone());
        Box::pin(async move {
            let options = RunOptions { history, ..Default::default() };
            let result = client.run_with("And one more thing.", &Toolkit::default(), options).await?;
            if result.messages.len() == 1002 { Ok(()) } else { Err("1002 messages were expected".into()) }
        })
    })
}

fn stream(base_url: String) -> Work {
    let client = client(base_url);
    Box::new(move || {
        let client = client.clone();
        Box::pin(async move {
            let mut stream = client.stream("Tell me a long story.", &Toolkit::default());
            let mut deltas = 0;
            while let Some(event) = stream.next().await {
                if let StreamEvent::Text { delta } = event? {
                    deltas += usize::from(!delta.is_empty());
                }
            }
            if deltas == 500 {
                Ok(())
            } else {
                Err(format!("500 deltas were expected, {deltas} came").into())
            }
        })
    })
}
