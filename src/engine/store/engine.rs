//! The engine: its parts, how it is opened, asked how it is, and closed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError, broadcast};

use super::blocks::BlockBook;
use super::drops::DropStock;
use super::due::index::DueIndex;
use super::due::queue::DueQueue;
use super::faults::CLOSED;
use super::feeds::Feeds;
use super::keys::{self, Division, Keys};
use super::known::Known;
use super::known_rankings::KnownRankingsOfFeeds;
use super::options::StoreOptions;
use super::place::{self, Embedded, Place};
use super::rehoming::{Rehoming, keep_rehoming};
use super::reports::attach::Attaching;
use super::reports::groups::Groups;
use super::reports::hooks::Webhooks;
use super::reports::index::JobIndex;
use super::reports::jobs::Jobs;
use super::reports::signing::Signing;
use super::requests::Requests;
use super::reviews::Reviews;
use super::rounds::Rounds;
use super::runner::Runner;
use super::slots::slot_of_tag;
use super::sources::Sources;
use super::tags::random;
use super::topics::Topics;
use super::turns::wakes;
use super::viewers::Viewers;
use super::walks::Walks;
use crate::domain::{FeedId, Millis, Position};
use crate::engine::embedded::{EmbeddedOptions, EmbeddedStore};
use crate::engine::redis::address::Kind;
use crate::engine::redis::connection::Making;
use crate::engine::redis::dial::Dial;
use crate::engine::redis::eviction::Eviction;
use crate::engine::redis::fence::FenceRule;
use crate::engine::redis::purpose::Purpose;
use crate::engine::redis::shard::ShardMaking;
use crate::engine::redis::topology::Topology;
use crate::engine::{EngineError, Run, Scope, Shards, Wakes};
use crate::supervise::Part;

/// Calls that may be under way in all; each shard has a lower bound of its own.
const CALLS: usize = 1 << 20;

/// How long a call of the store in this process may take: a disk is slow more often than it is gone.
const EMBEDDED_TIMEOUT: Duration = Duration::from_secs(4);

/// Feeds in Redis, on one server or many.
pub struct Store {
    pub(super) runner: Arc<Runner>,
    pub(super) feeds: Arc<Feeds>,
    pub(super) stock: Arc<DropStock>,
    pub(super) queue: DueQueue,
    pub(super) groups: Arc<Groups>,
    pub(super) webhooks: Arc<Webhooks>,
    pub(super) jobs: Jobs,
    pub(super) requests: Requests,
    pub(super) sources: Sources,
    pub(super) rounds: Arc<Rounds>,
    pub(super) viewers: Viewers,
    pub(super) walks: Walks,
    /// Ends with the engine.
    _rehoming: Arc<Rehoming>,
    eviction: Eviction,
    calls: Semaphore,
}

/// A place for one call: nothing is closed while somebody has one.
struct Permit<'a> {
    _call: SemaphorePermit<'a>,
    _at_the_shard: Option<OwnedSemaphorePermit>,
}

impl Store {
    /// What can be said of options without asking a server: whether the URL can be read, files are there, and the
    /// prefix will do. Says what is wrong, without repeating a password.
    pub fn check(options: &StoreOptions) -> Result<(), String> {
        let dial = Dial::new(options)?;
        Keys::new(&options.prefix, division(&dial, options)).map(drop)
    }

    /// Connects. A Redis that is down, or that refuses for now, is tried again in the background;
    /// a bad URL and a server that will never do are [`EngineError::Open`].
    pub async fn open(options: StoreOptions) -> Result<Arc<Store>, EngineError> {
        let (begun, topology, eviction) =
            connect(&options, Purpose::Serve).await.map_err(EngineError::Open)?;
        let moves = topology.is_cluster().then(|| topology.moves());
        let engine = begun.finish(options, Place::Redis(topology), eviction).await;
        if let Some(moves) = moves {
            let kept = keep_rehoming(Arc::downgrade(&engine._rehoming), moves);
            tokio::spawn(engine.runner.options.parts.clone().vital_task(Part::RedisCommands, kept));
        }
        Ok(engine)
    }

    /// Opens the store of this folder in the process, whose scripts and keys are the same. Of `options` what is about servers
    /// and connections is not used.
    pub async fn open_embedded(options: StoreOptions, data_dir: PathBuf) -> Result<Arc<Store>, EngineError> {
        // Its keys need no prefix, and its calls are those of one clock.
        let options = StoreOptions {
            prefix: String::new(),
            store_clock: false,
            feed_idle_ttl_ms: 0,
            due_parts: 1,
            call_timeout: EMBEDDED_TIMEOUT,
            ..options
        };
        let keys = Keys::new("", Division::ByName(options.due_parts)).map_err(EngineError::Open)?;
        let begun = Begun::new(keys);
        let topics = begun.topics.clone();
        let told = move |channel: &[u8], message: &[u8]| {
            if let Ok(channel) = std::str::from_utf8(channel) {
                topics.tell(place::CONNECTION, channel, message);
            }
        };
        let inside = EmbeddedOptions {
            metrics: options.metrics.clone(),
            parts: options.parts.clone(),
            max_bytes: options.max_memory,
            ..EmbeddedOptions::new(data_dir, keys::owner, Arc::new(told))
        };
        // Reading the data back takes a while and blocks.
        let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(inside)).await;
        let store = opened.map_err(|e| EngineError::Open(e.to_string()))?.map_err(EngineError::Open)?;
        let place = Place::Embedded(Arc::new(Embedded::new(store, begun.topics.clone())));
        let eviction = Eviction::new(options.metrics.clone(), false);
        Ok(begun.finish(options, place, eviction).await)
    }

    /// True when the store is in this process.
    pub fn is_embedded(&self) -> bool {
        matches!(*self.runner.place, Place::Embedded(_))
    }

    /// A place for a call that is about no feed alone.
    fn permit(&self) -> Result<Permit<'_>, EngineError> {
        match self.calls.try_acquire() {
            Ok(call) => Ok(Permit { _call: call, _at_the_shard: None }),
            Err(TryAcquireError::NoPermits) => Err(EngineError::Overloaded("queue of calls to Redis")),
            Err(TryAcquireError::Closed) => Err(EngineError::Unavailable(CLOSED.into())),
        }
    }

    /// A place for a call about this feed: those of a shard that is slow are taken from nobody else.
    fn permit_for(&self, feed: &FeedId) -> Result<Permit<'_>, EngineError> {
        let permit = self.permit()?;
        let place = self.runner.place.permit(slot_of_tag(feed.as_str()))?;
        Ok(Permit { _at_the_shard: place, ..permit })
    }
}

/// What an engine has before the place is there where its scripts run.
pub(super) struct Begun {
    pub(super) keys: Keys,
    known: Arc<Known>,
    topics: Arc<Topics>,
    due_wakes: broadcast::Sender<u64>,
    job_wakes: broadcast::Sender<u64>,
    revocation_wakes: broadcast::Sender<u64>,
}

impl Begun {
    fn new(keys: Keys) -> Begun {
        let known = Arc::new(Known::default());
        let topics = Arc::new(Topics::new(known.clone()));
        let (due_wakes, job_wakes, revocation_wakes) = (wakes(), wakes(), wakes());
        topics.want_wakes(keys.hooks_wake(), job_wakes.clone());
        topics.want_wakes(keys.revoked_wake(), revocation_wakes.clone());
        Begun { keys, known, topics, due_wakes, job_wakes, revocation_wakes }
    }

    async fn finish(self, options: StoreOptions, place: Place, eviction: Eviction) -> Arc<Store> {
        let Begun { keys, known, topics, due_wakes, job_wakes, revocation_wakes } = self;
        let runner = Arc::new(Runner::new(options, keys, Arc::new(place), known));
        let due = Arc::new(DueIndex::new(runner.clone(), topics.clone(), due_wakes));
        let index = Arc::new(JobIndex::new(runner.clone(), topics.clone(), job_wakes));
        let rehoming = Rehoming { runner: runner.clone(), due: due.clone(), jobs: index.clone() };
        let rehoming = Arc::new(rehoming);
        let attaching = Arc::new(Attaching::new(runner.clone(), index.clone()));
        let rounds = Arc::new(Rounds {
            runner: runner.clone(),
            due,
            attaching: attaching.clone(),
            rankings: KnownRankingsOfFeeds::default(),
        });
        let stock = Arc::new(DropStock::new(rounds.clone()));
        let blocks = Arc::new(BlockBook::new(runner.clone()));
        let groups = Arc::new(Groups { runner: runner.clone(), jobs: index });
        // A Redis that is down is asked again by whoever claims jobs.
        if let Err(fault) = attaching.refresh(Millis::now()).await {
            tracing::debug!(why = fault.why, "the webhooks of all feeds are not known yet");
        }
        let signing =
            Signing { runner: runner.clone(), attaching: attaching.clone(), known: OnceCell::new() };
        let webhooks = Webhooks { runner: runner.clone(), attaching, groups: groups.clone(), signing };
        let webhooks = Arc::new(webhooks);
        let feeds = Arc::new(Feeds::new(rounds.clone(), topics, blocks.clone()));
        Arc::new(Store {
            walks: Walks { runner: runner.clone(), feeds: feeds.clone() },
            feeds,
            queue: DueQueue {
                rounds: rounds.clone(),
                stock: stock.clone(),
                reviews: Reviews { rounds: rounds.clone(), blocks },
            },
            stock,
            groups,
            jobs: Jobs { runner: runner.clone(), hooks: webhooks.clone() },
            webhooks,
            requests: Requests { runner: runner.clone() },
            sources: Sources { runner: runner.clone() },
            rounds,
            viewers: Viewers { runner: runner.clone(), wakes: revocation_wakes },
            _rehoming: rehoming,
            eviction,
            runner,
            calls: Semaphore::new(CALLS),
        })
    }
}

impl Store {
    /// Does `operation`, unless too many are under way.
    pub async fn run<O: Run<Store>>(&self, operation: O) -> Result<O::Reply, EngineError> {
        let _permit = match operation.scope() {
            Scope::Feed(feed) => self.permit_for(feed)?,
            Scope::Store => self.permit()?,
        };
        operation.run_on(self).await
    }

    /// See [`crate::engine::ProbeStore`].
    pub(super) async fn probe(&self) -> Result<Shards, EngineError> {
        let probes = self.runner.place.probe_all().await;
        let down = probes.iter().filter(|probe| probe.is_err()).count();
        let shards = Shards { up: probes.len() - down, down };
        let fault = probes.into_iter().find_map(Result::err);
        match fault {
            Some(fault) if shards.up == 0 || self.runner.options.ready_when_all => Err(fault.into()),
            None if shards.up == 0 => Err(self.runner.place.why_empty().into()),
            _ => Ok(shards),
        }
    }

    /// See [`crate::engine::ProbeFeed`].
    pub(super) async fn probe_feed(&self, feed: &FeedId) -> Result<(), EngineError> {
        Ok(self.runner.place.probe_slot(slot_of_tag(feed.as_str())).await?)
    }

    /// Finishes what is under way and lets the connections go.
    pub async fn close(&self) -> Result<(), EngineError> {
        // Every operation holds a permit: when all are here, nothing is under way.
        let all = self.calls.acquire_many(CALLS as u32);
        let _ = tokio::time::timeout(self.runner.options.call_timeout, all).await;
        self.calls.close();
        self.runner.place.close().await;
        self.feeds.close();
        Ok(())
    }

    /// See [`crate::engine::Engine::known`].
    pub fn known(&self, feed: &FeedId) -> Option<Position> {
        Some(self.runner.known.get(feed)?.at)
    }

    /// See [`crate::engine::Engine::due_wakes`].
    pub fn due_wakes(&self) -> Wakes {
        Wakes::new(self.queue.rounds.due.turns.wakes.subscribe())
    }

    /// See [`crate::engine::Engine::job_wakes`].
    pub fn job_wakes(&self) -> Wakes {
        Wakes::new(self.jobs.hooks.attaching.jobs.turns.wakes.subscribe())
    }

    /// See [`crate::engine::Engine::revocation_wakes`].
    pub fn revocation_wakes(&self) -> Wakes {
        Wakes::new(self.viewers.wakes.subscribe())
    }

    /// See [`crate::engine::Engine::warning`].
    pub fn warning(&self) -> Option<String> {
        self.eviction.warning().or_else(|| self.runner.place.warning())
    }
}

/// Connects to servers, for this purpose. Says what is wrong where that will never do.
pub(super) async fn connect(
    options: &StoreOptions,
    purpose: Purpose,
) -> Result<(Begun, Arc<Topology>, Eviction), String> {
    let dial = Dial::new(options)?;
    let by_slot = matches!(dial.target.kind, Kind::Cluster(_));
    let keys = Keys::new(&options.prefix, division(&dial, options))?.in_database(dial.target.database);
    let begun = Begun::new(keys);
    let fence = (options.wait_replicas > 0)
        .then_some(FenceRule { replicas: options.wait_replicas, within: options.wait });
    let eviction = Eviction::new(options.metrics.clone(), options.feed_idle_ttl_ms > 0);
    let making = |layout, lost| ShardMaking {
        connection: Making {
            dial,
            call_timeout: options.call_timeout,
            channel: begun.keys.hello(),
            lost,
            metrics: options.metrics.clone(),
            eviction: eviction.clone(),
            parts: options.parts.clone(),
        },
        topics: begun.topics.clone(),
        layout,
        fence,
        prefix: options.prefix.clone(),
        process: random(),
        by_slot,
        purpose,
    };
    let topology = Topology::open(making).await?;
    Ok((begun, topology, eviction))
}

/// How indexes are divided among servers of this kind.
fn division(dial: &Dial, options: &StoreOptions) -> Division {
    match dial.target.kind {
        Kind::Cluster(_) => Division::ByShard,
        _ => Division::ByName(options.due_parts),
    }
}
