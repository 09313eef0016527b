//! The pages of `tools/list`.

use serde::Serialize;
use serde_json::Value;

use super::message::{RpcError, encode};
use super::{FixtureTool, McpFixture, Paging, RawJson};

/// The cursor of [`Paging::DuplicateCursor`].
const AGAIN: &str = "again";

/// One page, as the JSON text of the result.
///
/// A cursor is the index of the page's first tool, so that no state is kept between pages.
pub(crate) fn page(fixture: &McpFixture, cursor: Option<&Value>) -> Result<String, RpcError> {
    let first = match cursor {
        None | Some(Value::Null) => 0,
        Some(Value::String(cursor)) if cursor == AGAIN => 0,
        Some(cursor) => {
            let index = cursor.as_str().and_then(|cursor| cursor.parse().ok());
            index.ok_or_else(|| RpcError::new(-32602, format!("Invalid cursor: {cursor}")))?
        }
    };
    let size = fixture.page_size.unwrap_or(usize::MAX).max(1);
    let tools = fixture.tools.iter().skip(first).take(size).map(Entry::of).collect();
    let next: usize = first.saturating_add(size.min(fixture.tools.len().max(1)));
    let last = next >= fixture.tools.len();
    let next_cursor = match fixture.paging {
        Paging::DuplicateCursor => Some(Some(AGAIN.to_owned())),
        Paging::Endless => Some(Some(next.to_string())),
        _ if !last => Some(Some(next.to_string())),
        Paging::Normal => None,
        Paging::EmptyCursor => Some(Some(String::new())),
        Paging::NullCursor => Some(None),
    };
    Ok(encode(&Page { tools, next_cursor }))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    tools: Vec<Entry<'a>>,
    /// Absent, `null` or a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<Option<String>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Verbatim(&'a RawJson),
    #[serde(rename_all = "camelCase")]
    Fields {
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        input_schema: Option<&'a RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        output_schema: Option<&'a RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<&'a RawJson>,
    },
}

impl<'a> Entry<'a> {
    fn of(tool: &'a FixtureTool) -> Self {
        match &tool.entry {
            Some(entry) => Self::Verbatim(entry),
            None => Self::Fields {
                name: &tool.name,
                title: tool.title.as_deref(),
                description: tool.description.as_deref(),
                input_schema: tool.input_schema.as_ref(),
                output_schema: tool.output_schema.as_ref(),
                annotations: tool.annotations.as_ref(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::page;
    use crate::mcp::{FixtureTool, McpFixture, Paging};

    proptest! {
        #[test]
        fn pages_put_together_are_the_list(
            tools in 0_usize..20,
            size in 1_usize..25,
            paging in prop::sample::select(vec![Paging::Normal, Paging::EmptyCursor, Paging::NullCursor]),
        ) {
            let names: Vec<_> = (0..tools).map(|n| n.to_string()).collect();
            let fixture = McpFixture::new()
                .tools(names.iter().map(FixtureTool::new))
                .page_size(size)
                .paging(paging);
            let (mut listed, mut pages, mut cursor) = (Vec::new(), 0, None);
            loop {
                let page: Value = serde_json::from_str(&page(&fixture, cursor.as_ref()).unwrap()).unwrap();
                let tools = page["tools"].as_array().unwrap();
                prop_assert!(tools.len() <= size);
                listed.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
                pages += 1;
                match page.get("nextCursor") {
                    Some(Value::String(next)) if !next.is_empty() => cursor = page.get("nextCursor").cloned(),
                    _ => break,
                }
            }
            prop_assert_eq!(listed, names);
            prop_assert_eq!(pages, tools.div_ceil(size).max(1));
        }
    }
}
