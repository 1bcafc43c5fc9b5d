//! Every row ends with its seal: the length and the checksum of all its other columns, so that a byte that flipped
//! is seen when the row is read, whichever column it is in.
//!
//! SQL computes it as `seal(?1, …)` when a row is written; [`check`] compares it when one is read with `SELECT *`.

use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::fault::{Fault, Step};

/// Gives this connection's SQL the function `seal(…)`.
pub(super) fn teach(conn: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    conn.create_scalar_function("seal", -1, flags, |values| {
        let mut seal = Seal::default();
        (0..values.len()).for_each(|n| seal.add(values.get_raw(n)));
        Ok(seal.value())
    })
}

/// Length and checksum of the columns added so far.
#[derive(Default)]
struct Seal {
    sum: crc32fast::Hasher,
    len: u64,
}

impl Seal {
    /// A column: its type, its length, and what it holds.
    fn add(&mut self, value: ValueRef<'_>) {
        let (kind, number, text): (u8, i64, &[u8]) = match value {
            ValueRef::Null => (0, 0, &[]),
            ValueRef::Integer(number) => (1, number, &[]),
            ValueRef::Real(number) => (2, number.to_bits() as i64, &[]),
            ValueRef::Text(text) => (3, text.len() as i64, text),
            ValueRef::Blob(bytes) => (4, bytes.len() as i64, bytes),
        };
        let mut head = [kind; 9];
        head[1..].copy_from_slice(&number.to_le_bytes());
        self.sum.update(&head);
        self.sum.update(text);
        self.len += head.len() as u64 + text.len() as u64;
    }

    /// The length above the checksum.
    fn value(self) -> i64 {
        ((self.len & 0x7fff_ffff) << 32) as i64 | i64::from(self.sum.finalize())
    }
}

/// What a row turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// What was written.
    Whole,
    /// Another feed's row, which came here because a byte of its feed's number flipped; that number.
    Stray(i64),
}

/// Compares a row of `SELECT *` with its seal, which is its last column.
pub(super) fn check(row: &Row<'_>) -> Step<Found> {
    let last = row.as_ref().column_count() - 1;
    let seal = row.get_ref(last)?;
    let mut computed = Seal::default();
    for n in 0..last {
        computed.add(row.get_ref(n)?);
    }
    if seal == ValueRef::Integer(computed.value()) {
        return Ok(Found::Whole);
    }
    match true_feed(row, last)? {
        Some(feed) => Ok(Found::Stray(feed)),
        None => Err(Fault::garbled("a record does not match its checksum")),
    }
}

/// The number with which the row matches its seal, if one byte of its feed's number flipped.
fn true_feed(row: &Row<'_>, last: usize) -> Step<Option<i64>> {
    let Some(column) = (0..last).find(|n| row.as_ref().column_name(*n).is_ok_and(|name| name == "feed"))
    else {
        return Ok(None);
    };
    let ValueRef::Integer(feed) = row.get_ref(column)? else { return Ok(None) };
    let seal = row.get_ref(last)?;
    for other in one_byte_off(&feed.to_le_bytes()) {
        let other = i64::from_le_bytes(other.try_into().unwrap_or_default());
        let mut computed = Seal::default();
        for n in 0..last {
            computed.add(if n == column { ValueRef::Integer(other) } else { row.get_ref(n)? });
        }
        if seal == ValueRef::Integer(computed.value()) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

/// The text that stood in `column` of a row that does not match its seal, if one byte of it flipped.
pub(super) fn true_text(row: &Row<'_>, column: usize) -> Step<Option<String>> {
    let last = row.as_ref().column_count() - 1;
    let (ValueRef::Text(text), seal) = (row.get_ref(column)?, row.get_ref(last)?) else { return Ok(None) };
    for other in one_byte_off(text) {
        let mut computed = Seal::default();
        for n in 0..last {
            computed.add(if n == column { ValueRef::Text(&other) } else { row.get_ref(n)? });
        }
        if seal == ValueRef::Integer(computed.value()) {
            return Ok(String::from_utf8(other).ok());
        }
    }
    Ok(None)
}

/// Every text that differs in one byte.
fn one_byte_off(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..text.len()).flat_map(move |at| {
        (1..=255).map(move |flip| {
            let mut other = text.to_vec();
            other[at] ^= flip;
            other
        })
    })
}
