//! https and wss by the server itself: the certificate's files, who comes back, who does harm, and how it ends (what
//! watchers get is tested in `watching`, most of which runs over TLS as well).

use std::io::Write as _;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, HandshakeKind};

use crate::support::case::PATIENCE;
use crate::support::process::Process;
use crate::support::tls::{Papers, certificate, client_config, connect};

struct Served {
    papers: Papers,
    gateway: Process,
    _dir: TempDir,
}

impl Served {
    fn start() -> Served {
        Served::with(&[])
    }

    /// With these variables.
    fn with(more: &[(&str, &str)]) -> Served {
        let (papers, dir) = (Papers::new(), TempDir::new().unwrap());
        let env = [("TLS_CERT", papers.cert()), ("TLS_KEY", papers.key())];
        let env = env.map(|(key, path)| (format!("TIPCAST_HTTP__{key}"), path.display().to_string()));
        let args = vec!["--data-dir".into(), dir.path().join("data").display().to_string()];
        let more = more.iter().map(|(key, value)| (format!("TIPCAST_{key}"), value.to_string()));
        let gateway = Process::start("127.0.0.1:0", args, env.into_iter().chain(more).collect());
        Served { papers, gateway, _dir: dir }
    }

    /// What `/healthz` answers to a client that trusts only the certificate in the files now.
    async fn health(&self) -> Option<String> {
        let address = self.gateway.authority().parse().unwrap();
        let mut stream = connect(address, certificate(&self.papers.cert())).await.ok()?;
        let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        Some(answer)
    }

    /// A connection without TLS.
    async fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(self.gateway.authority()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A connection as this client makes them.
    async fn open(&self, client: &Arc<ClientConfig>) -> TlsStream<TcpStream> {
        let connector = TlsConnector::from(client.clone());
        connector.connect(name(), self.dial().await).await.unwrap()
    }

    fn client(&self) -> Arc<ClientConfig> {
        Arc::new(client_config(certificate(&self.papers.cert()), &[&TLS13, &TLS12]))
    }

    /// A watcher that has its list.
    async fn watcher(&self) -> TlsStream<TcpStream> {
        let mut stream = self.open(&self.client()).await;
        stream.write_all(HANDSHAKE).await.unwrap();
        read_until(&mut stream, "\"type\":\"snapshot\"").await;
        stream
    }

    /// How many handshakes came out so.
    async fn handshakes(&self, outcome: &str) -> u64 {
        let mut stream = self.open(&self.client()).await;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let line = format!("tipcast_tls_handshakes_total{{outcome=\"{outcome}\"}} ");
        let line = answer.lines().find_map(|it| it.strip_prefix(&line));
        line.unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
    }
}

const HANDSHAKE: &[u8] = b"GET /v1/feeds/show/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

async fn read_until(stream: &mut TlsStream<TcpStream>, words: &str) {
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains(words) {
        let read = timeout(PATIENCE, stream.read_buf(&mut all)).await.expect("it answers").unwrap();
        assert!(read > 0, "it ended after {:?}", String::from_utf8_lossy(&all));
    }
}

/// A ping is answered.
async fn is_served(watcher: &mut TlsStream<TcpStream>, words: &[u8; 2]) {
    watcher.write_all(&[0x89, 0x82, 0, 0, 0, 0, words[0], words[1]]).await.unwrap();
    read_until(watcher, std::str::from_utf8(words).unwrap()).await;
}

/// Everything until the connection ends, however it does.
async fn rest_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset is an end too.
    let _ = timeout(4 * PATIENCE, stream.read_to_end(&mut rest)).await.expect("it ends");
    rest
}

#[tokio::test]
async fn it_answers_over_tls_and_a_renewed_certificate_is_read_without_a_restart() {
    let served = Served::start();
    served.gateway.wait_for_words("listening on https://");
    let answer = served.health().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.to_lowercase().contains("strict-transport-security: max-age=31536000\r\n"), "{answer}");

    served.papers.renew();
    assert_eq!(served.health().await, None, "the old certificate is still shown");
    served.gateway.hang_up();
    served.gateway.wait_for_words("the certificate was read again");
    assert!(served.health().await.unwrap().starts_with("HTTP/1.1 200"));

    let good = std::fs::read(served.papers.key()).unwrap();
    std::fs::write(served.papers.key(), "no key").unwrap();
    served.gateway.hang_up();
    served.gateway.wait_for_words("[http] tls_key: there is no PEM private key");
    assert!(served.health().await.unwrap().starts_with("HTTP/1.1 200"), "what was stays in force");
    std::fs::write(served.papers.key(), good).unwrap();
}

#[test]
fn files_that_cannot_serve_are_refused_with_what_to_do() {
    let (papers, others) = (Papers::new(), Papers::new());
    let (cert, key) = (papers.cert().display().to_string(), papers.key().display().to_string());
    let other_key = others.key().display().to_string();
    let missing = papers.cert().with_file_name("missing.pem").display().to_string();
    for (cert, key, words) in [
        (&cert, &String::new(), "belong together"),
        (&missing, &key, "cannot be read"),
        (&key, &key, "there is no certificate"),
        (&cert, &cert, "no PEM private key"),
        (&cert, &other_key, "does not fit"),
    ] {
        let env = vec![
            ("TIPCAST_HTTP__TLS_CERT".to_owned(), cert.clone()),
            ("TIPCAST_HTTP__TLS_KEY".to_owned(), key.clone()),
        ];
        let (status, said) = Process::run_with(&["check-config".to_owned()], env);
        assert!(!status.success() && said.contains(words), "{words}: {said}");
    }
}

#[tokio::test]
async fn a_returning_tls_client_resumes_by_ticket() {
    let served = Served::start();
    for version in [&TLS13, &TLS12] {
        let client = Arc::new(client_config(certificate(&served.papers.cert()), &[version]));
        let mut kinds = Vec::new();
        for _ in 0..4 {
            let mut stream = served.open(&client).await;
            stream.write_all(HANDSHAKE).await.unwrap();
            read_until(&mut stream, "\"type\":\"snapshot\"").await;
            kinds.push(stream.get_ref().1.handshake_kind());
        }
        let resumed = Some(HandshakeKind::Resumed);
        assert_eq!(kinds, [Some(HandshakeKind::Full), resumed, resumed, resumed], "{version:?}");
    }
    assert_eq!(served.handshakes("resumed").await, 6);
}

#[tokio::test]
async fn the_end_of_a_watcher_is_said_in_tls_too() {
    let served = Served::start();
    let (mut leaves, mut stays) = (served.watcher().await, served.watcher().await);
    // A close frame, masked, with the code 1000.
    leaves.write_all(&[0x88, 0x82, 0, 0, 0, 0, 3, 0xe8]).await.unwrap();
    let mut rest = Vec::new();
    timeout(PATIENCE, leaves.read_to_end(&mut rest)).await.unwrap().expect("not cut off");
    assert_eq!(rest, [0x88, 2, 3, 0xe8]);
    served.gateway.terminate();
    let mut rest = Vec::new();
    timeout(PATIENCE, stays.read_to_end(&mut rest)).await.unwrap().expect("not cut off");
    let said = String::from_utf8_lossy(&rest);
    assert!(said.contains("\"type\":\"goodbye\""), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harmful_client_harms_nobody_else() {
    let served = Served::with(&[("HTTP__HEAD_TIMEOUT_MS", "1000")]);
    let mut innocent = served.watcher().await;

    let mut hello = Vec::new();
    ClientConnection::new(served.client(), name()).unwrap().write_tls(&mut hello).unwrap();
    let half = hello[..hello.len() / 2].to_vec();
    let huge = vec![22, 3, 1, 0xff, 0xff, 1];
    for (n, (said, told)) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), true),
        (huge, true),
        (vec![0x41; 20_000], true),
        (half, false),
        (vec![], false),
    ]
    .into_iter()
    .enumerate()
    {
        let mut hostile = served.dial().await;
        // It may be cut before it has said all.
        let _ = hostile.write_all(&said).await;
        is_served(&mut innocent, &[b'a', b'0' + n as u8]).await;
        let rest = rest_of(&mut hostile).await;
        // What was not read resets the connection, and may take the alert with it.
        assert!(!told || rest.is_empty() || rest.starts_with(&[21, 3]), "{rest:?}");
        assert!(told || rest.is_empty(), "{rest:?}");
    }

    // Byte by byte until its time is up, and then no more.
    let mut slow = served.dial().await;
    for byte in hello.iter().cycle().take(hello.len() - 1) {
        if slow.write_all(&[*byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert!(rest_of(&mut slow).await.is_empty());
    is_served(&mut innocent, b"b0").await;

    // Half of a frame's record, and then nothing; and a connection that ends without a word.
    let mut stops = served.watcher().await;
    stops.get_mut().1.writer().write_all(&[0x81; 4000]).unwrap();
    let mut record = Vec::new();
    stops.get_mut().1.write_tls(&mut record).unwrap();
    stops.get_mut().0.write_all(&record[..record.len() / 2]).await.unwrap();
    is_served(&mut innocent, b"b1").await;
    drop(stops);
    let (socket, _) = served.watcher().await.into_inner();
    drop(socket);
    is_served(&mut innocent, b"b2").await;
    assert!(served.health().await.unwrap().starts_with("HTTP/1.1 200"));
    assert!(served.handshakes("failed").await >= 6);
}

#[tokio::test]
async fn an_address_has_only_so_many_handshakes_under_way() {
    let few = [("LIMITS__HANDSHAKES_PER_ADDRESS", "2"), ("LIMITS__COUNT_LOOPBACK", "true")];
    let served = Served::with(&few);
    let mut stalled = [served.dial().await, served.dial().await];
    for stream in &mut stalled {
        stream.write_all(&[22, 3, 1]).await.unwrap();
    }
    // Both may be accepted after the third, by another thread; then the next one is refused.
    let mut refused = 0;
    while refused < 3 {
        let connector = TlsConnector::from(served.client());
        match timeout(PATIENCE, connector.connect(name(), served.dial().await)).await.expect("an end") {
            Ok(_) => {}
            Err(_) => refused += 1,
        }
    }
    drop(stalled);
    let served_again = async {
        while served.health().await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    timeout(4 * PATIENCE, served_again).await.expect("places are free again");
    assert!(served.handshakes("refused").await >= 3);
}
