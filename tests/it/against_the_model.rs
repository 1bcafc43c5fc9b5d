//! Seeded random calls on an engine and on the model: after every call the answers, the list and the
//! changes are the same, but for what names a life of the feed. `TIPCAST_SEED` plays one seed again.

use std::collections::HashMap;

use serde_json::{Value, json};
use tipcast::domain::{MAX_SAFE, Op, Outcome, Row, RowId};
use tipcast::engine::{DueFate, Missed, Snapshot};

use crate::relocation::moved;
use crate::support::case::Case;
use crate::support::dice::{Dice, seeds};
use crate::support::gifts::{GiftSpec, gift};
use crate::support::stores::Storage;

const STEPS: u32 = 150;

#[tokio::test]
async fn the_embedded_store_does_what_the_model_does() {
    for seed in seeds(200..212) {
        compare(Storage::embedded(), seed).await;
    }
}

#[tokio::test]
async fn the_redis_engine_does_what_the_model_does() {
    for seed in seeds(100..112) {
        compare(Storage::redis(), seed).await;
    }
}

/// Half of the calls before a move to servers, and half behind it.
async fn compare_over_a_move(seed: u64, to: Storage) {
    let mut dice = Dice(seed);
    let mut sides = [Side::on(Storage::model()).await, Side::on(Storage::embedded()).await];
    let mut to = Some(to);
    for step in 0..STEPS {
        let call = Call::random(&mut dice);
        if step == STEPS / 2
            && let Some(to) = to.take()
        {
            let first = gift("first").by("mover");
            sides[1].moves(to, first.clone()).await;
            sides[0].run(&Call::Publish(vec![first])).await;
        }
        // Behind a move there are no changes from in front of it.
        if to.is_none() && matches!(call, Call::After(_)) {
            continue;
        }
        let [model, engine] = &mut sides;
        let (wanted, got) = (model.run(&call).await, engine.run(&call).await);
        assert_eq!(got, wanted, "seed {seed}, step {step}: {call:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_moved_to_redis_does_what_the_model_does() {
    for seed in seeds(300..306) {
        compare_over_a_move(seed, Storage::redis()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_moved_to_a_cluster_does_what_the_model_does() {
    for seed in seeds(306..310) {
        compare_over_a_move(seed, Storage::cluster()).await;
    }
}

/// One side, and which change added each row.
struct Side {
    case: Case,
    rows: HashMap<RowId, u64>,
}

async fn compare(store: Storage, seed: u64) {
    let mut dice = Dice(seed);
    let mut sides = [Side::on(Storage::model()).await, Side::on(store).await];
    for step in 0..STEPS {
        let call = Call::random(&mut dice);
        let [model, engine] = &mut sides;
        let (wanted, got) = (model.run(&call).await, engine.run(&call).await);
        assert_eq!(got, wanted, "seed {seed}, step {step}: {call:#?}");
    }
}

/// One call, spelled so that both sides understand it.
#[derive(Debug)]
enum Call {
    Publish(Vec<GiftSpec>),
    /// The row at this place of the list.
    Retract(usize),
    Patch(Value),
    Put(Value),
    Pass(u64),
    /// Changes after the head minus this.
    After(u64),
    /// Does what is due.
    Work,
    Cancel(String),
}

impl Call {
    fn random(dice: &mut Dice) -> Call {
        match dice.below(20) {
            0..=8 => Call::Publish(vec![random_gift(dice)]),
            9..=11 => Call::Publish((0..1 + dice.below(12)).map(|_| random_gift(dice)).collect()),
            12 => Call::Retract(dice.below(4) as usize),
            13 => Call::Patch(random_policy(dice)),
            14 => Call::Put(random_policy(dice)),
            15 => Call::After(dice.below(12)),
            16 => Call::Work,
            17 if dice.one_in(3) => Call::Cancel(format!("id:{}", dice.below(150))),
            _ => Call::Pass(dice.of(&[1, 10, 499, 500, 999, 1_000, 4_999, 5_000, 30_000, 60_000])),
        }
    }
}

fn random_gift(dice: &mut Dice) -> GiftSpec {
    // Few ids, so that some come again, with the same payload or another.
    let mut spec = gift(&format!("id:{}", dice.below(150)));
    let user = dice.of(&["ann", "bob", "a:b", "a", "\"\n"]);
    spec = spec.by(user).kind(dice.of(&["rose", "b:c", "c"])).count(dice.of(&[1, 1, 1, 2, 1_000_000]));
    if dice.one_in(3) {
        let amount = dice.of(&[0, 1, 250, MAX_SAFE / 2, MAX_SAFE]);
        spec = spec.value(amount, dice.of(&["EUR", "EUR", "USD", "gems"]));
    }
    if dice.one_in(3) {
        spec = spec.combo(dice.of(&["c", "d", "\u{1F339} e"]), dice.of(&[0, 1, 2, 3, 5, 8, u32::MAX]));
        if dice.one_in(6) {
            spec = spec.end();
        }
    }
    if dice.one_in(4) {
        spec = spec.with("message", json!(dice.of(&["", "hi", "\"<b>\"\\", "\u{2028}\u{1F339}", "مرحبا"])));
    }
    if dice.one_in(4) {
        spec = spec.with("tier", json!(dice.below(10)));
    }
    if dice.one_in(4) {
        let meta = dice.of(&[json!({}), json!({"k": 1.5e300}), json!({"a": {"b": [null, "\n|"]}})]);
        spec = spec.with("meta", meta);
    }
    if dice.one_in(12) {
        spec = spec.test();
    }
    if dice.one_in(12) {
        spec = spec.with("delay_ms", json!(dice.of(&[0, 5, 5, 600, 90_000])));
    }
    spec
}

fn random_policy(dice: &mut Dice) -> Value {
    let mut policy = json!({});
    let fields = [
        ("capacity", vec![json!(1), json!(2), json!(3), json!(10)]),
        ("dedup", vec![json!("combine"), json!("combine"), json!("drop"), json!("off")]),
        ("dedup_window_ms", vec![json!(0), json!(1), json!(500), json!(5_000), json!(60_000)]),
        ("row_ttl_ms", vec![json!(0), json!(0), json!(1_000), json!(5_000)]),
        ("idempotency_window_ms", vec![json!(60_000), json!(90_000)]),
        ("history", vec![json!(0), json!(1), json!(5), json!(1_000)]),
        ("delay_ms", vec![json!(0), json!(0), json!(0), json!(7)]),
        ("flush_ms", vec![json!(0), json!(50)]),
    ];
    for (field, values) in fields {
        if dice.one_in(3) {
            policy[field] = dice.of(&values);
        }
    }
    policy
}

impl Side {
    async fn on(store: Storage) -> Side {
        Side { case: Case::on(store).await, rows: HashMap::new() }
    }

    /// Moves the folder to these servers, and goes on there. With the `first` change there the feed's new epoch is certain: before,
    /// a server that came later than the feed's last change, by the virtual clock, might be one that lost some.
    async fn moves(&mut self, to: Storage, first: GiftSpec) {
        self.case.engine.close().await;
        let Storage::Embedded(dir) = &self.case.store else { panic!("only folders move") };
        let store = moved(dir.path(), to);
        let (now, feed, engine) = (self.case.now, self.case.feed.clone(), store.open().await);
        engine.publish(&feed, vec![first.parse()], now).await.unwrap();
        self.case = Case::with(store, engine, feed).await;
        self.case.now = now;
    }

    /// Runs the call; gives everything that can be seen of it, without the names of this life.
    async fn run(&mut self, call: &Call) -> Vec<String> {
        let mut seen = vec![];
        let before = self.case.replica.at.seq;
        match call {
            Call::Publish(gifts) => {
                let outcomes = self.case.post_all(gifts.clone()).await;
                self.learn_rows(before).await;
                seen.extend(outcomes.iter().map(|outcome| self.outcome(outcome)));
            }
            Call::Retract(at) => {
                let row = self.case.row_ids().await.get(*at).cloned();
                let row = row.unwrap_or_else(|| "nothing-1".parse().unwrap());
                let at = self.case.retract(&row).await;
                seen.push(format!("retracted {:?}", at.map(|at| at.seq)));
            }
            Call::Patch(patch) => seen.push(format!("{:?}", self.case.patch(patch.clone()).await)),
            Call::Put(patch) => seen.push(format!("{:?}", self.case.put(patch.clone()).await)),
            Call::Pass(ms) => self.case.pass(*ms),
            Call::Work => {
                for it in self.case.work().await {
                    let DueFate::Shown(answer) = it.fate else { panic!("{it:?}") };
                    self.learn_rows(before).await;
                    seen.push(format!("late {} {}", it.late_ms, self.outcome(&Outcome::New(answer))));
                }
            }
            Call::Cancel(id) => seen.push(format!("{:?}", self.case.cancel(id).await)),
            Call::After(back) => {
                let since = before.saturating_sub(*back);
                seen.push(match self.case.after(since).await {
                    Missed::NotCovered => "not covered".into(),
                    Missed::Changes(changes) => format!("covered: {}", changes.len()),
                });
            }
        }
        let list = self.case.list().await;
        self.learn_rows(before).await;
        seen.push(self.list(&list));
        let waiting = self.case.waiting().await.gifts;
        seen.push(format!("{:?}", waiting.iter().map(|it| (it.place.at, &it.gift)).collect::<Vec<_>>()));
        seen
    }

    /// Rows are named by the change that added them.
    async fn learn_rows(&mut self, before: u64) {
        for row in &self.case.replica.rows {
            self.rows.insert(row.id.clone(), row.seq);
        }
        if let Missed::Changes(changes) = self.case.after(before).await {
            for change in changes {
                if let Op::Add(row) = change.op {
                    self.rows.insert(row.id.clone(), row.seq);
                }
            }
        }
    }

    fn outcome(&self, outcome: &Outcome) -> String {
        let id = outcome.id();
        let (kind, answer) = match outcome {
            Outcome::New(answer) => ("new", answer),
            Outcome::Duplicate(answer) => ("duplicate", answer),
            Outcome::IdReused(_) => return format!("{id} reused"),
            other => return format!("{other:?}"),
        };
        // A row that came and went within one call, and history was too short to show, has no number.
        let shown = answer.row.as_ref();
        let row = shown.and_then(|row| self.rows.get(row)).copied();
        let row = row.filter(|_| self.case.replica.rows.iter().any(|known| Some(&known.id) == shown));
        format!("{id} {kind} {:?} seq {} row {row:?} count {:?}", answer.status, answer.at.seq, answer.count)
    }

    fn list(&self, list: &Snapshot) -> String {
        let rows: Vec<_> = list.rows.iter().map(|row| show(row)).collect();
        format!(
            "at {} begun {} {:?}\n{}",
            list.at.seq,
            !list.at.epoch.is_none(),
            list.policy,
            rows.join("\n")
        )
    }
}

fn show(row: &Row) -> String {
    let combo = row.combo.as_ref().map(|combo| (&combo.id, combo.ended));
    let times = (row.at, row.updated_at, row.expires_at);
    let texts = (&row.user, &row.gift, &row.message, row.tier, &row.meta);
    format!(
        "{} rev {} {times:?} {} {:?} {combo:?} {} {texts:?}",
        row.seq, row.rev, row.count, row.value, row.test
    )
}
