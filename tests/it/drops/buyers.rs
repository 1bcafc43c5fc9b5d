//! Very many buyers at once: stock is exact.

use std::sync::Arc;

use serde_json::json;
use tipcast::domain::{ClaimRefused, Claimed, FeedId, Millis, Phase};
use tipcast::engine::Store;

use crate::support::case::fresh_feed;
use crate::support::claims::{claim, claim_of, hold, named, rockets, spec_of, with};
use crate::support::stores::Storage;

const BUYERS: usize = 10_000;
const UNITS: u64 = 100;
/// Calls under way: below what both engines hold before they say that they are overloaded.
const AT_ONCE: usize = 2_000;

const NOW: Millis = Millis(1_800_000_000_000);

/// Every buyer claims one unit over one of these engines.
async fn crowd(engines: &[Store], feed: &FeedId) -> (usize, usize) {
    let tickets = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let buyers: Vec<_> = (0..BUYERS)
        .map(|n| {
            let (engine, feed, tickets) = (engines[n % engines.len()].clone(), feed.clone(), tickets.clone());
            tokio::spawn(async move {
                let _ticket = tickets.acquire().await.unwrap();
                let user = format!("u{n}");
                let body =
                    if n % 3 == 0 { hold(&format!("c{n}"), &user) } else { claim(&format!("c{n}"), &user) };
                engine.claim_drop(&feed, &named("r"), claim_of(&body), NOW).await.unwrap()
            })
        })
        .collect();
    let (mut filled, mut sold_out) = (0, 0);
    for buyer in buyers {
        match buyer.await.unwrap() {
            Claimed::New(_) => filled += 1,
            Claimed::Refused(ClaimRefused::SoldOut(0)) => sold_out += 1,
            other => panic!("{other:?}"),
        }
    }
    (filled, sold_out)
}

async fn a_hundred_units_for_ten_thousand_buyers(engines: Vec<Store>) {
    let (feed, drop) = (fresh_feed(), named("r"));
    engines[0].define_drop(&feed, &drop, &spec_of(&rockets(UNITS)), NOW).await.unwrap();
    let (filled, sold_out) = crowd(&engines, &feed).await;
    assert_eq!((filled, sold_out), (UNITS as usize, BUYERS - UNITS as usize));
    let view = engines[0].tick_drop(&feed, &drop, NOW).await.unwrap().unwrap();
    assert_eq!((view.phase, view.free, view.held + view.sold), (Phase::SoldOut, 0, UNITS));
    let told = &engines[0].read_snapshot(&feed, NOW).await.unwrap().drops[&drop];
    assert_eq!(**told, view, "sold out is told at once");
    // Every hold ends, and every one of their units is sold again, once.
    let later = NOW.plus(1_800_000);
    let back = engines[0].tick_drop(&feed, &drop, later).await.unwrap().unwrap();
    assert_eq!((back.free, back.held, back.sold), (view.held, 0, view.sold));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_buyers_get_a_hundred_units_on_the_embedded_store() {
    let store = Storage::embedded();
    a_hundred_units_for_ten_thousand_buyers(vec![store.open_store().await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_buyers_get_a_hundred_units_on_two_nodes_of_redis() {
    let store = Storage::redis();
    a_hundred_units_for_ten_thousand_buyers(vec![store.open_store().await, store.open_store().await]).await;
}

/// Pay, cancel and time race for each hold: one wins, and the unit is somewhere exactly once.
async fn the_call_that_removes_a_hold_wins(engines: Vec<Store>) {
    const HOLDS: u64 = 200;
    let (feed, drop) = (fresh_feed(), named("r"));
    let spec = spec_of(&with(rockets(HOLDS), "hold_ttl_ms", json!(1_000)));
    engines[0].define_drop(&feed, &drop, &spec, NOW).await.unwrap();
    let mut holds = vec![];
    for n in 0..HOLDS {
        let body = hold(&format!("c{n}"), &format!("u{n}"));
        match engines[0].claim_drop(&feed, &drop, claim_of(&body), NOW).await.unwrap() {
            Claimed::New(answer) => holds.push(answer.claim),
            other => panic!("{other:?}"),
        }
    }
    // Half a millisecond before, and the very millisecond in which they end.
    let (before, over) = (NOW.plus(999), NOW.plus(1_000));
    let races: Vec<_> = holds
        .into_iter()
        .enumerate()
        .map(|(n, hold)| {
            let (one, two, feed) = (engines[0].clone(), engines[engines.len() - 1].clone(), feed.clone());
            tokio::spawn(async move {
                let at = if n % 2 == 0 { before } else { over };
                let (paid, cancelled, ticked) = tokio::join!(
                    one.confirm_hold(&feed, &hold, None, before),
                    two.cancel_hold(&feed, &hold, before),
                    two.tick_drop(&feed, &hold.drop, at),
                );
                ticked.unwrap();
                use tipcast::domain::{Cancelled, Confirmed};
                match (paid.unwrap(), cancelled.unwrap()) {
                    (Confirmed::New(_), Cancelled::Ended) => (1, 0),
                    (Confirmed::Ended, Cancelled::Done) => (0, 1),
                    (Confirmed::Ended, Cancelled::Ended) => (0, 0),
                    both => panic!("{both:?}"),
                }
            })
        })
        .collect();
    let (mut paid, mut cancelled) = (0, 0);
    for race in races {
        let (p, c) = race.await.unwrap();
        (paid, cancelled) = (paid + p, cancelled + c);
    }
    let view = engines[0].tick_drop(&feed, &drop, over).await.unwrap().unwrap();
    assert_eq!((view.free, view.held, view.sold), (HOLDS - paid, 0, paid), "{cancelled} were cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_that_removes_a_hold_wins_on_the_embedded_store() {
    let store = Storage::embedded();
    the_call_that_removes_a_hold_wins(vec![store.open_store().await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_that_removes_a_hold_wins_on_two_nodes() {
    let store = Storage::redis();
    the_call_that_removes_a_hold_wins(vec![store.open_store().await, store.open_store().await]).await;
}
