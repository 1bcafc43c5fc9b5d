//! Ids of a feed that are logged and not in their table yet, in memory: what became of their gifts, and until when
//! that is remembered. An id that is here is asked for here and nowhere else: what the table has of it is older.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::db::Db;
use super::fault::{Fault, Step};
use super::frames::Record;
use super::ids::{Columns, Ids, spell_part};
use crate::domain::answer::{GiftFate, Remembered};
use crate::domain::json::push_number;
use crate::domain::{Fingerprint, GiftId, Millis};

/// New ids of one commit that are brought to the table at once: logging them first would write them twice.
const MANY: usize = 64;

/// See the module.
#[derive(Default)]
pub(super) struct LoggedIds {
    /// In boxes: a node of the tree is made for eleven of them, and most feeds have a few.
    known: BTreeMap<GiftId, Box<(Remembered, Millis)>>,
    /// Those that came with this group, and are nowhere on disk.
    new: Vec<GiftId>,
    /// True when one of them was here before.
    again: bool,
}

impl LoggedIds {
    /// What became of a gift, and until when that is remembered.
    pub(super) fn get(&self, id: &GiftId) -> Option<&(Remembered, Millis)> {
        self.known.get(id).map(Box::as_ref)
    }

    /// Remembers what became of a gift id. Until when does not matter while it waits.
    pub(super) fn remember(&mut self, it: Remembered, until: Millis) {
        let (id, until) = match &it.fate {
            GiftFate::Taken(answer) => (&answer.id, until),
            GiftFate::Cancelled(it) => (&it.id, until),
            GiftFate::Waits(it) => (&it.id, Millis::MAX),
            GiftFate::InReview { id, .. } => (id, Millis::MAX),
        };
        let id = id.clone();
        self.again |= self.known.insert(id.clone(), Box::new((it, until))).is_some();
        self.new.push(id);
    }

    /// Puts what is new into the record that the commit logs, or with none, or when it is much, into the table.
    pub(super) fn write(
        &mut self,
        (db, ids, feed): (&Db, &mut Ids, i64),
        record: Option<&mut Record>,
    ) -> Step<()> {
        let (mut new, again) = (std::mem::take(&mut self.new), std::mem::take(&mut self.again));
        match record {
            // What the log has of an id comes after what the table has, so of one that is logged the next is logged too.
            Some(record) if again || new.len() < MANY => {
                record.ids.reserve(160 * new.len());
                for known in new.iter().filter_map(|id| self.known.get(id)) {
                    push_id(&mut record.ids, &known.0, known.1);
                }
            }
            _ => {
                new.sort_unstable();
                let known: Vec<_> = new.iter().filter_map(|id| self.known.remove(id)).collect();
                ids.put(db, feed, known.iter().map(Box::as_ref))?;
            }
        }
        Ok(())
    }

    /// Brings all of them to the table.
    pub(super) fn settle(&mut self, (db, ids, feed): (&Db, &mut Ids, i64)) -> Step<()> {
        (self.new, self.again) = (Vec::new(), false);
        ids.put(db, feed, std::mem::take(&mut self.known).values().map(Box::as_ref))
    }

    /// Reads what a record of the log has of them.
    pub(super) fn read(&mut self, lines: &str) -> Step<()> {
        let mut lines = lines.split_terminator('\n');
        while let Some(head) = lines.next() {
            let (it, until) = read_id(head, &mut lines)
                .unwrap_or_else(|| Err(Fault::garbled("ids of it in the log cannot be read")))?;
            self.known.insert(Columns::of(&it).id, Box::new((it, until)));
        }
        Ok(())
    }
}

/// Appends a line `ID FINGERPRINT STATUS EPOCH SEQ ROW COUNT UNTIL N`, and N lines of what it added.
fn push_id(out: &mut String, it: &Remembered, until: Millis) {
    let Columns { id, status, epoch, seq, row, count } = Columns::of(it);
    out.push_str(id.as_str());
    out.push(' ');
    let _ = write!(out, "{} ", it.fingerprint);
    push_number(out, status.into());
    out.push(' ');
    out.push_str(epoch);
    out.push(' ');
    push_number(out, seq as i64);
    out.push(' ');
    out.push_str(row);
    out.push(' ');
    count.into_iter().for_each(|count| push_number(out, count));
    out.push(' ');
    push_number(out, until.0);
    let part = spell_part(it);
    out.push(' ');
    push_number(out, part.split('\n').count() as i64);
    out.push('\n');
    out.push_str(&part);
    out.push('\n');
}

/// Reads what [`push_id`] wrote; none when it is not that.
fn read_id<'a>(head: &str, lines: &mut impl Iterator<Item = &'a str>) -> Option<Step<(Remembered, Millis)>> {
    let words: Vec<&str> = head.split(' ').collect();
    let [id, fingerprint, status, epoch, seq, row, count, until, more] = words[..] else { return None };
    let more: usize = more.parse().ok()?;
    let part: Vec<&str> = lines.take(more).collect();
    if part.len() != more {
        return None;
    }
    let count = if count.is_empty() { None } else { Some(count.parse().ok()?) };
    let (id, status, seq) = (id.parse().ok()?, status.parse().ok()?, seq.parse().ok()?);
    let (fingerprint, until) = (Fingerprint::from_hex(fingerprint)?, Millis(until.parse().ok()?));
    let columns = Columns { id, status, epoch, seq, row, count };
    Some(columns.remembered(fingerprint, &part.join("\n")).map(|it| (it, until)))
}
