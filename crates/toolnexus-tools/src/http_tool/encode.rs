//! Arguments as text of a URL or a form.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The text percent-encoded: a space is `%20`, a slash `%2F`.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The text of an argument: a string as it is, `null` the empty text, all else compact JSON.
pub(super) fn text_of(argument: &Value) -> String {
    match argument {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// `k=v` pairs joined by `&`, without those that are `null`.
pub(super) fn pairs<'a>(arguments: impl IntoIterator<Item = (&'a str, &'a Value)>) -> String {
    let given = arguments.into_iter().filter(|(_, value)| !value.is_null());
    let pairs: Vec<String> =
        given.map(|(name, value)| format!("{}={}", encoded(name), encoded(&text_of(value)))).collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    // CORE-92, CORE-93
    #[test]
    fn arguments_are_text_and_text_is_percent_encoded() {
        assert_eq!(encoded("a b/c?d&e=f+g%é~-_.'"), "a%20b%2Fc%3Fd%26e%3Df%2Bg%25%C3%A9~-_.%27");
        assert_eq!(text_of(&json!("as is ")), "as is ");
        assert_eq!(text_of(&json!({"b": [1, null], "a": true})), r#"{"b":[1,null],"a":true}"#);
        assert_eq!((text_of(&json!(1.5)), text_of(&json!(true))), ("1.5".into(), "true".into()));
        let (a, n) = (json!("x y"), json!(null));
        assert_eq!(pairs([("k 1", &a), ("gone", &n), ("z", &a)]), "k%201=x%20y&z=x%20y");
    }

    proptest! {
        // CORE-92, CORE-95: whoever reads a form reads the arguments
        #[test]
        fn forms_read_back(arguments in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..6)) {
            let values: Vec<(String, Value)> =
                arguments.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
            let form = pairs(values.iter().map(|(name, value)| (name.as_str(), value)));
            let read: Vec<(String, String)> = url::form_urlencoded::parse(form.as_bytes()).into_owned().collect();
            prop_assert_eq!(read, arguments.into_iter().collect::<Vec<_>>());
        }
    }
}
