//! The listening socket as one thread has it. All threads have the same one: whichever is free accepts.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Sleep, sleep, timeout};

use crate::http::inbound::{RefusalPermit, refusal};
use crate::metrics::labels::Turned;

/// Connections accepted before other work of the thread gets its turn.
pub(super) const AT_ONCE: usize = 64;

/// The pause after the kernel could not give a connection, as when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The pause while connections that were cut have not ended yet.
const ROOM_PAUSE: Duration = Duration::from_millis(2);

/// How long a client that is turned away may take to hear why.
const TOLD_WITHIN: Duration = Duration::from_millis(500);

/// Where connections come from.
pub(super) struct Listening {
    listener: mio::net::TcpListener,
    /// The kernel may have connections; it sends one event only.
    ready: bool,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Listening {
    /// On `listener`, whose events have `token`.
    pub fn new(listener: TcpListener, registry: &Registry, token: Token) -> io::Result<Listening> {
        listener.set_nonblocking(true)?;
        let mut listener = mio::net::TcpListener::from_std(listener);
        registry.register(&mut listener, token, Interest::READABLE)?;
        Ok(Listening { listener, ready: true, pause: None })
    }

    /// An event of the kernel came.
    pub fn wake(&mut self) {
        self.ready = true;
    }

    /// The next connection; `None`: an event comes when there is one, or it is tried again after a pause. `may_accept`:
    /// whether there is room for it.
    pub fn accept(
        &mut self,
        may_accept: impl Fn() -> bool,
        cx: &mut Context<'_>,
    ) -> Option<(TcpStream, SocketAddr)> {
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(cx).is_pending() {
                return None;
            }
            self.pause = None;
        }
        while self.ready {
            if !may_accept() {
                self.pause_for(ROOM_PAUSE, cx);
                return None;
            }
            match self.listener.accept() {
                Ok(accepted) => return Some(accepted),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.ready = false,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(
                        %error,
                        "a connection cannot be accepted, and is tried again; where descriptors have run out, allow \
                         more of them (ulimit -n) or fewer [limits] connections"
                    );
                    self.pause_for(ACCEPT_PAUSE, cx);
                    return None;
                }
            }
        }
        None
    }

    fn pause_for(&mut self, time: Duration, cx: &mut Context<'_>) {
        let mut pause = Box::pin(sleep(time));
        // It wakes the thread when it has ended.
        if pause.as_mut().poll(cx) == Poll::Pending {
            self.pause = Some(pause);
        }
    }
}

/// Whether only the connection that was to be accepted is concerned, which its client gave up.
fn is_of_one_connection(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Answers a client why it is not served, if it takes that at once.
pub(super) fn turn_away(stream: TcpStream, why: Turned, permit: RefusalPermit) {
    tokio::task::spawn_local(async move {
        let farewell = async {
            let mut io = tokio::net::TcpStream::from_std(stream.into())?;
            io.write_all(refusal(why).as_bytes()).await?;
            io.shutdown().await?;
            // Closed with input unread, the client might lose the answer.
            let mut rest = [0; 1024];
            while matches!(io.read(&mut rest).await, Ok(1..)) {}
            io::Result::Ok(())
        };
        let _ = timeout(TOLD_WITHIN, farewell).await;
        drop(permit);
    });
}
