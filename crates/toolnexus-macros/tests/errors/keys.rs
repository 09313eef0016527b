#[toolnexus_macros::tool(readonly)]
fn misspelt() {}

#[toolnexus_macros::tool]
fn parameter(#[tool(optional)] of: u8) {
    drop(of);
}

#[toolnexus_macros::tools(name = "x")]
impl Thing {}

struct Thing;

fn main() {}
