//! Tells the store how many watch on this node, and watchers how many watch on all nodes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::domain::FeedId;
use crate::engine::presence::NODE_LEASE_MS;
use crate::engine::{Count, Engine, EngineError, ReportPresence};

/// How often counts are looked at. Watchers are told no more often than that.
pub(super) const EVERY: Duration = Duration::from_secs(2);

/// How often a node whose counts do not change says that it lives.
const RENEW: Duration = Duration::from_millis(NODE_LEASE_MS / 3);

/// How often all counts are told anew: what nobody renews expires in a day.
const ALL_ANEW: Duration = Duration::from_secs(6 * 3_600);

/// What this node has told the store.
#[derive(Debug)]
pub(super) struct Reporter {
    node: String,
    told: HashMap<FeedId, Count>,
    renewed: Option<Instant>,
    all_told: Instant,
    /// Of feeds whose watchers are told: the count of the last look, which may still be on its way up or down.
    seen: HashMap<FeedId, u64>,
}

impl Reporter {
    pub(super) fn new(now: Instant) -> Reporter {
        let node = uuid::Uuid::now_v7().simple().to_string();
        Reporter { node, told: HashMap::new(), renewed: None, all_told: now, seen: HashMap::new() }
    }

    /// Tells the store what has changed, if anything; `counts` are the feeds with watchers here. Costs nothing on a
    /// node that nobody watches.
    pub(super) async fn report(
        &mut self,
        store: &Engine,
        counts: &HashMap<FeedId, Count>,
        now: Instant,
    ) -> Result<(), EngineError> {
        if now.duration_since(self.all_told) >= ALL_ANEW {
            self.all_told = now;
            self.told.clear();
        }
        let changed = self.changed(counts);
        let due = self.renewed.is_none_or(|at| now.duration_since(at) >= RENEW);
        if changed.is_empty() && (self.told.is_empty() || !due) {
            return Ok(());
        }
        let known =
            store.run(ReportPresence { node: self.node.to_string(), counts: changed.to_vec() }).await?;
        self.keep(&changed);
        self.renewed = Some(now);
        if !known {
            // The store forgot this node, or never knew it. The lease stands now, so this is told once.
            let all: Vec<_> = self.told.iter().map(|(feed, count)| (feed.clone(), *count)).collect();
            if all.len() > changed.len() {
                store.run(ReportPresence { node: self.node.to_string(), counts: all.to_vec() }).await?;
            }
        }
        Ok(())
    }

    /// Forgets what was seen of feeds whose watchers are not told any more.
    pub(super) fn tells_only(&mut self, feeds: &[FeedId]) {
        self.seen.retain(|feed, _| feeds.contains(feed));
    }

    fn changed(&self, counts: &HashMap<FeedId, Count>) -> Vec<(FeedId, Count)> {
        let newer = counts.iter().filter(|(feed, count)| self.told.get(*feed) != Some(count));
        let gone = self.told.keys().filter(|feed| !counts.contains_key(*feed));
        let gone = gone.map(|feed| (feed.clone(), Count::default()));
        newer.map(|(feed, count)| (feed.clone(), *count)).chain(gone).collect()
    }

    fn keep(&mut self, changed: &[(FeedId, Count)]) {
        for (feed, count) in changed {
            match count.watchers {
                0 => self.told.remove(feed),
                _ => self.told.insert(feed.clone(), *count),
            };
        }
    }

    /// Whether watchers who know `told` are to be told that `is` watch now: at once when that is another hundredth,
    /// else when it has stayed so since the last look.
    pub(super) fn worth_telling(&mut self, feed: &FeedId, told: Option<u64>, is: u64) -> bool {
        let before = self.seen.insert(feed.clone(), is);
        match told {
            None => true,
            Some(told) if told == is => false,
            Some(told) => told.abs_diff(is) * 100 >= told || before == Some(is),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::engine::test_store::{Asked, TestStore};

    /// Remembers what it was told; may be made to forget.
    #[derive(Default)]
    struct Store {
        calls: Mutex<Vec<Vec<(FeedId, u64, u64)>>>,
        knows: Mutex<bool>,
    }

    impl TestStore for Store {
        fn answer(&self, asked: Asked) -> Asked {
            asked.on(|report: ReportPresence| {
                let told = |(feed, count): &(FeedId, Count)| (feed.clone(), count.watchers, count.overlays);
                let mut counts: Vec<_> = report.counts.iter().map(told).collect();
                counts.sort();
                self.calls.lock().unwrap().push(counts);
                Ok(std::mem::replace(&mut *self.knows.lock().unwrap(), true))
            })
        }
    }

    fn feed(name: &str) -> FeedId {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn only_what_changed_is_told_and_a_quiet_node_only_says_that_it_lives() {
        let (store, begun) = (Arc::new(Store::default()), Instant::now());
        let engine = Engine::of_test(store.clone());
        let mut reporter = Reporter::new(begun);
        let told = |store: &Store| std::mem::take(&mut *store.calls.lock().unwrap());
        let mut counts = HashMap::new();
        let of = |watchers| Count { watchers, overlays: 0 };
        let at = |ms| begun + Duration::from_millis(ms);
        reporter.report(&engine, &counts, at(0)).await.unwrap();
        assert!(told(&store).is_empty(), "nobody watches: nothing is told");
        counts.insert(feed("a"), of(3));
        counts.insert(feed("b"), of(1));
        reporter.report(&engine, &counts, at(2_000)).await.unwrap();
        assert_eq!(told(&store), [[(feed("a"), 3, 0), (feed("b"), 1, 0)]]);
        reporter.report(&engine, &counts, at(4_000)).await.unwrap();
        assert!(told(&store).is_empty());
        counts.insert(feed("a"), of(2));
        counts.remove(&feed("b"));
        reporter.report(&engine, &counts, at(5_000)).await.unwrap();
        assert_eq!(told(&store), [[(feed("a"), 2, 0), (feed("b"), 0, 0)]]);
        reporter.report(&engine, &counts, at(8_000)).await.unwrap();
        assert!(told(&store).is_empty());
        reporter.report(&engine, &counts, at(9_000)).await.unwrap();
        assert_eq!(told(&store), [vec![]], "a sign of life");
        *store.knows.lock().unwrap() = false;
        counts.insert(feed("c"), Count { watchers: 1, overlays: 1 });
        reporter.report(&engine, &counts, at(11_000)).await.unwrap();
        let all = vec![(feed("a"), 2, 0), (feed("c"), 1, 1)];
        assert_eq!(told(&store), [vec![(feed("c"), 1, 1)], all.clone()], "a store that forgot is told all");
        reporter.report(&engine, &counts, at(11_000) + ALL_ANEW).await.unwrap();
        assert_eq!(told(&store), [all], "and now and then it is anyway");
        counts.insert(feed("c"), of(1));
        reporter.report(&engine, &counts, at(11_500) + ALL_ANEW).await.unwrap();
        assert_eq!(told(&store), [[(feed("c"), 1, 0)]], "an overlay became another watcher");
        counts.clear();
        reporter.report(&engine, &counts, at(12_000) + ALL_ANEW).await.unwrap();
        told(&store);
        reporter.report(&engine, &counts, at(90_000) + ALL_ANEW).await.unwrap();
        assert!(told(&store).is_empty(), "nobody watches any more");
    }

    #[test]
    fn watchers_are_told_of_a_hundredth_at_once_and_of_less_when_it_stays() {
        let (mut reporter, f) = (Reporter::new(Instant::now()), feed("f"));
        assert!(reporter.worth_telling(&f, None, 0));
        assert!(!reporter.worth_telling(&f, Some(0), 0));
        assert!(reporter.worth_telling(&f, Some(0), 1));
        assert!(reporter.worth_telling(&f, Some(1_000), 1_010));
        assert!(!reporter.worth_telling(&f, Some(1_000), 1_009), "less may still change");
        assert!(!reporter.worth_telling(&f, Some(1_000), 1_005));
        assert!(reporter.worth_telling(&f, Some(1_000), 1_005), "the last state always");
    }
}
