#[toolnexus_macros::tool]
struct NotAFunction;

fn main() {}
