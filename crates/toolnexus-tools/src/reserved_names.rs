//! Names that Windows takes for devices, in whatever directory they are.
//!
//! `project\nul.txt` opens the null device and `com1` a serial port, so a confined tool must not open
//! them: they are no files of the base directory. The check is plain text work and the same on every
//! platform; only Windows has a use for it.

/// The devices without a number.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];

/// The devices that a digit follows, from 1 to 9; Windows takes the raised 1, 2 and 3 for digits too.
const NUMBERED_DEVICES: [&str; 2] = ["COM", "LPT"];

/// Whether a component of a path is a reserved name, with or without an extension, in any case.
pub(crate) fn names_a_device(path: &str) -> bool {
    path.split(['/', '\\']).any(is_reserved)
}

fn is_reserved(component: &str) -> bool {
    // An extension and the name of a stream do not count, nor do spaces before them.
    let stem = component.split(['.', ':']).next().unwrap_or_default().trim_end_matches(' ');
    let stem = stem.to_ascii_uppercase();
    if DEVICES.contains(&stem.as_str()) {
        return true;
    }
    NUMBERED_DEVICES.iter().any(|device| {
        let mut rest = stem.strip_prefix(device).unwrap_or_default().chars();
        matches!((rest.next(), rest.next()), (Some('1'..='9' | '¹' | '²' | '³'), None))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // BUILTIN-29
    #[test]
    fn devices_are_known_by_their_names() {
        for path in [
            "CON",
            "prn",
            "Aux",
            "nUL",
            "COM1",
            "com9",
            "LPT1",
            "lpt9",
            "NUL.txt",
            "nul.tar.gz",
            "CON ",
            "NUL .txt",
            "NUL.",
            "nul:",
            "NUL:stream",
            "a/b/NUL",
            "a\\nul",
            "C:\\dir\\COM1.log",
            "nul/x",
            "./AUX",
            "../con.md",
            "COM¹",
            "com²",
            "aux :x",
            "lpt³.x",
            "conin$",
            "CONOUT$",
        ] {
            assert!(names_a_device(path), "{path}");
        }
    }

    // BUILTIN-29
    #[test]
    fn other_names_are_no_devices() {
        for path in [
            "",
            ".",
            "..",
            "/",
            "console",
            "con-1",
            "CONFIG",
            "nulls.txt",
            "anul",
            "COM",
            "COM0",
            "COM10",
            "COMA",
            "LPT",
            "lpt0",
            "auxiliary/prnt",
            "x.nul",
            "null",
            ".con",
            "CO N",
            " CON",
            "src/common.rs",
            "COM⁴",
        ] {
            assert!(!names_a_device(path), "{path}");
        }
    }
}
