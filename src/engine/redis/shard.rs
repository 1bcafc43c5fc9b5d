//! One primary: its connections, its subscriptions, its fence, and how many calls may be under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::connection::{Connection, ConnectionConfig, ConnectionState};
use super::fence::{Fence, FenceRule};
use super::layout::Layout;
use super::purpose::Purpose;
use super::subscriber::{Subscriber, Subscribing};
use crate::engine::protocol::address::Endpoint;
use crate::engine::protocol::topics::Topics;

/// Calls about feeds of one shard that may be under way; one more is refused.
pub const MAX_SHARD_CALLS: usize = 4096;

/// Connections for commands. More than one, so that a large reply does not hold up everything.
const CONNECTIONS: usize = 2;

/// What a shard is made with.
pub struct ShardConfig {
    pub connection: ConnectionConfig,
    pub topics: Arc<Topics>,
    pub layout: watch::Receiver<Arc<Layout>>,
    /// How many replicas must have a write before it is answered; `None` without that rule.
    pub fence: Option<FenceRule>,
    /// What keys and channels begin with.
    pub prefix: String,
    /// Marks the probes of this process.
    pub process: u64,
    /// True where every SSUBSCRIBE must be about one slot.
    pub by_slot: bool,
    /// What it is connected to for.
    pub purpose: Purpose,
}

/// One primary: its connections and its subscriber.
pub struct Shard {
    pub endpoint: Endpoint,
    connections: Vec<Arc<Connection>>,
    turn: AtomicUsize,
    calls: Arc<Semaphore>,
    pub fence: Option<Fence>,
    pub subscriber: Subscriber,
}

impl Shard {
    pub fn open(endpoint: Endpoint, config: &ShardConfig) -> Shard {
        let open = |at| Arc::new(Connection::open(endpoint.clone(), config.connection.clone(), at == 0));
        let connections: Vec<_> = (0..CONNECTIONS).map(open).collect();
        let fence = config.fence.map(|rule| {
            Fence::open(
                endpoint.clone(),
                rule,
                config.connection.dial.clone(),
                config.layout.clone(),
                &config.prefix,
                config.connection.parts.clone(),
            )
        });
        let subscriber = Subscriber::open(Subscribing {
            endpoint: endpoint.clone(),
            dial: config.connection.dial.clone(),
            connection: connections[0].clone(),
            topics: config.topics.clone(),
            layout: config.layout.clone(),
            lost: config.connection.lost.clone(),
            prefix: config.prefix.clone(),
            process: config.process,
            by_slot: config.by_slot,
            metrics: config.connection.metrics.clone(),
            parts: config.connection.parts.clone(),
        });
        let (turn, calls) = (AtomicUsize::new(0), Arc::new(Semaphore::new(MAX_SHARD_CALLS)));
        Shard { endpoint, connections, turn, calls, fence, subscriber }
    }

    /// The next connection in turn that works, or else one that says why it does not.
    pub fn connection(&self) -> &Connection {
        self.connection_from(self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// The connection of a slot: calls about one feed go out in the order in which they are made. Another while it is down.
    pub fn connection_of(&self, slot: u16) -> &Connection {
        self.connection_from(usize::from(slot))
    }

    /// The first that works, from this one on; else this one.
    fn connection_from(&self, first: usize) -> &Connection {
        let connections = &self.connections;
        let first = first % connections.len();
        let up = connections[first..].iter().chain(&connections[..first]).find(|it| it.is_up());
        up.unwrap_or(&connections[first])
    }

    /// A permit for one more call, unless too many are under way.
    pub fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.calls.clone().try_acquire_owned().ok()
    }

    /// True while calls are sent.
    pub fn is_up(&self) -> bool {
        self.connections.iter().any(|it| it.is_up())
    }

    /// Waits until the first attempts to connect have ended. Returns how the first ended.
    pub async fn tried(&self) -> ConnectionState {
        for connection in &self.connections[1..] {
            connection.tried().await;
        }
        self.connections[0].tried().await
    }
}
