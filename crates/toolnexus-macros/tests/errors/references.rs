use std::path::Path;
struct ToolContext { call_id: String }

#[toolnexus_macros::tool]
fn borrows(text: &str, path: &Path, list: &[u8], number: &u64, context: &ToolContext) -> String {
    format!("{text}{path:?}{list:?}{number}{}", context.call_id)
}

fn main() {}
