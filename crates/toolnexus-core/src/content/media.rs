//! Mime types, by extension.

/// The mime type of a path or file name, by its extension; `None` for an extension that is not in
/// the table.
///
/// The table is the same on every machine and the only source of mime types: `png`, `jpg`, `jpeg`,
/// `gif`, `webp`, `pdf`, `mp3`, `wav`. `/` and `\` both separate, upper case does not matter.
///
/// ```
/// use toolnexus_core::content::mime_type_of_path;
/// assert_eq!(mime_type_of_path(r"C:\shots\Screen.PNG"), Some("image/png"));
/// assert_eq!(mime_type_of_path("shots/.png"), None);
/// ```
pub fn mime_type_of_path(path: &str) -> Option<&'static str> {
    Some(match extension(path)?.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        _ => return None,
    })
}

/// The mime type of a URL, by the extension of its path: query and fragment do not count.
///
/// ```
/// use toolnexus_core::content::mime_type_of_url;
/// assert_eq!(mime_type_of_url("https://example.com/spec.pdf?x=a.png"), Some("application/pdf"));
/// assert_eq!(mime_type_of_url("https://example.png"), None);
/// ```
pub fn mime_type_of_url(url: &str) -> Option<&'static str> {
    mime_type_of_path(url_path(url))
}

/// What follows the last `.` of the last segment, in lower case.
pub(super) fn extension(path: &str) -> Option<String> {
    let (stem, extension) = base_name(path).rsplit_once('.')?;
    (!stem.is_empty() && !extension.is_empty()).then(|| extension.to_ascii_lowercase())
}

/// The last segment of a path.
pub(super) fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The path of a URL; empty where there is none, so that a host's name has no extension.
pub(super) fn url_path(url: &str) -> &str {
    let path_and_more = url.split_once("://").map_or(url, |(_, rest)| {
        rest.find(['/', '\\', '?', '#']).and_then(|at| rest.get(at..)).unwrap_or_default()
    });
    path_and_more.split(['?', '#']).next().unwrap_or_default()
}

/// Whether a text is an http(s) URL by its beginning.
pub(super) fn is_http_url(text: &str) -> bool {
    let begins_with = |scheme: &str| text.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme));
    begins_with("http://") || begins_with("https://")
}
