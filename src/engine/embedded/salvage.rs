//! Rows of a table of which some pages cannot be read: from both ends up to the first page that cannot, and then from places
//! between, as far as that leads.

use std::collections::{BTreeMap, VecDeque};

use rusqlite::types::Value;
use rusqlite::{Connection, Error, ErrorCode, Row, params_from_iter};

/// Places from which a table is read, at most.
const MAX_PROBES: usize = 20_000;

/// The place of a row in its table.
pub(super) trait RowKey: Ord + Clone {
    /// No row is behind this.
    fn last() -> Self;
    /// No row is in front of this.
    fn first() -> Self;
    /// As the queries take it.
    fn values(&self) -> Vec<Value>;
    /// A row's place and what it holds.
    fn of(row: &Row<'_>) -> rusqlite::Result<(Self, Vec<u8>)>;
    /// A place between two, if there is one.
    fn between(low: &Self, high: &Self) -> Option<Self>;
}

impl RowKey for i64 {
    fn last() -> i64 {
        i64::MAX
    }

    fn first() -> i64 {
        -1
    }

    fn values(&self) -> Vec<Value> {
        vec![Value::Integer(*self)]
    }

    fn of(row: &Row<'_>) -> rusqlite::Result<(i64, Vec<u8>)> {
        Ok((row.get(0)?, row.get(1)?))
    }

    fn between(low: &i64, high: &i64) -> Option<i64> {
        // Numbers are dense, and the last one is not known: it is doubled until nothing is behind it.
        let between = match *high == i64::MAX {
            true => low.max(&1).checked_mul(2)?,
            false => low + (high - low) / 2,
        };
        (between > *low && between < *high).then_some(between)
    }
}

impl RowKey for (Vec<u8>, Vec<u8>) {
    fn last() -> Self {
        (vec![0xff; 8], Vec::new())
    }

    fn first() -> Self {
        (Vec::new(), Vec::new())
    }

    fn values(&self) -> Vec<Value> {
        vec![Value::Blob(self.0.clone()), Value::Blob(self.1.clone())]
    }

    fn of(row: &Row<'_>) -> rusqlite::Result<(Self, Vec<u8>)> {
        Ok(((row.get(0)?, row.get(1)?), row.get(2)?))
    }

    fn between(low: &Self, high: &Self) -> Option<Self> {
        match low.0 == high.0 {
            true => middle(&low.1, &high.1).map(|element| (low.0.clone(), element)),
            false => middle(&low.0, &high.0).map(|key| (key, Vec::new())),
        }
    }
}

/// A text between two: what they have in common, and the middle of the six bytes that follow.
fn middle(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let common = low.iter().zip(high).take_while(|(one, other)| one == other).count();
    let number = |text: &[u8]| {
        (0..6).fold(0_u64, |sum, at| sum << 8 | u64::from(text.get(common + at).copied().unwrap_or(0)))
    };
    let (one, other) = (number(low), number(high));
    let middle = one + other.saturating_sub(one) / 2;
    (middle > one).then(|| [&low[..common], &middle.to_be_bytes()[2..]].concat())
}

/// What could be read of a table.
pub(super) struct Salvaged<P> {
    pub rows: BTreeMap<P, Vec<u8>>,
    /// Between these places something could not be read.
    pub gaps: Vec<(P, P)>,
}

/// Reads a table. `upward` gives the rows from a place on, `downward` those in front of one, from there.
///
/// # Errors
/// What is not about pages that cannot be read.
pub(super) fn salvage<P: RowKey>(
    conn: &Connection,
    upward: &str,
    downward: &str,
) -> rusqlite::Result<Salvaged<P>> {
    let mut rows = BTreeMap::new();
    let (low, high) = (P::first(), P::last());
    let Some(low) = read(conn, upward, &low, &high, &mut rows)? else {
        return Ok(Salvaged { rows, gaps: Vec::new() });
    };
    let Some(high) = read(conn, downward, &high, &low, &mut rows)? else {
        return Ok(Salvaged { rows, gaps: vec![(low, P::last())] });
    };
    let (mut open, mut gaps, mut probes) = (VecDeque::from([(low, high)]), Vec::new(), 0);
    while let Some((low, high)) = open.pop_front() {
        let Some(from) = P::between(&low, &high).filter(|_| probes < MAX_PROBES) else {
            gaps.push((low, high));
            continue;
        };
        probes += 1;
        let below = read(conn, downward, &from, &low, &mut rows)?;
        let above = read(conn, upward, &from, &high, &mut rows)?;
        open.extend(below.map(|below| (low, below)));
        open.extend(above.map(|above| (above, high)));
    }
    gaps.sort();
    // What is between two gaps and no row is part of one.
    let mut joined: Vec<(P, P)> = Vec::new();
    for (low, high) in gaps {
        match joined.last_mut() {
            Some(before) if before.1 >= low && !rows.contains_key(&low) => before.1 = high,
            _ => joined.push((low, high)),
        }
    }
    Ok(Salvaged { rows, gaps: joined })
}

/// Reads rows from a place on until one is at `stop` or behind it. The last place that could be read, where that is not
/// all.
fn read<P: RowKey>(
    conn: &Connection,
    query: &str,
    from: &P,
    stop: &P,
    into: &mut BTreeMap<P, Vec<u8>>,
) -> rusqlite::Result<Option<P>> {
    let mut last = from.clone();
    let is_upward = stop >= from;
    let mut query = match conn.prepare_cached(query) {
        Err(error) if is_unreadable(&error) => return Ok(Some(last)),
        query => query?,
    };
    let mut rows = query.query(params_from_iter(from.values()))?;
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(None),
            Err(error) if is_unreadable(&error) => return Ok(Some(last)),
            Err(error) => return Err(error),
        };
        // A row that is not of the table's form is damaged itself.
        let Ok((place, bytes)) = P::of(row) else { continue };
        let is_in_order = if is_upward { place >= last } else { place <= last };
        if !is_in_order {
            return Ok(Some(last));
        }
        if if is_upward { place >= *stop } else { place <= *stop } {
            return Ok(None);
        }
        last = place.clone();
        into.insert(place, bytes);
    }
}

fn is_unreadable(error: &Error) -> bool {
    use ErrorCode::{DatabaseCorrupt, NotADatabase, SystemIoFailure};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase | SystemIoFailure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_between_two_is_between_them() {
        let text = |key: &str| (key.as_bytes().to_vec(), Vec::new());
        let (low, high) = (text("{room1}:list"), text("{room7}:rows"));
        let between = RowKey::between(&low, &high).unwrap();
        assert!(low < between && between < high, "{between:?}");
        assert!(<(Vec<u8>, Vec<u8>)>::between(&low, &low).is_none());
        assert_eq!((i64::between(&3, &9), i64::between(&3, &4)), (Some(6), None));
        assert_eq!(i64::between(&-1, &i64::MAX), Some(2));
    }

    /// A table of which the page with this share of its bytes in front of it is overwritten.
    fn hurt(shares: &[f64]) -> (tempfile::TempDir, Connection) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch("CREATE TABLE log (number INTEGER PRIMARY KEY, frame BLOB)").unwrap();
        conn.execute_batch("BEGIN").unwrap();
        for number in 1..=2_000 {
            conn.execute("INSERT INTO log VALUES (?1, zeroblob(200))", [number]).unwrap();
        }
        conn.execute_batch("COMMIT").unwrap();
        drop(conn);
        let mut bytes = std::fs::read(&path).unwrap();
        let pages = bytes.len() / 4096;
        for share in shares {
            let page = (pages as f64 * share) as usize;
            bytes[page * 4096..][..4096].fill(0xa5);
        }
        std::fs::write(&path, bytes).unwrap();
        let conn = Connection::open(&path).unwrap();
        (dir, conn)
    }

    #[test]
    fn records_around_damaged_pages_are_read() {
        for shares in [&[0.5][..], &[0.3, 0.6], &[0.1, 0.4, 0.45, 0.9], &[0.999]] {
            let (_dir, conn) = hurt(shares);
            let Salvaged { rows, gaps } = salvage::<i64>(
                &conn,
                "SELECT number, frame FROM log WHERE number >= ?1 ORDER BY number",
                "SELECT number, frame FROM log WHERE number < ?1 ORDER BY number DESC",
            )
            .unwrap();
            // A page has some 20 rows.
            assert!(rows.len() >= 2_000 - 25 * shares.len(), "{shares:?}: {} rows", rows.len());
            assert!(!gaps.is_empty() && gaps.len() <= shares.len(), "{shares:?}: {gaps:?}");
        }
    }
}
