//! What came of a client whole, and why it may be refused: the content of a message or of a close frame.

use actix_ws::CloseCode;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

/// What came in whole.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A text message.
    Text(String),
    /// A binary message, where the rules have them.
    Binary(Vec<u8>),
    /// A ping, with what the pong must carry.
    Ping(Bytes),
    /// A pong.
    Pong,
    /// The client closes, perhaps with a code.
    Close(Option<CloseCode>),
}

/// Why a connection must be closed, as its close code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The close code.
    pub code: CloseCode,
    /// The reason, in a few words.
    pub reason: &'static str,
}

/// The protocol is broken in this way.
pub(super) const fn broken(reason: &'static str) -> Violation {
    Violation { code: CloseCode::Protocol, reason }
}

/// A message that comes, or has come.
#[derive(Debug, Default)]
pub(super) struct IncomingMessage {
    pub(super) bytes: Vec<u8>,
    pub(super) binary: bool,
    pub(super) deflated: bool,
    /// The bytes before this one are known to be UTF-8.
    pub(super) checked: usize,
}

pub(super) const TOO_LONG: Violation = Violation { code: CloseCode::Size, reason: "a message is too long" };

pub(super) const NOT_UTF8: Violation =
    Violation { code: CloseCode::Invalid, reason: "a text message is not UTF-8" };

impl IncomingMessage {
    /// What is in it.
    pub(super) fn open(mut self, most: usize) -> Result<Incoming, Violation> {
        if self.deflated {
            self.bytes = inflate(&mut self.bytes, most)?;
            self.checked = 0;
        }
        match self.binary {
            true => Ok(Incoming::Binary(self.bytes)),
            false => String::from_utf8(self.bytes).map(Incoming::Text).map_err(|_| NOT_UTF8),
        }
    }

    /// False when it cannot become UTF-8 any more, whatever follows.
    pub(super) fn check(&mut self) -> bool {
        if self.binary {
            return true;
        }
        match std::str::from_utf8(&self.bytes[self.checked..]) {
            Ok(_) => self.checked = self.bytes.len(),
            Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
            Err(_) => return false,
        }
        true
    }
}

/// Decompresses a message of at most `most` bytes.
fn inflate(bytes: &mut Vec<u8>, most: usize) -> Result<Vec<u8>, Violation> {
    // The sender left out the end of its flush (RFC 7692, 7.2.2).
    bytes.extend_from_slice(&[0, 0, 0xff, 0xff]);
    let mut inflate = Decompress::new(false);
    let mut out = Vec::new();
    loop {
        // One byte of room more than allowed shows what is too long.
        out.reserve_exact((out.len() + 256).min(most + 1) - out.len());
        let (at, len) = (inflate.total_in() as usize, out.len());
        let status = inflate.decompress_vec(&bytes[at..], &mut out, FlushDecompress::Sync);
        match status {
            Err(_) => return Err(broken("a compressed message is damaged")),
            Ok(_) if out.len() > most => return Err(TOO_LONG),
            Ok(Status::StreamEnd) => return Ok(out),
            Ok(_) if inflate.total_in() as usize == bytes.len() && out.len() < out.capacity() => {
                return Ok(out);
            }
            Ok(_) if out.len() == len && inflate.total_in() as usize == at && out.len() < out.capacity() => {
                return Err(broken("a compressed message is damaged"));
            }
            Ok(_) => {}
        }
    }
}

/// A close frame's payload: empty, or a code that may be sent and a reason in UTF-8.
pub(super) fn closing(payload: &[u8]) -> Result<Incoming, Violation> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        return match payload {
            [] => Ok(Incoming::Close(None)),
            _ => Err(broken("a close frame has half a code")),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(broken("a close code that may not be sent"));
    }
    if std::str::from_utf8(reason).is_err() {
        return Err(Violation { code: CloseCode::Invalid, reason: "a close reason is not UTF-8" });
    }
    Ok(Incoming::Close(Some(code.into())))
}
