//! Which gift ids the table may hold, in memory: of an id that is new, which most are, the table need not be asked.
//!
//! A Bloom filter: it may say yes to an id that is not there, and never no to one that is. Ids are only added, so with
//! the years of a process it says yes more often, which costs a look at the table and nothing else. When it was told of more
//! than it has room for, a larger one is made.

use std::hash::{BuildHasher, RandomState};

use rusqlite::params;

use super::db::{Db, text};
use super::fault::{Fault, Step};
use super::id_lines::IdLines;

/// Bits for each id, and at least so many (1 MiB) and at most so many (16 MiB) in all.
const BITS_PER_ID: u64 = 12;
const LEAST: u64 = 1 << 23;
const MOST: u64 = 1 << 27;

/// More ids are read in pieces while the engine is at work: reading them all would hold up the start.
const AT_ONCE: u64 = 1 << 20;

/// Rows of ids in such a piece.
const PIECE: usize = 2048;

/// Bits that are set for an id.
const PROBES: u64 = 5;

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
    /// Ids that it was told of.
    count: u64,
    /// One with more room, which takes its place when it knows as much.
    larger: Option<Box<KnownIds>>,
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
        KnownIds { words, read, piece: PIECE, ..KnownIds::default() }
    }

    /// True while some of the table is to be read.
    pub(super) fn must_read(&self) -> bool {
        self.read.is_some()
    }

    /// Reads a piece of the table, if some of it is to be read. What cannot be read leaves it knowing nothing.
    pub(super) fn read_on(&mut self, db: &Db) -> Step<()> {
        let bits = self.bits();
        if !self.must_read() && self.larger.is_none() && (LEAST..MOST).contains(&bits) && self.is_full() {
            let larger = KnownIds { piece: self.piece, ..KnownIds::unread(self.count) };
            self.larger = Some(Box::new(larger));
        }
        let read = match &mut self.larger {
            Some(larger) => larger.read_piece(db),
            None => self.read_piece(db),
        };
        match read {
            Err(Fault::Garbled(_) | Fault::Unreadable(_)) => *self = KnownIds::default(),
            read => read?,
        }
        if let Some(larger) = self.larger.take_if(|larger| !larger.must_read()) {
            *self = *larger;
        }
        Ok(())
    }

    fn bits(&self) -> u64 {
        self.words.len() as u64 * 64
    }

    /// True when it says yes more often than it should.
    fn is_full(&self) -> bool {
        self.count * BITS_PER_ID > self.bits()
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
        if let Some(larger) = &mut self.larger {
            larger.add(feed, id);
        }
        self.count += 1;
        let (hash, bits) = (self.keys.hash_one((feed, id)), self.bits());
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
        let (hash, bits) = (self.keys.hash_one((feed, id)), self.bits());
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

    /// So many of these ids are said to be there that are not.
    fn wrong(known: &KnownIds) -> usize {
        (0..100_000).filter(|n| known.may_hold(n % 7, &format!("other-{n}"))).count()
    }

    #[test]
    fn it_never_denies_what_it_was_told_and_mostly_what_it_was_not() {
        let mut known = KnownIds { read: None, ..KnownIds::unread(0) };
        for n in 0..100_000 {
            known.add(n % 7, &format!("id-{n}"));
        }
        assert!((0..100_000).all(|n| known.may_hold(n % 7, &format!("id-{n}"))));
        assert!(wrong(&known) < 1_000, "{}", wrong(&known));
        assert!(KnownIds::default().may_hold(1, "x"), "whoever knows nothing asks the table");
    }

    #[test]
    fn one_that_is_full_gives_way_to_a_larger_one_that_knows_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (db, _) = super::super::open::open(&dir.path().join("tipcast.db")).unwrap();
        let mut known = KnownIds { read: None, words: vec![0; 1 << 17], ..KnownIds::unread(0) };
        for n in 0..2_000_000 {
            known.add(n % 7, &format!("id-{n}"));
        }
        let before = wrong(&known);
        assert!(before > 10_000 && known.is_full(), "{before}");
        known.read_on(&db).unwrap();
        // Nothing stood in the table, so what it knows now it was told since.
        assert!(known.larger.is_none() && !known.is_full() && wrong(&known) == 0);
        assert!(known.bits() > 1 << 23 && !known.must_read());
    }
}
