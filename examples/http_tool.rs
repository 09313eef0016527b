//! Two endpoints of an HTTP API as tools: called directly, then by a model.
//!
//! `cargo run -p toolnexus --example http_tool` needs no key: the API and the model both run here.

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toolnexus::http::{HttpToolOptions, ResultMode, http_tool};
use toolnexus::prelude::*;
use toolnexus_testkit::model::{Dialect, ModelServer, Reply};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let api = start_issue_tracker().await?;

    let get_issue = http_tool(HttpToolOptions {
        name: "get_issue".into(),
        description: "Shows an issue".into(),
        url: format!("{api}/issues/{{number}}"),
        result_mode: ResultMode::Json,
        input_schema: Some(json!({
            "type": "object",
            "properties": {"number": {"type": "integer"}},
            "required": ["number"],
        })),
        ..Default::default()
    });
    let add_comment = http_tool(HttpToolOptions {
        name: "add_comment".into(),
        description: "Adds a comment to an issue".into(),
        method: "POST".into(),
        url: format!("{api}/issues/{{number}}/comments"),
        // Read from the environment at each call, and shown to nobody.
        headers: [("Authorization".into(), "Bearer ${ISSUES_TOKEN}".into())].into(),
        ..Default::default()
    });

    println!("called directly:");
    println!("  {}", get_issue.execute(json!({"number": 42})).await.output);
    println!("  {}\n", get_issue.execute(json!({"number": "4 2"})).await.output);

    // A model that looks at the issue, comments, and answers. A real one goes here:
    // `base_url: "https://api.openai.com/v1".into()`.
    let turn = || Reply::model(Dialect::OpenAi);
    let model = ModelServer::start([
        turn().tool_call("call_1", "get_issue", json!({"number": 42})),
        turn().tool_call("call_2", "add_comment", json!({"number": 42, "text": "Fixed in 1.4.2."})),
        turn().text("Issue 42 is fixed in 1.4.2; I have said so there."),
    ])
    .await?;
    let client = create_client(ClientOptions {
        base_url: model.base_url(),
        model: "scripted".into(),
        api_key: "unused".into(),
        ..Default::default()
    });
    let toolkit = Toolkit::from_tools([get_issue, add_comment]);
    let result = client.run("Is issue 42 fixed? Tell its reporter.", &toolkit).await?;
    println!("called by a model:");
    for call in &result.tool_calls {
        println!("  {}({}) -> {}", call.name, Value::Object(call.args.clone()), call.output);
    }
    println!("  {}", result.text);
    Ok(())
}

/// Serves two endpoints; gives its address.
async fn start_issue_tracker() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(answer(connection));
        }
    });
    Ok(address)
}

async fn answer(connection: TcpStream) -> std::io::Result<()> {
    let mut connection = BufReader::new(connection);
    let (mut line, mut length) = (String::new(), 0);
    connection.read_line(&mut line).await?;
    loop {
        let mut header = String::new();
        connection.read_line(&mut header).await?;
        match header.to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await?;
    let (status, answer) = match line.trim_end_matches(" HTTP/1.1\r\n") {
        "GET /issues/42" => ("200 OK", r#"{"title": "Login fails", "state": "closed", "fixed_in": "1.4.2"}"#),
        "POST /issues/42/comments" => ("201 Created", r#"{"id":7}"#),
        _ => ("404 Not Found", r#"{"error":"no such issue"}"#),
    };
    let answer =
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}", answer.len());
    connection.write_all(answer.as_bytes()).await
}
