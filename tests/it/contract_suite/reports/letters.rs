//! Entries that are given up, and what is sent again.

use tipcast::domain::story::EntryState;
use tipcast::domain::{Ask, Cursor, DeadLetter, EntryStatus, Replay};
use tipcast::engine::ReportLimits;

use crate::support::case::Case;
use crate::support::readers::{ASK, attempts, cursors, gifts, handed, reader_of};

on_every_engine![
    an_entry_that_was_handed_out_too_often_is_a_dead_letter,
    entries_returned_too_often_become_dead_letters,
    dead_letters_stay_as_long_as_the_ledger_has_their_entries,
    the_oldest_dead_letters_make_room_and_count_as_lost,
    a_replay_hands_dead_letters_out_anew,
    a_replay_may_name_its_letters,
    letters_and_what_is_replayed_outlive_the_ledger,
    a_dead_letter_is_one_groups_matter,
];

const SHORT: Ask = Ask { lease_ms: 1_000, ..ASK };

async fn trying(t: &mut Case, max_attempts: u64) {
    t.reopen_keeping(ReportLimits { max_attempts, ..ReportLimits::default() }).await;
}

fn dead(letters: &[DeadLetter]) -> Vec<String> {
    gifts(letters.iter().map(|letter| &letter.entry))
}

/// Has these handed out once and given up.
async fn give_up(t: &mut Case, ids: &[&str]) -> Vec<Cursor> {
    trying(t, 1).await;
    t.give(ids).await;
    let all = t.ask("g", SHORT).await.unwrap().entries;
    assert_eq!(handed(&all), ids);
    t.pass(1_000);
    assert_eq!(t.take("g").await, []);
    cursors(&all)
}

async fn an_entry_that_was_handed_out_too_often_is_a_dead_letter(mut t: Case) {
    trying(&mut t, 2).await;
    t.give(&["a", "b"]).await;
    let first = t.ask("g", SHORT).await.unwrap().entries;
    t.pass(1_000);
    let second = t.ask("g", SHORT).await.unwrap().entries;
    assert_eq!(attempts(&second), [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    t.ack("g", &cursors(&second)[1..]).await;
    t.pass(1_000);
    assert_eq!(t.letters(&reader_of("g")).await, [], "it dies when it would be handed out");
    t.give(&["c"]).await;
    assert_eq!(handed(&t.take("g").await), ["c"], "and holds up nobody");
    let letters = t.letters(&reader_of("g")).await;
    assert_eq!(dead(&letters), ["a"]);
    let DeadLetter { died_at, reason, attempts, entry } = &letters[0];
    assert_eq!((*died_at, *attempts, entry), (t.now, 2, &first[0].entry));
    assert!(!reason.is_empty());
    assert_eq!(t.stands("g").await, (0, 1, 1));
    assert_eq!(t.ack("g", &[first[0].entry.cursor]).await, Some(0), "it is pending no more");
}

async fn entries_returned_too_often_become_dead_letters(mut t: Case) {
    trying(&mut t, 2).await;
    t.give(&["a"]).await;
    for attempt in 1..=2 {
        let all = t.take("g").await;
        assert_eq!(attempts(&all), [("a".to_owned(), attempt)]);
        assert_eq!(t.nack("g", &cursors(&all)).await, Some(1));
        t.pass(2_000);
    }
    assert_eq!(t.take("g").await, []);
    assert_eq!(dead(&t.letters(&reader_of("g")).await), ["a"]);
    assert_eq!(t.ask("g", ASK).await.unwrap().next_in_ms, None);
}

async fn dead_letters_stay_as_long_as_the_ledger_has_their_entries(mut t: Case) {
    t.reopen_keeping(ReportLimits { max_attempts: 1, dead_max: 3, ..ReportLimits::default() }).await;
    t.ask("g", SHORT).await.unwrap();
    t.give_many(0..1_200).await;
    for _ in 0..12 {
        assert_eq!(t.ask("g", Ask { max: 100, ..SHORT }).await.unwrap().entries.len(), 100);
        t.pass(1_000);
    }
    assert_eq!(t.take("g").await, []);
    let letters = t.letters(&reader_of("g")).await;
    assert_eq!(letters.len(), 1_200);
    let view = t.group("g").await.unwrap();
    assert_eq!((view.lag, view.pending, view.dead, view.lost), (0, 0, 1_200, 0));
    let state = t.state_of(&reader_of("g"), letters[0].entry.cursor).await;
    assert!(matches!(state, Some(EntryState::Dead { attempts: 1, .. })), "{state:?}");
    // More than one call of the script sends again.
    assert_eq!(t.replay(&reader_of("g"), Replay::All).await, 1_200);
    assert_eq!(t.consume("g").await.len() + t.consume("g").await.len(), 1_200);
}

async fn the_oldest_dead_letters_make_room_and_count_as_lost(mut t: Case) {
    let limits = ReportLimits { ledger_max: 100, max_attempts: 1, dead_max: 3, ..ReportLimits::default() };
    t.reopen_keeping(limits).await;
    t.ask("g", SHORT).await.unwrap();
    t.give(&["a", "b"]).await;
    let first = cursors(&t.ask("g", SHORT).await.unwrap().entries);
    t.pass(1_000);
    assert_eq!(t.take("g").await, []);
    t.give_many(0..900).await;
    t.consume("g").await;
    t.give_many(900..910).await;
    t.ask("g", Ask { max: 2, ..SHORT }).await.unwrap();
    t.pass(1_000);
    t.take("g").await;
    let view = t.group("g").await.unwrap();
    assert_eq!((view.dead, view.lost), (3, 1));
    assert_eq!(dead(&t.letters(&reader_of("g")).await)[0], "b");
    // The first thing that the group gets says so.
    let told = t.ask("g", Ask { max: 1, ..SHORT }).await.unwrap().entries.remove(0);
    assert_eq!((told.entry.status, told.entry.cursor), (EntryStatus::Lost, first[0]));
}

async fn a_replay_hands_dead_letters_out_anew(mut t: Case) {
    let numbers = give_up(&mut t, &["a", "b"]).await;
    trying(&mut t, 2).await;
    t.give(&["c"]).await;
    assert_eq!(t.replay(&reader_of("g"), Replay::All).await, 2);
    assert_eq!(t.letters(&reader_of("g")).await, []);
    assert_eq!(t.replay(&reader_of("g"), Replay::All).await, 0);
    let again = t.ask("g", SHORT).await.unwrap().entries;
    assert_eq!(attempts(&again), ["a", "b", "c"].map(|id| (id.to_owned(), 1)));
    assert_eq!(cursors(&again)[..2], numbers);
    assert_eq!(t.ack("g", &cursors(&again)[..1]).await, Some(1));
    t.pass(1_000);
    let again = t.ask("g", SHORT).await.unwrap().entries;
    assert_eq!(attempts(&again), ["b", "c"].map(|id| (id.to_owned(), 2)));
    t.pass(1_000);
    assert_eq!(t.take("g").await, []);
    assert_eq!(dead(&t.letters(&reader_of("g")).await), ["b", "c"]);
}

async fn a_replay_may_name_its_letters(mut t: Case) {
    let numbers = give_up(&mut t, &["a", "b", "c"]).await;
    let which = Replay::Only(vec![numbers[1], numbers[1], Cursor(5)]);
    assert_eq!(t.replay(&reader_of("g"), which).await, 1);
    assert_eq!(dead(&t.letters(&reader_of("g")).await), ["a", "c"]);
    assert_eq!(handed(&t.take("g").await), ["b"]);
    assert_eq!(t.replay(&reader_of("g"), Replay::Only(vec![])).await, 0);
}

async fn letters_and_what_is_replayed_outlive_the_ledger(mut t: Case) {
    give_up(&mut t, &["a", "b"]).await;
    t.reopen_keeping(ReportLimits { ledger_max: 100, ..ReportLimits::default() }).await;
    for n in 0..8 {
        t.give_many(n * 100..(n + 1) * 100).await;
        t.consume("g").await;
    }
    let first = t.take("other").await;
    assert_eq!(first.len(), 100, "the ledger forgot what all have read");
    assert_eq!(dead(&t.letters(&reader_of("g")).await), ["a", "b"]);
    assert_eq!(t.replay(&reader_of("g"), Replay::All).await, 2);
    assert_eq!(t.group("g").await.unwrap().oldest_ms, 1_000);
    for n in 8..16 {
        t.give_many(n * 100..(n + 1) * 100).await;
        let all = t.ask("g", Ask { max: 102, ..SHORT }).await.unwrap().entries;
        let (again, new) = all.split_at(2);
        assert_eq!((handed(again), new.len()), (vec!["a".to_owned(), "b".to_owned()], 100));
        t.ack("g", &cursors(new)).await;
        t.nack("g", &cursors(again)).await;
        t.pass(60_000);
    }
    assert_eq!(t.group("g").await.unwrap().lost, 0);
}

async fn a_dead_letter_is_one_groups_matter(mut t: Case) {
    give_up(&mut t, &["a"]).await;
    assert_eq!(t.letters(&reader_of("other")).await, []);
    assert_eq!(t.replay(&reader_of("other"), Replay::All).await, 0);
    assert_eq!(handed(&t.take("other").await), ["a"]);
    assert_eq!((t.stands("g").await, t.stands("other").await), ((0, 0, 1), (0, 1, 0)));
}
