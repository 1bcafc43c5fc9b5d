//! What a store of feeds does with drops, claims and holds.

use super::Wait;
use crate::domain::{
    Cancelled, Claim, Claimed, Confirmed, Defined, DropId, DropSpec, DropView, FeedId, Hold, HoldId, Millis,
    Trace,
};

/// Drops of feeds, with exact stock.
///
/// - Always free + held + sold = total, and each is ≥ 0.
/// - A hold holds while `now` is before its end. Every call that looks at stock or holds first ends those
///   whose time is over, so its answer does not depend on anybody having been in time; what nobody looks
///   at ends by [`DropStore::tick`]. Whoever removes a hold – by confirming, cancelling or time – is the
///   only one, and gives its units on exactly once.
/// - What watchers were told is part of the feed ([`crate::domain::Op::Drop`],
///   [`super::Snapshot::drops`]) and may be behind the counts by [`crate::domain::stock::TELL_EVERY_MS`].
///   A drop that opens, closes or sells out is told in the very step in which that happens.
/// - Nothing of a drop expires with an idle feed.
pub trait DropStore: Send + Sync + 'static {
    /// Defines a drop, or changes it. Its stock, claims and holds stay; holds keep their ends.
    fn define_drop<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        spec: DropSpec,
        now: Millis,
    ) -> Wait<'a, Defined>;

    /// Does everything that is due of a drop at `now`: ends holds, tells watchers. Says how it stands, or
    /// none when there is none. This is how a drop is read, too.
    fn tick<'a>(&'a self, feed: &'a FeedId, drop: &'a DropId, now: Millis) -> Wait<'a, Option<DropView>>;

    /// Every drop of a feed as it stands, by name.
    fn drops<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<DropView>>;

    /// Claims units. The id is decided first: filled before, it gets the first answer again, whatever
    /// became of the drop. Then the refusals, in the order of [`crate::domain::ClaimRefused`]. A claim is
    /// filled whole or refused. Paid now, its row is shown in the same step.
    fn claim<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        claim: Claim,
        now: Millis,
    ) -> Wait<'a, Claimed>;

    /// Sells a hold: its row is shown in the same step. A closed drop sells its holds too. An ended hold
    /// is remembered for the feed's idempotency window. `trace` is the step that paid, for the ledger's entry.
    fn confirm<'a>(
        &'a self,
        feed: &'a FeedId,
        hold: &'a HoldId,
        trace: Option<Trace>,
        now: Millis,
    ) -> Wait<'a, Confirmed>;

    /// Gives a hold's units back.
    fn cancel<'a>(&'a self, feed: &'a FeedId, hold: &'a HoldId, now: Millis) -> Wait<'a, Cancelled>;

    /// The holds of a user over all drops of the feed that hold at `now`, the earliest to end first, then by
    /// name; at most 1000.
    fn holds<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, Vec<Hold>>;
}
