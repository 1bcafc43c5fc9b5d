//! What a store of feeds does for those who moderate a show.
//!
//! Taking back, and telling overlays what to do. Every call removes rows whose time is over first, as all do that
//! look at the list.

use super::operation::operation;
use crate::domain::moderate::GiftRefunded;
use crate::domain::{Control, FeedId, GiftId, GiftTakenBack, Millis, Position};

/// Tells overlays what to do: [`crate::domain::Op::Control`]. The position after it; none for the replay of a
/// row that is not in the list. An action that changes nothing makes no change and answers where the feed
/// stands. What is paused or muted is part of the feed ([`super::Snapshot::controls`]) and does not expire with
/// an idle one.
#[derive(Clone, Debug)]
pub struct SendControl {
    pub feed: FeedId,
    pub control: Control,
    pub now: Millis,
}

operation!(SendControl -> Option<Position>, Control, feed: feed, now: now);

/// Takes every row of a user back, the oldest first, in one step. How many there were.
#[derive(Clone, Debug)]
pub struct RetractUser {
    pub feed: FeedId,
    pub user: String,
    pub now: Millis,
}

operation!(RetractUser -> u64, RetractUser, feed: feed, now: now);

/// Takes one gift back by its id, also when its row has left the list. What it added to its row leaves it; a
/// row of which nothing is left goes. The ledger gets an entry
/// ([`crate::domain::EntryStatus::Retracted`]), in the same step, except for a test. A gift that waits is
/// cancelled instead, which is no entry. Doing it again does nothing.
#[derive(Clone, Debug)]
pub struct RetractGift {
    pub feed: FeedId,
    pub id: GiftId,
    pub reason: Option<String>,
    pub now: Millis,
}

operation!(RetractGift -> GiftTakenBack, RetractGift, feed: feed, now: now);

/// Refunds a part of a gift's value: `refunded` is all that is refunded so far, so a repeat and a lower amount change nothing.
/// Its row and totals lose the difference, counts stay; the ledger gets an entry
/// ([`crate::domain::EntryStatus::Refunded`]). Refunding everything takes the gift back, as [`RetractGift`] does.
#[derive(Clone, Debug)]
pub struct RefundGift {
    pub feed: FeedId,
    pub id: GiftId,
    pub refunded: u64,
    pub reason: Option<String>,
    pub now: Millis,
}

operation!(RefundGift -> GiftRefunded, RetractGift, feed: feed, now: now);

/// Feeds in whose lists rows of a user may stand, with every feed in which one does. One step looks at some of the
/// feeds, by name, from the first after `after` on. `None`: this store keeps no list of its feeds.
#[derive(Clone, Debug)]
pub struct FindFeedsShowing {
    pub user: String,
    pub after: Option<FeedId>,
}

operation!(FindFeedsShowing -> Option<FeedsShowing>, RetractUser, store);

/// Begins to take every row of a user back in all feeds, in a store that keeps no list of them: whoever calls
/// [`super::ContinueWalk`] goes on with it, on any node, until it is through. Beginning it again begins anew.
/// False: nothing was begun, [`super::FindFeedsShowing`] is the way here.
#[derive(Clone, Debug)]
pub struct BeginWalk {
    pub user: String,
    pub now: Millis,
}

operation!(BeginWalk -> bool, RetractUser, store, now: now);

/// Makes one step of the oldest walk that was begun, if it is this node's turn: one node walks at a time, and a node
/// that dies loses its turn with its lease. Shards that are away are left for later steps; an error is that nothing
/// could be done. A walk ends early when the user's block of all feeds does.
#[derive(Clone, Debug)]
pub struct ContinueWalk {
    pub node: String,
    pub now: Millis,
}

operation!(ContinueWalk -> Walk, Walk, store, now: now);

/// What one step of [`ContinueWalk`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Whose rows were looked for; none when there was nothing to do for this node.
    pub user: Option<String>,
    /// Feeds that were looked at.
    pub feeds: u64,
    /// Rows that were taken back.
    pub rows: u64,
    /// All feeds have been looked at.
    pub is_over: bool,
}

/// What one step of [`FindFeedsShowing`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedsShowing {
    /// By name.
    pub feeds: Vec<FeedId>,
    /// The last feed that was looked at, from which the next step goes on; none when there are no more.
    pub next: Option<FeedId>,
}
