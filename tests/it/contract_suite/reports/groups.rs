//! Groups: where they begin, that each goes its own way, and how they stand.

use tipcast::domain::story::EntryState;
use tipcast::domain::{Ask, Cursor, GroupView, Handed, Reader, Replay, Start};
use tipcast::engine::{Notice, READERS_MAX};

use crate::support::case::{Case, PATIENCE};
use crate::support::gifts::gift;
use crate::support::readers::{ASK, cursors, group_of, handed, of_feed, reader_of};

on_every_engine![
    the_first_claim_makes_the_group_from_the_start_or_from_now,
    a_group_may_be_there_before_the_first_entry,
    two_groups_go_their_own_ways,
    a_claim_gets_as_many_as_it_asks_for,
    a_group_stands_as_it_has_claimed_and_acknowledged,
    an_entrys_story_has_its_state_in_each_group,
    nothing_is_known_of_a_group_that_is_not_there,
    a_group_that_is_deleted_is_forgotten_with_all_it_has,
    readers_are_listed_by_name,
    a_feed_has_so_many_readers_and_no_more,
    publishers_and_claimers_at_the_same_time_lose_nothing_and_repeat_nothing,
    subscriptions_are_told_of_entries_that_change_nothing_and_of_what_is_given_back,
];

async fn the_first_claim_makes_the_group_from_the_start_or_from_now(mut t: Case) {
    t.give(&["a", "b"]).await;
    assert_eq!(handed(&t.take("start").await), ["a", "b"]);
    let now = Ask { from: Start::Now, ..ASK };
    assert_eq!(t.ask("now", now).await.unwrap().entries, []);
    t.give(&["c"]).await;
    assert_eq!(handed(&t.ask("now", now).await.unwrap().entries), ["c"]);
    // Only the first claim says where.
    assert_eq!(handed(&t.ask("start", now).await.unwrap().entries), ["c"]);
    assert_eq!(t.take("now").await, []);
}

async fn a_group_may_be_there_before_the_first_entry(mut t: Case) {
    let taken = t.ask("a", ASK).await.unwrap();
    assert_eq!((taken.entries, taken.next_in_ms), (vec![], None));
    assert_eq!(t.ask("b", Ask { from: Start::Now, ..ASK }).await.unwrap().entries, []);
    assert_eq!(t.group("a").await, Some(GroupView::default()));
    t.give(&["a"]).await;
    assert_eq!(t.stands("a").await, (1, 0, 0));
    assert_eq!(handed(&t.take("a").await), ["a"]);
    assert_eq!(handed(&t.take("b").await), ["a"]);
}

async fn two_groups_go_their_own_ways(mut t: Case) {
    t.give(&["a", "b", "c"]).await;
    let one = t.take("one").await;
    assert_eq!(t.ack("one", &cursors(&one)).await, Some(3));
    let two = t.take("two").await;
    assert_eq!(two, one);
    assert_eq!(t.nack("two", &cursors(&two)[..1]).await, Some(1));
    assert_eq!(t.take("one").await, []);
    assert_eq!((t.stands("one").await, t.stands("two").await), ((0, 0, 0), (0, 3, 0)));
}

async fn a_claim_gets_as_many_as_it_asks_for(mut t: Case) {
    t.give_many(0..260).await;
    let first = t.ask("g", Ask { max: 1, ..ASK }).await.unwrap().entries;
    assert_eq!(handed(&first), ["n0"]);
    let more = t.ask("g", Ask { max: 258, ..ASK }).await.unwrap().entries;
    assert_eq!((more.len(), handed(&more[..1])), (258, vec!["n1".to_owned()]));
    assert_eq!(handed(&t.take("g").await), ["n259"]);
    assert_eq!(t.take("g").await, []);
}

async fn a_group_stands_as_it_has_claimed_and_acknowledged(mut t: Case) {
    t.give(&["a"]).await;
    t.pass(10);
    t.give(&["b"]).await;
    t.pass(10);
    t.give(&["c"]).await;
    t.pass(5);
    let two = t.ask("g", Ask { max: 2, ..ASK }).await.unwrap().entries;
    let view = |lag, pending, oldest_ms| GroupView { lag, pending, oldest_ms, dead: 0, lost: 0 };
    assert_eq!(t.group("g").await, Some(view(1, 2, 25)));
    t.ack("g", &cursors(&two)[..1]).await;
    assert_eq!(t.group("g").await, Some(view(1, 1, 15)));
    t.ack("g", &cursors(&two)).await;
    assert_eq!(t.group("g").await, Some(view(1, 0, 5)));
    t.consume("g").await;
    assert_eq!(t.group("g").await, Some(view(0, 0, 0)));
}

async fn an_entrys_story_has_its_state_in_each_group(mut t: Case) {
    let g = reader_of("g");
    t.give(&["a", "b", "c", "d"]).await;
    let all = cursors(&t.take("first").await);
    assert_eq!(t.state_of(&g, all[0]).await, None, "it does not read here");
    let taken = t.ask("g", Ask { max: 3, ..ASK }).await.unwrap().entries;
    t.ack("g", &cursors(&taken)[..1]).await;
    t.nack("g", &cursors(&taken)[1..2]).await;
    t.take("late").await;
    assert_eq!(t.state_of(&g, all[0]).await, Some(EntryState::Acknowledged));
    assert_eq!(t.state_of(&g, all[1]).await, Some(EntryState::Pending(1)));
    assert_eq!(t.state_of(&g, all[2]).await, Some(EntryState::Pending(1)));
    assert_eq!(t.state_of(&g, all[3]).await, Some(EntryState::Waiting));
    t.pass(1_000);
    t.take("g").await;
    assert_eq!(t.state_of(&g, all[1]).await, Some(EntryState::Pending(2)));
    assert_eq!(t.state_of(&g, all[3]).await, Some(EntryState::Pending(1)));
    t.ask("now", Ask { from: Start::Now, ..ASK }).await.unwrap();
    t.give(&["e"]).await;
    let now = reader_of("now");
    assert_eq!(t.state_of(&now, all[3]).await, None, "it began later");
    let last = cursors(&t.take("now").await)[0];
    assert_eq!(t.state_of(&now, last).await, Some(EntryState::Pending(1)));
    t.reopen().await;
    assert_eq!(t.state_of(&now, all[3]).await, None);
    for _ in 0..16 {
        t.nack("g", &[all[2]]).await;
        t.pass(60_000);
        t.take("g").await;
    }
    assert_eq!(t.nack("g", &[all[2]]).await, Some(0), "it is pending no more");
    let Some(EntryState::Dead { attempts: 16, .. }) = t.state_of(&g, all[2]).await else {
        panic!("not dead");
    };
    t.replay(&g, Replay::All).await;
    assert!(matches!(t.state_of(&g, all[2]).await, Some(EntryState::Pending(_))));
}

async fn nothing_is_known_of_a_group_that_is_not_there(mut t: Case) {
    t.give(&["a"]).await;
    let cursor = Cursor::first(t.now);
    assert_eq!(t.group("g").await, None);
    assert_eq!((t.ack("g", &[cursor]).await, t.nack("g", &[cursor]).await), (None, None));
    assert_eq!(t.letters(&reader_of("g")).await, []);
    assert_eq!(t.replay(&reader_of("g"), Replay::All).await, 0);
    assert!(!t.engine.delete_group(&t.feed, &group_of("g")).await.unwrap());
    assert_eq!(t.group("g").await, None, "asking makes none");
    assert_eq!(t.engine.list_readers(Some(&t.feed)).await.unwrap(), []);
}

async fn a_group_that_is_deleted_is_forgotten_with_all_it_has(mut t: Case) {
    t.give(&["a", "b"]).await;
    t.take("g").await;
    t.take("other").await;
    assert!(t.engine.delete_group(&t.feed, &group_of("g")).await.unwrap());
    assert_eq!(t.group("g").await, None);
    assert!(!t.engine.delete_group(&t.feed, &group_of("g")).await.unwrap());
    assert_eq!(t.stands("other").await, (0, 2, 0));
    let anew = t.take("g").await;
    assert_eq!((handed(&anew), anew[0].attempt), (vec!["a".to_owned(), "b".to_owned()], 1));
}

async fn readers_are_listed_by_name(mut t: Case) {
    let engine = t.engine.clone();
    let mut other =
        Case::with(crate::support::stores::Storage::model(), engine, "another".parse().unwrap()).await;
    t.take("b").await;
    t.take("a").await;
    other.take("c").await;
    let hook = of_feed(&t.feed, "a");
    t.hook(&hook).await;
    let of = |case: &Case, reader: Reader| (case.feed.clone(), reader);
    let own = [of(&t, reader_of("a")), of(&t, reader_of("b")), of(&t, hook.reader())];
    assert_eq!(t.engine.list_readers(Some(&t.feed)).await.unwrap(), own);
    let mut groups = vec![of(&t, reader_of("a")), of(&t, reader_of("b")), of(&other, reader_of("c"))];
    groups.sort();
    assert_eq!(t.engine.list_readers(None).await.unwrap(), groups);
}

async fn a_feed_has_so_many_readers_and_no_more(mut t: Case) {
    t.give(&["a"]).await;
    for n in 1..READERS_MAX {
        assert_eq!(t.take(&format!("g{n}")).await.len(), 1);
    }
    let hook = of_feed(&t.feed, "w");
    t.hook(&hook).await;
    assert_eq!(t.ask("one-too-many", ASK).await, None);
    assert_eq!(t.group("one-too-many").await, None);
    assert_eq!(t.take("g1").await, [], "the others go on");
    assert!(t.engine.delete_group(&t.feed, &group_of("g1")).await.unwrap());
    assert_eq!(t.take("one-too-many").await.len(), 1);
}

async fn subscriptions_are_told_of_entries_that_change_nothing_and_of_what_is_given_back(mut t: Case) {
    t.patch(serde_json::json!({"dedup": "drop"})).await;
    t.accepted(gift("a")).await;
    let all = t.take("g").await;
    let mut told = t.engine.subscribe(&t.feed).await.unwrap();
    for step in 0..2 {
        match step {
            0 => drop(t.suppressed(gift("b")).await),
            _ => assert_eq!(t.nack("g", &cursors(&all)).await, Some(1)),
        }
        loop {
            let notice = tokio::time::timeout(PATIENCE, told.next()).await.expect("it is told");
            if matches!(notice.expect("open"), Notice::Changes(changes) if changes.is_empty()) {
                break;
            }
        }
    }
}

async fn publishers_and_claimers_at_the_same_time_lose_nothing_and_repeat_nothing(mut t: Case) {
    const EACH: usize = 40;
    const PUBLISHERS: usize = 6;
    t.ask("g", ASK).await.unwrap();
    let mut work = tokio::task::JoinSet::new();
    for publisher in 0..PUBLISHERS {
        let (engine, feed, now) = (t.engine.clone(), t.feed.clone(), t.now);
        work.spawn(async move {
            for n in 0..EACH {
                let id = format!("{publisher}-{n}");
                engine.publish(&feed, vec![gift(&id).by(&id).parse()], now).await.unwrap();
            }
            vec![]
        });
    }
    for _ in 0..3 {
        let (engine, feed, now) = (t.engine.clone(), t.feed.clone(), t.now);
        work.spawn(async move {
            let (group, ask) = (group_of("g"), Ask { max: 7, ..ASK });
            let mut all: Vec<Handed> = vec![];
            // As many rounds as it takes does not matter: what is left is claimed below.
            for _ in 0..EACH {
                all.extend(engine.claim_entries(&feed, &group, ask, now).await.unwrap().unwrap().entries);
            }
            all
        });
    }
    let mut all: Vec<Handed> = work.join_all().await.into_iter().flatten().collect();
    all.extend(t.take("g").await);
    assert!(all.iter().all(|it| it.attempt == 1));
    all.sort_by_key(|it| it.entry.cursor);
    let numbers = cursors(&all);
    let first = Cursor::first(t.now).0;
    let wanted: Vec<Cursor> = (first..first + (EACH * PUBLISHERS) as u64).map(Cursor).collect();
    assert_eq!(numbers, wanted);
    let mut ids = handed(&all);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), EACH * PUBLISHERS);
    t.list().await;
}
