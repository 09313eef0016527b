//! Skill folders to search.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use toolnexus_skills::{LoadSkillsOptions, SkillDef, SkillInventory, SkillSkipReason, list_skills};

/// A directory that goes away with the value.
pub(crate) struct Root(TempDir);

impl Root {
    pub(crate) fn new() -> Self {
        Root(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The absolute path of something below, as text.
    pub(crate) fn at(&self, relative: &str) -> String {
        self.0.path().join(relative).to_str().unwrap().to_owned()
    }

    /// Writes a file and the directories above it.
    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) -> &Self {
        let file = self.0.path().join(relative);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        self
    }

    /// Writes `<dir>/SKILL.md` of this name.
    pub(crate) fn skill(&self, dir: &str, name: &str) -> &Self {
        let file = if dir.is_empty() { "SKILL.md".to_owned() } else { format!("{dir}/SKILL.md") };
        self.write(&file, format!("---\nname: {name}\ndescription: About {name}.\n---\nBody of {name}.\n"))
    }

    pub(crate) fn options(&self) -> LoadSkillsOptions {
        options(&[self.path().to_path_buf()])
    }

    pub(crate) fn list(&self) -> SkillInventory {
        list_skills(&self.options())
    }
}

pub(crate) fn options(dirs: &[PathBuf]) -> LoadSkillsOptions {
    LoadSkillsOptions { dirs: dirs.to_vec(), ..Default::default() }
}

pub(crate) fn def(name: &str, description: &str, content: &str) -> SkillDef {
    SkillDef {
        name: name.into(),
        description: description.into(),
        content: content.into(),
        ..Default::default()
    }
}

pub(crate) fn names(inventory: &SkillInventory) -> Vec<&str> {
    inventory.skills.iter().map(|skill| skill.name.as_str()).collect()
}

pub(crate) fn skips(inventory: &SkillInventory) -> Vec<(&str, SkillSkipReason)> {
    inventory.skipped.iter().map(|skip| (skip.location.as_str(), skip.reason)).collect()
}

/// What one `SKILL.md` of this text gives.
pub(crate) fn list_one(text: impl AsRef<[u8]>) -> SkillInventory {
    let root = Root::new();
    root.write("s/SKILL.md", text);
    root.list()
}
