//! What a store of feeds does with totals, leaders, sessions and goals.
//!
//! What feeds count ([`crate::domain::tally`]).
//!
//! - A gift is counted in the step that takes it, and taken back in the step that takes it back: whatever dies, it
//!   counts once. Every answer here counts what was acknowledged before it was asked.
//! - What was announced is part of the feed ([`crate::domain::Op::Totals`], [`crate::domain::Op::Goal`],
//!   [`super::Snapshot::totals`]) and may be behind by 0.6 s (`lua/totals/notices.lua`); watchers
//!   learn of a goal that is reached at once, and the ledger has an entry of it.
//! - Nothing of it expires with an idle feed. A feed that counts nothing has nothing of it.

use crate::domain::tally::GoalView;

/// What became of a goal's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalPut {
    /// It is new.
    New(GoalView),
    /// It was there; this is what it is now.
    Changed(GoalView),
    /// The feed has [`crate::domain::tally::MAX_GOALS`] already. Nothing changed.
    TooMany,
    /// Its period is not counted. Nothing changed.
    NotCounted,
}
