//! The real thing on port 0, over real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::config::{Flags, load};

struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), StartError>>,
    _data: tempfile::TempDir,
}

fn serve(change: impl FnOnce(&mut Config)) -> Served {
    let data = tempfile::tempdir().unwrap();
    let data_dir = Some(data.path().display().to_string());
    let flags = Flags { listen: Some("127.0.0.1:0".into()), data_dir, ..Flags::default() };
    let mut config = load(None, Vec::new(), flags).unwrap();
    change(&mut config);
    let listener = bind(config.listen_address().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(run(config, listener, async {
        let _ = stopped.await;
    }));
    Served { address, stop, running, _data: data }
}

async fn say(address: SocketAddr, request: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

async fn hear(mut socket: TcpStream) -> String {
    let mut all = Vec::new();
    timeout(Duration::from_secs(20), socket.read_to_end(&mut all)).await.unwrap().unwrap();
    String::from_utf8(all).unwrap()
}

const GIFT: &str = r#"{"id":"a","user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"}}"#;

fn post(rest: &str) -> String {
    format!("POST /v1/feeds/x/gifts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{rest}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_request_is_finished_and_idle_connections_are_not_waited_for() {
    let served = serve(|_| ());
    let (first, last) = GIFT.split_at(20);
    let head = post(&format!("Content-Length: {}\r\nExpect: 100-continue\r\n\r\n", GIFT.len()));
    let mut running = say(served.address, &head).await;
    // It says so when it begins to wait for the body.
    assert!(running.read(&mut [0; 1024]).await.unwrap() > 0);
    running.write_all(first.as_bytes()).await.unwrap();
    let mut idle = say(served.address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(idle.read(&mut [0; 1024]).await.unwrap() > 0);

    let begun = std::time::Instant::now();
    served.stop.send(()).unwrap();
    assert_eq!(timeout(Duration::from_secs(5), idle.read(&mut [0; 1024])).await.unwrap().unwrap(), 0);
    running.write_all(last.as_bytes()).await.unwrap();
    assert!(hear(running).await.starts_with("HTTP/1.1 201"));
    served.running.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(TcpStream::connect(served.address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_end_is_refused_and_then_cut() {
    let served = serve(|_| ());
    let mut socket = say(served.address, &post("Transfer-Encoding: chunked\r\n\r\n")).await;
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(4096));
    let cut = timeout(Duration::from_secs(10), async {
        while socket.write_all(chunk.as_bytes()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    cut.await.unwrap();
    served.stop.send(()).unwrap();
    served.running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_comes_too_slowly_is_a_problem_of_its_own() {
    let served = serve(|config| config.http.body_timeout_ms = 150);
    let slow = say(served.address, &post("Content-Length: 80\r\n\r\n{")).await;
    let answer = hear(slow).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("/problems/body-timeout"), "{answer}");
    served.stop.send(()).unwrap();
    served.running.await.unwrap().unwrap();
}
