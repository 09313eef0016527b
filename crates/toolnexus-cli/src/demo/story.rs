//! What the scripted model says: a function of the transcript, like any model.
//!
//! Every number in its answer comes out of a tool result that it was sent, so when a tool fails,
//! it has nothing to answer with and says so.

use serde_json::{Value, json};

/// What the person asks.
pub(super) const PROMPT: &str = "Do we have enough beans for this week's orders?";

pub(super) const SKILL: &str = "stock-report";
pub(super) const STOCK: &str = "warehouse_stock";
pub(super) const READ: &str = "read";
pub(super) const ADD: &str = "add_up";

/// One turn: what the model says and which tools it calls.
#[derive(Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
}

/// One call. Its id is the tool's name: no tool is called twice.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) args: Value,
}

/// The next turn, given the messages so far.
pub(super) fn next(messages: &[Value]) -> Turn {
    turn(messages)
        .unwrap_or_else(|stuck| Turn { text: format!("I cannot answer that: {stuck}."), calls: vec![] })
}

fn turn(messages: &[Value]) -> Result<Turn, String> {
    let Some(stock) = result_of(messages, STOCK) else {
        return Ok(Turn {
            text: "Let me see how you report stock here, and what is on the shelf.".into(),
            calls: vec![
                Call { name: "skill", args: json!({"name": SKILL}) },
                Call { name: STOCK, args: json!({"item": "beans"}) },
            ],
        });
    };
    let stock = Stock::read(stock)?;
    let Some(orders) = result_of(messages, READ) else {
        let skill = result_of(messages, "skill").unwrap_or_default();
        return Ok(Turn {
            text: format!("There are {} kg of beans. The skill says where the orders are.", stock.kilograms),
            calls: vec![Call { name: READ, args: json!({"path": orders_file(skill)?}) }],
        });
    };
    let orders = read_orders(orders)?;
    let Some(sum) = result_of(messages, ADD) else {
        let numbers: Vec<f64> = orders.iter().map(|(_, kilograms)| *kilograms).collect();
        return Ok(Turn {
            text: String::new(),
            calls: vec![Call { name: ADD, args: json!({"numbers": numbers}) }],
        });
    };
    let sum: f64 = sum.trim().parse().map_err(|_| format!("{ADD} said \"{sum}\""))?;
    let (customer, largest) =
        orders.iter().max_by(|a, b| a.1.total_cmp(&b.1)).ok_or("there are no orders in the file")?;
    let left = stock.kilograms - sum;
    let verdict = if left < 0.0 {
        format!("No: {} kg are missing.", -left)
    } else {
        format!("Yes, and {left} kg stay on the shelf.")
    };
    Ok(Turn {
        text: format!(
            "{verdict} This week's {} orders come to {sum} kg, the largest being {largest} kg for {customer}. \
             The warehouse has {} kg, says its server (process {}).",
            orders.len(),
            stock.kilograms,
            stock.process
        ),
        calls: vec![],
    })
}

/// What a tool said, if it was called.
fn result_of<'a>(messages: &'a [Value], tool: &str) -> Option<&'a str> {
    let message = messages.iter().find(|message| message.get("tool_call_id").is_some_and(|id| id == tool))?;
    message.get("content")?.as_str()
}

struct Stock {
    kilograms: f64,
    process: u64,
}

impl Stock {
    fn read(text: &str) -> Result<Self, String> {
        let unreadable = || format!("{STOCK} said \"{text}\"");
        let value: Value = serde_json::from_str(text).map_err(|_| unreadable())?;
        let kilograms = value.get("kilograms").and_then(Value::as_f64).ok_or_else(unreadable)?;
        let process = value.get("process").and_then(Value::as_u64).ok_or_else(unreadable)?;
        Ok(Stock { kilograms, process })
    }
}

/// The path of the orders among the files that the skill lists.
fn orders_file(skill: &str) -> Result<&str, String> {
    let files = skill.lines().filter_map(|line| line.strip_prefix("<file>")?.strip_suffix("</file>"));
    files
        .into_iter()
        .find(|file| file.ends_with("orders.csv"))
        .ok_or_else(|| format!("the skill said \"{skill}\""))
}

fn read_orders(text: &str) -> Result<Vec<(&str, f64)>, String> {
    let rows = text.lines().skip(1).filter(|line| !line.is_empty());
    rows.map(|row| {
        let (customer, kilograms) = row.split_once(',')?;
        Some((customer, kilograms.trim().parse().ok()?))
    })
    .collect::<Option<_>>()
    .ok_or_else(|| format!("{READ} said \"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(tool: &str, content: &str) -> Value {
        json!({"role": "tool", "tool_call_id": tool, "content": content})
    }

    fn transcript(stock: &str, orders: &str, sum: &str) -> Vec<Value> {
        vec![
            json!({"role": "user", "content": PROMPT}),
            result("skill", "<skill_files>\n<file>/shop/orders.csv</file>\n</skill_files>"),
            result(STOCK, stock),
            result(READ, orders),
            result(ADD, sum),
        ]
    }

    #[test]
    fn the_answer_follows_the_results() {
        let orders = "customer,kilograms\nA,10\nB,20.5\n";
        let messages = transcript(r#"{"kilograms":40,"process":7}"#, orders, "30.5");
        assert_eq!(next(&messages[..1]).calls.len(), 2);
        assert_eq!(next(&messages[..3]).calls[0].args, json!({"path": "/shop/orders.csv"}));
        assert_eq!(next(&messages[..4]).calls[0].args, json!({"numbers": [10.0, 20.5]}));
        let answer = next(&messages);
        assert!(answer.calls.is_empty());
        for fact in ["Yes, and 9.5 kg", "2 orders", "30.5 kg", "20.5 kg for B", "process 7"] {
            assert!(answer.text.contains(fact), "{fact}: {}", answer.text);
        }
        let messages = transcript(r#"{"kilograms":30,"process":7}"#, orders, "30.5");
        assert!(next(&messages).text.starts_with("No: 0.5 kg"), "{}", next(&messages).text);
    }

    #[test]
    fn a_failed_tool_leaves_nothing_to_say() {
        let fine = r#"{"kilograms":40,"process":7}"#;
        for messages in [
            transcript("mcp server \"warehouse\" failed", "c,k\nA,1\n", "1"),
            transcript(fine, "read: file not found", "1").split_at(4).0.to_vec(),
            transcript(fine, "c,k\nA,one\n", "1"),
            transcript(fine, "c,k\nA,1\n", "no sum"),
            transcript(fine, "c,k\n", "0"),
        ] {
            let turn = next(&messages);
            assert!(turn.text.starts_with("I cannot answer that") || !turn.calls.is_empty(), "{turn:?}");
        }
        let skill_failed = vec![result("skill", "Skill not found"), result(STOCK, fine)];
        assert!(next(&skill_failed).text.contains("Skill not found"));
    }
}
