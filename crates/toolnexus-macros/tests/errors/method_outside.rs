struct Counter;

impl Counter {
    #[toolnexus_macros::tool]
    fn count(&self, by: u64) -> u64 {
        by
    }
}

fn main() {}
