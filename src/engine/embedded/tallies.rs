//! The tables of what is counted: `tallies` holds a feed's state and what the gifts of its rows counted, `told` what
//! watchers were told, `gifters` who gave how much, `undone` rows that were taken back whole.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use rusqlite::params;

use super::db::{Db, text};
use super::fault::{Fault, Step};
use crate::domain::json::push_string;
use crate::domain::list::Goals;
use crate::domain::tally::{Board, Segments, State, TotalsView};
use crate::domain::{Millis, RowId};
use crate::engine::record::{Records, push_gifter, push_goal, push_period, push_state, read_gifter};

/// What a feed counts, in memory, and what of it the next commit writes.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) state: State,
    /// Who gave how much; read when somebody first asks.
    pub(super) board: Option<Board>,
    /// What the gifts of rows in the list counted.
    pub(super) segments: HashMap<RowId, Segments>,
    /// Gifters who changed.
    pub(super) touched: HashSet<Arc<str>>,
    /// Gifters who gave in no instance that is kept any more.
    pub(super) gone: Vec<Arc<str>>,
    /// When the feed's clock is wound for, as far as is known.
    pub(super) clock: Option<Millis>,
    /// True when the state is another than the table's.
    pub(super) changed: bool,
    /// True when watchers were told something else than the table says.
    pub(super) retold: bool,
}

/// Gifters who are let go of in one commit, at most.
pub(super) const GONE: usize = 500;

fn garbled(what: &str) -> Fault {
    Fault::garbled(format!("{what} cannot be read"))
}

/// A feed's tally, but for who gave, and what watchers were told.
pub(super) fn read(db: &Db, feed: i64) -> Step<Option<(Tally, TotalsView, Goals)>> {
    let kept = db.one("SELECT * FROM tallies WHERE feed = ?1", [feed], |r| {
        let state = Records::new(text(r, 1)?).state().ok_or_else(|| garbled("what it counts"))?;
        let segments = read_segments(text(r, 2)?).ok_or_else(|| garbled("what its rows counted"))?;
        Ok(Tally { state, segments, ..Tally::default() })
    })?;
    let Some(tally) = kept else { return Ok(None) };
    let told = db.one("SELECT * FROM told WHERE feed = ?1", [feed], |r| {
        let told = || garbled("what watchers were told of its totals");
        let periods = Records::all(text(r, 1)?, Records::period).ok_or_else(told)?;
        let goals = Records::all(text(r, 2)?, Records::goal).ok_or_else(told)?;
        let periods = periods.into_iter().filter_map(|(period, view)| Some((period, view?))).collect();
        Ok((periods, goals.into_iter().filter_map(|(goal, view)| Some((goal, view?.into()))).collect()))
    })?;
    let (totals, goals) = told.unwrap_or_default();
    Ok(Some((tally, totals, goals)))
}

/// Reads who gave, unless that is known.
pub(super) fn board<'a>(db: &Db, feed: Option<i64>, tally: &'a mut Tally) -> Step<&'a mut Board> {
    if tally.board.is_none() {
        let mut board = Board::default();
        if let Some(no) = feed {
            for (user, gifter) in db.all("SELECT * FROM gifters WHERE feed = ?1", [no], |r| {
                let gifter = read_gifter(text(r, 2)?).ok_or_else(|| garbled("what a user gave"))?;
                Ok((text(r, 1)?.to_owned(), gifter))
            })? {
                board.put(&user, gifter, &tally.state);
                if board.gifter(&user).is_none() {
                    tally.gone.push(user.into());
                }
            }
        }
        tally.board = Some(board);
    }
    Ok(tally.board.get_or_insert_default())
}

/// Writes what changed. `rows` are those of the list: what others counted is with their gifts alone.
pub(super) fn write(
    db: &Db,
    feed: i64,
    tally: &mut Tally,
    rows: &HashSet<&RowId>,
    told: (&TotalsView, &Goals),
) -> Step<()> {
    if tally.changed {
        tally.segments.retain(|row, _| rows.contains(row));
        let mut state = String::with_capacity(1024);
        push_state(&mut state, &tally.state);
        let sql = "INSERT OR REPLACE INTO tallies VALUES (?1, ?2, ?3, ?4)";
        db.put(sql, params![feed, state, push_segments(&tally.segments)])?;
    }
    if tally.retold {
        let (mut totals, mut goals) = (String::with_capacity(4096), String::new());
        told.0.iter().for_each(|(period, view)| push_period(&mut totals, *period, Some(view)));
        told.1.iter().for_each(|(goal, view)| push_goal(&mut goals, goal, Some(view)));
        db.put("INSERT OR REPLACE INTO told VALUES (?1, ?2, ?3, ?4)", params![feed, totals, goals])?;
    }
    let mut body = String::with_capacity(256);
    // In the order of the table: neighbours stand on one page.
    let mut touched: Vec<_> = tally.touched.drain().collect();
    touched.sort_unstable();
    for user in touched {
        body.clear();
        match tally.board.as_ref().and_then(|board| board.gifter(&user)) {
            Some(gifter) => {
                push_gifter(&mut body, gifter);
                let sql = "INSERT OR REPLACE INTO gifters VALUES (?1, ?2, ?3, ?4)";
                db.put(sql, params![feed, &*user, body])?;
            }
            None => drop(forget(db, feed, &user)?),
        }
    }
    (tally.changed, tally.retold) = (false, false);
    Ok(())
}

/// Lets go of some gifters who are kept for nothing.
pub(super) fn let_go(db: &Db, feed: i64, tally: &mut Tally) -> Step<()> {
    for _ in 0..GONE {
        let Some(user) = tally.gone.pop() else { break };
        // They may have given again.
        if tally.board.as_ref().is_none_or(|board| board.gifter(&user).is_none()) {
            forget(db, feed, &user)?;
        }
    }
    Ok(())
}

fn forget(db: &Db, feed: i64, user: &str) -> Step<usize> {
    db.run("DELETE FROM gifters WHERE feed = ?1 AND user = ?2", params![feed, user])
}

/// A row was taken back whole, and its gifts with it. Remembered for as long as they are.
pub(super) fn undo(db: &Db, feed: i64, row: &RowId, until: Millis, now: Millis) -> Step<()> {
    db.run("DELETE FROM undone WHERE feed = ?1 AND until <= ?2", params![feed, now.0])?;
    let sql = "INSERT OR REPLACE INTO undone VALUES (?1, ?2, ?3, ?4)";
    db.put(sql, params![feed, row.as_str(), until.0])
}

/// True when this row was taken back whole.
pub(super) fn is_undone(db: &Db, feed: i64, row: &RowId) -> Step<bool> {
    let sql = "SELECT * FROM undone WHERE feed = ?1 AND row = ?2";
    Ok(db.one(sql, params![feed, row.as_str()], |_| Ok(()))?.is_some())
}

/// A line `ROW COUNT USER` for each row, and a line for each of its parts.
fn push_segments(segments: &HashMap<RowId, Segments>) -> String {
    let mut out = String::new();
    for (row, Segments { user, parts }) in segments {
        let _ = write!(out, "{row} {} ", parts.len());
        push_string(&mut out, user);
        out.push('\n');
        for part in parts {
            let _ = writeln!(out, "{part}");
        }
    }
    out
}

fn read_segments(text: &str) -> Option<HashMap<RowId, Segments>> {
    let mut lines = text.lines();
    let mut segments = HashMap::new();
    while let Some(head) = lines.next() {
        let mut words = head.splitn(3, ' ');
        let (row, count): (RowId, usize) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let user: String = serde_json::from_str(words.next()?).ok()?;
        let parts = (0..count).map(|_| lines.next()?.parse().ok()).collect::<Option<_>>()?;
        segments.insert(row, Segments { user: user.into(), parts });
    }
    Some(segments)
}
