//! One taken-over socket: writes what its conversation says for as long as the kernel takes it.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::task::Poll;
use std::time::Instant;

use bytes::{Buf, Bytes};
use mio::net::TcpStream;

use super::super::visit::Said;
use super::serve::Conversation;
use crate::live::calls::Wake;

/// Reads of one socket at once, so that a chatty client can't keep its thread busy.
const READS: usize = 4;

/// A socket and what is said on it.
pub(super) struct Socket<C> {
    pub stream: TcpStream,
    conversation: C,
    /// What the kernel did not take, of one frame.
    rest: Bytes,
    /// The kernel takes nothing now; it tells when it does.
    blocked: bool,
    /// The head was written, or is in `rest`.
    greeted: bool,
    /// The kernel was asked to tell when it takes bytes; from then on it always does.
    armed: bool,
}

/// Whether a socket is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stay,
    Gone,
}

/// What a read left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Everything there is was read; the kernel tells when there is more.
    Dry,
    /// There may be more.
    More,
    /// The other side is gone, or sends no more.
    End,
}

impl<C: Conversation> Socket<C> {
    /// Writes `head` first.
    pub fn new(stream: TcpStream, conversation: C, head: Bytes) -> Self {
        Socket { stream, conversation, rest: head, blocked: false, greeted: false, armed: false }
    }

    /// Bytes that were read before.
    pub fn hear(&mut self, bytes: &[u8], now: Instant) {
        self.conversation.hear(bytes, now);
    }

    /// The kernel takes bytes again.
    pub fn unblock(&mut self) {
        self.blocked = false;
    }

    /// True once, when it is blocked for the first time.
    pub fn must_arm(&mut self) -> bool {
        self.blocked && !std::mem::replace(&mut self.armed, true)
    }

    /// Nothing more will come: answers what came last, if the kernel takes it, and is done.
    pub fn end(&mut self, now: Instant, wake: &Wake) -> Fate {
        self.write(now, wake);
        self.conversation.hung_up();
        Fate::Gone
    }

    /// Reads what came, through the thread's `buffer`.
    pub fn read(&mut self, buffer: &mut [u8], now: Instant) -> Input {
        for _ in 0..READS {
            match self.stream.read(buffer) {
                Ok(0) => return Input::End,
                Ok(n) => {
                    self.conversation.hear(&buffer[..n], now);
                    if n < buffer.len() {
                        return Input::Dry;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Input::Dry,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Input::End,
            }
        }
        Input::More
    }

    /// Writes until there is nothing to say or the kernel takes no more.
    pub fn write(&mut self, now: Instant, wake: &Wake) -> Fate {
        if self.blocked {
            return Fate::Stay;
        }
        if !self.greeted {
            self.greeted = true;
            return self.greet(now, wake);
        }
        if self.rest.has_remaining() {
            let rest = std::mem::take(&mut self.rest);
            match self.push(&rest) {
                Err(()) => return Fate::Gone,
                Ok(sent) if sent < rest.len() => {
                    self.rest = rest.slice(sent..);
                    return Fate::Stay;
                }
                Ok(_) => {}
            }
        }
        loop {
            match self.conversation.say(now, wake) {
                Poll::Ready(Some(said)) => {
                    let bytes = said.bytes();
                    match self.push(&bytes) {
                        Err(()) => return Fate::Gone,
                        Ok(sent) if sent < bytes.len() => {
                            self.rest = self.conversation.unsent(&said, sent);
                            return Fate::Stay;
                        }
                        Ok(_) => {}
                    }
                }
                Poll::Ready(None) => {
                    let _ = self.stream.shutdown(Shutdown::Write);
                    return Fate::Gone;
                }
                Poll::Pending => return Fate::Stay,
            }
        }
    }

    /// Joins what is said first to the head: one write, one packet.
    fn greet(&mut self, now: Instant, wake: &Wake) -> Fate {
        let head = std::mem::take(&mut self.rest);
        let first = match self.conversation.say(now, wake) {
            Poll::Ready(Some(said)) => said,
            Poll::Ready(None) | Poll::Pending => Said::Bytes(Bytes::new()),
        };
        let all = [&head[..], &first.bytes()[..]].concat();
        match self.push(&all) {
            Err(()) => Fate::Gone,
            Ok(sent) if sent == all.len() => self.write(now, wake),
            Ok(sent) => {
                let begun = sent.saturating_sub(head.len());
                let then = self.conversation.unsent(&first, begun);
                self.rest = [&head[sent.min(head.len())..], &then[..]].concat().into();
                Fate::Stay
            }
        }
    }

    /// How much of it the kernel took; less than all: it is blocked now.
    fn push(&mut self, bytes: &[u8]) -> Result<usize, ()> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(0) => return Err(()),
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(()),
            }
        }
        Ok(sent)
    }
}
