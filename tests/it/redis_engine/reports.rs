//! Ledgers, their readers and webhooks' jobs: what several nodes on one Redis, or a Redis that forgets, do to them.

use tipcast::domain::{
    Ask, Cursor, Delivery, DropSpec, GroupId, GroupView, Handed, Hook, HookKey, HookScope, HookSpec, Job,
    Reader, Replay, Start,
};
use tipcast::engine::{
    AckEntries, ClaimDrop, ClaimDue, ClaimEntries, ClaimJobs, Death, DefineDrop, DeleteGroup, JobDone,
    ListDeadLetterFeeds, ListDeadLetters, ListReaders, ListWebhooks, NackEntries, OpenJob, ReadGroup,
    ReplayDeadLetters, ReportLimits, RunDue, Save, SaveJob, SetPolicy, Subscribe, SwapWebhook, Swapped, Want,
    Work,
};

use super::*;

const ASK: Ask = Ask { max: 100, lease_ms: 1_000, from: Start::Start };
const WANT: Want = Want { most: 100, batch_ms: 500 };

async fn keeping(server: &RedisServer, reports: ReportLimits) -> Engine {
    let options = StoreOptions { store_clock: false, reports, ..StoreOptions::new(server.url()) };
    Engine::redis(options).await.unwrap()
}

fn small() -> ReportLimits {
    ReportLimits { ledger_max: 3, backlog_max: 5, max_age_ms: 0, ..ReportLimits::default() }
}

fn group() -> GroupId {
    "bookkeeper".parse().unwrap()
}

async fn take_at(engine: &Engine, now: Millis) -> Vec<Handed> {
    engine.run(ClaimEntries { feed: feed(), group: group(), ask: ASK, now }).await.unwrap().unwrap().entries
}

async fn view(engine: &Engine) -> GroupView {
    engine.run(ReadGroup { feed: feed(), group: group(), now: NOW }).await.unwrap().unwrap()
}

fn cursors(entries: &[Handed]) -> Vec<Cursor> {
    entries.iter().map(|handed| handed.entry.cursor).collect()
}

fn gifts_of(entries: &[Handed]) -> Vec<String> {
    let id = |gift: &str| {
        let event: serde_json::Value = serde_json::from_str(gift).unwrap();
        event["id"].as_str().map_or_else(|| format!("lost {}", event["count"]), str::to_owned)
    };
    entries.iter().map(|handed| id(&handed.entry.gift)).collect()
}

fn hook(since: Millis) -> Hook {
    let spec = HookSpec {
        url: "https://game.example/gifts".into(),
        secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz".into(),
        batch_max: 100,
        batch_ms: 500,
        max_age_ms: 0,
        delivery: Delivery::AtLeastOnce,
        types: vec![],
        headers: Default::default(),
    };
    Hook::new(spec, since)
}

fn key(scope: HookScope) -> HookKey {
    HookKey { scope, name: "game".parse().unwrap() }
}

fn of_feed() -> HookKey {
    key(HookScope::Feed(feed()))
}

fn of_all() -> HookKey {
    key(HookScope::All)
}

async fn set(engine: &Engine, key: &HookKey) {
    assert_eq!(
        engine.run(SwapWebhook { key: key.clone(), was: None, to: Some(hook(NOW)), now: NOW }).await,
        Ok(Swapped::Done)
    );
}

fn job(key: &HookKey) -> Job {
    Job { feed: feed(), reader: key.reader() }
}

/// The jobs whose time has come, each with its token.
async fn claim(engine: &Engine, now: Millis) -> Vec<(Job, String)> {
    let turn = engine.run(ClaimJobs { over: vec![], max: 10, lease_ms: 60_000, now }).await.unwrap();
    turn.jobs.into_iter().map(|lease| (lease.job, lease.token)).collect()
}

async fn give_back(engine: &Engine, (job, token): (Job, String), next_in_ms: Option<u64>, now: Millis) {
    engine
        .run(ClaimJobs { over: vec![JobDone { job, token, next_in_ms }], max: 0, lease_ms: 60_000, now })
        .await
        .unwrap();
}

async fn open(engine: &Engine, job: &Job) -> Work {
    engine.run(OpenJob { job: job.clone(), want: WANT, now: NOW }).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_ledger_that_lost_a_key_begins_anew_and_gives_no_number_out_twice() {
    for lost in ["ledger", "reports"] {
        for grouped in [true, false] {
            let server = RedisServer::start();
            let engine = engine_on(&server).await;
            for id in ["a", "b", "c"] {
                post(&engine, id).await;
            }
            let mut seen = vec![];
            if grouped {
                seen = cursors(&take_at(&engine, NOW).await);
                assert_eq!(seen[0], Cursor::first(NOW));
            }
            run(&server, &["DEL", &format!("tc:{{room1}}:{lost}")]);
            let later = NOW.plus(1);
            let gifts = ["d", "e"].map(gift).to_vec();
            engine.run(Publish { feed: feed(), gifts, now: later }).await.unwrap();
            let after = take_at(&engine, later).await;
            assert_eq!(gifts_of(&after), ["d", "e"], "{lost} {grouped}");
            let numbers = cursors(&after);
            assert!(numbers[0] > Cursor(Cursor::first(NOW).0 + 2), "{lost} {grouped}: {numbers:?}");
            assert_eq!(numbers[1].0, numbers[0].0 + 1);
            assert!(seen.iter().all(|cursor| !numbers.contains(cursor)));
            assert_eq!(
                engine
                    .run(AckEntries { feed: feed(), group: group(), cursors: seen.to_vec(), now: later })
                    .await,
                Ok(Some(0)),
                "{lost}"
            );
            let stands =
                engine.run(ReadGroup { feed: feed(), group: group(), now: later }).await.unwrap().unwrap();
            assert_eq!((stands.pending, stands.lag), (2, 0), "{lost} {grouped}");
        }
    }
}

#[tokio::test]
async fn a_clock_that_stands_still_does_not_make_lost_numbers_come_back() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    for id in ["a", "b", "c"] {
        post(&engine, id).await;
    }
    run(&server, &["DEL", "tc:{room1}:ledger"]);
    post(&engine, "d").await;
    let after = take_at(&engine, NOW).await;
    assert_eq!(gifts_of(&after), ["d"]);
    assert!(after[0].entry.cursor.0 > Cursor::first(NOW).0 + 2);
}

#[tokio::test]
async fn webhooks_that_rest_are_woken_after_reports_was_evicted() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    set(&engine, &of_feed()).await;
    run(&server, &["DEL", "tc:{room1}:reports"]);
    post(&engine, "a").await;
    assert_eq!(claim(&engine, NOW).await.len(), 1);
    assert_eq!(open(&engine, &job(&of_feed())).await.backlog, 1);
}

#[tokio::test]
async fn webhooks_whose_place_was_evicted_begin_again() {
    for key in [of_feed(), of_all()] {
        let server = RedisServer::start();
        let engine = engine_on(&server).await;
        set(&engine, &key).await;
        post(&engine, "a").await;
        let turn = claim(&engine, NOW.plus(500)).await.pop().unwrap();
        run(&server, &["DEL", "tc:{room1}:readers"]);
        open(&engine, &turn.0).await;
        post(&engine, "b").await;
        let work = open(&engine, &turn.0).await;
        assert!(work.entries.iter().any(|entry| entry.gift.contains("\"b\"")), "{work:?}");
        // One that is deleted stays away.
        assert_eq!(
            engine.run(SwapWebhook { key: key.clone(), was: Some(1), to: None, now: NOW }).await,
            Ok(Swapped::Done)
        );
        assert_eq!(engine.run(OpenJob { job: turn.0.clone(), want: WANT, now: NOW }).await, Ok(None));
    }
}

#[tokio::test]
async fn what_is_cut_before_it_was_acknowledged_is_counted_and_logged() {
    let server = RedisServer::start();
    let metrics = Arc::new(tipcast::metrics::Metrics::default());
    let options = StoreOptions {
        store_clock: false,
        reports: small(),
        metrics: metrics.clone(),
        ..StoreOptions::new(server.url())
    };
    let engine = Engine::redis(options).await.unwrap();
    post(&engine, "a").await;
    assert_eq!(take_at(&engine, NOW).await.len(), 1, "a is pending");
    for n in 0..4 {
        post(&engine, &format!("b{n}")).await;
    }
    assert_eq!(view(&engine).await, GroupView { lag: 4, pending: 1, ..GroupView::default() });
    assert_eq!(metrics.report_lost.get(), 0);
    for n in 4..7 {
        post(&engine, &format!("b{n}")).await;
    }
    assert_eq!(view(&engine).await, GroupView { lag: 5, lost: 3, ..GroupView::default() });
    assert_eq!(metrics.report_lost.get(), 3);
    let rest = take_at(&engine, NOW).await;
    assert_eq!(gifts_of(&rest), ["lost 2", "b2", "b3", "b4", "b5", "b6"], "a was handed out");
    // What was cut cannot be acknowledged; the rest can, and then only the newest are kept.
    assert_eq!(
        engine
            .run(AckEntries { feed: feed(), group: group(), cursors: vec![Cursor::first(NOW)], now: NOW })
            .await,
        Ok(Some(0))
    );
    assert_eq!(
        engine
            .run(AckEntries { feed: feed(), group: group(), cursors: cursors(&rest).to_vec(), now: NOW })
            .await,
        Ok(Some(6))
    );
    post(&engine, "c").await;
    let kept: u64 = redis::cmd("LLEN").arg("tc:{room1}:ledger").query(&mut server.connect()).unwrap();
    assert_eq!(kept, 3);
    assert_eq!(view(&engine).await.lost, 3);
}

#[tokio::test]
async fn a_ledger_that_redis_let_go_of_is_counted_by_its_true_number_for_each_reader() {
    let server = RedisServer::start();
    let metrics = Arc::new(tipcast::metrics::Metrics::default());
    let options =
        StoreOptions { store_clock: false, metrics: metrics.clone(), ..StoreOptions::new(server.url()) };
    let engine = Engine::redis(options).await.unwrap();
    post(&engine, "early").await;
    set(&engine, &of_feed()).await;
    let first = take_at(&engine, NOW).await;
    assert_eq!(gifts_of(&first), ["early"]);
    for n in 0..40 {
        post(&engine, &format!("g{n}")).await;
    }
    engine
        .run(Publish { feed: feed(), gifts: (0..5).map(|n| gift(&format!("b{n}"))).collect(), now: NOW })
        .await
        .unwrap();
    assert_eq!(view(&engine).await, GroupView { lag: 45, pending: 1, ..GroupView::default() });
    run(&server, &["DEL", "tc:{room1}:ledger"]);
    // What looks before the next gift comes finds nothing, takes nothing for done with, and can still acknowledge.
    assert_eq!(take_at(&engine, NOW).await, []);
    let (job, token) = claim(&engine, NOW.plus(500)).await.pop().unwrap();
    assert!(open(&engine, &job).await.entries.is_empty());
    give_back(&engine, (job, token), Some(0), NOW).await;
    assert_eq!(view(&engine).await, GroupView { lag: 45, pending: 1, ..GroupView::default() });
    assert_eq!(
        engine
            .run(AckEntries { feed: feed(), group: group(), cursors: cursors(&first).to_vec(), now: NOW })
            .await,
        Ok(Some(1))
    );
    assert_eq!(metrics.report_lost.get(), 0);
    post(&engine, "after").await;
    assert_eq!(view(&engine).await, GroupView { lag: 1, lost: 45, ..GroupView::default() });
    assert_eq!(metrics.report_lost.get(), 45, "those of the slowest reader, once");
    assert_eq!(gifts_of(&take_at(&engine, NOW).await), ["lost 45", "after"]);
    let (job, _) = claim(&engine, NOW.plus(1_000)).await.pop().unwrap();
    let work = open(&engine, &job).await;
    assert_eq!((work.backlog, work.entries.len()), (1, 1), "the webhook goes on with what there is");
    post(&engine, "later").await;
    assert_eq!(view(&engine).await.lost, 45);
    assert_eq!(metrics.report_lost.get(), 45);
}

#[tokio::test]
async fn an_idle_feed_expires_and_its_ledger_does_not() {
    let server = RedisServer::start();
    let options =
        StoreOptions { store_clock: false, feed_idle_ttl_ms: 50, ..StoreOptions::new(server.url()) };
    let engine = Engine::redis(options).await.unwrap();
    post(&engine, "a").await;
    let since = Instant::now();
    while keys(&server).contains(&"tc:{room1}:meta".to_owned()) {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(gifts_of(&take_at(&engine, NOW).await), ["a"]);
}

#[tokio::test]
async fn an_entry_that_one_node_takes_is_a_job_for_another() {
    let server = RedisServer::start();
    let (a, b) = (engine_on(&server).await, engine_on(&server).await);
    set(&a, &of_feed()).await;
    let mut wakes = b.job_wakes();
    post(&a, "x").await;
    let in_ms = tokio::time::timeout(PATIENCE, wakes.next()).await.expect("b is woken");
    assert_eq!(in_ms, 500);
    assert!(claim(&b, NOW.plus(499)).await.is_empty());
    let mut jobs = claim(&b, NOW.plus(500)).await;
    let taken = jobs.pop().unwrap();
    assert_eq!((&taken.0, jobs.len()), (&job(&of_feed()), 0));
    assert!(claim(&a, NOW.plus(500)).await.is_empty(), "it is b's turn");
    let work = open(&b, &taken.0).await;
    assert_eq!((work.entries.len(), work.backlog, &*work.progress), (1, 1, ""));
    let save = Save { progress: "one".into(), through: Some(work.entries[0].cursor), ..Save::default() };
    let after = b
        .run(SaveJob { job: taken.0.clone(), save: save.clone(), want: WANT, now: NOW })
        .await
        .unwrap()
        .unwrap();
    assert_eq!((after.backlog, &*after.progress), (0, "one"));
    assert_eq!(
        b.run(SaveJob { job: taken.0.clone(), save, want: WANT, now: NOW }).await,
        Ok(None),
        "it went on since"
    );
    give_back(&b, taken, None, NOW.plus(500)).await;
    let turn =
        a.run(ClaimJobs { over: vec![], max: 10, lease_ms: 1_000, now: NOW.plus(9_000) }).await.unwrap();
    assert_eq!((turn.jobs.len(), turn.waiting, turn.next_in_ms), (0, 0, None));
    post(&b, "y").await;
    assert_eq!(claim(&a, NOW.plus(9_000)).await.len(), 1);
}

#[tokio::test]
async fn a_look_between_a_registration_and_its_entry_hides_nothing() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    set(&engine, &of_feed()).await;
    // What a node does that is about to append: it registers the webhook. Then it is slow, and somebody's turn
    // comes and finds nothing.
    let idle = reports_of(&server);
    let zadd = ["ZADD", "tc:{rep:0}:feeds", "0", "w:game room1"];
    run(&server, &zadd);
    run(&server, &["HSET", "tc:{rep:0}:marks", "w:game room1", "7"]);
    let turn = claim(&engine, NOW).await.pop().unwrap();
    assert_eq!(open(&engine, &turn.0).await.backlog, 0);
    give_back(&engine, turn, None, NOW).await;
    assert_eq!(
        engine.run(ClaimJobs { over: vec![], max: 0, lease_ms: 1_000, now: NOW }).await.unwrap().waiting,
        0
    );
    assert_ne!(reports_of(&server), idle, "a registration from before the look is worth nothing");
    post(&engine, "a").await;
    assert_eq!(claim(&engine, NOW.plus(500)).await.len(), 1);
}

fn reports_of(server: &RedisServer) -> String {
    redis::cmd("GET").arg("tc:{room1}:reports").query(&mut server.connect()).unwrap()
}

#[tokio::test]
async fn a_turn_between_a_registration_and_its_gift_leaves_the_feed_in_the_index_of_due_feeds() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    // What a node does that is about to schedule a gift.
    run(&server, &["ZADD", "tc:{due:0}:feeds", &NOW.0.to_string(), "room1"]);
    run(&server, &["HSET", "tc:{due:0}:marks", "room1", &format!("7@{}", NOW.0)]);
    let turn = engine.run(ClaimDue { over: vec![], max: 1, now: NOW }).await.unwrap().feeds.remove(0);
    let next = engine.run(RunDue { feed: feed(), now: NOW }).await.unwrap().next;
    let over = tipcast::engine::DueDone { feed: feed(), token: turn.token, next };
    let after = engine.run(ClaimDue { over: vec![over], max: 1, now: NOW.plus(100) }).await.unwrap();
    assert_eq!((after.waiting, after.next_in_ms), (1, Some(4_900)));
    let turn =
        engine.run(ClaimDue { over: vec![], max: 1, now: NOW.plus(5_000) }).await.unwrap().feeds.remove(0);
    let over = tipcast::engine::DueDone { feed: feed(), token: turn.token, next: None };
    assert_eq!(
        engine.run(ClaimDue { over: vec![over], max: 1, now: NOW.plus(5_000) }).await.unwrap().waiting,
        0
    );
}

#[tokio::test]
async fn a_webhook_of_all_feeds_that_one_node_makes_reads_what_another_takes() {
    let server = RedisServer::start();
    let (a, b) = (engine_on(&server).await, engine_on(&server).await);
    let early = NOW.plus(1);
    b.run(Publish { feed: feed(), gifts: vec![gift("before")], now: NOW }).await.unwrap();
    assert_eq!(
        a.run(SwapWebhook { key: of_all(), was: None, to: Some(hook(early)), now: early }).await,
        Ok(Swapped::Done)
    );
    // b does not know yet, and takes a gift.
    b.run(Publish { feed: feed(), gifts: vec![gift("unknowing")], now: early }).await.unwrap();
    // Its loop learns of the webhook, and brings it to where it wrote lately.
    assert!(claim(&b, early).await.is_empty());
    let turn = claim(&a, early.plus(500)).await.pop().expect("what came since is to be sent");
    assert_eq!(turn.0, job(&of_all()));
    let work = open(&a, &turn.0).await;
    assert!(work.backlog == 1 && work.entries[0].gift.contains("unknowing"), "{work:?}");
    let done = Save { through: Some(work.entries[0].cursor), ..Save::default() };
    a.run(SaveJob { job: turn.0.clone(), save: done, want: WANT, now: early }).await.unwrap().unwrap();
    give_back(&a, turn, None, early.plus(500)).await;
    // A feed that nobody wrote to before.
    let other: FeedId = "room2".parse().unwrap();
    b.run(Publish { feed: other.clone(), gifts: vec![gift("x")], now: early }).await.unwrap();
    assert_eq!(
        claim(&b, early.plus(500)).await.pop().unwrap().0,
        Job { feed: other, reader: of_all().reader() }
    );
    // One that goes is gone everywhere, with what it had.
    assert_eq!(
        a.run(SwapWebhook { key: of_all(), was: Some(1), to: None, now: early }).await,
        Ok(Swapped::Done)
    );
    assert!(claim(&b, early).await.is_empty());
    b.run(Publish { feed: feed(), gifts: vec![gift("after")], now: early }).await.unwrap();
    assert_eq!(b.run(OpenJob { job: job(&of_all()), want: WANT, now: early }).await, Ok(None));
    assert_eq!(b.run(ListWebhooks).await, Ok(vec![]));
    // Made again under the same name it begins again.
    let late = NOW.plus(9);
    assert_eq!(
        b.run(SwapWebhook { key: of_all(), was: None, to: Some(hook(late)), now: late }).await,
        Ok(Swapped::Done)
    );
    b.run(Publish { feed: feed(), gifts: vec![gift("again")], now: late }).await.unwrap();
    assert_eq!(open(&b, &job(&of_all())).await.backlog, 1);
}

#[tokio::test]
async fn dead_letters_of_a_webhook_are_listed_and_sent_again_first() {
    for key in [of_feed(), of_all()] {
        let server = RedisServer::start();
        let engine = engine_on(&server).await;
        set(&engine, &key).await;
        for id in ["a", "b"] {
            post(&engine, id).await;
        }
        let turn = claim(&engine, NOW.plus(500)).await.pop().unwrap();
        let work = open(&engine, &turn.0).await;
        let first = work.entries[0].cursor;
        let death = Death { cursor: first, attempts: 2, reason: "422\nno".into() };
        let save = Save { through: Some(first), dead: vec![death], ..Save::default() };
        assert_eq!(
            engine
                .run(SaveJob { job: turn.0.clone(), save, want: WANT, now: NOW })
                .await
                .unwrap()
                .unwrap()
                .backlog,
            1
        );
        let reader = key.reader();
        let letters = engine
            .run(ListDeadLetters { feed: feed(), reader: reader.clone(), skip: 0, max: 100_000 })
            .await
            .unwrap();
        assert_eq!((letters[0].attempts, &*letters[0].reason, letters[0].died_at), (2, "422 no", NOW));
        assert_eq!(letters[0].entry, work.entries[0]);
        let listed = engine.run(ListDeadLetterFeeds { hook: key.name.clone() }).await.unwrap();
        assert_eq!(listed.len(), usize::from(key.scope == HookScope::All));
        let save = Save { through: Some(work.entries[1].cursor), ..Save::default() };
        engine.run(SaveJob { job: turn.0.clone(), save, want: WANT, now: NOW }).await.unwrap().unwrap();
        give_back(&engine, turn, None, NOW).await;
        let only = Replay::Only(vec![Cursor(1), first, first]);
        assert_eq!(
            engine
                .run(ReplayDeadLetters {
                    feed: feed(),
                    reader: reader.clone(),
                    which: only.clone(),
                    now: NOW
                })
                .await,
            Ok(1)
        );
        assert_eq!(
            engine
                .run(ReplayDeadLetters {
                    feed: feed(),
                    reader: reader.clone(),
                    which: Replay::All.clone(),
                    now: NOW
                })
                .await,
            Ok(0)
        );
        let turn = claim(&engine, NOW).await.pop().expect("it is a job at once");
        let work = open(&engine, &turn.0).await;
        assert_eq!((work.backlog, work.again.len(), work.again[0].cursor), (0, 1, first));
        let save = Save { again: vec![first], ..Save::default() };
        assert!(
            engine
                .run(SaveJob { job: turn.0.clone(), save, want: WANT, now: NOW })
                .await
                .unwrap()
                .unwrap()
                .again
                .is_empty()
        );
        assert_eq!(
            engine.run(ListDeadLetters { feed: feed(), reader: reader.clone(), skip: 0, max: 100_000 }).await,
            Ok(vec![])
        );
    }
}

#[tokio::test]
async fn what_is_new_in_the_ledger_alone_wakes_a_subscription() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let patch = PolicyPatch { dedup: Some(tipcast::domain::Dedup::Drop), ..PolicyPatch::default() };
    engine.run(SetPolicy { feed: feed(), change: PolicyChange::Merge(patch), now: NOW }).await.unwrap();
    let again = |id: &str| {
        gift_of(json!({"id": id, "user": {"id": "u", "name": "U"}, "gift": {"id": "g", "name": "G"}}))
    };
    engine.run(Publish { feed: feed(), gifts: vec![again("a")], now: NOW }).await.unwrap();
    let entries = take_at(&engine, NOW).await;
    let mut subscription = engine.run(Subscribe { feed: feed() }).await.unwrap();
    // Not shown, because of the lock.
    let outcome =
        engine.run(Publish { feed: feed(), gifts: vec![again("b")], now: NOW }).await.unwrap().remove(0);
    assert_eq!(new(outcome).status, Status::Suppressed);
    let quiet = |notice: Notice| matches!(notice, Notice::Changes(changes) if changes.is_empty());
    assert!(quiet(next(&mut subscription).await));
    let twice = cursors(&entries).repeat(2);
    assert_eq!(
        engine.run(NackEntries { feed: feed(), group: group(), cursors: twice.to_vec(), now: NOW }).await,
        Ok(Some(1))
    );
    assert!(quiet(next(&mut subscription).await));
    let both = take_at(&engine, NOW.plus(1_000)).await;
    assert_eq!(both.iter().map(|it| it.attempt).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((both[1].entry.seq, both[1].entry.row == both[0].entry.row), (None, true));
}

#[tokio::test]
async fn a_sale_is_an_entry_and_wakes_webhooks_of_all_feeds() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    set(&engine, &of_all()).await;
    let drop: tipcast::domain::DropId = "rocket".parse().unwrap();
    let spec: serde_json::Value = json!({"total": 2, "per_user": 1, "gift": {"id": "r", "name": "Rocket"}});
    let raw = RawValue::from_string(spec.to_string()).unwrap();
    let spec = DropSpec::parse(&raw).unwrap();
    engine.run(DefineDrop { feed: feed(), drop: drop.clone(), spec, now: NOW }).await.unwrap();
    let claimed = json!({"id": "c-1", "user": {"id": "u", "name": "U"}, "pay": "now"});
    let raw = RawValue::from_string(claimed.to_string()).unwrap();
    let claimed = tipcast::domain::Claim::parse(&raw, None).unwrap();
    engine.run(ClaimDrop { feed: feed(), drop: drop.clone(), claim: claimed, now: NOW }).await.unwrap();
    let turn = claim(&engine, NOW.plus(500)).await.pop().unwrap();
    let work = open(&engine, &turn.0).await;
    assert_eq!(work.entries[0].status, tipcast::domain::EntryStatus::Sold);
    assert_eq!(work.entries[0].drop.as_ref().map(ToString::to_string).as_deref(), Some("rocket"));
}

#[tokio::test]
async fn a_flushed_store_has_no_groups_and_no_webhooks_and_takes_new_ones() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    set(&engine, &of_all()).await;
    set(&engine, &of_feed()).await;
    post(&engine, "a").await;
    take_at(&engine, NOW).await;
    run(&server, &["FLUSHALL"]);
    assert_eq!(engine.run(ReadGroup { feed: feed(), group: group(), now: NOW }).await, Ok(None));
    assert_eq!(engine.run(ListWebhooks).await, Ok(vec![]));
    assert_eq!(engine.run(ListReaders { feed: None }).await, Ok(vec![]));
    assert!(claim(&engine, NOW.plus(1_000)).await.is_empty());
    post(&engine, "b").await;
    let entries = take_at(&engine, NOW).await;
    assert_eq!(gifts_of(&entries), ["b"]);
    set(&engine, &of_all()).await;
    post(&engine, "c").await;
    assert_eq!(open(&engine, &job(&of_all())).await.backlog, 2, "what came since it was made");
}

#[tokio::test]
async fn a_key_of_another_type_refuses_before_anything_is_written() {
    let wrong = ["ledger", "readers"].map(|key| (key.to_owned(), "SET"));
    for (key, how) in wrong {
        let server = RedisServer::start();
        let engine = engine_on(&server).await;
        run(&server, &[how, &format!("tc:{{room1}}:{key}"), "x"]);
        let before = dump(&server);
        assert!(
            engine.run(Publish { feed: feed(), gifts: vec![gift("a")], now: NOW }).await.is_err(),
            "{key}"
        );
        assert!(
            engine.run(ClaimEntries { feed: feed(), group: group(), ask: ASK, now: NOW }).await.is_err(),
            "{key}"
        );
        let mut after = dump(&server);
        after.retain(|(name, _)| name != "tc:{reports}:groups");
        assert_eq!(after, before, "{key}");
    }
    for key in ["pending", "leases", "tries", "again", "dead", "deaths"] {
        let server = RedisServer::start();
        let engine = engine_on(&server).await;
        post(&engine, "a").await;
        run(&server, &["SET", &format!("tc:{{room1}}:{key}:g:bookkeeper"), "x"]);
        let before = dump(&server);
        assert!(
            engine.run(ClaimEntries { feed: feed(), group: group(), ask: ASK, now: NOW }).await.is_err(),
            "{key}"
        );
        assert_eq!(dump(&server), before, "{key}");
    }
}

#[tokio::test]
async fn one_reader_too_many_is_not_let_in_and_not_listed() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    set(&engine, &of_feed()).await;
    for n in 1..tipcast::engine::READERS_MAX {
        let name: tipcast::domain::GroupId = format!("g{n}").parse().unwrap();
        assert!(
            engine
                .run(ClaimEntries { feed: feed(), group: name.clone(), ask: ASK, now: NOW })
                .await
                .unwrap()
                .is_some()
        );
    }
    assert_eq!(engine.run(ClaimEntries { feed: feed(), group: group(), ask: ASK, now: NOW }).await, Ok(None));
    let other = HookKey { name: "other".parse().unwrap(), ..of_feed() };
    assert_eq!(
        engine.run(SwapWebhook { key: other.clone(), was: None, to: Some(hook(NOW)), now: NOW }).await,
        Ok(Swapped::Full)
    );
    assert_eq!(engine.run(ListReaders { feed: None }).await.unwrap().len(), 63);
    assert_eq!(engine.run(ListReaders { feed: Some(feed().clone()) }).await.unwrap().len(), 64);
    let first: GroupId = "g1".parse().unwrap();
    assert_eq!(engine.run(DeleteGroup { feed: feed(), group: first.clone() }).await, Ok(true));
    assert_eq!(engine.run(DeleteGroup { feed: feed(), group: first.clone() }).await, Ok(false));
    assert!(
        engine
            .run(ClaimEntries { feed: feed(), group: group(), ask: ASK, now: NOW })
            .await
            .unwrap()
            .is_some()
    );
    assert!(!engine.run(ListReaders { feed: None }).await.unwrap().contains(&(feed(), Reader::Group(first))));
}

#[tokio::test]
async fn an_entry_handed_out_too_often_is_dead_and_comes_back_when_it_is_replayed() {
    let server = RedisServer::start();
    let limits = ReportLimits { max_attempts: 2, dead_max: 2, ..small() };
    let engine = keeping(&server, limits).await;
    for id in ["a", "b", "c"] {
        post(&engine, id).await;
    }
    let mut now = NOW;
    for attempt in 1..=2 {
        let entries = take_at(&engine, now).await;
        assert!(entries.len() == 3 && entries.iter().all(|it| it.attempt == attempt));
        now = now.plus(1_000);
    }
    assert_eq!(take_at(&engine, now).await, []);
    let reader = Reader::Group(group());
    let letters = engine
        .run(ListDeadLetters { feed: feed(), reader: reader.clone(), skip: 0, max: 100_000 })
        .await
        .unwrap();
    let ids: Vec<_> = letters.iter().map(|letter| &letter.entry.gift[..10]).collect();
    assert_eq!(ids, ["a", "b", "c"].map(|id| format!("{{\"id\":\"{id}\",")), "the ledger has their entries");
    // Trimming does not touch what is sent again.
    for id in ["d", "e", "f", "g"] {
        post(&engine, id).await;
    }
    assert_eq!(
        engine
            .run(ReplayDeadLetters { feed: feed(), reader: reader.clone(), which: Replay::All.clone(), now })
            .await,
        Ok(3)
    );
    let entries = take_at(&engine, now).await;
    assert_eq!(gifts_of(&entries), ["a", "b", "c", "d", "e", "f", "g"]);
    assert!(entries.iter().all(|it| it.attempt == 1));
    assert_eq!(
        engine
            .run(AckEntries { feed: feed(), group: group(), cursors: cursors(&entries).to_vec(), now })
            .await,
        Ok(Some(7))
    );
    assert_eq!(
        engine.run(ReadGroup { feed: feed(), group: group(), now }).await,
        Ok(Some(GroupView::default()))
    );
}
