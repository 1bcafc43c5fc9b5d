//! What a WebSocket client sends (RFC 6455, section 5), judged by each frame's header before
//! anything of it is buffered. A message may have 4 KiB; the rest of a refused one is skipped, so
//! that the client can read why.

use actix_ws::CloseCode;
use bytes::Buf;

mod message;

pub use message::{Incoming, Violation};
use message::{IncomingMessage, NOT_UTF8, TOO_LONG, broken, closing};

/// The longest message a client may send.
pub const MESSAGE_MOST: usize = 4096;

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRules {
    /// The longest message, also after decompression, in bytes.
    pub most: u32,
    /// Whether messages may be binary.
    pub binary: bool,
    /// Whether messages may be compressed: permessage-deflate without context takeover.
    pub deflate: bool,
}

impl Default for FrameRules {
    fn default() -> Self {
        FrameRules { most: MESSAGE_MOST as u32, binary: false, deflate: false }
    }
}

/// Reads frames from pieces of any size. Between frames, which is nearly always, it holds no memory beside itself.
#[derive(Debug, Default)]
pub struct FrameReader {
    rules: FrameRules,
    /// What is under way.
    reading: Option<Box<Reading>>,
}

impl FrameReader {
    /// Under these rules.
    pub fn new(rules: FrameRules) -> Self {
        FrameReader { rules, reading: None }
    }

    /// Takes bytes until something is whole. None: all bytes are used up.
    pub fn read(&mut self, bytes: &mut &[u8]) -> Option<Result<Incoming, Violation>> {
        if bytes.is_empty() && self.reading.is_none() {
            return None;
        }
        let mut reading = self.reading.take().unwrap_or_else(|| Box::new(Reading::new(self.rules)));
        let came = reading.read(bytes);
        self.reading = (!reading.is_over()).then_some(reading);
        came
    }
}

/// Frames under way.
#[derive(Debug)]
struct Reading {
    rules: FrameRules,
    header: [u8; 14],
    have: usize,
    payload: Option<Payload>,
    /// The message under way; none between messages.
    message: Option<IncomingMessage>,
    control: Vec<u8>,
    /// Set after a violation: only a close frame is still of interest.
    deaf: bool,
    /// The client's close frame was itself a violation: it is both.
    closed: bool,
}

#[derive(Debug)]
struct Payload {
    opcode: u8,
    fin: bool,
    /// The reserved bits as they are in the first byte.
    reserved: u8,
    masked: bool,
    mask: [u8; 4],
    at: usize,
    left: u64,
    /// It is a control frame of legal length; a deaf reader meets others too, of which nothing is kept.
    control: bool,
    skip: bool,
}

impl Reading {
    fn new(rules: FrameRules) -> Self {
        let (payload, message, control) = (None, None, Vec::new());
        Reading { rules, header: [0; 14], have: 0, payload, message, control, deaf: false, closed: false }
    }

    /// Nothing is under way, and nothing must be remembered.
    fn is_over(&self) -> bool {
        let between = self.have == 0 && self.payload.is_none() && self.message.is_none();
        between && self.control.is_empty() && !self.deaf && !self.closed
    }

    /// As [`FrameReader::read`].
    fn read(&mut self, bytes: &mut &[u8]) -> Option<Result<Incoming, Violation>> {
        if std::mem::take(&mut self.closed) {
            return Some(Ok(Incoming::Close(None)));
        }
        loop {
            if self.payload.is_none() {
                self.payload = Some(self.read_header(bytes)?);
                // An oversized data frame is refused here, at its header; what follows is skipped.
                if let Some(violation) = self.judge() {
                    return Some(Err(self.deafen(violation)));
                }
            }
            if !self.read_payload(bytes) {
                return self.wrong_text().map(|violation| Err(self.deafen(violation)));
            }
            if let Some(payload) = self.payload.take()
                && let Some(done) = self.finish(&payload)
            {
                return Some(done.map_err(|violation| self.deafen(violation)));
            }
        }
    }

    fn deafen(&mut self, violation: Violation) -> Violation {
        self.deaf = true;
        self.message = None;
        if let Some(payload) = &mut self.payload {
            payload.skip = true;
        }
        violation
    }

    fn read_header(&mut self, bytes: &mut &[u8]) -> Option<Payload> {
        loop {
            let need = match self.have {
                0 | 1 => 2,
                _ => {
                    let length = match self.header[1] & 0x7f {
                        126 => 2,
                        127 => 8,
                        _ => 0,
                    };
                    2 + length + if self.header[1] & 0x80 != 0 { 4 } else { 0 }
                }
            };
            if self.have >= 2 && self.have == need {
                break;
            }
            if bytes.is_empty() {
                return None;
            }
            let take = (need - self.have).min(bytes.len());
            bytes.copy_to_slice(&mut self.header[self.have..self.have + take]);
            self.have += take;
        }
        let have = std::mem::take(&mut self.have);
        let [first, second, rest @ ..] = self.header;
        let left = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes([rest[0], rest[1]])),
            127 => {
                let mut long = [0; 8];
                long.copy_from_slice(&rest[..8]);
                u64::from_be_bytes(long)
            }
            short => u64::from(short),
        };
        let masked = second & 0x80 != 0;
        let mut mask = [0; 4];
        if masked {
            mask.copy_from_slice(&self.header[have - 4..have]);
        }
        let (opcode, fin, reserved) = (first & 0x0f, first & 0x80 != 0, first & 0x70);
        let control = matches!(opcode, 8..=10) && left <= CONTROL_MOST;
        Some(Payload { opcode, fin, reserved, masked, mask, at: 0, left, control, skip: self.deaf })
    }

    /// Text that is wrong already is refused without waiting for its end.
    fn wrong_text(&mut self) -> Option<Violation> {
        let message = self.message.as_mut()?;
        (!message.deflated && !message.check()).then_some(NOT_UTF8)
    }

    /// What the header alone shows to be wrong.
    fn judge(&mut self) -> Option<Violation> {
        let payload = self.payload.as_ref()?;
        let (opcode, left) = (payload.opcode, payload.left);
        if self.deaf {
            // Still honest about control frames: they are how the other side says it is done.
            return None;
        }
        let deflated = payload.reserved == DEFLATED;
        // The bit is of a message, so only its first frame has it.
        if payload.reserved != 0 && !(deflated && self.rules.deflate && matches!(opcode, 1 | 2)) {
            return Some(broken("reserved bits are set"));
        }
        if !payload.masked {
            return Some(broken("a client's frame is not masked"));
        }
        match opcode {
            8..=10 if left > CONTROL_MOST || !payload.fin => {
                Some(broken("a control frame is long or in parts"))
            }
            8..=10 => None,
            2 if !self.rules.binary => {
                Some(Violation { code: CloseCode::Unsupported, reason: "binary messages are not understood" })
            }
            1 | 2 if self.message.is_some() => Some(broken("a message began inside another")),
            0 if self.message.is_none() => Some(broken("a continuation of nothing")),
            0..=2 => {
                let binary = opcode == 2;
                let new = || IncomingMessage { binary, deflated, ..IncomingMessage::default() };
                let message = self.message.get_or_insert_with(new);
                (left > u64::from(self.rules.most).saturating_sub(message.bytes.len() as u64))
                    .then_some(TOO_LONG)
            }
            _ => Some(broken("an unknown opcode")),
        }
    }

    /// True when the frame's payload is complete.
    fn read_payload(&mut self, bytes: &mut &[u8]) -> bool {
        let Some(payload) = &mut self.payload else { return false };
        let take = usize::try_from(payload.left).unwrap_or(usize::MAX).min(bytes.len());
        let (piece, rest) = bytes.split_at(take);
        *bytes = rest;
        payload.left -= take as u64;
        let into = match (&mut self.message, payload.skip) {
            _ if payload.control => Some(&mut self.control),
            (message, false) => message.as_mut().map(|message| &mut message.bytes),
            (_, true) => None,
        };
        if let Some(into) = into {
            let masked = piece.iter().enumerate();
            into.extend(masked.map(|(n, byte)| byte ^ payload.mask[(payload.at + n) & 3]));
        }
        payload.at = (payload.at + take) & 3;
        payload.left == 0
    }

    fn finish(&mut self, payload: &Payload) -> Option<Result<Incoming, Violation>> {
        match payload.opcode {
            8 => {
                let closing = closing(&std::mem::take(&mut self.control));
                self.closed = closing.is_err();
                Some(closing)
            }
            9 => Some(Ok(Incoming::Ping(std::mem::take(&mut self.control).into()))).filter(|_| !self.deaf),
            10 => {
                self.control.clear();
                Some(Ok(Incoming::Pong)).filter(|_| !self.deaf)
            }
            _ if self.deaf => None,
            _ if !payload.fin => self.wrong_text().map(Err),
            _ => Some(self.message.take().unwrap_or_default().open(self.rules.most as usize)),
        }
    }
}

/// The longest payload of a control frame (RFC 6455, 5.5).
const CONTROL_MOST: u64 = 125;

/// The reserved bit that permessage-deflate uses.
const DEFLATED: u8 = 0x40;

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            n @ 0..126 => out.push(0x80 | n as u8),
            n @ 126..65_536 => {
                out.push(0x80 | 126);
                out.extend((n as u16).to_be_bytes());
            }
            n => {
                out.push(0x80 | 127);
                out.extend((n as u64).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        out.extend(mask);
        out.extend(payload.iter().enumerate().map(|(n, b)| b ^ mask[n & 3]));
        out
    }

    /// All that comes out, whatever the sizes of the pieces.
    fn read(stream: &[u8], piece: usize) -> Vec<Result<Incoming, u16>> {
        let mut reader = FrameReader::default();
        let mut out = vec![];
        for part in stream.chunks(piece) {
            let mut bytes = part;
            while let Some(got) = reader.read(&mut bytes) {
                out.push(got.map_err(|v| v.code.into()));
            }
        }
        out
    }

    #[test]
    fn messages_come_out_whole_from_pieces_of_any_size() {
        let mut stream = frame(0x01, b"he");
        stream.extend(frame(0x89, b"ping"));
        stream.extend(frame(0x80, "llo é".as_bytes()));
        stream.extend(frame(0x8a, b""));
        stream.extend(frame(0x88, &1000u16.to_be_bytes()));
        let expected = vec![
            Ok(Incoming::Ping(Bytes::from_static(b"ping"))),
            Ok(Incoming::Text("hello é".into())),
            Ok(Incoming::Pong),
            Ok(Incoming::Close(Some(CloseCode::Normal))),
        ];
        for piece in 1..stream.len() + 1 {
            assert_eq!(read(&stream, piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn protocol_violations_are_refused_at_the_frame_header() {
        let cases: Vec<(Vec<u8>, u16)> = vec![
            (frame(0x82, b"x"), 1003),
            (frame(0x81, &[b'x'; 4097]), 1009),
            (frame(0x81, &[0xff]), 1007),
            (frame(0xc1, b"x"), 1002),
            (frame(0x80, b"x"), 1002),
            (frame(0x83, b"x"), 1002),
            (frame(0x09, b"x"), 1002),
            (frame(0x89, &[b'x'; 126]), 1002),
            (vec![0x81, 0x01, b'x'], 1002),
            (frame(0x88, b"x"), 1002),
            (frame(0x88, &1005u16.to_be_bytes()), 1002),
        ];
        for (stream, code) in cases {
            for piece in [1, 7, 100_000] {
                assert_eq!(read(&stream, piece).first(), Some(&Err(code)), "{:?}", &stream[..2]);
            }
        }
        assert_eq!(read(&frame(0x81, &[b'x'; 4096]), 1000).len(), 1);
    }

    #[test]
    fn a_long_message_is_skipped_unbuffered_and_the_close_after_it_is_heard() {
        let mut stream = frame(0x81, &vec![b'x'; 200_000]);
        stream.extend(frame(0x88, &1009u16.to_be_bytes()));
        let mut reader = FrameReader::default();
        let mut bytes = &stream[..];
        assert_eq!(reader.read(&mut bytes).unwrap().unwrap_err().code, CloseCode::Size);
        assert_eq!(reader.read(&mut bytes), Some(Ok(Incoming::Close(Some(CloseCode::Size)))));
        assert!(reader.reading.is_some_and(|reading| reading.message.is_none()));
    }

    #[test]
    fn after_any_refused_frame_the_clients_close_is_heard() {
        let unmasked = [&[0x81, 5][..], b"hello"].concat();
        for refused in [frame(0xc1, b"hello"), frame(0x83, b"hello"), frame(0x8c, b"hello"), unmasked] {
            let stream = [refused, frame(0x88, &1002u16.to_be_bytes())].concat();
            for piece in 1..=stream.len() {
                let expected = vec![Err(1002), Ok(Incoming::Close(Some(CloseCode::Protocol)))];
                assert_eq!(read(&stream, piece), expected, "{:?}", &stream[..2]);
            }
        }
    }

    #[test]
    fn a_close_frame_that_is_wrong_is_still_the_clients_last_word() {
        for wrong in [&[3][..], &1005u16.to_be_bytes(), &[3, 0xe8, 0xff]] {
            let got = read(&frame(0x88, wrong), 2);
            assert!(got[0].is_err() && got[1..] == [Ok(Incoming::Close(None))], "{got:?}");
        }
    }

    #[test]
    fn text_that_is_wrong_is_refused_before_its_end() {
        let stream = frame(0x81, &[b"a".repeat(1_000), vec![0xff], b"a".repeat(1_000)].concat());
        assert_eq!(read(&stream[..1_200], 100), [Err(1007)]);
        assert_eq!(read(&stream, 5_000), [Err(1007)]);
    }

    #[test]
    fn a_deaf_reader_keeps_nothing_of_a_close_frame_that_is_too_long() {
        let stream = [frame(0xc1, b"x"), frame(0x88, &[0xff; 140])].concat();
        for piece in 1..=stream.len() {
            assert_eq!(read(&stream, piece), [Err(1002), Ok(Incoming::Close(None))], "pieces of {piece}");
        }
    }
}
