//! What only the inside can show: a store that holds every kind of record, and what becomes of it when a byte flips.

use std::path::Path;
use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::*;
use crate::domain::json::syntax;
use crate::domain::{
    Ask, Block, BlockScope, Claim, Decision, Defined, Delivery, DropSpec, Fingerprint, Gift, Hook, HookKey,
    HookScope, HookSpec, Outcome, PolicyPatch, Reader, ReviewMode, Reviewed, Start,
};
use crate::engine::folder;
use crate::engine::{
    BlockUser, ClaimDrop, ClaimEntries, DecideReview, DefineDrop, ListDeadDue, ListDrops, PolicyChange,
    Publish, ReadSnapshot, RecordRefund, RetractRow, Revocation, RevokedAt, RunDue, SetPolicy, SwapSource,
    SwapWebhook, Swapped,
};

mod damage;
mod disk;
mod id_table;
mod in_journal;
mod logged;
mod rot;
mod upgrade;

const NOW: Millis = Millis(1_800_000_000_000);

fn feed(name: &str) -> FeedId {
    name.parse().unwrap()
}

fn gift(id: &str, rest: &str) -> Gift {
    let body = format!(
        r#"{{"id":"{id}","user":{{"id":"u-{id}","name":"Ann"}},"gift":{{"id":"rose","name":"Rose"}}{rest}}}"#
    );
    Gift::parse(syntax(body.as_bytes()).unwrap(), None).unwrap()
}

fn hook() -> Hook {
    let spec = HookSpec {
        url: "https://game.example/gifts".into(),
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into(),
        batch_max: 128,
        batch_ms: 1_000,
        max_age_ms: 0,
        delivery: Delivery::AtLeastOnce,
    };
    Hook::new(spec, NOW)
}

fn open(dir: &Path) -> Arc<EmbeddedEngine> {
    let reports = ReportLimits { max_attempts: 1, ..ReportLimits::default() };
    EmbeddedEngine::open(EmbeddedOptions { reports, ..EmbeddedOptions::new(dir) }).unwrap()
}

fn database(dir: &Path) -> Connection {
    let db = Connection::open(folder::database(dir)).unwrap();
    seal::teach(&db).unwrap();
    db
}

/// Gives a feed something of every kind but what is logged.
async fn fill(engine: &EmbeddedEngine, name: &str) {
    let feed = feed(name);
    let review = |mode| PolicyChange::Merge(PolicyPatch { review: Some(mode), ..PolicyPatch::default() });
    engine.run(SetPolicy { feed: feed.clone(), change: review(ReviewMode::All), now: NOW }).await.unwrap();
    for id in ["approved", "waits"] {
        engine
            .run(Publish {
                feed: feed.clone(),
                gifts: vec![gift(&format!("{name}-{id}"), r#","message":"hi""#)],
                now: NOW,
            })
            .await
            .unwrap();
    }
    let approved: crate::domain::GiftId = format!("{name}-approved").parse().unwrap();
    let done = engine
        .run(DecideReview { feed: feed.clone(), id: approved.clone(), decision: Decision::Approve, now: NOW })
        .await
        .unwrap();
    assert!(matches!(done.told, Reviewed::Decided(_)), "{done:?}");
    engine.run(SetPolicy { feed: feed.clone(), change: review(ReviewMode::Off), now: NOW }).await.unwrap();
    let block = Block { user: "rude".into(), at: NOW, until: None };
    engine.run(BlockUser { scope: BlockScope::Feed(feed.clone()), block }).await.unwrap();
    for n in 0..3 {
        engine
            .run(Publish { feed: feed.clone(), gifts: vec![gift(&format!("{name}-{n}"), "")], now: NOW })
            .await
            .unwrap();
    }
    // Something is counted, told, and taken back whole.
    let patch = PolicyPatch { totals: "all,day".parse().ok(), ..PolicyPatch::default() };
    engine.run(SetPolicy { feed: feed.clone(), change: PolicyChange::Merge(patch), now: NOW }).await.unwrap();
    let undone = engine
        .run(Publish { feed: feed.clone(), gifts: vec![gift(&format!("{name}-undone"), "")], now: NOW })
        .await
        .unwrap();
    let Outcome::New(answer) = &undone[0] else { panic!("{undone:?}") };
    engine
        .run(RetractRow { feed: feed.clone(), row: answer.row.as_ref().unwrap().clone(), now: NOW })
        .await
        .unwrap();
    let patch = PolicyPatch { capacity: Some(7), ..PolicyPatch::default() };
    engine.run(SetPolicy { feed: feed.clone(), change: PolicyChange::Merge(patch), now: NOW }).await.unwrap();
    // Changes and locks after the feed was written whole.
    engine
        .run(Publish { feed: feed.clone(), gifts: vec![gift(&format!("{name}-after"), "")], now: NOW })
        .await
        .unwrap();
    let later = gift(&format!("{name}-later"), r#","delay_ms":60000"#);
    assert!(matches!(
        engine.run(Publish { feed: feed.clone(), gifts: vec![later], now: NOW }).await.unwrap()[0],
        Outcome::Scheduled(_)
    ));
    let spec = br#"{"gift":{"id":"r","name":"R"},"total":9,"per_user":2,"hold_ttl_ms":90000}"#;
    let spec = DropSpec::parse(syntax(spec).unwrap()).unwrap();
    let drop: crate::domain::DropId = "rocket".parse().unwrap();
    assert!(matches!(
        engine.run(DefineDrop { feed: feed.clone(), drop: drop.clone(), spec, now: NOW }).await.unwrap(),
        Defined::New(_)
    ));
    for (id, pay) in [("held", "later"), ("sold", "now")] {
        let body = format!(
            r#"{{"id":"{id}","user":{{"id":"{id}","name":"U"}},"count":1,"pay":"{pay}","message":"hi"}}"#
        );
        let claim = Claim::parse(syntax(body.as_bytes()).unwrap(), None).unwrap();
        engine.run(ClaimDrop { feed: feed.clone(), drop: drop.clone(), claim, now: NOW }).await.unwrap();
    }
    let group: crate::domain::GroupId = "g".parse().unwrap();
    let ask = Ask { max: 1, lease_ms: 1_000, from: Start::Start };
    engine.run(ClaimEntries { feed: feed.clone(), group: group.clone(), ask, now: NOW }).await.unwrap();
    // Handed out once too often: a dead letter; and another entry in hand.
    engine
        .run(ClaimEntries { feed: feed.clone(), group: group.clone(), ask, now: NOW.plus(1_000) })
        .await
        .unwrap();
    let key = HookKey { scope: HookScope::Feed(feed.clone()), name: "w".parse().unwrap() };
    assert_eq!(
        engine.run(SwapWebhook { key: key.clone(), was: None, to: Some(hook()), now: NOW }).await.unwrap(),
        Swapped::Done
    );
    let source = crate::domain::Source::new(&feed, "{}".into(), [1, 7], NOW);
    engine
        .run(SwapSource { feed: feed.clone(), name: "kofi".parse().unwrap(), was: None, to: Some(source) })
        .await
        .unwrap();
    engine
        .run(RecordRefund { feed: feed.clone(), gift: "refunded".parse().unwrap(), now: NOW })
        .await
        .unwrap();
    let dead = crate::engine::DeadDue { kind: 'x', id: "y".into(), due: NOW, at: NOW, reason: "why".into() };
    engine
        .task((1, Some(NOW)), move |feeds| {
            feeds.on(&feed, NOW, |txn| due::bury(txn.db, txn.number()?, &dead, "body"))
        })
        .await
        .unwrap();
}

/// A folder that holds every kind of record, of two feeds each; and a webhook of all feeds.
async fn filled() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    for name in ["hurt", "well"] {
        fill(&engine, name).await;
    }
    engine.task((1, Some(NOW)), Feeds::settle_log).await.unwrap();
    for name in ["hurt-2", "well-2"] {
        // The first begins the feed; the others are only logged.
        for id in ["first", "logged", "logged-too", "logged-last"] {
            engine.run(Publish { feed: feed(name), gifts: vec![gift(id, "")], now: NOW }).await.unwrap();
        }
    }
    engine
        .task((1, Some(NOW)), |feeds| {
            feeds.db.begin()?;
            hooks::put(
                &feeds.db,
                &HookKey { scope: HookScope::All, name: "of-all".parse().unwrap() },
                Some(&hook()),
            )
        })
        .await
        .unwrap();
    engine.close().await.unwrap();
    dir
}

/// A copy of a folder whose engine is closed.
fn copy(dir: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    std::fs::copy(folder::database(dir), folder::database(to.path())).unwrap();
    to
}

/// That a feed takes gifts and everything else works for it.
async fn is_well(engine: &EmbeddedEngine, name: &str, tag: &str) {
    let feed = feed(name);
    let now = NOW.plus(120_000);
    for n in 0..3 {
        let outcome = engine
            .run(Publish { feed: feed.clone(), gifts: vec![gift(&format!("{tag}-{n}"), "")], now })
            .await;
        assert!(
            matches!(&outcome, Ok(all) if matches!(all[0], Outcome::New(_))),
            "{name} {tag}: {outcome:?}"
        );
    }
    engine.run(ReadSnapshot { feed: feed.clone(), now }).await.unwrap();
    engine.run(ListDrops { feed: feed.clone(), now }).await.unwrap();
    engine
        .run(ClaimEntries {
            feed: feed.clone(),
            group: "g".parse().unwrap(),
            ask: Ask { max: 9, lease_ms: 1_000, from: Start::Start },
            now,
        })
        .await
        .unwrap();
    engine.run(RunDue { feed: feed.clone(), now }).await.unwrap();
}

fn no_of(db: &Connection, name: &str) -> i64 {
    db.query_row("SELECT no FROM feeds WHERE name = ?1", [name], |r| r.get(0)).unwrap()
}

#[tokio::test]
async fn locks_come_back_from_beside_the_changes_and_from_their_table() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let engine = open(dir.path());
        let mut merged = gift(&format!("again-{round}"), "");
        merged.user.id = "same".into();
        let outcome = engine
            .run(Publish { feed: feed("f"), gifts: vec![merged], now: NOW.plus(round) })
            .await
            .unwrap()
            .remove(0);
        let Outcome::New(answer) = outcome else { panic!("{outcome:?}") };
        assert_eq!(answer.status == crate::domain::Status::Merged, round > 0);
        if round == 1 {
            engine
                .run(SetPolicy {
                    feed: feed("f"),
                    change: PolicyChange::Merge(PolicyPatch::default()),
                    now: NOW,
                })
                .await
                .unwrap();
        }
        engine.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_entry_that_is_whole_and_still_cannot_be_read_rests_and_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    let name = feed("f");
    engine.run(Publish { feed: name.clone(), gifts: vec![gift("first", "")], now: NOW }).await.unwrap();
    let put = |feeds: &mut Feeds| {
        let name = feed("f");
        feeds.on(&name, NOW, |txn| {
            let no = txn.number()?;
            let entry = ('g', "odd", "a gift of another version".to_owned());
            txn.common.agenda.add(txn.db, (txn.name, no), entry, (NOW.plus(10), NOW))
        })
    };
    engine.task((1, Some(NOW)), put).await.unwrap();
    let (mut now, mut tries) = (NOW.plus(10), 0);
    while engine.run(ListDeadDue { feed: name.clone() }).await.unwrap().is_empty() {
        let run = engine.run(RunDue { feed: name.clone(), now }).await.unwrap();
        assert_eq!(run.handled.len(), 1);
        tries += 1;
        now = run.next.unwrap_or(now);
    }
    assert_eq!(tries, crate::engine::DUE_TRIES);
    engine.run(Publish { feed: name.clone(), gifts: vec![gift("second", "")], now }).await.unwrap();
    engine.close().await.unwrap();
}
