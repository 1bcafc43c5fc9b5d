//! A clock that is set under load, forward and back: the caller's `now` is the only one that counts.

use tempfile::TempDir;
use tipcast::domain::{FeedId, Millis, Outcome};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{Engine, ListScheduled, Publish, RunDue};

use crate::support::gifts::{GiftSpec, gift};

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;

struct Bench {
    engine: Engine,
    feed: FeedId,
    begun: Millis,
    _dir: TempDir,
}

async fn open() -> Bench {
    let dir = TempDir::new().unwrap();
    let engine = Engine::embedded(StoreOptions::new(""), dir.path().to_owned()).await.unwrap();
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
    let t = open().await;
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
    let t = open().await;
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
