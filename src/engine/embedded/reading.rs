//! Reading all of a file back: what is whole, and whose records are not what was written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::{Connection, Rows};

use super::effect::Effect;
use super::element::{effect_of, unseal};
use super::frame;
use super::keyspace::Keyspace;
use super::moving::Stretch;
use super::replay::Replay;
use super::salvage::salvage;
use crate::engine::protocol::owner::{Owners, feed_of, shown};

/// Rows that hold strings which expire: when the last of them does, and the number of the row.
pub(super) type Ends = BTreeSet<(i64, i64)>;

/// What a file holds.
#[derive(Default)]
pub(super) struct Found {
    pub space: Keyspace,
    /// What the log has and `elements` may not have.
    pub gathered: Stretch,
    /// The number of the last commit.
    pub number: i64,
    /// The first row of the log; the number behind the last one when it is empty.
    pub first: i64,
    /// When the rows of `soon` and `later` end.
    pub ends: [Ends; 2],
    /// Owners of which anything could be read, by their words.
    pub owners: BTreeSet<Vec<u8>>,
    /// Owners of which something could not, and what.
    pub damaged: BTreeMap<Vec<u8>, String>,
    /// What is damaged and not one feed's alone. A store with any of it is not opened.
    pub shared: Vec<String>,
    /// Elements of which it is not certain whose they are: the checksum of the owner that was written beside it, and the owner
    /// as the key reads.
    unclear: Vec<(u32, Vec<u8>)>,
}

/// Reads all of it. What expired before `now`, in milliseconds since 1970, is left out.
///
/// # Errors
/// When SQLite cannot read a page.
pub(super) fn read(conn: &Connection, owners: Owners, now: i64) -> rusqlite::Result<Found> {
    let mut found = Found::default();
    let mut lasting = Replay::default();
    found.read_elements(conn, owners, &mut lasting)?;
    found.read_log(conn, &mut lasting)?;
    found.read_expiring(conn, now)?;
    found.finish(lasting, owners);
    found.read_damaged(conn)?;
    found.find_owners();
    Ok(found)
}

/// [`read`] of a file of which some pages cannot be read. Also what is lost with them, in sentences.
///
/// # Errors
/// What is not about pages that cannot be read.
pub(super) fn read_broken(conn: &Connection, owners: Owners) -> rusqlite::Result<(Found, Vec<String>)> {
    let (mut found, mut lost) = (Found::default(), Vec::new());
    let mut lasting = Replay::default();
    let elements = salvage::<(Vec<u8>, Vec<u8>)>(
        conn,
        "SELECT key, element, value FROM elements WHERE (key, element) >= (?1, ?2) ORDER BY key, element",
        "SELECT key, element, value FROM elements WHERE (key, element) < (?1, ?2) ORDER BY key DESC, element DESC",
    )?;
    let mut expiries = Vec::new();
    for ((key, element), value) in &elements.rows {
        found.take_element(owners, (key, element, value), &mut lasting, &mut expiries);
    }
    expiries.iter().for_each(|effect| lasting.apply(effect));
    for ((low, _), (high, _)) in elements.gaps {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let (low, high) = (text(&low), if high == [0xff; 8] { "the end".into() } else { text(&high) });
        lost.push(format!("what a page held that cannot be read: keys between {low:?} and {high:?}"));
    }
    let log = numbered(conn, "log", &mut lost)?;
    for (number, bytes) in &log {
        found.take_commit(*number, bytes, &mut lasting);
        found.number = found.number.max(*number);
    }
    let mut strings: Vec<(i64, usize, Vec<u8>)> = Vec::new();
    for (table, name) in ["soon", "later"].into_iter().enumerate() {
        let rows = numbered(conn, name, &mut lost)?;
        strings.extend(rows.into_iter().map(|(number, bytes)| (number, table, bytes)));
    }
    strings.sort_unstable();
    for (number, table, bytes) in &strings {
        found.take_strings(*table, *number, bytes, i64::MIN);
    }
    found.finish(lasting, owners);
    found.find_owners();
    Ok((found, lost))
}

/// The rows of one of the tables that have numbers.
fn numbered(
    conn: &Connection,
    table: &str,
    lost: &mut Vec<String>,
) -> rusqlite::Result<BTreeMap<i64, Vec<u8>>> {
    let read = salvage::<i64>(
        conn,
        &format!("SELECT number, frame FROM {table} WHERE number >= ?1 ORDER BY number"),
        &format!("SELECT number, frame FROM {table} WHERE number < ?1 ORDER BY number DESC"),
    )?;
    for (low, high) in read.gaps {
        let what = if table == "log" { "changes of any feed" } else { "ids and locks of any feed" };
        let high = if high == i64::MAX { "the end".into() } else { high.to_string() };
        lost.push(format!("{what}, in commits between {low} and {high} that cannot be read (`{table}`)"));
    }
    Ok(read.rows)
}

impl Found {
    /// The feeds of which anything is stored, whole or not.
    pub fn feeds(&self) -> impl Iterator<Item = &[u8]> {
        let all: BTreeSet<&Vec<u8>> = self.owners.iter().chain(self.damaged.keys()).collect();
        all.into_iter().filter_map(|word| feed_of(word))
    }

    /// Takes over what was read. A list that misses an item in its middle is not what it was: its feed is damaged, and nobody
    /// gets what was behind by the numbers of others.
    fn finish(&mut self, lasting: Replay, owners: Owners) {
        let (space, broken) = lasting.finish();
        self.space.merge(space);
        for key in broken {
            let what = format!("the list {} misses some of its items", String::from_utf8_lossy(&key));
            self.damaged.entry(owners(&key).word().unwrap_or_default()).or_insert(what);
        }
    }

    fn read_elements(
        &mut self,
        conn: &Connection,
        owners: Owners,
        space: &mut Replay,
    ) -> rusqlite::Result<()> {
        let mut query = conn.prepare("SELECT key, element, value FROM elements ORDER BY key, element")?;
        let mut rows = query.query([])?;
        let mut expiries = Vec::new();
        while let Some(row) = rows.next()? {
            let (key, element) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            self.take_element(owners, (key, element, row.get_ref(2)?.as_blob()?), space, &mut expiries);
        }
        // Behind the elements of their collections, which begin without an expiry.
        expiries.iter().for_each(|effect| space.apply(effect));
        Ok(())
    }

    fn take_element(
        &mut self,
        owners: Owners,
        (key, element, value): (&[u8], &[u8], &[u8]),
        space: &mut Replay,
        expiries: &mut Vec<Effect>,
    ) {
        let owner = owners(key).word().unwrap_or_default();
        match unseal(&owner, key, element, value).and_then(|value| effect_of(key, element, value)) {
            Ok(effect) => {
                self.owners.insert(owner);
                match effect {
                    effect @ Effect::Expires { .. } => expiries.push(effect),
                    effect => space.apply(&effect),
                }
            }
            Err(sum) => self.unclear.push((sum, owner)),
        }
    }

    fn read_log(&mut self, conn: &Connection, space: &mut Replay) -> rusqlite::Result<()> {
        let mut query = conn.prepare("SELECT number, frame FROM log ORDER BY number")?;
        let mut rows = query.query([])?;
        let (mut first, mut last) = (None, 0);
        while let Some(row) = rows.next()? {
            let (number, bytes) = (row.get(0)?, row.get_ref(1)?.as_blob()?);
            first = first.or(Some(number));
            last = number;
            self.take_commit(number, bytes, space);
        }
        self.number = self.number.max(last);
        self.first = first.unwrap_or(last + 1);
        Ok(())
    }

    fn take_commit(&mut self, number: i64, bytes: &[u8], space: &mut Replay) {
        for effect in self.effects_of("log", number, bytes) {
            space.apply(&effect);
            self.gathered.add(&effect);
        }
        self.gathered.end = number;
        self.gathered.bytes += bytes.len();
    }

    /// Strings that expire, in the order in which they were written, whichever of the two tables has them.
    fn read_expiring(&mut self, conn: &Connection, now: i64) -> rusqlite::Result<()> {
        let mut soon = conn.prepare("SELECT number, frame FROM soon ORDER BY number")?;
        let mut later = conn.prepare("SELECT number, frame FROM later ORDER BY number")?;
        let (mut soon, mut later) = (soon.query([])?, later.query([])?);
        let (mut one, mut other) = (next_row(&mut soon)?, next_row(&mut later)?);
        loop {
            let from_soon = match (&one, &other) {
                (None, None) => break,
                (Some((at, _)), Some((behind, _))) => at <= behind,
                (one, _) => one.is_some(),
            };
            let (table, row) = match from_soon {
                true => (0, std::mem::replace(&mut one, next_row(&mut soon)?)),
                false => (1, std::mem::replace(&mut other, next_row(&mut later)?)),
            };
            let Some((number, bytes)) = row else { break };
            self.take_strings(table, number, &bytes, now);
        }
        Ok(())
    }

    fn take_strings(&mut self, table: usize, number: i64, bytes: &[u8], now: i64) {
        self.number = self.number.max(number);
        let mut end = i64::MIN;
        for effect in self.effects_of(["soon", "later"][table], number, bytes) {
            end = end.max(effect.until().unwrap_or(end));
            match &effect {
                Effect::String { key, until: Some(until), .. } if *until <= now => {
                    // It takes the place of what was there before all the same.
                    self.space.apply(&Effect::Dropped { key: key.clone(), until: *until });
                }
                effect => self.space.apply(effect),
            }
        }
        self.ends[table].insert((end, number));
    }

    /// What was found before: a record that is damaged may have gone since, its feed misses it all the same.
    fn read_damaged(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut query = conn.prepare("SELECT owner, what, sum FROM damaged")?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let (owner, what, stated): (Vec<u8>, String, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if stated != sum_of_damage(&owner, &what) {
                self.shared.push("a record of `damaged`".into());
            }
            self.damaged.insert(owner, what);
        }
        Ok(())
    }

    /// Says whose the records are of which that was not certain: an owner that wrote others, or the one whose name was not hurt.
    fn find_owners(&mut self) {
        let seen: HashMap<u32, &Vec<u8>> =
            self.owners.iter().map(|word| (crc32fast::hash(word), word)).collect();
        for (sum, parsed) in &self.unclear {
            let is_its_own = crc32fast::hash(parsed) == *sum;
            match seen.get(sum).copied().or(is_its_own.then_some(parsed)) {
                Some(owner) => {
                    let what = || "a record of `elements` is not what was written".into();
                    self.damaged.entry(owner.clone()).or_insert_with(what);
                }
                None => self.shared.push("a record of `elements`".into()),
            }
        }
        let shared = |owner: &&Vec<u8>| feed_of(owner).is_none();
        self.shared.extend(self.damaged.keys().filter(shared).map(|owner| shown(owner)));
        self.shared.dedup();
    }

    fn effects_of(&mut self, table: &str, number: i64, bytes: &[u8]) -> Vec<Effect> {
        let Some((written, parts)) = frame::read(bytes) else {
            self.shared.push(format!("row {number} of `{table}`"));
            return Vec::new();
        };
        let mut effects = Vec::new();
        for part in parts {
            match part.effects.filter(|_| written == number) {
                Some(read) => effects.extend(read),
                None => {
                    let what = format!("a record in row {number} of `{table}` is not what was written");
                    self.damaged.insert(part.owner.clone(), what);
                }
            }
            self.owners.insert(part.owner);
        }
        effects
    }
}

/// The checksum of a row of `damaged`.
pub(super) fn sum_of_damage(owner: &[u8], what: &str) -> u32 {
    crc32fast::hash(&[owner, b"\0", what.as_bytes()].concat())
}

fn next_row(rows: &mut Rows<'_>) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
    rows.next()?.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}
