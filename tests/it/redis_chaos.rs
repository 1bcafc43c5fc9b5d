//! Two nodes on one Redis that is frozen, killed, cut off and made to forget, under load. Watchers fold
//! strictly all the time; in the end nothing acknowledged is missing, and everybody has one list.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use serde_json::value::RawValue;
use tipcast::domain::{
    Ask, Change, FeedId, FeedList, Gift, Millis, Outcome, PolicyPatch, Position, Start, Tag,
};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{Missed, Notice, PolicyChange, Store, Subscription};

use crate::support::case::head_of;
use crate::support::readers::handed;
use crate::support::redis_server::RedisServer;

const CAPACITY: u64 = 20;

const ROUNDS: usize = 8;

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn feed() -> FeedId {
    "storm".parse().unwrap()
}

fn gift(id: &str) -> Gift {
    let json = json!({"id": id, "user": {"id": id, "name": "Ann"}, "gift": {"id": "rose", "name": "Rose"}});
    Gift::parse(&RawValue::from_string(json.to_string()).unwrap(), None).unwrap()
}

/// Posts gift after gift, each until it is acknowledged; how many.
async fn produce(engine: Store, name: usize, stop: Arc<AtomicBool>) -> usize {
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        let gift = gift(&format!("{name}-{done}"));
        let since = Instant::now();
        match engine.publish(&feed(), vec![gift], Millis::now()).await {
            Ok(outcomes) => {
                assert!(matches!(outcomes[0], Outcome::New(_) | Outcome::Duplicate(_)), "{outcomes:?}");
                done += 1;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
        assert!(since.elapsed() < PATIENCE, "no call hangs: {:?}", since.elapsed());
    }
    done
}

/// The mark of every change that anybody saw. Two for one position would be two pasts of one life.
#[derive(Clone, Default)]
struct Pasts(Arc<Mutex<HashMap<Position, Tag>>>);

impl Pasts {
    fn saw(&self, change: &Change) {
        let at = Position { epoch: change.epoch.clone(), seq: change.seq };
        let known = *self.0.lock().unwrap().entry(at.clone()).or_insert(change.tag);
        assert_eq!(known, change.tag, "two pasts at {at}");
    }
}

/// What the live layer does with an engine: a list, folded strictly.
struct Watcher {
    pasts: Pasts,
    engine: Store,
    subscription: Subscription,
    list: FeedList,
    tag: Tag,
    snapshots: usize,
}

impl Watcher {
    fn at(&self) -> Position {
        self.list.at.clone()
    }

    /// Folds a change, if it is the next one.
    fn fold(&mut self, change: &Change) -> bool {
        self.pasts.saw(change);
        let next = change.prev == self.tag && self.list.fold(change, CAPACITY).is_ok();
        if next {
            self.tag = change.tag;
        }
        next
    }

    /// Fills the hole from history, or takes a snapshot; false when the store does not answer.
    async fn refill(&mut self) -> bool {
        if let Ok(Missed::Changes(changes)) = self.engine.read_changes(&feed(), &self.at(), 100_000).await
            && changes.iter().all(|change| self.fold(change))
        {
            return true;
        }
        let Ok(list) = self.engine.read_snapshot(&feed(), Millis::now()).await else {
            return false;
        };
        if list.at.epoch == self.list.at.epoch {
            assert!(
                list.at.seq >= self.list.at.seq,
                "never back within an epoch: {} to {}",
                self.at(),
                list.at
            );
        }
        self.tag = list.tag;
        self.list = list.into_list();
        self.snapshots += 1;
        true
    }

    async fn watch(&mut self, stop: &AtomicBool) {
        let mut doubtful = false;
        while !stop.load(Ordering::Relaxed) {
            if doubtful {
                doubtful = !self.refill().await;
            }
            let pause = Duration::from_millis(if doubtful { 20 } else { 500 });
            match tokio::time::timeout(pause, self.subscription.next()).await {
                Ok(Some(Notice::Changes(changes))) => {
                    for change in changes.iter() {
                        self.pasts.saw(change);
                        let old = change.epoch == self.list.at.epoch && change.seq <= self.list.at.seq;
                        doubtful |= !old && !self.fold(change);
                    }
                }
                Ok(Some(Notice::Lost)) => doubtful = true,
                Ok(Some(Notice::Policy)) => {}
                Ok(None) => panic!("the subscription ended"),
                Err(_) => match head_of(&self.engine, &feed()).await {
                    Ok(head) => doubtful |= (&head.at, head.tag) != (&self.at(), self.tag),
                    Err(_) => doubtful = true,
                },
            }
        }
    }
}

/// Every key and its content, at one moment.
fn save(server: &RedisServer) -> Vec<(String, Vec<u8>)> {
    let script = "local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do \
        all[#all + 1] = {key, redis.call('DUMP', key)} end return all";
    redis::cmd("EVAL").arg(script).arg(0).query(&mut server.connect()).unwrap()
}

fn go_back(server: &RedisServer, then: &[(String, Vec<u8>)]) {
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("FLUSHALL");
    for (key, content) in then {
        pipe.cmd("RESTORE").arg(key).arg(0).arg(content);
    }
    pipe.query::<redis::Value>(&mut server.connect()).unwrap();
}

async fn storm(mut server: RedisServer, keeps_everything: bool) {
    let mut engines = vec![];
    for _ in 0..2 {
        engines.push(Store::redis(StoreOptions::new(server.url())).await.unwrap());
    }
    let patch = PolicyPatch { capacity: Some(CAPACITY), history: Some(100_000), ..PolicyPatch::default() };
    engines[0].set_policy(&feed(), &PolicyChange::Merge(patch.clone()), Millis::now()).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let producers: Vec<_> =
        (0..6).map(|name| tokio::spawn(produce(engines[name % 2].clone(), name, stop.clone()))).collect();
    let (mut watchers, pasts) = (vec![], Pasts::default());
    for engine in &engines {
        let subscription = engine.subscribe(&feed()).await.unwrap();
        let (engine, stop) = (engine.clone(), stop.clone());
        let mut watcher = Watcher {
            pasts: pasts.clone(),
            engine,
            subscription,
            list: FeedList::default(),
            tag: 0,
            snapshots: 0,
        };
        watchers.push(tokio::spawn(async move {
            watcher.watch(&stop).await;
            watcher
        }));
    }
    let pause = async |ms| tokio::time::sleep(Duration::from_millis(ms)).await;
    for round in 0..ROUNDS {
        pause(300).await;
        match round {
            0 => drop(redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).exec(&mut server.connect())),
            1 => {
                server.kill();
                pause(700).await;
                server.start_again();
            }
            2 => drop(redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connect())),
            3 => {
                server.freeze();
                pause(2600).await;
                server.thaw();
            }
            4 => drop(redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).exec(&mut server.connect())),
            5 => {
                server.kill();
                server.start_again();
            }
            _ if keeps_everything => {}
            // A failover to a replica that was behind.
            _ => {
                let then = save(&server);
                pause(200).await;
                go_back(&server, &then);
            }
        }
        // It heals before the next blow: another gift is acknowledged on each node.
        for (node, engine) in engines.iter().enumerate() {
            let since = Instant::now();
            let gift = gift(&format!("round-{round}-{node}"));
            while engine.publish(&feed(), vec![gift.clone()], Millis::now()).await.is_err() {
                assert!(since.elapsed() < PATIENCE, "round {round}: node {node} does not heal");
                pause(10).await;
            }
        }
        if !keeps_everything {
            // What was set is gone as well when the store keeps nothing.
            let change = PolicyChange::Merge(patch.clone());
            while engines[0].set_policy(&feed(), &change, Millis::now()).await.is_err() {
                pause(10).await;
            }
        }
    }
    pause(700).await;
    stop.store(true, Ordering::Relaxed);
    // Each round posted one on each node.
    let mut posted = 2 * ROUNDS;
    for producer in producers {
        posted += producer.await.unwrap();
    }
    let list = engines[0].read_snapshot(&feed(), Millis::now()).await.unwrap();
    for watcher in watchers {
        let mut watcher = watcher.await.unwrap();
        println!("{} snapshots", watcher.snapshots);
        // Whatever is still on its way.
        assert!(watcher.refill().await);
        assert_eq!((watcher.at(), watcher.tag), (list.at.clone(), list.tag));
        assert_eq!(Vec::from(watcher.list.rows), list.rows, "{} snapshots", watcher.snapshots);
        assert!(watcher.snapshots < 100, "{}", watcher.snapshots);
    }
    println!("{posted} gifts");
    assert!(posted > 50, "the storm left room for {posted} gifts only");
    if keeps_everything {
        // The ledger has no epochs: it goes on when Redis is started again.
        let mut shown = vec![];
        loop {
            let ask = Ask { max: 1_000, lease_ms: 60_000, from: Start::Start };
            let (feed, group, now) = (feed(), "all".parse().unwrap(), Millis::now());
            let taken = engines[1].claim_entries(&feed, &group, ask, now).await.unwrap().unwrap();
            if taken.entries.is_empty() {
                break;
            }
            shown.extend(handed(&taken.entries));
        }
        let all = shown.len();
        shown.sort();
        shown.dedup();
        assert_eq!(shown.len(), all, "taken once each");
        assert!(all >= posted, "{posted} acknowledged, {all} in the ledger");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_redis_in_a_storm_loses_nothing_and_shows_nothing_twice() {
    storm(RedisServer::durable(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_keeps_nothing_leaves_all_watchers_with_one_list() {
    storm(RedisServer::start(), false).await;
}
