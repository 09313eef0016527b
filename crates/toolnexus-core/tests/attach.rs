//! Making parts of files, bytes, readers, data URLs and URLs.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::io::{self, Cursor, Read, Seek as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::json;
use toolnexus_core::content::{AttachOptions, ContentPart, PartErrorCode, Source, attach, attach_blocking};

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAGUlEQVR42mP4z8AARwyrkBAVJZClkAEVJQBm3VpRJDtqMQAAAABJRU5ErkJggg==";

fn png() -> Vec<u8> {
    STANDARD.decode(PNG).unwrap()
}

fn limited(max: u64) -> AttachOptions {
    AttachOptions { max_part_bytes: Some(max), ..Default::default() }
}

fn mime(mime: &str) -> AttachOptions {
    AttachOptions { mime_type: Some(mime.into()), ..Default::default() }
}

// CORE-18, CORE-19, CORE-24, CORE-29, cases 30 and 31
#[tokio::test]
async fn every_source_gives_the_same_part() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("Fixture ü😀.PNG");
    std::fs::write(&path, png()).unwrap();
    let expected = json!({"type": "image", "mimeType": "image/png", "data": PNG});
    let text = path.to_str().unwrap();
    let url = format!("data:image/png;base64,{PNG}");
    let named = AttachOptions { name: Some("shot.png".into()), ..Default::default() };
    let open = std::fs::File::open(&path).unwrap();
    let mut open_async = tokio::fs::File::open(&path).await.unwrap();
    let parts = [
        ContentPart::from_file(&path).unwrap(),
        ContentPart::image_file(text).unwrap(),
        ContentPart::from_bytes(png(), "image/png").unwrap(),
        ContentPart::from_reader(Cursor::new(png()), "image/png").unwrap(),
        ContentPart::from_data_url(&url).unwrap(),
        attach(text, AttachOptions::default()).await.unwrap(),
        attach(path.as_path(), AttachOptions::default()).await.unwrap(),
        attach(url, AttachOptions::default()).await.unwrap(),
        attach(png(), mime("image/png")).await.unwrap(),
        attach(Source::reader(Cursor::new(png())), mime("image/png")).await.unwrap(),
        attach(Source::async_reader(png().as_slice()), mime("image/png")).await.unwrap(),
        attach(&open, named.clone()).await.unwrap(),
        attach(&mut open_async, named).await.unwrap(),
    ];
    for part in parts {
        assert_eq!(serde_json::to_value(&part).unwrap(), expected);
    }
    // CORE-26: the handle stays usable.
    (&open).rewind().unwrap();
    let mut again = Vec::new();
    (&open).read_to_end(&mut again).unwrap();
    assert_eq!(again, png());
}

// CORE-30, CORE-22, CORE-23, CORE-27, cases 32, 33 and 36
#[test]
fn urls_are_kept() {
    let part = ContentPart::from_url("https://example.com/diagram.webp").unwrap();
    let expected =
        json!({"type": "image", "mimeType": "image/webp", "url": "https://example.com/diagram.webp"});
    assert_eq!(serde_json::to_value(&part).unwrap(), expected);
    let part = attach_blocking("HTTPS://example.com/spec.pdf?x=a.png", AttachOptions::default()).unwrap();
    assert_eq!(part.summarize(), "file (application/pdf, 0 bytes)");
    let part = ContentPart::from_url_with("https://x/y.bin", mime("application/octet-stream")).unwrap();
    assert_eq!(part.summarize(), "file (application/octet-stream, 0 bytes)");
    assert_eq!(ContentPart::from_url("https://x/y.bin").unwrap_err().code, PartErrorCode::UnknownExtension);
    assert_eq!(ContentPart::from_url("ftp://x/y.png").unwrap_err().code, PartErrorCode::UnsupportedSource);
}

// CORE-20, CORE-28, case 34: an unknown extension is told before the file is looked for
#[test]
fn what_cannot_be_made_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let code = |path: &str| {
        let error = ContentPart::from_file(dir.path().join(path)).unwrap_err();
        (error.code, error.message)
    };
    let (kind, message) = code("notes.xyz");
    assert_eq!(kind, PartErrorCode::UnknownExtension);
    assert!(message.contains("xyz") && message.contains("mime_type"), "{message}");
    let (kind, message) = code(".png");
    assert!(kind == PartErrorCode::UnknownExtension && message.contains("(none)"), "{message}");
    let (kind, message) = code("absent.png");
    assert!(kind == PartErrorCode::SourceMissing && message.contains("absent.png"), "{message}");
    std::fs::create_dir(dir.path().join("folder.png")).unwrap();
    let (kind, message) = code("folder.png");
    assert!(kind == PartErrorCode::SourceMissing && message.contains("directory"), "{message}");

    std::fs::write(dir.path().join("report.pdf"), "x").unwrap();
    let error = ContentPart::image_file(dir.path().join("report.pdf")).unwrap_err();
    assert_eq!(error.code, PartErrorCode::UnknownExtension);
    assert!(error.message.contains("application/pdf") && error.message.contains("file"), "{error}");

    for error in [
        ContentPart::from_bytes("x", "").unwrap_err(),
        ContentPart::from_reader(io::empty(), "").unwrap_err(),
        attach_blocking(Source::reader(io::empty()), AttachOptions::default()).unwrap_err(),
    ] {
        assert!(error.code == PartErrorCode::UnknownExtension && error.message.contains("(none)"), "{error}");
    }
    let error = attach_blocking(Source::async_reader(tokio::io::empty()), AttachOptions::default());
    assert_eq!(error.unwrap_err().code, PartErrorCode::UnsupportedSource);
}

// CORE-20: a text given by mistake is not shown
#[tokio::test]
async fn no_error_shows_what_was_given_as_data() {
    let secret = "c2VjcmV0".repeat(400);
    for source in [secret.clone(), format!("x.{secret}"), format!("data:image/png;base64,{secret}!")] {
        for options in [AttachOptions::default(), mime("image/png")] {
            let error = attach(&source, options).await.unwrap_err();
            assert!(!format!("{error} {error:?}").contains(&secret[..64]), "{error}");
        }
    }
    assert!(!format!("{:?}", Source::from(secret.as_str())).contains("c2Vj"));
}

// CORE-27
#[test]
fn names_are_for_files_only() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.pdf", "a.png", "naïve 😀.pdf"] {
        std::fs::write(dir.path().join(name), "x").unwrap();
        let part = ContentPart::from_file(dir.path().join(name)).unwrap();
        let expected = name.ends_with("pdf").then_some(name);
        assert_eq!(part.view().name(), expected);
    }
    // CORE-27: an explicit mime type wins over the extension and decides the kind.
    let part = ContentPart::from_file_with(dir.path().join("a.png"), mime("audio/wav")).unwrap();
    assert_eq!(part.summarize(), "audio (audio/wav, 1 bytes)");
    let part = ContentPart::from_data_url_with("data:image/png,x", mime("text/x")).unwrap();
    assert_eq!(part.summarize(), "file (text/x, 1 bytes)");
}

/// Endless; counts what was taken.
struct Endless(u64);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(7);
        self.0 += buffer.len() as u64;
        Ok(buffer.len())
    }
}

/// Fails behind its first bytes.
struct Failing(bool);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.0, true) {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the line is dead"));
        }
        buffer[0] = 1;
        Ok(1)
    }
}

// CORE-20, CORE-26
#[tokio::test]
async fn reading_stops_one_byte_past_the_limit() {
    let options = |max| AttachOptions { mime_type: Some("image/png".into()), ..limited(max) };
    let mut endless = Endless(0);
    let error = ContentPart::from_reader_with(&mut endless, options(1000)).unwrap_err();
    assert_eq!((error.code, endless.0), (PartErrorCode::TooLarge, 1001));
    assert!(error.message.contains("1001") && error.message.contains("1000"), "{error}");
    let error = attach(Source::async_reader(tokio::io::repeat(7)), options(1000)).await.unwrap_err();
    assert!(error.code == PartErrorCode::TooLarge && error.message.contains("1001"), "{error}");

    for (size, fits) in [(9, true), (10, true), (11, false)] {
        let bytes = vec![1; size];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        std::fs::write(&path, &bytes).unwrap();
        let url = format!("data:image/png;base64,{}", STANDARD.encode(&bytes));
        assert_eq!(ContentPart::from_file_with(&path, limited(10)).is_ok(), fits);
        assert_eq!(ContentPart::from_bytes_with(&bytes, options(10)).is_ok(), fits);
        assert_eq!(ContentPart::from_reader_with(bytes.as_slice(), options(10)).is_ok(), fits);
        assert_eq!(ContentPart::from_data_url_with(&url, limited(10)).is_ok(), fits);
        assert_eq!(attach(Source::async_reader(bytes.as_slice()), options(10)).await.is_ok(), fits);
    }
}

// CORE-26: a path is refused by its size before anything is read
#[test]
fn a_huge_file_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge.png");
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let error = ContentPart::from_file_with(&path, limited(10)).unwrap_err();
    assert_eq!(error.code, PartErrorCode::TooLarge);
    assert!(error.message.contains(&(1_u64 << 40).to_string()) && error.message.contains("10"), "{error}");
}

// CORE-20
#[test]
fn a_reader_that_fails_midway_is_an_error() {
    let error = ContentPart::from_reader(Failing(false), "image/png").unwrap_err();
    assert!(error.code == PartErrorCode::SourceMissing && error.message.contains("the line is dead"));
}

// CORE-20: nothing hangs on a pipe
#[cfg(unix)]
#[test]
fn a_pipe_by_path_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe.png");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert_eq!(ContentPart::from_file(&path).unwrap_err().code, PartErrorCode::UnsupportedSource);
    assert_eq!(
        ContentPart::from_file_with("/dev/zero", mime("image/png")).unwrap_err().code,
        PartErrorCode::UnsupportedSource
    );
}

// CORE-29
#[test]
fn data_urls_in_all_their_forms() {
    for (url, mime, data) in [
        ("data:,hello", "application/octet-stream", "aGVsbG8="),
        ("data:text/plain;charset=utf-8,a%20b%00", "text/plain", "YSBiAA=="),
        ("data:image/png;x=y;base64,AAAA", "image/png", "AAAA"),
        ("data:image/png;base64,AA", "image/png", "AA=="),
        ("data:image/png;base64,A%41%3D%3D", "image/png", "AA=="),
        ("data:;base64,", "application/octet-stream", ""),
    ] {
        let part = ContentPart::from_data_url(url).unwrap();
        assert_eq!((part.mime_type(), part.data(), part.url()), (Some(mime), Some(data), None), "{url}");
    }
    for url in
        ["data:image/png;base64", "data:image/png;base64,A", "data:image/png;base64,=A==", "image/png,x"]
    {
        assert_eq!(ContentPart::from_data_url(url).unwrap_err().code, PartErrorCode::SourceMissing, "{url}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // CORE-29, CORE-31
    #[test]
    fn bytes_survive_a_data_url(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let url = format!("data:image/png;base64,{}", STANDARD.encode(&bytes));
        let part = ContentPart::from_data_url(url).unwrap();
        prop_assert_eq!(STANDARD.decode(part.data().unwrap()).unwrap(), bytes.clone());
        prop_assert_eq!(part.part_bytes(), bytes.len() as u64);
        let percent: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
        prop_assert_eq!(ContentPart::from_data_url(format!("data:image/png,{percent}")).unwrap(), part);
    }

    // CORE-29: any text is a part that says the same again, or an error
    #[test]
    fn any_text_may_be_a_data_url(text in ".{0,60}", start in "(data:)?(image/png)?(;base64)?,?") {
        if let Ok(part) = ContentPart::from_data_url(format!("{start}{text}")) {
            let again = format!("data:{};base64,{}", part.mime_type().unwrap(), part.data().unwrap());
            prop_assert_eq!(ContentPart::from_data_url(again).unwrap(), part);
        }
    }
}

// CORE-25, CORE-26, CORE-27: every constructor takes the options that its short form leaves out
#[test]
fn constructors_with_options() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shot.png");
    std::fs::write(&path, b"1234").unwrap();
    let with = |max| AttachOptions {
        mime_type: Some("image/webp".into()),
        name: Some("n".into()),
        max_part_bytes: Some(max),
    };
    let make = |max| {
        [
            ContentPart::from_file_with(&path, with(max)),
            ContentPart::image_file_with(&path, with(max)),
            ContentPart::from_bytes_with("1234", with(max)),
            ContentPart::from_reader_with(Cursor::new(b"1234"), with(max)),
            ContentPart::from_data_url_with("data:text/plain,1234", with(max)),
        ]
    };
    for part in make(4) {
        let expected = json!({"type": "image", "mimeType": "image/webp", "data": "MTIzNA=="});
        assert_eq!(serde_json::to_value(part.unwrap()).unwrap(), expected);
    }
    for part in make(3) {
        assert_eq!(part.unwrap_err().code, PartErrorCode::TooLarge);
    }
    let link = ContentPart::from_url_with("https://example.com/a", with(0)).unwrap();
    assert_eq!(link, ContentPart::from_link("image/webp", "https://example.com/a", None));
    let text = ContentPart::image_file_with(&path, mime("text/plain")).unwrap_err();
    assert!(text.code == PartErrorCode::UnknownExtension && text.message.contains("text/plain"), "{text}");
}

// CORE-26: a file that has more than its size said is cut off like a reader
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_grows_is_cut_off() {
    // The kernel writes this one as it is read: its size is 0 before.
    let options = AttachOptions { max_part_bytes: Some(3), ..mime("text/plain") };
    let error = ContentPart::from_file_with("/proc/self/status", options).unwrap_err();
    assert_eq!(error.code, PartErrorCode::TooLarge);
    assert!(error.message.contains('4') && error.message.contains('3'), "{error}");
}

// CORE-20: a file that may not be read is named; nothing waits for the writer of a pipe
#[cfg(unix)]
#[test]
fn unreadable_paths_are_errors() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret.png");
    std::fs::write(&path, b"x").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
    // The superuser may read everything.
    if std::fs::File::open(&path).is_err() {
        let error = ContentPart::from_file(&path).unwrap_err();
        assert!(
            error.code == PartErrorCode::SourceMissing && error.message.contains("secret.png"),
            "{error}"
        );
    }
    let pipe = dir.path().join("fifo.png");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_eq!(ContentPart::from_file(&pipe).unwrap_err().code, PartErrorCode::UnsupportedSource);
}
