//! What makes two URLs one page, and which texts are pages of the web.

/// What makes two URLs one page: all before the fragment. A text without scheme or host is itself.
pub(crate) fn same_page(url: &str) -> &str {
    let url = url.trim();
    match url.split_once('#') {
        Some((page, _)) if host(page).is_some() => page,
        _ => url,
    }
}

/// Whether a text is the URL of a page of the web: `http` or `https`, with a host.
pub(crate) fn is_web_page(url: &str) -> bool {
    host(url.trim()).is_some_and(|(scheme, _)| {
        scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
    })
}

/// Whether a text is a URL: of any scheme, with a host.
pub(crate) fn is_url(text: &str) -> bool {
    host(text).is_some()
}

/// The scheme and the host of a URL that has both.
fn host(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte));
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    (is_scheme && !host.is_empty() && !host.starts_with(':')).then_some((scheme, host))
}

#[cfg(test)]
mod tests {
    use super::{is_web_page, same_page};

    // CTX-21
    #[test]
    fn a_page_is_its_url_without_fragment() {
        for (url, page) in [
            ("https://e.com/a#x", "https://e.com/a"),
            ("https://e.com/a#x#y", "https://e.com/a"),
            ("https://e.com#x", "https://e.com"),
            ("ftp://e.com/a#x", "ftp://e.com/a"),
            (" https://e.com/a?b=1#c ", "https://e.com/a?b=1"),
            ("https://e.com/a", "https://e.com/a"),
        ] {
            assert_eq!(same_page(url), page);
        }
    }

    // CTX-21: without scheme or host
    #[test]
    fn what_is_no_url_is_itself() {
        for text in
            ["page#one", "mailto:a@e.com#x", "https:///a#x", "https://#x", "https://:80/#x", "a b://c#d"]
        {
            assert_eq!(same_page(&format!(" {text} ")), text);
        }
        assert_eq!(same_page("x#https://e.com"), "x#https://e.com");
    }

    // CTX-22
    #[test]
    fn pages_of_the_web_are_http_with_a_host() {
        for page in ["http://e.com", "HTTPS://e.com/a#b", " https://u@e.com:8/ "] {
            assert!(is_web_page(page), "{page}");
        }
        for other in
            ["res://0001", "s3://bucket/a", "resource://AbC", "mailto:a@e.com", "https://", "e.com/a", ""]
        {
            assert!(!is_web_page(other), "{other}");
        }
    }
}
