//! What was found: skills, and candidates that are none.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One loadable skill.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillInfo {
    /// What the model calls it by.
    pub name: String,
    /// When to use it. `None`: not in the catalogue.
    pub description: Option<String>,
    /// The absolute path of its `SKILL.md`; for data, its base.
    pub location: String,
    /// The instructions, as they stand behind the header.
    pub content: String,
    /// The absolute directory; for data, its base.
    pub dir: String,
    /// The file URL of the directory, or the base of a data skill.
    pub base: String,
    /// Whether it lives on disk.
    pub origin: SkillOrigin,
    /// The files a data skill names. Those of a disk skill are looked up at each call.
    pub resources: Vec<String>,
    /// The whole header with its structure. Empty for data, and for a header that no YAML parser
    /// accepts.
    pub meta: Map<String, Value>,
}

/// Where a skill comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillOrigin {
    /// A directory.
    Fs,
    /// A [`SkillDef`](crate::SkillDef).
    Logical,
}

/// A candidate that did not become a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillSkip {
    /// The absolute path of the file, or of the directory to search; or the base of the definition.
    pub location: String,
    /// Why.
    pub reason: SkillSkipReason,
    /// What exactly is wrong: what the YAML parser said, with the line in the file, or the operating
    /// system; what there is instead of a name; who has it already. `None` for a [`SkillDef`](crate::SkillDef)
    /// without a name. For people; its wording may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Why a candidate did not become a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkillSkipReason {
    /// No header, or one without a `name`.
    MissingName,
    /// The header is no YAML mapping, and no name could be rescued from it.
    MalformedFrontmatter,
    /// An earlier candidate has this name.
    DuplicateName,
    /// The file cannot be read as UTF-8 text of at most 1 MiB, or the directory to search cannot be
    /// read at all.
    Unreadable,
}

impl SkillSkipReason {
    /// The spelling in listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            SkillSkipReason::MissingName => "missing-name",
            SkillSkipReason::MalformedFrontmatter => "malformed-frontmatter",
            SkillSkipReason::DuplicateName => "duplicate-name",
            SkillSkipReason::Unreadable => "unreadable",
        }
    }
}

impl std::fmt::Display for SkillSkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Everything a search found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SkillInventory {
    /// The skills, in the order in which they were found.
    pub skills: Vec<SkillInfo>,
    /// The candidates that are none, in the same order.
    pub skipped: Vec<SkillSkip>,
}
