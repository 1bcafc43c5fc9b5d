//! What a store of feeds does with drops, claims and holds.
//!
//! Drops of feeds, with exact stock.
//!
//! - Always free + held + sold = total, and each is ≥ 0.
//! - A hold holds while `now` is before its end. Every call that looks at stock or holds first ends those
//!   whose time is over, so its answer does not depend on anybody having been in time; what nobody looks
//!   at ends by [`super::TickDrop`]. Whoever removes a hold – by confirming, cancelling or time – is the
//!   only one, and gives its units on exactly once.
//! - What watchers were told is part of the feed ([`crate::domain::Op::Drop`],
//!   [`super::Snapshot::drops`]) and may be behind the counts by [`crate::domain::stock::TELL_EVERY_MS`].
//!   A drop that opens, closes or sells out is told in the very step in which that happens.
//! - Nothing of a drop expires with an idle feed.

use super::operation::operation;
use crate::domain::moderate::{GiftRefunded, TakingBack};
use crate::domain::{
    Cancelled, Claim, ClaimStory, Claimed, Confirmed, Defined, DropId, DropSpec, DropView, FeedId, Hold,
    HoldId, Millis, Trace,
};

/// Defines a drop, or changes it. Its stock, claims and holds stay; holds keep their ends.
#[derive(Clone, Debug)]
pub struct DefineDrop {
    pub feed: FeedId,
    pub drop: DropId,
    pub spec: DropSpec,
    pub now: Millis,
}

operation!(DefineDrop -> Defined, DefineDrop, feed: feed, now: now, record: super::counted::defined_drop);

/// Does everything that is due of a drop at `now`: ends holds, tells watchers. Says how it stands, or
/// none when there is none. This is how a drop is read, too.
#[derive(Clone, Debug)]
pub struct TickDrop {
    pub feed: FeedId,
    pub drop: DropId,
    pub now: Millis,
}

operation!(TickDrop -> Option<DropView>, Tick, feed: feed, now: now, record: super::counted::ticked_drop);

/// Every drop of a feed as it stands, by name.
#[derive(Clone, Debug)]
pub struct ListDrops {
    pub feed: FeedId,
    pub now: Millis,
}

operation!(ListDrops -> Vec<DropView>, Drops, feed: feed, now: now, record: super::counted::listed_drops);

/// Claims units. The id is decided first: filled before, it gets the first answer again, whatever
/// became of the drop. Then the refusals, in the order of [`crate::domain::ClaimRefused`]. A claim is
/// filled whole or refused. Paid now, its row is shown in the same step.
#[derive(Clone, Debug)]
pub struct ClaimDrop {
    pub feed: FeedId,
    pub drop: DropId,
    pub claim: Claim,
    pub now: Millis,
}

operation!(ClaimDrop -> Claimed, Claim, feed: feed, now: now, record: super::counted::claimed_drop);

/// Sells a hold: its row is shown in the same step. A closed drop sells its holds too. An ended hold
/// is remembered for the feed's idempotency window. `trace` is the step that paid, for the ledger's entry.
#[derive(Clone, Debug)]
pub struct ConfirmHold {
    pub feed: FeedId,
    pub hold: HoldId,
    pub trace: Option<Trace>,
    pub now: Millis,
}

operation!(ConfirmHold -> Confirmed, Confirm, feed: feed, now: now, record: super::counted::confirmed_hold);

/// Gives a hold's units back.
#[derive(Clone, Debug)]
pub struct CancelHold {
    pub feed: FeedId,
    pub hold: HoldId,
    pub now: Millis,
}

operation!(CancelHold -> Cancelled, Cancel, feed: feed, now: now, record: super::counted::cancelled_hold);

/// What became of a claim; `None` if there is none of this id, or its hold ended so long ago that it is forgotten.
#[derive(Clone, Debug)]
pub struct LookUpClaim {
    pub feed: FeedId,
    pub claim: HoldId,
    pub now: Millis,
}

operation!(LookUpClaim -> Option<ClaimStory>, LookUpClaim, feed: feed, now: now);

/// Takes a sale back, or refunds a part of what it cost, as [`super::RefundGift`] does with gifts. A hold that is not paid is
/// cancelled in place of being taken back. With `what.restock` the units are free again, once, also if the sale was taken back before.
#[derive(Clone, Debug)]
pub struct ReverseSale {
    pub feed: FeedId,
    pub claim: HoldId,
    pub what: TakingBack,
    pub now: Millis,
}

operation!(ReverseSale -> GiftRefunded, ReverseSale, feed: feed, now: now);

/// The holds of a user over all drops of the feed that hold at `now`, the earliest to end first, then by
/// name; at most 1000.
#[derive(Clone, Debug)]
pub struct ListHolds {
    pub feed: FeedId,
    pub user: String,
    pub now: Millis,
}

operation!(ListHolds -> Vec<Hold>, Holds, feed: feed, now: now);
