//! A watcher on a WebSocket that folds strictly.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::api::Api;
use super::case::PATIENCE;
use super::fold::Fold;

/// A socket of a watcher.
pub type Socket = WebSocketStream<TcpStream>;

/// Watches one feed.
pub struct Watcher {
    /// What it has.
    pub fold: Fold,
    /// How its newest connection was closed.
    pub closed: Option<u16>,
    /// Where it connects to; may be changed between connections.
    pub api: Api,
    /// What it asks for beside a position, such as `max_hz=5`.
    query: String,
    socket: Option<Socket>,
}

/// What a socket brought.
#[derive(Debug)]
pub enum Brought {
    /// A text frame.
    Frame(Value),
    /// A close frame with its code, or the end of the connection.
    Closed(Option<u16>),
}

/// Opens a WebSocket; the error is the status of a refusal, 0 when there was no answer.
pub async fn open_socket(api: &Api, path: &str, receive_buffer: Option<u32>) -> Result<Socket, u16> {
    let address = api.authority().parse().unwrap();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    let stream = socket.connect(address).await.map_err(|_| 0u16)?;
    stream.set_nodelay(true).unwrap();
    let url = format!("ws://{}{path}", api.authority());
    let opened = timeout(PATIENCE, tokio_tungstenite::client_async(url, stream)).await.map_err(|_| 0u16)?;
    match opened {
        Ok((socket, _)) => Ok(socket),
        Err(tokio_tungstenite::tungstenite::Error::Http(answer)) => Err(answer.status().as_u16()),
        Err(_) => Err(0),
    }
}

/// The next text frame or the end; answers pings.
pub async fn read_socket(socket: &mut Socket) -> Brought {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                return Brought::Frame(serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")));
            }
            Some(Ok(Message::Close(frame))) => return Brought::Closed(frame.map(|f| u16::from(f.code))),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(other)) => panic!("a frame that is no text: {other:?}"),
            Some(Err(_)) | None => return Brought::Closed(None),
        }
    }
}

impl Watcher {
    /// Connects, knowing nothing.
    pub async fn open(api: &Api, feed: &str) -> Watcher {
        Watcher::open_with(api, feed, "", None).await
    }

    /// Connects with a query such as `?max_hz=5`, and a small receive buffer if asked.
    pub async fn open_with(api: &Api, feed: &str, query: &str, receive_buffer: Option<u32>) -> Watcher {
        let path = format!("/v1/feeds/{feed}/ws{query}");
        let socket = open_socket(api, &path, receive_buffer).await.expect("a WebSocket");
        let mut fold = Fold::new(feed);
        fold.connected(None);
        let asked = query.trim_start_matches('?').split('&').filter(|part| !part.starts_with("since="));
        let query = asked.collect::<Vec<_>>().join("&");
        Watcher { fold, closed: None, api: api.clone(), query, socket: Some(socket) }
    }

    /// Leaves without a word.
    pub fn disconnect(&mut self) {
        self.socket = None;
        self.fold.remember("-- disconnected".into());
    }

    /// Connects again with what it has; false when nobody answers, or the gateway has no time.
    pub async fn try_reconnect(&mut self) -> bool {
        self.socket = None;
        let since = self.fold.position().map_or_else(String::new, |at| format!("since={at}"));
        let path = format!("/v1/feeds/{}/ws?{since}&{}", self.fold.feed, self.query);
        match open_socket(&self.api, &path, None).await {
            Ok(socket) => {
                self.fold.connected(self.fold.at.clone());
                (self.socket, self.closed) = (Some(socket), None);
                true
            }
            Err(0 | 503) => false,
            Err(status) => panic!("refused with {status}\n{}", self.fold.story()),
        }
    }

    /// Connects again with what it has.
    pub async fn reconnect(&mut self) {
        assert!(self.try_reconnect().await, "nobody answers\n{}", self.fold.story());
    }

    /// Folds the next frame; false when the connection has ended.
    pub async fn step(&mut self) -> bool {
        let Some(socket) = &mut self.socket else { return false };
        match read_socket(socket).await {
            Brought::Frame(frame) => {
                self.fold.take(&frame);
                true
            }
            Brought::Closed(code) => {
                self.fold.remember(format!("-- closed with {code:?}"));
                self.closed = code;
                self.socket = None;
                false
            }
        }
    }

    /// Folds frames until the picture is as wanted. The connection must hold.
    pub async fn wait_until(&mut self, what: &str, wanted: impl Fn(&Fold) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted(&self.fold) {
            match timeout_at(deadline, self.step()).await {
                Ok(true) => {}
                Ok(false) => panic!("the connection ended before {what}\n{}", self.fold.story()),
                Err(_) => panic!("no {what} in time\n{}", self.fold.story()),
            }
        }
    }

    /// Folds frames until it has this seq.
    pub async fn wait_for_seq(&mut self, seq: u64) {
        self.wait_until(&format!("seq {seq}"), |fold| fold.at.is_some() && fold.seq() >= seq).await;
        assert_eq!(self.fold.seq(), seq, "{}", self.fold.story());
    }

    /// As [`Watcher::wait_until`], but connects again whenever the connection ends.
    pub async fn follow_until(&mut self, patience: Duration, what: &str, wanted: impl Fn(&Fold) -> bool) {
        let deadline = Instant::now() + patience;
        while !wanted(&self.fold) {
            let step = async {
                if !self.step().await && !self.try_reconnect().await {
                    sleep(Duration::from_millis(50)).await;
                }
            };
            if timeout_at(deadline, step).await.is_err() {
                panic!("no {what} in time\n{}", self.fold.story());
            }
        }
    }

    /// Folds what comes until it has what GET says, field by field. Call it after the last write; rows
    /// may still expire, and the store may still be coming back.
    pub async fn wait_for_the_list(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.api.get(&format!("/v1/feeds/{}", self.fold.feed)).await;
            if said.status == 503 && Instant::now() < deadline {
                sleep(Duration::from_millis(50)).await;
                continue;
            }
            assert_eq!(said.status, 200, "{said:?}");
            let feed = said.json();
            let (epoch, seq) = (feed["epoch"].as_str().unwrap(), feed["seq"].as_u64().unwrap());
            let what = format!("{epoch}:{seq}");
            let patience = deadline.saturating_duration_since(Instant::now());
            let there = |fold: &Fold| fold.at.as_ref().is_some_and(|at| at.0 == epoch && at.1 >= seq);
            self.follow_until(patience, &what, there).await;
            if self.fold.seq() == seq {
                return self.fold.assert_is(&feed);
            }
        }
    }

    /// Folds what comes until the server closes; gives the code.
    pub async fn wait_for_close(&mut self) -> Option<CloseCode> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match timeout_at(deadline, self.step()).await {
                Ok(true) => {}
                Ok(false) => return self.closed.map(CloseCode::from),
                Err(_) => panic!("nobody closed\n{}", self.fold.story()),
            }
        }
    }
}
