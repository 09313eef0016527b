//! The URL of an HTTP tool's call: no argument may move a boundary that the template drew.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use toolnexus_tools::HttpToolOptions;

fuzz_target!(|input: (&str, Vec<(&str, &str)>)| {
    let (template, arguments) = input;
    let arguments: Map<String, Value> =
        arguments.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
    // Any template is read or refused.
    let _ = url(template, &arguments);
    // Behind a fixed authority, host and port stay, and so does what is not a placeholder.
    let fixed = format!("https://h.example:8443/start/{{a}}/end/{template}");
    let Ok(url) = url(&fixed, &arguments) else { return };
    assert_eq!((url.scheme(), url.host_str(), url.port()), ("https", Some("h.example"), Some(8443)));
    // The template itself may go up by dot segments; the argument never does.
    if !template.contains('.') && !template.contains('%') {
        let segments: Vec<&str> = url.path_segments().unwrap().collect();
        assert_eq!((segments[0], segments[2]), ("start", "end"), "{url}");
    }
});

fn url(template: &str, arguments: &Map<String, Value>) -> Result<toolnexus_core::http::Url, ()> {
    let options = HttpToolOptions { url: template.to_owned(), ..Default::default() };
    options.url_for(arguments).map_err(|_| ())
}
