struct Thing;

#[toolnexus_macros::tools]
impl Default for Thing {
    fn default() -> Self {
        Thing
    }
}

fn main() {}
