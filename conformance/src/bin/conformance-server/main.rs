//! The server that the conformance suite wants to meet, on a free port of loopback, for as long as its
//! standard input is open. Its first line of output is its URL.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is where the program speaks")]

use std::process::ExitCode;

use tokio::io::AsyncReadExt as _;
use toolnexus_conformance::Everything;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let server = match Everything::start().await {
        Ok(server) => server,
        Err(error) => {
            eprintln!("conformance-server: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", server.url());
    let mut ignored = [0; 1024];
    while tokio::io::stdin().read(&mut ignored).await.is_ok_and(|read| read > 0) {}
    server.stop().await;
    ExitCode::SUCCESS
}
