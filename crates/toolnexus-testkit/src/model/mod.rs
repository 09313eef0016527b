//! A scripted model server.
//!
//! [`ModelServer`] is a real HTTP/1.1 server on a free loopback port. It answers each request
//! with the next [`Reply`] of its [`Script`] and keeps the exact bytes of everything it was sent
//! as [`RecordedRequest`]s.
//!
//! There are two ways to say what it answers:
//!
//! * [`ModelReply`] ([`Reply::openai`], [`Reply::anthropic`], [`Reply::gemini`]) describes the
//!   *turn of a model*: texts, tool calls, usage. Whether it goes out as one JSON body or as a
//!   stream of server-sent events is decided by what the request asked for.
//! * [`Reply`] describes an *HTTP response*: status, headers, body, chunk boundaries, waits and
//!   faults, down to the bytes on the socket ([`Reply::raw`]).
//!
//! Timing is made of handshakes: a [`Gate`] holds the next bytes back until the test has seen
//! the effect of the previous ones, so that no test needs to sleep. Delays are tokio sleeps and
//! take no time on a paused clock; mind that tokio moves a paused clock forward whenever all
//! tasks wait, so also while bytes travel through a socket, and a client's timeout may fire then.
//!
//! Every reply is turned into prepared bytes when the script is made, so answering costs one
//! read and one write. With [`ModelServer::start_on_thread`] that happens on a thread of its own
//! and a benchmark can attribute the rest of the CPU time to the client.
//!
//! The server speaks HTTP/1.1 by hand (`httparse` plus sockets) and not through a server
//! framework: a framework hides what this one must show (the original header names, their
//! order) and refuses to do what this one must do (break its promises in the middle of a body).
//!
//! ```
//! use serde_json::json;
//! use toolnexus_testkit::model::{ModelServer, Reply, Script};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let script = Script::new()
//!     .reply(Reply::openai().tool_call("call_1", "add", json!({"a": 2, "b": 3})).usage(10, 5))
//!     .reply(Reply::status(429).header("Retry-After", "2"))
//!     .reply(Reply::openai().text("2 + 3 = 5").usage(15, 6));
//! let server = ModelServer::start(script).await?;
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! assert!(server.base_url().ends_with("/v1"));
//! // … run a client against server.base_url(), then look at what it sent:
//! assert_eq!(server.requests().len(), 0);
//! server.stop().await;
//! # Ok(())
//! # }
//! ```

mod assemble;
mod connection;
mod dialect;
mod exchange;
mod gate;
mod journal;
mod port;
mod reply;
mod request;
mod script;
mod server;
mod sse;
mod turn;

pub use dialect::Dialect;
pub use gate::Gate;
pub use port::{RefusedPort, free_port_url};
pub use reply::Reply;
pub use request::RecordedRequest;
pub use script::Script;
pub use server::ModelServer;
pub use sse::{sse_data, sse_event};
pub use turn::ModelReply;
