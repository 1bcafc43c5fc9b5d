//! The stock of one drop: its counts, when it is told, when its clock strikes. Pure; the embedded engine
//! runs it, `lua/feed_drops.lua` does the same steps in the same order.

use super::claim::{Claim, ClaimRefused, Pay};
use super::drop::{DropSpec, DropView, Phase};
use super::{DropId, Millis};

/// Least time between two announcements of stock, in milliseconds: never more than two in any second,
/// also as seen by a watcher whose frames were gathered for a while.
pub const TELL_EVERY_MS: u64 = 600;

/// A drop's definition and counts. free = total − held − sold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stock {
    /// How it is defined.
    pub spec: DropSpec,
    /// Units of holds that have not ended.
    pub held: u64,
    /// Units sold.
    pub sold: u64,
    /// What watchers were last told that it does.
    pub said: Phase,
    /// When watchers were last told.
    pub told: Millis,
    /// True while watchers have not been told the counts and the definition as they are.
    pub stale: bool,
    /// Nothing that is kept of its claims ends, or is forgotten, before this; may be earlier than the truth.
    pub soonest: Option<Millis>,
}

/// What the ledger of claims has on a claimer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Units of the user in this drop, held and sold.
    pub units: u64,
    /// Unpaid holds of the user in the feed, and when the earliest of them ends.
    pub unpaid: (u64, Option<Millis>),
}

impl Stock {
    /// A drop that nobody was told of yet.
    pub fn new(spec: DropSpec, now: Millis) -> Stock {
        let mut stock =
            Stock { spec, held: 0, sold: 0, said: Phase::Open, told: now, stale: true, soonest: None };
        stock.said = stock.phase(now);
        stock
    }

    /// Units that can be claimed.
    pub fn free(&self) -> u64 {
        self.spec.total - self.held - self.sold
    }

    /// What it does at `now`.
    pub fn phase(&self, now: Millis) -> Phase {
        if self.spec.opens_at.is_some_and(|at| now < at) {
            return Phase::Pending;
        }
        if self.spec.closes_at.is_some_and(|at| now >= at) {
            return Phase::Closed;
        }
        if self.free() == 0 { Phase::SoldOut } else { Phase::Open }
    }

    /// As it is shown at `now`.
    pub fn view(&self, drop: &DropId, now: Millis) -> DropView {
        let (drop, spec) = (drop.clone(), self.spec.clone());
        DropView { drop, phase: self.phase(now), spec, free: self.free(), held: self.held, sold: self.sold }
    }

    /// Takes another definition; the units that are taken when its total is below them.
    pub fn redefine(&mut self, spec: DropSpec) -> Result<(), u64> {
        let taken = self.held + self.sold;
        if spec.total < taken {
            return Err(taken);
        }
        self.stale |= self.spec != spec;
        self.spec = spec;
        Ok(())
    }

    /// Whether a claim with an id that is not remembered is filled. Refusing changes nothing; when it is
    /// filled, its units are taken.
    pub fn take(&mut self, claim: &Claim, record: Record, now: Millis) -> Result<(), ClaimRefused> {
        if claim.count > self.spec.per_user {
            return Err(ClaimRefused::AbovePerUser(self.spec.per_user));
        }
        let phase = self.phase(now);
        if matches!(phase, Phase::Pending | Phase::Closed) {
            return Err(ClaimRefused::NotOpen(phase));
        }
        if record.units + claim.count > self.spec.per_user {
            return Err(ClaimRefused::AlreadyClaimed(None));
        }
        if claim.count > self.free() {
            return Err(ClaimRefused::SoldOut(self.free()));
        }
        let (holds, earliest) = record.unpaid;
        if claim.pay == Pay::Later && holds >= self.spec.max_holds_per_user {
            return Err(ClaimRefused::TooManyHolds(earliest.map_or(0, |at| at.since(now))));
        }
        match claim.pay {
            Pay::Now => self.sold += claim.count,
            Pay::Later => {
                self.held += claim.count;
                self.heed(now.plus(self.spec.hold_ttl_ms));
            }
        }
        self.stale = true;
        Ok(())
    }

    /// A hold of so many units is paid for.
    pub fn sell_held(&mut self, count: u64) {
        self.held -= count;
        self.sold += count;
        self.stale = true;
    }

    /// A hold of so many units has ended.
    pub fn give_back(&mut self, count: u64) {
        self.held -= count;
        self.stale = true;
    }

    /// Something of its claims ends or is forgotten then.
    pub fn heed(&mut self, at: Millis) {
        self.soonest = Some(self.soonest.map_or(at, |soonest| soonest.min(at)));
    }

    /// True when watchers are to be told now: when it opened, closed or sold out, when it is to be
    /// remembered of, and when its stock changed and was not told just now. Units that came back after it
    /// had sold out are stock.
    pub fn must_tell(&self, now: Millis, reminder_ms: u64) -> bool {
        let phase = self.phase(now);
        let restocked = self.said == Phase::SoldOut && phase == Phase::Open;
        if phase != self.said && !restocked {
            return true;
        }
        let reminded = |at: Option<Millis>| {
            at.is_some_and(|at| {
                let early = Millis(at.0 - reminder_ms as i64);
                reminder_ms > 0 && self.told < early && early <= now && now < at
            })
        };
        if reminded(self.spec.opens_at) || (phase != Phase::Pending && reminded(self.spec.closes_at)) {
            return true;
        }
        // A clock that went back must not keep the drop silent.
        (self.stale || restocked) && (now >= self.told.plus(TELL_EVERY_MS) || now < self.told)
    }

    /// Watchers are told now.
    pub fn tell(&mut self, now: Millis) {
        (self.said, self.told, self.stale) = (self.phase(now), now, false);
    }

    /// When its clock strikes next, after everything that is due at `now` was done.
    pub fn next(&self, now: Millis, reminder_ms: u64) -> Option<Millis> {
        // Once more also when nothing waits yet: a drop that sells has its clock in the queue all the time.
        let soon = now < self.told.plus(TELL_EVERY_MS);
        let waits = soon || self.stale || self.said != self.phase(now);
        let trailing = waits.then(|| self.told.plus(TELL_EVERY_MS));
        let instants = [self.spec.opens_at, self.spec.closes_at].into_iter().flatten().flat_map(|at| {
            let early = (reminder_ms > 0).then(|| Millis(at.0 - reminder_ms as i64));
            [Some(at), early]
        });
        let instants = instants.flatten().filter(|at| *at > now);
        instants.chain(trailing).chain(self.soonest).min()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::json::syntax;
    use crate::domain::{Claim, Phase};

    fn spec(total: u64) -> DropSpec {
        let body =
            format!(r#"{{"gift":{{"id":"r","name":"R"}},"total":{total},"per_user":3,"hold_ttl_ms":1000}}"#);
        DropSpec::parse(syntax(body.as_bytes()).unwrap()).unwrap()
    }

    fn claim(user: u8, count: u64, later: bool) -> Claim {
        let pay = if later { "later" } else { "now" };
        let body =
            format!(r#"{{"id":"c","user":{{"id":"u{user}","name":"U"}},"count":{count},"pay":"{pay}"}}"#);
        Claim::parse(syntax(body.as_bytes()).unwrap(), None).unwrap()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Claim(u8, u64, bool),
        Confirm(usize),
        Cancel(usize),
        Redefine(u64),
        Pass(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            5 => (0..4u8, 1..4u64, any::<bool>()).prop_map(|(user, count, later)| Step::Claim(user, count, later)),
            2 => (0..8usize).prop_map(Step::Confirm),
            2 => (0..8usize).prop_map(Step::Cancel),
            1 => (1..20u64).prop_map(Step::Redefine),
            2 => (1..1500u64).prop_map(Step::Pass),
        ];
        prop::collection::vec(step, 1..80)
    }

    proptest! {
        #[test]
        fn free_and_held_and_sold_are_the_total_after_every_step(total in 1..12u64, steps in steps()) {
            let mut now = Millis(1_000_000);
            let mut stock = Stock::new(spec(total), now);
            // What the ledger would have: units and end of each hold by user, units by user.
            let mut holds: Vec<(u8, u64, Millis)> = vec![];
            let mut units: HashMap<u8, u64> = HashMap::new();
            let mut told: Vec<Millis> = vec![];
            for step in steps {
                holds.retain(|(user, count, until)| {
                    let over = *until <= now;
                    if over {
                        stock.give_back(*count);
                        *units.get_mut(user).unwrap() -= count;
                    }
                    !over
                });
                match step {
                    Step::Claim(user, count, later) => {
                        let mine = holds.iter().filter(|hold| hold.0 == user);
                        let unpaid = (mine.clone().count() as u64, mine.map(|hold| hold.2).min());
                        let record = Record { units: units.get(&user).copied().unwrap_or(0), unpaid };
                        let before = stock.clone();
                        match stock.take(&claim(user, count, later), record, now) {
                            Ok(()) => {
                                *units.entry(user).or_default() += count;
                                if later {
                                    holds.push((user, count, now.plus(1000)));
                                }
                            }
                            Err(_) => prop_assert_eq!(&stock, &before, "a refusal changes nothing"),
                        }
                    }
                    Step::Confirm(n) if n < holds.len() => stock.sell_held(holds.remove(n).1),
                    Step::Cancel(n) if n < holds.len() => {
                        let (user, count, _) = holds.remove(n);
                        stock.give_back(count);
                        *units.get_mut(&user).unwrap() -= count;
                    }
                    Step::Redefine(total) => drop(stock.redefine(spec(total))),
                    Step::Pass(ms) => now = now.plus(ms),
                    Step::Confirm(_) | Step::Cancel(_) => {}
                }
                let view = stock.view(&"r".parse().unwrap(), now);
                prop_assert_eq!(view.free + view.held + view.sold, view.spec.total);
                prop_assert_eq!(view.held, holds.iter().map(|hold| hold.1).sum::<u64>());
                prop_assert_eq!(view.held + view.sold, units.values().sum::<u64>());
                prop_assert!(units.values().all(|units| *units <= 3));
                prop_assert_eq!(view.phase == Phase::SoldOut, view.free == 0);
                let was = stock.said;
                if stock.must_tell(now, 0) {
                    stock.tell(now);
                    if !(was != Phase::SoldOut && stock.said == Phase::SoldOut) {
                        told.push(now);
                    }
                }
                prop_assert!(stock.said == view.phase || stock.said == Phase::SoldOut, "never late with bad news");
                prop_assert!(stock.next(now, 0).is_some() || !stock.stale, "the last state is told in the end");
            }
            let crowded = told.windows(3).any(|three| three[2].since(three[0]) <= 1000);
            prop_assert!(!crowded, "more than two in a second: {:?}", told);
        }
    }
}
