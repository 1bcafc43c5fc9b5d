//! The runs in which a feed's ids stand in their table.
//!
//! Ids that are made at random come between all others: in one order each would have another row of a large table
//! written. So ids that come together become a run, in order within itself ([`super::id_run`]). Of eight runs one is made, as of
//! eight of those: an id is written once for each of few levels, beside those that will stand beside it. Ids that come in
//! order, or nearly, come to the run that is there.
//!
//! Runs are numbered: the level, and in it their place, one after the other. Those of eight places that are taken give what
//! they have to the next level, in pieces and from the smallest id on, so nothing says how far that has come but the table itself. An id stands in one run only.

use super::db::Db;
use super::fault::{Fault, Step};
use super::id_lines::IdLines;
use super::id_run::Run;

/// Runs of which one is made.
const TOGETHER: i64 = 8;

/// What a level's first number is, by how many levels are before it.
const LEVEL: i64 = 1 << 32;

/// Levels of a feed: an id more than eight to this power would have to come.
const LEVELS: i64 = 20;

/// Ids come to a run that is there when so many share a row of it, or when that is so few rows.
const SHARING: usize = 16;
const FEW: usize = 2;

/// At least so many ids go to the next level at once, since a row of each run is cut in two then.
const PIECE: usize = 512;

/// The runs of a feed, in order.
pub(super) fn of(db: &Db, feed: i64) -> Step<Vec<Run>> {
    let (mut runs, mut last) = (Vec::new(), -1);
    let sql = "SELECT run FROM ids WHERE feed = ?1 AND run > ?2 ORDER BY run LIMIT 1";
    while let Some(run) = db.value::<i64>(sql, [feed, last])? {
        if run >= LEVELS * LEVEL {
            return Err(Fault::garbled(format!("ids of it stand in the run {run}, which there is not")));
        }
        runs.push(Run { feed, run });
        last = run;
    }
    Ok(runs)
}

/// Brings ids that are in no run to one; they are in order, each of them once.
pub(super) fn put(db: &Db, feed: i64, new: &[IdLines<'_>]) -> Step<()> {
    if new.is_empty() {
        return Ok(());
    }
    let mut runs = of(db, feed)?;
    let last = runs.iter().rfind(|it| it.run < LEVEL).copied();
    let open = last.filter(|it| it.run % TOGETHER < TOGETHER - 1);
    let at = match open {
        Some(run) if is_shared(db, run, new)? => run,
        _ => Run { feed, run: last.map_or(0, |last| last.run + 1) },
    };
    at.put(db, new)?;
    if !runs.contains(&at) {
        runs.push(at);
    }
    (0..LEVELS - 1).try_for_each(|level| merge(db, &runs, level, (2 * new.len()).max(PIECE)))
}

/// True when few rows of the run are written for many of these ids.
fn is_shared(db: &Db, run: Run, new: &[IdLines<'_>]) -> Step<bool> {
    let Some(last) = run.last_key(db)? else { return Ok(true) };
    let few = (new.len() / SHARING).max(FEW);
    // Behind that key there is one row.
    let before = new.partition_point(|it| *it.id < *last);
    Ok(before <= few || run.count_behind(db, new[0].id, few + 1)? <= few)
}

/// Brings some ids, about as many as wanted, of those runs of a level that are to be one to the next.
fn merge(db: &Db, runs: &[Run], level: i64, wanted: usize) -> Step<()> {
    let runs = runs.iter().copied().filter(|it| it.run / LEVEL == level);
    let taken = (runs.clone().map(|it| it.run % LEVEL).max().unwrap_or(0) + 1) / TOGETHER * TOGETHER;
    let mut from = Vec::new();
    for run in runs.filter(|it| it.run % LEVEL < taken) {
        from.extend(run.row_behind(db, "")?.map(|row| (run, row, 0)));
    }
    // Of each run the last row that is looked at may have ids behind the bound: those are not counted.
    let (mut rows, mut count, mut cut) = (Vec::new(), 0, 0);
    while count < wanted + cut
        && let Some(at) = (0..from.len()).min_by(|a, b| from[*a].1.key.cmp(&from[*b].1.key))
    {
        let (run, row, before) = from.swap_remove(at);
        cut -= before;
        if let Some(next) = run.row_behind(db, &row.key)? {
            cut += row.count;
            from.push((run, next, row.count));
        }
        count += row.count;
        rows.push((run, row));
    }
    // What is smaller than all that is left is all there.
    let bound = from.iter().map(|(_, row, _)| &*row.key).min();
    let mut all = Vec::with_capacity(count);
    for (run, row) in &rows {
        let lines = IdLines::all(&row.body)?;
        let these = lines.partition_point(|it| bound.is_none_or(|bound| it.id < bound));
        all.extend_from_slice(&lines[..these]);
        match &lines[these..] {
            [] => run.remove(db, &row.key)?,
            rest if these > 0 => run.put_row(db, &row.key, rest)?,
            _ => {}
        }
    }
    // It is good at what consists of some that are in order.
    all.sort_by_key(|it| it.id);
    let (Some(first), Some((run, _))) = (all.first(), rows.first()) else { return Ok(()) };
    newest_before(db, *run, first.id, level + 1)?.put(db, &all)
}

/// The newest run of a level, if this id and those behind it come behind its own; else a new one.
fn newest_before(db: &Db, Run { feed, .. }: Run, id: &str, level: i64) -> Step<Run> {
    let sql = "SELECT run FROM ids WHERE feed = ?1 AND run < ?2 ORDER BY run DESC LIMIT 1";
    let newest = db.value::<i64>(sql, [feed, (level + 1) * LEVEL])?.filter(|run| *run >= level * LEVEL);
    let Some(run) = newest else { return Ok(Run { feed, run: level * LEVEL }) };
    let is_before = Run { feed, run }.last_key(db)?.is_none_or(|last| *last <= *id);
    Ok(Run { feed, run: if is_before { run } else { run + 1 } })
}
