//! What belongs to a file besides its content, and passes to the file that takes its place.

use std::io;
use std::path::Path;

use cap_std::fs::{Dir, File, Metadata};

/// The owner, the group and the mode of a file; on Linux its access list and its other extended
/// attributes too.
#[derive(Debug)]
pub(super) struct Attributes {
    metadata: Metadata,
    #[cfg(target_os = "linux")]
    extended: extended::List,
}

impl Attributes {
    /// Those of the regular file `path` below `root`, of which `metadata` was read.
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "nothing more to read"))]
    pub(super) fn new(root: &Dir, path: &Path, metadata: Metadata) -> Self {
        Attributes {
            metadata,
            #[cfg(target_os = "linux")]
            extended: extended::list(root, path),
        }
    }

    /// Gives them to `file`. Where the system refuses owner or group, the mode gets narrower
    /// rather than opening the file to other people, and the access list stays behind.
    ///
    /// # Errors
    /// The mode cannot be set.
    #[cfg(unix)]
    pub(super) fn give(&self, file: &File) -> io::Result<()> {
        use cap_std::fs::{MetadataExt as _, Permissions, PermissionsExt as _};
        use rustix::fs::{Gid, Uid, fchown};

        let old = &self.metadata;
        let mut new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            let group = Gid::from_raw(old.gid());
            if fchown(file, Some(Uid::from_raw(old.uid())), Some(group)).is_err() {
                let _ = fchown(file, None, Some(group));
            }
            new = file.metadata()?;
        }
        let (same_owner, same_group) = (new.uid() == old.uid(), new.gid() == old.gid());
        let same_people = same_owner && same_group;
        // With an access list, what the mode says of the group is the most that anybody on the
        // list may do, and without the list it would be what the group may.
        let group_as_before = same_group && (same_people || !self.has_access_list());
        file.set_permissions(Permissions::from_mode(kept_mode(old.mode(), same_owner, group_as_before)))?;
        #[cfg(target_os = "linux")]
        extended::give(&self.extended, file, same_people);
        Ok(())
    }

    #[cfg(unix)]
    fn has_access_list(&self) -> bool {
        #[cfg(target_os = "linux")]
        return extended::has_access_list(&self.extended);
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Gives them to `file`.
    ///
    /// # Errors
    /// They cannot be set.
    #[cfg(not(unix))]
    pub(super) fn give(&self, file: &File) -> io::Result<()> {
        file.set_permissions(self.metadata.permissions())
    }
}

/// The part of `mode` that can be kept when the owner or the group is another one now.
#[cfg(unix)]
fn kept_mode(mode: u32, same_owner: bool, same_group: bool) -> u32 {
    const RUNS_AS_ANOTHER: u32 = 0o6000;
    const GROUP: u32 = 0o070;
    let mut mode = mode & 0o7777;
    if !(same_owner && same_group) {
        mode &= !RUNS_AS_ANOTHER;
    }
    if !same_group {
        // The new group was among the others until now.
        mode &= !GROUP | (mode & 0o007) << 3;
    }
    mode
}

/// Extended attributes. They are a courtesy: a file system may have none, and refuse any.
#[cfg(target_os = "linux")]
mod extended {
    use std::ffi::{CStr, CString};
    use std::path::Path;

    use cap_std::fs::{Dir, File, OpenOptions};
    use rustix::fs::{
        XattrFlags, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, fremovexattr, fsetxattr,
    };

    use crate::files::place::without_waiting;

    /// Who may do what, beyond the mode.
    const ACCESS_LIST: &CStr = c"system.posix_acl_access";

    /// Privileges of the old program; the kernel takes them from a file that is written, too.
    const PRIVILEGES: &CStr = c"security.capability";

    pub(super) type List = Vec<(CString, Vec<u8>)>;

    /// Those of the file; none when it cannot be read.
    pub(super) fn list(root: &Dir, path: &Path) -> List {
        let mut options = OpenOptions::new();
        options.read(true);
        without_waiting(&mut options);
        root.open_with(path, &options).ok().and_then(|file| read(&file)).unwrap_or_default()
    }

    fn read(file: &File) -> Option<List> {
        let mut names = vec![0; flistxattr_query(file).ok()?];
        let used = flistxattr(file, &mut names).ok()?;
        names.truncate(used);
        let names =
            names.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok());
        let named = names.filter(|name| *name != PRIVILEGES).filter_map(|name| {
            let mut value = vec![0; fgetxattr_query(file, name).ok()?];
            let used = fgetxattr(file, name, &mut value).ok()?;
            value.truncate(used);
            Some((name.to_owned(), value))
        });
        Some(named.collect())
    }

    pub(super) fn has_access_list(list: &List) -> bool {
        list.iter().any(|(name, _)| name.as_c_str() == ACCESS_LIST)
    }

    /// Gives them to `file`, whose mode is set already: the mode's group bits are the access
    /// list's to set.
    pub(super) fn give(list: &List, file: &File, same_people: bool) {
        // A directory may have given the new file a list of its own.
        if same_people && !has_access_list(list) {
            let _ = fremovexattr(file, ACCESS_LIST);
        }
        for (name, value) in list.iter().filter(|(name, _)| same_people || name.as_c_str() != ACCESS_LIST) {
            let _ = fsetxattr(file, name, value, XattrFlags::empty());
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    // BUILTIN-54: the mode is kept, and never opened to other people
    #[test]
    fn a_mode_is_kept_as_far_as_its_people_are() {
        assert_eq!(kept_mode(0o100_644, true, true), 0o644);
        assert_eq!(kept_mode(0o106_755, true, true), 0o6755);
        assert_eq!(kept_mode(0o106_755, false, true), 0o755);
        assert_eq!(kept_mode(0o100_664, true, false), 0o644);
        assert_eq!(kept_mode(0o100_660, true, false), 0o600);
        assert_eq!(kept_mode(0o100_677, false, false), 0o677);
    }
}
