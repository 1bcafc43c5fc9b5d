//! A row of `elements`: the checksum of its value, and the effect that it is.

use std::sync::Arc;

use super::effect::{Effect, Name};
use super::moving::{kind, number_of};
use crate::engine::protocol::owner::Owners;

/// `OWNER'S SUM (4), SUM (4), VALUE`.
pub(super) fn seal(owners: Owners, key: &[u8], element: &[u8], value: &[u8]) -> Vec<u8> {
    let owner = crc32fast::hash(&owners(key).word().unwrap_or_default()).to_be_bytes();
    [&owner, &sum(owner, key, element, value).to_be_bytes()[..], value].concat()
}

fn sum(owner: [u8; 4], key: &[u8], element: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in [&owner, &(key.len() as u32).to_be_bytes()[..], key, element, value] {
        hasher.update(part);
    }
    hasher.finalize()
}

/// The value, or the checksum of its owner as the row has it. Where only that is damaged the rest says whose it is.
pub(super) fn unseal<'a>(
    owner: &[u8],
    key: &[u8],
    element: &[u8],
    sealed: &'a [u8],
) -> Result<&'a [u8], u32> {
    let own = crc32fast::hash(owner).to_be_bytes();
    let Some((written, rest)) = sealed.split_first_chunk::<4>() else { return Err(u32::from_be_bytes(own)) };
    let whole = rest
        .split_first_chunk::<4>()
        .filter(|(stated, value)| u32::from_be_bytes(**stated) == sum(own, key, element, value));
    whole.map(|(_, value)| value).ok_or(u32::from_be_bytes(*written))
}

/// An element as an effect; an error is a value of another form.
pub(super) fn effect_of(key: &[u8], element: &[u8], value: &[u8]) -> Result<Effect, u32> {
    let (key, value): (Name, Arc<[u8]>) = (key.into(), value.into());
    let number = || <[u8; 8]>::try_from(&*value).ok();
    let effect = element.split_first().and_then(|(first, name)| {
        Some(match *first {
            kind::UNTIL => Effect::Expires { key: key.clone(), until: Some(i64::from_be_bytes(number()?)) },
            kind::FIELD => Effect::Field { key: key.clone(), field: name.into(), value: Some(value.clone()) },
            kind::ITEM => Effect::Item { key: key.clone(), number: number_of(name)?, value: value.clone() },
            kind::STRING => Effect::String { key: key.clone(), value: value.clone(), until: None },
            kind::SCORE => {
                let score = Some(f64::from_be_bytes(number()?));
                Effect::Score { key: key.clone(), member: name.into(), score }
            }
            _ => return None,
        })
    });
    effect.ok_or(0)
}
