//! Requests that come in one segment: each is answered by itself, in order, with its own framing, and the answer to a
//! HEAD ends after its head.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{GET, connect};
use crate::support::TestApp;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;

in_the_clear_and_over_tls![
    each_answer_to_requests_in_one_segment_has_its_own_framing_and_their_order,
    requests_behind_a_body_in_pieces_and_an_expectation_are_answered_in_order,
    a_head_of_an_event_stream_ends_after_the_head_and_the_next_request_is_answered,
    a_long_row_of_requests_in_one_segment_is_answered_whole,
];

const HEAD: &str = "HEAD /v1/feeds/show HTTP/1.1\r\nHost: localhost\r\n\r\n";
const NOWHERE: &str = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A connection whose answers are read one by one.
struct Line {
    stream: TcpStream,
    unread: Vec<u8>,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Line {
    async fn to(app: &TestApp) -> Line {
        Line { stream: connect(app).await, unread: Vec::new() }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    async fn more(&mut self) {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.unread)).await;
        let came = read.unwrap_or_else(|_| panic!("nothing follows {:?}", self.text())).unwrap();
        assert!(came > 0, "the connection ended behind {:?}", self.text());
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    async fn take(&mut self, n: usize) -> String {
        while self.unread.len() < n {
            self.more().await;
        }
        String::from_utf8(self.unread.drain(..n).collect()).unwrap()
    }

    /// The next answer, framed as that to a request with this method.
    async fn answer_to(&mut self, method: &str) -> Answer {
        let end = loop {
            match self.text().find("\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.more().await,
            }
        };
        let head = self.take(end).await;
        assert!(head.starts_with("HTTP/1.1 "), "no answer begins here: {head:?}");
        let value = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let status = head[9..12].parse().unwrap();
        let length = value("content-length").map_or(0, |n| n.parse().unwrap());
        let body = match method {
            "HEAD" => String::new(),
            _ if value("transfer-encoding").is_some() => panic!("the body has a length: {head}"),
            _ => self.take(length).await,
        };
        Answer { status, head, body }
    }

    /// Nothing came beyond the answers that were read, and the connection is good for more.
    async fn is_even(&mut self) {
        assert_eq!(self.text(), "");
        self.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(self.answer_to("GET").await.status, 200);
        assert_eq!(self.text(), "");
    }
}

fn post(id: &str, expects: bool) -> (String, String) {
    let body = gift(id).by(id).json().to_string();
    let expects = if expects { "Expect: 100-continue\r\n" } else { "" };
    let head = format!(
        "POST /v1/feeds/show/gifts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{expects}\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    (head, body)
}

async fn each_answer_to_requests_in_one_segment_has_its_own_framing_and_their_order() {
    let app = TestApp::start().await;
    let mut line = Line::to(&app).await;
    for round in 0..60 {
        let (head, body) = post(&format!("g{round}"), false);
        let pairs = [
            [(GET, "GET", 200), (HEAD, "HEAD", 200)],
            [(HEAD, "HEAD", 200), (GET, "GET", 200)],
            [(GET, "GET", 200), (NOWHERE, "GET", 404)],
            [(&format!("{head}{body}"), "POST", 201), (GET, "GET", 200)],
        ];
        for pair in pairs {
            line.send(&pair.map(|(request, ..)| request).concat()).await;
            for (request, method, status) in pair {
                let answer = line.answer_to(method).await;
                assert_eq!(answer.status, status, "round {round}: {}", answer.head);
                let feed = request.contains(" /v1/feeds/show HTTP");
                assert_eq!(feed && method == "GET", answer.body.contains("\"rows\":"), "{}", answer.body);
            }
        }
    }
    line.is_even().await;
}

async fn requests_behind_a_body_in_pieces_and_an_expectation_are_answered_in_order() {
    let app = TestApp::start().await;
    let mut line = Line::to(&app).await;
    let (head, body) = post("pieces", false);
    let (first, rest) = body.split_at(10);
    for piece in [&head, first, &format!("{rest}{HEAD}{}", &GET[..9]), &GET[9..]] {
        line.send(piece).await;
        tokio::task::yield_now().await;
    }
    for (method, status) in [("POST", 201), ("HEAD", 200), ("GET", 200)] {
        assert_eq!(line.answer_to(method).await.status, status);
    }
    let (head, body) = post("expected", true);
    line.send(&format!("{GET}{head}")).await;
    assert_eq!(line.answer_to("GET").await.status, 200);
    assert_eq!(line.answer_to("HEAD").await.status, 100);
    line.send(&format!("{body}{HEAD}")).await;
    assert_eq!(line.answer_to("POST").await.status, 201);
    assert_eq!(line.answer_to("HEAD").await.status, 200);
    let (head, body) = post("chunked", false);
    let length = format!("Content-Length: {}", body.len());
    let chunked = head.replace(&length, "Transfer-Encoding: chunked");
    line.send(&format!("{chunked}{:x}\r\n{body}\r\n0\r\n\r\n{HEAD}{GET}", body.len())).await;
    for (method, status) in [("POST", 201), ("HEAD", 200), ("GET", 200)] {
        assert_eq!(line.answer_to(method).await.status, status);
    }
    line.is_even().await;
}

async fn a_head_of_an_event_stream_ends_after_the_head_and_the_next_request_is_answered() {
    let app = TestApp::start().await;
    let stream = |feed: &str| format!("HEAD /v1/feeds/{feed}/sse HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut line = Line::to(&app).await;
    // One by one, and in one segment.
    for text in [&*stream("show"), GET, HEAD, &format!("{}{GET}{HEAD}", stream("other"))] {
        line.send(text).await;
        for request in text.split_inclusive("\r\n\r\n") {
            let method = request.split(' ').next().unwrap();
            let answer = line.answer_to(method).await;
            assert_eq!(answer.status, 200, "{request}{}", answer.head);
            assert_eq!(answer.head.contains("text/event-stream"), request.contains("/sse"));
        }
    }
    line.is_even().await;
    // Nobody watches by a HEAD.
    let metrics = app.get("/metrics").await.text;
    assert!(metrics.contains("tipcast_watchers{transport=\"sse\"} 0"), "{metrics}");
}

async fn a_long_row_of_requests_in_one_segment_is_answered_whole() {
    let app = TestApp::start().await;
    let mut line = Line::to(&app).await;
    let (mut text, mut methods) = (String::new(), Vec::new());
    // More than the server reads at once.
    while text.len() < 64 << 10 {
        let request = [GET, HEAD, NOWHERE][methods.len() % 3];
        methods.push(request.split(' ').next().unwrap());
        text.push_str(request);
    }
    line.send(&text).await;
    for (n, method) in methods.into_iter().enumerate() {
        assert_eq!(line.answer_to(method).await.status, [200, 200, 404][n % 3], "the {n}th");
    }
    line.is_even().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_handshake_may_follow_other_requests_of_its_connection() {
    let app = TestApp::start().await;
    let mut line = Line::to(&app).await;
    let handshake = "GET /v1/feeds/show/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
         Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    line.send(&format!("{HEAD}{GET}{handshake}")).await;
    for (method, status) in [("HEAD", 200), ("GET", 200), ("HEAD", 101)] {
        let answer = line.answer_to(method).await;
        assert_eq!(answer.status, status, "{}", answer.head);
    }
    while !line.text().contains("\"type\":\"snapshot\"") {
        let read = timeout(PATIENCE, line.stream.read_buf(&mut line.unread)).await.expect("a snapshot");
        assert!(read.unwrap() > 0);
    }
    // A HEAD is no handshake.
    let mut line = Line::to(&app).await;
    line.send(&handshake.replace("GET", "HEAD")).await;
    assert_eq!(line.answer_to("HEAD").await.status, 405);
}
