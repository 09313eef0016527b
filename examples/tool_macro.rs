//! Functions and methods become tools by an attribute.
//!
//! `cargo run -p toolnexus --example tool_macro`

#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::json;
use toolnexus::{collect_tools, tool, tools};

/// Weather of a city.
#[tool(read_only)]
async fn weather(
    /// City to look up
    city: String,
    #[tool(description = "Days ahead", default = 1)] days: u8,
) -> Result<String, String> {
    if city.is_empty() {
        return Err("the city is empty: name one".into());
    }
    Ok(format!("{city}: sunny for the next {days} day(s)"))
}

struct Counter {
    count: AtomicI64,
}

#[tools]
impl Counter {
    /// Adds to the counter and gives its new value.
    #[tool]
    fn add(&self, by: i64) -> i64 {
        self.count.fetch_add(by, Ordering::Relaxed) + by
    }
}

#[tokio::main]
async fn main() {
    let counter = Arc::new(Counter { count: AtomicI64::new(40) });
    let mut all = collect_tools![weather];
    all.extend(counter.tools());
    for tool in &all {
        println!("{}: {}\n  {}", tool.name, tool.description, tool.input_schema);
    }
    let toolkit = toolnexus::Toolkit::from_tools(all);
    for (name, args) in [
        ("weather", json!({"city": "Oslo"})),
        ("weather", json!({"city": ""})),
        ("weather", json!({"town": "Oslo"})),
        ("add", json!({"by": 2})),
    ] {
        let result = toolkit.execute(name, args.clone()).await;
        println!("{name}({args}) -> {}", result.output);
    }
}
