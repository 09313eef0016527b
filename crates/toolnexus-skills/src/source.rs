//! The loaded skills and the tool that hands them out.

use std::any::Any;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use toolnexus_core::{BoxFuture, SourceHandle, Tool, ToolContext, ToolHints, ToolResult, ToolSource};

use crate::options::{LoadSkillsOptions, SkillPathDisplay};
use crate::render;
use crate::skill::{SkillInfo, SkillSkip};

const DESCRIPTION: &str = "Load a specialized skill when the task at hand matches one of the skills listed in the system prompt.

Use this tool to inject the skill's instructions and resources into current conversation. The output may contain detailed workflow guidance as well as references to scripts, files, etc in the same directory as the skill.

The skill name must match one of the skills listed in your system prompt.";

struct Inner {
    skills: Vec<SkillInfo>,
    /// The directory of each skill, in the order of `skills`; `None` for data.
    dirs: Vec<Option<PathBuf>>,
    index: HashMap<String, usize>,
    skipped: Vec<SkillSkip>,
    filter_unmatched: Vec<String>,
    sample_limit: i64,
    path_display: SkillPathDisplay,
}

/// Loaded skills: what [`load_skills`](crate::load_skills) returns. Clones share them.
#[derive(Clone)]
pub struct SkillSource {
    inner: Arc<Inner>,
}

impl SkillSource {
    pub(crate) fn new(
        skills: Vec<(SkillInfo, Option<PathBuf>)>,
        skipped: Vec<SkillSkip>,
        filter_unmatched: Vec<String>,
        opts: &LoadSkillsOptions,
    ) -> Self {
        let (skills, dirs): (Vec<_>, Vec<_>) = skills.into_iter().unzip();
        let index = skills.iter().enumerate().map(|(at, skill)| (skill.name.clone(), at)).collect();
        let (sample_limit, path_display) = (opts.sample_limit, opts.path_display);
        SkillSource {
            inner: Arc::new(Inner {
                skills,
                dirs,
                index,
                skipped,
                filter_unmatched,
                sample_limit,
                path_display,
            }),
        }
    }

    /// The skills that the filter let through, in the order in which they were found.
    pub fn skills(&self) -> &[SkillInfo] {
        &self.inner.skills
    }

    /// The skill of exactly this name.
    pub fn get(&self, name: &str) -> Option<&SkillInfo> {
        self.inner.skills.get(*self.inner.index.get(name)?)
    }

    /// The candidates that did not become skills.
    pub fn skipped(&self) -> &[SkillSkip] {
        &self.inner.skipped
    }

    /// Names of the filter that no skill has, sorted: most likely typing errors.
    pub fn filter_unmatched(&self) -> &[String] {
        &self.inner.filter_unmatched
    }

    /// How many files the tool lists, as it was configured.
    pub fn sample_limit(&self) -> i64 {
        self.inner.sample_limit
    }

    /// How the tool shows paths, as it was configured.
    pub fn path_display(&self) -> SkillPathDisplay {
        self.inner.path_display
    }

    /// The catalogue for the system prompt: the described skills, sorted by name.
    pub fn prompt(&self) -> String {
        render::catalogue(self.skills())
    }

    /// What the `skill` tool returns for `name`: the instructions and a sample of the files.
    ///
    /// `sample_limit` overrides the configured limit for this call. An unknown name is a failure
    /// that lists the known ones. Blocks while it reads the skill's directory.
    pub fn load(&self, name: &str, sample_limit: Option<i64>) -> ToolResult {
        self.load_until(name, sample_limit, &|| false)
    }

    /// [`load`](Self::load) that gives up when `stop` says so.
    fn load_until(&self, name: &str, sample_limit: Option<i64>, stop: &dyn Fn() -> bool) -> ToolResult {
        let found = self.inner.index.get(name).copied();
        match found.and_then(|at| Some((self.inner.skills.get(at)?, self.inner.dirs.get(at)?))) {
            Some((skill, dir)) => {
                let limit = sample_limit.unwrap_or(self.inner.sample_limit);
                render::skill(skill, dir.as_deref(), limit, self.inner.path_display, stop)
            }
            None => render::not_found(name, self.skills()),
        }
    }

    /// The `skill` tool. When its call is cancelled or dropped it stops looking for files.
    ///
    /// ```
    /// use toolnexus_skills::{LoadSkillsOptions, load_skills};
    /// let tool = load_skills(&LoadSkillsOptions::default()).tool();
    /// assert_eq!((tool.name.as_str(), tool.source.as_str()), ("skill", "skill"));
    /// ```
    pub fn tool(&self) -> Tool {
        let source = self.clone();
        let run = move |args: Value, context: ToolContext| {
            let source = source.clone();
            async move {
                let name = args.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let cancel = context.cancel.child_token();
                // A thread cannot be dropped with the call: it is told.
                let _dropped = cancel.clone().drop_guard();
                let load = move || source.load_until(&name, None, &|| cancel.is_cancelled());
                tokio::task::spawn_blocking(load).await
            }
        };
        Tool::new("skill", run)
            .description(DESCRIPTION)
            .source(ToolSource::Skill)
            .hints(ToolHints { read_only: true, ..Default::default() })
            .input_schema(json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The name of the skill to load"}
                },
                "required": ["name"],
                "additionalProperties": false
            }))
    }
}

/// Nothing is kept open, so there is nothing to close.
impl SourceHandle for SkillSource {
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl std::fmt::Debug for SkillSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.skills().iter().map(|skill| skill.name.as_str()).collect();
        f.debug_struct("SkillSource")
            .field("skills", &names)
            .field("skipped", &self.inner.skipped.len())
            .finish_non_exhaustive()
    }
}
