//! Bytes as the file of a run, as they are and with right checksums: what is whole stays whole
//! wherever the file is cut, and a changed byte never passes for an event.
#![no_main]

use libfuzzer_sys::fuzz_target;
use toolnexus_llm::run_log::whole_appends;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut lines = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let content = line.strip_suffix(b"\n").unwrap_or(line);
        lines.extend_from_slice(format!("{:08x} ", crc32fast::hash(content)).as_bytes());
        lines.extend_from_slice(line);
    }
    check(&lines);
});

fn check(text: &[u8]) {
    let Ok(whole) = whole_appends(text) else { return };
    let text = &text[..whole];
    assert!(text.last().is_none_or(|byte| *byte == b'\n'), "an append ends with a line");
    assert_eq!(whole_appends(text), Ok(whole), "what is whole stays whole without what is torn");
    for cut in cuts(whole) {
        let left = whole_appends(&text[..cut]).expect("what was cut off is torn, not damaged");
        assert!(left <= cut);
        assert_eq!(whole_appends(&text[..left]), Ok(left));
        if cut < whole && text[cut] != 0x80 {
            let mut changed = text.to_vec();
            changed[cut] ^= 0x80;
            let line = text[..cut].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            match whole_appends(&changed) {
                Err(damaged) => assert_eq!(damaged, line),
                // Beside a zero byte a changed one cannot be told from a block that was not written.
                Ok(left) => assert!(left <= cut && text[left..].contains(&0)),
            }
        }
    }
}

/// Some places in a text of that length, all of them in a short one.
fn cuts(len: usize) -> impl Iterator<Item = usize> {
    (0..=len).step_by(len / 64 + 1)
}
