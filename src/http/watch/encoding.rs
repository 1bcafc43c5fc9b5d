//! How frames of a feed go over each transport.

use bytes::{BufMut, Bytes, BytesMut};
use flate2::{Compress, Compression, FlushCompress};

use super::outgoing::{data_frame, text_frame};
use crate::live::frame::{Encoding, Frame};

/// A WebSocket text frame.
pub(super) const WS: Encoding = Encoding::new(0, |frame| text_frame(frame.json()));

/// A WebSocket text frame, compressed without context takeover where that makes it shorter.
pub(super) const DEFLATED: Encoding = Encoding::new(1, |frame| match deflate(frame.json()) {
    Some(short) => data_frame(FINAL_DEFLATED_TEXT, &short),
    None => frame.bytes(WS),
});

/// A server-sent event whose id is the position, where the frame has one. The JSON has no raw line break, so that one `data` line
/// holds it.
pub(super) const SSE: Encoding = Encoding::new(2, event);

/// The first byte of a whole text message that is compressed (RFC 7692, 6).
const FINAL_DEFLATED_TEXT: u8 = 0xc1;

/// Each frame is compressed once for all watchers, while they wait: fast counts more than small.
const DEFLATE_LEVEL: u32 = 3;

fn event(frame: &Frame) -> Bytes {
    let mut out = BytesMut::with_capacity(frame.json().len() + 80);
    if frame.kind() != "presence" {
        out.put_slice(format!("id: {}\n", frame.position()).as_bytes());
    }
    out.put_slice(format!("event: {}\ndata: ", frame.kind()).as_bytes());
    out.put_slice(frame.json());
    out.put_slice(b"\n\n");
    out.freeze()
}

/// The payload of permessage-deflate (RFC 7692, 7.2.1); `None` if that is not shorter.
fn deflate(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 2 + 64);
    let mut deflate = Compress::new(Compression::new(DEFLATE_LEVEL), false);
    loop {
        let at = deflate.total_in() as usize;
        deflate.compress_vec(&text[at..], &mut out, FlushCompress::Sync).ok()?;
        // Room left in the output: the flush is complete.
        if out.len() < out.capacity() && deflate.total_in() as usize == text.len() {
            break;
        }
        out.reserve(1024);
    }
    // The flush ends in an empty block whose last four bytes are left out.
    out.truncate(out.strip_suffix(&[0, 0, 0xff, 0xff])?.len());
    (out.len() < text.len()).then_some(out)
}
