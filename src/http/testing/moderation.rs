//! Taking back, on the [`MemoryEngine`].

use super::MemoryEngine;
use crate::domain::feed::Effects;
use crate::domain::{
    Block, BlockScope, Blocked, Control, Decision, FeedId, GiftId, GiftTakenBack, InReview, Millis, Part,
    Position, Reviewing,
};
use crate::engine::{Count, ModerationStore, Presence, PresenceStore, ReviewStore, Wait};

impl ModerationStore for MemoryEngine {
    fn control<'a>(&'a self, feed: &'a FeedId, control: Control, now: Millis) -> Wait<'a, Option<Position>> {
        self.step(feed, move |feed, policy| {
            let found = feed.state.control(&control, policy, now, &mut Effects::default());
            found.then(|| feed.state.position())
        })
    }

    fn retract_user<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, u64> {
        self.step(feed, move |feed, policy| {
            feed.state.retract_user(user, policy, now, &mut Effects::default()).len() as u64
        })
    }

    fn retract_gift<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, _: Millis) -> Wait<'a, GiftTakenBack> {
        self.step(feed, move |feed, _| match feed.known.get_mut(id) {
            Some(known) => {
                known.part = Part::TakenBack;
                GiftTakenBack::Done
            }
            None => GiftTakenBack::Unknown,
        })
    }
}

impl PresenceStore for MemoryEngine {
    fn attend<'a>(&'a self, node: &'a str, counts: &'a [(FeedId, Count)]) -> Wait<'a, bool> {
        self.attendance.attend(node, counts);
        Box::pin(std::future::ready(Ok(true)))
    }

    fn presence<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Presence>> {
        Box::pin(std::future::ready(Ok(self.attendance.presence(feeds))))
    }
}

/// Nothing waits here, and nobody is blocked.
impl ReviewStore for MemoryEngine {
    fn reviews<'a>(&'a self, feed: &'a FeedId, _: Millis) -> Wait<'a, Vec<InReview>> {
        self.step(feed, |_, _| Vec::new())
    }

    fn review<'a>(&'a self, feed: &'a FeedId, _: &'a GiftId, _: Decision, _: Millis) -> Wait<'a, Reviewing> {
        self.step(feed, |_, _| Reviewing::UNKNOWN)
    }

    fn block<'a>(&'a self, _: &'a BlockScope, _: Block) -> Wait<'a, Blocked> {
        Box::pin(async { Ok(Blocked::New) })
    }

    fn unblock<'a>(&'a self, _: &'a BlockScope, _: &'a str, _: Millis) -> Wait<'a, bool> {
        Box::pin(async { Ok(false) })
    }

    fn blocks<'a>(&'a self, _: &'a BlockScope, _: Millis) -> Wait<'a, Vec<Block>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn is_blocked<'a>(&'a self, feed: &'a FeedId, _: &'a str, _: Millis) -> Wait<'a, bool> {
        self.step(feed, |_, _| false)
    }
}
