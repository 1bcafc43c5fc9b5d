//! Webhooks as the store has them: set, changed by one at a time, and gone with all they have.

use tipcast::domain::{Cursor, Hook, HookFault, HookScope, HookState, Job, Replay};
use tipcast::engine::{Death, HOOKS_OF_ALL_MAX, JobDone, JobLease, READERS_MAX, Save, Swapped};

use crate::support::case::Case;
use crate::support::readers::{BATCH_MS, WANT, gifts, of_all, of_feed, spec};

on_every_engine![
    a_webhook_is_swapped_by_who_knows_its_version,
    webhooks_are_listed_by_scope_and_name,
    a_feed_has_so_many_webhooks_and_no_more,
    there_are_so_many_webhooks_of_all_feeds_and_no_more,
    a_new_webhook_begins_at_the_end,
    a_webhook_that_is_set_again_goes_on,
    a_webhook_of_all_feeds_begins_with_what_came_since,
    a_webhook_of_all_feeds_reads_feeds_that_begin_later,
    a_webhook_that_is_deleted_takes_all_it_has_along,
    a_webhook_of_all_feeds_that_is_deleted_takes_all_it_has_along_everywhere,
    feeds_in_which_a_webhook_of_all_feeds_has_dead_letters_are_listed,
    an_installation_has_one_key_of_signatures,
];

/// Gives up the first entry that waits.
async fn bury_first(t: &mut Case, key: &tipcast::domain::HookKey) -> Cursor {
    let work = t.open_job(key).await.unwrap();
    let cursor = work.entries[0].cursor;
    let dead = vec![Death { cursor, attempts: 3, reason: "410 Gone".into() }];
    let save = Save { was: work.progress, through: Some(cursor), dead, ..Save::default() };
    assert!(t.save_job(key, save).await.is_some());
    cursor
}

/// Jobs whose time has come and that have something to send. One that has nothing ends with its turn.
async fn work_there_is(t: &mut Case) -> Vec<Job> {
    let (mut over, mut there) = (vec![], vec![]);
    for JobLease { job, token } in t.turn(vec![]).await.jobs {
        match t.engine.open_job(&job, WANT, t.now).await.unwrap() {
            Some(work) if work.backlog > 0 => there.push(job),
            _ => over.push(JobDone { job, token, next_in_ms: None }),
        }
    }
    assert_eq!(t.turn(over).await.waiting, there.len() as u64);
    there
}

async fn a_webhook_is_swapped_by_who_knows_its_version(mut t: Case) {
    for key in [of_feed(&t.feed, "w"), of_all("w")] {
        assert_eq!(t.engine.read_webhook(&key).await.unwrap(), None);
        assert_eq!(t.swap(&key, Some(1), Some(Hook::new(spec(), t.now))).await, Swapped::Stale);
        assert_eq!(t.swap(&key, Some(1), None).await, Swapped::Stale);
        assert_eq!(t.swap(&key, None, None).await, Swapped::Done, "nothing in the place of nothing");
        let first = t.hook(&key).await;
        assert_eq!(t.engine.read_webhook(&key).await.unwrap(), Some(first.clone()));
        assert_eq!(t.swap(&key, None, Some(first.clone())).await, Swapped::Stale);
        let fault = HookFault { at: 5, text: "\"503\" Service \u{1F339}\n".into() };
        let mut second = first.set(spec(), 1_000, t.now);
        second.state = HookState::Disabled;
        (second.last_error, second.failing_since) = (Some(fault), Some(t.now.0));
        second.before = Some(("whsec_before".into(), 7));
        assert_eq!(t.swap(&key, Some(1), Some(second.clone())).await, Swapped::Done);
        assert_eq!(t.engine.read_webhook(&key).await.unwrap(), Some(second.clone()));
        assert_eq!(t.swap(&key, Some(1), Some(first)).await, Swapped::Stale);
        assert_eq!(t.swap(&key, Some(1), None).await, Swapped::Stale);
        assert_eq!(t.engine.read_webhook(&key).await.unwrap(), Some(second));
        assert_eq!(t.swap(&key, Some(2), None).await, Swapped::Done);
        assert_eq!(t.engine.read_webhook(&key).await.unwrap(), None);
    }
}

async fn webhooks_are_listed_by_scope_and_name(mut t: Case) {
    let (feed, other) = (t.feed.clone(), "another".parse().unwrap());
    let mut keys =
        [of_feed(&feed, "b"), of_all("a"), of_feed(&feed, "a"), of_feed(&other, "c"), of_all("b")].to_vec();
    for key in &keys {
        t.hook(key).await;
    }
    let mut listed: Vec<_> =
        t.engine.list_webhooks().await.unwrap().into_iter().map(|(key, _)| key).collect();
    // Whether those of all feeds come first or last does not matter.
    listed.sort_by_key(|key| matches!(key.scope, HookScope::All));
    keys.sort();
    assert_eq!(listed, keys);
}

async fn a_feed_has_so_many_webhooks_and_no_more(mut t: Case) {
    t.take("g").await;
    for n in 1..READERS_MAX {
        let key = of_feed(&t.feed, &format!("w{n}"));
        t.hook(&key).await;
    }
    let (last, first) = (of_feed(&t.feed, "last"), of_feed(&t.feed, "w1"));
    let hook = Hook::new(spec(), t.now);
    assert_eq!(t.swap(&last, None, Some(hook.clone())).await, Swapped::Full);
    assert_eq!(t.engine.read_webhook(&last).await.unwrap(), None);
    let set = hook.set(spec(), 0, t.now);
    assert_eq!(t.swap(&first, Some(1), Some(set)).await, Swapped::Done, "one that is there changes");
    assert_eq!(t.swap(&first, Some(2), None).await, Swapped::Done);
    assert_eq!(t.swap(&last, None, Some(hook)).await, Swapped::Done);
}

async fn there_are_so_many_webhooks_of_all_feeds_and_no_more(mut t: Case) {
    for n in 0..HOOKS_OF_ALL_MAX {
        t.hook(&of_all(&format!("w{n}"))).await;
    }
    let hook = Hook::new(spec(), t.now);
    assert_eq!(t.swap(&of_all("last"), None, Some(hook.clone())).await, Swapped::Full);
    let own = of_feed(&t.feed, "last");
    assert_eq!(t.swap(&own, None, Some(hook.clone())).await, Swapped::Done, "a feed's own is no matter");
    assert_eq!(t.swap(&of_all("w3"), Some(1), None).await, Swapped::Done);
    assert_eq!(t.swap(&of_all("last"), None, Some(hook)).await, Swapped::Done);
}

async fn a_new_webhook_begins_at_the_end(mut t: Case) {
    t.give(&["a"]).await;
    let key = of_feed(&t.feed, "w");
    t.hook(&key).await;
    let work = t.open_job(&key).await.unwrap();
    assert_eq!((work.entries, work.backlog, work.progress, work.now), (vec![], 0, String::new(), t.now));
    t.give(&["b", "c"]).await;
    assert_eq!(gifts(&t.deliver(&key).await), ["b", "c"]);
}

async fn a_webhook_that_is_set_again_goes_on(mut t: Case) {
    let key = of_feed(&t.feed, "w");
    let hook = t.hook(&key).await;
    t.give(&["a", "b"]).await;
    bury_first(&mut t, &key).await;
    t.swap(&key, Some(1), Some(hook.set(spec(), 0, t.now))).await;
    assert_eq!(gifts(&t.deliver(&key).await), ["b"]);
    assert_eq!(t.letters(&key.reader()).await.len(), 1);
}

async fn a_webhook_of_all_feeds_begins_with_what_came_since(mut t: Case) {
    t.give(&["a", "b"]).await;
    t.pass(1);
    let since = t.now;
    t.give(&["c"]).await;
    t.pass(5);
    t.give(&["d"]).await;
    t.pass(5);
    let key = of_all("w");
    assert_eq!(t.swap(&key, None, Some(Hook::new(spec(), since))).await, Swapped::Done);
    t.give(&["e"]).await;
    t.pass(BATCH_MS);
    assert_eq!(t.only_job().await.job, t.job(&key));
    assert_eq!(gifts(&t.deliver(&key).await), ["c", "d", "e"]);
}

async fn a_webhook_of_all_feeds_reads_feeds_that_begin_later(mut t: Case) {
    let key = of_all("w");
    t.hook(&key).await;
    assert_eq!(t.turn(vec![]).await.waiting, 0);
    t.pass(10);
    t.give(&["a"]).await;
    t.pass(BATCH_MS);
    assert_eq!(t.only_job().await.job, t.job(&key));
    assert_eq!(gifts(&t.deliver(&key).await), ["a"]);
}

async fn a_webhook_that_is_deleted_takes_all_it_has_along(mut t: Case) {
    let (key, stays) = (of_feed(&t.feed, "w"), of_feed(&t.feed, "stays"));
    t.hook(&key).await;
    t.hook(&stays).await;
    t.give(&["a", "b"]).await;
    bury_first(&mut t, &key).await;
    assert_eq!(t.swap(&key, Some(1), None).await, Swapped::Done);
    assert_eq!(t.open_job(&key).await, None);
    assert_eq!(t.save_job(&key, Save::default()).await, None);
    assert_eq!(t.letters(&key.reader()).await, []);
    assert_eq!(t.replay(&key.reader(), Replay::All).await, 0);
    t.give(&["c"]).await;
    t.pass(BATCH_MS);
    assert_eq!(work_there_is(&mut t).await, [t.job(&stays)]);
    t.hook(&key).await;
    assert_eq!(t.open_job(&key).await.unwrap().backlog, 0, "a new one of that name begins anew");
}

async fn a_webhook_of_all_feeds_that_is_deleted_takes_all_it_has_along_everywhere(mut t: Case) {
    let key = of_all("w");
    t.hook(&key).await;
    t.give(&["a", "b"]).await;
    bury_first(&mut t, &key).await;
    assert_eq!(t.swap(&key, Some(1), None).await, Swapped::Done);
    assert_eq!(t.open_job(&key).await, None);
    assert_eq!(t.letters(&key.reader()).await, []);
    t.give(&["c"]).await;
    t.pass(BATCH_MS);
    assert_eq!(work_there_is(&mut t).await, []);
    t.hook(&key).await;
    t.give(&["d"]).await;
    assert_eq!(gifts(&t.deliver(&key).await), ["d"]);
}

async fn feeds_in_which_a_webhook_of_all_feeds_has_dead_letters_are_listed(mut t: Case) {
    let key = of_all("w");
    t.hook(&key).await;
    assert_eq!(t.engine.list_dead_letter_feeds(&key.name).await.unwrap(), []);
    t.give(&["a"]).await;
    bury_first(&mut t, &key).await;
    assert_eq!(t.engine.list_dead_letter_feeds(&key.name).await.unwrap(), [t.feed.clone()]);
    assert_eq!(t.engine.list_dead_letter_feeds(&of_all("other").name).await.unwrap(), []);
}

async fn an_installation_has_one_key_of_signatures(t: Case) {
    let first = t.engine.read_signing_key().await.unwrap().key_set();
    assert_eq!(t.engine.read_signing_key().await.unwrap().key_set(), first);
}
