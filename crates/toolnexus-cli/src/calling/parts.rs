//! Images, audio and files of a result, written to a directory.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toolnexus::ContentPart;

use crate::exit::{Exit, Failure};

/// The longest name of a file that is taken over.
const LONGEST_NAME: usize = 100;

/// Writes the parts that hold bytes into `dir`, which is made if it is not there. Nothing is overwritten.
/// Returns a line for each part that is no text.
pub(super) fn write(parts: &[ContentPart], dir: &Path) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_text()) {
        let Some(data) = part.data() else {
            told.push(format!("{}: not fetched from {}", part.summarize(), part.url().unwrap_or_default()));
            continue;
        };
        let path = dir.join(file_name(at + 1, part));
        let written = fs::create_dir_all(dir).map_err(|error| error.to_string()).and_then(|()| {
            let bytes = STANDARD.decode(data).map_err(|error| format!("its data is no base64: {error}"))?;
            let file = OpenOptions::new().write(true).create_new(true).open(&path);
            file.and_then(|mut file| file.write_all(&bytes)).map_err(|error| error.to_string())
        });
        written.map_err(|error| {
            let advice = "name a directory that can be written and is empty with --output";
            Failure::new(Exit::Failed, format!("{path:?} cannot be written: {error}; {advice}"))
        })?;
        told.push(format!("{} → {}", part.summarize(), path.display()));
    }
    Ok(told)
}

/// `1.png`, or `2-report.pdf` for a file with a name: begins with a number of ours, so that no name that a
/// server chooses is one that means something here.
fn file_name(number: usize, part: &ContentPart) -> String {
    if let ContentPart::File { name: Some(name), .. } = part {
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        let safe = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ' ') { c } else { '_' };
        // The end of a long name is kept: it has the extension.
        let skipped = name.chars().count().saturating_sub(LONGEST_NAME);
        let name: String = name.chars().skip(skipped).map(safe).collect();
        if !name.trim_matches(['.', ' ']).is_empty() {
            return format!("{number}-{}", name.trim_end_matches(['.', ' ']));
        }
    }
    format!("{number}.{}", extension(part.mime_type().unwrap_or_default()))
}

fn extension(mime_type: &str) -> &str {
    match mime_type {
        "image/jpeg" => "jpg",
        "image/svg+xml" => "svg",
        "audio/mpeg" => "mp3",
        "audio/wav" | "audio/x-wav" => "wav",
        "text/plain" => "txt",
        "text/markdown" => "md",
        "image/png" | "image/gif" | "image/webp" | "image/avif" | "audio/ogg" | "audio/flac"
        | "application/pdf" | "application/json" | "application/zip" | "text/csv" | "text/html" => {
            mime_type.rsplit('/').next().unwrap_or_default()
        }
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> ContentPart {
        ContentPart::from_base64("application/pdf", "AAAA", Some(name.to_owned()))
    }

    #[test]
    fn names_of_others_mean_nothing_here() {
        for (given, used) in [
            ("report.pdf", "2-report.pdf"),
            ("../../etc/passwd", "2-passwd"),
            ("C:\\temp\\a b.pdf", "2-a b.pdf"),
            (".bashrc", "2-.bashrc"),
            ("a:b*c?\u{1b}.pdf", "2-a_b_c__.pdf"),
            ("..", "2.pdf"),
            ("", "2.pdf"),
            ("x/", "2.pdf"),
            ("trailing. ", "2-trailing"),
        ] {
            assert_eq!(file_name(2, &file(given)), used, "{given:?}");
        }
        assert_eq!(file_name(1, &file(&"é".repeat(500))).chars().count(), LONGEST_NAME + 2);
        assert_eq!(file_name(1, &ContentPart::from_base64("image/png", "", None)), "1.png");
        assert_eq!(file_name(3, &ContentPart::from_base64("x/../y", "", None)), "3.bin");
    }

    #[test]
    fn parts_are_written_and_nothing_is_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("made/here");
        let parts = [
            ContentPart::text("hi"),
            ContentPart::from_base64("image/png", "iVBORw==", None),
            ContentPart::from_link("audio/wav", "https://example.com/a.wav", None),
        ];
        let told = write(&parts, &dir).unwrap();
        assert_eq!(fs::read(dir.join("2.png")).unwrap(), [0x89, b'P', b'N', b'G']);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("image (image/png, 4 bytes) → "), "{told:?}");
        assert!(told[1].ends_with("not fetched from https://example.com/a.wav"), "{told:?}");
        let failure = write(&parts, &dir).unwrap_err();
        assert!(failure.message.contains("2.png") && failure.message.contains("--output"), "{failure:?}");
        let broken = [ContentPart::from_base64("image/png", "!", None)];
        assert!(write(&broken, &place.path().join("b")).unwrap_err().message.contains("no base64"));
    }
}
