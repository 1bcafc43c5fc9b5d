//! Which gift ids the table may hold, in memory: of an id that is new, which most are, the table need not be asked.
//!
//! A Bloom filter: it may say yes to an id that is not there, and never no to one that is. Ids are only added, so with
//! the years of a process it says yes more often, which costs a look at the table and nothing else.

use std::hash::{BuildHasher, RandomState};

use rusqlite::params;

use super::db::{Db, text};
use super::fault::{Fault, Step};
use super::id_lines::IdLines;

/// Bits for each id that the table holds at the start, and at least so many and at most so many bits in all (4 MiB).
const BITS_PER_ID: u64 = 16;
const LEAST: u64 = 1 << 23;
const MOST: u64 = 1 << 25;

/// More ids are read in pieces while the engine is at work: reading them all would hold up the start.
const AT_ONCE: u64 = 1 << 20;

/// Rows of ids in such a piece.
const PIECE: usize = 2048;

/// Bits that are set for an id.
const PROBES: u64 = 4;

/// See the module. The default knows nothing, and never will.
#[derive(Default)]
pub(super) struct KnownIds {
    /// A power of two of bits, in words.
    words: Vec<u64>,
    keys: RandomState,
    /// The feed, run and key up to which the table was read, until all of it was. Ids never move to a place before theirs, so
    /// none is missed.
    read: Option<(i64, i64, String)>,
    /// Rows that are read at once.
    pub(super) piece: usize,
}

impl KnownIds {
    /// Of what the table holds, or with all of it to be read.
    pub(super) fn read(db: &Db) -> Step<KnownIds> {
        let most = i64::try_from(AT_ONCE).unwrap_or(i64::MAX);
        let sql = "SELECT sum(count) FROM (SELECT count FROM ids LIMIT ?1)";
        let count = match db.value::<u64>(sql, [most]) {
            Err(Fault::Garbled(_) | Fault::Unreadable(_)) => return Ok(KnownIds::default()),
            count => count?.unwrap_or(0),
        };
        let mut known = KnownIds::unread(count);
        while count < AT_ONCE && known.must_read() {
            known.read_on(db)?;
        }
        Ok(known)
    }

    /// For about so many ids, of which it knows none yet.
    pub(super) fn unread(count: u64) -> KnownIds {
        let bits = (2 * count * BITS_PER_ID).next_power_of_two().clamp(LEAST, MOST);
        let words = vec![0; (bits / 64) as usize];
        let read = Some((i64::MIN, 0, String::new()));
        KnownIds { words, keys: RandomState::new(), read, piece: PIECE }
    }

    /// True while some of the table is to be read.
    pub(super) fn must_read(&self) -> bool {
        self.read.is_some()
    }

    /// Reads a piece of the table. What cannot be read leaves it knowing nothing.
    pub(super) fn read_on(&mut self, db: &Db) -> Step<()> {
        match self.read_piece(db) {
            Err(Fault::Garbled(_) | Fault::Unreadable(_)) => {
                *self = KnownIds::default();
                Ok(())
            }
            read => read,
        }
    }

    fn read_piece(&mut self, db: &Db) -> Step<()> {
        let Some((feed, run, first)) = self.read.take() else { return Ok(()) };
        let sql = "SELECT feed, run, first, body FROM ids WHERE (feed, run, first) > (?1, ?2, ?3)
            ORDER BY feed, run, first LIMIT ?4";
        let mut query = db.conn.prepare_cached(sql)?;
        let mut rows = query.query(params![feed, run, first, self.piece as i64])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let feed = row.get(0)?;
            for it in IdLines::all(text(row, 3)?)? {
                self.add(feed, it.id);
            }
            count += 1;
            if count == self.piece {
                self.read = Some((feed, row.get(1)?, text(row, 2)?.to_owned()));
            }
        }
        Ok(())
    }

    /// The table gets this id of the feed. True when it may hold it already.
    pub(super) fn add(&mut self, feed: i64, id: &str) -> bool {
        let (hash, bits) = (self.keys.hash_one((feed, id)), self.words.len() as u64 * 64);
        let mut may_hold = true;
        if bits > 0 {
            for bit in probes(hash, bits) {
                let (word, bit) = (&mut self.words[(bit / 64) as usize], 1 << (bit % 64));
                may_hold &= *word & bit != 0;
                *word |= bit;
            }
        }
        may_hold || self.must_read()
    }

    /// False when the table does not hold this id of the feed.
    pub(super) fn may_hold(&self, feed: i64, id: &str) -> bool {
        let (hash, bits) = (self.keys.hash_one((feed, id)), self.words.len() as u64 * 64);
        let is_set = |bit: u64| self.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1;
        bits == 0 || self.must_read() || probes(hash, bits).all(is_set)
    }
}

/// The bits of an id, by two halves of its hash.
fn probes(hash: u64, bits: u64) -> impl Iterator<Item = u64> {
    let (first, step) = (hash & 0xffff_ffff, hash >> 32 | 1);
    (0..PROBES).map(move |n| first.wrapping_mul(0x9e37_79b9).wrapping_add(n.wrapping_mul(step)) & (bits - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_denies_what_it_was_told_and_mostly_what_it_was_not() {
        let mut known = KnownIds { read: None, ..KnownIds::unread(0) };
        for n in 0..100_000 {
            known.add(n % 7, &format!("id-{n}"));
        }
        assert!((0..100_000).all(|n| known.may_hold(n % 7, &format!("id-{n}"))));
        let wrong = (0..100_000).filter(|n| known.may_hold(n % 7, &format!("other-{n}"))).count();
        assert!(wrong < 1_000, "{wrong}");
        assert!(KnownIds::default().may_hold(1, "x"), "whoever knows nothing asks the table");
    }
}
