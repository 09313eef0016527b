struct ToolContext { call_id: String }

#[toolnexus_macros::tool]
fn twice(a: ToolContext, b: ToolContext) {
    drop((a, b));
}

fn main() {}
