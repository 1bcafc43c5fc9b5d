//! TLS around a gateway: a certificate of its own, and a tunnel that lets clients without TLS reach it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, SupportedProtocolVersion};

/// What the kernel may hold in a tunnel, each way.
const BUFFER: u32 = 16 << 10;

/// A certificate for `localhost` and its key, in files.
pub struct Papers {
    dir: TempDir,
}

impl Papers {
    /// Fresh ones.
    pub fn new() -> Papers {
        let papers = Papers { dir: TempDir::new().unwrap() };
        papers.renew();
        papers
    }

    /// Others in the same files.
    pub fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(self.cert(), made.cert.pem()).unwrap();
        std::fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
    }

    /// The certificate's file.
    pub fn cert(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }

    /// The key's file.
    pub fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }
}

/// The certificate in a file.
pub fn certificate(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap()
}

/// A client that trusts this certificate only, and speaks these versions.
pub fn client_config(
    trusted: CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// A connection to `server`, which must show this certificate.
pub async fn connect(
    server: SocketAddr,
    trusted: CertificateDer<'static>,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let config = client_config(trusted, ALL_VERSIONS);
    let socket = TcpSocket::new_v4()?;
    // The server must feel it soon when its client does not read.
    socket.set_recv_buffer_size(BUFFER)?;
    let stream = socket.connect(server).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

/// Takes plain connections and hands them on over TLS. It has a thread of its own, so that its connections close
/// when it is dropped, also while the test's thread waits for the gateway behind it to stop.
pub struct Tunnel {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tunnel {
    /// To `server`, which shows the certificate in these papers.
    pub fn to(server: SocketAddr, papers: &Papers) -> Tunnel {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let trusted = certificate(&papers.cert());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("tunnel".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! { () = carry(listener, server, trusted) => {}, _ = stopped => {} }
            });
        });
        Tunnel { address, stop: Some(stop), thread: Some(thread.unwrap()) }
    }
}

async fn carry(listener: TcpListener, server: SocketAddr, trusted: CertificateDer<'static>) {
    let mut all = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        let trusted = trusted.clone();
        all.spawn(async move {
            near.set_nodelay(true)?;
            socket2::SockRef::from(&near).set_send_buffer_size(BUFFER as usize)?;
            let mut far = connect(server, trusted).await?;
            copy_bidirectional(&mut near, &mut far).await
        });
        while all.try_join_next().is_some() {}
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
