//! What a row holds, as SQLite writes it in its files: values one behind the other, with a head that says of which kind
//! each is. The format is <https://sqlite.org/fileformat2.html>, section 2.1; numbers in it are big-endian.

use std::cmp::Ordering;

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// A column of a row as it is stored. Text need not be UTF-8: a byte of it may have flipped.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) => ValueRef::Text(text),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// SQLite's order: nulls, numbers, text, blobs.
pub(super) fn compare(a: &Value, b: &Value) -> Ordering {
    let kind = |value: &Value| match value {
        Value::Null => 0,
        Value::Integer(_) | Value::Real(_) => 1,
        Value::Text(_) => 2,
        Value::Blob(_) => 3,
    };
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) | (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
        _ => kind(a).cmp(&kind(b)),
    }
}

/// The columns of a record, as far as they are there; true when they are all.
pub(super) fn record(payload: &[u8]) -> Option<(Vec<Value>, bool)> {
    let mut head = payload;
    let length = usize::try_from(varint(&mut head)?).ok()?;
    let counted = payload.len() - head.len();
    let mut head = payload.get(counted..length)?;
    let mut body = &payload[length..];
    let mut values = Vec::new();
    while !head.is_empty() {
        let kind = varint(&mut head)?;
        let size = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((kind - 12) / 2).ok()?,
            _ => return None,
        };
        let Some((bytes, after)) = body.split_at_checked(size) else { return Some((values, false)) };
        body = after;
        values.push(match kind {
            0 => Value::Null,
            8 | 9 => Value::Integer(kind - 8),
            1..=6 => Value::Integer(integer(bytes)),
            7 => Value::Real(f64::from_bits(integer(bytes) as u64)),
            kind if kind % 2 == 0 => Value::Blob(bytes.to_vec()),
            _ => Value::Text(bytes.to_vec()),
        });
    }
    Some((values, body.is_empty()))
}

/// A signed number of up to eight bytes.
fn integer(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|first| first & 0x80 > 0) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

/// A number of one to nine bytes, of which all but a ninth one have seven bits of it.
pub(super) fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for n in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if n == 8 {
            return Some((number << 8 | u64::from(*byte)) as i64);
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(number as i64);
        }
    }
    None
}

/// A number of two bytes.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// A number of four bytes.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
