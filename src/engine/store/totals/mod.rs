//! What feeds count ([`crate::domain::tally`]).
//!
//! - A gift is counted in the step that takes it, and taken back in the step that takes it back: whatever dies, it
//!   counts once. Every answer here counts what was acknowledged before it was asked.
//! - What watchers see is part of the feed ([`crate::domain::Op::Totals`], [`crate::domain::Op::Goal`],
//!   [`Snapshot::totals`](crate::engine::Snapshot::totals)) and may be behind by 0.6 s (`lua/totals/notices.lua`); watchers
//!   learn of a goal that is reached at once, and the ledger has an entry of it.
//! - Nothing of it expires with an idle feed. A feed that counts nothing has nothing of it.

pub(crate) mod counting;
mod goal;
pub(crate) mod known_rankings;
mod leaders;
mod read;
mod session;
