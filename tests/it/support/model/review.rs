//! The oracle's review and blocks.

use std::collections::HashMap;

use tipcast::domain::answer::GiftFate;
use tipcast::domain::{
    Answer, Block, BlockScope, Blocked, Decision, FeedId, Gift, GiftId, InReview, Millis, Policy,
    ReviewDefault, ReviewMode, Reviewing, Scheduled, Status,
};
use tipcast::engine::{DueFate, DueHandled};

use super::{Feed, Known, Model};

/// A gift that waits for a decision.
#[derive(Clone)]
pub(super) struct Held {
    order: u64,
    at: Millis,
    expires: Millis,
    deliver: Millis,
    gift: Gift,
}

/// What a feed knows of review and blocks.
#[derive(Default)]
pub(super) struct Desk {
    held: Vec<Held>,
    approved: HashMap<(String, String), Millis>,
    pub blocks: HashMap<String, Block>,
    /// Those of all feeds, as they are while a call runs.
    pub everywhere: HashMap<String, Block>,
}

impl Desk {
    pub fn is_blocked(&self, user: &str, now: Millis) -> bool {
        let of = |blocks: &HashMap<String, Block>| blocks.get(user).is_some_and(|block| block.holds(now));
        of(&self.blocks) || of(&self.everywhere)
    }

    /// In how many milliseconds time decides about the first, when no more may wait.
    pub fn is_full(&self, now: Millis) -> Option<u64> {
        let first = self.first().filter(|_| self.held.len() >= 1_000)?;
        Some(first.0.since(now))
    }

    /// When time decides about the first.
    pub fn first(&self) -> Option<(Millis, u64)> {
        self.held.iter().map(|it| (it.expires, it.order)).min()
    }
}

impl Feed {
    /// Whether this gift must be looked at.
    pub(super) fn must_wait(&self, gift: &Gift, policy: &Policy, now: Millis) -> bool {
        let said = gift.message.is_some();
        if policy.review == ReviewMode::Off || gift.test {
            return false;
        }
        if gift.combo.is_some() {
            let key = super::combo_of(gift);
            let row = self.rows.iter().find(|row| self.combos.get(&row.id) == key.as_ref());
            let shown = row.and_then(|row| row.message.as_deref().map(str::to_owned));
            let mine = gift.message.as_ref().map(|message| serde_json::to_string(message).unwrap());
            if !said || shown == mine {
                return false;
            }
        }
        let name = (gift.user.id.clone(), gift.user.name.clone());
        let passes = self.desk.approved.get(&name).is_some_and(|until| now < *until);
        policy.review == ReviewMode::All || said || !passes
    }

    pub(super) fn hold_for_review(&mut self, gift: &Gift, policy: &Policy, now: Millis, deliver: Millis) {
        self.arrivals += 1;
        let expires = now.plus(policy.review_timeout_ms);
        let held = Held { order: self.arrivals, at: now, expires, deliver, gift: gift.clone() };
        self.desk.held.push(held);
        self.ids.insert(gift.id.clone(), (gift.clone(), Known::InReview, Millis::MAX));
    }

    /// A gift that no row shows.
    pub(super) fn keep_back(&mut self, gift: &Gift, status: Status, policy: &Policy, now: Millis) -> Answer {
        let answer = Answer { status, id: gift.id.clone(), at: self.at.clone(), row: None, count: None };
        let until = now.plus(policy.idempotency_window_ms);
        self.ids.insert(gift.id.clone(), (gift.clone(), Known::Taken(answer.clone()), until));
        self.note_nothing(gift, policy, now);
        self.enter_gift(gift, &answer, now);
        answer
    }

    /// Does what was decided; nothing when the gift's own time has not come.
    fn act(&mut self, held: &Held, wish: Option<Decision>, policy: &Policy, now: Millis) -> Option<Answer> {
        let gift = &held.gift;
        let by_time = match policy.review_default {
            ReviewDefault::Show => Decision::Approve,
            ReviewDefault::Mask => Decision::Mask,
            ReviewDefault::Deny => Decision::Deny,
        };
        let mut decision = wish.unwrap_or(by_time);
        if self.desk.is_blocked(&gift.user.id, now) {
            decision = Decision::Deny;
        }
        self.decided.insert(gift.id.clone(), decision);
        if decision == Decision::Deny {
            return Some(self.keep_back(gift, Status::Denied, policy, now));
        }
        if wish == Some(Decision::Approve) {
            let name = (gift.user.id.clone(), gift.user.name.clone());
            self.desk.approved.insert(name, now.plus(30 * 86_400_000));
        }
        if held.deliver > now {
            self.wait(gift, held.deliver);
            return None;
        }
        Some(self.take(gift, policy, now))
    }

    /// What time does to the gift whose time is over first.
    pub(super) fn time_out(&mut self, policy: &Policy, now: Millis) -> DueHandled {
        let first = self.desk.first().unwrap();
        let at = self.desk.held.iter().position(|it| (it.expires, it.order) == first).unwrap();
        let held = self.desk.held.remove(at);
        let fate = self.act(&held, None, policy, now).map_or(DueFate::PutOff, DueFate::Shown);
        DueHandled { late_ms: now.since(held.expires), fate }
    }

    pub(super) fn decide(&mut self, id: &GiftId, wish: Decision, policy: &Policy, now: Millis) -> Reviewing {
        let at = self.desk.held.iter().position(|it| it.gift.id == *id);
        if let Some(at) = at {
            let held = self.desk.held.remove(at);
            let own = (held.expires > now).then_some(wish);
            self.act(&held, own, policy, now);
        }
        let Some((_, known, until)) = self.ids.get(id).filter(|(_, _, until)| now < *until) else {
            return Reviewing::UNKNOWN;
        };
        let _ = until;
        let fate = match known.clone() {
            Known::InReview => return Reviewing::UNKNOWN,
            Known::Taken(answer) => GiftFate::Taken(answer),
            Known::Waits(it) => GiftFate::Waits(it),
            Known::Cancelled(it) => GiftFate::Cancelled(it),
        };
        let decided = self.decided.get(id);
        decided.map_or(Reviewing::UNKNOWN, |decided| Reviewing::of(wish, *decided, fate, at.is_some()))
    }

    fn in_review(&self, now: Millis) -> Vec<InReview> {
        let mut held: Vec<&Held> = self.desk.held.iter().filter(|it| it.expires > now).collect();
        held.retain(|it| !self.desk.is_blocked(&it.gift.user.id, now));
        held.sort_by_key(|it| (it.at, it.order));
        held.into_iter()
            .map(|it| InReview { at: it.at, expires_at: it.expires, gift: it.gift.clone() })
            .collect()
    }

    /// Puts a gift into the queue of scheduled ones.
    pub(super) fn wait(&mut self, gift: &Gift, at: Millis) -> Scheduled {
        self.arrivals += 1;
        let place = tipcast::domain::DuePlace { at, order: self.arrivals };
        self.later.push(tipcast::engine::ScheduledGift { place, gift: gift.clone() });
        self.later.sort_by_key(|it| it.place);
        let it = Scheduled { id: gift.id.clone(), deliver_at: at };
        self.ids.insert(it.id.clone(), (gift.clone(), Known::Waits(it.clone()), Millis::MAX));
        it
    }
}

impl Model {
    fn change_blocks<T>(&self, scope: &BlockScope, rule: impl FnOnce(&mut HashMap<String, Block>) -> T) -> T {
        match scope {
            BlockScope::All => rule(&mut self.blocks.lock().unwrap()),
            BlockScope::Feed(feed) => self.on(feed, |f, _| rule(&mut f.desk.blocks)),
        }
    }
}

impl Model {
    pub(crate) fn reviews(&self, feed: &FeedId, now: Millis) -> Vec<InReview> {
        self.on(feed, |f, _| f.in_review(now))
    }

    pub(crate) fn review(&self, feed: &FeedId, id: &GiftId, decision: Decision, now: Millis) -> Reviewing {
        self.on(feed, |f, policy| f.decide(id, decision, &policy, now))
    }

    pub(crate) fn block(&self, scope: &BlockScope, block: Block) -> Blocked {
        self.change_blocks(scope, |blocks| {
            blocks.retain(|_, known| known.holds(block.at));
            if blocks.len() >= 1_000 && !blocks.contains_key(&block.user) {
                return Blocked::Full;
            }
            match blocks.insert(block.user.clone(), block) {
                Some(_) => Blocked::Replaced,
                None => Blocked::New,
            }
        })
    }

    pub(crate) fn unblock(&self, scope: &BlockScope, user: &str, now: Millis) -> bool {
        self.change_blocks(scope, |blocks| blocks.remove(user).is_some_and(|block| block.holds(now)))
    }

    pub(crate) fn blocks(&self, scope: &BlockScope, now: Millis) -> Vec<Block> {
        let mut all: Vec<Block> = self.change_blocks(scope, |blocks| blocks.values().cloned().collect());
        all.retain(|block| block.holds(now));
        all.sort_by(|a, b| a.user.cmp(&b.user));
        all
    }

    pub(crate) fn is_blocked(&self, feed: &FeedId, user: &str, now: Millis) -> bool {
        self.on(feed, |f, _| f.desk.is_blocked(user, now))
    }
}
