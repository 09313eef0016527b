//! Finding and reading `SKILL.md` files.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};

use url::Url;

use crate::frontmatter;
use crate::header::{self, Refusal};
use crate::skill::{SkillInfo, SkillOrigin, SkillSkip, SkillSkipReason};
use crate::walk::{Ended, MAX_ENTRIES, walk};

/// The name of the file that makes a directory a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";

/// The largest `SKILL.md` that is read: far more than a model could use of one.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// What a candidate turned out to be.
pub(crate) enum Candidate {
    /// A skill, and its directory when it is on disk.
    Skill(Box<SkillInfo>, Option<PathBuf>),
    /// No skill.
    Skip(SkillSkip),
}

/// All candidates below one root: shallow ones first, then by path.
pub(crate) fn candidates(root: &Path) -> Vec<Candidate> {
    let Some(root) = absolute(root) else { return not_found(root) };
    match fs::read_dir(&root) {
        Ok(_) => {}
        // That nothing is there, or no directory, is known; of anything else it is not.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return not_found(&root);
        }
        Err(error) => return cannot_be_read(&root, &error),
    }
    let mut files = Vec::new();
    let ended = walk(&root, &|| false, |entry| {
        if entry.name == SKILL_FILE {
            files.push(entry.path.to_path_buf());
        }
    });
    if ended == Ended::Cut {
        tracing::warn!(
            "[toolnexus] skills dir has more than {MAX_ENTRIES} entries, the deeper ones are not searched: {}",
            root.display()
        );
    }
    files.iter().map(|file| read_candidate(file)).collect()
}

fn not_found(root: &Path) -> Vec<Candidate> {
    tracing::warn!("[toolnexus] skills dir not found: {}", root.display());
    Vec::new()
}

/// A root that may well hold skills, and does not say: the root itself is the skip.
fn cannot_be_read(root: &Path, error: &io::Error) -> Vec<Candidate> {
    tracing::warn!("[toolnexus] skills dir cannot be read: {}: {error}", root.display());
    vec![Candidate::Skip(SkillSkip {
        location: display(root),
        reason: SkillSkipReason::Unreadable,
        detail: Some(error.to_string()),
    })]
}

fn read_candidate(file: &Path) -> Candidate {
    let location = display(file);
    let skip = |reason, detail| Candidate::Skip(SkillSkip { location: location.clone(), reason, detail });
    let text = match read_text(file) {
        Ok(text) => text,
        Err(error) => return skip(SkillSkipReason::Unreadable, Some(error.to_string())),
    };
    let parts = match frontmatter::split(&text) {
        Ok(parts) => parts,
        Err(none) => return skip(SkillSkipReason::MissingName, Some(none.as_str().to_owned())),
    };
    let header = match header::read(parts.header) {
        Ok(header) => header,
        Err(Refusal::MissingName(why)) => return skip(SkillSkipReason::MissingName, Some(why.to_owned())),
        Err(Refusal::Malformed(why)) => return skip(SkillSkipReason::MalformedFrontmatter, Some(why)),
    };
    let dir = file.parent().unwrap_or(file);
    let info = SkillInfo {
        name: header.name,
        description: header.description,
        content: parts.body.to_owned(),
        dir: display(dir),
        base: file_url(dir),
        origin: SkillOrigin::Fs,
        resources: Vec::new(),
        meta: header.meta,
        location,
    };
    Candidate::Skill(Box::new(info), Some(dir.to_path_buf()))
}

fn read_text(file: &Path) -> io::Result<String> {
    // Asked before opening: opening a named pipe waits for its other end.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(file)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("larger than {MAX_FILE_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// The path as text; bytes that are no UTF-8 are replaced.
pub(crate) fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The absolute form of `path` with `.` and `..` resolved by name, links left alone.
fn absolute(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in std::path::absolute(path).ok()?.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    Some(normal)
}

fn file_url(dir: &Path) -> String {
    // `dir` is absolute, so there is an URL for it.
    Url::from_file_path(dir).map_or_else(|()| display(dir), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    // SKILL-10
    #[test]
    fn paths_are_normalised_by_name() {
        assert_eq!(absolute(Path::new("/a/./b/../c/")).unwrap(), Path::new("/a/c"));
        assert_eq!(absolute(Path::new("/../a")).unwrap(), Path::new("/a"));
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute(Path::new("x/..")).unwrap(), here);
    }
}
