//! New connections on a thread: judged by what they send first, then served here, by another thread, or by the
//! HTTP server.

use std::task::Context;

use bytes::Bytes;
use mio::net::TcpStream;
use mio::{Interest, Token};

use super::{EventLoop, HANDSHAKES, SocketEvent, SocketSlot};
use crate::http::tls::Tls;
use crate::http::watch::sockets::arriving::{Arriving, MAX_HEAD_BYTES, Waits};
use crate::http::watch::sockets::handler::{Entrance, Judgement, SocketWorker, Visitor};
use crate::http::watch::sockets::handover::Handover;
use crate::http::watch::sockets::line::{Plain, ReadResult, read};
use crate::http::watch::sockets::listening::{AT_ONCE, turn_away};
use crate::http::watch::sockets::socket::Socket;
use crate::live::moment::MonoTime;
use crate::live::wake::Wake;

/// A socket, and how it is encrypted, if it is.
type Ends = (TcpStream, Option<Box<Tls>>);

impl<H: 'static, W: SocketWorker<H>> EventLoop<H, W> {
    /// Takes in new connections. True when there may be more.
    pub(super) fn accept(&mut self, now: MonoTime, cx: &mut Context<'_>) -> bool {
        for _ in 0..AT_ONCE {
            let Some(listening) = &mut self.listening else { return false };
            let may_accept = || self.worker.may_accept();
            let Some((stream, address)) = listening.accept(may_accept, cx) else { return false };
            match self.worker.arrive(address) {
                Ok(peer) => {
                    self.welcome(stream, Visitor { address, peer, waited: false, handshake: None }, now)
                }
                Err(why) => {
                    if let Some(permit) = self.worker.may_refuse() {
                        turn_away(stream, why, permit);
                    }
                }
            }
        }
        true
    }

    /// A new connection: mostly its head is there already.
    fn welcome(&mut self, mut stream: TcpStream, visitor: Visitor, now: MonoTime) {
        if let Some(config) = self.worker.tls() {
            // Who finds no room is closed: before the handshake nothing can be said.
            let Some(handshake) = visitor.peer.shakes_hands() else { return };
            let visitor = Visitor { handshake: Some(handshake), ..visitor };
            match Tls::new(config.clone()) {
                Ok(tls) => self.heed(Judgement::More, None, (stream, Some(Box::new(tls))), visitor, &[], now),
                Err(error) => tracing::error!(%error, "a connection cannot be encrypted and is closed"),
            }
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        match read(&mut stream, &mut buffer) {
            ReadResult::End => {}
            ReadResult::Bytes(n) => {
                let verdict = self.judge(&visitor, &buffer[..n]);
                self.heed(verdict, None, (stream, None), visitor, &buffer[..n], now);
            }
            ReadResult::Nothing => self.heed(Judgement::More, None, (stream, None), visitor, &[], now),
        }
        self.buffer = buffer;
    }

    /// A connection that was kept can be read, or was woken: what it waited for is there, or it is cut.
    pub(super) fn attend_arriving(
        &mut self,
        event: SocketEvent,
        mut arriving: Box<Arriving<H>>,
        now: MonoTime,
    ) {
        let SocketEvent { key, readable, ended, .. } = event;
        if arriving.visitor.peer.is_cut() {
            arriving.turn_away();
            self.sockets.remove(key as usize);
            return;
        }
        if readable && arriving.is_opening() {
            if self.handshakes == HANDSHAKES {
                self.unread.push(key);
                self.sockets[key as usize] = SocketSlot::Arriving(arriving);
                return;
            }
            self.handshakes += 1;
        }
        let registry = self.poll.get_ref().0.registry();
        if (readable && !arriving.read(&mut self.buffer, ended)) || arriving.send(key, registry).is_err() {
            self.sockets.remove(key as usize);
            return;
        }
        let key = key as usize;
        let verdict = match arriving.waits.as_ref().map(Waits::result) {
            None => self.judge(&arriving.visitor, &arriving.received),
            Some(None) => {
                self.sockets[key] = SocketSlot::Arriving(arriving);
                return;
            }
            Some(Some(Some(entrance))) => Judgement::Enter(entrance),
            Some(Some(None)) => {
                arriving.visitor.waited = true;
                Judgement::PassOn
            }
        };
        let Arriving { stream, tls, visitor, received, unread, .. } = *arriving;
        if unread {
            self.unread.push(key as u32);
        }
        self.heed(verdict, Some(key), (stream, tls), visitor, &received, now);
    }

    fn judge(&self, visitor: &Visitor, received: &[u8]) -> Judgement<H> {
        match received {
            [] => Judgement::More,
            received => self.worker.judge(visitor, received),
        }
    }

    /// Does what was judged. `key`: where the connection is kept, if it is.
    fn heed(
        &mut self,
        verdict: Judgement<H>,
        key: Option<usize>,
        (mut stream, tls): Ends,
        visitor: Visitor,
        received: &[u8],
        now: MonoTime,
    ) {
        match verdict {
            Judgement::Enter(entrance) => self.enter(key, (stream, tls), entrance, received, now),
            Judgement::More if received.len() <= MAX_HEAD_BYTES => {
                if visitor.handshake.is_none() {
                    visitor.peer.begin_head(!received.is_empty());
                }
                self.keep(key, (stream, tls), visitor, received);
            }
            Judgement::Wait(until) => {
                visitor.peer.enter_busy();
                let Some(key) = self.keep(key, (stream, tls), visitor, received) else { return };
                let wakes = self.wakes.clone();
                let waits = Waits::begin(until, move || wakes.push(key as u32));
                if let SocketSlot::Arriving(arriving) = &mut self.sockets[key] {
                    arriving.waits = Some(waits);
                }
            }
            Judgement::More | Judgement::PassOn => {
                self.take_out(key, &mut stream);
                self.worker.pass_on(stream.into(), tls, visitor, received);
            }
        }
    }

    /// Keeps a connection until there is more to judge it by. Returns where it is kept.
    fn keep(
        &mut self,
        key: Option<usize>,
        (stream, tls): Ends,
        visitor: Visitor,
        received: &[u8],
    ) -> Option<usize> {
        let (peer, received) = (visitor.peer.clone(), received.to_vec());
        let kept = |stream| {
            SocketSlot::Arriving(Box::new(Arriving {
                stream,
                tls,
                visitor,
                received,
                unread: false,
                waits: None,
            }))
        };
        let key = self.put(key, stream, kept)?;
        peer.watch(&self.wakes.waker(&Wake::Socket(key as u32)));
        Some(key)
    }

    /// A watcher is served here, or by a thread that has fewer, or others of its feed.
    fn enter(
        &mut self,
        key: Option<usize>,
        (mut stream, tls): Ends,
        Entrance { handshake, answer, read, group }: Entrance<H>,
        received: &[u8],
        now: MonoTime,
    ) {
        let rest = &received[read..];
        let Some(other) = self.seat.other(self.sockets.len(), group) else {
            return self.serve(key, (stream, tls), (handshake, answer), rest, now);
        };
        self.take_out(key, &mut stream);
        let received = Bytes::copy_from_slice(rest);
        let handover = Handover { stream: stream.into(), tls, answer, received, handshake };
        // Dropped when too many are on their way: nothing was answered yet, so the client tries again.
        drop(self.seat.hand_over(other, handover));
    }

    pub(super) fn serve(
        &mut self,
        key: Option<usize>,
        (stream, tls): Ends,
        (handshake, answer): (H, Vec<u8>),
        received: &[u8],
        now: MonoTime,
    ) {
        let handler = self.worker.serve(handshake);
        let socket = |stream| match tls {
            None => SocketSlot::Watching(Box::new(Socket::new(stream, Plain, handler))),
            Some(tls) => SocketSlot::Secured(Box::new(Socket::new(stream, tls, handler))),
        };
        let Some(key) = self.put(key, stream, socket) else { return };
        let wake = Wake::Socket(key as u32);
        let next = match &mut self.sockets[key] {
            SocketSlot::Watching(socket) => socket.begin(&answer, received, now, &wake),
            SocketSlot::Secured(socket) => socket.begin(&answer, received, now, &wake),
            SocketSlot::Arriving(_) | SocketSlot::Taken => return,
        };
        self.attended(key as u32, next);
    }

    /// Puts an entry in the connection's place, or in a new one whose events the kernel reports from then on.
    fn put(
        &mut self,
        key: Option<usize>,
        mut stream: TcpStream,
        entry: impl FnOnce(TcpStream) -> SocketSlot<H, W::Handler>,
    ) -> Option<usize> {
        if let Some(key) = key {
            self.sockets[key] = entry(stream);
            return Some(key);
        }
        let place = self.sockets.vacant_entry();
        let key = place.key();
        let registry = self.poll.get_ref().0.registry();
        if let Err(error) = registry.register(&mut stream, Token(key), Interest::READABLE) {
            tracing::warn!(%error, "a connection cannot be polled and is closed");
            return None;
        }
        place.insert(entry(stream));
        Some(key)
    }

    /// The connection is not this thread's any more.
    fn take_out(&mut self, key: Option<usize>, stream: &mut TcpStream) {
        if let Some(key) = key {
            self.sockets.remove(key);
            // The kernel reports nothing more about it to a poll that it was taken from; closing it does the same.
            let _ = self.poll.get_ref().0.registry().deregister(stream);
        }
    }
}
