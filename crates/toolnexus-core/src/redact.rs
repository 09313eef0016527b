//! What must not be shown: one place for all of it.

use std::borrow::Cow;

use serde_json::Value;

/// The keys of a provider's error body whose values identify a person or account.
pub const REDACTED_BODY_KEYS: [&str; 4] = ["user_id", "account_id", "org_id", "organization"];

/// What stands in place of a redacted value.
pub const REDACTION_TOKEN: &str = "«redacted»";

/// Replaces identifying values ([`REDACTED_BODY_KEYS`], at any depth) in a provider's error body.
///
/// JSON with nothing to redact stays byte for byte; otherwise it is written compactly in its own
/// key order. In text that is not JSON the same keys are looked for as `"key": "value"`.
///
/// ```
/// use toolnexus_core::redact::redact_body;
/// assert_eq!(redact_body(r#"{"org_id": "org_9"}"#), r#"{"org_id":"«redacted»"}"#);
/// assert_eq!(redact_body(r#"{"a": 1}"#), r#"{"a": 1}"#);
/// ```
pub fn redact_body(body: &str) -> Cow<'_, str> {
    // A key may be spelled with escapes, which only a parser reads.
    if !body.contains("\\u") && !REDACTED_BODY_KEYS.iter().any(|key| body.contains(key)) {
        return Cow::Borrowed(body);
    }
    match serde_json::from_str::<Value>(body) {
        Ok(mut value) => {
            if redact_value(&mut value) {
                Cow::Owned(value.to_string())
            } else {
                Cow::Borrowed(body)
            }
        }
        Err(_) => redact_text(body),
    }
}

/// Replaces every occurrence of `secret` (8 characters or more) in `text`.
pub fn redact_secret<'a>(text: &'a str, secret: &str) -> Cow<'a, str> {
    if secret.chars().count() >= 8 && text.contains(secret) {
        Cow::Owned(text.replace(secret, REDACTION_TOKEN))
    } else {
        Cow::Borrowed(text)
    }
}

/// `text` cut to `limit` characters, with `…` appended if it was cut.
pub fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    match text.char_indices().nth(limit) {
        Some((at, _)) => Cow::Owned(format!("{}…", text.get(..at).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

fn redact_value(value: &mut Value) -> bool {
    match value {
        Value::Object(map) => {
            let mut changed = false;
            for (key, child) in map.iter_mut() {
                if REDACTED_BODY_KEYS.contains(&key.as_str()) {
                    *child = Value::String(REDACTION_TOKEN.into());
                    changed = true;
                } else {
                    changed |= redact_value(child);
                }
            }
            changed
        }
        Value::Array(items) => {
            // Every item is visited, whatever the ones before it held.
            items.iter_mut().map(redact_value).filter(|changed| *changed).count() > 0
        }
        _ => false,
    }
}

fn redact_text(body: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(body.len());
    let mut done = 0;
    // The value's span is found by hand: the text is not JSON, so only this shape is looked for.
    for (at, _) in body.match_indices('"') {
        if at < done {
            continue;
        }
        let Some((start, end)) = value_of_key(body, at) else { continue };
        out.push_str(body.get(done..start).unwrap_or_default());
        out.push_str(REDACTION_TOKEN);
        done = end;
    }
    if done == 0 {
        return Cow::Borrowed(body);
    }
    out.push_str(body.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

/// The span of the string value behind the redacted key whose quote stands at `at`, if one does.
fn value_of_key(text: &str, at: usize) -> Option<(usize, usize)> {
    let quoted = text.get(at + 1..)?;
    let after_key = REDACTED_BODY_KEYS.iter().find_map(|key| quoted.strip_prefix(key)?.strip_prefix('"'))?;
    let value = after_key.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let start = text.len() - value.len();
    Some((start, start + string_end(value)))
}

/// Where a JSON string that has just been opened ends: before its quote, or at the end of text.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLIENT-106, case E1
    #[test]
    fn identifying_values_go_and_keys_stay() {
        let body = r#"{"error":{"message":"no credit","user_id":"user_2abcdefghijkl","org_id":"org_9","account_id":"acct_7","organization":"acme"}}"#;
        assert_eq!(
            redact_body(body),
            r#"{"error":{"message":"no credit","user_id":"«redacted»","org_id":"«redacted»","account_id":"«redacted»","organization":"«redacted»"}}"#
        );
        assert_eq!(redact_body(r#"[{"user_id":{"deep":1}}]"#), r#"[{"user_id":"«redacted»"}]"#);
        let plain = "{ \"a\" : [1, 2] }";
        assert_eq!(redact_body(plain), plain);
        let mentioned = r#"{ "message": "no user_id given" }"#;
        assert_eq!(redact_body(mentioned), mentioned);
    }

    // CLIENT-106: a body that is not JSON
    #[test]
    fn text_is_searched_for_the_same_keys() {
        assert_eq!(
            redact_body(r#"oops {"user_id": "u\"1", "org_id" : "o" tail"#),
            r#"oops {"user_id": "«redacted»", "org_id" : "«redacted»" tail"#
        );
        assert_eq!(redact_body(r#"cut {"user_id":"abc"#), r#"cut {"user_id":"«redacted»"#);
        assert_eq!(redact_body("user_id alone"), "user_id alone");
    }

    // CLIENT-106: linear; looking for every key anew behind each would take minutes here
    #[test]
    fn a_long_text_is_searched_once() {
        let body = format!("not JSON {}", r#""org_id":"o","#.repeat(1 << 16));
        assert_eq!(redact_body(&body), body.replace("\"o\"", "\"«redacted»\""));
    }

    // CLIENT-106: a key may be spelled with escapes
    #[test]
    fn a_key_spelled_with_escapes_is_the_same_key() {
        assert_eq!(redact_body(r#"{"user\u005fid":"user_2abc"}"#), r#"{"user_id":"«redacted»"}"#);
        let plain = r#"{ "message": "caf\u00e9" }"#;
        assert_eq!(redact_body(plain), plain);
    }

    // CLIENT-10, case K6
    #[test]
    fn a_secret_of_eight_characters_is_replaced() {
        assert_eq!(redact_secret("bad key sk-test-123456", "sk-test-123456"), "bad key «redacted»");
        assert_eq!(redact_secret("a short one", "short"), "a short one");
    }

    // CLIENT-108
    #[test]
    fn cutting_counts_characters() {
        assert_eq!(cut("ééé", 3), "ééé");
        assert_eq!(cut("éééé", 3), "ééé…");
    }
}
