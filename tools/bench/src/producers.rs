//! The connections that gifts are sent on, and who waits for which answer.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::BenchError;
use crate::dialect::{Answer, Dialect};
use crate::ledger::Ledger;
use crate::options::{Shape, Target};
use crate::wire::Wire;

/// What a connection may have waiting to be written or read.
const BUFFER_MOST: usize = 8 << 20;

/// Requests that one connection of a pipelining dialect may have unanswered.
const PIPELINE_MOST: usize = 4096;

/// Which request an answer belongs to.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: u64,
    feed: u32,
    gifts: u32,
}

#[derive(Debug)]
struct Producer {
    socket: Wire<TcpStream>,
    welcomed: bool,
    out: Vec<u8>,
    written: usize,
    inbox: Vec<u8>,
    asked: VecDeque<Asked>,
}

/// What producers did, in gifts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub gifts: u64,
    pub taken: u64,
    pub refused: u64,
    pub requests: u64,
    /// Gifts sent and not answered.
    pub unanswered: u64,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Producers {
    all: Vec<Producer>,
    /// Those that may send, the one that waited longest in front.
    free: VecDeque<usize>,
    next_feed: usize,
    shape: Shape,
    /// By feed, gifts that the server took.
    pub taken: Vec<u64>,
    pub sent: Sent,
    /// The first refusal, in the server's words.
    pub refusal: Option<String>,
}

impl Producers {
    /// Connects them; their tokens begin at `base`.
    pub fn connect(
        at: &Target,
        shape: Shape,
        base: usize,
        registry: &Registry,
        dialect: &dyn Dialect,
    ) -> Result<Producers, BenchError> {
        let mut all = Vec::with_capacity(shape.producers);
        for n in 0..shape.producers {
            let refused = |e: io::Error| BenchError::Server(format!("producer {n} cannot connect: {e}"));
            let socket = std::net::TcpStream::connect(at.address).map_err(refused)?;
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            let mut socket = TcpStream::from_std(socket);
            registry.register(&mut socket, Token(base + n), Interest::READABLE | Interest::WRITABLE)?;
            let socket = Wire::new(socket, at.encryption.as_ref())?;
            let mut out = Vec::new();
            dialect.hello(&mut out);
            all.push(Producer {
                socket,
                welcomed: dialect.welcomed(&[]) == Some(0),
                out,
                written: 0,
                inbox: Vec::new(),
                asked: VecDeque::new(),
            });
        }
        let free = (0..all.len()).filter(|n| all[*n].welcomed).collect();
        let taken = vec![0; shape.feeds];
        Ok(Producers { all, free, next_feed: 0, shape, taken, sent: Sent::default(), refusal: None })
    }

    /// True when every connection may send.
    pub fn ready(&self) -> bool {
        self.all.iter().all(|producer| producer.welcomed)
    }

    /// Sends one request of `gifts`, if a connection is free. False: none is.
    pub fn send(
        &mut self,
        gifts: u64,
        dialect: &dyn Dialect,
        ledger: &mut Ledger,
        now: u64,
    ) -> Result<bool, BenchError> {
        let Some(n) = self.free.pop_front() else { return Ok(false) };
        let feed = self.next_feed;
        self.next_feed = (feed + 1) % self.shape.feeds;
        let log = &mut ledger.feeds[feed];
        let first = log.sent() + 1;
        (0..gifts).for_each(|_| _ = log.send(now));
        let producer = &mut self.all[n];
        dialect.publish(feed, first..=first + gifts - 1, &mut producer.out);
        producer.asked.push_back(Asked { at: now, feed: feed as u32, gifts: gifts as u32 });
        self.sent.gifts += gifts;
        self.sent.unanswered += gifts;
        self.sent.requests += 1;
        producer.flush()?;
        if dialect.pipelines() && producer.asked.len() < PIPELINE_MOST {
            self.free.push_back(n);
        }
        Ok(true)
    }

    /// A connection can be read or written.
    pub fn stir(
        &mut self,
        n: usize,
        dialect: &dyn Dialect,
        ledger: &mut Ledger,
        buffer: &mut [u8],
        now: &dyn Fn() -> u64,
    ) -> Result<(), BenchError> {
        let Some(producer) = self.all.get_mut(n) else { return Ok(()) };
        producer.flush()?;
        loop {
            let got = match producer.socket.read(buffer) {
                Ok(0) => return Err(BenchError::Server("the server closed a producer's connection".into())),
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.into()),
            };
            producer.inbox.extend_from_slice(&buffer[..got]);
            let now = now();
            let mut at = 0;
            if !producer.welcomed {
                let Some(skip) = dialect.welcomed(&producer.inbox) else { continue };
                producer.welcomed = true;
                self.free.push_back(n);
                at = skip;
            }
            loop {
                match dialect.answer(&producer.inbox[at..]) {
                    Answer::Partial => break,
                    Answer::Skip(bytes) => at += bytes,
                    Answer::Done { bytes, taken, refused } => {
                        let Some(asked) = producer.asked.pop_front() else {
                            return Err(BenchError::Server("an answer to nothing".into()));
                        };
                        if refused > 0 && self.refusal.is_none() {
                            let words = String::from_utf8_lossy(&producer.inbox[at..at + bytes]);
                            self.refusal = Some(words.chars().take(600).collect());
                        }
                        at += bytes;
                        ledger.times.to_answer.record(now - asked.at);
                        // A request that was refused as a whole says nothing of its gifts.
                        let refused = if taken == 0 { asked.gifts } else { refused };
                        self.sent.taken += u64::from(taken);
                        self.sent.refused += u64::from(refused);
                        self.sent.unanswered -= u64::from(asked.gifts);
                        self.taken[asked.feed as usize] += u64::from(taken);
                        if !dialect.pipelines() || producer.asked.len() == PIPELINE_MOST - 1 {
                            self.free.push_back(n);
                        }
                    }
                }
            }
            producer.inbox.drain(..at);
            if producer.inbox.len() > BUFFER_MOST {
                return Err(BenchError::Server("an answer to a producer has no end".into()));
            }
            if got < buffer.len() && producer.socket.reads_all() {
                return Ok(());
            }
        }
    }
}

impl Producer {
    fn flush(&mut self) -> Result<(), BenchError> {
        while self.written < self.out.len() {
            match self.socket.write(&self.out[self.written..]) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if self.out.len() > BUFFER_MOST {
                        return Err(BenchError::Server("the server does not read what it is sent".into()));
                    }
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }
}
