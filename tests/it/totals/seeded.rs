//! Seeded shows: gifts, frames, repeats, retractions, midnights, sessions, restarts. After every step each total and
//! each ranking is what a plain recount of the ledger gives, to the unit and to the place. `TOTALS_SEEDS` plays more of
//! them, `TIPCAST_SEED` one again.

use serde_json::json;
use tipcast::domain::tally::{LeadersAsk, Measure, Period, Zone};
use tipcast::domain::{MAX_SAFE, Millis};

use super::recount::Recount;
use super::{ranking, totals_of};
use crate::support::case::Case;
use crate::support::dice::{Dice, seeds};
use crate::support::gifts::{GiftSpec, gift};
use crate::support::stores::Storage;

const STEPS: u32 = 60;

fn how_many(from: u64) -> std::ops::Range<u64> {
    let most = std::env::var("TOTALS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    from..from + most
}

#[tokio::test]
async fn the_embedded_store_counts_what_a_recount_of_the_ledger_gives() {
    for seed in seeds(how_many(40_000)) {
        play(Storage::embedded(), seed).await;
    }
}

#[tokio::test]
async fn the_redis_engine_counts_what_a_recount_of_the_ledger_gives() {
    for seed in seeds(how_many(30_000)) {
        play(Storage::redis(), seed).await;
    }
}

#[tokio::test]
async fn a_cluster_counts_what_a_recount_of_the_ledger_gives() {
    for seed in seeds(20_000..20_002) {
        play(Storage::cluster(), seed).await;
    }
}

/// Few users, so that they meet often, or that many that most are in no list of leaders.
fn random_user(dice: &mut Dice, crowd: u64) -> String {
    match dice.below(crowd) {
        n @ 0..6 => ["ann", "bob", "a:b", "a", "\"\n", "cy"][n as usize].to_owned(),
        n => format!("u{n}"),
    }
}

fn random_gift(dice: &mut Dice, n: u64, crowd: u64) -> GiftSpec {
    let id = if dice.one_in(8) && n > 0 { dice.below(n) } else { n };
    let mut spec = gift(&format!("g{id}"));
    let user = &random_user(dice, crowd);
    spec = spec.by(user).kind(dice.of(&["rose", "b:c"])).count(dice.of(&[1, 1, 2, 5, 1_000_000]));
    if dice.one_in(8) {
        spec = spec.with("user", json!({"id": user, "name": "x", "anonymous": true}));
    }
    if dice.one_in(2) {
        spec = spec.value(dice.of(&[0, 1, 5, 250, MAX_SAFE]), dice.of(&["EUR", "EUR", "coins"]));
    }
    if dice.one_in(4) {
        spec = spec.combo(dice.of(&["c", "d"]), dice.of(&[0, 1, 2, 3, 8]));
        if dice.one_in(6) {
            spec = spec.end();
        }
    }
    if dice.one_in(12) {
        spec = spec.test();
    }
    if dice.one_in(10) {
        spec = spec.with("delay_ms", json!(dice.of(&[5, 90_000])));
    }
    spec
}

async fn play(store: Storage, seed: u64) {
    let mut dice = Dice(seed);
    let mut t = Case::on(store).await;
    let zone = dice.of(&["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]);
    let dedup = dice.of(&["combine", "combine", "drop", "off"]);
    let crowd = dice.of(&[6, 6, 60]);
    let policy = json!({"totals": ["all", "session", "day", "week", "month"], "time_zone": zone, "dedup": dedup,
        "points": {"EUR": 2}, "dedup_window_ms": dice.of(&[5_000, 86_400_000]), "capacity": dice.of(&[3, 10])});
    let (began, zone) = (t.now, zone.parse::<Zone>().unwrap());
    t.patch(policy).await;
    let mut recount = Recount::new(&[("EUR", 2)]);
    let (mut session, mut posted, mut shows) = (began, 0, 0);
    for step in 0..STEPS {
        match dice.below(16) {
            0..=7 => {
                let gifts: Vec<_> = (0..dice.of(if crowd > 6 { &[6, 12, 20] } else { &[1, 1, 2, 6] }))
                    .map(|n| random_gift(&mut dice, posted + n, crowd))
                    .collect();
                posted += gifts.len() as u64;
                t.post_all(gifts).await;
            }
            8 => {
                let rows = t.row_ids().await;
                if let Some(row) = rows.get(dice.below(4) as usize) {
                    recount.read(&t).await;
                    t.retract(row).await;
                    recount.undo_row(row);
                }
            }
            9 | 10 => {
                for _ in 0..dice.of(&[1, crowd / 3]) {
                    t.take_back(&format!("g{}", dice.below(posted + 1))).await;
                }
            }
            11 => {
                recount.read(&t).await;
                let user = dice.of(&["ann", "bob", "\"\n"]);
                let theirs = format!("{{\"id\":{},", json!(user));
                let rows = t.list().await.rows;
                t.take_user_back(user).await;
                for row in rows.iter().rev().filter(|row| row.user.starts_with(&theirs)) {
                    recount.undo_row(&row.id);
                }
            }
            12 => t.reopen().await,
            13 => {
                shows += 1;
                t.pass(1);
                t.engine.begin_session(&t.feed, format!("show {}", shows / 2), t.now).await.unwrap();
                if shows == 1 || shows % 2 == 0 {
                    session = t.now;
                }
                t.list().await;
                t.pass(1);
            }
            14 => drop(t.work().await),
            _ => t.pass(dice.of(&[1, 600, 5_000, 100_000, 21_600_000, 40_000_000])),
        }
        recount.read(&t).await;
        compare(&t, &recount, (began, session, &zone), &format!("seed {seed}, step {step}")).await;
    }
}

async fn compare(t: &Case, recount: &Recount, (began, session, zone): (Millis, Millis, &Zone), story: &str) {
    for period in Period::ALL {
        let since = match period {
            Period::All => began,
            Period::Session => session,
            _ => zone.bounds(period, t.now).0,
        };
        let from = if since == began || period == Period::All { Millis(0) } else { since };
        let mine = recount.totals(from.max(Millis(0)), Millis::MAX);
        let got = totals_of(t, period, false).await.unwrap();
        // A currency whose gifts were all taken back stays with nothing, or never was.
        let plain =
            |text: &str| text.split(' ').filter(|word| !word.ends_with("=0")).collect::<Vec<_>>().join(" ");
        assert_eq!(plain(&got), plain(&mine), "{story}: {period}\n{:#?}", recount.events);
        for by in ["points", "units", "EUR", "coins"] {
            let ask =
                LeadersAsk { period, back: false, by: Measure::of(by).unwrap(), limit: 100, user: None };
            let wanted = recount.ranking(from, Millis::MAX, by);
            let few: Vec<_> = wanted.iter().take(7).cloned().collect();
            let some = LeadersAsk { limit: 7, ..ask.clone() };
            assert_eq!(ranking(t, some).await, few, "{story}: {period} by {by}\n{:#?}", recount.events);
            assert_eq!(ranking(t, ask).await, wanted, "{story}: {period} by {by}\n{:#?}", recount.events);
        }
    }
}
