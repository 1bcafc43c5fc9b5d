//! A connection whose head has not come whole, or that waits to be judged. Most never are one: their head comes
//! in one piece, with the connection.

use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

use futures_util::FutureExt;
use mio::net::TcpStream;
use tokio::task::JoinHandle;

use super::handler::{Entrance, Visitor};

/// What is kept of a head that has not come whole, and of what follows one that waits. Longer heads are the HTTP
/// server's, which has a limit of its own.
pub(super) const KEPT: usize = 16 << 10;

/// Said to a client that did not ask for anything in time.
const TOO_LATE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

pub(super) struct Arriving<H> {
    pub stream: TcpStream,
    pub visitor: Visitor,
    pub received: Vec<u8>,
    /// What it waits for.
    pub waits: Option<Waits<H>>,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// So many bytes.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The client is gone.
    End,
}

/// Reads once.
pub(super) fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> Came {
    loop {
        return match stream.read(buffer) {
            Ok(0) => Came::End,
            Ok(n) => Came::Bytes(n),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Came::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => Came::End,
        };
    }
}

impl<H> Arriving<H> {
    /// Reads what came. False when the client is gone.
    pub fn read(&mut self, buffer: &mut [u8]) -> bool {
        while self.received.len() <= KEPT {
            match read(&mut self.stream, buffer) {
                Came::Bytes(n) => self.received.extend_from_slice(&buffer[..n]),
                Came::Nothing => return true,
                Came::End => return false,
            }
        }
        true
    }

    /// It took too long.
    pub fn turn_away(&mut self) {
        // To whom that cannot be said at once it is not said.
        let _ = self.stream.write(TOO_LATE);
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

/// A wait for something, on this thread; dropped, it ends.
pub(super) struct Waits<H>(JoinHandle<Option<Entrance<H>>>);

impl<H: 'static> Waits<H> {
    /// Begins to wait.
    pub fn begin(until: impl Future<Output = Option<Entrance<H>>> + 'static) -> Waits<H> {
        Waits(tokio::task::spawn_local(until))
    }

    /// What came of it, once it is over.
    pub fn result(&mut self) -> Option<Option<Entrance<H>>> {
        // A wait that panicked came to nothing.
        (&mut self.0).now_or_never().map(|over| over.ok().flatten())
    }
}

impl<H> Drop for Waits<H> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
