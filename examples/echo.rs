//! An echo server on Tipcast's own socket path, for conformance suites: the same threads from accept to close, the
//! same reader and writer of frames. Only its rules are wider than Tipcast's: messages may be binary, and long.
//!
//! `cargo run --release --example echo -- 127.0.0.1:9001`; docs/TESTING.md says how Autobahn uses it.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use actix_http::ws::hash_key;
use bytes::Bytes;
use rustls::ServerConfig;
use tipcast::http::inbound::{self, Bounds, Inbound, Peer, RefusalPermit, Times, UnsentPermit};
use tipcast::http::tls::Tls;
use tipcast::http::watch::incoming::{FrameReader, FrameRules, Incoming, Violation};
use tipcast::http::watch::outgoing::{close_frame, data_frame, text_frame};
use tipcast::http::watch::sockets::{
    Carried, Entrance, Judgement, Output, SocketHandler, SocketThreads, SocketWorker, Visitor,
};
use tipcast::live::moment::MonoTime;
use tipcast::live::wake::{Wake, WakeQueue};
use tipcast::metrics::labels::Turned;

/// As much as Autobahn sends.
const RULES: FrameRules = FrameRules { most: 16 << 20, binary: true, deflate: false };

/// Frames that wait for a client that does not read; then it is cut.
const WAITING_MOST: usize = 1024;

/// How long a client that was told to close may take to do so; as Tipcast's.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".into());
    match serve(&address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(address: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(address)?;
    println!("listening on ws://{}", listener.local_addr()?);
    let second = Duration::from_secs(1);
    let times = Times { head: 10 * second, body: 10 * second, keep_alive: 10 * second };
    let (handshakes, handshakes_per_address) = (0, 0);
    let bounds = Bounds {
        most: 10_000,
        leaving: 100,
        refusals: 100,
        per_address: 0,
        unsent_per_address: 0,
        count_loopback: false,
        handshakes,
        handshakes_per_address,
    };
    let settings = inbound::InboundSettings { times, hsts: None, send_buffer: 0 };
    let inbound = Inbound::new(settings, bounds, Arc::default());
    let worker = move || EchoWorker { wakes: Rc::default(), inbound: inbound.clone() };
    let _sockets = SocketThreads::start(2, listener, &Arc::default(), worker)?;
    loop {
        std::thread::park();
    }
}

struct EchoWorker {
    wakes: Rc<WakeQueue>,
    inbound: Arc<Inbound>,
}

impl SocketWorker<()> for EchoWorker {
    type Handler = Echo;

    fn wakes(&self) -> Rc<WakeQueue> {
        self.wakes.clone()
    }

    fn may_accept(&self) -> bool {
        self.inbound.may_accept()
    }

    fn may_refuse(&self) -> Option<RefusalPermit> {
        self.inbound.may_refuse()
    }

    fn arrive(&self, address: SocketAddr) -> Result<Arc<Peer>, Turned> {
        self.inbound.accept(Some(address.ip()), false)
    }

    fn tls(&self) -> Option<&Arc<ServerConfig>> {
        None
    }

    fn judge(&self, _: &Visitor, received: &[u8]) -> Judgement<()> {
        let mut lines = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut lines);
        let Ok(status) = request.parse(received) else { return Judgement::PassOn };
        let httparse::Status::Complete(read) = status else { return Judgement::More };
        let key = request.headers.iter().find(|line| line.name.eq_ignore_ascii_case("sec-websocket-key"));
        let Some(key) = key.map(|line| hash_key(line.value)) else { return Judgement::PassOn };
        let answer = [
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ",
            &key[..],
            b"\r\n\r\n",
        ];
        Judgement::Enter(Entrance { handshake: (), answer: answer.concat(), read, group: None })
    }

    /// What is echoed is no change of a feed.
    fn carried(&self) -> Carried {
        Carried::default()
    }

    /// There is no HTTP server behind it.
    fn pass_on(&self, _: TcpStream, _: Option<Box<Tls>>, _: Visitor, _: &[u8]) {}

    fn serve(&self, (): ()) -> Echo {
        let wakes = self.wakes.clone();
        Echo { reader: FrameReader::new(RULES), out: VecDeque::new(), wakes, closing: None, over: false }
    }
}

struct Echo {
    reader: FrameReader,
    out: VecDeque<Bytes>,
    wakes: Rc<WakeQueue>,
    /// A close frame was sent at this time: the client's is waited for.
    closing: Option<MonoTime>,
    over: bool,
}

impl Echo {
    fn close(&mut self, frame: Bytes) {
        if self.closing.is_none() {
            self.closing = Some(MonoTime::now());
            self.out.push_back(frame);
        }
    }
}

impl SocketHandler for Echo {
    fn receive(&mut self, mut bytes: &[u8], _: MonoTime) {
        while !self.over
            && let Some(incoming) = self.reader.read(&mut bytes)
        {
            match incoming {
                Ok(Incoming::Text(text)) => self.out.push_back(text_frame(text.as_bytes())),
                Ok(Incoming::Binary(bytes)) => self.out.push_back(data_frame(0x82, &bytes)),
                Ok(Incoming::Ping(payload)) => self.out.push_back(data_frame(0x8a, &payload)),
                Ok(Incoming::Pong) => {}
                Ok(Incoming::Close(code)) => {
                    self.close(close_frame(code, ""));
                    self.over = true;
                }
                Err(Violation { code, reason }) => self.close(close_frame(Some(code), reason)),
            }
            self.over |= self.out.len() > WAITING_MOST;
        }
    }

    /// Nothing bounds what waits for one address.
    fn wait_to_send(&self, _: usize, _: &Wake) -> Option<UnsentPermit> {
        None
    }

    fn peer_closed(&mut self) {
        self.over = true;
        self.out.clear();
    }

    fn next_output(&mut self, now: MonoTime, wake: &Wake) -> Poll<Option<Output>> {
        if let Some(frame) = self.out.pop_front() {
            return Poll::Ready(Some(Output::Bytes(frame)));
        }
        if self.over {
            return Poll::Ready(None);
        }
        if let (Some(since), &Wake::Socket(socket)) = (self.closing, wake) {
            if now.since(since) >= CLOSE_WITHIN {
                return Poll::Ready(None);
            }
            let wakes = self.wakes.clone();
            tokio::task::spawn_local(async move {
                tokio::time::sleep(CLOSE_WITHIN).await;
                wakes.push(socket);
            });
        }
        Poll::Pending
    }

    fn unsent(&mut self, output: &Output, sent: usize) -> Bytes {
        output.bytes().slice(sent..)
    }
}
