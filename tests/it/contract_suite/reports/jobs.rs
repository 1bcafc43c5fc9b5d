//! Webhooks' work: when its time comes, who has it, and what is kept of it.

use tipcast::domain::delivery::{Next, Progress, Queues};
use tipcast::domain::story::EntryState;
use tipcast::domain::{Cursor, HookKey, HookSpec, Job, Replay};
use tipcast::engine::{Death, JobDone, JobLease, JobTurn, ReportLimits, Save, Want};

use crate::support::case::{Case, PATIENCE};
use crate::support::readers::{BATCH_MS, TURN_MS, WANT, cursors, gifts, of_all, of_feed, spec};
use crate::support::stores::Storage;

on_every_engine![
    a_job_is_there_from_the_first_entry_for_a_webhook_that_rests,
    a_job_rests_when_all_is_done_and_the_next_entry_makes_it_one_again,
    a_webhook_that_is_asked_and_has_nothing_rests,
    nobody_else_gets_a_job_while_a_turn_lasts,
    a_turn_that_is_given_back_says_when_it_is_looked_at_again,
    only_who_has_the_turn_can_give_it_back,
    jobs_are_taken_in_the_order_of_their_time,
    arrivals_during_a_turn_are_part_of_it,
    a_job_opens_with_as_many_entries_as_are_wanted,
    finished_work_is_kept_unless_another_went_on,
    an_entrys_story_has_its_state_in_each_webhook,
    entries_given_up_become_dead_letters,
    dead_letters_of_a_webhook_stay_as_long_as_the_ledger_has_their_entries,
    dead_letters_are_sent_again_before_anything_else,
    replayed_dead_letters_may_die_again,
    a_webhooks_dead_letters_that_are_sent_again_are_a_job,
    a_group_has_no_job,
    jobs_survive_another_engine_on_the_same_store,
    webhooks_of_a_feed_go_their_own_ways,
];

fn over(lease: &JobLease, next_in_ms: Option<u64>) -> Vec<JobDone> {
    vec![JobDone { job: lease.job.clone(), token: lease.token.clone(), next_in_ms }]
}

/// A webhook of the case's feed.
async fn hooked(t: &mut Case) -> HookKey {
    let key = of_feed(&t.feed, "w");
    t.hook(&key).await;
    key
}

fn done_with(was: &str, progress: &str, through: Option<Cursor>) -> Save {
    Save { was: was.into(), progress: progress.into(), through, ..Save::default() }
}

async fn a_job_is_there_from_the_first_entry_for_a_webhook_that_rests(mut t: Case) {
    let key = hooked(&mut t).await;
    let turn = t.turn(vec![]).await;
    assert_eq!((turn.jobs, turn.next_in_ms, turn.waiting), (vec![], None, 0));
    t.give(&["a"]).await;
    t.pass(BATCH_MS - 400);
    t.give(&["b"]).await;
    let turn = t.turn(vec![]).await;
    assert_eq!((turn.jobs, turn.next_in_ms, turn.waiting), (vec![], Some(400), 1));
    t.pass(399);
    t.no_job().await;
    t.pass(1);
    assert_eq!(t.only_job().await.job, t.job(&key));
    assert_eq!(gifts(&t.deliver(&key).await), ["a", "b"]);
}

async fn a_job_rests_when_all_is_done_and_the_next_entry_makes_it_one_again(mut t: Case) {
    let key = hooked(&mut t).await;
    for id in ["a", "b"] {
        t.give(&[id]).await;
        t.pass(BATCH_MS);
        let lease = t.only_job().await;
        assert_eq!(gifts(&t.deliver(&key).await), [id]);
        let turn = t.turn(over(&lease, None)).await;
        assert_eq!((turn.jobs, turn.next_in_ms, turn.waiting), (vec![], None, 0));
        t.pass(TURN_MS);
        t.no_job().await;
    }
}

async fn a_webhook_that_is_asked_and_has_nothing_rests(mut t: Case) {
    let key = hooked(&mut t).await;
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    let lease = t.only_job().await;
    t.deliver(&key).await;
    assert_eq!(t.open_job(&key).await.unwrap().backlog, 0);
    // What comes before the turn is given back must not get lost with it.
    t.give(&["b"]).await;
    let mut jobs = t.turn(over(&lease, None)).await.jobs;
    t.pass(BATCH_MS);
    jobs.extend(t.turn(vec![]).await.jobs);
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(gifts(&t.deliver(&key).await), ["b"]);
}

async fn nobody_else_gets_a_job_while_a_turn_lasts(mut t: Case) {
    let key = hooked(&mut t).await;
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    let first = t.only_job().await;
    t.give(&["b"]).await;
    t.pass(TURN_MS - 1);
    t.no_job().await;
    t.pass(1);
    let second = t.only_job().await;
    assert_eq!((&second.job, second.token == first.token), (&first.job, false), "it ended by itself");
    assert_eq!(gifts(&t.deliver(&key).await), ["a", "b"]);
}

async fn a_turn_that_is_given_back_says_when_it_is_looked_at_again(mut t: Case) {
    hooked(&mut t).await;
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    let lease = t.only_job().await;
    let JobTurn { jobs, next_in_ms, waiting } = t.turn(over(&lease, Some(5_000))).await;
    assert_eq!((jobs, next_in_ms, waiting), (vec![], Some(5_000), 1));
    t.give(&["b"]).await;
    t.pass(4_999);
    t.no_job().await;
    t.pass(1);
    let lease = t.only_job().await;
    // At once, and taken again in the same step.
    assert_eq!(t.turn(over(&lease, Some(0))).await.jobs.len(), 1);
}

async fn only_who_has_the_turn_can_give_it_back(mut t: Case) {
    hooked(&mut t).await;
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    let late = t.only_job().await;
    t.pass(TURN_MS);
    let holder = t.only_job().await;
    assert_eq!(t.turn(over(&late, Some(0))).await.jobs, []);
    assert_eq!(t.turn(over(&late, None)).await.waiting, 1);
    t.turn(over(&holder, Some(7))).await;
    t.pass(7);
    t.only_job().await;
}

async fn jobs_are_taken_in_the_order_of_their_time(mut t: Case) {
    let key = of_all("w");
    t.hook(&key).await;
    let mut feeds = vec![];
    for n in [2, 1, 3] {
        let feed = format!("turns-{n}").parse().unwrap();
        let mut case = Case::with(Storage::model(), t.engine.clone(), feed).await;
        case.now = t.now;
        case.give(&["a"]).await;
        feeds.push(case.feed);
        t.pass(1);
    }
    t.pass(BATCH_MS);
    let mut taken = vec![];
    for most in [2, 2] {
        let turn = t.engine.claim_jobs(vec![], most, TURN_MS, t.now).await.unwrap();
        taken.extend(turn.jobs.into_iter().map(|lease| lease.job));
    }
    let mut jobs: Vec<_> = feeds.into_iter().map(|feed| Job { feed, reader: key.reader() }).collect();
    if matches!(t.store, Storage::Cluster(..)) {
        // Each part of the index has its own order.
        taken.sort_by_key(|job| job.feed.to_string());
        jobs.sort_by_key(|job| job.feed.to_string());
    }
    assert_eq!(taken, jobs);
}

async fn arrivals_during_a_turn_are_part_of_it(mut t: Case) {
    let key = hooked(&mut t).await;
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    t.only_job().await;
    let work = t.open_job(&key).await.unwrap();
    t.give(&["b"]).await;
    let work = t.save_job(&key, done_with("", "", Some(work.entries[0].cursor))).await.unwrap();
    assert_eq!((gifts(&work.entries), work.backlog), (vec!["b".to_owned()], 1));
}

async fn a_job_opens_with_as_many_entries_as_are_wanted(mut t: Case) {
    let key = hooked(&mut t).await;
    t.give_many(0..270).await;
    let want = Want { most: 260, ..WANT };
    let work = t.engine.open_job(&t.job(&key), want, t.now).await.unwrap().unwrap();
    assert_eq!(gifts(&work.entries), (0..260).map(|n| format!("n{n}")).collect::<Vec<_>>());
    assert_eq!((work.backlog, work.again, work.now), (270, vec![], t.now));
    let save = done_with("", "x", Some(work.entries[258].cursor));
    let work = t.engine.save_job(&t.job(&key), save, Want { most: 2, ..WANT }, t.now).await.unwrap().unwrap();
    assert_eq!((gifts(&work.entries), work.backlog), (vec!["n259".to_owned(), "n260".to_owned()], 11));
}

async fn finished_work_is_kept_unless_another_went_on(mut t: Case) {
    let key = hooked(&mut t).await;
    t.give(&["a", "b", "c"]).await;
    let work = t.open_job(&key).await.unwrap();
    let numbers: Vec<Cursor> = work.entries.iter().map(|entry| entry.cursor).collect();
    let work = t.save_job(&key, done_with("", "one \u{1F339}", Some(numbers[0]))).await.unwrap();
    assert_eq!((work.progress.as_str(), work.backlog), ("one \u{1F339}", 2));
    let dead = vec![Death { cursor: numbers[1], attempts: 1, reason: "no".into() }];
    for was in ["", "one", "two"] {
        let save = Save { dead: dead.clone(), ..done_with(was, "two", Some(numbers[2])) };
        assert_eq!(t.save_job(&key, save).await, None);
    }
    let same = t.open_job(&key).await.unwrap();
    assert_eq!((same, t.letters(&key.reader()).await), (work, vec![]), "nothing was changed");
    // Without a step forward, and with one back.
    let work = t.save_job(&key, done_with("one \u{1F339}", "still", None)).await.unwrap();
    assert_eq!((work.progress.as_str(), work.backlog), ("still", 2));
    let work = t.save_job(&key, done_with("still", "", Some(numbers[0]))).await.unwrap();
    assert_eq!((gifts(&work.entries), work.progress.as_str()), (vec!["b".to_owned(), "c".into()], ""));
}

async fn an_entrys_story_has_its_state_in_each_webhook(mut t: Case) {
    t.give(&["before"]).await;
    let before = cursors(&t.take("g").await)[0];
    let key = hooked(&mut t).await;
    t.give(&["b", "c"]).await;
    let all = cursors(&t.take("g").await);
    let reader = key.reader();
    assert_eq!(t.state_of(&reader, before).await, None, "it began later");
    assert_eq!(t.state_of(&reader, all[0]).await, Some(EntryState::Waiting));
    let mut progress = Progress::default();
    let work = t.open_job(&key).await.unwrap();
    let spec = HookSpec { batch_max: 1, ..spec() };
    let queues = Queues { entries: &work.entries, again: &work.again };
    assert_eq!(progress.next(queues, &spec, (t.now.plus(60_000), 1_000), "id"), Next::Send);
    let line = progress.to_line();
    t.save_job(&key, done_with("", &line, None)).await.unwrap();
    assert_eq!(t.state_of(&reader, all[0]).await, Some(EntryState::Pending(1)));
    assert_eq!(t.state_of(&reader, all[1]).await, Some(EntryState::Waiting));
    t.save_job(&key, done_with(&line, "", Some(all[0]))).await.unwrap();
    assert_eq!(t.state_of(&reader, all[0]).await, Some(EntryState::Acknowledged));
}

async fn entries_given_up_become_dead_letters(mut t: Case) {
    let key = hooked(&mut t).await;
    t.give(&["a", "b", "c"]).await;
    let entries = t.open_job(&key).await.unwrap().entries;
    t.pass(7);
    let bury = |n: usize, reason: &str| Death {
        cursor: entries[n].cursor,
        attempts: n as u64 + 1,
        reason: reason.into(),
    };
    let dead = vec![bury(0, "refused: 400"), bury(1, "gave up \"after\" 24 h")];
    let save = Save { dead, ..done_with("", "", Some(entries[1].cursor)) };
    assert_eq!(gifts(&t.save_job(&key, save).await.unwrap().entries), ["c"]);
    let letters = t.letters(&key.reader()).await;
    let said: Vec<_> = letters.iter().map(|it| (it.reason.as_str(), it.attempts, it.died_at)).collect();
    assert_eq!(said, [("refused: 400", 1, t.now), ("gave up \"after\" 24 h", 2, t.now)]);
    assert_eq!(letters.into_iter().map(|it| it.entry).collect::<Vec<_>>(), entries[..2]);
}

async fn dead_letters_of_a_webhook_stay_as_long_as_the_ledger_has_their_entries(mut t: Case) {
    t.reopen_keeping(ReportLimits { dead_max: 2, ..ReportLimits::default() }).await;
    let key = hooked(&mut t).await;
    t.give(&["a", "b", "c"]).await;
    let entries = t.open_job(&key).await.unwrap().entries;
    let bury =
        |entry: &tipcast::domain::Entry| Death { cursor: entry.cursor, attempts: 1, reason: "no".into() };
    let dead = entries.iter().map(bury).collect();
    t.save_job(&key, Save { dead, ..done_with("", "", Some(entries[2].cursor)) }).await.unwrap();
    let letters = t.letters(&key.reader()).await;
    assert_eq!(letters.into_iter().map(|it| it.entry).collect::<Vec<_>>(), entries);
}

/// Gives up as many of the entries that wait; their numbers.
async fn give_up(t: &mut Case, key: &HookKey, most: usize) -> Vec<Cursor> {
    let work = t.open_job(key).await.unwrap();
    let numbers: Vec<_> = work.entries.iter().take(most).map(|entry| entry.cursor).collect();
    let bury = |cursor: &Cursor| Death { cursor: *cursor, attempts: 9, reason: "no".into() };
    let dead = numbers.iter().map(bury).collect();
    let through = numbers.last().copied();
    t.save_job(key, Save { dead, ..done_with(&work.progress, "", through) }).await.unwrap();
    numbers
}

async fn dead_letters_are_sent_again_before_anything_else(mut t: Case) {
    let key = hooked(&mut t).await;
    t.give(&["a", "b", "c", "d"]).await;
    let numbers = give_up(&mut t, &key, 3).await;
    assert_eq!(t.replay(&key.reader(), Replay::Only(vec![numbers[2]])).await, 1);
    assert_eq!(t.replay(&key.reader(), Replay::All).await, 2);
    assert_eq!(t.letters(&key.reader()).await, []);
    let work = t.open_job(&key).await.unwrap();
    assert_eq!(
        (gifts(&work.again), gifts(&work.entries)),
        (["a", "b", "c"].map(String::from).to_vec(), vec!["d".to_owned()])
    );
    let save = Save { again: numbers[..2].to_vec(), ..done_with("", "", None) };
    let work = t.save_job(&key, save).await.unwrap();
    assert_eq!((gifts(&work.again), work.backlog), (vec!["c".to_owned()], 1));
}

async fn replayed_dead_letters_may_die_again(mut t: Case) {
    let key = hooked(&mut t).await;
    t.give(&["a", "b"]).await;
    let numbers = give_up(&mut t, &key, 2).await;
    t.replay(&key.reader(), Replay::All).await;
    let dead = vec![Death { cursor: numbers[0], attempts: 2, reason: "again".into() }];
    let work =
        t.save_job(&key, Save { again: numbers.clone(), dead, ..done_with("", "", None) }).await.unwrap();
    assert_eq!((work.again, work.backlog), (vec![], 0));
    let letters = t.letters(&key.reader()).await;
    let said: Vec<_> = letters.iter().map(|it| (it.entry.cursor, it.attempts, it.reason.as_str())).collect();
    assert_eq!(said, [(numbers[0], 2, "again")]);
}

async fn a_webhooks_dead_letters_that_are_sent_again_are_a_job(mut t: Case) {
    let key = hooked(&mut t).await;
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    let lease = t.only_job().await;
    give_up(&mut t, &key, 1).await;
    assert_eq!(t.turn(over(&lease, None)).await.waiting, 0);
    assert_eq!(t.replay(&key.reader(), Replay::All).await, 1);
    t.pass(BATCH_MS);
    assert_eq!(t.only_job().await.job, t.job(&key));
    let work = t.open_job(&key).await.unwrap();
    assert_eq!((gifts(&work.again), work.backlog), (vec!["a".to_owned()], 0));
}

async fn a_group_has_no_job(mut t: Case) {
    t.take("g").await;
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    assert_eq!(t.turn(vec![]).await.waiting, 0);
}

async fn jobs_survive_another_engine_on_the_same_store(mut t: Case) {
    let (key, all) = (hooked(&mut t).await, of_all("w"));
    t.hook(&all).await;
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    let leases = t.turn(vec![]).await.jobs;
    assert_eq!(leases.len(), 2);
    t.deliver(&all).await;
    let next = |lease: &JobLease| (lease.job.reader == key.reader()).then_some(0);
    let done = leases.iter().flat_map(|lease| over(lease, next(lease))).collect();
    t.engine.claim_jobs(done, 0, TURN_MS, t.now).await.unwrap();
    t.reopen_keeping(ReportLimits::default()).await;
    assert_eq!(t.only_job().await.job, t.job(&key));
    t.give(&["b"]).await;
    t.pass(BATCH_MS);
    assert_eq!(t.only_job().await.job, t.job(&all));
    assert_eq!(
        (gifts(&t.deliver(&key).await), gifts(&t.deliver(&all).await)),
        (["a", "b"].map(String::from).to_vec(), vec!["b".to_owned()])
    );
}

async fn webhooks_of_a_feed_go_their_own_ways(mut t: Case) {
    let keys = [of_feed(&t.feed, "w"), of_feed(&t.feed, "v"), of_all("w")];
    for key in &keys {
        t.hook(key).await;
    }
    t.give(&["a", "b"]).await;
    t.pass(BATCH_MS);
    assert_eq!(t.turn(vec![]).await.jobs.len(), 3);
    give_up(&mut t, &keys[0], 1).await;
    let left: Vec<u64> = [t.open_job(&keys[0]).await, t.open_job(&keys[1]).await, t.open_job(&keys[2]).await]
        .into_iter()
        .map(|work| work.unwrap().backlog)
        .collect();
    assert_eq!(left, [1, 2, 2]);
    assert_eq!(t.letters(&keys[2].reader()).await, []);
}

async fn first_entry_wakes(store: Storage) {
    let mut t = Case::on(store).await;
    let key = of_feed(&t.feed, "w");
    t.hook(&key).await;
    let mut wakes = t.engine.job_wakes();
    t.give(&["a"]).await;
    let in_ms = tokio::time::timeout(PATIENCE, wakes.next()).await.expect("a wake-up");
    assert!(in_ms <= BATCH_MS, "{in_ms}");
}

#[tokio::test]
async fn a_first_entry_wakes_who_waits_for_jobs_on_the_embedded_store() {
    first_entry_wakes(Storage::embedded()).await;
}

#[tokio::test]
async fn a_first_entry_wakes_who_waits_for_jobs_on_redis() {
    first_entry_wakes(Storage::redis()).await;
}
