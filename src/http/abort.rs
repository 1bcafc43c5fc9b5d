//! Ends connections without waiting until their clients take what was written.

use std::time::Duration;

use socket2::SockRef;
use tokio_util::either::Either;

/// A connection that can be ended at once.
pub trait Abort {
    /// What the kernel holds of it is thrown away when it is closed, and the client sees a reset.
    fn abort(&self);
}

impl Abort for tokio::net::TcpStream {
    fn abort(&self) {
        // It is closed in any case.
        let _ = SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

impl Abort for mio::net::TcpStream {
    fn abort(&self) {
        let _ = SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

impl<A: Abort, B: Abort> Abort for Either<A, B> {
    fn abort(&self) {
        match self {
            Either::Left(io) => io.abort(),
            Either::Right(io) => io.abort(),
        }
    }
}
