//! Text as a provider's error body: no identifying value is left, and nothing else is changed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolnexus_core::redact::{REDACTED_BODY_KEYS, REDACTION_TOKEN, cut, redact_body, redact_secret};

fuzz_target!(|body: &str| {
    let shown = redact_body(body);
    // What is no JSON may become JSON when a broken text in it is replaced; then more is seen.
    if serde_json::from_str::<Value>(body).is_ok() || serde_json::from_str::<Value>(&shown).is_err() {
        assert_eq!(redact_body(&shown), shown, "redacting twice changes nothing more");
    }
    if let Ok(mut value) = serde_json::from_str::<Value>(body) {
        if reference(&mut value) {
            assert_eq!(shown, value.to_string());
        } else {
            assert_eq!(shown, body, "nothing to redact stays byte for byte");
        }
    }
    let limit = body.len() / 2;
    let short = cut(body, limit);
    assert!(short.chars().count() <= limit + 1);
    if let Some(secret) = body.get(..8) {
        // A secret may overlap itself or the token, but where it stood it does not stand any more.
        assert_eq!(redact_secret(body, secret).starts_with(secret), secret.chars().count() < 8);
    }
});

/// Replaces what must not be shown; true if there was something.
fn reference(value: &mut Value) -> bool {
    let mut found = false;
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if REDACTED_BODY_KEYS.contains(&key.as_str()) {
                    *value = REDACTION_TOKEN.into();
                    found = true;
                } else {
                    found |= reference(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| found |= reference(item)),
        _ => {}
    }
    found
}
