//! The demo's files: a small coffee roastery.

use std::fs;
use std::io;

use tempfile::TempDir;

/// The directory of skills below the demo's folder.
pub(super) const SKILLS: &str = "skills";

const SKILL: &str = "\
---
name: stock-report
description: How this roastery reports whether the week's orders can be filled. Use for questions about stock.
---

1. The orders are in orders.csv in this skill's directory: customer, then kilograms.
2. Compare their sum with what the warehouse has.
3. Answer yes or no first, then give the numbers, and name the largest order.
";

const ORDERS: &str = "\
customer,kilograms
Harbour Kitchen,12.5
Corner Bakery,8
Night Train,17
";

/// Writes the files to a new temporary directory, which goes when it is dropped.
pub(super) fn open() -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("toolnexus-demo-").tempdir()?;
    let skill = folder.path().join(SKILLS).join("stock-report");
    fs::create_dir_all(&skill)?;
    fs::write(skill.join("SKILL.md"), SKILL)?;
    fs::write(skill.join("orders.csv"), ORDERS)?;
    Ok(folder)
}
