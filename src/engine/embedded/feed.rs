//! A feed in memory, what the next commit will write of it, and its tables: `feeds` holds its list as it stood at the
//! last time it was written whole; `changes` what came after, and the history that watchers resume over, in chunks,
//! each with the dedup locks of its commit; `locks` what was touched before it was written whole. A feed is its last
//! whole with the later changes folded in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::{Row as SqlRow, params};

use super::blocks::Blocks;
use super::claims;
use super::db::{Db, parsed, text};
use super::fault::{Fault, Step};
use super::frames::Record;
use super::ids::Ids;
use super::ledger::Ledger;
use super::locks::{StoredLocks, read_locks, spell_locks};
use super::log::Log;
use super::logged_ids::LoggedIds;
use super::tallies::{self, Tally};
use crate::domain::feed::Effects;
use crate::domain::{
    Change, Controls, DropId, Epoch, FeedId, FeedList, FeedState, Millis, Policy, PolicyPatch, Position,
    Stock,
};
use crate::engine::Missed;
use crate::engine::record::{Records, push_change, push_row};

/// Changes after which a feed is written whole, so that reading it back folds no more than these.
const WHOLE_EVERY: u64 = 256;

/// Changes in one stored chunk: what a resuming reader decodes at once.
const CHUNK: usize = 256;

/// See the module.
pub(super) struct Feed {
    /// Its key in the tables; none while nothing of it is kept.
    pub(super) no: Option<i64>,
    pub(super) state: FeedState,
    /// The policy in force.
    pub(super) policy: Arc<Policy>,
    /// What its rows are cut to.
    capacity: u64,
    /// The seq at which it was written whole.
    checkpoint: u64,
    /// True when it was written whole with its epoch: a policy alone is written without one.
    begun: bool,
    /// Changes of this group.
    pending: Vec<Change>,
    touched_locks: Vec<String>,
    /// Changes of groups before it that are on disk in the log alone, and the locks that they touched: what each
    /// commit logged.
    logged: Vec<Chunk>,
    /// Its ids that are on disk in the log alone, and those of this group.
    pub(super) ids: LoggedIds,
    /// Locks that were touched since it was written whole, and stand beside the changes on disk.
    later_locks: Vec<String>,
    /// What the table of locks has of it.
    stored_locks: StoredLocks,
    /// True when the next commit must write it whole.
    whole: bool,
    /// Locks in memory past which those that are over are dropped: twice what held the last time.
    purge_locks_at: usize,
    /// To be told when the group is durable.
    pub(super) policy_is_new: bool,
    /// Its drops as they stand; `state.list.drops` is what watchers were told.
    pub(super) stocks: BTreeMap<DropId, Stock>,
    touched_stocks: BTreeSet<DropId>,
    /// How many of its gifts wait, once somebody counted them.
    pub(super) waiting: Option<u64>,
    /// Users whose gifts are not shown, once somebody asked.
    pub(super) blocks: Option<Blocks>,
    pub(super) ledger: Ledger,
    /// What it counts; none for a feed that counts nothing, and never did.
    pub(super) tally: Option<Tally>,
    /// The clock of the call of this group that changed it last, if any did.
    pub(super) touched: Option<Millis>,
}

impl Feed {
    /// One that nobody wrote to.
    pub(super) fn new(defaults: &Arc<Policy>) -> Feed {
        Feed {
            no: None,
            state: FeedState::default(),
            policy: defaults.clone(),
            capacity: defaults.capacity,
            checkpoint: 0,
            begun: false,
            pending: Vec::new(),
            touched_locks: Vec::new(),
            logged: Vec::new(),
            ids: LoggedIds::default(),
            later_locks: Vec::new(),
            stored_locks: StoredLocks::default(),
            whole: false,
            purge_locks_at: 64,
            policy_is_new: false,
            stocks: BTreeMap::new(),
            touched_stocks: BTreeSet::new(),
            waiting: None,
            blocks: None,
            ledger: Ledger::default(),
            tally: None,
            touched: None,
        }
    }

    /// Reads a feed back; none when nothing of it is kept. Its locks come along whether they still hold or not:
    /// only what is in memory is ever purged.
    pub(super) fn load(db: &Db, name: &FeedId, defaults: &Arc<Policy>, log: &Log) -> Step<Option<Feed>> {
        let sql = "SELECT * FROM feeds WHERE name = ?1";
        let Some(mut feed) = db.one(sql, [name.as_str()], |r| read_feed(r, defaults))? else {
            return Ok(None);
        };
        let Some(no) = feed.no else { return Ok(None) };
        let (stored_capacity, mut later_locks) = (feed.capacity, Vec::new());
        let state = &mut feed.state;
        for change in read_changes(db, no, &state.list.at.epoch, state.list.at.seq, usize::MAX)? {
            state.fold(&change, stored_capacity).map_err(|why| Fault::garbled(why.to_string()))?;
        }
        let policy = &feed.policy;
        let read = state.list.at.seq;
        for record in log.records(no)? {
            feed.ids.read(&record.ids)?;
            if record.seq <= read {
                continue;
            }
            let garbled = || Fault::garbled("changes of it in the log cannot be read");
            let epoch = state.list.at.epoch.clone();
            let changes =
                Records::all(&record.changes, |records| records.change(&epoch)).ok_or_else(garbled)?;
            for change in &changes {
                state.fold(change, stored_capacity).map_err(|why| Fault::garbled(why.to_string()))?;
            }
            if state.list.at.seq != record.seq {
                return Err(garbled());
            }
            feed.logged.push(Chunk {
                last: record.seq,
                count: changes.len(),
                body: record.changes.clone(),
                locks: record.locks.clone(),
            });
            later_locks.extend(read_locks(&record.locks)?);
        }
        feed.ledger.found = log.records(no)?.to_vec();
        state.covered_from = state.covered_from.max(state.list.at.seq.saturating_sub(policy.history));
        feed.stored_locks = StoredLocks::read(db, no, &mut state.locks)?;
        let sql = "SELECT * FROM changes WHERE feed = ?1 AND last > ?2 ORDER BY last";
        let beside_changes = db.all(sql, params![no, feed.checkpoint], |r| read_locks(text(r, 3)?))?;
        for (key, lock) in beside_changes.into_iter().flatten().chain(later_locks) {
            feed.later_locks.push(key.clone());
            state.locks.insert(key, lock);
        }
        for (stock, shown) in claims::drops(db, no)? {
            state.list.drops.insert(shown.drop.clone(), shown.clone().into());
            feed.stocks.insert(shown.drop, stock);
        }
        if let Some((tally, totals, goals)) = tallies::read(db, no)? {
            (state.list.totals, state.list.goals) = (totals, goals);
            feed.tally = Some(tally);
        }
        if stored_capacity != policy.capacity {
            // The server's default changed while we were away: a change of the list like any other.
            let mut effects = Effects::default();
            state.resize(policy, &mut effects);
            feed.pending = effects.changes;
            feed.whole = true;
            feed.capacity = policy.capacity;
        }
        Ok(Some(feed))
    }

    /// True when it was read back in a way that has to be written.
    pub(super) fn must_write(&self) -> bool {
        self.whole
    }

    /// Has the next commit write it whole.
    pub(super) fn write_whole(&mut self) {
        self.whole = true;
    }

    /// It gets another policy, which is told when it is durable.
    pub(super) fn set_policy(&mut self, policy: Arc<Policy>) {
        self.capacity = policy.capacity;
        self.policy = policy;
        self.whole = true;
        self.policy_is_new = true;
    }

    /// Keeps what a transition brought; false when that was nothing.
    pub(super) fn keep(&mut self, mut effects: Effects) -> bool {
        let something = !effects.changes.is_empty() || !effects.locks.is_empty();
        self.pending.append(&mut effects.changes);
        self.touched_locks.append(&mut effects.locks);
        something
    }

    /// Keeps a drop that changed.
    pub(super) fn put_stock(&mut self, drop: &DropId, stock: Stock) {
        self.stocks.insert(drop.clone(), stock);
        self.touched_stocks.insert(drop.clone());
    }

    /// The changes of the group that is durable now.
    pub(super) fn take_pending(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.pending)
    }

    /// See [`crate::engine::ReadChanges`].
    pub(super) fn changes(&self, db: &Db, since: &Position, max: usize) -> Step<Missed> {
        if !self.state.covers(since) {
            return Ok(Missed::NotCovered);
        }
        let mut changes = match self.no {
            Some(no) => read_changes(db, no, &since.epoch, since.seq, max)?,
            None => Vec::new(),
        };
        let follow = |changes: &mut Vec<Change>, more: &[Change]| {
            for change in more {
                let last = changes.last().map_or(since.seq, |last| last.seq);
                if changes.len() < max && change.seq == last + 1 {
                    changes.push(change.clone());
                }
            }
        };
        for Chunk { last, body, .. } in self.logged.iter().filter(|chunk| chunk.last > since.seq) {
            if changes.len() == max {
                break;
            }
            let chunk = Records::all(body, |records| records.change(&since.epoch));
            let chunk = chunk.ok_or_else(|| Fault::garbled(format!("the changes up to {last}")))?;
            follow(&mut changes, &chunk);
        }
        follow(&mut changes, &self.pending);
        if changes.is_empty() && since.seq < self.state.list.at.seq {
            return Err(Fault::garbled(format!("the changes after {since} are not there")));
        }
        Ok(Missed::Changes(changes))
    }

    /// Begins another life of its numbering, as after a backup that may be older than what watchers saw.
    pub(super) fn begin_epoch(&mut self, db: &Db, ids: &mut Ids, name: &FeedId) -> Step<()> {
        let Some(no) = self.no.filter(|_| !self.state.list.at.epoch.is_none()) else { return Ok(()) };
        self.state.list.at.epoch = Epoch::mint();
        self.state.covered_from = self.state.list.at.seq;
        self.pending.clear();
        self.whole = true;
        db.run("DELETE FROM changes WHERE feed = ?1", [no])?;
        self.touched_locks = self.state.locks.keys().cloned().collect();
        self.logged.clear();
        self.write((db, ids), name, Millis(i64::MIN), None)
    }

    /// Brings changes that are logged to their table.
    pub(super) fn write_logged(&mut self, db: &Db) -> Step<()> {
        let Some(no) = self.no else { return Ok(()) };
        self.whole |= self.is_due();
        // Written whole in the same commit, it needs no changes that history has let go of.
        let over = if self.whole { self.state.covered_from.min(self.state.list.at.seq) } else { 0 };
        let logged = std::mem::take(&mut self.logged).into_iter();
        let mut logged = logged.skip_while(|chunk| chunk.last <= over).peekable();
        while let Some(mut chunk) = logged.next() {
            while let Some(more) = logged.next_if(|more| chunk.count + more.count <= CHUNK) {
                (chunk.last, chunk.count) = (more.last, chunk.count + more.count);
                chunk.body.push_str(&more.body);
                chunk.locks.push_str(&more.locks);
            }
            put_chunk(db, no, chunk.last, &chunk.body, &chunk.locks)?;
        }
        Ok(())
    }

    /// True when reading it back would fold too many changes.
    fn is_due(&self) -> bool {
        self.state.list.at.seq - self.checkpoint >= WHOLE_EVERY
    }

    /// Writes what is new of it: into the log if there is one, and it is not to be written whole. `now`
    /// decides which locks need not be kept any more.
    pub(super) fn write(
        &mut self,
        (db, ids): (&Db, &mut Ids),
        name: &FeedId,
        now: Millis,
        log: Option<&mut Log>,
    ) -> Step<()> {
        let Some(no) = self.no else { return Ok(()) };
        let begins = !self.begun && !self.state.list.at.epoch.is_none();
        let nowhere_to_stand = self.pending.is_empty() && !self.touched_locks.is_empty();
        let mut record = Record::default();
        if self.whole || begins || nowhere_to_stand || log.is_none() {
            self.write_now(db, (name, no), begins || nowhere_to_stand, now)?;
        } else if let Some(last) = self.pending.last() {
            record.seq = last.seq;
            record.changes = spell_changes(&self.pending);
            record.locks = spell_locks(&mut self.touched_locks, &self.state.locks);
            self.later_locks.append(&mut self.touched_locks);
        }
        if let Some(log) = log {
            if self.ledger.new_entries() > 0 {
                self.ledger.log(&mut record);
            }
            self.ids.write((db, ids, no), Some(&mut record))?;
            if !record.is_empty() {
                log.put((name, no), &record);
            }
            if record.seq > 0 {
                let Record { seq: last, changes: body, locks, .. } = record;
                self.logged.push(Chunk { last, count: self.pending.len(), body, locks });
            }
        } else {
            self.ids.write((db, ids, no), None)?;
        }
        self.write_rest(db, no, now)
    }

    /// Writes its changes to their table, and it whole if it is time for that.
    fn write_now(&mut self, db: &Db, (name, no): (&FeedId, i64), whole: bool, now: Millis) -> Step<()> {
        if !self.logged.is_empty() {
            self.write_logged(db)?;
        }
        let whole = whole || self.whole || self.is_due();
        let mut locks = String::new();
        if whole {
            write_feed(db, no, name, &self.state, self.capacity)?;
        } else {
            locks = spell_locks(&mut self.touched_locks, &self.state.locks);
        }
        self.later_locks.append(&mut self.touched_locks);
        append(db, no, &self.pending, &locks)?;
        if whole {
            let state = &mut self.state;
            self.checkpoint = state.list.at.seq;
            self.begun = !state.list.at.epoch.is_none();
            let forget = state.covered_from.min(state.list.at.seq);
            db.run("DELETE FROM changes WHERE feed = ?1 AND last <= ?2", params![no, forget])?;
            self.later_locks.sort_unstable();
            self.later_locks.dedup();
            self.stored_locks.put(db, no, &self.later_locks, &mut state.locks, now)?;
            self.later_locks.clear();
            self.whole = false;
        }
        Ok(())
    }

    /// Writes what it has beside its list.
    fn write_rest(&mut self, db: &Db, no: i64, now: Millis) -> Step<()> {
        let state = &mut self.state;
        for name in std::mem::take(&mut self.touched_stocks) {
            if let (Some(stock), Some(shown)) = (self.stocks.get(&name), state.list.drops.get(&name)) {
                claims::put_drop(db, no, &name, stock, shown)?;
            }
        }
        if let Some(tally) = &mut self.tally {
            let rows = state.list.rows.iter().map(|row| &row.id).collect();
            tallies::write(db, no, tally, &rows, (&state.list.totals, &state.list.goals))?;
        }
        if state.locks.len() > self.purge_locks_at {
            state.locks.retain(|_, lock| lock.until > now);
            self.purge_locks_at = 2 * state.locks.len() + 64;
        }
        Ok(())
    }
}

fn write_feed(db: &Db, no: i64, name: &FeedId, state: &FeedState, capacity: u64) -> Step<()> {
    let sql = "INSERT INTO feeds VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
        ON CONFLICT (no) DO UPDATE SET epoch = ?3, seq = ?4, covered_from = ?5, capacity = ?6, overrides = ?7,
        rows = ?8, controls = ?9, seal = excluded.seal";
    let overrides = serde_json::json!(state.overrides).to_string();
    let controls = u8::from(state.list.controls.paused) + 2 * u8::from(state.list.controls.muted);
    let mut rows = String::with_capacity(512 * state.list.rows.len());
    state.list.rows.iter().for_each(|row| push_row(&mut rows, row));
    let (epoch, seq, from) = (state.list.at.epoch.as_str(), state.list.at.seq, state.covered_from);
    db.put(sql, params![no, name.as_str(), epoch, seq, from, capacity, overrides, rows, controls])
}

/// Changes that follow each other, as a commit logged them or their table has them.
struct Chunk {
    /// The seq of the last of them, and how many they are.
    last: u64,
    count: usize,
    body: String,
    /// Locks that they touched.
    locks: String,
}

fn spell_changes(changes: &[Change]) -> String {
    let mut body = String::with_capacity(512 * changes.len());
    changes.iter().for_each(|change| push_change(&mut body, change));
    body
}

/// Appends changes of one feed, in order, and beside the last of them `locks` as [`spell_locks`] spells them; no
/// locks without changes.
fn append(db: &Db, no: i64, changes: &[Change], locks: &str) -> Step<()> {
    let mut chunks = changes.chunks(CHUNK).peekable();
    while let Some(chunk) = chunks.next() {
        let locks = if chunks.peek().is_some() { "" } else { locks };
        if let Some(last) = chunk.last() {
            put_chunk(db, no, last.seq, &spell_changes(chunk), locks)?;
        }
    }
    Ok(())
}

fn put_chunk(db: &Db, no: i64, last: u64, body: &str, locks: &str) -> Step<()> {
    db.put("INSERT INTO changes VALUES (?1, ?2, ?3, ?4, ?5)", params![no, last, body, locks])
}

/// The changes after `seq`, at most `max`, without holes.
fn read_changes(db: &Db, no: i64, epoch: &Epoch, seq: u64, max: usize) -> Step<Vec<Change>> {
    // No chunk is empty, so `max` of them are enough.
    let sql = "SELECT * FROM changes WHERE feed = ?1 AND last > ?2 ORDER BY last LIMIT ?3";
    let mut changes: Vec<Change> = Vec::new();
    let most = i64::try_from(max).unwrap_or(i64::MAX);
    db.all(sql, params![no, seq, most], |r| {
        if changes.len() == max {
            return Ok(());
        }
        let last: u64 = r.get(1)?;
        let chunk = Records::all(text(r, 2)?, |records| records.change(epoch))
            .filter(|chunk| chunk.last().is_some_and(|change| change.seq == last))
            .ok_or_else(|| Fault::garbled(format!("the changes up to {last} cannot be read")))?;
        for change in chunk.into_iter().filter(|change| change.seq > seq).take(max - changes.len()) {
            let before = changes.last().map_or(seq, |before| before.seq);
            if change.seq != before + 1 {
                return Err(Fault::garbled(format!("the change after {before} is not there")));
            }
            changes.push(change);
        }
        Ok(())
    })?;
    Ok(changes)
}

fn read_feed(r: &SqlRow<'_>, defaults: &Arc<Policy>) -> Step<Feed> {
    let unreadable = |why: String| Fault::garbled(format!("its list cannot be read: {why}"));
    let rows =
        Records::all(text(r, 7)?, Records::row).ok_or_else(|| unreadable("a row is garbled".into()))?;
    let overrides: PolicyPatch = serde_json::from_str(text(r, 6)?).map_err(|e| unreadable(e.to_string()))?;
    let policy = if overrides == PolicyPatch::default() {
        defaults.clone()
    } else {
        Arc::new(defaults.with(&overrides))
    };
    let checkpoint: u64 = r.get(3)?;
    let controls: u8 = r.get(8)?;
    let list = FeedList {
        at: Position { epoch: parsed(r, 2)?, seq: checkpoint },
        rows: rows.into_iter().map(Into::into).collect(),
        controls: Controls { paused: controls & 1 > 0, muted: controls & 2 > 0 },
        ..FeedList::default()
    };
    let state = FeedState { list, overrides, covered_from: r.get(4)?, ..FeedState::default() };
    let (begun, capacity) = (!state.list.at.epoch.is_none(), r.get(5)?);
    Ok(Feed { no: Some(r.get(0)?), state, policy, capacity, checkpoint, begun, ..Feed::new(defaults) })
}
