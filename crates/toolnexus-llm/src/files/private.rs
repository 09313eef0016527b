//! Files and directories that hold transcripts: private, and there after a crash of the machine.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Options that create files which only their owner may read or write.
pub(crate) fn private() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "there is no mode to set"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes sure that a directory is there and gives its absolute path. What had to be created only
/// its owner may enter.
pub(crate) fn create_dir(dir: &Path) -> io::Result<PathBuf> {
    let dir = std::path::absolute(dir)?;
    if !dir.is_dir() {
        let missing: Vec<&Path> = dir.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
        #[cfg_attr(not(unix), allow(unused_mut, reason = "there is no mode to set"))]
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(&dir)?;
        for created in missing {
            created.parent().map_or(Ok(()), sync_dir)?;
        }
    }
    Ok(dir)
}

/// Makes the entries of a directory survive a crash of the machine.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    // Windows neither opens directories as files nor needs to be told.
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}
