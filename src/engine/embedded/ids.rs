//! What was answered to each gift id. New ids are logged by the commit that brings them and stay in memory; they
//! come to the table `ids` when the log is settled, feed by feed and in order. An id is
//! forgotten when its window is over, and not while its gift waits.
//!
//! How they stand there is in [`super::id_runs`].

use memchr::memmem;
use rusqlite::params;

use super::db::Db;
use super::fault::Step;
use super::id_lines::IdLines;
use super::id_run::{IdRow, Run};
use super::id_runs;
use super::known_ids::KnownIds;
use super::seal::{self, Found};
use crate::domain::answer::Remembered;
use crate::domain::{GiftId, Millis};

/// Rows that one round of [`Ids::forget`] looks at, at most.
const ROUND: usize = 16_384;

/// See the module. It looks for ids to forget in turn through the whole table: an index by time would cost every id as much as
/// writing it does.
pub(super) struct Ids {
    pub(super) known: KnownIds,
    /// Ids written since they were looked after the last time: as many rows are looked at, of which each holds one or more, so the
    /// table can't outgrow it.
    written: usize,
    /// The last row that it looked at in this turn, by feed, run and key.
    looked_at: (i64, i64, String),
    /// All ids that it saw in this turn, or that came since it began, hold until then.
    hold: Millis,
    /// Until then nothing can be forgotten.
    rest: Millis,
}

impl Default for Ids {
    fn default() -> Ids {
        Ids {
            known: KnownIds::default(),
            written: 0,
            looked_at: (i64::MIN, 0, String::new()),
            hold: Millis::MAX,
            rest: Millis(i64::MIN),
        }
    }
}

impl Ids {
    /// With what is known of the ids in the table.
    pub(super) fn read(db: &Db) -> Step<Ids> {
        Ok(Ids { known: KnownIds::read(db)?, ..Ids::default() })
    }

    /// What the table says was answered to a gift id, and until when that is remembered.
    pub(super) fn find(&self, db: &Db, feed: i64, id: &GiftId) -> Step<Option<(Remembered, Millis)>> {
        if !self.known.may_hold(feed, id.as_str()) {
            return Ok(None);
        }
        let Some((_, row)) = place_of(db, &id_runs::of(db, feed)?, id.as_str())? else { return Ok(None) };
        let found = IdLines::all(&row.body)?.into_iter().find(|it| it.id == id.as_str());
        found.map(|it| Ok((it.read()?, it.until))).transpose()
    }

    /// Brings what became of gift ids to the table; they are in order, each of them once.
    pub(super) fn put(&mut self, db: &Db, feed: i64, all: &[IdLines<'_>]) -> Step<()> {
        let (mut new, mut known) = (Vec::with_capacity(all.len()), Vec::new());
        for it in all {
            self.written += 1;
            // The search may rest, or have passed here: either way it must not rest longer than this.
            self.hold = self.hold.min(it.until);
            self.rest = self.rest.min(it.until);
            match self.known.add(feed, it.id) {
                true => known.push(*it),
                false => new.push(*it),
            }
        }
        if !known.is_empty() {
            let runs = id_runs::of(db, feed)?;
            for it in known {
                match place_of(db, &runs, it.id)? {
                    Some((run, _)) => run.put(db, &[it])?,
                    None => new.push(it),
                }
            }
            new.sort_unstable_by_key(|it| it.id);
        }
        id_runs::put(db, feed, &new)
    }

    /// Reads some of the ids in the table, when there were too many to read at the start or to know in the room there was; see
    /// [`KnownIds`].
    pub(super) fn learn(&mut self, db: &Db) -> Step<()> {
        self.known.read_on(db)
    }

    /// Ids written since the last round.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// One round: looks at some ids and forgets those whose window is over at `now`. After a turn in which all
    /// still held, it rests until the first does not. What cannot be read stays, and is for whoever asks for it.
    pub(super) fn forget(&mut self, db: &Db, now: Millis) -> Step<()> {
        let most = (self.written + 256).min(ROUND);
        self.written = self.written.saturating_sub(most);
        self.look(db, now, most)
    }

    fn look(&mut self, db: &Db, now: Millis, most: usize) -> Step<()> {
        if now < self.rest {
            return Ok(());
        }
        let mut last = std::mem::replace(&mut self.looked_at, (i64::MIN, 0, String::new()));
        let (mut looked, mut over) = (0, Vec::new());
        {
            let sql = "SELECT * FROM ids WHERE (feed, run, first) > (?1, ?2, ?3) ORDER BY feed, run, first LIMIT ?4";
            let mut query = db.conn.prepare_cached(sql)?;
            let mut rows = query.query(params![last.0, last.1, last.2, most as i64])?;
            while let Some(r) = rows.next()? {
                looked += 1;
                if looked == most {
                    last = (r.get(0)?, r.get(1)?, r.get_ref(2)?.as_str().unwrap_or_default().to_owned());
                }
                let least = Millis(r.get(4)?);
                if least > now {
                    self.hold = self.hold.min(least);
                } else if seal::check(r).is_ok_and(|found| found == Found::Whole) {
                    let run = Run { feed: r.get(0)?, run: r.get(1)? };
                    over.push((run, r.get::<_, String>(2)?, r.get::<_, String>(5)?));
                }
            }
        }
        if !over.is_empty() {
            self.hold = self.hold.min(now);
            db.begin()?;
            for (run, key, body) in over {
                let Ok(mut lines) = IdLines::all(&body) else { continue };
                lines.retain(|it| it.until > now);
                match lines.is_empty() {
                    true => run.remove(db, &key)?,
                    false => run.put_row(db, &key, &lines)?,
                }
            }
        }
        if looked == most {
            self.looked_at = last;
        } else {
            self.rest = std::mem::replace(&mut self.hold, Millis::MAX);
        }
        Ok(())
    }
}

/// The run in which an id stands, and its row there.
fn place_of(db: &Db, runs: &[Run], id: &str) -> Step<Option<(Run, IdRow)>> {
    for run in runs {
        if let Some(row) = run.row_of(db, id)?
            && memmem::find(row.body.as_bytes(), id.as_bytes()).is_some()
            && IdLines::all(&row.body)?.iter().any(|it| it.id == id)
        {
            return Ok(Some((*run, row)));
        }
    }
    Ok(None)
}
