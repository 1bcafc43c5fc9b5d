//! Seeded random calls on the ledger of an engine and of the model: after every call the answers and how
//! every group stands are the same. `TIPCAST_SEED` plays one seed again.

use std::collections::BTreeSet;

use tipcast::domain::{Ask, Cursor, HookKey, Reader, Replay, Start};
use tipcast::engine::{Death, ReportLimits, Save, Work};

use crate::support::case::Case;
use crate::support::dice::{Dice, seeds};
use crate::support::gifts::{GiftSpec, gift};
use crate::support::readers::{cursors, event, of_all, of_feed, reader_of};
use crate::support::stores::Storage;

const STEPS: u32 = 200;

const GROUPS: [&str; 3] = ["g", "h", "i.j"];

const LIMITS: ReportLimits =
    ReportLimits { ledger_max: 10_000, backlog_max: 100_000, max_age_ms: 0, max_attempts: 3, dead_max: 5 };

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

async fn compare(store: Storage, seed: u64) {
    let mut dice = Dice(seed);
    let mut sides = [Case::on(Storage::model()).await, Case::on(store).await];
    for side in &mut sides {
        side.reopen_keeping(LIMITS).await;
        // The ledger begins now: the calls name entries by that.
        side.give(&["first"]).await;
    }
    for step in 0..STEPS {
        let call = Call::random(&mut dice);
        let [model, engine] = &mut sides;
        let (wanted, got) = (call.run(model).await, call.run(engine).await);
        assert_eq!(got, wanted, "seed {seed}, step {step}: {call:#?}");
    }
}

/// One call, spelled so that both sides understand it. Entries are named by how far they are from the first.
#[derive(Debug)]
enum Call {
    Publish(Vec<GiftSpec>),
    Take(&'static str, Ask),
    Ack(&'static str, Vec<u64>),
    Nack(&'static str, Vec<u64>),
    Replay(&'static str, Option<Vec<u64>>),
    Delete(&'static str),
    /// A webhook is made, or goes; of all feeds or of this one.
    Hook(bool),
    /// A webhook finishes this number of entries and gives up some of them.
    Send(bool, usize, usize),
    ReplayHook(bool),
    Pass(u64),
    /// The engine is closed and opened on the same store; on Redis another node takes over.
    Reopen,
}

impl Call {
    fn random(dice: &mut Dice) -> Call {
        let group = dice.of(&GROUPS);
        let some = |dice: &mut Dice| {
            let all: BTreeSet<u64> = (0..1 + dice.below(6)).map(|_| dice.below(120)).collect();
            all.into_iter().collect::<Vec<_>>()
        };
        match dice.below(40) {
            0..10 => Call::Publish((0..dice.of(&[1, 1, 2, 9])).map(|_| random_gift(dice)).collect()),
            10..19 => {
                let max = dice.of(&[1, 2, 3, 1_000]);
                let from = dice.of(&[Start::Start, Start::Now]);
                Call::Take(group, Ask { max, lease_ms: dice.of(&[1_000, 5_000]), from })
            }
            19..24 => Call::Ack(group, (0..dice.of(&[1, 10, 60])).map(|_| dice.below(120)).collect()),
            24..27 => Call::Nack(group, some(dice)),
            27..29 => Call::Replay(group, dice.one_in(2).then(|| some(dice))),
            29 if dice.one_in(4) => Call::Delete(group),
            30 => Call::Hook(dice.one_in(2)),
            31..34 => Call::Send(dice.one_in(2), dice.below(12) as usize, dice.below(4) as usize),
            34 => Call::ReplayHook(dice.one_in(2)),
            35 if dice.one_in(2) => Call::Reopen,
            _ => Call::Pass(dice.of(&[1, 500, 1_000, 5_000, 30_000])),
        }
    }

    async fn run(&self, t: &mut Case) -> Vec<String> {
        let mut seen = vec![];
        let number = |n: &u64| Cursor(Cursor::first(tipcast::domain::Millis(1_800_000_000_000)).0 + n);
        let numbers = |all: &[u64]| all.iter().map(number).collect::<Vec<_>>();
        let keys = [of_feed(&t.feed, "w"), of_all("w")];
        match self {
            Call::Publish(gifts) => drop(t.post_all(gifts.clone()).await),
            Call::Take(group, ask) => {
                let taken = t.ask(group, *ask).await.unwrap();
                seen.push(format!("{:?} {:?}", taken.next_in_ms, cursors(&taken.entries)));
                for it in taken.entries {
                    let entry = &it.entry;
                    seen.push(format!(
                        "{} {:?} {:?} {:?} {:?} {:?}",
                        it.attempt,
                        entry.status,
                        entry.at,
                        entry.seq,
                        entry.delta,
                        event(entry)
                    ));
                }
            }
            Call::Ack(group, all) => seen.push(format!("{:?}", t.ack(group, &numbers(all)).await)),
            Call::Nack(group, all) => seen.push(format!("{:?}", t.nack(group, &numbers(all)).await)),
            Call::Replay(group, all) => {
                let which = all.as_ref().map_or(Replay::All, |all| Replay::Only(numbers(all)));
                seen.push(format!("{}", t.replay(&reader_of(group), which).await));
            }
            Call::Delete(group) => {
                let name: tipcast::domain::GroupId = group.parse().unwrap();
                seen.push(format!("{}", t.engine.delete_group(&t.feed, &name).await.unwrap()));
            }
            Call::Hook(of_all) => {
                let key = &keys[usize::from(*of_all)];
                match t.engine.read_webhook(key).await.unwrap() {
                    Some(hook) => drop(t.swap(key, Some(hook.version), None).await),
                    None => drop(t.hook(key).await),
                }
            }
            Call::Send(of_all, most, bad) => {
                let key = &keys[usize::from(*of_all)];
                if let Some(work) = something(t, key).await {
                    let sent = &work.entries[..work.entries.len().min(*most)];
                    let again: Vec<Cursor> = work.again.iter().skip(1).map(|entry| entry.cursor).collect();
                    let given_up =
                        sent.iter().map(|entry| entry.cursor).take(*bad).chain(again.first().copied());
                    let bury = |cursor| Death { cursor, attempts: 1, reason: "no".into() };
                    let save = Save {
                        was: work.progress.clone(),
                        progress: format!("{}", t.now.0),
                        through: sent.last().map(|entry| entry.cursor),
                        dead: given_up.map(bury).collect(),
                        again,
                    };
                    seen.push(said(t.save_job(key, save).await.unwrap()));
                }
            }
            Call::ReplayHook(of_all) => {
                let key = &keys[usize::from(*of_all)];
                seen.push(format!("{}", t.replay(&key.reader(), Replay::All).await));
            }
            Call::Pass(ms) => t.pass(*ms),
            Call::Reopen => t.reopen_keeping(LIMITS).await,
        }
        for group in GROUPS {
            seen.push(format!("{group} {:?}", t.group(group).await));
            seen.push(letters(t, &reader_of(group)).await);
        }
        for key in &keys {
            let work = something(t, key).await;
            seen.push(format!("{:?}", work.map(said)));
            seen.push(letters(t, &key.reader()).await);
        }
        seen
    }
}

/// What a webhook has to send, if that is anything: one of all feeds need not read a feed before something
/// came since it was made.
async fn something(t: &mut Case, key: &HookKey) -> Option<Work> {
    t.open_job(key).await.filter(|work| !work.entries.is_empty() || !work.again.is_empty())
}

fn said(work: Work) -> String {
    let numbers = |all: &[tipcast::domain::Entry]| all.iter().map(|it| it.cursor.0).collect::<Vec<_>>();
    format!("{} {} {:?} {:?}", work.progress, work.backlog, numbers(&work.entries), numbers(&work.again))
}

async fn letters(t: &mut Case, reader: &Reader) -> String {
    let letters = t.letters(reader).await;
    let said: Vec<_> = letters.iter().map(|it| (it.entry.cursor.0, it.died_at, it.attempts)).collect();
    format!("{said:?}")
}

fn random_gift(dice: &mut Dice) -> GiftSpec {
    // Few ids, so that some come again.
    let mut spec = gift(&format!("id:{}", dice.below(200))).by(dice.of(&["ann", "bob", "cid"]));
    if dice.one_in(4) {
        spec = spec.combo(dice.of(&["c", "d"]), dice.of(&[1, 2, 5]));
    }
    if dice.one_in(8) {
        spec = spec.test();
    }
    if dice.one_in(8) {
        spec = spec.with("message", serde_json::json!("\"hi\"\\"));
    }
    spec
}
