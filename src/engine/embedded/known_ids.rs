//! Which gift ids the table may hold, in memory: of an id that is new, which most are, the table need not be asked.
//!
//! A Bloom filter: it may say yes to an id that is not there, and never no to one that is. Ids are only added, so with
//! the years of a process it says yes more often, which costs a look at the table and nothing else.

use std::hash::{BuildHasher, RandomState};

use super::db::Db;
use super::fault::{Fault, Step};
use super::id_lines::IdLines;

/// Bits for each id that the table holds at the start, and at least so many and at most so many bits in all.
const BITS_PER_ID: u64 = 16;
const LEAST: u64 = 1 << 23;
const MOST: u64 = 1 << 25;

/// Of more ids nothing is known: reading them all would hold up the start.
const IDS_MOST: u64 = 1 << 20;

/// Bits that are set for an id.
const PROBES: u64 = 4;

/// See the module. The default knows nothing.
#[derive(Default)]
pub(super) struct KnownIds {
    /// A power of two of bits, in words; none of a table that was not read.
    words: Vec<u64>,
    keys: RandomState,
}

impl KnownIds {
    /// Of what the table holds. What cannot be read leaves it knowing nothing.
    pub(super) fn read(db: &Db) -> Step<KnownIds> {
        match KnownIds::read_all(db) {
            Err(Fault::Garbled(_) | Fault::Unreadable(_)) => Ok(KnownIds::default()),
            read => read,
        }
    }

    fn read_all(db: &Db) -> Step<KnownIds> {
        let most = i64::try_from(IDS_MOST).unwrap_or(i64::MAX);
        let sql = "SELECT sum(count) FROM (SELECT count FROM ids LIMIT ?1)";
        let count = db.value::<u64>(sql, [most])?.unwrap_or(0);
        if count >= IDS_MOST {
            return Ok(KnownIds::default());
        }
        let bits = (2 * count * BITS_PER_ID).next_power_of_two().clamp(LEAST, MOST);
        let mut known = KnownIds { words: vec![0; (bits / 64) as usize], keys: RandomState::new() };
        let mut query = db.conn.prepare("SELECT feed, body FROM ids")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let feed = row.get(0)?;
            for it in IdLines::all(super::db::text(row, 1)?)? {
                known.add(feed, it.id);
            }
        }
        Ok(known)
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
        may_hold
    }

    /// False when the table does not hold this id of the feed.
    pub(super) fn may_hold(&self, feed: i64, id: &str) -> bool {
        let (hash, bits) = (self.keys.hash_one((feed, id)), self.words.len() as u64 * 64);
        bits == 0 || probes(hash, bits).all(|bit| self.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
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
        let mut known = KnownIds { words: vec![0; (LEAST / 64) as usize], keys: RandomState::new() };
        for n in 0..100_000 {
            known.add(n % 7, &format!("id-{n}"));
        }
        assert!((0..100_000).all(|n| known.may_hold(n % 7, &format!("id-{n}"))));
        let wrong = (0..100_000).filter(|n| known.may_hold(n % 7, &format!("other-{n}"))).count();
        assert!(wrong < 1_000, "{wrong}");
        assert!(KnownIds::default().may_hold(1, "x"), "whoever knows nothing asks the table");
    }
}
