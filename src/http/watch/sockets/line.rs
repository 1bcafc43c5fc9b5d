//! How the bytes of a connection go over its socket: as they are, or encrypted.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::http::tls::{Heard, Tls};

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadResult {
    /// This number of bytes from the kernel.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
    /// The client is gone, or sends no more.
    End,
}

/// Reads and writes the bytes of a socket, with or without TLS.
pub(super) trait TransportIo {
    /// Reads once, through the thread's `buffer`, and gives what was said, which may be nothing, to `take`.
    fn read(&mut self, stream: &mut TcpStream, buffer: &mut [u8], take: impl FnMut(&[u8])) -> ReadResult;
    /// Writes as much as the kernel takes; less than all, or [`TransportIo::is_flushed`] false: it takes no more now.
    fn write(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize>;
    /// Writes both, as one packet if they are short. The kernel may take more when it has taken less than all.
    fn write_both(&mut self, stream: &mut TcpStream, first: &[u8], then: &[u8]) -> io::Result<usize>;
    /// Whether the kernel has all that [`TransportIo::write`] was done with.
    fn is_flushed(&self) -> bool;
    /// Gives the kernel what it did not take. True when it has all of it.
    fn flush(&mut self, stream: &mut TcpStream) -> io::Result<bool>;
    /// Says that nothing follows.
    fn close(&mut self, stream: &mut TcpStream);
}

/// As they are.
#[derive(Debug)]
pub(super) struct Plain;

impl TransportIo for Plain {
    fn read(&mut self, stream: &mut TcpStream, buffer: &mut [u8], mut take: impl FnMut(&[u8])) -> ReadResult {
        let came = read(stream, buffer);
        if let ReadResult::Bytes(n) = came {
            take(&buffer[..n]);
        }
        came
    }

    fn write(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match stream.write(&bytes[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    fn write_both(&mut self, stream: &mut TcpStream, first: &[u8], then: &[u8]) -> io::Result<usize> {
        match stream.write_vectored(&[IoSlice::new(first), IoSlice::new(then)]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            sent => sent,
        }
    }

    fn is_flushed(&self) -> bool {
        true
    }

    fn flush(&mut self, _: &mut TcpStream) -> io::Result<bool> {
        Ok(true)
    }

    fn close(&mut self, stream: &mut TcpStream) {
        let _ = stream.shutdown(Shutdown::Write);
    }
}

impl TransportIo for Box<Tls> {
    fn read(&mut self, stream: &mut TcpStream, buffer: &mut [u8], take: impl FnMut(&[u8])) -> ReadResult {
        let came = read(stream, buffer);
        let ReadResult::Bytes(n) = came else { return came };
        match self.receive(&mut buffer[..n], take) {
            Heard::Handshake | Heard::Open => came,
            Heard::Closed | Heard::Broken => ReadResult::End,
        }
    }

    fn write(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        Tls::write(self, bytes, |bytes| stream.write(bytes))
    }

    fn write_both(&mut self, stream: &mut TcpStream, first: &[u8], then: &[u8]) -> io::Result<usize> {
        self.write(stream, &[first, then].concat())
    }

    fn is_flushed(&self) -> bool {
        Tls::is_flushed(self)
    }

    fn flush(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        Tls::flush(self, |bytes| stream.write(bytes))
    }

    fn close(&mut self, stream: &mut TcpStream) {
        // If the socket does not take the alert at once, it is left out.
        let _ = Tls::close(self, |bytes| stream.write(bytes));
        let _ = stream.shutdown(Shutdown::Write);
    }
}

/// Reads once.
pub(super) fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> ReadResult {
    loop {
        return match stream.read(buffer) {
            Ok(0) => ReadResult::End,
            Ok(n) => ReadResult::Bytes(n),
            Err(error) if error.kind() == ErrorKind::WouldBlock => ReadResult::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => ReadResult::End,
        };
    }
}

/// Asks for events also when a socket takes bytes.
pub(super) fn tell_when_writable(stream: &mut TcpStream, key: u32, registry: &Registry) -> io::Result<()> {
    registry.reregister(stream, Token(key as usize), Interest::READABLE | Interest::WRITABLE)
}
