//! Seeded shows, in any order: gifts, combos, repeats, reviews, blocks, schedules, sales, retractions by id, row and user,
//! restarts. After every step the deltas of the ledger add up to what the producer counted itself, and to the totals.
//! `TIPCAST_SEED` plays one again.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::json;
use tipcast::domain::answer::GiftFate;
use tipcast::domain::moderate::GiftRefunded;
use tipcast::domain::tally::Period;
use tipcast::domain::{
    Answer, Block, BlockScope, ClaimOutcome, Claimed, Confirmed, Decision, GiftId, HoldId, Outcome, RowId,
    Status,
};
use tipcast::engine::DueFate;

use crate::support::case::Case;
use crate::support::claims::{claim, hold, rockets, with};
use crate::support::dice::{Dice, seeds};
use crate::support::gifts::{GiftSpec, gift};
use crate::support::stores::Storage;

const STEPS: u32 = 150;

#[tokio::test]
async fn the_embedded_store_enters_what_was_given() {
    for seed in seeds(60_000..60_012) {
        play(Storage::embedded(), seed).await;
    }
}

#[tokio::test]
async fn the_redis_engine_enters_what_was_given() {
    for seed in seeds(61_000..61_008) {
        play(Storage::redis(), seed).await;
    }
}

#[tokio::test]
async fn the_model_enters_what_was_given() {
    for seed in seeds(60_000..60_012) {
        play(Storage::model(), seed).await;
    }
}

/// Units, and minor units by currency.
type Sums = BTreeMap<String, i64>;

/// What a producer knows of one gift or sale.
struct Given {
    id: String,
    user: String,
    row: Option<RowId>,
    what: Sums,
    refunded: i64,
    is_sale: bool,
    back: bool,
}

/// The producer's own book.
#[derive(Default)]
struct Book {
    sent: HashMap<String, GiftSpec>,
    given: Vec<Given>,
    in_review: HashSet<String>,
    combos: HashMap<String, Sums>,
    ended: HashSet<RowId>,
}

impl Book {
    fn answered(&mut self, answer: &Answer) {
        self.enter(&answer.id.to_string(), answer.status, answer.row.clone());
    }

    fn enter(&mut self, id: &str, status: Status, row: Option<RowId>) {
        let event = self.sent[id].json();
        self.in_review.remove(id);
        if event["test"] == true {
            return;
        }
        let mut what = Sums::new();
        let combo = event.get("combo");
        let count = combo.map_or(&event["count"], |combo| &combo["count"]).as_i64().unwrap_or(1);
        what.insert("units".into(), count.max(1));
        if let Some(value) = event.get("value") {
            what.insert(value["currency"].as_str().unwrap().into(), value["amount"].as_i64().unwrap());
        }
        if let Some(combo) = combo {
            let key = format!("{} {} {}", event["user"]["id"], event["gift"]["id"], combo["id"]);
            let known = self.combos.entry(key).or_default();
            let ended = status == Status::Merged && row.as_ref().is_some_and(|row| self.ended.contains(row));
            for (by, is) in &mut what {
                let was = known.entry(by.clone()).or_default();
                let grown = if ended { 0 } else { (*is - *was).max(0) };
                *was += grown;
                *is = grown;
            }
            if combo["end"] == true {
                self.ended.extend(row.clone());
            }
        }
        // What kept a gift from being shown is no row of it.
        let row = row.filter(|_| status != Status::Suppressed);
        let user = event["user"]["id"].as_str().unwrap().to_owned();
        self.given.push(Given { id: id.into(), user, row, what, refunded: 0, is_sale: false, back: false });
    }

    fn sold(&mut self, id: &str, user: &str, count: i64, row: RowId) {
        let what = Sums::from([("units".to_owned(), count)]);
        let (id, user) = (id.to_owned(), user.to_owned());
        self.given.push(Given { id, user, row: Some(row), what, refunded: 0, is_sale: true, back: false });
    }

    /// A whole refund takes the gift back; part of one takes what was not refunded before.
    fn refunded(&mut self, id: &str, refunded: i64, done: &GiftRefunded) {
        let Some(given) = self.given.iter_mut().find(|it| !it.is_sale && it.id == id) else { return };
        let before = given.refunded;
        let Some(worth) = given.what.iter_mut().find(|(by, _)| *by != "units").map(|(_, amount)| amount)
        else {
            assert!(
                matches!(done, GiftRefunded::NoValue | GiftRefunded::Done { whole: true, .. }),
                "{done:?}"
            );
            return;
        };
        let value = *worth + before;
        match done {
            _ if given.back => assert!(matches!(done, GiftRefunded::Done { whole: true, .. }), "{done:?}"),
            GiftRefunded::Above(most) => assert!(*most as i64 == value && refunded > value, "{done:?}"),
            GiftRefunded::Done { whole, refunded: so_far, .. } => {
                assert_eq!(
                    (*whole, *so_far as i64),
                    (refunded == value && refunded > before, refunded.max(before))
                );
                given.back = *whole;
                if refunded > before && !whole {
                    (given.refunded, *worth) = (refunded, value - refunded);
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn taken_back(&mut self, which: impl Fn(&Given) -> bool) {
        self.given.iter_mut().filter(|it| which(it)).for_each(|it| it.back = true);
    }

    fn sums(&self) -> Sums {
        let mut all = Sums::new();
        for (by, n) in self.given.iter().filter(|it| !it.back).flat_map(|it| &it.what) {
            *all.entry(by.clone()).or_default() += n;
        }
        all
    }
}

const USERS: [&str; 4] = ["ann", "bob", "a:b", "\"\n"];

/// Where gifts wait for a host, none is for later as well.
fn random_gift(dice: &mut Dice, n: u64, reviewed: bool) -> GiftSpec {
    let mut spec = gift(&format!("g{n}")).by(dice.of(&USERS)).kind(dice.of(&["rose", "b:c"]));
    spec = spec.count(dice.of(&[1, 1, 2, 7]));
    if dice.one_in(2) {
        spec = spec.value(dice.of(&[0, 1, 5, 250]), dice.of(&["EUR", "EUR", "coins"]));
    }
    if dice.one_in(3) {
        spec = spec.combo(dice.of(&["c", "d"]), dice.of(&[0, 1, 2, 3, 8, 40]));
        if dice.one_in(8) {
            spec = spec.end();
        }
    }
    if dice.one_in(6) {
        spec = spec.with("message", json!(dice.of(&["hi", "ho"])));
    }
    if dice.one_in(12) {
        spec = spec.test();
    }
    if !reviewed && dice.one_in(10) {
        spec = spec.with("delay_ms", json!(dice.of(&[5, 30_000])));
    }
    spec
}

async fn play(store: Storage, seed: u64) {
    let mut dice = Dice(seed);
    let mut t = Case::on(store).await;
    // The model has no totals.
    let counts = dice.one_in(2) && !matches!(t.store, Storage::Model(_));
    let totals = if counts { json!(["all"]) } else { json!([]) };
    let review = dice.of(&["off", "off", "messages"]);
    t.patch(json!({
        "capacity": dice.of(&[1, 3, 10]), "totals": totals, "dedup": dice.of(&["combine", "combine", "drop", "off"]),
        "review": review, "review_default": dice.of(&["show", "mask", "deny"]),
        "review_timeout_ms": 1_000,
    }))
    .await;
    t.define("r", with(rockets(1_000), "per_user", json!(1_000))).await;
    let (mut book, mut posted, mut sums) = (Book::default(), 0_u64, Sums::new());
    let mut held: Vec<(HoldId, String, String)> = vec![];
    for step in 0..STEPS {
        match dice.below(21) {
            0..9 => {
                let gifts: Vec<_> = (0..dice.of(&[1, 1, 2, 6]))
                    .map(|_| {
                        posted += 1;
                        let again = book.sent.get(&format!("g{}", dice.below(posted)));
                        match again.filter(|_| dice.one_in(8)) {
                            Some(again) => again.clone(),
                            None => random_gift(&mut dice, posted, review != "off"),
                        }
                    })
                    .collect();
                for gift in &gifts {
                    book.sent.entry(gift.json()["id"].as_str().unwrap().to_owned()).or_insert(gift.clone());
                }
                for outcome in t.post_all(gifts).await {
                    match outcome {
                        Outcome::New(answer) => book.answered(&answer),
                        Outcome::InReview(id) => drop(book.in_review.insert(id.to_string())),
                        Outcome::IdReused(id) => panic!("{id}"),
                        _ => {}
                    }
                }
            }
            9 => {
                let rows = t.row_ids().await;
                if let Some(row) = rows.get(dice.below(3) as usize) {
                    t.retract(row).await;
                    book.taken_back(|it| it.row.as_ref() == Some(row));
                }
            }
            10 | 11 => {
                let id = format!("g{}", dice.below(posted + 1));
                if t.take_back(&id).await {
                    if book.in_review.contains(&id) {
                        book.enter(&id, Status::Denied, None);
                    }
                    book.taken_back(|it| !it.is_sale && it.id == id);
                }
            }
            18 => {
                let (id, refunded) =
                    (format!("g{}", dice.below(posted + 1)), dice.of(&[0, 1, 3, 5, 200, 250]));
                let reason = Some("for \"fun\"".to_owned());
                let gift = id.parse().unwrap();
                let done = t.engine.refund_gift(&t.feed, &gift, refunded, reason, t.now).await.unwrap();
                t.list().await;
                book.refunded(&id, refunded as i64, &done);
            }
            12 => {
                let user = dice.of(&USERS);
                let shown = t.row_ids().await;
                t.take_user_back(user).await;
                book.taken_back(|it| {
                    it.user == user && it.row.as_ref().is_some_and(|row| shown.contains(row))
                });
            }
            13 => t.reopen().await,
            14 => {
                let block = Block { user: dice.of(&USERS).into(), at: t.now, until: Some(t.now.plus(2_000)) };
                t.engine.block_user(&BlockScope::Feed(t.feed.clone()), &block).await.unwrap();
            }
            15 => {
                let user = dice.of(&["cid", "dan"]);
                let (id, count) = (format!("c{step}"), dice.of(&[1, 3]));
                let body = if dice.one_in(2) { claim(&id, user) } else { hold(&id, user) };
                match t.claim("r", &with(body, "count", json!(count))).await {
                    Claimed::New(answer) => match answer.fate {
                        ClaimOutcome::Sold(sale) => book.sold(&id, user, count, sale.row),
                        ClaimOutcome::Held(_) => held.push((answer.claim, id, format!("{user} {count}"))),
                    },
                    other => assert!(matches!(other, Claimed::Refused(_)), "{other:?}"),
                }
            }
            16 => {
                if let Some((hold, id, whose)) = held.pop()
                    && let Confirmed::New(answer) = t.confirm(&hold).await
                    && let ClaimOutcome::Sold(sale) = answer.fate
                {
                    let (user, count) = whose.split_once(' ').unwrap();
                    book.sold(&id, user, count.parse().unwrap(), sale.row);
                }
            }
            17 => {
                let mut all: Vec<_> = book.in_review.iter().cloned().collect();
                all.sort();
                if let Some(id) = all.first() {
                    let decision = dice.of(&[Decision::Approve, Decision::Mask, Decision::Deny]);
                    let id: GiftId = id.parse().unwrap();
                    let decided = t.engine.decide_review(&t.feed, &id, decision, t.now).await.unwrap();
                    if let Some(GiftFate::Taken(answer)) = decided.done {
                        book.answered(&answer);
                    }
                    t.list().await;
                }
            }
            _ => t.pass(dice.of(&[1, 600, 1_000, 30_000])),
        }
        for handled in t.work().await {
            if let DueFate::Shown(answer) = handled.fate {
                book.answered(&answer);
            }
        }
        for handed in t.consume("sum").await {
            let Some(delta) = handed.entry.delta else { continue };
            *sums.entry("units".into()).or_default() += delta.count;
            if let Some((amount, currency)) = delta.value {
                *sums.entry(currency).or_default() += amount;
            }
        }
        let story = format!("seed {seed}, step {step}");
        let plain = |sums: &Sums| sums.clone().into_iter().filter(|(_, n)| *n != 0).collect::<Sums>();
        assert_eq!(plain(&sums), plain(&book.sums()), "{story}: the deltas, and what was given");
        if counts {
            let totals = t.engine.read_totals(&t.feed, false, t.now).await.unwrap().unwrap();
            let view = totals.get(&Period::All).unwrap();
            let mut counted: Sums = view.values.iter().map(|(by, n)| (by.to_string(), *n as i64)).collect();
            counted.insert("units".into(), view.units as i64);
            assert_eq!(plain(&sums), plain(&counted), "{story}: the deltas, and the totals");
        }
    }
}
