//! A shard that is away takes its own feeds along and nothing else: neither what others have scheduled, sold and reported, nor
//! the webhooks that read all feeds.

use std::collections::BTreeSet;

use serde_json::json;
use tipcast::domain::{Ask, Claimed, Delivery, Hook, HookKey, HookScope, HookSpec, HookState, Job, Start};
use tipcast::engine::{DueDone, JobDone, Save, Store, Swapped, Want};

use super::*;
use crate::support::claims::{claim_of, hold, named, rockets, spec_of};

const WANT: Want = Want { most: 100, batch_ms: 1 };

fn webhook(scope: HookScope) -> (HookKey, Hook) {
    let spec = HookSpec {
        url: "https://game.example/gifts".into(),
        secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz".into(),
        batch_max: 100,
        batch_ms: 1,
        max_age_ms: 0,
        delivery: Delivery::AtLeastOnce,
        types: vec![],
        headers: Default::default(),
    };
    let name = if scope == HookScope::All { "every" } else { "own" };
    (HookKey { scope, name: name.parse().unwrap() }, Hook::new(spec, Millis::now()))
}

/// The first name that begins so and has its slot in this range.
fn feed_in(cluster: &Cluster, begin: &str, slots: std::ops::RangeInclusive<u16>) -> FeedId {
    let slot = |name: &str| -> u16 { cluster.nodes[0].run(&["CLUSTER", "KEYSLOT", name]).parse().unwrap() };
    (0..).map(|n| format!("{begin}{n}")).find(|name| slots.contains(&slot(name))).unwrap().parse().unwrap()
}

/// Runs what is due, as nodes do, until these feeds show a gift of this kind.
async fn is_shown(engine: &Store, feeds: &[FeedId], kind: &str) {
    let (since, mut over) = (Instant::now(), vec![]);
    let mut missing: BTreeSet<FeedId> = feeds.iter().cloned().collect();
    while !missing.is_empty() {
        let turn = engine.claim_due(std::mem::take(&mut over), 8, Millis::now()).await.unwrap();
        for due in turn.feeds {
            let run = engine.run_due(&due.feed, Millis::now()).await.unwrap();
            over.push(DueDone { feed: due.feed, token: due.token, next: run.next });
        }
        for feed in missing.clone() {
            let list = engine.read_snapshot(&feed, Millis::now()).await.unwrap();
            if list.rows.iter().any(|row| row.gift.contains(kind)) {
                missing.remove(&feed);
            }
        }
        assert!(since.elapsed() < PATIENCE, "{kind} is shown in {missing:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Takes the turns of webhooks, as nodes do, until each of these was handed this many entries.
async fn are_handed(engine: &Store, wanted: &[(Job, usize)]) {
    let (since, mut over) = (Instant::now(), vec![]);
    let mut missing: Vec<(Job, usize)> = wanted.to_vec();
    while !missing.is_empty() {
        let turn = engine.claim_jobs(std::mem::take(&mut over), 64, 5_000, Millis::now()).await.unwrap();
        for lease in turn.jobs {
            let (job, token) = (lease.job, lease.token);
            let scope = match job.reader.to_string().starts_with('*') {
                true => HookScope::All,
                false => HookScope::Feed(job.feed.clone()),
            };
            // What a delivery asks for before it sends anything.
            let hook =
                engine.read_webhook(&webhook(scope).0.clone()).await.unwrap().expect("the webhook is known");
            assert_eq!(hook.state, HookState::Active);
            engine.read_signing_key().await.expect("the key of signatures is known");
            let mut next_in_ms = None;
            if let Some(work) = engine.open_job(&job, WANT, Millis::now()).await.unwrap() {
                let through = work.entries.last().map(|entry| entry.cursor);
                let save = Save { was: work.progress, progress: "p".into(), through, ..Save::default() };
                engine.save_job(&job, save, WANT, Millis::now()).await.unwrap();
                for (_, left) in missing.iter_mut().filter(|(it, _)| *it == job) {
                    *left = left.saturating_sub(work.entries.len());
                }
                next_in_ms = Some(0);
            }
            over.push(JobDone { job, token, next_in_ms });
        }
        missing.retain(|(_, left)| *left > 0);
        assert!(since.elapsed() < PATIENCE, "not handed out: {missing:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_shard_is_away_feeds_of_the_others_are_scheduled_sold_and_reported_as_ever() {
    for away in 0..3 {
        let mut cluster = Cluster::start(0);
        // Some at the very borders of what a server has, and some that are far from them.
        let of_server = [
            vec![(5_300..=5_460), (0..=1_000)],
            vec![(5_461..=5_700), (10_600..=10_921), (8_000..=8_500)],
            vec![(10_922..=11_200), (16_000..=16_383)],
        ];
        let feeds: Vec<FeedId> = (0..3)
            .filter(|server| *server != away)
            .flat_map(|server| of_server[server].clone())
            .map(|slots| feed_in(&cluster, "room", slots))
            .collect();
        let engine = engine_on(cluster.url()).await;
        let (of_all, hook) = webhook(HookScope::All);
        assert_eq!(engine.swap_webhook(&of_all, None, Some(hook), Millis::now()).await, Ok(Swapped::Done));
        for feed in &feeds {
            insist(&engine, feed, "before").await;
        }
        cluster.nodes[away].kill();
        // A node that starts now knows nothing of what is away.
        for (node, engine) in [("old", engine), ("new", engine_on(cluster.url()).await)] {
            // The first calls may find out that the shard is gone.
            has_shards(&engine, Shards { up: 2, down: 1 }).await;
            let name = |what: &str| format!("{what}-{node}");
            let mut jobs = vec![];
            for feed in &feeds {
                let now = Millis::now();
                post(&engine, feed, &name("now")).await.unwrap();
                let later = gift(&name("later")).kind(&name("later")).with("delay_ms", json!(50)).parse();
                let outcome = engine.publish(feed, vec![later], now).await.unwrap().remove(0);
                assert!(matches!(outcome, Outcome::Scheduled(_)), "{outcome:?}");
                let drop = named(&name("rocket"));
                engine.define_drop(feed, &drop, &spec_of(&rockets(5)), now).await.unwrap();
                let claim = claim_of(&hold("c1", "bob"));
                let claimed = engine.claim_drop(feed, &drop, claim, now).await.unwrap();
                assert!(matches!(claimed, Claimed::New(_)), "{claimed:?}");
                let ask = Ask { max: 100, lease_ms: 1_000, from: Start::Start };
                let taken = engine
                    .claim_entries(feed, &name("group").parse().unwrap(), ask, now)
                    .await
                    .unwrap()
                    .unwrap();
                assert!(!taken.entries.is_empty());
                jobs.push((Job { feed: feed.clone(), reader: of_all.reader() }, 2));
                if node == "old" {
                    let (own, hook) = webhook(HookScope::Feed(feed.clone()));
                    assert_eq!(engine.swap_webhook(&own, None, Some(hook), now).await, Ok(Swapped::Done));
                    post(&engine, feed, "reported").await.unwrap();
                    jobs.push((Job { feed: feed.clone(), reader: own.reader() }, 1));
                }
            }
            is_shown(&engine, &feeds, &name("later")).await;
            are_handed(&engine, &jobs).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_gifts_are_shown_after_their_slot_moved() {
    let mut cluster = Cluster::start(0);
    let feed = feed_at(&cluster, 0);
    let engine = engine_on(cluster.url()).await;
    let later = gift("later").kind("later").with("delay_ms", json!(1)).parse();
    engine.publish(&feed, vec![later], Millis::now()).await.unwrap();
    moving::move_slot(&cluster, &feed, (0, 1), Duration::ZERO).await;
    // The node that knew of it is gone; what another brings to the feed's new shard is enough.
    let engine = engine_on(cluster.url()).await;
    let slot = cluster.nodes[1].run(&["CLUSTER", "KEYSLOT", feed.as_str()]);
    let since = Instant::now();
    while cluster.nodes[1].run(&["KEYS", "tc:{slot:*}:due:feeds"]).is_empty() {
        assert!(since.elapsed() < PATIENCE, "the feed of slot {slot} is registered where it is now");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cluster.nodes[0].kill();
    has_shards(&engine, Shards { up: 2, down: 1 }).await;
    is_shown(&engine, &[feed], "later").await;
}
