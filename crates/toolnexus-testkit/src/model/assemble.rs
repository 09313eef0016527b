//! A head and the segments of a body become bytes on the wire.

use std::time::Duration;

use bytes::Bytes;

use super::exchange::{Exchange, ExchangeBuilder, Pause, Step};

/// Everything before the body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    /// Waits before the first byte of the response.
    pub(crate) hold: Vec<Pause>,
    pub(crate) pace: Pace,
}

/// How the bytes of the head go out.
#[derive(Clone, Debug, Default)]
pub(crate) enum Pace {
    #[default]
    AtOnce,
    /// So many bytes at a time, with a delay before each further piece.
    Drip { bytes: usize, delay: Duration },
    /// Half of it and then nothing more.
    Stall,
}

/// How a client knows where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length,
    Chunked,
    UntilClose,
    /// No head is made; the segments are the whole response.
    Bare,
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub(crate) enum Segment {
    Data(Bytes),
    Fill {
        byte: u8,
        len: u64,
    },
    Pause(Pause),
    /// The connection ends here; what follows counts in the announced length and is not sent.
    Cut {
        reset: bool,
    },
}

impl Segment {
    fn len(&self) -> u64 {
        match self {
            Self::Data(bytes) => bytes.len() as u64,
            Self::Fill { len, .. } => *len,
            Self::Pause(_) | Self::Cut { .. } => 0,
        }
    }
}

/// Puts head and body together; `content_type` applies unless the head names one.
pub(crate) fn assemble(head: &Head, content_type: &str, framing: Framing, segments: &[Segment]) -> Exchange {
    let mut out = ExchangeBuilder::default();
    for pause in &head.hold {
        out.pause(pause.clone());
    }
    // A framing header given by the test decides, even when it lies.
    let framing = match framing {
        Framing::Bare => Framing::Bare,
        _ if head.has("transfer-encoding") => Framing::Chunked,
        _ if head.has("content-length") => Framing::Length,
        other => other,
    };
    if framing != Framing::Bare {
        let text = head.render(content_type, framing, segments);
        match head.pace {
            Pace::AtOnce => out.write(text.as_bytes()),
            Pace::Drip { bytes, delay } => {
                for (i, piece) in text.as_bytes().chunks(bytes).enumerate() {
                    if i > 0 {
                        out.pause(Pause::Delay(delay));
                    }
                    out.write(piece);
                }
            }
            Pace::Stall => {
                let half = text.as_bytes().get(..text.len() / 2).unwrap_or_default();
                out.write(half);
                out.pause(Pause::Forever);
            }
        }
    }
    let chunked = framing == Framing::Chunked;
    for segment in segments {
        match segment {
            Segment::Data(bytes) if bytes.is_empty() => {}
            Segment::Data(bytes) if chunked => {
                out.write(format!("{:x}\r\n", bytes.len()).as_bytes());
                out.write_owned(bytes.clone());
                out.write(b"\r\n");
            }
            Segment::Data(bytes) => out.write_owned(bytes.clone()),
            Segment::Fill { byte, len } => fill(&mut out, *byte, *len, chunked),
            Segment::Pause(pause) => out.pause(pause.clone()),
            Segment::Cut { reset } => {
                out.step(Step::Close { reset: *reset });
                return out.finish(false);
            }
        }
    }
    if chunked {
        out.write(b"0\r\n\r\n");
    }
    let close = framing == Framing::UntilClose || head.closes();
    out.finish(!close)
}

fn fill(out: &mut ExchangeBuilder, byte: u8, len: u64, chunked: bool) {
    const BLOCK: usize = 64 * 1024;
    let framed = |size: usize| {
        let data = vec![byte; size];
        if !chunked {
            return Bytes::from(data);
        }
        let mut block = format!("{size:x}\r\n").into_bytes();
        block.extend_from_slice(&data);
        block.extend_from_slice(b"\r\n");
        Bytes::from(block)
    };
    let times = len / BLOCK as u64;
    if times > 0 {
        out.step(Step::Repeat { block: framed(BLOCK), times });
    }
    let rest = usize::try_from(len % BLOCK as u64).unwrap_or_default();
    if rest > 0 {
        out.write_owned(framed(rest));
    }
}

impl Head {
    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    fn closes(&self) -> bool {
        let is_close = |(n, v): &(String, String)| {
            n.eq_ignore_ascii_case("connection") && v.eq_ignore_ascii_case("close")
        };
        self.headers.iter().any(is_close)
    }

    fn render(&self, content_type: &str, framing: Framing, segments: &[Segment]) -> String {
        let known = http::StatusCode::from_u16(self.status).ok().and_then(|s| s.canonical_reason());
        let mut text = format!("HTTP/1.1 {} {}\r\n", self.status, known.unwrap_or("Unknown"));
        let mut line = |name: &str, value: &str| {
            text.push_str(name);
            text.push_str(": ");
            text.push_str(value);
            text.push_str("\r\n");
        };
        if !content_type.is_empty() && !self.has("content-type") {
            line("Content-Type", content_type);
        }
        for (name, value) in &self.headers {
            line(name, value);
        }
        let bodiless = matches!(self.status, 100..=199 | 204 | 304) && segments.is_empty();
        if !self.has("content-length") && !self.has("transfer-encoding") && !bodiless {
            match framing {
                Framing::Length => line("Content-Length", &announced(segments).to_string()),
                Framing::Chunked => line("Transfer-Encoding", "chunked"),
                Framing::UntilClose if !self.has("connection") => line("Connection", "close"),
                Framing::UntilClose | Framing::Bare => {}
            }
        }
        text.push_str("\r\n");
        text
    }
}

/// The length that `Content-Length` promises: of all data, and more than is sent when it is cut.
fn announced(segments: &[Segment]) -> u64 {
    let total = segments.iter().map(Segment::len).sum();
    let cut = segments.iter().position(|s| matches!(s, Segment::Cut { .. }));
    let behind_cut = cut.map(|at| segments.iter().skip(at).map(Segment::len).sum::<u64>());
    if behind_cut == Some(0) { total + 1 } else { total }
}
