//! Drops of feeds, with exact stock.
//!
//! - Always free + held + sold = total, and each is ≥ 0.
//! - A hold holds while `now` is before its end. Every call that looks at stock or holds first ends those
//!   whose time has passed, so its answer does not depend on a timer; a hold of a drop that is not looked
//!   at ends by [`Store::tick_drop`](crate::engine::Store::tick_drop). The one who removes a hold – by confirming, cancelling or time – is the
//!   only one, and gives its units on exactly once.
//! - What watchers see is part of the feed ([`crate::domain::Op::Drop`], [`Snapshot::drops`](crate::engine::Snapshot::drops)) and
//!   may be behind the counts by 0.6 s (`lua/drops/stock.lua`). A drop that opens, closes or sells out is published
//!   in the very step in which that happens.
//! - Nothing of a drop expires with an idle feed.

mod claim;
mod define;
mod end;
mod filled;
mod holds;
mod lookup;
mod reverse;
pub(crate) mod stock;
mod tick;
