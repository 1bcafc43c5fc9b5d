//! What a commit writes down: effects in parts, one for each owner, each with a checksum of its own, so that a damaged byte
//! takes one owner along and no other.
//!
//! `HEAD parts... HEAD LENGTH`: the head lists the parts. It is there twice, so that one damaged byte leaves one of them.
//! `HEAD` is its length (4 bytes), its checksum (4), the number of the commit (8), then for each part the owner's word with its length in front (varint), the
//! part's length (varint) and its checksum (4). Behind the second head is its length once more, by which it is found.

use std::collections::HashMap;
use std::sync::Arc;

use super::effect::{Effect, Name};
use crate::engine::protocol::owner::Owners;

/// A part that was read: whose it is, and what it says if it is whole.
pub(super) struct Part {
    pub owner: Vec<u8>,
    pub effects: Option<Vec<Effect>>,
}

/// Writes down these effects of the commit of this number; nothing where there are none that are kept.
pub(super) fn write<'e>(number: i64, effects: impl Iterator<Item = &'e Effect>, owners: Owners) -> Vec<u8> {
    let mut parts: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut before: Option<(&Name, usize)> = None;
    for effect in effects {
        // Most keys come several times in a row.
        if let Some((key, place)) = before
            && Arc::ptr_eq(key, effect.key())
        {
            put_effect(&mut parts[place].1, effect);
            continue;
        }
        let Some(owner) = owners(effect.key()).word() else { continue };
        let place = match places.get(&owner) {
            Some(place) => *place,
            None => {
                places.insert(owner.clone(), parts.len());
                parts.push((owner, Vec::new()));
                parts.len() - 1
            }
        };
        put_effect(&mut parts[place].1, effect);
        before = Some((effect.key(), place));
    }
    if parts.is_empty() {
        return Vec::new();
    }
    let mut body = number.to_be_bytes().to_vec();
    for (owner, part) in &parts {
        put_bytes(&mut body, owner);
        put_number(&mut body, part.len() as u64);
        body.extend(crc32fast::hash(part).to_be_bytes());
    }
    let mut head = Vec::with_capacity(body.len() + 8);
    head.extend((body.len() as u32).to_be_bytes());
    head.extend(crc32fast::hash(&body).to_be_bytes());
    head.extend(body);
    let length = 2 * head.len() + 4 + parts.iter().map(|(_, part)| part.len()).sum::<usize>();
    let mut frame = Vec::with_capacity(length);
    frame.extend(&head);
    parts.iter().for_each(|(_, part)| frame.extend(part));
    frame.extend(&head);
    frame.extend((head.len() as u32).to_be_bytes());
    frame
}

/// Reads what [`write()`] wrote: the number, and the parts. `None`: its owner cannot be read.
pub(super) fn read(frame: &[u8]) -> Option<(i64, Vec<Part>)> {
    let behind = || {
        let (rest, length) = frame.split_last_chunk::<4>()?;
        rest.len().checked_sub(u32::from_be_bytes(*length) as usize).and_then(|at| head_at(rest, at))
    };
    let (number, listed, head_length) = head_at(frame, 0).or_else(behind)?;
    let mut rest = frame.get(head_length..)?;
    let mut parts = Vec::with_capacity(listed.len());
    for (owner, length, sum) in listed {
        let part = rest.get(..length)?;
        rest = &rest[length..];
        let effects = (crc32fast::hash(part) == sum).then(|| read_effects(part)).flatten();
        parts.push(Part { owner, effects });
    }
    Some((number, parts))
}

type Listed = Vec<(Vec<u8>, usize, u32)>;

/// The head that begins there: the number, the parts, and its length.
fn head_at(frame: &[u8], at: usize) -> Option<(i64, Listed, usize)> {
    let mut rest = frame.get(at..)?;
    let length = u32::from_be_bytes(take(&mut rest)?) as usize;
    let sum = u32::from_be_bytes(take(&mut rest)?);
    let mut body = rest.get(..length).filter(|body| crc32fast::hash(body) == sum)?;
    let number = i64::from_be_bytes(take(&mut body)?);
    let mut listed = Vec::new();
    while !body.is_empty() {
        let owner = get_bytes(&mut body)?.to_vec();
        let length = usize::try_from(get_number(&mut body)?).ok()?;
        listed.push((owner, length, u32::from_be_bytes(take(&mut body)?)));
    }
    Some((number, listed, length + 8))
}

fn read_effects(mut part: &[u8]) -> Option<Vec<Effect>> {
    let mut effects = Vec::new();
    while !part.is_empty() {
        effects.push(get_effect(&mut part)?);
    }
    Some(effects)
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend(bytes);
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*first)
}

fn get_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let [byte] = take(rest)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn get_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(get_number(rest)?).ok()?;
    let (bytes, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(bytes)
}

const STRING: u8 = 1;
const STRING_UNTIL: u8 = 2;
const DELETED: u8 = 3;
const DROPPED: u8 = 4;
const EXPIRES: u8 = 5;
const LASTS: u8 = 6;
const FIELD: u8 = 7;
const NO_FIELD: u8 = 8;
const ITEM: u8 = 9;
const BOUNDS: u8 = 10;
const SCORE: u8 = 11;
const NO_SCORE: u8 = 12;

fn put_effect(out: &mut Vec<u8>, effect: &Effect) {
    let kind = match effect {
        Effect::String { until: None, .. } => STRING,
        Effect::String { until: Some(_), .. } => STRING_UNTIL,
        Effect::Deleted { .. } => DELETED,
        Effect::Dropped { .. } => DROPPED,
        Effect::Expires { until: Some(_), .. } => EXPIRES,
        Effect::Expires { until: None, .. } => LASTS,
        Effect::Field { value: Some(_), .. } => FIELD,
        Effect::Field { value: None, .. } => NO_FIELD,
        Effect::Item { .. } => ITEM,
        Effect::Bounds { .. } => BOUNDS,
        Effect::Score { score: Some(_), .. } => SCORE,
        Effect::Score { score: None, .. } => NO_SCORE,
    };
    out.push(kind);
    put_bytes(out, effect.key());
    match effect {
        Effect::String { value, until, .. } => {
            until.iter().for_each(|until| out.extend(until.to_be_bytes()));
            put_bytes(out, value);
        }
        Effect::Deleted { .. } => {}
        Effect::Dropped { until, .. } => out.extend(until.to_be_bytes()),
        Effect::Expires { until, .. } => until.iter().for_each(|until| out.extend(until.to_be_bytes())),
        Effect::Field { field, value, .. } => {
            put_bytes(out, field);
            value.iter().for_each(|value| put_bytes(out, value));
        }
        Effect::Item { number, value, .. } => {
            out.extend(number.to_be_bytes());
            put_bytes(out, value);
        }
        Effect::Bounds { first, end, .. } => {
            out.extend(first.to_be_bytes());
            out.extend(end.to_be_bytes());
        }
        Effect::Score { member, score, .. } => {
            put_bytes(out, member);
            score.iter().for_each(|score| out.extend(score.to_be_bytes()));
        }
    }
}

fn get_effect(rest: &mut &[u8]) -> Option<Effect> {
    let [kind] = take(rest)?;
    let key: Name = get_bytes(rest)?.into();
    let time = |rest: &mut &[u8]| take(rest).map(i64::from_be_bytes);
    let bytes = |rest: &mut &[u8]| get_bytes(rest).map(Arc::<[u8]>::from);
    Some(match kind {
        STRING => Effect::String { key, value: bytes(rest)?, until: None },
        STRING_UNTIL => {
            let until = Some(time(rest)?);
            Effect::String { key, value: bytes(rest)?, until }
        }
        DELETED => Effect::Deleted { key },
        DROPPED => Effect::Dropped { key, until: time(rest)? },
        EXPIRES => Effect::Expires { key, until: Some(time(rest)?) },
        LASTS => Effect::Expires { key, until: None },
        FIELD => Effect::Field { key, field: bytes(rest)?, value: Some(bytes(rest)?) },
        NO_FIELD => Effect::Field { key, field: bytes(rest)?, value: None },
        ITEM => Effect::Item { key, number: time(rest)?, value: bytes(rest)? },
        BOUNDS => Effect::Bounds { key, first: time(rest)?, end: time(rest)? },
        SCORE => Effect::Score { key, member: bytes(rest)?, score: Some(f64::from_be_bytes(take(rest)?)) },
        NO_SCORE => Effect::Score { key, member: bytes(rest)?, score: None },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::protocol::owner::Owner;

    fn owners(key: &[u8]) -> Owner<'_> {
        match key.first() {
            Some(b'-') => Owner::Fleeting,
            Some(b's') => Owner::Shared(b"all"),
            _ => Owner::Feed(&key[..1]),
        }
    }

    fn some() -> Vec<Effect> {
        let name = |text: &str| -> Name { text.as_bytes().into() };
        vec![
            Effect::String { key: name("a1"), value: name("value"), until: None },
            Effect::String { key: name("b1"), value: name(""), until: Some(-5) },
            Effect::Deleted { key: name("a2") },
            Effect::Dropped { key: name("a2"), until: i64::MAX },
            Effect::Field { key: name("shared"), field: name("f"), value: Some(name(&"v".repeat(300))) },
            Effect::Field { key: name("b2"), field: name(""), value: None },
            Effect::Item { key: name("a3"), number: -7, value: name("item") },
            Effect::Bounds { key: name("a3"), first: -7, end: 3 },
            Effect::Score { key: name("a4"), member: name("m"), score: Some(-0.5) },
            Effect::Score { key: name("b4"), member: name("m"), score: None },
            Effect::Expires { key: name("b4"), until: Some(9) },
            Effect::Expires { key: name("b4"), until: None },
            Effect::String { key: name("-node"), value: name("1"), until: Some(1) },
        ]
    }

    #[test]
    fn records_are_read_by_owner_and_fleeting_keys_not_written() {
        let effects = some();
        let (number, parts) = read(&write(7, effects.iter(), owners)).unwrap();
        assert_eq!(number, 7);
        let read: Vec<_> = parts.into_iter().map(|part| (part.owner, part.effects.unwrap())).collect();
        let of = |word: &[u8]| -> Vec<Effect> {
            let mine = effects.iter().filter(|it| owners(it.key()).word().as_deref() == Some(word));
            mine.cloned().collect()
        };
        let wanted: [&[u8]; 3] = [b"fa", b"fb", b"sall"];
        assert_eq!(read, wanted.map(|word| (word.to_vec(), of(word))));
        assert!(write(7, effects[12..].iter(), owners).is_empty());
    }

    #[test]
    fn any_damaged_byte_takes_one_owner_along_at_most_and_never_passes() {
        let frame = write(7, some().iter(), owners);
        let whole: Vec<_> = read(&frame).unwrap().1.into_iter().map(|it| (it.owner, it.effects)).collect();
        for at in 0..frame.len() {
            for flipped in [1, 0x80, 0xff] {
                let mut frame = frame.clone();
                frame[at] ^= flipped;
                let (_, parts) = read(&frame).unwrap_or_else(|| panic!("byte {at} took everybody along"));
                assert_eq!(parts.len(), whole.len(), "byte {at}");
                let mut hurt = 0;
                for (part, (owner, effects)) in parts.into_iter().zip(&whole) {
                    assert_eq!(part.owner, *owner, "byte {at}");
                    match part.effects {
                        None => hurt += 1,
                        effects_read => assert_eq!(effects_read, *effects, "byte {at}"),
                    }
                }
                assert!(hurt <= 1, "byte {at}");
            }
        }
        assert!(read(b"").is_none() && read(&frame[..20]).is_none());
    }
}
