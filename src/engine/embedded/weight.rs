//! How many bytes of memory data takes: what is kept, and what a call adds to it.
//!
//! What is beside each text (allocations, places in maps) is an estimate: it was set by how much a process grew with a
//! million gifts in 10 000 feeds, their ids, locks and entries in the ledger.

use std::sync::Arc;

use super::changes::Undo;
use super::effect::Effect;
use super::keyspace::Keyspace;
use super::stored::{Collection, StoredCollection, StoredString};

const STRING: i64 = 160;
const COLLECTION: i64 = 320;
const FIELD: i64 = 136;
const ITEM: i64 = 56;
const MEMBER: i64 = 136;

fn text(bytes: &[u8]) -> i64 {
    bytes.len() as i64
}

/// What a key's string takes.
pub(super) fn string(key: &[u8], held: &StoredString) -> i64 {
    STRING + text(key) + text(&held.value)
}

fn item(value: &Arc<[u8]>) -> i64 {
    ITEM + text(value)
}

fn collection(held: &StoredCollection) -> i64 {
    let inside: i64 = match &held.value {
        Collection::Hash(fields) => {
            fields.iter().map(|(field, value)| FIELD + text(field) + text(value)).sum()
        }
        Collection::List(list) => list.items.iter().map(item).sum(),
        // A member's name is shared by both orders.
        Collection::Set(set) => set.order.from_rank(0).map(|it| MEMBER + text(&it.member)).sum(),
    };
    COLLECTION + text(&held.name) + inside
}

/// What all of it takes.
pub(super) fn of(space: &Keyspace) -> i64 {
    space.each_string().map(|(key, held)| string(key, held)).sum::<i64>()
        + space.each_collection().map(collection).sum::<i64>()
}

/// What an effect leaves there.
fn added(effect: &Effect) -> i64 {
    match effect {
        Effect::String { key, value, .. } => STRING + text(key) + text(value),
        Effect::Field { field, value: Some(value), .. } => FIELD + text(field) + text(value),
        Effect::Item { value, .. } => item(value),
        Effect::Score { member, score: Some(_), .. } => MEMBER + text(member),
        _ => 0,
    }
}

/// What was there in place of it.
fn taken(undo: &[Undo]) -> i64 {
    let of = |step: &Undo| match step {
        Undo::String { key, before: Some(before) } => string(key, before),
        Undo::Collection { before: Some(before), .. } => collection(before),
        Undo::Collection { key, before: None } => -COLLECTION - text(key),
        Undo::Field { field, before: Some(before), .. } => FIELD + text(field) + text(before),
        Undo::Score { member, before: Some(_), .. } => MEMBER + text(member),
        Undo::Item { before, .. } => item(before),
        Undo::Trimmed { front, back, .. } => front.iter().chain(back).map(item).sum(),
        _ => 0,
    };
    undo.iter().map(of).sum()
}

/// How many bytes these changes added; below 0 where they took more away.
pub(super) fn growth(effects: &[Effect], undo: &[Undo]) -> i64 {
    effects.iter().map(added).sum::<i64>() - taken(undo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::embedded::Changes;

    /// Commands on a few keys, drawn from a simple generator.
    fn some_command(step: u64) -> Vec<String> {
        let dice = |sides: u64, salt: u64| {
            let mixed = (step + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(salt as u32 * 7 % 64);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) % sides
        };
        let key = |kind: &str| format!("{kind}{}", dice(3, 2));
        let name = format!("n{}", dice(9, 3));
        let long = "x".repeat(dice(40, 5) as usize);
        let words: Vec<&str> = match dice(12, 1) {
            0 => vec!["SET", "s", &long],
            1 => vec!["SET", "s", &long, "PX", "20"],
            2 => vec!["DEL", "K"],
            3 => vec!["HSET", "h", &name, &long],
            4 => vec!["HDEL", "h", &name],
            5 => vec!["RPUSH", "l", &long, &name],
            6 => vec!["LPUSH", "l", &name],
            7 => vec!["LTRIM", "l", "1", "-2"],
            8 => vec!["ZADD", "z", "1", &name],
            9 => vec!["ZREM", "z", &name],
            10 => vec!["LSET", "l", "0", &long],
            _ => vec!["PEXPIRE", "K", "30"],
        };
        let any = ["s", "h", "l", "z"][dice(4, 4) as usize];
        words
            .into_iter()
            .enumerate()
            .map(|(at, word)| match (at, word) {
                (1, "K") => key(any),
                (1, kind) => key(kind),
                (_, word) => word.to_owned(),
            })
            .collect()
    }

    #[test]
    fn stock_equals_the_sum_of_calls_and_reversals_add_nothing() {
        let (mut space, mut sum, mut most) = (Keyspace::default(), 0, 0);
        for step in 0..20_000 {
            let (words, now) = (some_command(step), step as i64 / 3);
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let mut changes = Changes::default();
            space.execute(&words, now, &mut changes);
            if step % 5 == 0 {
                space.undo(&mut changes);
            } else {
                sum += growth(&changes.effects, &changes.undo);
            }
            if step % 50 == 0 {
                let (mut changes, mut freed) = (Changes::default(), 0);
                space.collect_garbage(now, 10, &mut changes, |key, held| freed += string(key, held));
                sum += growth(&changes.effects, &changes.undo) - freed;
            }
            assert_eq!(of(&space), sum, "step {step}: {:?}", some_command(step));
            most = most.max(sum);
        }
        assert!(most > 2_000, "{most}");
    }
}
