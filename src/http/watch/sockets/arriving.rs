//! A connection whose head has not come whole, or that waits to be judged. Most never are one: their head comes
//! as one, with the connection.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use futures_util::FutureExt;
use mio::Registry;
use mio::net::TcpStream;
use tokio::task::JoinHandle;

use super::handler::{Entrance, Visitor};
use super::line::{Plain, ReadResult, TransportIo, tell_when_writable};
use crate::http::tls::Tls;

/// What is kept of a head that has not come whole, and of what follows one that waits. Longer heads are the HTTP
/// server's, which has a limit of its own.
pub(super) const MAX_HEAD_BYTES: usize = 16 << 10;

/// Said to a client that did not ask for anything in time.
const TOO_LATE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

pub(super) struct Arriving<H> {
    pub stream: TcpStream,
    /// How it is encrypted, if it is.
    pub tls: Option<Box<Tls>>,
    pub visitor: Visitor,
    pub received: Vec<u8>,
    /// There may be more to read, without another event of the kernel.
    pub unread: bool,
    /// What it waits for.
    pub waits: Option<Waits<H>>,
}

impl<H> Arriving<H> {
    /// Whether it must shake hands over TLS before it can ask for anything.
    pub fn is_opening(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_opening())
    }

    /// Reads what came; `ended`: the client may have ended. False when it is gone.
    pub fn read(&mut self, buffer: &mut [u8], ended: bool) -> bool {
        let Arriving { stream, tls, received, visitor, unread, .. } = self;
        match tls {
            None => keep(&mut Plain, stream, received, unread, buffer, ended),
            Some(tls) => {
                let goes_on = keep(tls, stream, received, unread, buffer, ended);
                if let Some(how) = tls.secured()
                    && let Some(handshake) = visitor.handshake.take()
                {
                    handshake.done(how);
                }
                if !goes_on {
                    // An alert, if there is one; who does not take it at once does not hear it.
                    let _ = tls.flush(stream);
                }
                goes_on
            }
        }
    }

    /// Sends what a TLS handshake has to say; `key` and `registry` are those of the socket's events.
    pub fn send(&mut self, key: u32, registry: &Registry) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        // When a request is there already, tickets go out with its answer.
        if !self.received.is_empty() || tls.flush(&mut self.stream)? {
            return Ok(());
        }
        tell_when_writable(&mut self.stream, key, registry)
    }

    /// It took too long.
    pub fn turn_away(&mut self) {
        match &mut self.tls {
            None => bid_farewell(&mut Plain, &mut self.stream),
            Some(tls) if !tls.is_opening() => bid_farewell(tls, &mut self.stream),
            Some(_) => {}
        }
    }
}

/// Reads until nothing is left or enough is kept: then something may be `unread`. False when the client is gone.
fn keep(
    line: &mut impl TransportIo,
    stream: &mut TcpStream,
    received: &mut Vec<u8>,
    unread: &mut bool,
    buffer: &mut [u8],
    ended: bool,
) -> bool {
    *unread = false;
    while received.len() <= MAX_HEAD_BYTES {
        match line.read(stream, buffer, |bytes| received.extend_from_slice(bytes)) {
            ReadResult::Bytes(n) if n < buffer.len() && !ended => return true,
            ReadResult::Bytes(_) => {}
            ReadResult::Nothing => return true,
            ReadResult::End => return false,
        }
    }
    *unread = true;
    true
}

fn bid_farewell(line: &mut impl TransportIo, stream: &mut TcpStream) {
    // A client whose socket does not take the refusal at once is closed without it.
    let _ = line.write(stream, TOO_LATE);
    line.close(stream);
}

/// A wait for something, on this thread; dropped, it ends.
pub(super) struct Waits<H> {
    task: JoinHandle<()>,
    /// Not the task's own result: asking a task uses up tokio's budget, and when that is gone it says that there is
    /// none yet.
    result: Rc<Cell<Option<Option<Entrance<H>>>>>,
}

impl<H: 'static> Waits<H> {
    /// Begins to wait; `tell` is called when there is a result.
    pub fn begin(
        until: impl Future<Output = Option<Entrance<H>>> + 'static,
        tell: impl FnOnce() + 'static,
    ) -> Waits<H> {
        let result = Rc::new(Cell::new(None));
        let put = result.clone();
        let task = tokio::task::spawn_local(async move {
            // A wait that panicked came to nothing.
            put.set(Some(AssertUnwindSafe(until).catch_unwind().await.unwrap_or_default()));
            tell();
        });
        Waits { task, result }
    }

    /// Its result, once it has ended; given once.
    pub fn result(&self) -> Option<Option<Entrance<H>>> {
        self.result.take()
    }
}

impl<H> Drop for Waits<H> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::task::{LocalSet, coop};

    use super::*;

    #[tokio::test]
    async fn a_wait_that_is_over_is_seen_in_a_turn_that_did_much_before() {
        let is_done = Rc::new(Cell::new(false));
        let finish = is_done.clone();
        let all = LocalSet::new();
        let entrance = || Entrance { handshake: 7, answer: Vec::new(), read: 0, group: None };
        let waits = all.run_until(async {
            let waits = Waits::begin(async move { Some(entrance()) }, move || finish.set(true));
            while !is_done.get() {
                tokio::task::yield_now().await;
            }
            waits
        });
        let waits = waits.await;
        let seen = poll_fn(|cx| {
            while let Poll::Ready(proceed) = coop::poll_proceed(cx) {
                proceed.made_progress();
            }
            Poll::Ready(waits.result())
        });
        assert_eq!(seen.await.flatten().map(|entrance| entrance.handshake), Some(7));
    }

    #[tokio::test]
    async fn a_wait_that_panics_came_to_nothing() {
        let is_done = Rc::new(Cell::new(false));
        let finish = is_done.clone();
        LocalSet::new()
            .run_until(async {
                let until = async { panic!("a part that fails") };
                let waits = Waits::<u8>::begin(until, move || finish.set(true));
                while !is_done.get() {
                    tokio::task::yield_now().await;
                }
                assert!(matches!(waits.result(), Some(None)));
            })
            .await;
    }
}
