//! The files that a Markdown text points at.

/// The destinations of links, images and link definitions that are relative paths, each once, in order.
///
/// Code is passed over: what stands there is shown, not linked. So are templates such as `{name}.md`.
pub(super) fn relative_links(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(open) = fence {
            // A fence ends with at least as many of the same sign, and nothing else.
            let signs: &[char] = if open.starts_with('`') { &['`'] } else { &['~'] };
            if trimmed.starts_with(open) && trimmed.trim_matches(signs).is_empty() {
                fence = None;
            }
            continue;
        }
        fence = opened_fence(trimmed);
        if fence.is_some() {
            continue;
        }
        let line = without_code(trimmed);
        let definition = line
            .strip_prefix('[')
            .filter(|rest| !rest.starts_with('^'))
            .and_then(|rest| rest.split_once("]:"))
            .filter(|(name, _)| !name.contains(']'))
            .map(|(_, destination)| destination);
        let inline = line.match_indices("](").filter_map(|(at, sign)| line.get(at + sign.len()..));
        for rest in definition.into_iter().chain(inline) {
            let link = destination(rest);
            if is_relative_path(link) && !found.iter().any(|known| known == link) {
                found.push(link.to_owned());
            }
        }
    }
    found
}

/// The signs of a fence that a line opens.
fn opened_fence(line: &str) -> Option<&str> {
    let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let rest = line.trim_start_matches(sign);
    let signs = line.get(..line.len() - rest.len())?;
    // Backticks may not stand behind an opening fence of backticks: that is code within a line.
    (signs.len() >= 3 && !(sign == '`' && rest.contains('`'))).then_some(signs)
}

/// The line with blanks in the place of what is between backticks.
fn without_code(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let (before, from) = rest.split_at(start);
        let after = from.trim_start_matches('`');
        let (signs, _) = from.split_at(from.len() - after.len());
        let end = after.match_indices(signs).find(|(at, _)| {
            let next = after.get(at + signs.len()..).unwrap_or_default();
            !next.starts_with('`') && !after.get(..*at).unwrap_or_default().ends_with('`')
        });
        out.push_str(before);
        match end {
            Some((at, _)) => {
                out.push(' ');
                rest = after.get(at + signs.len()..).unwrap_or_default();
            }
            None => {
                out.push_str(signs);
                rest = after;
            }
        }
    }
    out + rest
}

/// The destination at the beginning of what follows `](` or `]:`.
fn destination(rest: &str) -> &str {
    let rest = rest.trim_start();
    if let Some(bracketed) = rest.strip_prefix('<') {
        return bracketed.split('>').next().unwrap_or_default();
    }
    let mut depth = 0_u32;
    let end = rest.find(|c: char| match c {
        '(' => {
            depth += 1;
            false
        }
        ')' if depth == 0 => true,
        ')' => {
            depth -= 1;
            false
        }
        other => other.is_whitespace(),
    });
    rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
}

/// Whether it names a file beside the text: no address, no place on the same page, no template.
fn is_relative_path(link: &str) -> bool {
    let path = link.split(['?', '#']).next().unwrap_or_default();
    let first = path.split('/').next().unwrap_or_default();
    !path.is_empty()
        && !path.starts_with(['/', '\\'])
        && !first.contains(':')
        && !path.contains(['{', '}', '$', '*', '<', '>', '…'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn links_images_and_definitions_are_found() {
        let text = "\
See [a](docs/a.md), ![b](img/b.png \"Title\") and [c](<with blank.md>).
Again [a](docs/a.md#part) [d](d_(1).md) [nested [e]](e.md?x=1)
[f]: ./f.md 'Title'
  [g]: <g h.md>
- item [h](../h.md)
[![i](i.png)](i.md)
";
        assert_eq!(
            relative_links(text),
            [
                "docs/a.md",
                "img/b.png",
                "with blank.md",
                "docs/a.md#part",
                "d_(1).md",
                "e.md?x=1",
                "./f.md",
                "g h.md",
                "../h.md",
                "i.png",
                "i.md",
            ]
        );
    }

    #[test]
    fn what_is_no_file_of_the_skill_is_left_alone() {
        let text = "\
[web](https://example.com/x.md) [mail](mailto:a@b.c) [here](#anchor) [root](/etc/x) [empty]() [c](C:\\x.md)
[template](pages/{id}.md) [glob](src/*.rs) [var]($HOME/x.md)
`[code](a.md)` and ``[more `code`](b.md)`` [^1]: footnote.md
[^2]: footnote.md
```md
[fenced](c.md)
~~~
[still](d.md)
```
~~~~
[tilde](e.md)
~~~
[too](f.md)
~~~~
[x] (not.md) [y]
(z.md)
";
        assert_eq!(relative_links(text), Vec::<String>::new());
        assert_eq!(
            relative_links("``` not a fence ``` [a](a.md)\n[b](b.md)\n` [c](c.md)"),
            ["a.md", "b.md", "c.md"]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in any::<String>()) {
            relative_links(&text);
        }

        #[test]
        fn signs_of_markdown_are_read(text in "([\\[\\]()<>`~:#^ \n]|a|é|\\.md){0,60}") {
            for link in relative_links(&text) {
                prop_assert!(text.contains(&link));
            }
        }

        #[test]
        fn a_link_is_found_wherever_it_stands(before in "[a-zé .,]{0,20}", path in "[a-z0-9_-]{1,8}(/[a-z0-9.é-]{1,8}){0,3}") {
            let text = format!("{before}[x]({path}) and so on");
            prop_assert_eq!(relative_links(&text), [path]);
        }
    }
}
