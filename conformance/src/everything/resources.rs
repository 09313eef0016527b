//! The resources.

use serde_json::json;
use toolnexus::BoxError;
use toolnexus::serve::{McpHookError, McpResource, McpResourceContents, McpResourceTemplate};

use super::PIXEL;

pub(super) fn all() -> Vec<McpResource> {
    let resource = |uri: &str, name: &str, mime_type: &str| McpResource {
        uri: uri.into(),
        name: name.into(),
        description: Some(format!("The suite's {name}")),
        mime_type: Some(mime_type.into()),
        ..Default::default()
    };
    vec![
        resource("test://static-text", "static text", "text/plain"),
        resource("test://static-binary", "static binary", "image/png"),
        resource("test://watched-resource", "watched resource", "text/plain"),
    ]
}

pub(super) fn templates() -> Vec<McpResourceTemplate> {
    vec![McpResourceTemplate {
        uri_template: "test://template/{id}/data".into(),
        name: "template".into(),
        description: Some("The suite's template".into()),
        mime_type: Some("application/json".into()),
        ..Default::default()
    }]
}

pub(super) fn read(uri: &str) -> Result<Vec<McpResourceContents>, BoxError> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let contents = match (uri, id) {
        ("test://static-text", _) => {
            McpResourceContents::text(uri, "text/plain", "This is the content of the static text resource.")
        }
        ("test://static-binary", _) => McpResourceContents::base64(uri, "image/png", PIXEL),
        ("test://watched-resource", _) => McpResourceContents::text(uri, "text/plain", "Watched"),
        (_, Some(id)) => {
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            McpResourceContents::text(uri, "application/json", data.to_string())
        }
        _ => return Err(McpHookError::resource_not_found(uri).into()),
    };
    Ok(vec![contents])
}
