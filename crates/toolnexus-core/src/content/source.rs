//! Where a part's content comes from.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::io::AsyncRead;

use super::data_url::is_data_url;
use super::media::is_http_url;

/// Where a part's content comes from. Made by `From` of what you have:
///
/// * text, by its shape: `data:…` is a data URL, `http://…` and `https://…` a URL, anything else a
///   path. Text is never content itself.
/// * [`Path`], [`PathBuf`]: a file, whatever its name looks like.
/// * `Vec<u8>`, `&[u8]`, [`Bytes`]: the content.
/// * an open [`std::fs::File`] or [`tokio::fs::File`], best borrowed: read from where it stands.
/// * [`Source::reader`] and [`Source::async_reader`] for any other reader.
pub struct Source<'a>(pub(super) Kind<'a>);

pub(super) enum Kind<'a> {
    Path(PathBuf),
    DataUrl(Cow<'a, str>),
    Url(Cow<'a, str>),
    Bytes(Content<'a>),
    File(Handle<'a>),
    Reader(Box<dyn Read + Send + 'a>),
    AsyncFile(Box<dyn AsyncRead + Send + Unpin + 'a>),
    AsyncReader(Box<dyn AsyncRead + Send + Unpin + 'a>),
}

/// Bytes that are there already.
pub(super) enum Content<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
    Shared(Bytes),
}

/// An open file.
pub(super) enum Handle<'a> {
    Borrowed(&'a File),
    Owned(File),
}

impl<'a> Source<'a> {
    /// A reader, read to its end and not closed if it is given as `&mut`.
    ///
    /// [`attach`](super::attach) reads it on the thread it is polled on: give an async reader where
    /// it may take long.
    pub fn reader(reader: impl Read + Send + 'a) -> Self {
        Source(Kind::Reader(Box::new(reader)))
    }

    /// An async reader, read to its end and not closed if it is given as `&mut`. Only
    /// [`attach`](super::attach) can read it.
    pub fn async_reader(reader: impl AsyncRead + Send + Unpin + 'a) -> Self {
        Source(Kind::AsyncReader(Box::new(reader)))
    }

    fn text(text: Cow<'a, str>) -> Self {
        Source(if is_data_url(&text) {
            Kind::DataUrl(text)
        } else if is_http_url(&text) {
            Kind::Url(text)
        } else {
            Kind::Path(text.into_owned().into())
        })
    }
}

impl AsRef<[u8]> for Content<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Content::Borrowed(bytes) => bytes,
            Content::Owned(bytes) => bytes,
            Content::Shared(bytes) => bytes,
        }
    }
}

impl AsRef<File> for Handle<'_> {
    fn as_ref(&self) -> &File {
        match self {
            Handle::Borrowed(file) => file,
            Handle::Owned(file) => file,
        }
    }
}

impl<'a> From<&'a str> for Source<'a> {
    fn from(text: &'a str) -> Self {
        Source::text(text.into())
    }
}

impl<'a> From<&'a String> for Source<'a> {
    fn from(text: &'a String) -> Self {
        Source::text(text.into())
    }
}

impl From<String> for Source<'_> {
    fn from(text: String) -> Self {
        Source::text(text.into())
    }
}

impl From<&Path> for Source<'_> {
    fn from(path: &Path) -> Self {
        Source(Kind::Path(path.into()))
    }
}

impl From<&PathBuf> for Source<'_> {
    fn from(path: &PathBuf) -> Self {
        Source(Kind::Path(path.clone()))
    }
}

impl From<PathBuf> for Source<'_> {
    fn from(path: PathBuf) -> Self {
        Source(Kind::Path(path))
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Source(Kind::Bytes(Content::Borrowed(bytes)))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Source<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Source(Kind::Bytes(Content::Borrowed(bytes)))
    }
}

impl<'a> From<&'a Vec<u8>> for Source<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Source(Kind::Bytes(Content::Borrowed(bytes)))
    }
}

impl From<Vec<u8>> for Source<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Source(Kind::Bytes(Content::Owned(bytes)))
    }
}

impl From<Bytes> for Source<'_> {
    fn from(bytes: Bytes) -> Self {
        Source(Kind::Bytes(Content::Shared(bytes)))
    }
}

impl<'a> From<&'a File> for Source<'a> {
    fn from(file: &'a File) -> Self {
        Source(Kind::File(Handle::Borrowed(file)))
    }
}

impl From<File> for Source<'_> {
    fn from(file: File) -> Self {
        Source(Kind::File(Handle::Owned(file)))
    }
}

impl<'a> From<&'a mut tokio::fs::File> for Source<'a> {
    fn from(file: &'a mut tokio::fs::File) -> Self {
        Source(Kind::AsyncFile(Box::new(file)))
    }
}

impl From<tokio::fs::File> for Source<'_> {
    fn from(file: tokio::fs::File) -> Self {
        Source(Kind::AsyncFile(Box::new(file)))
    }
}

/// The kind of source, and nothing of what is in it.
impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &self.0 {
            Kind::Path(_) => "path",
            Kind::DataUrl(_) => "data URL",
            Kind::Url(_) => "URL",
            Kind::Bytes(_) => "bytes",
            Kind::File(_) | Kind::AsyncFile(_) => "open file",
            Kind::Reader(_) => "reader",
            Kind::AsyncReader(_) => "async reader",
        };
        write!(f, "Source({kind})")
    }
}
