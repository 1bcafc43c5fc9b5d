//! Clients that ask for a rich feed and never read: what waits for them is shared, and bounded for their address.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Duration, Instant, sleep};

use crate::support::TestApp;
use crate::support::api::{Api, http};
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::process::Process;

const GET: &str = "GET /v1/feeds/rich HTTP/1.1\r\nHost: localhost\r\n\r\n";
const STREAM: &str = "GET /v1/feeds/rich/sse HTTP/1.1\r\nHost: localhost\r\n\r\n";
const SOCKET: &str = "GET /v1/feeds/rich/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
     Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A feed whose list is as long as can be: some 300 KB.
async fn enrich(api: &Api) {
    api.patch_policy("rich", json!({"capacity": 100, "dedup": "off"})).await;
    let long = |n: usize| {
        let spec = gift(&format!("g{n}")).by(&format!("u{n}"));
        spec.with("message", json!("\u{1f339}".repeat(200)))
            .with("meta", json!({"m": "m".repeat(1_000)}))
            .json()
    };
    for batch in (0..100).collect::<Vec<_>>().chunks(50) {
        let gifts: Vec<_> = batch.iter().map(|n| long(*n)).collect();
        assert_eq!(api.post_batch("rich", &gifts).await.status, 200);
    }
    assert!(api.get("/v1/feeds/rich").await.text.len() > 200_000);
}

/// A client that sends a request and never reads.
async fn stuck(api: &Api, request: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(2_048).unwrap();
    let mut stream = socket.connect(api.authority().parse().unwrap()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// A metric, asked for from another address than that of the clients who do not read: what bounds those touches nobody else.
async fn metric(api: &Api, name: &str) -> u64 {
    let elsewhere = http().local_address(Some("127.0.0.2".parse().unwrap())).build().unwrap();
    let answer = elsewhere.get(format!("http://{}/metrics", api.authority())).send().await.unwrap();
    let text = answer.text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse::<f64>().unwrap() as u64)
}

/// Waits until the metric is at least this.
async fn until(api: &Api, name: &str, least: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = metric(api, name).await;
        if now >= least {
            return;
        }
        assert!(Instant::now() < deadline, "{name} is {now}, not {least}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_costs_a_fraction_of_the_list_whatever_it_asked_for() {
    // The allocator takes memory from the system in pieces of 4 MiB: one of them is little for each of many.
    const CLIENTS: u64 = 120;
    let backing = Backing::folder();
    let small = vec![("TIPCAST_HTTP__SEND_BUFFER_BYTES".to_owned(), "4096".to_owned())];
    let gateway = Process::start("127.0.0.1:0", backing.args(), small);
    enrich(&gateway).await;
    let answered = [
        "tipcast_http_requests_total{route=\"feed\",class=\"2xx\"}",
        "tipcast_watchers{transport=\"sse\"}",
        "tipcast_watchers{transport=\"ws\"}",
    ];
    // What is there once, and what allocators keep, is not counted.
    let mut kept = vec![];
    for request in [GET, STREAM, SOCKET] {
        kept.push(stuck(&gateway, request).await);
    }
    until(&gateway, answered[2], 1).await;
    let memory = "tipcast_process_resident_memory_bytes";
    for (request, answered) in [GET, STREAM, SOCKET].into_iter().zip(answered) {
        let (before, so_far) = (metric(&gateway, memory).await, metric(&gateway, answered).await);
        for _ in 0..CLIENTS {
            kept.push(stuck(&gateway, request).await);
        }
        until(&gateway, answered, so_far + CLIENTS).await;
        let each = metric(&gateway, memory).await.saturating_sub(before) / CLIENTS;
        assert!(each < 100_000, "{each} bytes for each of those who sent {request}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsent_bytes_of_an_address_are_bounded_and_the_stalest_is_cut() {
    let app = TestApp::with(&Backing::folder(), |config| {
        config.http.send_buffer_bytes = 4_096;
        config.limits.count_loopback = true;
        config.limits.unsent_bytes_per_address = 2 << 20;
    })
    .await;
    enrich(&app).await;
    for request in [GET, STREAM, SOCKET] {
        let cut = "tipcast_connections_cut_total{reason=\"unsent\"}";
        let before = metric(&app, cut).await;
        let mut kept = vec![];
        for _ in 0..30 {
            kept.push(stuck(&app, request).await);
        }
        // Of 30 for which 200 KB or more wait, ten have room.
        until(&app, cut, before + 20).await;
        assert!(app.get("/v1/feeds/rich").await.text.ends_with('}'), "who reads is served");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_begin_bodies_and_never_end_them_cost_little_however_they_cut_them() {
    const CLIENTS: u64 = 100;
    const MOST: u64 = 25 << 20;
    let head = "POST /v1/feeds/show/gifts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n");
    // What is too long is refused, and read on for a while so that its connection stays of use.
    let kinds = [
        ("nearly all of what may be", format!("{head}Content-Length: 8192\r\n\r\n{}", "x".repeat(8_000))),
        ("in chunks of a byte", format!("{chunked}{}", "1\r\nx\r\n".repeat(8_000))),
        ("far too many chunks of a byte", format!("{chunked}{}", "1\r\nx\r\n".repeat(150_000))),
        ("one chunk that is too long", format!("{chunked}ffffff\r\n{}", "x".repeat(900_000))),
        ("more than may be", format!("{head}Content-Length: 900000\r\n\r\n{}", "x".repeat(890_000))),
    ];
    for (kind, request) in kinds {
        let backing = Backing::folder();
        let gateway = Process::start("127.0.0.1:0", backing.args(), vec![]);
        for n in 0..50 {
            gateway.give("show", &gift(&format!("g{n}"))).await;
        }
        let bytes = async || metric(&gateway, "tipcast_process_resident_memory_bytes").await;
        let before = bytes().await;
        let (mut clients, mut most) = (Vec::new(), 0);
        for _ in 0..CLIENTS {
            let stream = TcpStream::connect(gateway.authority()).await.unwrap();
            let (reading, mut writing) = stream.into_split();
            let request = request.clone();
            // What is too much is answered and cut off: then nobody takes the rest.
            let written = tokio::spawn(async move {
                let _ = writing.write_all(request.as_bytes()).await;
                writing
            });
            clients.push((reading, written));
        }
        for _ in 0..20 {
            sleep(Duration::from_millis(50)).await;
            most = most.max(bytes().await);
        }
        let grown = most.saturating_sub(before);
        assert!(grown <= MOST, "{kind}: {} KiB for {CLIENTS} clients", grown >> 10);
        assert_eq!(gateway.give("show", &gift("still")).await["status"], "merged", "{kind}");
    }
}
