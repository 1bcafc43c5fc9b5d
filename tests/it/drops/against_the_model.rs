//! Seeded random claims, confirmations, cancellations, passing time and engines opened anew, on an engine
//! and on the model: after every call the answers, the stock and what watchers heard are the same,
//! and free + held + sold = total. `TIPCAST_SEED` plays one seed again.

use std::fmt::Debug;

use serde_json::{Value, json};
use tipcast::domain::moderate::TakingBack;
use tipcast::domain::{Cursor, Entry, EntryStatus, HoldId, Millis, Op};
use tipcast::engine::Missed;

use crate::support::case::Case;
use crate::support::claims::{claim_of, named, spec_of};
use crate::support::dice::{Dice, seeds};
use crate::support::gifts::gift;
use crate::support::stores::Storage;

const STEPS: u32 = 220;
const DROPS: [&str; 3] = ["a", "b", "a.b"];

#[tokio::test]
async fn drops_of_the_embedded_store_do_what_the_model_does() {
    let mut entries = Vec::new();
    for seed in seeds(300..310) {
        entries.extend(compare(Storage::embedded(), seed).await);
    }
    for kind in [EntryStatus::Sold, EntryStatus::Retracted, EntryStatus::Refunded] {
        assert!(entries.contains(&kind), "{kind:?}");
    }
}

#[tokio::test]
async fn drops_of_the_redis_engine_do_what_the_model_does() {
    let mut entries = Vec::new();
    for seed in seeds(200..210) {
        entries.extend(compare(Storage::redis(), seed).await);
    }
    for kind in [EntryStatus::Sold, EntryStatus::Retracted, EntryStatus::Refunded] {
        assert!(entries.contains(&kind), "{kind:?}");
    }
}

#[derive(Debug)]
enum Call {
    Define(&'static str, Value),
    Claim(&'static str, Value),
    Confirm(HoldId),
    Cancel(HoldId),
    LookUp(HoldId),
    Reverse(HoldId, TakingBack),
    Tick(&'static str),
    List,
    Holds(&'static str),
    Give(u64),
    Patch(Value),
    Pass(u64),
    /// The engine is closed and opened on the same store; on Redis another node takes over.
    Reopen,
}

impl Call {
    fn random(dice: &mut Dice, now: Millis) -> Call {
        let drop = dice.of(&DROPS);
        let hold = |dice: &mut Dice| -> HoldId {
            format!("{}~c{}", dice.of(&DROPS), dice.below(30)).parse().unwrap()
        };
        match dice.below(60) {
            40..43 => Call::LookUp(hold(dice)),
            43..60 => Call::Reverse(hold(dice), random_reversal(dice)),
            0..4 => Call::Define(drop, random_spec(dice, now)),
            4..18 => Call::Claim(drop, random_claim(dice)),
            18..22 => Call::Confirm(hold(dice)),
            22..25 => Call::Cancel(hold(dice)),
            25..27 => Call::Tick(drop),
            27 => Call::List,
            28 => Call::Holds(dice.of(&USERS)),
            29 => Call::Give(dice.below(6)),
            30 => Call::Patch(match dice.below(3) {
                0 => json!({"capacity": dice.of(&[1, 2, 10])}),
                1 => json!({"row_ttl_ms": dice.of(&[0, 1_000, 5_000])}),
                _ => json!({"idempotency_window_ms": dice.of(&[60_000, 90_000])}),
            }),
            31 if dice.one_in(2) => Call::Reopen,
            _ => Call::Pass(dice.of(&[1, 5, 99, 500, 599, 600, 1_000, 5_000, 20_000, 61_000])),
        }
    }
}

const USERS: [&str; 5] = ["ann", "bob", "a:b", "a", "\"\n ~"];

fn random_spec(dice: &mut Dice, now: Millis) -> Value {
    let mut spec = json!({
        "gift": {"id": "r", "name": dice.of(&["Rocket", "\"火箭\" "])},
        "total": dice.of(&[1, 2, 3, 5, 8, 20]),
        "per_user": dice.of(&[1, 2, 5]),
        "hold_ttl_ms": dice.of(&[1, 500, 1_000, 5_000, 60_000]),
        "max_holds_per_user": dice.of(&[1, 2, 3]),
    });
    if dice.one_in(2) {
        spec["value"] =
            json!({"amount": dice.of(&[0, 499, 499, 5_000]), "currency": dice.of(&["EUR", "coins"])});
    }
    if dice.one_in(4) {
        spec["opens_at"] = json!(now.plus(dice.of(&[0, 1, 700, 5_000, 61_000])).to_string());
    }
    if dice.one_in(4) {
        spec["closes_at"] = json!(now.plus(dice.of(&[70_000, 80_000, 130_000])).to_string());
    } else if dice.one_in(10) && spec.get("opens_at").is_none() {
        spec["closes_at"] = json!(now.to_string());
    }
    spec
}

fn random_reversal(dice: &mut Dice) -> TakingBack {
    let refunded = dice.one_in(2).then(|| dice.of(&[0, 1, 400, 499, 998, 5_000]));
    let reason = dice.one_in(2).then(|| "\"late\"".to_owned());
    TakingBack { refunded, reason, restock: refunded.is_none() && dice.one_in(2) }
}

fn random_claim(dice: &mut Dice) -> Value {
    let user = dice.of(&USERS);
    let mut claim = json!({
        "id": format!("c{}", dice.below(30)),
        "user": {"id": user, "name": user},
        "pay": dice.of(&["now", "later", "later"]),
        "count": dice.of(&[1, 1, 1, 2, 3]),
    });
    if dice.one_in(4) {
        claim["message"] = json!(dice.of(&["", "hi", "\"\\\n"]));
    }
    claim
}

struct Side {
    case: Case,
}

impl Side {
    /// As the other side would say it.
    fn said(&self, what: impl Debug) -> String {
        let (text, epoch) = (format!("{what:?}"), self.case.replica.at.epoch.to_string());
        if epoch == "0" { text } else { text.replace(&epoch, "EPOCH") }
    }

    async fn run(&mut self, call: &Call) -> Vec<String> {
        let before = self.case.replica.at.seq;
        let (engine, feed, now) = (self.case.engine.clone(), self.case.feed.clone(), self.case.now);
        let mut seen = vec![];
        match call {
            Call::Define(drop, body) => {
                let done = engine.define_drop(&feed, &named(drop), &spec_of(body), now).await.unwrap();
                seen.push(format!("{done:?}"));
            }
            Call::Claim(drop, body) => {
                let done = engine.claim_drop(&feed, &named(drop), claim_of(body), now).await.unwrap();
                self.case.list().await;
                seen.push(self.said(done));
            }
            Call::Confirm(hold) => {
                let done = engine.confirm_hold(&feed, hold, None, now).await.unwrap();
                self.case.list().await;
                seen.push(self.said(done));
            }
            Call::Cancel(hold) => {
                seen.push(format!("{:?}", engine.cancel_hold(&feed, hold, now).await.unwrap()))
            }
            Call::LookUp(claim) => {
                seen.push(self.said(engine.look_up_claim(&feed, claim, now).await.unwrap()));
            }
            Call::Reverse(claim, what) => {
                let done = engine.reverse_sale(&feed, claim, what, now).await.unwrap();
                self.case.list().await;
                seen.push(self.said(done));
            }
            Call::Tick(drop) => {
                seen.push(format!("{:?}", engine.tick_drop(&feed, &named(drop), now).await.unwrap()))
            }
            Call::List => seen.push(format!("{:?}", engine.list_drops(&feed, now).await.unwrap())),
            Call::Holds(user) => {
                seen.push(format!("{:?}", engine.list_holds(&feed, user, now).await.unwrap()))
            }
            Call::Give(n) => drop(self.case.post(gift(&format!("g{n}"))).await),
            Call::Patch(patch) => seen.push(format!("{:?}", self.case.patch(patch.clone()).await)),
            Call::Pass(ms) => self.case.pass(*ms),
            Call::Reopen => self.reopen().await,
        }
        let list = self.case.list().await;
        seen.push(self.said((list.at.seq, &list.rows, &list.drops)));
        // Published in the same order, with the same content.
        if let Missed::Changes(changes) = self.case.after(before).await {
            let ops: Vec<&Op> = changes.iter().map(|change| &change.op).collect();
            seen.push(self.said(ops));
        }
        for view in list.drops.values() {
            assert_eq!(view.free + view.held + view.sold, view.spec.total);
        }
        seen
    }

    async fn ledger(&self) -> Vec<Entry> {
        let (feed, now) = (self.case.feed.clone(), self.case.now);
        self.case.engine.read_ledger(&feed, Cursor(0), 1_000, now).await.unwrap().entries
    }

    async fn reopen(&mut self) {
        self.case.engine.close().await;
        self.case.engine = self.case.store.open().await;
        self.case.listen_anew().await;
    }
}

/// What the ledger got.
async fn compare(store: Storage, seed: u64) -> Vec<EntryStatus> {
    let mut dice = Dice(seed);
    let mut sides = [Side { case: Case::on(Storage::model()).await }, Side { case: Case::on(store).await }];
    for drop in DROPS {
        let spec = random_spec(&mut dice, sides[0].case.now);
        for side in &mut sides {
            side.run(&Call::Define(drop, spec.clone())).await;
        }
    }
    for step in 0..STEPS {
        let call = Call::random(&mut dice, sides[0].case.now);
        let [model, engine] = &mut sides;
        let (wanted, got) = (model.run(&call).await, engine.run(&call).await);
        assert_eq!(got, wanted, "seed {seed}, step {step}: {call:#?}");
    }
    let [model, engine] = &sides;
    let (wanted, got) = (model.ledger().await, engine.ledger().await);
    let members = |side: &Side, entries: &[Entry]| -> Vec<String> {
        entries.iter().map(|entry| side.said(members(entry))).collect()
    };
    assert_eq!(members(engine, &got), members(model, &wanted), "seed {seed}: entries");
    got.into_iter().map(|entry| entry.status).collect()
}

/// What an entry says, whatever the order of its event's members.
fn members(entry: &Entry) -> impl Debug + use<> {
    let Entry { status, at, seq, row, gift, delta, reason, drop, hold, .. } = entry.clone();
    let gift: Value = serde_json::from_str(&gift).unwrap();
    (status, at, seq, row, gift, delta, reason, drop, hold)
}
