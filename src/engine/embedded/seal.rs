//! Every row ends with its seal: the length and the checksum of all its other columns, so that a byte that flipped
//! is seen when the row is read, whichever column it is in.
//!
//! [`super::db::Db::put`] binds it when a row is written; [`check`] compares it when one is read with `SELECT *`. For
//! the few statements that change a column of a row that is there, SQL has it as the function `seal(…)`.

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
pub(super) struct Seal {
    sum: crc32fast::Hasher,
    /// Bytes that are not in the checksum yet. The checksum is several times as fast in long pieces, and most columns
    /// are short.
    gathered: [u8; GATHERED],
    /// How many they are.
    len: usize,
    /// Bytes that are in the checksum.
    summed: u64,
}

/// Longer texts are not copied.
const GATHERED: usize = 512;

impl Default for Seal {
    fn default() -> Seal {
        Seal { sum: crc32fast::Hasher::new(), gathered: [0; GATHERED], len: 0, summed: 0 }
    }
}

impl Seal {
    /// A column: its type, its length, and what it holds.
    pub(super) fn add(&mut self, value: ValueRef<'_>) {
        let (kind, number, text): (u8, i64, &[u8]) = match value {
            ValueRef::Null => (0, 0, &[]),
            ValueRef::Integer(number) => (1, number, &[]),
            ValueRef::Real(number) => (2, number.to_bits() as i64, &[]),
            ValueRef::Text(text) => (3, text.len() as i64, text),
            ValueRef::Blob(bytes) => (4, bytes.len() as i64, bytes),
        };
        let mut head = [kind; 9];
        head[1..].copy_from_slice(&number.to_le_bytes());
        self.gather(&head);
        self.gather(text);
    }

    fn gather(&mut self, bytes: &[u8]) {
        if self.len + bytes.len() > GATHERED {
            self.flush();
        }
        if bytes.len() > GATHERED {
            self.sum.update(bytes);
            self.summed += bytes.len() as u64;
        } else {
            self.gathered[self.len..self.len + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn flush(&mut self) {
        self.sum.update(&self.gathered[..self.len]);
        self.summed += self.len as u64;
        self.len = 0;
    }

    /// The length above the checksum.
    pub(super) fn value(mut self) -> i64 {
        self.flush();
        ((self.summed & 0x7fff_ffff) << 32) as i64 | i64::from(self.sum.finalize())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_does_not_depend_on_how_its_columns_are_gathered() {
        for len in [0, 1, 9, GATHERED - 18, GATHERED - 9, GATHERED, GATHERED + 1, 3 * GATHERED] {
            let (text, blob) = ("x".repeat(len), vec![7; len]);
            let columns = [
                ValueRef::Null,
                ValueRef::Integer(-5),
                ValueRef::Text(text.as_bytes()),
                ValueRef::Real(0.5),
                ValueRef::Blob(&blob),
                ValueRef::Text(text.as_bytes()),
            ];
            let mut seal = Seal::default();
            columns.iter().for_each(|column| seal.add(*column));
            let number = |kind: u8, number: i64| [&[kind][..], &number.to_le_bytes()].concat();
            let bytes = [
                number(0, 0),
                number(1, -5),
                number(3, len as i64),
                text.clone().into_bytes(),
                number(2, 0.5_f64.to_bits() as i64),
                number(4, len as i64),
                blob.clone(),
                number(3, len as i64),
                text.clone().into_bytes(),
            ]
            .concat();
            let expected = (bytes.len() as i64) << 32 | i64::from(crc32fast::hash(&bytes));
            assert_eq!(seal.value(), expected, "{len}");
        }
    }
}
