#[toolnexus_macros::tool]
fn takes_apart((a, b): (u8, u8), of: impl ToString) -> String {
    format!("{a}{b}{}", of.to_string())
}

fn main() {}
