//! What a store of feeds does for those who moderate a show.

use super::Wait;
use crate::domain::{Control, FeedId, GiftId, GiftTakenBack, Millis, Position};

/// Taking back, and telling overlays what to do. Every call removes rows whose time is over first, as all do that
/// look at the list.
pub trait ModerationStore: Send + Sync + 'static {
    /// Tells overlays what to do: [`crate::domain::Op::Control`]. The position after it; none for the replay of a
    /// row that is not in the list. An action that changes nothing makes no change and answers where the feed
    /// stands. What is paused or muted is part of the feed ([`super::Snapshot::controls`]) and does not expire with
    /// an idle one.
    fn control<'a>(&'a self, feed: &'a FeedId, control: Control, now: Millis) -> Wait<'a, Option<Position>>;

    /// Takes every row of a user back, the oldest first, in one step. How many there were.
    fn retract_user<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, u64>;

    /// Takes one gift back by its id, also when its row has left the list. What it added to its row leaves it; a
    /// row of which nothing is left goes. The ledger gets an entry
    /// ([`crate::domain::EntryStatus::Retracted`]), in the same step, except for a test. A gift that waits is
    /// cancelled instead, which is no entry. Doing it again does nothing.
    fn retract_gift<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, GiftTakenBack>;

    /// Feeds in whose lists rows of a user may stand, with every feed in which one does. One step looks at some of the
    /// feeds, by name, from the first after `after` on. `None`: this store keeps no list of its feeds.
    fn feeds_showing<'a>(&'a self, user: &'a str, after: Option<FeedId>) -> Wait<'a, Option<FeedsShowing>> {
        let _ = (user, after);
        Box::pin(async { Ok(None) })
    }
}

/// What one step of [`ModerationStore::feeds_showing`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedsShowing {
    /// By name.
    pub feeds: Vec<FeedId>,
    /// The last feed that was looked at, from which the next step goes on; none when there are no more.
    pub next: Option<FeedId>,
}
