//! The listening socket.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::StartError;

/// Connections that wait to be accepted: a stadium reconnecting at once.
const BACKLOG: i32 = 4096;

/// How long sent bytes may wait for a client's acknowledgement.
#[cfg(target_os = "linux")]
const STUCK_AFTER: std::time::Duration = std::time::Duration::from_secs(60);

/// A listening socket on `address`.
pub fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    open(address).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program listens there; stop it, or choose another port with --listen"
            }
            io::ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; choose a higher one with --listen"
            }
            io::ErrorKind::AddrNotAvailable => {
                "this machine does not have that address; choose one it has with --listen"
            }
            _ => "choose another address with --listen",
        };
        StartError::Listen(format!("cannot listen on {address} ({error}): {advice}"))
    })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Without it a restart fails while old connections are in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What accepted sockets inherit: bytes go out when they are written, and the kernel holds no more than `send_buffer`
/// for a client that does not read. Left alone, it takes up to about 4 MB for each.
pub(super) fn tune(listener: &TcpListener, send_buffer: usize) {
    let socket = SockRef::from(listener);
    // Left on, Nagle's algorithm keeps a delta until the one before it is acknowledged, which a client may put off for
    // 40 ms and a far one always does.
    if let Err(error) = socket.set_tcp_nodelay(true) {
        tracing::warn!("deltas may wait for the acknowledgement of earlier ones: {error}");
    }
    if let Err(error) = socket.set_send_buffer_size(send_buffer) {
        tracing::warn!("[http] send_buffer_bytes has no effect here: {error}");
    }
    // A client that takes no byte for this long is gone, also while its own kernel still answers:
    // its full window is probed, and the connection ends when the probes bring nothing.
    #[cfg(target_os = "linux")]
    if let Err(error) = socket.set_tcp_user_timeout(Some(STUCK_AFTER)) {
        tracing::warn!("stuck clients will be held for longer than 60 s: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn an_accepted_socket_sends_at_once_and_gives_up_who_takes_nothing() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        tune(&listener, 16 << 10);
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(accepted.nodelay().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(SockRef::from(&accepted).tcp_user_timeout().unwrap(), Some(STUCK_AFTER));
    }

    #[test]
    fn a_taken_port_is_named_with_what_to_do() {
        let first = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = first.local_addr().unwrap();
        let refused = bind(address).unwrap_err().to_string();
        assert!(refused.contains(&address.to_string()) && refused.contains("--listen"), "{refused}");
    }
}
