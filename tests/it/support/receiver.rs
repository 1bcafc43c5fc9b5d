//! An endpoint of webhooks: checks what every delivery must keep, and answers as it is asked to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use data_encoding::BASE64;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::case::PATIENCE;

/// The key of tests, 24 bytes.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What the endpoint answers.
#[derive(Clone, Debug)]
pub enum Reply {
    /// This status, with these header lines.
    Status(u16, &'static str),
    /// Nothing: the connection stays and is silent.
    Hang,
    /// The connection is closed.
    Close,
    /// What is no HTTP.
    Garbage,
}

/// Accepted.
pub const OK: Reply = Reply::Status(204, "");

/// A delivery as it came.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// `webhook-id`.
    pub id: String,
    /// Which path it was sent to.
    pub path: String,
    /// `webhook-timestamp`.
    pub timestamp: String,
    /// The signatures, without `v1,`.
    pub signatures: Vec<String>,
    /// Its headers, by their names in small letters.
    pub headers: HashMap<String, String>,
    /// The body as it came.
    pub body: String,
    /// The body read.
    pub json: Value,
    /// When.
    pub at: Instant,
    /// Whether it was answered with 2xx.
    pub accepted: bool,
}

impl Delivery {
    /// The ids of its gifts.
    pub fn gifts(&self) -> Vec<String> {
        let entries = self.json["entries"].as_array().unwrap();
        entries.iter().map(|it| it["gift"]["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Its feed.
    pub fn feed(&self) -> &str {
        self.json["feed"].as_str().unwrap()
    }
}

type Judge = Box<dyn FnMut(&Delivery) -> Reply + Send>;

struct State {
    judge: Judge,
    got: Vec<Delivery>,
    /// Per path and feed: how many deliveries are being answered.
    under_way: HashMap<String, usize>,
    overlapped: bool,
}

/// The endpoint; gone when dropped.
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    _task: JoinSet<()>,
}

impl Receiver {
    /// One that accepts everything.
    pub async fn start() -> Receiver {
        Receiver::that(|_| OK).await
    }

    /// One that answers as `judge` says.
    pub async fn that(judge: impl FnMut(&Delivery) -> Reply + Send + 'static) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            judge: Box::new(judge),
            got: vec![],
            under_way: HashMap::new(),
            overlapped: false,
        }));
        let mut task = JoinSet::new();
        let seen = state.clone();
        task.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(serve(stream, seen.clone()));
            }
        });
        Receiver { address, state, _task: task }
    }

    /// From now on it answers so.
    pub fn answers(&self, judge: impl FnMut(&Delivery) -> Reply + Send + 'static) {
        self.state.lock().unwrap().judge = Box::new(judge);
    }

    /// Its URL, with this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Everything that came.
    pub fn got(&self) -> Vec<Delivery> {
        self.state.lock().unwrap().got.clone()
    }

    /// The ids of gifts that were accepted, in order, repeats left out.
    pub fn gifts(&self) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        let state = self.state.lock().unwrap();
        let all = state.got.iter().filter(|it| it.accepted).flat_map(Delivery::gifts);
        all.filter(|id| seen.insert(id.clone())).collect()
    }

    /// Waits until `enough` of what came.
    pub async fn wait_for(&self, what: &str, enough: impl Fn(&[Delivery]) -> bool) -> Vec<Delivery> {
        let since = Instant::now();
        loop {
            let got = self.got();
            assert!(!self.state.lock().unwrap().overlapped, "one batch of a feed is under way at a time");
            if enough(&got) {
                return got;
            }
            let came: Vec<_> = got.iter().map(|it| (it.gifts().len(), it.accepted)).collect();
            assert!(since.elapsed() < 3 * PATIENCE, "{what} does not come: {came:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until this number of different gifts were accepted; they, in order.
    pub async fn wait_for_gifts(&self, count: usize) -> Vec<String> {
        self.wait_for(&format!("{count} gifts"), |_| self.gifts().len() >= count).await;
        self.gifts()
    }
}

/// What a signature must be: computed here on its own.
pub fn signature(secret: &str, id: &str, timestamp: &str, body: &str) -> String {
    let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
    BASE64.encode(&hmac(&key, format!("{id}.{timestamp}.{body}").as_bytes()))
}

/// The HMAC-SHA256 of `message`.
pub fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
    ring::hmac::sign(&key, message).as_ref().to_vec()
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = String::new();
        read.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("POST"));
        let path = words.next()?.trim_start_matches('/').to_owned();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            read.read_line(&mut line).await.ok().filter(|n| *n > 0)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        read.read_exact(&mut body).await.ok()?;
        let body = String::from_utf8(body).unwrap();
        let json: Value = serde_json::from_str(&body).unwrap();
        super::schema::check_entries(&json);
        let id = headers["webhook-id"].clone();
        let signatures: Vec<String> = headers["webhook-signature"]
            .split(' ')
            .filter_map(|it| it.strip_prefix("v1,").map(str::to_owned))
            .collect();
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!((json["type"].as_str(), json["batch"].as_str()), (Some("entries"), Some(&*id)));
        let wanted = signature(SECRET, &id, &headers["webhook-timestamp"], &body);
        assert!(signatures.contains(&wanted), "signed with the secret of tests: {headers:?}");
        let lane = format!("{path} {}", json["feed"]);
        let at = Instant::now();
        let timestamp = headers["webhook-timestamp"].clone();
        let mut delivery =
            Delivery { id, timestamp, path, signatures, headers, body, json, at, accepted: false };
        let reply = {
            let mut state = state.lock().unwrap();
            let reply = (state.judge)(&delivery);
            delivery.accepted = matches!(reply, Reply::Status(200..=299, _));
            state.got.push(delivery);
            let under_way = state.under_way.entry(lane.clone()).or_default();
            *under_way += 1;
            let two = *under_way > 1;
            state.overlapped |= two;
            reply
        };
        match reply {
            Reply::Status(status, headers) => {
                let headers = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
                *state.lock().unwrap().under_way.get_mut(&lane).unwrap() -= 1;
                let head = format!("HTTP/1.1 {status} So\r\n{headers}content-length: 0\r\n\r\n");
                // 204 has no body and no length.
                let head = if status == 204 { head.replace("content-length: 0\r\n", "") } else { head };
                write.write_all(head.as_bytes()).await.ok()?;
            }
            Reply::Hang => {
                let mut rest = [0; 1];
                let _ = read.read(&mut rest).await;
                *state.lock().unwrap().under_way.get_mut(&lane).unwrap() -= 1;
                return None;
            }
            Reply::Close | Reply::Garbage => {
                *state.lock().unwrap().under_way.get_mut(&lane).unwrap() -= 1;
                if matches!(reply, Reply::Garbage) {
                    write.write_all(b"SMTP ready\r\n\r\n").await.ok()?;
                }
                return None;
            }
        }
    }
}
