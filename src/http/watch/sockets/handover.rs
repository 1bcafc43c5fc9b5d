//! A connection on its way from the HTTP server to a thread of sockets.

use std::net::TcpStream;

use bytes::Bytes;

/// What is handed over. `H` is what was agreed in the handshake.
pub struct Handover<H> {
    /// The socket, non-blocking.
    pub stream: TcpStream,
    /// What must be written before anything else: the answer to the handshake.
    pub head: Bytes,
    /// What the client sent after its handshake and was read already.
    pub received: Bytes,
    /// What was agreed on.
    pub handshake: H,
}
