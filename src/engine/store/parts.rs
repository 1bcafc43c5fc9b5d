//! The parts of a store: how they are made, asked how they are, and closed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError, broadcast};

use crate::domain::{FeedId, Millis};
use crate::engine::embedded::{EmbeddedOptions, EmbeddedStore};
use crate::engine::protocol::address::ServerKind;
use crate::engine::protocol::faults::{CLOSED, Fault};
use crate::engine::protocol::keys::{self, Division, Keys};
use crate::engine::protocol::known::SeenPositions;
use crate::engine::protocol::options::StoreOptions;
use crate::engine::protocol::slots::slot_of_tag;
use crate::engine::protocol::tags::random;
use crate::engine::protocol::topics::Topics;
use crate::engine::redis::connection::ConnectionConfig;
use crate::engine::redis::dial::Dial;
use crate::engine::redis::eviction::Eviction;
use crate::engine::redis::fence::FenceRule;
use crate::engine::redis::purpose::Purpose;
use crate::engine::redis::shard::ShardConfig;
use crate::engine::redis::topology::Topology;
use crate::engine::store::backend::{self, Backend, Embedded};
use crate::engine::store::drops::stock::DropStock;
use crate::engine::store::due::index::DueIndex;
use crate::engine::store::due::queue::DueQueue;
use crate::engine::store::due::turns::wakes;
use crate::engine::store::feed::lists::Feeds;
use crate::engine::store::feed::names::FeedNames;
use crate::engine::store::rehoming::{Rehoming, keep_rehoming};
use crate::engine::store::reports::attach::Attaching;
use crate::engine::store::reports::groups::Groups;
use crate::engine::store::reports::hooks::Webhooks;
use crate::engine::store::reports::index::JobIndex;
use crate::engine::store::reports::signing::Signing;
use crate::engine::store::review::blocks::BlockBook;
use crate::engine::store::review::reviews::Reviews;
use crate::engine::store::runner::Runner;
use crate::engine::store::totals::known_rankings::KnownRankingsOfFeeds;
use crate::engine::store::writer::FeedWriter;
use crate::engine::writes::Writes;
use crate::engine::{Shards, StoreError};
use crate::supervise::Part;

/// Calls that may be under way in all; each shard has a lower bound of its own.
const MAX_CALLS: usize = 1 << 20;

/// How long a call of the store in this process may take: a disk is slow more often than it is gone.
const EMBEDDED_TIMEOUT: Duration = Duration::from_secs(4);

/// What a store consists of.
pub(super) struct StoreParts {
    pub(super) runner: Arc<Runner>,
    pub(super) feeds: Arc<Feeds>,
    pub(super) names: FeedNames,
    pub(super) stock: Arc<DropStock>,
    pub(super) queue: DueQueue,
    pub(super) due: Arc<DueIndex>,
    pub(super) reviews: Arc<Reviews>,
    pub(super) blocks: Arc<BlockBook>,
    pub(super) job_index: Arc<JobIndex>,
    pub(super) signing: Arc<Signing>,
    pub(super) groups: Arc<Groups>,
    pub(super) webhooks: Arc<Webhooks>,
    pub(super) writer: Arc<FeedWriter>,
    /// Ends with the store.
    _rehoming: Arc<Rehoming>,
    pub(super) wakes: WakeSenders,
    pub(super) writes: Writes,
    eviction: Eviction,
    calls: Semaphore,
}

/// Where those who wait for work are woken, each with the milliseconds until something is due.
#[derive(Clone)]
pub(super) struct WakeSenders {
    /// Of what joins a feed's due queue.
    pub due: broadcast::Sender<u64>,
    /// Of webhooks' jobs.
    pub jobs: broadcast::Sender<u64>,
    /// Of revoked viewers.
    pub revocations: broadcast::Sender<u64>,
}

/// Permission for one call. Nothing is closed while somebody has one.
pub(super) struct Permit<'a> {
    _call: SemaphorePermit<'a>,
    _at_the_shard: Option<OwnedSemaphorePermit>,
}

impl StoreParts {
    /// What can be said of options without asking a server: whether the URL can be read, files are there, and the
    /// prefix will do. Says what is wrong, without repeating a password.
    pub fn check(options: &StoreOptions) -> Result<(), String> {
        let dial = Dial::new(options)?;
        Keys::new(&options.prefix, division(&dial, options)).map(drop)
    }

    /// Connects. A Redis that is down, or that refuses for now, is tried again in the background;
    /// a bad URL and a server that will never do are [`StoreError::Open`].
    pub async fn connect(options: StoreOptions) -> Result<Arc<StoreParts>, StoreError> {
        let (builder, topology, eviction) =
            connect(&options, Purpose::Serve).await.map_err(StoreError::Open)?;
        let moves = topology.is_cluster().then(|| topology.moves());
        let store = builder.build(options, Backend::Redis(topology), eviction).await;
        if let Some(moves) = moves {
            let kept = keep_rehoming(Arc::downgrade(&store._rehoming), moves);
            tokio::spawn(store.runner.options.parts.clone().vital_task(Part::RedisCommands, kept));
        }
        Ok(store)
    }

    /// Opens the store of this folder in the process, whose scripts and keys are the same. Of `options` what is about servers
    /// and connections is not used.
    pub async fn open_embedded(
        options: StoreOptions,
        data_dir: PathBuf,
    ) -> Result<Arc<StoreParts>, StoreError> {
        // Its keys need no prefix, and its calls are those of one clock.
        let options = StoreOptions {
            prefix: String::new(),
            store_clock: false,
            feed_idle_ttl_ms: 0,
            due_parts: 1,
            call_timeout: EMBEDDED_TIMEOUT,
            ..options
        };
        let keys = Keys::new("", Division::ByName(options.due_parts)).map_err(StoreError::Open)?;
        let builder = StoreBuilder::new(keys);
        let topics = builder.topics.clone();
        let notify = move |channel: &[u8], message: &[u8]| {
            if let Ok(channel) = std::str::from_utf8(channel) {
                topics.tell(backend::CONNECTION, channel, message);
            }
        };
        let inside = EmbeddedOptions {
            metrics: options.metrics.clone(),
            parts: options.parts.clone(),
            max_bytes: options.max_memory,
            ..EmbeddedOptions::new(data_dir, keys::owner, Arc::new(notify))
        };
        // Reading the data back takes a while and blocks.
        let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(inside)).await;
        let store = opened.map_err(|e| StoreError::Open(e.to_string()))?.map_err(StoreError::Open)?;
        let backend = Backend::Embedded(Arc::new(Embedded::new(store, builder.topics.clone())));
        let eviction = Eviction::new(options.metrics.clone(), false);
        Ok(builder.build(options, backend, eviction).await)
    }

    /// True when the store is in this process.
    pub fn is_embedded(&self) -> bool {
        matches!(*self.runner.backend, Backend::Embedded(_))
    }

    /// A permit for one call. One about a feed counts at the feed's shard as well, so that a slow shard uses up its own
    /// permits only.
    pub fn permit(&self, feed: Option<&FeedId>) -> Result<Permit<'_>, StoreError> {
        let call = match self.calls.try_acquire() {
            Ok(call) => call,
            Err(TryAcquireError::NoPermits) => {
                return Err(StoreError::Overloaded("queue of calls to Redis"));
            }
            Err(TryAcquireError::Closed) => return Err(StoreError::Unavailable(CLOSED.into())),
        };
        let at_the_shard = match feed {
            Some(feed) => self.runner.backend.permit(slot_of_tag(feed.as_str()))?,
            None => None,
        };
        Ok(Permit { _call: call, _at_the_shard: at_the_shard })
    }
}

/// What a store has before its backend is there.
pub(super) struct StoreBuilder {
    pub(super) keys: Keys,
    known: Arc<SeenPositions>,
    topics: Arc<Topics>,
    wakes: WakeSenders,
}

impl StoreBuilder {
    fn new(keys: Keys) -> StoreBuilder {
        let known = Arc::new(SeenPositions::default());
        let topics = Arc::new(Topics::new(known.clone()));
        let wakes = WakeSenders { due: wakes(), jobs: wakes(), revocations: wakes() };
        topics.want_wakes(keys.hooks_wake(), wakes.jobs.clone());
        topics.want_wakes(keys.revoked_wake(), wakes.revocations.clone());
        StoreBuilder { keys, known, topics, wakes }
    }

    async fn build(self, options: StoreOptions, backend: Backend, eviction: Eviction) -> Arc<StoreParts> {
        let StoreBuilder { keys, known, topics, wakes } = self;
        let runner = Arc::new(Runner::new(options, keys, Arc::new(backend), known));
        let due = Arc::new(DueIndex::new(runner.clone(), topics.clone(), wakes.due.clone()));
        let index = Arc::new(JobIndex::new(runner.clone(), topics.clone(), wakes.jobs.clone()));
        let rehoming = Rehoming { runner: runner.clone(), due: due.clone(), jobs: index.clone() };
        let rehoming = Arc::new(rehoming);
        let attaching = Arc::new(Attaching::new(runner.clone(), index.clone()));
        let writer = Arc::new(FeedWriter {
            runner: runner.clone(),
            due: due.clone(),
            attaching: attaching.clone(),
            rankings: KnownRankingsOfFeeds::default(),
        });
        let stock = Arc::new(DropStock::new(writer.clone()));
        let blocks = Arc::new(BlockBook::new(runner.clone()));
        let reviews = Arc::new(Reviews { writer: writer.clone(), blocks: blocks.clone() });
        let groups = Arc::new(Groups { runner: runner.clone(), jobs: index.clone() });
        // A Redis that is down is asked again when jobs are claimed.
        if let Err(fault) = attaching.refresh(Millis::now()).await {
            tracing::debug!(why = fault.why, "the webhooks of all feeds are not known yet");
        }
        let signing = Arc::new(Signing {
            runner: runner.clone(),
            attaching: attaching.clone(),
            known: OnceCell::new(),
        });
        let webhooks =
            Webhooks { runner: runner.clone(), attaching, groups: groups.clone(), signing: signing.clone() };
        let webhooks = Arc::new(webhooks);
        let feeds = Arc::new(Feeds::new(writer.clone(), topics, blocks.clone()));
        Arc::new(StoreParts {
            feeds,
            names: FeedNames::new(runner.clone()),
            queue: DueQueue { writer: writer.clone(), stock: stock.clone(), reviews: reviews.clone() },
            stock,
            due,
            reviews,
            blocks,
            job_index: index,
            signing,
            groups,
            webhooks,
            writer,
            _rehoming: rehoming,
            wakes,
            writes: Writes::default(),
            eviction,
            runner,
            calls: Semaphore::new(MAX_CALLS),
        })
    }
}

impl StoreParts {
    /// See [`super::Store::probe_store`].
    pub async fn probe(&self) -> Result<Shards, Fault> {
        let probes = self.runner.backend.probe_all().await;
        let down = probes.iter().filter(|probe| probe.is_err()).count();
        let shards = Shards { up: probes.len() - down, down };
        let fault = probes.into_iter().find_map(Result::err);
        match fault {
            Some(fault) if shards.up == 0 || self.runner.options.ready_when_all => Err(fault),
            None if shards.up == 0 => Err(self.runner.backend.why_empty()),
            _ => Ok(shards),
        }
    }

    /// See [`super::Store::probe_feed`].
    pub async fn probe_feed(&self, feed: &FeedId) -> Result<(), Fault> {
        self.runner.backend.probe_slot(slot_of_tag(feed.as_str())).await
    }

    /// Finishes what is under way and lets the connections go.
    pub async fn close(&self) {
        if let Err(fault) = self.names.write().await {
            tracing::debug!(why = fault.why, "names of new feeds are written when somebody reads them");
        }
        // Every operation holds a permit: when all are here, nothing is under way.
        let all = self.calls.acquire_many(MAX_CALLS as u32);
        let _ = tokio::time::timeout(self.runner.options.call_timeout, all).await;
        self.calls.close();
        self.runner.backend.close().await;
        self.feeds.close();
    }

    /// See [`super::Store::warning`].
    pub fn warning(&self) -> Option<String> {
        self.eviction.warning().or_else(|| self.runner.backend.warning())
    }
}

/// Connects to servers, for this purpose. Says what is wrong where that will never do.
pub(super) async fn connect(
    options: &StoreOptions,
    purpose: Purpose,
) -> Result<(StoreBuilder, Arc<Topology>, Eviction), String> {
    let dial = Dial::new(options)?;
    let by_slot = matches!(dial.target.kind, ServerKind::Cluster(_));
    let keys = Keys::new(&options.prefix, division(&dial, options))?.in_database(dial.target.database);
    let builder = StoreBuilder::new(keys);
    let fence = (options.wait_replicas > 0)
        .then_some(FenceRule { replicas: options.wait_replicas, within: options.wait });
    let eviction = Eviction::new(options.metrics.clone(), options.feed_idle_ttl_ms > 0);
    let config = |layout, lost| ShardConfig {
        connection: ConnectionConfig {
            dial,
            call_timeout: options.call_timeout,
            channel: builder.keys.hello(),
            lost,
            metrics: options.metrics.clone(),
            eviction: eviction.clone(),
            parts: options.parts.clone(),
        },
        topics: builder.topics.clone(),
        layout,
        fence,
        prefix: options.prefix.clone(),
        process: random(),
        by_slot,
        purpose,
    };
    let topology = Topology::open(config).await?;
    Ok((builder, topology, eviction))
}

/// How indexes are divided among servers of this kind.
fn division(dial: &Dial, options: &StoreOptions) -> Division {
    match dial.target.kind {
        ServerKind::Cluster(_) => Division::ByShard,
        _ => Division::ByName(options.due_parts),
    }
}
