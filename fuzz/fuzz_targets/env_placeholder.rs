//! `${NAME}` placeholders against a reference that looks at one position at a time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolnexus_core::env;

fuzz_target!(|text: &str| {
    let mut names = Vec::new();
    let expected = reference(text, &mut names);
    assert_eq!(env::expand_with(text, value), expected);
    assert_eq!(env::variables(text), names);
    let removed = env::without_variables(text);
    assert_eq!(removed.len() + names.iter().map(|name| name.len() + 3).sum::<usize>(), text.len());
});

/// Half of all variables are unset; a value may look like a placeholder itself.
fn value(name: &str) -> Option<String> {
    (name.len() % 2 == 1).then(|| format!("${{{name}}}$"))
}

fn reference<'a>(text: &'a str, names: &mut Vec<&'a str>) -> String {
    let mut out = String::new();
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        let name = text[at..].strip_prefix("${").map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest.split_at(end)
        });
        match name {
            Some((name, rest)) if !name.is_empty() && rest.starts_with('}') => {
                out.push_str(&value(name).unwrap_or_default());
                names.push(name);
                at += name.len() + 3;
            }
            _ => {
                out.push(next);
                at += next.len_utf8();
            }
        }
    }
    out
}
