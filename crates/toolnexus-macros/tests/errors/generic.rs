#[toolnexus_macros::tool]
fn generic<T: ToString>(of: T) -> String {
    of.to_string()
}

fn main() {}
