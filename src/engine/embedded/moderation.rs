//! Taking back, and telling overlays what to do.

use super::EmbeddedEngine;
use super::feeds::{Feeds, Step};
use crate::domain::answer::Fate;
use crate::domain::{Control, FeedId, GiftId, GiftTakenBack, Millis, Part, Position};
use crate::engine::record::push_retracted;
use crate::engine::{ModerationStore, Presence, PresenceStore, Unscheduled, Wait};

impl Feeds {
    fn control(&mut self, name: &FeedId, control: &Control, now: Millis) -> Step<Option<Position>> {
        let found =
            self.change(name, now, |state, policy, effects| state.control(control, policy, now, effects))?;
        let at = self.look(name, |feed, _| feed.state.position())?;
        Ok(found.then_some(at))
    }

    fn retract_gift(&mut self, name: &FeedId, id: &GiftId, now: Millis) -> Step<GiftTakenBack> {
        let Some(no) = self.known_number(name)? else { return Ok(GiftTakenBack::Unknown) };
        let Some(known) = self.store.remembered(no, id, now)? else { return Ok(GiftTakenBack::Unknown) };
        let answer = match known.fate {
            Fate::Cancelled(_) => return Ok(GiftTakenBack::Done),
            Fate::Waits(_) => {
                return Ok(match self.unschedule(name, id, now)? {
                    Unscheduled::Cancelled(_) => GiftTakenBack::Done,
                    // What waits in no queue was set aside for good: nobody will show it.
                    Unscheduled::Shown | Unscheduled::Unknown => GiftTakenBack::Unknown,
                });
            }
            Fate::Taken(answer) => answer,
        };
        let part = match known.part {
            Part::Added(part) => part,
            Part::TakenBack => return Ok(GiftTakenBack::Done),
            Part::Unknown => return Ok(GiftTakenBack::Unknown),
        };
        let (changed, seq) = self.change(name, now, |state, policy, effects| {
            let changed = state.take_part(&answer.row, &part, policy, now, effects);
            (changed, state.list.at.seq)
        })?;
        self.store.begin()?;
        self.store.part_taken_back(no, id)?;
        self.dirty.insert(name.clone());
        if !part.test {
            let seq = changed.then_some(seq);
            self.enter(name, now, |out| push_retracted(out, id, seq, &answer.row, now));
        }
        Ok(GiftTakenBack::Done)
    }
}

impl ModerationStore for EmbeddedEngine {
    fn control<'a>(&'a self, feed: &'a FeedId, control: Control, now: Millis) -> Wait<'a, Option<Position>> {
        let feed = feed.clone();
        self.task_at(now, move |feeds| feeds.control(&feed, &control, now))
    }

    fn retract_user<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, u64> {
        let (feed, user) = (feed.clone(), user.to_owned());
        self.task_at(now, move |feeds| {
            feeds.change(&feed, now, |state, policy, effects| state.retract_user(&user, policy, now, effects))
        })
    }

    fn retract_gift<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, GiftTakenBack> {
        let (feed, id) = (feed.clone(), id.clone());
        self.task_at(now, move |feeds| feeds.retract_gift(&feed, &id, now))
    }
}

impl PresenceStore for EmbeddedEngine {
    fn attend<'a>(&'a self, node: &'a str, counts: &'a [(FeedId, u64)]) -> Wait<'a, bool> {
        self.attendance.attend(node, counts);
        Box::pin(std::future::ready(Ok(true)))
    }

    fn presence<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Presence>> {
        Box::pin(std::future::ready(Ok(self.attendance.presence(feeds))))
    }
}
