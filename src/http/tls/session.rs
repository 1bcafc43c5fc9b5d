//! One connection's encryption, without I/O and without buffers of its own: what it keeps beside keys is a record
//! that has not come whole, and what the socket did not take.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{HandshakeKind, ServerConfig};

/// The most that is encrypted as one record.
pub const MAX_RECORD_BYTES: usize = 16 << 10;

/// A record and what encryption adds to it, and what may have to go out before it: an alert, a change of keys.
const MAX_SEALED_BYTES: usize = MAX_RECORD_BYTES + 1024;

/// So much of what waits goes out with the next record: tickets, together with the answer to a handshake.
const TOGETHER: usize = 512;

/// The most that may wait for the rest of a record (RFC 5246, 6.2.3).
const MAX_PARTIAL_BYTES: usize = (16 << 10) + 2048 + 5;

/// The same before the handshake is done. A client's hello, the longest of its messages, has some 2 KiB.
const PARTIAL_HELLO: usize = 8 << 10;

thread_local! {
    /// Where records are encrypted, for all connections of a thread.
    static SEALING: RefCell<Box<[u8]>> = RefCell::new(vec![0; MAX_SEALED_BYTES].into());
}

/// One connection's keys, and what is left of its bytes.
pub struct Tls {
    connection: UnbufferedServerConnection,
    /// The beginning of a record that has not come whole.
    partial: Vec<u8>,
    /// Encrypted, and not taken by the socket yet: at most a record, and what the handshake has to say.
    unsent: Vec<u8>,
    end: End,
}

/// How far a connection has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Not at all.
    No,
    /// The client sends no more.
    Heard,
    /// Nothing may be said any more: the end was said, or the connection is broken.
    Said,
}

/// Keys are nobody's to read.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("end", &self.end).finish_non_exhaustive()
    }
}

/// The state of a connection after bytes were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The handshake goes on.
    Handshake,
    /// Bytes go both ways.
    Open,
    /// The client has said that it sends no more.
    Closed,
    /// What came is no TLS, or breaks its rules. An alert that says so may wait to be sent.
    Broken,
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secured {
    /// With a signature.
    Full,
    /// By a ticket of an earlier connection.
    Resumed,
}

impl Tls {
    /// Before the handshake. Fails only when `config` cannot serve.
    pub fn new(config: Arc<ServerConfig>) -> Result<Tls, rustls::Error> {
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Tls { connection, partial: Vec::new(), unsent: Vec::new(), end: End::No })
    }

    /// Whether the handshake goes on.
    pub fn is_opening(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// How the handshake ended; none before.
    pub fn secured(&self) -> Option<Secured> {
        match (self.is_opening(), self.connection.handshake_kind()?) {
            (true, _) => None,
            (_, HandshakeKind::Resumed) => Some(Secured::Resumed),
            _ => Some(Secured::Full),
        }
    }

    /// Takes bytes that came, which are decrypted in place, and gives `plain` every piece of what they say. What
    /// is to be answered waits in [`Tls::flush`].
    pub fn receive(&mut self, came: &mut [u8], plain: impl FnMut(&[u8])) -> Heard {
        if self.end != End::No {
            return Heard::Closed;
        }
        let mut joined = std::mem::take(&mut self.partial);
        let (heard, used) = match joined.is_empty() {
            true => self.process(came, plain),
            false => {
                joined.extend_from_slice(came);
                self.process(&mut joined, plain)
            }
        };
        let rest = if joined.is_empty() { &came[used..] } else { &joined[used..] };
        let most = if self.is_opening() { PARTIAL_HELLO } else { MAX_PARTIAL_BYTES };
        let heard = if rest.len() > most { Heard::Broken } else { heard };
        match heard {
            Heard::Handshake | Heard::Open => self.partial = rest.to_vec(),
            Heard::Closed => self.end = End::Heard,
            Heard::Broken => self.end = End::Said,
        }
        heard
    }

    /// Goes through `bytes`. Returns how many of them are done with.
    fn process(&mut self, bytes: &mut [u8], mut plain: impl FnMut(&[u8])) -> (Heard, usize) {
        let mut used = 0;
        loop {
            let UnbufferedStatus { discard, state, .. } =
                self.connection.process_tls_records(&mut bytes[used..]);
            let mut more = 0;
            let end = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        more += record.discard;
                        plain(record.payload);
                    }
                    None
                }
                Ok(ConnectionState::EncodeTlsData(data)) => match encode(data, &mut self.unsent) {
                    true => None,
                    false => Some(Heard::Broken),
                },
                Ok(ConnectionState::TransmitTlsData(sent)) => {
                    sent.done();
                    None
                }
                Ok(ConnectionState::BlockedHandshake) => Some(Heard::Handshake),
                Ok(ConnectionState::WriteTraffic(_)) => Some(Heard::Open),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Some(Heard::Closed),
                // Early data is not offered.
                Ok(_) => Some(Heard::Broken),
                Err(error) => {
                    tracing::debug!(%error, "a client breaks TLS");
                    Some(Heard::Broken)
                }
            };
            used += discard + more;
            match end {
                Some(Heard::Open) if self.is_opening() => return (Heard::Handshake, used),
                Some(Heard::Broken) => {
                    self.say_why(&mut bytes[used..]);
                    return (Heard::Broken, used);
                }
                Some(heard) => return (heard, used),
                None => {}
            }
        }
    }

    /// Puts the alert of a broken connection where it is sent from. Only while there is one: what broke the
    /// connection must not be read again.
    fn say_why(&mut self, bytes: &mut [u8]) {
        while self.connection.wants_write() {
            let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(data)), .. } =
                self.connection.process_tls_records(bytes)
            else {
                return;
            };
            if !encode(data, &mut self.unsent) {
                return;
            }
        }
    }

    /// Encrypts `plain` and gives it to `write`, which does as a non-blocking socket. Returns how much of `plain` is
    /// done with; what is encrypted and was not taken is kept, and then [`Tls::is_flushed`] is false.
    pub fn write(
        &mut self,
        plain: &[u8],
        mut write: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut done = 0;
        while done < plain.len() {
            if self.unsent.len() > TOGETHER && !self.flush(&mut write)? {
                break;
            }
            let piece = &plain[done..plain.len().min(done + MAX_RECORD_BYTES)];
            self.seal(|tls, out| tls.encrypt(piece, out), &mut write)?;
            done += piece.len();
            if !self.is_flushed() {
                break;
            }
        }
        Ok(done)
    }

    /// Says that nothing follows, once.
    pub fn close(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        if std::mem::replace(&mut self.end, End::Said) == End::Said || self.is_opening() {
            return Ok(());
        }
        self.seal(Tls::encrypt_close, &mut write)
    }

    /// Whether the socket took all that was encrypted.
    pub fn is_flushed(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Gives what waits to `write`. True when nothing waits any more.
    pub fn flush(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        if !self.unsent.is_empty() {
            let sent = push(&self.unsent, &mut write)?;
            self.unsent.drain(..sent);
            match self.unsent.is_empty() {
                true => self.unsent = Vec::new(),
                false => self.unsent.shrink_to_fit(),
            }
        }
        Ok(self.is_flushed())
    }

    /// Has `fill` encrypt something behind what waits, and writes both at once.
    fn seal(
        &mut self,
        fill: impl FnOnce(&mut Tls, &mut [u8]) -> io::Result<usize>,
        write: &mut impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        SEALING.with_borrow_mut(|sealed| {
            let n = fill(self, sealed)?;
            if !self.unsent.is_empty() {
                self.unsent.extend_from_slice(&sealed[..n]);
                return self.flush(write).map(drop);
            }
            let sent = push(&sealed[..n], write)?;
            self.unsent = sealed[sent..n].to_vec();
            Ok(())
        })
    }

    /// Encrypts one record.
    fn encrypt(&mut self, plain: &[u8], out: &mut [u8]) -> io::Result<usize> {
        let mut at = 0;
        loop {
            // With what came of a record: rustls knows how far it has looked at that.
            match self.connection.process_tls_records(&mut self.partial).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let sealed = traffic.encrypt(plain, &mut out[at..]);
                    return sealed.map(|n| at + n).map_err(|error| io::Error::other(error.to_string()));
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    at += data.encode(&mut out[at..]).map_err(|error| io::Error::other(error.to_string()))?;
                }
                Ok(ConnectionState::TransmitTlsData(sent)) => sent.done(),
                _ => return Err(ErrorKind::BrokenPipe.into()),
            }
        }
    }

    fn encrypt_close(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.connection.process_tls_records(&mut self.partial).state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                traffic.queue_close_notify(out).map_err(|error| io::Error::other(error.to_string()))
            }
            _ => Ok(0),
        }
    }
}

/// Appends a message of the handshake. False when it cannot be.
fn encode<Data>(mut data: EncodeTlsData<'_, Data>, out: &mut Vec<u8>) -> bool {
    let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) else { return false };
    let at = out.len();
    out.resize(at + size.required_size, 0);
    data.encode(&mut out[at..]).is_ok()
}

/// Writes until all is taken or the socket takes no more. Returns how much it took.
fn push(bytes: &[u8], write: &mut impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match write(&bytes[sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => sent += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

#[cfg(test)]
mod tests;
