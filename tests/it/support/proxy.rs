//! A TCP proxy that cuts, stalls and restores what is behind it.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What the proxy does to connections, old and new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Open,
    /// Everything is closed at once.
    Cut,
    /// Connections stay, and nothing passes.
    Stalled,
}

/// Stands before one address.
pub struct Proxy {
    /// Where to connect to.
    pub address: SocketAddr,
    mode: watch::Sender<Mode>,
    target: watch::Sender<SocketAddr>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Before `target`, open.
    pub async fn before(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, seen) = watch::channel(Mode::Open);
        let (target, now_before) = watch::channel(target);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut seen = seen.clone();
                let target = *now_before.borrow();
                tokio::spawn(async move {
                    if *seen.borrow_and_update() == Mode::Cut {
                        return;
                    }
                    let Ok(server) = TcpStream::connect(target).await else { return };
                    let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    let up = pass(from_client, to_server, seen.clone());
                    let down = pass(from_server, to_client, seen.clone());
                    let cut = async {
                        let _ = seen.wait_for(|mode| *mode == Mode::Cut).await;
                    };
                    tokio::select! { () = up => {}, () = down => {}, () = cut => {} }
                });
            }
        });
        Proxy { address, mode, target, task }
    }

    /// New connections lead there.
    pub fn lead_to(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }

    /// From now on.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

/// One direction, until it ends. What was read before a stall is held until the stall ends.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut mode: watch::Receiver<Mode>) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let Ok(n @ 1..) = from.read(&mut bytes).await else { return };
        if mode.wait_for(|mode| *mode == Mode::Open).await.is_err()
            || to.write_all(&bytes[..n]).await.is_err()
        {
            return;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
