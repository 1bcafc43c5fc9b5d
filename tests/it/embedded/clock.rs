//! A clock that is set under load, forward and back: the caller's `now` is the only one that counts, and what is
//! forgotten by age waits until the clock has been steady.

use tempfile::TempDir;
use tipcast::domain::{Ask, FeedId, GroupId, Hook, HookScope, Millis, Outcome, Reader, Start};
use tipcast::engine::embedded::EmbeddedOptions;
use tipcast::engine::{
    ClaimEntries, ClaimJobs, Engine, ListScheduled, Publish, ReadGroup, ReportLimits, RunDue, SwapWebhook,
};

use crate::support::gifts::{GiftSpec, gift};
use crate::support::readers::{of_feed, spec};

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;

struct Bench {
    engine: Engine,
    feed: FeedId,
    begun: Millis,
    _dir: TempDir,
}

fn open() -> Bench {
    let dir = TempDir::new().unwrap();
    let reports = ReportLimits { ledger_max: 100, max_age_ms: 1_000, ..ReportLimits::default() };
    let engine = Engine::embedded(EmbeddedOptions { reports, ..EmbeddedOptions::new(dir.path()) }).unwrap();
    Bench { engine, feed: "show".parse().unwrap(), begun: Millis(1_800_000_000_000), _dir: dir }
}

impl Bench {
    /// The time so many milliseconds after the beginning.
    fn at(&self, ms: i64) -> Millis {
        Millis(self.begun.0 + ms)
    }

    async fn give(&self, spec: &GiftSpec, now: Millis) -> Outcome {
        self.engine
            .run(Publish { feed: self.feed.clone(), gifts: vec![spec.parse()], now })
            .await
            .unwrap()
            .remove(0)
    }

    /// More gifts than the engine takes without looking for what it could forget.
    async fn load(&self, name: &str, now: Millis) {
        for batch in 0..80 {
            let gifts = (0..128).map(|n| gift(&format!("{name}-{batch}-{n}")).by(&format!("u{n}")).parse());
            let outcomes = self
                .engine
                .run(Publish { feed: self.feed.clone(), gifts: gifts.collect(), now })
                .await
                .unwrap();
            assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::New(_))));
        }
    }

    async fn is_known(&self, id: &str, now: Millis) -> bool {
        matches!(self.give(&gift(id), now).await, Outcome::Duplicate(_))
    }
}

#[tokio::test]
async fn a_scheduled_gift_wakes_the_loop_by_the_clock_of_its_own_call() {
    let t = open();
    t.give(&gift("first"), t.at(0)).await;
    let mut wakes = t.engine.due_wakes();
    for (idle, id) in [(3_000, "a"), (HOUR, "b"), (-HOUR, "c"), (2 * DAY, "d")] {
        let now = t.at(idle);
        let later = gift(id).with("delay_ms", serde_json::json!(500));
        assert!(matches!(t.give(&later, now).await, Outcome::Scheduled(_)));
        let page = t.engine.run(ListScheduled { feed: t.feed.clone(), after: None, max: 9 }).await.unwrap();
        if page.gifts[0].gift.id.as_str() == id {
            assert_eq!(wakes.next().await, 500, "after {idle} ms");
        }
        let run = t.engine.run(RunDue { feed: t.feed.clone(), now: now.plus(499) }).await.unwrap();
        assert_eq!(run.handled.len(), 0, "not early");
        let run = t.engine.run(RunDue { feed: t.feed.clone(), now: now.plus(500) }).await.unwrap();
        assert_eq!((run.handled.len(), run.handled[0].late_ms), (1, 0), "not late");
    }
}

#[tokio::test]
async fn ids_stay_known_when_the_clock_goes_two_days_forward_and_back_and_an_hour_back() {
    let t = open();
    t.give(&gift("before"), t.at(0)).await;
    t.load("even", t.at(1)).await;
    t.load("forward", t.at(2 * DAY)).await;
    t.give(&gift("meanwhile"), t.at(2 * DAY)).await;
    t.load("back", t.at(2)).await;
    t.give(&gift("after"), t.at(3)).await;
    for now in [t.at(4), t.at(-HOUR), t.at(5)] {
        for id in ["before", "meanwhile", "after"] {
            assert!(t.is_known(id, now).await, "{id} at {now}");
        }
        t.load(&format!("more-{}", now.0), now).await;
    }
}

#[tokio::test]
async fn nothing_unread_is_cut_by_a_clock_that_was_set() {
    let t = open();
    let group: GroupId = "g".parse().unwrap();
    let ask = Ask { max: 1_000, lease_ms: 1_000, from: Start::Start };
    t.engine
        .run(ClaimEntries { feed: t.feed.clone(), group: group.clone(), ask, now: t.at(0) })
        .await
        .unwrap();
    t.give(&gift("unread"), t.at(0)).await;
    t.load("forward", t.at(2 * DAY)).await;
    t.load("back", t.at(2)).await;
    let view = t
        .engine
        .run(ReadGroup { feed: t.feed.clone(), group: group.clone(), now: t.at(3) })
        .await
        .unwrap()
        .unwrap();
    assert_eq!((view.lost, view.lag), (0, 2 * 80 * 128 + 1));
    let taken = t
        .engine
        .run(ClaimEntries { feed: t.feed.clone(), group: group.clone(), ask, now: t.at(3) })
        .await
        .unwrap()
        .unwrap();
    assert!(taken.entries[0].entry.gift.contains("unread"));
}

#[tokio::test]
async fn a_webhook_is_not_an_hour_late_because_the_clock_went_an_hour_back() {
    let t = open();
    t.give(&gift("first"), t.at(0)).await;
    let key = of_feed(&t.feed, "w");
    t.engine
        .run(SwapWebhook { key: key.clone(), was: None, to: Some(Hook::new(spec(), t.at(0))), now: t.at(0) })
        .await
        .unwrap();
    t.give(&gift("second"), t.at(10)).await;
    let turn =
        t.engine.run(ClaimJobs { over: vec![], max: 9, lease_ms: 30_000, now: t.at(-HOUR) }).await.unwrap();
    assert!(turn.jobs.is_empty());
    assert!(turn.next_in_ms.unwrap() <= 1_100, "{turn:?}");
    let turn = t
        .engine
        .run(ClaimJobs { over: vec![], max: 9, lease_ms: 30_000, now: t.at(-HOUR + 1_100) })
        .await
        .unwrap();
    assert_eq!(turn.jobs.len(), 1);
    assert!(matches!((&turn.jobs[0].job.reader, &key.scope), (Reader::Hook(_), HookScope::Feed(_))));
}
