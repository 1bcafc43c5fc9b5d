//! A clock that is set under load, forward and back: the caller's `now` is the only one that counts.

use serde_json::json;
use tempfile::TempDir;
use tipcast::domain::{Ask, Claimed, DropView, FeedId, Millis, Outcome, PolicyPatch, Start};
use tipcast::engine::store::StoreOptions;
use tipcast::engine::{DueDone, PolicyChange, Store};

use crate::support::claims::{claim_of, held, hold, named, rockets, spec_of, with};
use crate::support::gifts::{GiftSpec, gift};

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;
const YEAR: i64 = 365 * DAY;

/// An engine, a feed of it, and when the case begins.
pub struct Bench {
    engine: Store,
    feed: FeedId,
    begun: Millis,
    _dir: Option<TempDir>,
}

async fn open() -> Bench {
    let dir = TempDir::new().unwrap();
    let engine = Store::embedded(StoreOptions::new(""), dir.path().to_owned()).await.unwrap();
    Bench { engine, feed: "show".parse().unwrap(), begun: Millis(1_800_000_000_000), _dir: Some(dir) }
}

impl Bench {
    /// In a store that somebody else keeps.
    pub fn of(engine: Store, feed: FeedId, begun: Millis) -> Bench {
        Bench { engine, feed, begun, _dir: None }
    }

    /// The time `ms` milliseconds after the beginning.
    fn at(&self, ms: i64) -> Millis {
        Millis(self.begun.0 + ms)
    }

    async fn give(&self, spec: &GiftSpec, now: Millis) -> Outcome {
        self.engine.publish(&self.feed, vec![spec.parse()], now).await.unwrap().remove(0)
    }

    /// More gifts than the engine takes without looking for what it could forget.
    async fn load(&self, name: &str, now: Millis) {
        for batch in 0..80 {
            let gifts = (0..128).map(|n| gift(&format!("{name}-{batch}-{n}")).by(&format!("u{n}")).parse());
            let outcomes = self.engine.publish(&self.feed, gifts.collect(), now).await.unwrap();
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
        let page = t.engine.list_scheduled(&t.feed, None, 9).await.unwrap();
        if page.gifts[0].gift.id.as_str() == id {
            assert_eq!(wakes.next().await, 500, "after {idle} ms");
        }
        let run = t.engine.run_due(&t.feed, now.plus(499)).await.unwrap();
        assert_eq!(run.handled.len(), 0, "not early");
        let run = t.engine.run_due(&t.feed, now.plus(500)).await.unwrap();
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

impl Bench {
    async fn claim(&self, drop: &str, body: &serde_json::Value, now: Millis) -> Claimed {
        self.engine.claim_drop(&self.feed, &named(drop), claim_of(body), now).await.unwrap()
    }

    async fn set_policy(&self, patch: serde_json::Value, now: Millis) {
        let raw = serde_json::value::RawValue::from_string(patch.to_string()).unwrap();
        let change = PolicyChange::Merge(PolicyPatch::parse(&raw).unwrap());
        self.engine.set_policy(&self.feed, &change, now).await.unwrap();
    }

    /// Does all that is due at this time, as the loop does.
    async fn run_due(&self, now: Millis) {
        let mut over = Vec::new();
        loop {
            let turn = self.engine.claim_due(std::mem::take(&mut over), 9, now).await.unwrap();
            if turn.feeds.is_empty() {
                return;
            }
            for due in turn.feeds {
                let run = self.engine.run_due(&due.feed, now).await.unwrap();
                let next = run.next;
                over.push(DueDone { feed: due.feed, token: due.token, next });
            }
        }
    }

    /// Ids of users whose gifts are shown, the newest first.
    async fn shown(&self, now: Millis) -> Vec<String> {
        let list = self.engine.read_snapshot(&self.feed, now).await.unwrap();
        let user = |user: &str| {
            serde_json::from_str::<serde_json::Value>(user).unwrap()["id"].as_str().unwrap().to_owned()
        };
        list.rows.iter().map(|row| user(&row.user)).collect()
    }

    async fn stock(&self, drop: &str, now: Millis) -> DropView {
        self.engine.tick_drop(&self.feed, &named(drop), now).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn waits_begun_while_the_clock_was_ahead_keep_their_length() {
    made_a_year_ahead(open().await).await;
}

/// Also for stores elsewhere whose callers' clock counts.
pub async fn made_a_year_ahead(t: Bench) {
    let (ahead, back) = (t.at(YEAR), t.at(0));
    let spec = spec_of(&with(with(rockets(3), "per_user", json!(3)), "hold_ttl_ms", json!(30_000)));
    t.engine.define_drop(&t.feed, &named("d"), &spec, back).await.unwrap();
    // Made a year ahead: a delay, a time of day, a review (and behind it a delay), a hold.
    t.give(&gift("delayed").by("delayed").with("delay_ms", json!(10_000)), ahead).await;
    t.give(&gift("at").by("at").with("deliver_at", json!(ahead.plus(20_000).to_string())), ahead).await;
    t.set_policy(json!({"review": "messages", "review_timeout_ms": 60_000, "review_default": "show"}), ahead)
        .await;
    let judged = gift("judged").by("judged").with("message", json!("hi"));
    t.give(&judged, ahead).await;
    t.give(&judged.with("id", json!("both")).by("both").with("delay_ms", json!(70_000)), ahead).await;
    let Claimed::New(first) = t.claim("d", &hold("c1", "u1"), ahead).await else { panic!() };
    let (hold_id, _) = held(&first);
    let Claimed::New(_) = t.claim("d", &hold("c2", "u2"), ahead).await else { panic!() };
    t.run_due(ahead).await;

    // Nothing is due, and would not be for a year.
    t.run_due(t.at(120_000)).await;
    assert!(t.shown(back).await.is_empty());
    assert_eq!(t.engine.rewind(back).await.unwrap(), 4);
    assert_eq!(t.engine.rewind(back).await.unwrap(), 0, "once is enough");
    let page = t.engine.list_scheduled(&t.feed, None, 9).await.unwrap();
    let due = page.gifts.iter().map(|it| it.place.at.0 - back.0).collect::<Vec<_>>();
    assert_eq!(due, [10_000, 20_000]);
    t.run_due(back).await;

    t.run_due(t.at(9_999)).await;
    assert!(t.shown(t.at(9_999)).await.is_empty(), "none is early");
    t.run_due(t.at(10_000)).await;
    assert_eq!(t.shown(t.at(10_000)).await, ["delayed"]);
    t.run_due(t.at(20_000)).await;
    assert_eq!(t.shown(t.at(20_000)).await, ["at", "delayed"]);

    // One hold is paid in time, the other's units come back.
    let holds = t.engine.list_holds(&t.feed, "u2", t.at(29_998)).await.unwrap();
    assert_eq!(holds[0].expires_at, t.at(30_000));
    let Claimed::Again(told) = t.claim("d", &hold("c2", "u2"), t.at(29_998)).await else { panic!() };
    assert_eq!(held(&told).1, t.at(30_000));
    t.engine.confirm_hold(&t.feed, &hold_id, None, t.at(29_999)).await.unwrap();
    assert_eq!(t.stock("d", t.at(29_999)).await.held, 1);
    t.run_due(t.at(30_000)).await;
    let view = t.stock("d", t.at(30_000)).await;
    assert_eq!((view.free, view.held, view.sold), (2, 0, 1));

    // Time decides about both in review after a minute; one of them is shown at its own time.
    let reviews = t.engine.list_reviews(&t.feed, t.at(59_999)).await.unwrap();
    assert_eq!(reviews.iter().map(|it| it.expires_at).collect::<Vec<_>>(), [t.at(60_000), t.at(60_000)]);
    t.run_due(t.at(60_000)).await;
    assert_eq!(t.shown(t.at(60_000)).await, ["judged", "u1", "at", "delayed"]);
    t.run_due(t.at(130_000)).await;
    assert_eq!(t.shown(t.at(130_000)).await, ["both", "judged", "u1", "at", "delayed"]);
}

#[tokio::test]
async fn a_lease_of_a_clock_that_was_ahead_holds_nothing_up() {
    let t = open().await;
    let take = async |now| {
        let ask = Ask { max: 9, lease_ms: 600_000, from: Start::Start };
        t.engine.claim_entries(&t.feed, &"g".parse().unwrap(), ask, now).await.unwrap().unwrap()
    };
    t.give(&gift("a"), t.at(0)).await;
    assert_eq!(take(t.at(YEAR)).await.entries.len(), 1);
    let again = take(t.at(5)).await;
    assert_eq!(again.entries.iter().map(|it| it.attempt).collect::<Vec<_>>(), [2]);
    assert!(take(t.at(6)).await.entries.is_empty(), "this one holds");
}

#[tokio::test]
async fn a_gateway_that_starts_after_the_clock_was_put_right_puts_right_what_was_made_before() {
    let t = open().await;
    let now = Millis::now();
    t.give(&gift("a").by("soon").with("delay_ms", json!(50)), now.plus(YEAR as u64)).await;
    let parts = Default::default();
    let work = tipcast::work::due::DueLoop::start(t.engine.clone(), Default::default(), &parts);
    let since = std::time::Instant::now();
    while t.shown(Millis::now()).await != ["soon"] {
        assert!(since.elapsed().as_secs() < 20, "it is not shown");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    work.stop().await;
}
