//! A small OpenTelemetry collector: takes spans over HTTP as JSON, and answers as it is asked to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::case::PATIENCE;
use super::receiver::Reply;

struct State {
    reply: Reply,
    requests: usize,
    spans: Vec<Value>,
}

/// The collector; gone when dropped.
pub struct Collector {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _task: JoinSet<()>,
}

impl Collector {
    /// One that takes everything.
    pub async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let reply = Reply::Status(200, "content-type: application/json");
        let state = Arc::new(Mutex::new(State { reply, requests: 0, spans: vec![] }));
        let mut task = JoinSet::new();
        let seen = state.clone();
        task.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(serve(stream, seen.clone()));
            }
        });
        Collector { address, state, _task: task }
    }

    /// For `[log] otlp_url`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on it answers so.
    pub fn answers(&self, reply: Reply) {
        self.state.lock().unwrap().reply = reply;
    }

    /// How many requests came, whatever was answered.
    pub fn requests(&self) -> usize {
        self.state.lock().unwrap().requests
    }

    /// Waits for a span that it took.
    pub async fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let spans = self.state.lock().unwrap().spans.clone();
            if let Some(span) = spans.iter().find(|span| wanted(span)) {
                return span.clone();
            }
            assert!(since.elapsed() < 3 * PATIENCE, "no span of {what}: {spans:#?}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// What a span says under this name.
pub fn attribute<'a>(span: &'a Value, name: &str) -> &'a str {
    let attributes = span["attributes"].as_array().unwrap();
    let found = attributes.iter().find(|it| it["key"] == name);
    let value = &found.unwrap_or_else(|| panic!("no {name} in {span}"))["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap()
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            read.read_line(&mut head).await.ok().filter(|n| *n > 0)?;
        }
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        let head = head.to_ascii_lowercase();
        assert!(head.contains("content-type: application/json\r\n"), "{head}");
        let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        read.read_exact(&mut body).await.ok()?;
        let body: Value = serde_json::from_slice(&body).unwrap();
        let reply = {
            let mut state = state.lock().unwrap();
            state.requests += 1;
            if matches!(state.reply, Reply::Status(200, _)) {
                let of = &body["resourceSpans"][0];
                assert_eq!(of["resource"]["attributes"][0]["value"]["stringValue"], "tipcast");
                let spans = of["scopeSpans"][0]["spans"].as_array().unwrap();
                state.spans.extend(spans.iter().cloned());
            }
            state.reply.clone()
        };
        match reply {
            Reply::Status(status, headers) => {
                let head = format!("HTTP/1.1 {status} So\r\n{headers}\r\ncontent-length: 2\r\n\r\n{{}}");
                write.write_all(head.as_bytes()).await.ok()?;
            }
            Reply::Hang => {
                let _ = read.read(&mut [0; 1]).await;
                return None;
            }
            Reply::Close | Reply::Garbage => return None,
        }
    }
}
