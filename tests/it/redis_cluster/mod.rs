//! Clusters and sentinels: real servers that are killed, frozen, replaced and moved about. A client that asks for feeds of
//! another shard must not notice.

mod failover;
mod moving;
mod partition;
mod proxied;
mod replicas;
mod secured;
mod shards_away;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tipcast::domain::{Answer, FeedId, Millis, Outcome, Position};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{Missed, Notice, Shards, Store, StoreError, Subscription};
use tokio::task::JoinHandle;

use crate::support::cluster::Cluster;
use crate::support::gifts::gift;
use crate::support::redis_server::RedisServer;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often tests do again what takes long; `CLUSTER_ROUNDS` says otherwise.
fn rounds() -> usize {
    std::env::var("CLUSTER_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

async fn engine_on(url: String) -> Store {
    Store::redis(StoreOptions::new(url)).await.unwrap()
}

/// Posts a gift that is a row of its own.
async fn post(engine: &Store, feed: &FeedId, id: &str) -> Result<Answer, StoreError> {
    let gift = gift(id).kind(id).parse();
    match engine.publish(feed, vec![gift], Millis::now()).await?.remove(0) {
        Outcome::New(answer) | Outcome::Duplicate(answer) => Ok(answer),
        other => panic!("wanted it taken, got {other:?}"),
    }
}

/// Posts it until it is taken, as a producer does; when that was.
async fn insist(engine: &Store, feed: &FeedId, id: &str) -> Instant {
    let since = Instant::now();
    loop {
        match post(engine, feed, id).await {
            Ok(_) => return Instant::now(),
            Err(error) => assert!(since.elapsed() < PATIENCE, "{feed} takes no gifts: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Posts a gift that was taken before, until there is an answer: it must be known.
async fn is_known(engine: &Store, feed: &FeedId, id: &str) {
    let since = Instant::now();
    loop {
        match engine.publish(feed, vec![gift(id).kind(id).parse()], Millis::now()).await {
            Ok(outcomes) if matches!(outcomes[0], Outcome::Duplicate(_)) => return,
            Ok(outcomes) => panic!("{id} was answered and is lost: {outcomes:?}"),
            Err(error) => assert!(since.elapsed() < PATIENCE, "{feed} is not answered: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the engine's shards are like this.
async fn has_shards(engine: &Store, shards: Shards) {
    let since = Instant::now();
    loop {
        let told = engine.probe_store().await;
        if told == Ok(shards) {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{told:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the server has been running for so long that what changes from now on was not read from a file, whatever the
/// clocks say.
fn has_run(server: &RedisServer) {
    server.wait("it has run for a while", |server| {
        let info = server.run(&["INFO", "server"]);
        let up = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
        up.is_some_and(|up| up.trim().parse::<u64>().unwrap() >= 3)
    });
}

/// Waits until a replica of this primary has all that it has now.
fn is_replicated(primary: &RedisServer) {
    let field = |info: &str, name: &str| -> Option<u64> {
        let at = info.find(name)? + name.len();
        info[at..].split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
    };
    let wanted = field(&primary.run(&["INFO", "replication"]), "master_repl_offset:").unwrap();
    primary.wait("a replica has it", |primary| {
        field(&primary.run(&["INFO", "replication"]), ",offset=").is_some_and(|has| has >= wanted)
    });
}

/// A feed at this primary.
fn feed_at(cluster: &Cluster, primary: usize) -> FeedId {
    cluster.name_at(primary, "room").parse().unwrap()
}

/// Somebody who posts to a feed for as long as a test wants, and keeps what was answered.
struct Producer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<(Vec<String>, Vec<StoreError>, Vec<Duration>)>,
}

impl Producer {
    fn start(engine: &Store, feed: &FeedId) -> Producer {
        let (stop, engine, feed) = (Arc::new(AtomicBool::new(false)), engine.clone(), feed.clone());
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let (mut taken, mut refused, mut times) = (Vec::new(), Vec::new(), Vec::new());
            for n in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let (id, since) = (format!("p{n}"), Instant::now());
                match post(&engine, &feed, &id).await {
                    Ok(_) => taken.push(id),
                    Err(error) => refused.push(error),
                }
                times.push(since.elapsed());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            (taken, refused, times)
        });
        Producer { stop, task }
    }

    /// The ids that were taken, why others were not, and how long each took.
    async fn stop(self) -> (Vec<String>, Vec<StoreError>, Vec<Duration>) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

/// A watcher that takes changes only in order, and asks for what it missed, as `live` does.
struct Follower {
    engine: Store,
    feed: FeedId,
    subscription: Subscription,
    at: Position,
    /// How often it had to take the whole list, behind the first time.
    snapshots: usize,
}

impl Follower {
    async fn start(engine: &Store, feed: &FeedId) -> Follower {
        let subscription = engine.subscribe(feed).await.unwrap();
        let at = engine.read_snapshot(feed, Millis::now()).await.unwrap().at;
        Follower { engine: engine.clone(), feed: feed.clone(), subscription, at, snapshots: 0 }
    }

    /// Follows notices alone, without comparing, until the change of this seq; how long that took. What is announced
    /// as lost is asked for.
    async fn hears_of(&mut self, at: &Position) -> Duration {
        let since = Instant::now();
        while self.at.epoch != at.epoch || self.at.seq < at.seq {
            let left = PATIENCE.saturating_sub(since.elapsed());
            let notice = tokio::time::timeout(left, self.subscription.next()).await;
            match notice
                .unwrap_or_else(|_| panic!("deaf between {} and {at}", self.at))
                .expect("a subscription")
            {
                Notice::Changes(changes) => {
                    for change in changes.iter() {
                        if change.epoch == self.at.epoch && change.seq == self.at.seq + 1 {
                            self.at.seq = change.seq;
                        } else if change.epoch != self.at.epoch || change.seq > self.at.seq + 1 {
                            self.catch_up().await;
                        }
                    }
                }
                Notice::Lost => self.catch_up().await,
                Notice::Policy => {}
            }
        }
        since.elapsed()
    }

    async fn catch_up(&mut self) {
        match self.engine.read_changes(&self.feed, &self.at, 10_000).await {
            Ok(Missed::Changes(changes)) => {
                for change in changes {
                    assert_eq!(change.seq, self.at.seq + 1, "history has no gap");
                    self.at.seq = change.seq;
                }
            }
            Ok(Missed::NotCovered) => {
                if let Ok(list) = self.engine.read_snapshot(&self.feed, Millis::now()).await {
                    // A feed that began is a snapshot for everybody.
                    self.snapshots += usize::from(self.at != Position::start());
                    self.at = list.at;
                }
            }
            Err(_) => {}
        }
    }
}

/// The slowest but one in a hundred.
fn p99(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}
