//! Ids of a feed that are logged and not in their table yet, in memory: what became of their gifts, and until when
//! that is remembered. An id that is here is asked for here and nowhere else: what the table has of it is older.

use std::collections::HashMap;

use super::db::Db;
use super::fault::{Fault, Step};
use super::frames::Record;
use super::id_lines::{IdLines, USUAL, push_id};
use super::ids::Ids;
use crate::domain::answer::{GiftFate, Remembered};
use crate::domain::{GiftId, Millis};

/// See the module.
#[derive(Default)]
pub(super) struct LoggedIds {
    /// As they are logged, and until when.
    known: HashMap<GiftId, (Millis, Box<str>)>,
    /// Those that came with this group, and are nowhere on disk.
    new: String,
}

impl LoggedIds {
    /// What became of a gift, and until when that is remembered.
    pub(super) fn get(&self, id: &GiftId) -> Step<Option<(Remembered, Millis)>> {
        let Some((until, text)) = self.known.get(id) else { return Ok(None) };
        Ok(Some((IdLines { id: id.as_str(), until: *until, text }.read()?, *until)))
    }

    /// Remembers what became of a gift id. Until when does not matter while it waits.
    pub(super) fn remember(&mut self, it: &Remembered, until: Millis) {
        let (id, until) = match &it.fate {
            GiftFate::Taken(answer) => (&answer.id, until),
            GiftFate::Cancelled(it) => (&it.id, until),
            GiftFate::Waits(it) => (&it.id, Millis::MAX),
            GiftFate::InReview { id, .. } => (id, Millis::MAX),
        };
        let from = self.new.len();
        self.new.reserve(USUAL);
        push_id(&mut self.new, it, until);
        self.known.insert(id.clone(), (until, self.new[from..].into()));
    }

    /// Puts what is new into the record that the commit logs; with none, all of them into the table.
    pub(super) fn write(
        &mut self,
        (db, ids, feed): (&Db, &mut Ids, i64),
        record: Option<&mut Record>,
    ) -> Step<()> {
        match record {
            Some(record) => record.ids = std::mem::take(&mut self.new),
            None if self.new.is_empty() => {}
            None => self.settle((db, ids, feed))?,
        }
        Ok(())
    }

    /// Brings all of them to the table.
    pub(super) fn settle(&mut self, (db, ids, feed): (&Db, &mut Ids, i64)) -> Step<()> {
        self.new.clear();
        let known = std::mem::take(&mut self.known);
        let lines = known.iter().map(|(id, (until, text))| IdLines { id: id.as_str(), until: *until, text });
        let mut lines: Vec<_> = lines.collect();
        lines.sort_unstable_by_key(|it| it.id);
        ids.put(db, feed, &lines)
    }

    /// Reads what a record of the log has of them.
    pub(super) fn read(&mut self, lines: &str) -> Step<()> {
        for it in IdLines::all(lines)? {
            let id = it.id.parse().map_err(|_| Fault::garbled("ids of it in the log cannot be read"))?;
            self.known.insert(id, (it.until, it.text.into()));
        }
        Ok(())
    }
}
