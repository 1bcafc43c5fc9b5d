//! An echo server on Tipcast's own socket path, for conformance suites: the same take-over from the HTTP
//! server, the same threads of sockets, the same reader and writer of frames. Only its rules are wider
//! than Tipcast's: messages may be binary, and long.
//!
//! `cargo run --release --example echo -- 127.0.0.1:9001`; docs/TESTING.md says how Autobahn uses it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::TcpListener;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use actix_http::HttpService;
use actix_http::ws::handshake;
use actix_server::ServerBuilder;
use actix_service::{IntoServiceFactory, ServiceFactoryExt, map_config};
use actix_web::body::BodyStream;
use actix_web::dev::AppConfig;
use actix_web::error::{Error, ErrorBadRequest};
use actix_web::{App, HttpRequest, HttpResponse, web};
use bytes::Bytes;
use tipcast::http::watch::incoming::{Incoming, Reader, Rules, Violation};
use tipcast::http::watch::outgoing::{close_frame, data_frame, text_frame};
use tipcast::http::watch::sockets::take_over::{Shared, TakeOver};
use tipcast::http::watch::sockets::{Output, SocketHandler, SocketThreads, SocketWorker};
use tipcast::live::wake::{Wake, WakeQueue};

/// As much as Autobahn sends.
const RULES: Rules = Rules { most: 16 << 20, binary: true, deflate: false };

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
    let sockets = Arc::new(SocketThreads::start(2, &Arc::default(), EchoWorker::default)?);
    actix_web::rt::System::new().block_on(async move {
        let builder = ServerBuilder::new().workers(2).listen("echo", listener, move || {
            let app = App::new().default_service(web::get().to(enter));
            let app = app.into_factory().map_err(|error: Error| error.error_response());
            let app = map_config(app, |()| AppConfig::default());
            let app = Shared::new(app);
            HttpService::build().upgrade(app.upgrades(sockets.clone())).finish(app).tcp()
        })?;
        builder.run().await
    })
}

async fn enter(req: HttpRequest) -> Result<HttpResponse, Error> {
    let mut answer = handshake(req.head()).map_err(|error| ErrorBadRequest(error.to_string()))?;
    let nothing = futures_util::stream::empty::<Result<Bytes, Infallible>>();
    let answer = answer.message_body(BodyStream::new(nothing))?;
    let mut answer: HttpResponse = answer.map_into_boxed_body().into();
    answer.extensions_mut().insert(TakeOver(()));
    Ok(answer)
}

#[derive(Default)]
struct EchoWorker {
    wakes: Rc<WakeQueue>,
}

impl SocketWorker<()> for EchoWorker {
    type Handler = Echo;

    fn wakes(&self) -> Rc<WakeQueue> {
        self.wakes.clone()
    }

    fn accept(&self, (): ()) -> Echo {
        let wakes = self.wakes.clone();
        Echo { reader: Reader::new(RULES), out: VecDeque::new(), wakes, closing: None, over: false }
    }
}

struct Echo {
    reader: Reader,
    out: VecDeque<Bytes>,
    wakes: Rc<WakeQueue>,
    /// A close frame was sent at this time: the client's is waited for.
    closing: Option<Instant>,
    over: bool,
}

impl Echo {
    fn close(&mut self, frame: Bytes) {
        if self.closing.is_none() {
            self.closing = Some(Instant::now());
            self.out.push_back(frame);
        }
    }
}

impl SocketHandler for Echo {
    fn receive(&mut self, mut bytes: &[u8], _: Instant) {
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

    fn peer_closed(&mut self) {
        self.over = true;
        self.out.clear();
    }

    fn next_output(&mut self, now: Instant, wake: &Wake) -> Poll<Option<Output>> {
        if let Some(frame) = self.out.pop_front() {
            return Poll::Ready(Some(Output::Bytes(frame)));
        }
        if self.over {
            return Poll::Ready(None);
        }
        if let (Some(since), &Wake::Socket(socket)) = (self.closing, wake) {
            if now.saturating_duration_since(since) >= CLOSE_WITHIN {
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
