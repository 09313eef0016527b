//! Skills: folders with a `SKILL.md` that a model loads when it needs them.
//!
//! The model sees a short catalogue, [`SkillSource::prompt`], and one tool,
//! [`SkillSource::tool`], which returns a skill's instructions and a sample of its files. Skills
//! come from directories, from [`SkillDef`]s that the host builds itself, or from both; the
//! first of a name wins.
//!
//! * [`load_skills`] gives the source that a toolkit uses.
//! * [`list_skills`] gives the inventory that a person checks: every skill, and every candidate
//!   that was skipped with the [reason](SkillSkipReason).
//!
//! Neither ever fails: a file that is no skill is an entry among the skipped.
//!
//! ```
//! use toolnexus_skills::{LoadSkillsOptions, SkillDef, load_skills};
//!
//! let source = load_skills(&LoadSkillsOptions {
//!     skills: vec![SkillDef {
//!         name: "greeting".into(),
//!         description: "How to greet people.".into(),
//!         content: "Say hello, warmly.".into(),
//!         ..Default::default()
//!     }],
//!     ..Default::default()
//! });
//! assert!(source.prompt().ends_with("- **greeting**: How to greet people."));
//! assert!(source.load("greeting", None).output.contains("Say hello, warmly."));
//! ```

mod discover;
mod filter;
mod frontmatter;
mod header;
mod load;
mod options;
mod render;
mod skill;
mod source;
mod walk;
mod yaml;

pub use filter::fold_disabled;
pub use load::{list_skills, load_skills, load_skills_with};
pub use options::{LoadSkillsOptions, SkillDef, SkillPathDisplay, SkillProvider};
pub use skill::{SkillInfo, SkillInventory, SkillOrigin, SkillSkip, SkillSkipReason};
pub use source::SkillSource;
