//! Taking back, and telling overlays what to do.

use rusqlite::params;

use super::db::{Db, text};
use super::entries;
use super::fault::Step;
use super::gifts;
use super::reviews;
use super::totals;
use super::txn::FeedTxn;
use crate::domain::answer::{GiftFate, Remembered};
use crate::domain::json::push_string;
use crate::domain::{Control, Decision, FeedId, GiftId, GiftTakenBack, Part, Position, RowId};
use crate::engine::record::push_retracted;
use crate::engine::{FeedsShowing, Unscheduled};

/// See [`crate::engine::SendControl`].
pub(super) fn control(txn: &mut FeedTxn<'_>, control: &Control) -> Step<Option<Position>> {
    let found = txn.change(|state, policy, now, effects| state.control(control, policy, now, effects))?;
    Ok(found.then(|| txn.feed.state.position()))
}

/// See [`crate::engine::RetractRow`].
pub(super) fn retract(txn: &mut FeedTxn<'_>, row: &RowId) -> Step<Option<Position>> {
    let at = txn.change(|state, policy, now, effects| {
        state.retract(row, policy, now, effects).then(|| state.position())
    })?;
    if at.is_some() {
        totals::undo_row(txn, row)?;
    }
    Ok(at)
}

/// See [`crate::engine::RetractUser`].
pub(super) fn retract_user(txn: &mut FeedTxn<'_>, user: &str) -> Step<u64> {
    let rows = txn.change(|state, policy, now, effects| state.retract_user(user, policy, now, effects))?;
    rows.iter().try_for_each(|row| totals::undo_row(txn, row))?;
    Ok(rows.len() as u64)
}

/// Feeds that one step of [`feeds_showing`] looks at: the writer does nothing else meanwhile.
const LOOKED_AT: usize = 512;

/// See [`crate::engine::FindFeedsShowing`]. What is committed is looked at; a row that is not yet was given
/// after whoever asks began, and is the next one's.
pub(super) fn feeds_showing(db: &Db, user: &str, after: Option<&FeedId>) -> Step<FeedsShowing> {
    let mut spelled = String::new();
    push_string(&mut spelled, user);
    let sql = "SELECT name, instr(rows, ?2) > 0 FROM feeds WHERE name > ?1 ORDER BY name LIMIT ?3";
    let mut query = db.conn.prepare_cached(sql)?;
    let mut rows = query.query(params![after.map_or("", FeedId::as_str), spelled, LOOKED_AT as i64])?;
    let (mut found, mut looked_at) = (FeedsShowing::default(), 0);
    while let Some(row) = rows.next()? {
        looked_at += 1;
        // A name that is none is of a feed that is damaged.
        let Some(feed) = text(row, 0)?.parse::<FeedId>().ok() else { continue };
        found.next = Some(feed.clone());
        if row.get(1)? {
            found.feeds.push(feed);
        }
    }
    if looked_at < LOOKED_AT {
        found.next = None;
    }
    Ok(found)
}

/// See [`crate::engine::RetractGift`].
pub(super) fn retract_gift(txn: &mut FeedTxn<'_>, id: &GiftId) -> Step<GiftTakenBack> {
    if txn.feed.no.is_none() {
        return Ok(GiftTakenBack::Unknown);
    }
    let Some(known) = txn.remembered(id)? else { return Ok(GiftTakenBack::Unknown) };
    let answer = match known.fate {
        GiftFate::Cancelled(_) => return Ok(GiftTakenBack::Done),
        GiftFate::InReview { .. } => {
            return match reviews::deny(txn, id)? {
                Some(Decision::Deny) => Ok(GiftTakenBack::Done),
                // Time had decided otherwise: what it did is taken back.
                Some(_) => retract_gift(txn, id),
                None => Ok(GiftTakenBack::Unknown),
            };
        }
        GiftFate::Waits(_) => {
            return Ok(match gifts::unschedule(txn, id)? {
                Unscheduled::Cancelled(_) => GiftTakenBack::Done,
                // What waits in no queue was set aside for good: nobody will show it.
                Unscheduled::Shown | Unscheduled::Unknown => GiftTakenBack::Unknown,
            });
        }
        GiftFate::Taken(answer) => answer,
    };
    let part = match known.part {
        Part::Added(part) => part,
        Part::TakenBack => return Ok(GiftTakenBack::Done),
        Part::Unknown => return Ok(GiftTakenBack::Unknown),
    };
    let (changed, seq) = txn.change(|state, policy, now, effects| {
        let row = answer.row.as_ref();
        let changed = row.is_some_and(|row| state.take_part(row, &part, policy, now, effects));
        (changed, state.list.at.seq)
    })?;
    if let Some(counted) = &known.counted {
        totals::undo_gift(txn, counted, &answer)?;
    }
    txn.touch()?;
    if let Some((it, until)) = txn.known_id(id)? {
        txn.feed.ids.remember(&Remembered { part: Part::TakenBack, counted: None, ..it }, until);
    }
    if !part.test {
        let (seq, now) = (changed.then_some(seq), txn.now);
        entries::enter(txn, |out| push_retracted(out, id, seq, answer.row.as_ref(), now))?;
    }
    Ok(GiftTakenBack::Done)
}
