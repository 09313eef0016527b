//! `toolnexus models`: what a provider has.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic in a test is its failure report")]

mod common;

use common::Place;
use serde_json::json;
use toolnexus_testkit::model::{ModelServer, Reply};

fn two_models() -> Reply {
    Reply::json(json!({"data": [
        {"id": "z-large", "name": "Z Large", "context_length": 131_072},
        {"id": "a\u{1b}[31msmall"},
    ]}))
}

// CLIENT-137, CLIENT-138
#[tokio::test]
async fn models_are_listed_for_people_and_programs() {
    let server = ModelServer::start([two_models(), two_models()]).await.unwrap();
    let base_url = server.base_url();
    let ran = Place::new().run(&["models", "--base-url", &base_url]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    assert!(ran.stdout.ends_with("\nz-large      Z Large, 131072 tokens\n2 models\n"), "{ran:#?}");
    // A name from elsewhere does not reach the terminal as it is.
    assert!(!ran.stdout.contains('\u{1b}'), "{ran:#?}");

    let place = Place::new().env("MY_KEY", "sk-of-this-test");
    let args = ["models", "--json", "--base-url", &base_url, "--api-key-env", "MY_KEY"];
    let ran = place.run(&args).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
    assert_eq!(
        ran.document(),
        json!({
            "provider": server.origin(),
            "style": "openai",
            "models": [
                {"id": "a\u{1b}[31msmall"},
                {"id": "z-large", "name": "Z Large", "context_length": 131_072},
            ],
        })
    );
    let requests = server.requests();
    assert_eq!(requests[0].path(), "/v1/models");
    assert_eq!(requests[0].header("authorization"), Some("Bearer unused"));
    assert_eq!(requests[1].header("authorization"), Some("Bearer sk-of-this-test"));
}

#[tokio::test]
async fn the_style_of_the_provider_is_spoken() {
    let page = json!({"models": [{"name": "models/gemini-x", "inputTokenLimit": 7}]});
    let server = ModelServer::start(Reply::json(page)).await.unwrap();
    let ran = Place::new().run(&["models", "--style", "gemini", "--base-url", &server.origin()]).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "gemini-x  7 tokens\n1 model\n"), "{ran:#?}");
    assert_eq!(server.requests()[0].path(), "/v1beta/models?pageSize=1000");
}

#[tokio::test]
async fn failures_have_their_remedy() {
    for (reply, said) in [
        (Reply::status(404), "has no list of models where one should be (404); check --base-url"),
        (Reply::status(401), "refused the key (401; "),
        (Reply::status(200).body("pong"), "does --base-url lead to a model API?"),
    ] {
        let server = ModelServer::start(reply).await.unwrap();
        let ran = Place::new().run(&["models", "--base-url", &server.base_url()]).await;
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{ran:#?}");
        ran.says(&["error: ", &server.origin(), said]);
    }
    let server = ModelServer::start(Reply::hang()).await.unwrap();
    let args = ["models", "--timeout", "100ms", "--base-url", &server.base_url()];
    let ran = Place::new().run(&args).await;
    assert_eq!(ran.code, 5, "{ran:#?}");
    ran.says(&["the time of --timeout is up and the list of models has not come"]);
    // Nothing says where to ask.
    let ran = Place::new().run(&["models"]).await;
    assert_eq!(ran.code, 2, "{ran:#?}");
    ran.says(&["no model to talk to", "--base-url"]);
}
