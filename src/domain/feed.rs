//! A feed's state and its pure transitions. The embedded engine runs them; the Lua scripts of the
//! Redis engine do the same steps in the same order, and a seeded test compares the two.

use std::collections::HashMap;
use std::sync::Arc;

use super::json::push_string;
use super::row::{SoldRow, combo_key, lock_key};
use super::{
    Added, Answer, CannotFold, Change, Dedup, DropView, Epoch, FeedList, Gift, Millis, Op, Policy,
    PolicyPatch, Position, RemoveReason, Row, RowId, Sale, Status,
};

/// The dedup lock of one (user, kind of gift).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The row that took it.
    pub row: RowId,
    /// It holds while `now` is before this.
    pub until: Millis,
}

/// Everything of a feed but its history and the ids it remembers, which engines keep on disk.
#[derive(Clone, Debug, Default)]
pub struct FeedState {
    /// What watchers have.
    pub list: FeedList,
    /// By [`lock_key`].
    pub locks: HashMap<String, Lock>,
    /// What was set for this feed.
    pub overrides: PolicyPatch,
    /// Positions from here on are covered by history (a reset or a short history moves it up,
    /// nothing moves it down).
    pub covered_from: u64,
}

/// What one transition touched beside the state itself, for the engine to store.
#[derive(Debug, Default)]
pub struct Effects {
    /// New changes in order.
    pub changes: Vec<Change>,
    /// Locks that were taken or renewed, by key.
    pub locks: Vec<String>,
    /// What the last gift added to its row.
    pub part: Option<Added>,
}

impl FeedState {
    /// The position of the newest change.
    pub fn position(&self) -> Position {
        self.list.at.clone()
    }

    /// True when a watcher at `since` can be brought here by changes alone.
    pub fn covers(&self, since: &Position) -> bool {
        since.epoch == self.list.at.epoch && (self.covered_from..=self.list.at.seq).contains(&since.seq)
    }

    /// Removes rows whose time is over, the oldest row first.
    pub fn sweep(&mut self, policy: &Policy, now: Millis, effects: &mut Effects) {
        let over = |row: &Arc<Row>| row.expires_at.is_some_and(|at| at <= now);
        while let Some(at) = self.list.rows.iter().rposition(over) {
            if let Some(row) = self.list.rows.remove(at) {
                let reason = RemoveReason::Expired;
                self.record(Op::Remove { row: row.id.clone(), reason }, policy, effects);
            }
        }
    }

    /// Takes one gift that is new and not for later ([`super::due_at`]), or whose time has come.
    /// `policy` is the feed's own.
    pub fn publish(&mut self, gift: &Gift, policy: &Policy, now: Millis, effects: &mut Effects) -> Answer {
        self.sweep(policy, now, effects);
        effects.part = Some(Added { test: gift.test, ..Added::default() });
        let (status, row, count) = match gift.combo {
            Some(_) => self.publish_frame(gift, policy, now, effects),
            None => self.publish_locked(gift, policy, now, effects),
        };
        let count = (status == Status::Merged).then_some(count);
        Answer { status, id: gift.id.clone(), at: self.position(), row: Some(row), count }
    }

    /// Whether a gift is a frame of a combo that shows the very message which it brings.
    pub fn repeats_message(&self, gift: &Gift) -> bool {
        let (Some(key), Some(message)) = (combo_key(gift), &gift.message) else { return false };
        let mut text = String::new();
        push_string(&mut text, message);
        let of_combo = |row: &&Arc<Row>| row.combo.as_ref().is_some_and(|combo| *combo.key == *key);
        self.list.rows.iter().find(of_combo).is_some_and(|row| row.message.as_deref() == Some(&text))
    }

    /// An explicit combo neither takes nor heeds the dedup lock.
    fn publish_frame(
        &mut self,
        gift: &Gift,
        policy: &Policy,
        now: Millis,
        effects: &mut Effects,
    ) -> (Status, RowId, u64) {
        let key = combo_key(gift);
        // In another currency a newer row has the same key: the newest one is the combo's.
        let found = self
            .list
            .rows
            .iter()
            .position(|row| row.combo.as_ref().map(|c| &*c.key) == key.as_deref() && key.is_some());
        match found {
            Some(at) if self.list.rows[at].same_money(gift) => {
                if let Some(row) = self.list.rows[at].framed(gift, now, policy.row_ttl_ms) {
                    effects.part = Some(Added::between(Some(&self.list.rows[at]), &row));
                    self.replace(at, row, policy, effects);
                }
                (Status::Merged, self.list.rows[at].id.clone(), self.list.rows[at].count)
            }
            _ => self.start_row(gift, policy, now, effects),
        }
    }

    fn publish_locked(
        &mut self,
        gift: &Gift,
        policy: &Policy,
        now: Millis,
        effects: &mut Effects,
    ) -> (Status, RowId, u64) {
        if policy.dedup == Dedup::Off {
            return self.start_row(gift, policy, now, effects);
        }
        let key = lock_key(gift);
        let lock = self.locks.get(&key).filter(|lock| now < lock.until);
        if let Some(lock) = lock {
            if policy.dedup == Dedup::Drop {
                return (Status::Suppressed, lock.row.clone(), 0);
            }
            let found = self.list.rows.iter().position(|row| row.id == lock.row);
            if let Some(at) = found.filter(|at| self.list.rows[*at].same_money(gift)) {
                let row = self.list.rows[at].combined(gift, now, policy.row_ttl_ms);
                let (id, count) = (row.id.clone(), row.count);
                effects.part = Some(Added::between(Some(&self.list.rows[at]), &row));
                self.replace(at, row, policy, effects);
                self.lock(key, &id, policy, now, effects);
                return (Status::Merged, id, count);
            }
        }
        let (status, row, count) = self.start_row(gift, policy, now, effects);
        self.lock(key, &row, policy, now, effects);
        (status, row, count)
    }

    fn start_row(
        &mut self,
        gift: &Gift,
        policy: &Policy,
        now: Millis,
        effects: &mut Effects,
    ) -> (Status, RowId, u64) {
        let row = self.add(policy, effects, |id, seq| Row::start(id, seq, gift, now, policy.row_ttl_ms));
        effects.part = Some(Added::between(None, &row));
        (Status::Accepted, row.id.clone(), row.count)
    }

    fn add(
        &mut self,
        policy: &Policy,
        effects: &mut Effects,
        start: impl FnOnce(RowId, u64) -> Row,
    ) -> Arc<Row> {
        self.begin();
        let seq = self.list.at.seq + 1;
        let row = Arc::new(start(RowId::of(&self.list.at.epoch, seq), seq));
        self.list.rows.push_front(row.clone());
        self.list.rows.truncate(policy.capacity as usize);
        self.record(Op::Add(row.clone()), policy, effects);
        row
    }

    /// Shows a sale: a row of its own, outside dedup.
    pub fn sell(&mut self, sale: SoldRow<'_>, policy: &Policy, now: Millis, effects: &mut Effects) -> Sale {
        self.sweep(policy, now, effects);
        let row = self.add(policy, effects, |id, seq| Row::sold(id, seq, sale, now, policy.row_ttl_ms));
        Sale { at: self.position(), row: row.id.clone() }
    }

    /// Tells watchers how a drop stands.
    pub fn tell_drop(&mut self, view: DropView, policy: &Policy, effects: &mut Effects) {
        self.begin();
        let view = Arc::new(view);
        self.list.drops.insert(view.drop.clone(), view.clone());
        self.record(Op::Drop(view), policy, effects);
    }

    pub(super) fn replace(&mut self, at: usize, row: Row, policy: &Policy, effects: &mut Effects) {
        let row = Arc::new(row);
        self.list.rows[at] = row.clone();
        self.record(Op::Update(row), policy, effects);
    }

    fn lock(&mut self, key: String, row: &RowId, policy: &Policy, now: Millis, effects: &mut Effects) {
        if policy.dedup_window_ms > 0 {
            let until = now.plus(policy.dedup_window_ms);
            self.locks.insert(key.clone(), Lock { row: row.clone(), until });
            effects.locks.push(key);
        }
    }

    /// Takes a row back. False when it is not, or no longer, in the list.
    pub fn retract(&mut self, row: &RowId, policy: &Policy, now: Millis, effects: &mut Effects) -> bool {
        self.sweep(policy, now, effects);
        let Some(at) = self.list.rows.iter().position(|known| known.id == *row) else {
            return false;
        };
        self.list.rows.remove(at);
        let reason = RemoveReason::Retracted;
        self.record(Op::Remove { row: row.clone(), reason }, policy, effects);
        true
    }

    /// Sets the feed's overrides. A changed capacity trims and takes a seq, unless nobody wrote yet.
    pub fn set_policy(
        &mut self,
        overrides: PolicyPatch,
        defaults: &Policy,
        now: Millis,
        effects: &mut Effects,
    ) -> Policy {
        let old = defaults.with(&self.overrides);
        self.sweep(&old, now, effects);
        let new = defaults.with(&overrides);
        self.overrides = overrides;
        if new.capacity != old.capacity {
            self.resize(&new, effects);
        }
        self.covered_from = self.covered_from.max(self.list.at.seq.saturating_sub(new.history));
        new
    }

    /// Cuts the list to another capacity, which takes a seq unless nobody wrote yet.
    pub fn resize(&mut self, policy: &Policy, effects: &mut Effects) {
        if !self.list.at.epoch.is_none() {
            self.list.rows.truncate(policy.capacity as usize);
            self.record(Op::Reset, policy, effects);
        }
    }

    /// Folds a stored change into the state. An error means that what is stored is damaged; the state is as
    /// it was.
    pub fn fold(&mut self, change: &Change, capacity: u64) -> Result<(), CannotFold> {
        self.list.fold(change, capacity)?;
        if matches!(change.op, Op::Reset) {
            self.covered_from = change.seq;
        }
        Ok(())
    }

    pub(super) fn begin(&mut self) {
        if self.list.at.epoch.is_none() {
            self.list.at.epoch = Epoch::mint();
        }
    }

    pub(super) fn record(&mut self, op: Op, policy: &Policy, effects: &mut Effects) {
        self.list.at.seq += 1;
        self.covered_from = match op {
            Op::Reset => self.list.at.seq,
            _ => self.covered_from.max(self.list.at.seq.saturating_sub(policy.history)),
        };
        let epoch = self.list.at.epoch.clone();
        effects.changes.push(Change { epoch, seq: self.list.at.seq, prev: 0, tag: 0, op });
    }
}
