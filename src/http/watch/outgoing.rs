//! WebSocket frames that go out (RFC 6455, 5.2): unmasked, whole.

use actix_ws::CloseCode;
use bytes::{BufMut, Bytes, BytesMut};

/// The longest payload of a control frame.
const CONTROL_MOST: usize = 125;

/// A text frame.
pub fn text_frame(text: &[u8]) -> Bytes {
    data_frame(0x81, text)
}

/// A frame of any length. `first` is its first byte: FIN, the reserved bits and the opcode.
pub fn data_frame(first: u8, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(payload.len() + 10);
    out.put_u8(first);
    match payload.len() {
        short @ 0..126 => out.put_u8(short as u8),
        middle @ 126..65_536 => {
            out.put_u8(126);
            out.put_u16(middle as u16);
        }
        long => {
            out.put_u8(127);
            out.put_u64(long as u64);
        }
    }
    out.put_slice(payload);
    out.freeze()
}

/// A ping.
pub(super) fn ping() -> Bytes {
    control_frame(0x89, b"")
}

/// The answer to a ping with this payload.
pub(super) fn pong(payload: &[u8]) -> Bytes {
    control_frame(0x8a, payload)
}

/// A close frame: no code, or one and its reason, which is cut at 123 bytes.
pub fn close_frame(code: Option<CloseCode>, reason: &str) -> Bytes {
    let mut payload = Vec::new();
    if let Some(code) = code {
        payload.extend(u16::from(code).to_be_bytes());
        payload.extend(reason.as_bytes());
    }
    control_frame(0x88, &payload)
}

fn control_frame(first: u8, payload: &[u8]) -> Bytes {
    data_frame(first, &payload[..payload.len().min(CONTROL_MOST)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_spells_every_length() {
        for (len, header) in [(125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
            assert_eq!(text_frame(&vec![b'x'; len]).len(), len + header);
        }
    }
}
