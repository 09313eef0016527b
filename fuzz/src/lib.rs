//! What the fuzz targets share: a client whose provider answers with the fuzzer's bytes.

mod answered;
mod double;

pub use answered::{Told, buffered, ends_well, streamed};
pub use double::Double;

use bytes::Bytes;

/// `body` cut into pieces at places that depend on it alone, empty pieces among them.
pub fn cut_at_random(body: &[u8]) -> Vec<Bytes> {
    let seed = body
        .iter()
        .fold(body.len() as u64, |seed, byte| (seed ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut rest = body;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let most = if random.bool() { 3 } else { 64 };
        let (piece, after) = rest.split_at(random.usize(0..=most.min(rest.len())));
        pieces.push(Bytes::copy_from_slice(piece));
        rest = after;
    }
    pieces
}

/// `body` byte by byte.
pub fn cut_everywhere(body: &[u8]) -> Vec<Bytes> {
    body.chunks(1).map(Bytes::copy_from_slice).collect()
}
