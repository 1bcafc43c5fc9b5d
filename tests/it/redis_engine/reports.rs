//! Ledgers, their readers and webhooks' jobs: what several nodes on one Redis, or a Redis that forgets, do to them.

use tipcast::domain::{
    Ask, Cursor, Delivery, DropSpec, GroupId, GroupView, Handed, Hook, HookKey, HookScope, HookSpec, Job,
    Reader, Replay, Start,
};
use tipcast::engine::{Death, JobDone, ReportLimits, Save, Swapped, Want, Work};

use super::*;

const ASK: Ask = Ask { max: 100, lease_ms: 1_000, from: Start::Start };
const WANT: Want = Want { most: 100, batch_ms: 500 };

async fn keeping(server: &RedisServer, reports: ReportLimits) -> Store {
    let options = StoreOptions { store_clock: false, reports, ..StoreOptions::new(server.url()) };
    Store::redis(options).await.unwrap()
}

fn small() -> ReportLimits {
    ReportLimits { ledger_max: 3, backlog_max: 5, max_age_ms: 0, ..ReportLimits::default() }
}

fn group() -> GroupId {
    "bookkeeper".parse().unwrap()
}

async fn take_at(engine: &Store, now: Millis) -> Vec<Handed> {
    engine.claim_entries(&feed(), &group(), ASK, now).await.unwrap().unwrap().entries
}

async fn view(engine: &Store) -> GroupView {
    engine.read_group(&feed(), &group(), NOW).await.unwrap().unwrap()
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

async fn set(engine: &Store, key: &HookKey) {
    assert_eq!(engine.swap_webhook(key, None, Some(hook(NOW)), NOW).await, Ok(Swapped::Done));
}

fn job(key: &HookKey) -> Job {
    Job { feed: feed(), reader: key.reader() }
}

/// The jobs whose time has come, each with its token.
async fn claim(engine: &Store, now: Millis) -> Vec<(Job, String)> {
    let turn = engine.claim_jobs(vec![], 10, 60_000, now).await.unwrap();
    turn.jobs.into_iter().map(|lease| (lease.job, lease.token)).collect()
}

async fn give_back(engine: &Store, (job, token): (Job, String), next_in_ms: Option<u64>, now: Millis) {
    engine.claim_jobs(vec![JobDone { job, token, next_in_ms }], 0, 60_000, now).await.unwrap();
}

async fn open(engine: &Store, job: &Job) -> Work {
    engine.open_job(job, WANT, NOW).await.unwrap().unwrap()
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
            engine.publish(&feed(), gifts, later).await.unwrap();
            let after = take_at(&engine, later).await;
            assert_eq!(gifts_of(&after), ["d", "e"], "{lost} {grouped}");
            let numbers = cursors(&after);
            assert!(numbers[0] > Cursor(Cursor::first(NOW).0 + 2), "{lost} {grouped}: {numbers:?}");
            assert_eq!(numbers[1].0, numbers[0].0 + 1);
            assert!(seen.iter().all(|cursor| !numbers.contains(cursor)));
            assert_eq!(engine.ack_entries(&feed(), &group(), &seen, later).await, Ok(Some(0)), "{lost}");
            let stands = engine.read_group(&feed(), &group(), later).await.unwrap().unwrap();
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
        assert_eq!(engine.swap_webhook(&key, Some(1), None, NOW).await, Ok(Swapped::Done));
        assert_eq!(engine.open_job(&turn.0, WANT, NOW).await, Ok(None));
    }
}

#[tokio::test]
async fn entries_cut_unacknowledged_are_counted_and_logged() {
    let server = RedisServer::start();
    let metrics = Arc::new(tipcast::metrics::Metrics::default());
    let options = StoreOptions {
        store_clock: false,
        reports: small(),
        metrics: metrics.clone(),
        ..StoreOptions::new(server.url())
    };
    let engine = Store::redis(options).await.unwrap();
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
    assert_eq!(engine.ack_entries(&feed(), &group(), &[Cursor::first(NOW)], NOW).await, Ok(Some(0)));
    assert_eq!(engine.ack_entries(&feed(), &group(), &cursors(&rest), NOW).await, Ok(Some(6)));
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
    let engine = Store::redis(options).await.unwrap();
    post(&engine, "early").await;
    set(&engine, &of_feed()).await;
    let first = take_at(&engine, NOW).await;
    assert_eq!(gifts_of(&first), ["early"]);
    for n in 0..40 {
        post(&engine, &format!("g{n}")).await;
    }
    engine.publish(&feed(), (0..5).map(|n| gift(&format!("b{n}"))).collect(), NOW).await.unwrap();
    assert_eq!(view(&engine).await, GroupView { lag: 45, pending: 1, ..GroupView::default() });
    run(&server, &["DEL", "tc:{room1}:ledger"]);
    // What looks before the next gift comes finds nothing, takes nothing for done with, and can still acknowledge.
    assert_eq!(take_at(&engine, NOW).await, []);
    let (job, token) = claim(&engine, NOW.plus(500)).await.pop().unwrap();
    assert!(open(&engine, &job).await.entries.is_empty());
    give_back(&engine, (job, token), Some(0), NOW).await;
    assert_eq!(view(&engine).await, GroupView { lag: 45, pending: 1, ..GroupView::default() });
    assert_eq!(engine.ack_entries(&feed(), &group(), &cursors(&first), NOW).await, Ok(Some(1)));
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
    let engine = Store::redis(options).await.unwrap();
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
    let after = b.save_job(&taken.0, save.clone(), WANT, NOW).await.unwrap().unwrap();
    assert_eq!((after.backlog, &*after.progress), (0, "one"));
    assert_eq!(b.save_job(&taken.0, save, WANT, NOW).await, Ok(None), "it went on since");
    give_back(&b, taken, None, NOW.plus(500)).await;
    let turn = a.claim_jobs(vec![], 10, 1_000, NOW.plus(9_000)).await.unwrap();
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
    assert_eq!(engine.claim_jobs(vec![], 0, 1_000, NOW).await.unwrap().waiting, 0);
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
    let turn = engine.claim_due(vec![], 1, NOW).await.unwrap().feeds.remove(0);
    let next = engine.run_due(&feed(), NOW).await.unwrap().next;
    let over = tipcast::engine::DueDone { feed: feed(), token: turn.token, next };
    let after = engine.claim_due(vec![over], 1, NOW.plus(100)).await.unwrap();
    assert_eq!((after.waiting, after.next_in_ms), (1, Some(4_900)));
    let turn = engine.claim_due(vec![], 1, NOW.plus(5_000)).await.unwrap().feeds.remove(0);
    let over = tipcast::engine::DueDone { feed: feed(), token: turn.token, next: None };
    assert_eq!(engine.claim_due(vec![over], 1, NOW.plus(5_000)).await.unwrap().waiting, 0);
}

#[tokio::test]
async fn a_webhook_of_all_feeds_that_one_node_makes_reads_what_another_takes() {
    let server = RedisServer::start();
    let (a, b) = (engine_on(&server).await, engine_on(&server).await);
    let early = NOW.plus(1);
    b.publish(&feed(), vec![gift("before")], NOW).await.unwrap();
    assert_eq!(a.swap_webhook(&of_all(), None, Some(hook(early)), early).await, Ok(Swapped::Done));
    // b does not know yet, and takes a gift.
    b.publish(&feed(), vec![gift("unknowing")], early).await.unwrap();
    // Its loop learns of the webhook, and brings it to where it wrote lately.
    assert!(claim(&b, early).await.is_empty());
    let turn = claim(&a, early.plus(500)).await.pop().expect("what came since is to be sent");
    assert_eq!(turn.0, job(&of_all()));
    let work = open(&a, &turn.0).await;
    assert!(work.backlog == 1 && work.entries[0].gift.contains("unknowing"), "{work:?}");
    let done = Save { through: Some(work.entries[0].cursor), ..Save::default() };
    a.save_job(&turn.0, done, WANT, early).await.unwrap().unwrap();
    give_back(&a, turn, None, early.plus(500)).await;
    // A feed that nobody wrote to before.
    let other: FeedId = "room2".parse().unwrap();
    b.publish(&other, vec![gift("x")], early).await.unwrap();
    assert_eq!(
        claim(&b, early.plus(500)).await.pop().unwrap().0,
        Job { feed: other, reader: of_all().reader() }
    );
    // One that goes is gone everywhere, with what it had.
    assert_eq!(a.swap_webhook(&of_all(), Some(1), None, early).await, Ok(Swapped::Done));
    assert!(claim(&b, early).await.is_empty());
    b.publish(&feed(), vec![gift("after")], early).await.unwrap();
    assert_eq!(b.open_job(&job(&of_all()), WANT, early).await, Ok(None));
    assert_eq!(b.list_webhooks().await, Ok(vec![]));
    // Made again under the same name it begins again.
    let late = NOW.plus(9);
    assert_eq!(b.swap_webhook(&of_all(), None, Some(hook(late)), late).await, Ok(Swapped::Done));
    b.publish(&feed(), vec![gift("again")], late).await.unwrap();
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
        assert_eq!(engine.save_job(&turn.0, save, WANT, NOW).await.unwrap().unwrap().backlog, 1);
        let reader = key.reader();
        let letters = engine.list_dead_letters(&feed(), &reader, 0, 100_000).await.unwrap();
        assert_eq!((letters[0].attempts, &*letters[0].reason, letters[0].died_at), (2, "422 no", NOW));
        assert_eq!(letters[0].entry, work.entries[0]);
        let listed = engine.list_dead_letter_feeds(&key.name).await.unwrap();
        assert_eq!(listed.len(), usize::from(key.scope == HookScope::All));
        let save = Save { through: Some(work.entries[1].cursor), ..Save::default() };
        engine.save_job(&turn.0, save, WANT, NOW).await.unwrap().unwrap();
        give_back(&engine, turn, None, NOW).await;
        let only = Replay::Only(vec![Cursor(1), first, first]);
        assert_eq!(engine.replay_dead_letters(&feed(), &reader, &only, NOW).await, Ok(1));
        assert_eq!(engine.replay_dead_letters(&feed(), &reader, &Replay::All, NOW).await, Ok(0));
        let turn = claim(&engine, NOW).await.pop().expect("it is a job at once");
        let work = open(&engine, &turn.0).await;
        assert_eq!((work.backlog, work.again.len(), work.again[0].cursor), (0, 1, first));
        let save = Save { again: vec![first], ..Save::default() };
        assert!(engine.save_job(&turn.0, save, WANT, NOW).await.unwrap().unwrap().again.is_empty());
        assert_eq!(engine.list_dead_letters(&feed(), &reader, 0, 100_000).await, Ok(vec![]));
    }
}

#[tokio::test]
async fn a_new_ledger_entry_alone_wakes_a_subscription() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let patch = PolicyPatch { dedup: Some(tipcast::domain::Dedup::Drop), ..PolicyPatch::default() };
    engine.set_policy(&feed(), &PolicyChange::Merge(patch), NOW).await.unwrap();
    let again = |id: &str| {
        gift_of(json!({"id": id, "user": {"id": "u", "name": "U"}, "gift": {"id": "g", "name": "G"}}))
    };
    engine.publish(&feed(), vec![again("a")], NOW).await.unwrap();
    let entries = take_at(&engine, NOW).await;
    let mut subscription = engine.subscribe(&feed()).await.unwrap();
    // Not shown, because of the lock.
    let outcome = engine.publish(&feed(), vec![again("b")], NOW).await.unwrap().remove(0);
    assert_eq!(new(outcome).status, Status::Suppressed);
    let quiet = |notice: Notice| matches!(notice, Notice::Changes(changes) if changes.is_empty());
    assert!(quiet(next(&mut subscription).await));
    let twice = cursors(&entries).repeat(2);
    assert_eq!(engine.nack_entries(&feed(), &group(), &twice, NOW).await, Ok(Some(1)));
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
    engine.define_drop(&feed(), &drop, &spec, NOW).await.unwrap();
    let claimed = json!({"id": "c-1", "user": {"id": "u", "name": "U"}, "pay": "now"});
    let raw = RawValue::from_string(claimed.to_string()).unwrap();
    let claimed = tipcast::domain::Claim::parse(&raw, None).unwrap();
    engine.claim_drop(&feed(), &drop, claimed, NOW).await.unwrap();
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
    assert_eq!(engine.read_group(&feed(), &group(), NOW).await, Ok(None));
    assert_eq!(engine.list_webhooks().await, Ok(vec![]));
    assert_eq!(engine.list_readers(None).await, Ok(vec![]));
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
        assert!(engine.publish(&feed(), vec![gift("a")], NOW).await.is_err(), "{key}");
        assert!(engine.claim_entries(&feed(), &group(), ASK, NOW).await.is_err(), "{key}");
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
        assert!(engine.claim_entries(&feed(), &group(), ASK, NOW).await.is_err(), "{key}");
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
        assert!(engine.claim_entries(&feed(), &name, ASK, NOW).await.unwrap().is_some());
    }
    assert_eq!(engine.claim_entries(&feed(), &group(), ASK, NOW).await, Ok(None));
    let other = HookKey { name: "other".parse().unwrap(), ..of_feed() };
    assert_eq!(engine.swap_webhook(&other, None, Some(hook(NOW)), NOW).await, Ok(Swapped::Full));
    assert_eq!(engine.list_readers(None).await.unwrap().len(), 63);
    assert_eq!(engine.list_readers(Some(&feed())).await.unwrap().len(), 64);
    let first: GroupId = "g1".parse().unwrap();
    assert_eq!(engine.delete_group(&feed(), &first).await, Ok(true));
    assert_eq!(engine.delete_group(&feed(), &first).await, Ok(false));
    assert!(engine.claim_entries(&feed(), &group(), ASK, NOW).await.unwrap().is_some());
    assert!(!engine.list_readers(None).await.unwrap().contains(&(feed(), Reader::Group(first))));
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
    let letters = engine.list_dead_letters(&feed(), &reader, 0, 100_000).await.unwrap();
    let ids: Vec<_> = letters.iter().map(|letter| &letter.entry.gift[..10]).collect();
    assert_eq!(ids, ["a", "b", "c"].map(|id| format!("{{\"id\":\"{id}\",")), "the ledger has their entries");
    // Trimming does not touch what is sent again.
    for id in ["d", "e", "f", "g"] {
        post(&engine, id).await;
    }
    assert_eq!(engine.replay_dead_letters(&feed(), &reader, &Replay::All, now).await, Ok(3));
    let entries = take_at(&engine, now).await;
    assert_eq!(gifts_of(&entries), ["a", "b", "c", "d", "e", "f", "g"]);
    assert!(entries.iter().all(|it| it.attempt == 1));
    assert_eq!(engine.ack_entries(&feed(), &group(), &cursors(&entries), now).await, Ok(Some(7)));
    assert_eq!(engine.read_group(&feed(), &group(), now).await, Ok(Some(GroupView::default())));
}
