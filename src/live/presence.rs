//! Reports to the store how many watch on this node, and announces how many watch on all nodes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::domain::FeedId;
use crate::engine::presence::NODE_LEASE_MS;
use crate::engine::{Count, Store, StoreError};

/// How often counts are looked at. They are announced no more often than that.
pub(super) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);

/// How often a node whose counts do not change says that it lives.
const RENEW_INTERVAL: Duration = Duration::from_millis(NODE_LEASE_MS / 3);

/// How often all counts are reported anew: what is not renewed expires in a day.
const ALL_ANEW: Duration = Duration::from_secs(6 * 3_600);

/// What this node has reported to the store.
#[derive(Debug)]
pub(super) struct Reporter {
    node: String,
    reported_counts: HashMap<FeedId, Count>,
    renewed: Option<Instant>,
    all_reported_at: Instant,
    /// Of feeds with announcements: the count of the last look, which may still be on its way up or down.
    seen: HashMap<FeedId, u64>,
}

impl Reporter {
    pub(super) fn new(now: Instant) -> Reporter {
        let node = uuid::Uuid::now_v7().simple().to_string();
        Reporter {
            node,
            reported_counts: HashMap::new(),
            renewed: None,
            all_reported_at: now,
            seen: HashMap::new(),
        }
    }

    /// Reports to the store what has changed, if anything; `counts` are the feeds with watchers here. Costs nothing on a
    /// node that nobody watches.
    pub(super) async fn report(
        &mut self,
        store: &Store,
        counts: &HashMap<FeedId, Count>,
        now: Instant,
    ) -> Result<(), StoreError> {
        let Some(changed) = self.due_counts(counts, now) else { return Ok(()) };
        let is_known = store.report_presence(&self.node, &changed).await?;
        if let Some(all) = self.reported(&changed, is_known, now) {
            store.report_presence(&self.node, &all).await?;
        }
        Ok(())
    }

    /// The counts that are to be reported now, if any; with none in it, the report says only that the node lives.
    fn due_counts(&mut self, counts: &HashMap<FeedId, Count>, now: Instant) -> Option<Vec<(FeedId, Count)>> {
        if now.duration_since(self.all_reported_at) >= ALL_ANEW {
            self.all_reported_at = now;
            self.reported_counts.clear();
        }
        let changed = self.changed(counts);
        let due = self.renewed.is_none_or(|at| now.duration_since(at) >= RENEW_INTERVAL);
        (!changed.is_empty() || due && !self.reported_counts.is_empty()).then_some(changed)
    }

    /// Remembers what the store has. Returns all counts if the store did not know this node and has only some of them: the
    /// report has renewed the node's lease, so this happens once.
    fn reported(
        &mut self,
        changed: &[(FeedId, Count)],
        is_known: bool,
        now: Instant,
    ) -> Option<Vec<(FeedId, Count)>> {
        self.keep(changed);
        self.renewed = Some(now);
        let all = || self.reported_counts.iter().map(|(feed, count)| (feed.clone(), *count)).collect();
        (!is_known && self.reported_counts.len() > changed.len()).then(all)
    }

    /// Forgets what was seen of feeds without announcements.
    pub(super) fn tells_only(&mut self, feeds: &[FeedId]) {
        self.seen.retain(|feed, _| feeds.contains(feed));
    }

    fn changed(&self, counts: &HashMap<FeedId, Count>) -> Vec<(FeedId, Count)> {
        let newer = counts.iter().filter(|(feed, count)| self.reported_counts.get(*feed) != Some(count));
        let gone = self.reported_counts.keys().filter(|feed| !counts.contains_key(*feed));
        let gone = gone.map(|feed| (feed.clone(), Count::default()));
        newer.map(|(feed, count)| (feed.clone(), *count)).chain(gone).collect()
    }

    fn keep(&mut self, changed: &[(FeedId, Count)]) {
        for (feed, count) in changed {
            match count.watchers {
                0 => self.reported_counts.remove(feed),
                _ => self.reported_counts.insert(feed.clone(), *count),
            };
        }
    }

    /// Whether `is` is to be announced after `announced`: at once if it differs by a hundredth,
    /// else when it has stayed so since the last look.
    pub(super) fn is_worth_announcing(&mut self, feed: &FeedId, announced: Option<u64>, is: u64) -> bool {
        let before = self.seen.insert(feed.clone(), is);
        match announced {
            None => true,
            Some(announced) if announced == is => false,
            Some(announced) => announced.abs_diff(is) * 100 >= announced || before == Some(is),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that remembers nodes, and may be made to forget.
    struct Reports {
        reporter: Reporter,
        is_known: bool,
    }

    impl Reports {
        /// What is reported at this time: watchers and overlays of feeds, in the order of their names.
        fn at(&mut self, counts: &HashMap<FeedId, Count>, now: Instant) -> Vec<Vec<(FeedId, u64, u64)>> {
            let mut all = Vec::new();
            let mut next = self.reporter.due_counts(counts, now);
            while let Some(changed) = next {
                let known = std::mem::replace(&mut self.is_known, true);
                next = self.reporter.reported(&changed, known, now);
                let mut counts: Vec<_> =
                    changed.into_iter().map(|(feed, it)| (feed, it.watchers, it.overlays)).collect();
                counts.sort();
                all.push(counts);
            }
            all
        }
    }

    fn feed(name: &str) -> FeedId {
        name.parse().unwrap()
    }

    #[test]
    fn only_what_changed_is_reported_and_a_quiet_node_only_says_that_it_lives() {
        let begun = Instant::now();
        let mut reports = Reports { reporter: Reporter::new(begun), is_known: false };
        let mut counts = HashMap::new();
        let of = |watchers| Count { watchers, overlays: 0 };
        let at = |ms| begun + Duration::from_millis(ms);
        assert!(reports.at(&counts, at(0)).is_empty(), "without watchers there is no report");
        counts.insert(feed("a"), of(3));
        counts.insert(feed("b"), of(1));
        assert_eq!(reports.at(&counts, at(2_000)), [[(feed("a"), 3, 0), (feed("b"), 1, 0)]]);
        assert!(reports.at(&counts, at(4_000)).is_empty());
        counts.insert(feed("a"), of(2));
        counts.remove(&feed("b"));
        assert_eq!(reports.at(&counts, at(5_000)), [[(feed("a"), 2, 0), (feed("b"), 0, 0)]]);
        assert!(reports.at(&counts, at(8_000)).is_empty());
        assert_eq!(reports.at(&counts, at(9_000)), [vec![]], "a sign of life");
        reports.is_known = false;
        counts.insert(feed("c"), Count { watchers: 1, overlays: 1 });
        let all = vec![(feed("a"), 2, 0), (feed("c"), 1, 1)];
        assert_eq!(
            reports.at(&counts, at(11_000)),
            [vec![(feed("c"), 1, 1)], all.clone()],
            "a store that forgot gets all"
        );
        assert_eq!(reports.at(&counts, at(11_000) + ALL_ANEW), [all], "and now and then it is anyway");
        counts.insert(feed("c"), of(1));
        assert_eq!(
            reports.at(&counts, at(11_500) + ALL_ANEW),
            [[(feed("c"), 1, 0)]],
            "an overlay became another watcher"
        );
        counts.clear();
        reports.at(&counts, at(12_000) + ALL_ANEW);
        assert!(reports.at(&counts, at(90_000) + ALL_ANEW).is_empty(), "nobody watches any more");
    }

    #[test]
    fn watchers_are_told_of_a_hundredth_at_once_and_of_less_when_it_stays() {
        let (mut reporter, f) = (Reporter::new(Instant::now()), feed("f"));
        assert!(reporter.is_worth_announcing(&f, None, 0));
        assert!(!reporter.is_worth_announcing(&f, Some(0), 0));
        assert!(reporter.is_worth_announcing(&f, Some(0), 1));
        assert!(reporter.is_worth_announcing(&f, Some(1_000), 1_010));
        assert!(!reporter.is_worth_announcing(&f, Some(1_000), 1_009), "less may still change");
        assert!(!reporter.is_worth_announcing(&f, Some(1_000), 1_005));
        assert!(reporter.is_worth_announcing(&f, Some(1_000), 1_005), "the last state always");
    }
}
