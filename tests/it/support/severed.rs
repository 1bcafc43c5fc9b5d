//! A cluster whose nodes reach each other through wires that a test cuts, while clients reach them all.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::cluster::{Cluster, Plan};
use super::proxy::{Mode, Proxy};

/// What a message of the bus begins with, up to the name of its sender, which is as long as the rest.
const HEAD: usize = 40;

/// Three primaries with a replica each. What nodes say to each other, and what replicas are sent, goes through here.
pub struct Severed {
    pub cluster: Cluster,
    /// What other nodes and clients hear of each node: a way for replicas.
    ways: Vec<Proxy>,
    /// Which node's wires are cut.
    cut: watch::Sender<Option<usize>>,
}

impl Severed {
    pub async fn start() -> Severed {
        let (cut, seen) = watch::channel(None);
        let names = Arc::new(Mutex::new(HashMap::new()));
        let (targets, target_of) = watch::channel(Vec::new());
        let (mut ways, mut buses) = (Vec::new(), Vec::new());
        for at in 0..6 {
            ways.push(Proxy::before(([127, 0, 0, 1], 1).into()).await);
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            buses.push(listener.local_addr().unwrap().port());
            let wire = Wire { to: at, cut: seen.clone(), names: names.clone(), targets: target_of.clone() };
            tokio::spawn(wire.listen(listener));
        }
        let told = |at: usize| (ways[at].address.port(), buses[at]);
        let cluster = Cluster::of(Plan {
            replicas: 1,
            options: &|at| {
                let (port, bus) = told(at);
                let pairs = [("--cluster-announce-port", port), ("--cluster-announce-bus-port", bus)];
                pairs.into_iter().flat_map(|(name, port)| [name.to_owned(), port.to_string()]).collect()
            },
            met_at: &|at, _| told(at),
            ready: &|nodes| {
                for (at, node) in nodes.iter().enumerate() {
                    ways[at].lead_to(([127, 0, 0, 1], node.port).into());
                    names.lock().unwrap().insert(node.run(&["CLUSTER", "MYID"]).into_bytes(), at);
                }
                let bus = |port| SocketAddr::from(([127, 0, 0, 1], port));
                targets.send_replace(nodes.iter().map(|node| bus(node.bus_port)).collect());
            },
            ..Plan::default()
        });
        Severed { cluster, ways, cut }
    }

    /// No other node hears of this one, nor it of them, and its replica gets nothing.
    pub fn cut_off(&self, at: usize) {
        self.cut.send_replace(Some(at));
        self.ways[at].set(Mode::Cut);
    }

    /// Everybody hears of everybody again.
    pub fn join(&self) {
        self.cut.send_replace(None);
        self.ways.iter().for_each(|way| way.set(Mode::Open));
    }

    /// For clients, who reach the nodes by [`Severed::addresses`].
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.ways.iter().map(|way| way.address.to_string()).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// What nodes announce, and where clients reach them all the same.
    pub fn addresses(&self) -> Vec<String> {
        let pair = |(way, node): (&Proxy, &super::redis_server::RedisServer)| {
            format!("{}=127.0.0.1:{}", way.address, node.port)
        };
        self.ways.iter().zip(&self.cluster.nodes).map(pair).collect()
    }
}

/// Where others reach one node's bus.
#[derive(Clone)]
struct Wire {
    to: usize,
    cut: watch::Receiver<Option<usize>>,
    names: Arc<Mutex<HashMap<Vec<u8>, usize>>>,
    targets: watch::Receiver<Vec<SocketAddr>>,
}

impl Wire {
    async fn listen(self, listener: TcpListener) {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(self.clone().pass(stream));
        }
    }

    async fn pass(mut self, mut from: TcpStream) {
        let target = match self.targets.wait_for(|targets| !targets.is_empty()).await {
            Ok(targets) => targets[self.to],
            Err(_) => return,
        };
        let mut head = [0; 2 * HEAD];
        if from.read_exact(&mut head).await.is_err() {
            return;
        }
        let sender = self.names.lock().unwrap().get(&head[HEAD..]).copied();
        let is_cut = |cut: &Option<usize>| cut.is_some() && (*cut == Some(self.to) || *cut == sender);
        if is_cut(&self.cut.borrow()) {
            return;
        }
        let Ok(mut to) = TcpStream::connect(target).await else { return };
        if to.write_all(&head).await.is_err() {
            return;
        }
        let mut cut = self.cut.clone();
        tokio::select! {
            _ = copy_bidirectional(&mut from, &mut to) => {}
            _ = cut.wait_for(is_cut) => {}
        }
    }
}
