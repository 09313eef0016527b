//! Signing in to remote MCP servers whose entry has `auth`: the address is shown on the terminal, and
//! what comes of it is kept for the next time.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

use toolnexus::mcp::{FileTokenStore, McpSignIn, McpTokenStore};

use crate::render::plain;
use crate::screen::Screen;

/// How a person at this terminal signs in. `None`: nobody reads it.
pub(crate) fn at_the_terminal(screen: &Screen) -> Option<McpSignIn> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let screen = screen.clone();
    Some(McpSignIn::browser(move |request| {
        let (server, url) = (plain(&request.server), plain(&request.url));
        screen.note(&format!("{} wants you to sign in; open this in a browser:\n  {url}", server));
        Ok(())
    }))
}

/// Where tokens are kept: a folder that only its owner can read. `None`: this system says of no place for
/// such things, and tokens live as long as the process.
pub(crate) fn token_store() -> Option<Arc<dyn McpTokenStore>> {
    let folder = state_folder(|name| std::env::var_os(name).map(PathBuf::from))?;
    Some(Arc::new(FileTokenStore::new(folder.join("toolnexus").join("mcp-tokens"))))
}

/// The folder for what programs remember, as the XDG base directories have it, and Windows.
fn state_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")))
        .or_else(|| absolute("LOCALAPPDATA"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn tokens_are_kept_where_the_system_keeps_such_things() {
        let with = |known: &'static [(&str, &str)]| {
            state_folder(|name| known.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(with(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), Some("/s".into()));
        assert_eq!(with(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")]), Some("/h/.local/state".into()));
        assert_eq!(with(&[("HOME", "")]), None);
    }
}
