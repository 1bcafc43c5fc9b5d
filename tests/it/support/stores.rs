//! The stores that tests run on, each private to its test.

use std::sync::{Arc, Mutex, Weak};

use tempfile::TempDir;
use tipcast::domain::{Epoch, Policy};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{ReportLimits, Store};

use super::cluster::Cluster;
use super::model::Model;
use super::redis_server::{AclBlock, RedisServer};
use super::subject::Subject;
use super::valkey;

/// A part of a Redis that no other test writes to.
#[derive(Clone)]
pub struct Corner {
    /// Shared by the tests that run at the same time; ends with the last of them.
    pub server: Arc<RedisServer>,
    /// What every key begins with.
    pub prefix: String,
}

impl Corner {
    /// A new corner of the shared Redis.
    pub fn new() -> Corner {
        static SHARED: Mutex<Weak<RedisServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|broken| broken.into_inner());
        let server = shared.upgrade().unwrap_or_else(|| {
            // As an operator's user may: so whatever the suite does, the documented line allows.
            let mut server = RedisServer::start();
            server.make_user(AclBlock::Single);
            let server = Arc::new(server);
            *shared = Arc::downgrade(&server);
            server
        });
        Corner::of(server)
    }

    /// A new corner of this Redis.
    pub fn of(server: Arc<RedisServer>) -> Corner {
        Corner { server, prefix: format!("t{}:", Epoch::mint()) }
    }
}

/// A folder in memory where the system has such, since most tests kill processes and never the machine, and many
/// commits at once would wait for one disk. Tests of the disk itself take `TempDir::new()`.
pub fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// A store that engines can be opened on, again and again.
pub enum Storage {
    /// The oracle.
    Model(Arc<Model>),
    /// A folder.
    Embedded(TempDir),
    /// A corner of a Redis.
    Redis(Corner),
    /// A corner of a cluster: what keys begin with.
    Cluster(Arc<Cluster>, String),
}

impl Storage {
    /// The model.
    pub fn model() -> Storage {
        Storage::Model(Model::new(Policy::default()))
    }

    /// An empty folder.
    pub fn embedded() -> Storage {
        Storage::Embedded(in_memory())
    }

    /// A corner of the shared Redis.
    pub fn redis() -> Storage {
        Storage::Redis(Corner::new())
    }

    /// A corner of the shared Valkey, where there is one.
    pub fn valkey() -> Option<Storage> {
        static SHARED: Mutex<Weak<RedisServer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|broken| broken.into_inner());
        let server = match shared.upgrade() {
            Some(server) => server,
            None => {
                let mut server = RedisServer::program(&valkey::program()?, &["--appendonly", "no"]);
                server.make_user(AclBlock::Single);
                Arc::new(server)
            }
        };
        *shared = Arc::downgrade(&server);
        Some(Storage::Redis(Corner::of(server)))
    }

    /// A corner of the shared cluster of three primaries.
    pub fn cluster() -> Storage {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|broken| broken.into_inner());
        let cluster = shared.upgrade().unwrap_or_else(|| {
            let mut cluster = Cluster::start(0);
            cluster.nodes.iter_mut().for_each(|node| node.make_user(AclBlock::Cluster));
            let cluster = Arc::new(cluster);
            *shared = Arc::downgrade(&cluster);
            cluster
        });
        Storage::Cluster(cluster, format!("t{}:", Epoch::mint()))
    }

    /// What is here, with the contract's default policy.
    pub async fn open(&self) -> Subject {
        self.open_keeping(ReportLimits::default()).await
    }

    /// The store that is here, with the contract's default policy; there is none in a model.
    pub async fn open_store(&self) -> Store {
        self.open().await.store().clone()
    }

    /// [`Storage::open`], keeping so much of what happened.
    pub async fn open_keeping(&self, reports: ReportLimits) -> Subject {
        let defaults = Policy::default();
        match self {
            Storage::Model(model) => {
                model.keep(reports);
                Subject::Model(model.clone())
            }
            Storage::Embedded(dir) => {
                let options = StoreOptions { defaults, reports, ..StoreOptions::new("") };
                Store::embedded(options, dir.path().to_owned()).await.unwrap().into()
            }
            Storage::Redis(Corner { server, prefix }) => {
                redis(server.url(), prefix, defaults, reports).await.into()
            }
            Storage::Cluster(cluster, prefix) => redis(cluster.url(), prefix, defaults, reports).await.into(),
        }
    }
}

async fn redis(url: String, prefix: &str, defaults: Policy, reports: ReportLimits) -> Store {
    let (prefix, store_clock) = (prefix.to_owned(), false);
    let options = StoreOptions { prefix, store_clock, defaults, reports, ..StoreOptions::new(url) };
    Store::redis(options).await.unwrap()
}
