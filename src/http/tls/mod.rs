//! TLS of the server's own, below HTTP: [`Tls`] turns bytes into bytes and does no I/O, so the threads of sockets
//! and those of the HTTP server use the same one, and a connection may go from the first to the second.

mod session;
mod stream;

pub use session::{Heard, MAX_RECORD_BYTES, Secured, Tls};
pub use stream::TlsStream;
