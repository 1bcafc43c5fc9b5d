//! What was answered to each gift id. New ids are logged by the commit that brings them and stay in memory; they
//! come to the table `ids` when the log is settled, feed by feed and in order. An id is
//! forgotten when its window is over, and not while its gift waits.

use rusqlite::{Row as SqlRow, params};

use super::db::{self, Db, text};
use super::fault::{Fault, Step};
use super::known_ids::KnownIds;
use super::seal::{self, Found};
use crate::domain::answer::{CountedGift, GiftFate, Remembered};
use crate::domain::{
    Answer, Decision, Fingerprint, GiftId, Millis, Part, Position, RowId, Scheduled, Status,
};

/// How `ids` spells that a gift waits, or was cancelled: its `count` is the time for which it was scheduled. Of one
/// in review `count` is when time decides. The other numbers are those of [`Status`].
const WAITS: u8 = 3;
const CANCELLED: u8 = 4;
const IN_REVIEW: u8 = 6;

/// How `ids` spells what was decided about a gift in review: so often this is added to its status, by its place in
/// [`Decision::ALL`].
const DECIDED: u8 = 16;

/// How `ids` spells the position and the row of a gift that was not shown.
const NOT_SHOWN: (&str, u64, &str) = ("", 0, "");

/// Ids that one round of [`Ids::forget`] looks at, at most.
const ROUND: usize = 16_384;

/// Looks for ids to forget, in turn through the whole table: an index by time would cost every id as much as
/// writing it does.
pub(super) struct Ids {
    known: KnownIds,
    /// Ids written since they were looked after the last time: twice as many are looked at, so the table can't
    /// outgrow it.
    written: usize,
    /// The last feed and id it looked at in this turn.
    looked_at: (i64, String),
    /// All ids that it saw in this turn, or that came since it began, hold until then.
    hold: Millis,
    /// Until then nothing can be forgotten.
    rest: Millis,
}

impl Default for Ids {
    fn default() -> Ids {
        let known = KnownIds::default();
        Ids {
            known,
            written: 0,
            looked_at: (i64::MIN, String::new()),
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

    /// What the table says was answered to a gift id, if it is still remembered at `now`.
    pub(super) fn remembered(
        &self,
        db: &Db,
        feed: i64,
        id: &GiftId,
        now: Millis,
    ) -> Step<Option<Remembered>> {
        if !self.known.may_hold(feed, id.as_str()) {
            return Ok(None);
        }
        let sql = "SELECT * FROM ids WHERE feed = ?1 AND id = ?2";
        let known = db.one(sql, params![feed, id.as_str()], |r| {
            let until: i64 = r.get(8)?;
            if until > now.0 { read(r).map(Some) } else { Ok(None) }
        });
        Ok(known?.flatten())
    }

    /// Brings what became of gift ids to the table, each with until when that is remembered; those in order are cheapest.
    pub(super) fn put<'a>(
        &mut self,
        db: &Db,
        feed: i64,
        all: impl IntoIterator<Item = &'a (Remembered, Millis)>,
    ) -> Step<()> {
        let sql = "INSERT OR REPLACE INTO ids VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let mut insert = db.conn.prepare_cached(sql)?;
        for (it, until) in all {
            db.begin()?;
            self.written += 1;
            // The search may rest, or have passed here: either way it must not rest longer than this.
            self.hold = self.hold.min(*until);
            self.rest = self.rest.min(*until);
            let Columns { id, status, epoch, seq, row, count } = Columns::of(it);
            self.known.add(feed, id.as_str());
            let (id, fingerprint, until, part) = (id.as_str(), it.fingerprint.0, until.0, spell_part(it));
            let values = params![feed, id, fingerprint, status, epoch, seq, row, count, until, part];
            db::put(&mut insert, values)?;
        }
        Ok(())
    }

    /// Writes into the table that a gift was taken back. Until when it is remembered stays.
    pub(super) fn part_taken_back(db: &Db, feed: i64, id: &GiftId) -> Step<()> {
        let sql = "UPDATE ids SET part = ?3,
            seal = seal(feed, id, fingerprint, status, epoch, seq, row, count, until, ?3)
            WHERE feed = ?1 AND id = ?2";
        db.run(sql, params![feed, id.as_str(), Part::TakenBack.to_string()]).map(drop)
    }

    /// Ids written since the last round.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// One round: looks at some ids and forgets those whose window is over at `now`. After a turn in which all
    /// still held, it rests until the first does not. What cannot be read stays, and is for whoever asks for it.
    pub(super) fn forget(&mut self, db: &Db, now: Millis) -> Step<()> {
        let most = (2 * self.written + 256).min(ROUND);
        self.written = self.written.saturating_sub(most / 2);
        self.look(db, now, most)
    }

    fn look(&mut self, db: &Db, now: Millis, most: usize) -> Step<()> {
        if now < self.rest {
            return Ok(());
        }
        let mut last = std::mem::replace(&mut self.looked_at, (i64::MIN, String::new()));
        let (mut looked, mut over) = (0, Vec::new());
        {
            let sql = "SELECT * FROM ids WHERE (feed, id) > (?1, ?2) ORDER BY feed, id LIMIT ?3";
            let mut query = db.conn.prepare_cached(sql)?;
            let mut rows = query.query(params![last.0, last.1, most as i64])?;
            while let Some(r) = rows.next()? {
                looked += 1;
                if looked == most {
                    last = (r.get(0)?, r.get_ref(1)?.as_str().unwrap_or_default().to_owned());
                }
                let until = Millis(r.get(8)?);
                if until > now {
                    self.hold = self.hold.min(until);
                } else if seal::check(r).is_ok_and(|found| found == Found::Whole) {
                    over.push((r.get::<_, i64>(0)?, r.get::<_, String>(1)?));
                }
            }
        }
        if !over.is_empty() {
            self.hold = self.hold.min(now);
            db.begin()?;
            for (feed, id) in over {
                db.run("DELETE FROM ids WHERE feed = ?1 AND id = ?2", params![feed, id])?;
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

/// What stands in the table and in the log of what became of a gift.
pub(super) struct Columns<'a> {
    pub(super) id: GiftId,
    pub(super) status: u8,
    pub(super) epoch: &'a str,
    pub(super) seq: u64,
    pub(super) row: &'a str,
    pub(super) count: Option<i64>,
}

impl Columns<'_> {
    pub(super) fn of(it: &Remembered) -> Columns<'_> {
        let place = it.decided.and_then(|it| Decision::ALL.iter().position(|known| *known == it));
        let decided = place.map_or(0, |place| DECIDED * (place as u8 + 1));
        let (id, status, (epoch, seq, row), count) = match &it.fate {
            GiftFate::Taken(Answer { status, id, at, row, count }) => {
                let shown = (at.epoch.as_str(), at.seq, row.as_ref().map_or("", RowId::as_str));
                (id, *status as u8, shown, count.map(|n| n as i64))
            }
            GiftFate::Waits(Scheduled { id, deliver_at }) => (id, WAITS, NOT_SHOWN, Some(deliver_at.0)),
            GiftFate::Cancelled(Scheduled { id, deliver_at }) => {
                (id, CANCELLED, NOT_SHOWN, Some(deliver_at.0))
            }
            GiftFate::InReview { id, expires_at } => (id, IN_REVIEW, NOT_SHOWN, Some(expires_at.0)),
        };
        Columns { id: id.clone(), status: status + decided, epoch, seq, row, count }
    }

    /// Reads back what was made of these columns.
    pub(super) fn remembered(self, fingerprint: Fingerprint, part: &str) -> Step<Remembered> {
        let Columns { id, status, epoch, seq, row, count } = self;
        let time = || count.map(Millis).ok_or_else(|| Fault::garbled("a gift without its time"));
        let decided = (status / DECIDED).checked_sub(1);
        let decided = decided.and_then(|place| Decision::ALL.get(usize::from(place))).copied();
        let fate = match status % DECIDED {
            IN_REVIEW => GiftFate::InReview { id, expires_at: time()? },
            WAITS => GiftFate::Waits(Scheduled { id, deliver_at: time()? }),
            CANCELLED => GiftFate::Cancelled(Scheduled { id, deliver_at: time()? }),
            status => {
                let status = [Status::Accepted, Status::Merged, Status::Suppressed, Status::Denied]
                    .into_iter()
                    .find(|known| *known as u8 == status)
                    .ok_or_else(|| Fault::garbled(format!("the gift {id} has the status {status}")))?;
                let garbled = |_| Fault::garbled(format!("where the gift {id} was shown cannot be read"));
                let at = Position { epoch: epoch.parse().map_err(garbled)?, seq };
                let row = if row.is_empty() { None } else { Some(row.parse().map_err(garbled)?) };
                let count = count.map(|count| count as u64);
                GiftFate::Taken(Answer { status, id, at, row, count })
            }
        };
        let (part, counted) =
            read_part(part).ok_or_else(|| Fault::garbled("what a gift added cannot be read"))?;
        Ok(Remembered { fingerprint, fate, part, decided, counted })
    }
}

fn read(r: &SqlRow<'_>) -> Step<Remembered> {
    let columns = Columns {
        id: super::db::parsed(r, 1)?,
        status: r.get(3)?,
        epoch: text(r, 4)?,
        seq: r.get(5)?,
        row: text(r, 6)?,
        count: r.get(7)?,
    };
    columns.remembered(Fingerprint(r.get(2)?), text(r, 9)?)
}

/// The part; and for a gift that counted, `WINDOW COUNTED` and the user's id, each on a line of its own.
pub(super) fn spell_part(it: &Remembered) -> String {
    match &it.counted {
        None => it.part.spell(),
        Some(CountedGift { counted, user, window }) => {
            format!("{}\n{} {counted}\n{user}", it.part, window.0)
        }
    }
}

fn read_part(text: &str) -> Option<(Part, Option<CountedGift>)> {
    let Some((part, rest)) = text.split_once('\n') else { return Some((text.parse().ok()?, None)) };
    let (counted, user) = rest.split_once('\n')?;
    let (window, counted) = counted.split_once(' ')?;
    let (window, counted) = (Millis(window.parse().ok()?), counted.parse().ok()?);
    Some((part.parse().ok()?, Some(CountedGift { counted, user: user.to_owned(), window })))
}
