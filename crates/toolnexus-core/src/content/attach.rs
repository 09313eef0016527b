//! Making parts: what is to be attached becomes a [`ContentPart`], read completely.
//!
//! Every way in goes the same way: the mime type is settled first, since without one nothing needs
//! to be read; then the bytes are read, up to the limit; then both become a part of the kind that
//! the mime type means.

use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::data_url;
use super::media::{base_name, extension, is_http_url, mime_type_of_path, mime_type_of_url, url_path};
use super::read::{READER, check_size, read, read_async, read_path, shown, unreadable};
use super::source::{Kind, Source};
use super::{ContentPart, ContentPartError, PartErrorCode, PartKind};
use crate::redact::cut;

/// What is known of a part beside its source. All of it may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachOptions {
    /// The mime type. It wins over every other and decides the part's kind. Required for bytes and
    /// readers. Empty counts as not given.
    pub mime_type: Option<String>,
    /// The name of a file part; other parts have none. Default: a path's last component. An open
    /// file without a `mime_type` takes its mime type from here.
    pub name: Option<String>,
    /// The most bytes; a part of exactly that size is fine. `None`: no limit.
    pub max_part_bytes: Option<u64>,
}

impl AttachOptions {
    fn of_mime(mime_type: impl Into<String>) -> Self {
        AttachOptions { mime_type: Some(mime_type.into()), ..Default::default() }
    }

    fn explicit(&self) -> Option<String> {
        self.mime_type.clone().filter(|mime| !mime.is_empty())
    }

    /// The mime type, by these options or by the extension of `path`.
    fn mime_for(&self, path: &str) -> Result<String, ContentPartError> {
        let found = self.explicit().or_else(|| mime_type_of_path(path).map(str::to_owned));
        found.ok_or_else(|| unknown_extension("", extension(path).as_deref()))
    }

    /// The mime type of what has no name to take one from.
    fn mime_of(&self, what: &str) -> Result<String, ContentPartError> {
        self.explicit().ok_or_else(|| unknown_extension(what, None))
    }

    /// The mime type of an open file.
    fn mime_of_file(&self) -> Result<String, ContentPartError> {
        match &self.name {
            Some(name) => self.mime_for(name),
            None => self.mime_of("an open file without a name"),
        }
    }

    fn part(self, mime_type: String, bytes: &[u8]) -> ContentPart {
        ContentPart::from_base64(mime_type, STANDARD.encode(bytes), self.name)
    }
}

/// How much of an extension an error shows: one may be a whole text that was taken for a path.
const SHOWN_EXTENSION: usize = 32;

fn unknown_extension(what: &str, extension: Option<&str>) -> ContentPartError {
    let extension = match extension {
        Some(extension) => format!("\"{}\"", cut(extension, SHOWN_EXTENSION)),
        None => "(none)".to_owned(),
    };
    let of = if what.is_empty() { String::new() } else { format!(" for {what}") };
    ContentPartError::new(
        PartErrorCode::UnknownExtension,
        format!("no mime type is known{of} by the extension {extension}; pass an explicit mime_type"),
    )
}

/// Makes a part of any [`Source`]: text by its shape, paths, bytes, open files, readers.
///
/// Files are read off the async threads. A file handle is read from where it stands and stays
/// usable.
///
/// ```
/// use toolnexus_core::content::{AttachOptions, attach};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let linked = attach("https://example.com/diagram.webp", AttachOptions::default()).await.unwrap();
/// assert_eq!(linked.summarize(), "image (image/webp, 0 bytes)");
///
/// let options = AttachOptions { mime_type: Some("audio/wav".into()), ..Default::default() };
/// let clip = attach(b"RIFF", options).await.unwrap();
/// assert_eq!(clip.summarize(), "audio (audio/wav, 4 bytes)");
/// # }
/// ```
///
/// # Errors
/// A missing, unreadable or odd file, a failing reader, a malformed `data:` URL; no mime type;
/// more bytes than allowed.
pub async fn attach(
    source: impl Into<Source<'_>>,
    options: AttachOptions,
) -> Result<ContentPart, ContentPartError> {
    match source.into().0 {
        Kind::Path(path) => aside(move || from_path(&path, options)).await,
        Kind::File(file) => {
            let mime_type = options.mime_of_file()?;
            // Another handle on the same open file: reading moves both.
            let file = file.as_ref().try_clone().map_err(|error| unreadable("the open file", &error))?;
            aside(move || from_reader(file, mime_type, options)).await
        }
        Kind::AsyncFile(file) => {
            let mime_type = options.mime_of_file()?;
            let bytes = read_async(file, READER, options.max_part_bytes).await?;
            Ok(options.part(mime_type, &bytes))
        }
        Kind::AsyncReader(reader) => {
            let mime_type = options.mime_of("a reader")?;
            let bytes = read_async(reader, READER, options.max_part_bytes).await?;
            Ok(options.part(mime_type, &bytes))
        }
        other => attach_blocking(Source(other), options),
    }
}

/// [`attach`] for a thread that may block.
///
/// ```
/// use toolnexus_core::content::{AttachOptions, attach_blocking};
/// let part = attach_blocking("data:text/plain,hi", AttachOptions::default()).unwrap();
/// assert_eq!(part.summarize(), "file (text/plain, 2 bytes)");
/// ```
///
/// # Errors
/// As [`attach`], and [`UnsupportedSource`](PartErrorCode::UnsupportedSource) for what only async
/// code can read.
pub fn attach_blocking<'a>(
    source: impl Into<Source<'a>>,
    options: AttachOptions,
) -> Result<ContentPart, ContentPartError> {
    match source.into().0 {
        Kind::Path(path) => from_path(&path, options),
        Kind::DataUrl(url) => from_data_url(&url, options),
        Kind::Url(url) => from_url(&url, options),
        Kind::Bytes(bytes) => from_bytes(bytes.as_ref(), options),
        Kind::File(file) => {
            let mime_type = options.mime_of_file()?;
            from_reader(file.as_ref(), mime_type, options)
        }
        Kind::Reader(reader) => {
            let mime_type = options.mime_of("a reader")?;
            from_reader(reader, mime_type, options)
        }
        Kind::AsyncFile(_) | Kind::AsyncReader(_) => Err(ContentPartError::new(
            PartErrorCode::UnsupportedSource,
            "an async reader cannot be read on a blocking thread; use attach",
        )),
    }
}

/// Runs blocking work where it holds nobody up; outside a runtime there is nobody.
async fn aside(
    work: impl FnOnce() -> Result<ContentPart, ContentPartError> + Send + 'static,
) -> Result<ContentPart, ContentPartError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    runtime.spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(ContentPartError::new(
            PartErrorCode::SourceMissing,
            "cannot read the file: the runtime is shutting down",
        ))
    })
}

fn from_path(path: &Path, mut options: AttachOptions) -> Result<ContentPart, ContentPartError> {
    let text = path.to_string_lossy();
    let mime_type = options.mime_for(&text)?;
    let bytes = read_path(path, options.max_part_bytes)?;
    options.name.get_or_insert_with(|| base_name(&text).to_owned());
    Ok(options.part(mime_type, &bytes))
}

fn from_reader(
    reader: impl Read,
    mime_type: String,
    options: AttachOptions,
) -> Result<ContentPart, ContentPartError> {
    let bytes = read(reader, READER, options.max_part_bytes, 0)?;
    Ok(options.part(mime_type, &bytes))
}

fn from_bytes(bytes: &[u8], options: AttachOptions) -> Result<ContentPart, ContentPartError> {
    let mime_type = options.mime_of("bytes")?;
    check_size("the content", bytes.len() as u64, options.max_part_bytes)?;
    Ok(options.part(mime_type, bytes))
}

fn from_data_url(url: &str, options: AttachOptions) -> Result<ContentPart, ContentPartError> {
    let read = data_url::read(url)?;
    check_size("the data URL's content", read.bytes.len() as u64, options.max_part_bytes)?;
    let mime_type = options.explicit().unwrap_or(read.mime_type);
    Ok(options.part(mime_type, &read.bytes))
}

fn from_url(url: &str, options: AttachOptions) -> Result<ContentPart, ContentPartError> {
    if !is_http_url(url) {
        return Err(ContentPartError::new(
            PartErrorCode::UnsupportedSource,
            "not an http:// or https:// URL; give a path, bytes or a data: URL by their own constructors",
        ));
    }
    let found = options.explicit().or_else(|| mime_type_of_url(url).map(str::to_owned));
    let mime_type = found.ok_or_else(|| unknown_extension("a URL", extension(url_path(url)).as_deref()))?;
    Ok(ContentPart::from_link(mime_type, url, options.name))
}

/// Making parts on a thread that may block; [`attach`] is for async code.
impl ContentPart {
    /// The file at a path, by its extension an image, a file or audio.
    ///
    /// # Errors
    /// An extension without a mime type, told before the file is looked for; a missing or unreadable
    /// file; a pipe or device.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ContentPartError> {
        Self::from_file_with(path, AttachOptions::default())
    }

    /// [`ContentPart::from_file`] with options.
    ///
    /// # Errors
    /// As there, and a file that is too large: by its size before anything is read, or when it grows
    /// past the limit meanwhile.
    pub fn from_file_with(path: impl AsRef<Path>, options: AttachOptions) -> Result<Self, ContentPartError> {
        from_path(path.as_ref(), options)
    }

    /// The image at a path.
    ///
    /// # Errors
    /// As [`ContentPart::from_file`], and a file whose mime type is no image's, which is not read.
    pub fn image_file(path: impl AsRef<Path>) -> Result<Self, ContentPartError> {
        Self::image_file_with(path, AttachOptions::default())
    }

    /// [`ContentPart::image_file`] with options.
    ///
    /// # Errors
    /// As there and [`ContentPart::from_file_with`].
    pub fn image_file_with(path: impl AsRef<Path>, options: AttachOptions) -> Result<Self, ContentPartError> {
        let path = path.as_ref();
        let mime_type = options.mime_for(&path.to_string_lossy())?;
        let kind = PartKind::of_mime(&mime_type);
        if kind != PartKind::Image {
            return Err(ContentPartError::new(
                PartErrorCode::UnknownExtension,
                format!(
                    "{} is no image but of type {} ({mime_type}); use from_file, or pass an explicit mime_type",
                    shown(path),
                    kind.as_str()
                ),
            ));
        }
        from_path(path, options)
    }

    /// These bytes; a text gives its UTF-8 bytes.
    ///
    /// # Errors
    /// An empty mime type.
    pub fn from_bytes(
        bytes: impl AsRef<[u8]>,
        mime_type: impl Into<String>,
    ) -> Result<Self, ContentPartError> {
        Self::from_bytes_with(bytes, AttachOptions::of_mime(mime_type))
    }

    /// [`ContentPart::from_bytes`] with options, the mime type among them.
    ///
    /// # Errors
    /// No mime type; more bytes than allowed.
    pub fn from_bytes_with(
        bytes: impl AsRef<[u8]>,
        options: AttachOptions,
    ) -> Result<Self, ContentPartError> {
        from_bytes(bytes.as_ref(), options)
    }

    /// What a reader has until its end. Give `&mut reader` to keep it.
    ///
    /// # Errors
    /// An empty mime type; a reader that fails.
    pub fn from_reader(reader: impl Read, mime_type: impl Into<String>) -> Result<Self, ContentPartError> {
        Self::from_reader_with(reader, AttachOptions::of_mime(mime_type))
    }

    /// [`ContentPart::from_reader`] with options, the mime type among them. For an open file whose
    /// name is to give the mime type, see [`attach_blocking`].
    ///
    /// # Errors
    /// No mime type; a reader that fails; one that has more bytes than allowed, which is given up one
    /// byte past the limit.
    pub fn from_reader_with(reader: impl Read, options: AttachOptions) -> Result<Self, ContentPartError> {
        let mime_type = options.mime_of("a reader")?;
        from_reader(reader, mime_type, options)
    }

    /// What a `data:` URL holds. Without a mime type it is `application/octet-stream`.
    ///
    /// ```
    /// use toolnexus_core::ContentPart;
    /// let part = ContentPart::from_data_url("data:text/plain,a%20b").unwrap();
    /// assert_eq!(part.data(), Some("YSBi"));
    /// ```
    ///
    /// # Errors
    /// A malformed URL; base64 that is none.
    pub fn from_data_url(url: impl AsRef<str>) -> Result<Self, ContentPartError> {
        Self::from_data_url_with(url, AttachOptions::default())
    }

    /// [`ContentPart::from_data_url`] with options.
    ///
    /// # Errors
    /// As there, and more bytes than allowed.
    pub fn from_data_url_with(
        url: impl AsRef<str>,
        options: AttachOptions,
    ) -> Result<Self, ContentPartError> {
        from_data_url(url.as_ref(), options)
    }

    /// What lies at an http(s) URL. It is not fetched here: the provider does that.
    ///
    /// # Errors
    /// Another scheme; a path whose extension has no mime type.
    pub fn from_url(url: impl AsRef<str>) -> Result<Self, ContentPartError> {
        Self::from_url_with(url, AttachOptions::default())
    }

    /// [`ContentPart::from_url`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn from_url_with(url: impl AsRef<str>, options: AttachOptions) -> Result<Self, ContentPartError> {
        from_url(url.as_ref(), options)
    }
}
