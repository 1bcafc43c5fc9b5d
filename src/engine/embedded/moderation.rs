//! Taking back, and telling overlays what to do.

use super::entries;
use super::fault::Step;
use super::gifts;
use super::ids;
use super::reviews;
use super::txn::FeedTxn;
use crate::domain::answer::GiftFate;
use crate::domain::{Control, Decision, GiftId, GiftTakenBack, Part, Position};
use crate::engine::Unscheduled;
use crate::engine::record::push_retracted;

/// See [`crate::engine::ModerationStore::control`].
pub(super) fn control(txn: &mut FeedTxn<'_>, control: &Control) -> Step<Option<Position>> {
    let found = txn.change(|state, policy, now, effects| state.control(control, policy, now, effects))?;
    Ok(found.then(|| txn.feed.state.position()))
}

/// See [`crate::engine::ModerationStore::retract_gift`].
pub(super) fn retract_gift(txn: &mut FeedTxn<'_>, id: &GiftId) -> Step<GiftTakenBack> {
    let Some(no) = txn.feed.no else { return Ok(GiftTakenBack::Unknown) };
    let Some(known) = ids::remembered(txn.db, no, id, txn.now)? else { return Ok(GiftTakenBack::Unknown) };
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
    txn.touch()?;
    ids::part_taken_back(txn.db, no, id)?;
    if !part.test {
        let (seq, now) = (changed.then_some(seq), txn.now);
        entries::enter(txn, |out| push_retracted(out, id, seq, answer.row.as_ref(), now))?;
    }
    Ok(GiftTakenBack::Done)
}
