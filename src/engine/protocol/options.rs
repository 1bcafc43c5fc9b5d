//! How the store is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::Policy;
use crate::engine::{ReportLimits, SCHEDULED_MAX};
use crate::metrics::Metrics;
use crate::supervise::Parts;

/// How to open the store.
#[derive(Clone)]
pub struct StoreOptions {
    /// `redis://[user:password@]host[:port][/database]`, `redis+cluster://host:port,host:port` or
    /// `redis+sentinel://host:port,host:port/PRIMARY`; with `rediss` in place of `redis` over TLS.
    pub url: String,
    /// Whose certificates are trusted, a PEM file; none: the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate that this process shows, a PEM file; with `client_key`, or none.
    pub client_cert: Option<PathBuf>,
    /// Its private key, a PEM file.
    pub client_key: Option<PathBuf>,
    /// Who this process is to the sentinels.
    pub sentinel_username: Option<String>,
    /// The password there.
    pub sentinel_password: Option<String>,
    /// `announced=reachable`, both `host:port`: where servers can be reached that announce another address.
    pub addresses: Vec<String>,
    /// How many replicas must have a write before it is answered; 0 asks none.
    pub wait_replicas: usize,
    /// How long they may take.
    pub wait: Duration,
    /// True: a probe fails while any shard is away. False: one that answers is enough.
    pub ready_when_all: bool,
    /// The policy of feeds that set none.
    pub defaults: Policy,
    /// What every key and channel begins with.
    pub prefix: String,
    /// True: time is Redis's own, one clock for all nodes. False: time is what callers say.
    pub store_clock: bool,
    /// How long after its last change a feed expires as a whole, in milliseconds; 0 never.
    pub feed_idle_ttl_ms: u64,
    /// How long before it opens or closes watchers are reminded of a drop, in milliseconds; 0 never.
    pub drop_reminder_ms: u64,
    /// How many gifts of one feed may wait to be shown.
    pub scheduled_max: u64,
    /// How much is kept of what happened.
    pub reports: ReportLimits,
    /// One Redis or sentinels: parts of the index of feeds with something due, 1 to [`super::keys::PARTS_MAX`].
    pub due_parts: usize,
    /// True: calls say the time of a wall clock that may be set, and windows of ids and locks run by a steady one, where the store is
    /// in this process. False: by the time that calls say.
    pub steady: bool,
    /// Bytes of memory that the data may take that is in this process.
    pub max_memory: u64,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// How long connecting may take, and shaking hands again as long.
    pub connect_timeout: Duration,
    /// Where reconnects are counted.
    pub metrics: Arc<Metrics>,
    /// Where what keeps connections is registered.
    pub parts: Arc<Parts>,
}

impl std::fmt::Debug for StoreOptions {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreOptions").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl StoreOptions {
    /// The defaults, for the Redis at `url`.
    pub fn new(url: impl Into<String>) -> StoreOptions {
        StoreOptions {
            url: url.into(),
            ca_file: None,
            client_cert: None,
            client_key: None,
            sentinel_username: None,
            sentinel_password: None,
            addresses: Vec::new(),
            wait_replicas: 0,
            wait: Duration::from_millis(500),
            ready_when_all: false,
            defaults: Policy::default(),
            prefix: "tc:".into(),
            store_clock: true,
            feed_idle_ttl_ms: 0,
            drop_reminder_ms: 60_000,
            scheduled_max: SCHEDULED_MAX,
            reports: ReportLimits::default(),
            due_parts: 1,
            steady: false,
            max_memory: u64::MAX,
            call_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(1),
            metrics: Arc::default(),
            parts: Arc::default(),
        }
    }
}
