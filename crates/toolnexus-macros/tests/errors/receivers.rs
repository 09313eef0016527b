struct Thing;

#[toolnexus_macros::tools]
impl Thing {
    #[tool]
    fn changes(&mut self) {}

    #[tool]
    fn consumes(self) {}

    #[tool]
    unsafe fn dangerous(&self) {}
}

fn main() {}
