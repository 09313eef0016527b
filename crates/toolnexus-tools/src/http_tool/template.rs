//! The URL of a call: placeholders filled, query appended.
//!
//! The template is cut into scheme, authority and the rest before anything is filled in, by the rules
//! of the parser that reads the result. So a value can never move a boundary: in the authority it is
//! one host label, elsewhere it is percent-encoded.

use serde_json::{Map, Value};
use url::Url;

use super::encode::{encoded, pairs, text_of};

/// Why there is no URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadUrl {
    /// The declaration is at fault.
    Unreadable,
    /// The value of this placeholder is.
    Value(String),
}

/// The URL of a call. Takes the arguments that it uses out of `args`.
pub(super) fn url(
    template: &str,
    query: &[String],
    query_takes_rest: bool,
    args: &mut Map<String, Value>,
) -> Result<Url, BadUrl> {
    // Parsers drop control characters wherever they are, which would move the boundaries.
    if template.chars().any(|c| c.is_ascii_control()) {
        return Err(BadUrl::Unreadable);
    }
    let (scheme, behind) = template.split_once("://").ok_or(BadUrl::Unreadable)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(BadUrl::Unreadable);
    }
    let (authority, rest) = behind.find(['/', '\\', '?', '#']).map_or((behind, ""), |at| behind.split_at(at));
    // A parser would take what follows for the host.
    if authority.is_empty() {
        return Err(BadUrl::Unreadable);
    }
    let (path_and_query, fragment) = rest.find('#').map_or((rest, ""), |at| rest.split_at(at));
    let (path, own_query) =
        path_and_query.find('?').map_or((path_and_query, ""), |at| path_and_query.split_at(at));

    let mut filler = Filler { args, used: Vec::new() };
    let authority = filler.authority(authority)?;
    let label = filler.used.last().cloned();
    let path = filler.path(path)?;
    let own_query = filler.text(own_query)?;
    let fragment = filler.text(fragment)?;
    let used = filler.used;
    args.retain(|name, _| !used.contains(name));

    let mut appended = Vec::new();
    for name in query {
        if let Some(value) = args.remove(name) {
            appended.push((name.clone(), value));
        }
    }
    if query_takes_rest {
        let mut rest: Vec<(String, Value)> = std::mem::take(args).into_iter().collect();
        rest.sort_by(|(a, _), (b, _)| a.cmp(b));
        appended.extend(rest);
    }
    let appended = pairs(appended.iter().map(|(name, value)| (name.as_str(), value)));

    let mut text = format!("{scheme}://{authority}{path}{own_query}");
    if !appended.is_empty() {
        text.push(if own_query.is_empty() { '?' } else { '&' });
        text.push_str(&appended);
    }
    text.push_str(&fragment);
    // The authority is all that a value can spoil (`xn--` and what is no number of its own).
    let unreadable = || label.clone().map_or(BadUrl::Unreadable, BadUrl::Value);
    let url = Url::parse(&text).map_err(|_| unreadable())?;
    if url.has_host() { Ok(url) } else { Err(BadUrl::Unreadable) }
}

struct Filler<'a> {
    args: &'a Map<String, Value>,
    used: Vec<String>,
}

/// A piece of a template.
enum Piece<'a> {
    Text(&'a str),
    /// The name within the braces.
    Placeholder(&'a str),
}

impl Filler<'_> {
    fn value(&mut self, name: &str) -> Option<Result<String, BadUrl>> {
        let value = self.args.get(name)?;
        self.used.push(name.to_owned());
        let text = text_of(value);
        // Parsers fold dot segments, encoded or not.
        if matches!(text.as_str(), "." | "..") {
            return Some(Err(BadUrl::Value(name.to_owned())));
        }
        Some(Ok(text))
    }

    fn authority(&mut self, template: &str) -> Result<String, BadUrl> {
        let mut out = String::new();
        for piece in pieces(template) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Placeholder(name) => match self.value(name) {
                    Some(text) => {
                        let label = text?;
                        if !is_label(&label) {
                            return Err(BadUrl::Value(name.to_owned()));
                        }
                        out.push_str(&label);
                    }
                    None => out.push_str(&format!("{{{name}}}")),
                },
            }
        }
        Ok(out)
    }

    /// Each segment by itself, so that no combination of values becomes a dot segment either.
    fn path(&mut self, template: &str) -> Result<String, BadUrl> {
        let mut out = String::new();
        for segment in template.split_inclusive(['/', '\\']) {
            let before = self.used.len();
            let filled = self.text(segment)?;
            if let Some(name) = self.used.get(before..).and_then(<[String]>::first)
                && is_dot_segment(filled.trim_end_matches(['/', '\\']))
            {
                return Err(BadUrl::Value(name.clone()));
            }
            out.push_str(&filled);
        }
        Ok(out)
    }

    fn text(&mut self, template: &str) -> Result<String, BadUrl> {
        let mut out = String::new();
        for piece in pieces(template) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Placeholder(name) => match self.value(name) {
                    Some(text) => out.push_str(&encoded(&text?)),
                    None => out.push_str(&format!("%7B{name}%7D")),
                },
            }
        }
        Ok(out)
    }
}

fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a parser would fold the segment away.
fn is_dot_segment(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    matches!(plain.as_str(), "." | "..")
}

fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, behind)) = placeholder(rest) {
            rest = behind;
            return Some(Piece::Placeholder(name));
        }
        let mut braces = rest.match_indices('{').map(|(at, _)| at).filter(|at| *at > 0);
        let end = braces.find(|at| rest.get(*at..).and_then(placeholder).is_some()).unwrap_or(rest.len());
        let (text, behind) = rest.split_at(end);
        rest = behind;
        Some(Piece::Text(text))
    })
}

/// The placeholder that a text begins with, and what is behind it.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (name, behind) = text.strip_prefix('{')?.split_once('}')?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '~' | '-');
    (!name.is_empty() && name.chars().all(fits)).then_some((name, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn filled(template: &str, args: Value) -> Result<String, BadUrl> {
        let mut args = args.as_object().cloned().unwrap();
        url(template, &[], false, &mut args).map(Into::into)
    }

    fn bad(name: &str) -> Result<String, BadUrl> {
        Err(BadUrl::Value(name.to_owned()))
    }

    // CORE-90, cases 53 and 54
    #[test]
    fn placeholders_are_filled_wherever_they_stand() {
        let args = json!({"id": "a/b c", "x.y~-_1": 7, "gone": null, "deep": {"b": 1}});
        assert_eq!(filled("http://h/{id}/{id}", args.clone()).unwrap(), "http://h/a%2Fb%20c/a%2Fb%20c");
        assert_eq!(
            filled("http://h/{x.y~-_1}?q={id}#{id}", args.clone()).unwrap(),
            "http://h/7?q=a%2Fb%20c#a%2Fb%20c"
        );
        assert_eq!(
            filled("http://h/[{gone}]/{deep}", args.clone()).unwrap(),
            "http://h/[]/%7B%22b%22%3A1%7D"
        );
        // No such argument, in path and query.
        assert_eq!(filled("http://h/{no}?q={no}", args.clone()).unwrap(), "http://h/%7Bno%7D?q=%7Bno%7D");
        // What is no placeholder is text.
        assert_eq!(
            filled("http://h/{}/{{id}}/{a b}", args).unwrap(),
            "http://h/%7B%7D/%7Ba%2Fb%20c%7D/%7Ba%20b%7D"
        );
    }

    // CORE-91
    #[test]
    fn values_never_become_dot_segments() {
        for dots in [".", ".."] {
            assert_eq!(filled("http://h/a/{x}/b", json!({"x": dots})), bad("x"));
            assert_eq!(filled("http://h/a?q={x}", json!({"x": dots})), bad("x"));
        }
        assert_eq!(filled("http://h/a/.{x}/b", json!({"x": ""})), bad("x"));
        assert_eq!(filled("http://h/a/%2e{x}", json!({"x": ""})), bad("x"));
        assert_eq!(filled("http://h/a/{x}{y}", json!({"x": "", "y": "."})), bad("y"));
        assert_eq!(filled("http://h/a/..{x}", json!({"x": "."})), bad("x"));
        assert_eq!(filled("http://h/a/{x}", json!({"x": "..."})).unwrap(), "http://h/a/...");
        assert_eq!(filled("http://h/a/{x}", json!({"x": "%2e%2e"})).unwrap(), "http://h/a/%252e%252e");
    }

    // CORE-143, case 75
    #[test]
    fn a_value_in_the_authority_is_one_label() {
        let template = "https://{h}.api.example.com/x";
        assert_eq!(filled(template, json!({"h": "eu"})).unwrap(), "https://eu.api.example.com/x");
        let long = "a".repeat(64);
        for value in ["evil.com", "a@b", "a/b", "a:1", "", "é", "a b", "a\n", long.as_str()] {
            assert_eq!(filled(template, json!({ "h": value })), bad("h"), "{value:?}");
        }
        assert_eq!(filled(template, json!({"h": null})), bad("h"));
        assert_eq!(filled("http://h?x={h}", json!({"h": "a.b"})).unwrap(), "http://h/?x=a.b");
        assert_eq!(filled(template, json!({"h": "xn--a"})), bad("h"));
        // A scheme is never filled.
        assert_eq!(filled("{s}://h/", json!({"s": "http"})), Err(BadUrl::Unreadable));
    }

    // CORE-146
    #[test]
    fn what_is_no_http_url_is_unreadable() {
        for template in [
            "",
            "h/x",
            "/x",
            "ftp://h/",
            "http:h",
            "http:/h",
            "http://",
            "http:///h",
            "ht\ntp://h",
            "http://h:99999/",
            "javascript://h",
            "http://[::1",
            "http://a b/",
        ] {
            assert_eq!(filled(template, json!({})), Err(BadUrl::Unreadable), "{template:?}");
        }
    }

    // CORE-89, CORE-94
    #[test]
    fn the_query_is_appended_in_order() {
        let mut args =
            json!({"b": 1, "a": [1], "z": null, "kept": "x", "id": "7"}).as_object().cloned().unwrap();
        let named = ["b".to_owned(), "missing".into(), "a".into(), "id".into(), "z".into()];
        let url = url("http://h/{id}?x=1#frag", &named, false, &mut args).unwrap();
        assert_eq!(url.as_str(), "http://h/7?x=1&b=1&a=%5B1%5D#frag");
        assert_eq!(Value::Object(args), json!({"kept": "x"}));

        let mut args = json!({"d": 1, "c": 2, "b": null, "a": 3}).as_object().cloned().unwrap();
        let url = super::url("http://h", &["d".to_owned()], true, &mut args).unwrap();
        assert_eq!((url.as_str(), args.len()), ("http://h/?d=1&a=3&c=2", 0));
    }

    proptest! {
        // CORE-90, CORE-92, CORE-94: the url crate reads back what was filled in, and nothing moves
        #[test]
        fn values_stay_where_they_were_put(a in any::<String>(), b in any::<String>(), key in any::<String>()) {
            let mut args = Map::new();
            args.insert("key".to_owned() + &key, json!(b));
            args.insert("a".into(), json!(a));
            let result = url("https://user@h.example:8443/one/{a}/p{a}s/end?own={a}", &[], true, &mut args);
            if matches!(a.as_str(), "." | "..") {
                prop_assert_eq!(result, Err(BadUrl::Value("a".into())));
                return Ok(());
            }
            let url = result.unwrap();
            prop_assert_eq!((url.host_str(), url.port(), url.username()), (Some("h.example"), Some(8443), "user"));
            let read = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
            let segments: Vec<String> = url.path_segments().unwrap().map(read).collect();
            prop_assert_eq!(segments, ["one".to_owned(), a.clone(), format!("p{a}s"), "end".into()]);
            let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            prop_assert_eq!(pairs, [("own".to_owned(), a), ("key".to_owned() + &key, b)]);
            prop_assert_eq!(url.fragment(), None);
        }

        // CORE-143: whatever is said, the host stays below the declared domain
        #[test]
        fn no_value_leaves_the_domain(value in any::<String>(), tail in "[/?#:@\\\\]{0,2}[a-z.]{0,8}") {
            let mut args = json!({"h": value + &tail}).as_object().cloned().unwrap();
            if let Ok(url) = url("https://{h}.example.com/", &[], true, &mut args) {
                let host = url.host_str().unwrap();
                prop_assert!(host.ends_with(".example.com") && host.matches('.').count() == 2, "{host}");
                prop_assert_eq!((url.port(), url.username(), url.path()), (None, "", "/"));
            }
        }

        #[test]
        fn any_template_is_read_or_refused(template in any::<String>(), value in any::<String>()) {
            let mut args = json!({"a": value}).as_object().cloned().unwrap();
            let _ = url(&template, &["a".to_owned()], true, &mut args);
            let _ = url(&format!("http://{template}"), &[], true, &mut args);
        }
    }
}
