//! Entries in the hands of claimers: how long, and what acknowledging and giving back do.

use tipcast::domain::{Ask, Cursor};

use crate::support::case::Case;
use crate::support::readers::{ASK, attempts, cursors, handed};

on_every_engine![
    nobody_else_gets_an_entry_while_its_lease_lasts,
    an_entry_whose_lease_ran_out_goes_to_the_next_claimer,
    repeated_and_new_entries_come_in_ledger_order,
    a_full_claim_hands_out_what_comes_again_first,
    only_what_is_pending_can_be_acknowledged,
    acknowledging_counts_after_the_lease_moved_on,
    returned_entries_go_to_the_next_claimer_after_growing_pauses,
    only_what_is_pending_can_be_given_back,
    a_claim_says_when_the_first_lease_runs_out,
];

const SHORT: Ask = Ask { lease_ms: 1_000, ..ASK };

fn tried(all: &[(&str, u64)]) -> Vec<(String, u64)> {
    all.iter().map(|(id, attempt)| ((*id).to_owned(), *attempt)).collect()
}

async fn nobody_else_gets_an_entry_while_its_lease_lasts(mut t: Case) {
    t.give(&["a", "b"]).await;
    assert_eq!(handed(&t.ask("g", SHORT).await.unwrap().entries), ["a", "b"]);
    t.pass(999);
    assert_eq!(t.ask("g", SHORT).await.unwrap().entries, []);
}

async fn an_entry_whose_lease_ran_out_goes_to_the_next_claimer(mut t: Case) {
    t.give(&["a", "b"]).await;
    let first = t.ask("g", SHORT).await.unwrap().entries;
    assert_eq!(attempts(&first), tried(&[("a", 1), ("b", 1)]));
    t.ack("g", &cursors(&first)[..1]).await;
    t.pass(1_000);
    let second = t.ask("g", SHORT).await.unwrap().entries;
    assert_eq!(attempts(&second), tried(&[("b", 2)]));
    assert_eq!(second[0].entry, first[1].entry);
    t.pass(1_000);
    assert_eq!(attempts(&t.ask("g", SHORT).await.unwrap().entries), tried(&[("b", 3)]));
    assert_eq!(t.stands("g").await, (0, 1, 0));
}

async fn repeated_and_new_entries_come_in_ledger_order(mut t: Case) {
    t.give(&["a", "b", "c"]).await;
    let first = t.ask("g", Ask { max: 3, ..SHORT }).await.unwrap().entries;
    t.ack("g", &cursors(&first)[1..2]).await;
    t.give(&["d"]).await;
    t.pass(1_000);
    assert_eq!(attempts(&t.take("g").await), tried(&[("a", 2), ("c", 2), ("d", 1)]));
}

async fn a_full_claim_hands_out_what_comes_again_first(mut t: Case) {
    t.give(&["a", "b", "c", "d"]).await;
    t.ask("g", Ask { max: 3, ..SHORT }).await.unwrap();
    t.pass(1_000);
    let two = Ask { max: 2, ..ASK };
    assert_eq!(attempts(&t.ask("g", two).await.unwrap().entries), tried(&[("a", 2), ("b", 2)]));
    assert_eq!(attempts(&t.ask("g", two).await.unwrap().entries), tried(&[("c", 2), ("d", 1)]));
}

async fn only_what_is_pending_can_be_acknowledged(mut t: Case) {
    t.give(&["a", "b"]).await;
    let one = cursors(&t.ask("g", Ask { max: 1, ..ASK }).await.unwrap().entries);
    let next = Cursor(one[0].0 + 1);
    assert_eq!(t.ack("g", &[next, Cursor(0), Cursor(1), Cursor(next.0 + 1)]).await, Some(0));
    assert_eq!(t.ack("g", &[]).await, Some(0));
    assert_eq!(t.stands("g").await, (1, 1, 0));
    assert_eq!(t.ack("g", &[one[0], one[0], next]).await, Some(1));
    assert_eq!(t.ack("g", &one).await, Some(0), "twice changes nothing");
    assert_eq!(handed(&t.take("g").await), ["b"]);
}

async fn acknowledging_counts_after_the_lease_moved_on(mut t: Case) {
    t.give(&["a", "b"]).await;
    let first = cursors(&t.ask("g", SHORT).await.unwrap().entries);
    t.pass(1_000);
    assert_eq!(t.ack("g", &first[..1]).await, Some(1), "it ran out and nobody has it");
    assert_eq!(handed(&t.take("g").await), ["b"]);
    assert_eq!(t.ack("g", &first[1..]).await, Some(1), "somebody else has it");
    assert_eq!(t.stands("g").await, (0, 0, 0));
}

async fn returned_entries_go_to_the_next_claimer_after_growing_pauses(mut t: Case) {
    t.give(&["a", "b", "c"]).await;
    let all = cursors(&t.take("g").await);
    assert_eq!(t.nack("g", &[all[2], all[0]]).await, Some(2));
    assert_eq!(t.stands("g").await, (0, 3, 0), "given back is not acknowledged");
    assert_eq!(t.take("g").await, []);
    t.pass(999);
    assert_eq!(t.ask("g", ASK).await.unwrap().next_in_ms, Some(1));
    t.pass(1);
    assert_eq!(t.ask("g", Ask { max: 1, ..ASK }).await.unwrap().next_in_ms, Some(0), "there is more");
    assert_eq!(attempts(&t.take("g").await), tried(&[("c", 2)]));
    assert_eq!(t.take("g").await, []);
    t.ack("g", &all[..2]).await;
    for (attempt, pause) in
        [(2, 2_000), (3, 4_000), (4, 8_000), (5, 16_000), (6, 32_000), (7, 60_000), (8, 60_000)]
    {
        assert_eq!(t.nack("g", &all[2..]).await, Some(1));
        t.pass(pause - 1);
        assert_eq!(t.take("g").await, []);
        t.pass(1);
        assert_eq!(attempts(&t.take("g").await), tried(&[("c", attempt + 1)]));
    }
    assert_eq!(t.ack("g", &all[2..]).await, Some(1));
}

async fn only_what_is_pending_can_be_given_back(mut t: Case) {
    t.give(&["a", "b"]).await;
    let one = cursors(&t.ask("g", Ask { max: 1, ..ASK }).await.unwrap().entries);
    assert_eq!(t.nack("g", &[Cursor(one[0].0 + 1), Cursor(7)]).await, Some(0));
    t.ack("g", &one).await;
    assert_eq!(t.nack("g", &one).await, Some(0), "acknowledged is done");
    assert_eq!(attempts(&t.take("g").await), tried(&[("b", 1)]));
}

async fn a_claim_says_when_the_first_lease_runs_out(mut t: Case) {
    assert_eq!(t.ask("g", SHORT).await.unwrap().next_in_ms, None);
    t.give(&["a", "b"]).await;
    let taken = t.ask("g", Ask { max: 1, ..SHORT }).await.unwrap();
    assert_eq!(taken.next_in_ms, Some(1_000));
    t.pass(300);
    assert_eq!(t.take("g").await.len(), 1);
    assert_eq!(t.ask("g", ASK).await.unwrap().next_in_ms, Some(700));
    t.ack("g", &cursors(&taken.entries)).await;
    assert_eq!(t.ask("g", ASK).await.unwrap().next_in_ms, Some(30_000));
}
