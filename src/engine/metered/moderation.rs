//! The calls of those who moderate and of those who watch, counted.

use super::Metered;
use crate::domain::{Control, FeedId, GiftId, GiftTakenBack, Millis, Position};
use crate::engine::{Count, FeedsShowing, ModerationStore, Presence, PresenceStore, Wait, Walk};
use crate::metrics::labels::Operation;

impl ModerationStore for Metered {
    fn control<'a>(&'a self, feed: &'a FeedId, control: Control, now: Millis) -> Wait<'a, Option<Position>> {
        self.call(Operation::Control, self.engine.control(feed, control, now))
    }

    fn retract_user<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, u64> {
        self.call(Operation::RetractUser, self.engine.retract_user(feed, user, now))
    }

    fn retract_gift<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, GiftTakenBack> {
        self.call(Operation::RetractGift, self.engine.retract_gift(feed, id, now))
    }

    fn feeds_showing<'a>(&'a self, user: &'a str, after: Option<FeedId>) -> Wait<'a, Option<FeedsShowing>> {
        self.call(Operation::RetractUser, self.engine.feeds_showing(user, after))
    }

    fn begin_walk<'a>(&'a self, user: &'a str, now: Millis) -> Wait<'a, bool> {
        self.call(Operation::RetractUser, self.engine.begin_walk(user, now))
    }

    fn walk_on<'a>(&'a self, node: &'a str, now: Millis) -> Wait<'a, Walk> {
        self.call(Operation::Walk, self.engine.walk_on(node, now))
    }
}

impl PresenceStore for Metered {
    fn attend<'a>(&'a self, node: &'a str, counts: &'a [(FeedId, Count)]) -> Wait<'a, bool> {
        self.call(Operation::Attend, self.engine.attend(node, counts))
    }

    fn presence<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Presence>> {
        self.call(Operation::Presence, self.engine.presence(feeds))
    }
}
