//! What a feed counts now: the open instances of its periods with their sums, its session and its goals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{
    CLOCK_SLACK_MS, Counted, GoalSpec, GoalView, Instance, KEEP_MS, Measure, Period, Rules, TELL_EVERY_MS,
    TOLD_CURRENCIES,
};
use crate::domain::{GoalId, Millis};

/// A show that began by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its name, 1–64 bytes, any content.
    pub id: String,
    /// When it began.
    pub since: Millis,
}

/// A goal, and whether it was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// How it is defined.
    pub spec: GoalSpec,
    /// When it was reached in the present instance of its period.
    pub reached_at: Option<Millis>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// What is counted, as far as [`State::settle`] has seen.
    pub rules: Rules,
    /// The session, once one was begun by name.
    pub session: Option<Session>,
    /// The instances that gifts are counted in.
    pub open: Vec<Instance>,
    /// Of each period that ended, the last one.
    pub ended: Vec<Instance>,
    /// The number of the last instance.
    pub last_id: u64,
    /// How often something was counted or taken back: who came to a score first has the smaller one.
    pub order: u64,
    /// When watchers were told last.
    pub told: Millis,
    /// What they were not told yet; a period that is not open is one that was switched off.
    pub stale: BTreeSet<Period>,
    /// By name.
    pub goals: BTreeMap<GoalId, Goal>,
}

impl State {
    /// True when nothing of it needs to be kept.
    pub fn is_empty(&self) -> bool {
        self.rules.periods.is_empty()
            && self.goals.is_empty()
            && self.session.is_none()
            && self.stale.is_empty()
    }

    /// The open instance of a period.
    pub fn of(&self, period: Period) -> Option<&Instance> {
        self.open.iter().find(|it| it.period == period)
    }

    /// The instance of a period that ended last.
    pub fn back(&self, period: Period) -> Option<&Instance> {
        self.ended.iter().find(|it| it.period == period)
    }

    /// True when what is kept of this instance is of use still.
    pub fn knows(&self, id: u64) -> bool {
        self.open.iter().chain(&self.ended).any(|it| it.id == id)
    }

    /// The open instances, as [`Counted`] spells them; none when nothing is counted.
    pub fn instances(&self) -> Option<Arc<str>> {
        use std::fmt::Write;
        let mut ids = String::with_capacity(32);
        for it in &self.open {
            let _ = write!(ids, "{}{}", if ids.is_empty() { "" } else { "." }, it.id);
        }
        (!ids.is_empty()).then(|| ids.into())
    }

    /// True when [`State::settle`] has nothing to do.
    pub fn is_settled(&self, rules: &Rules, now: Millis) -> bool {
        let slack = CLOCK_SLACK_MS as i64;
        self.rules == *rules
            && self
                .open
                .iter()
                .all(|it| now < it.until && (!it.period.is_calendar() || now.0 >= it.since.0 - slack))
    }

    /// Does what the policy and the calendar say: opens what is switched on, discards what is switched off, and turns
    /// over what has ended. A clock that went back by more than an hour opens again what it had ended, so an hour in
    /// a wrong day does not cost the right one its ranking. True when something changed.
    pub fn settle(&mut self, rules: &Rules, now: Millis) -> bool {
        if self.is_settled(rules, now) {
            return false;
        }
        for period in Period::ALL {
            if self.rules.periods.has(period) && !rules.periods.has(period) {
                self.open.retain(|it| it.period != period);
                self.ended.retain(|it| it.period != period);
                self.stale.insert(period);
                self.begin_goals(period);
            } else if rules.periods.has(period) && self.of(period).is_none() {
                let (since, until) = rules.zone.bounds(period, now);
                let since = if period.is_calendar() { since } else { now };
                self.open_one(period, since, until);
            }
        }
        let moved = self.rules.zone != rules.zone;
        self.rules = rules.clone();
        for period in rules.periods.iter().filter(|period| period.is_calendar()) {
            self.turn(period, now, moved);
        }
        true
    }

    fn turn(&mut self, period: Period, now: Millis, moved: bool) {
        let Some(at) = self.open.iter().position(|it| it.period == period) else { return };
        let (since, until) = self.rules.zone.bounds(period, now);
        let slack = CLOCK_SLACK_MS as i64;
        if moved && self.open[at].since <= now {
            // The day goes on, and ends when it ends there.
            self.open[at].until = until;
            return;
        }
        if now < self.open[at].until && now.0 >= self.open[at].since.0 - slack {
            return;
        }
        let again = self.ended.iter().position(|it| it.period == period && it.since <= now && now < it.until);
        match again.filter(|_| now < self.open[at].since) {
            Some(ended) => std::mem::swap(&mut self.open[at], &mut self.ended[ended]),
            None => {
                self.last_id += 1;
                let new = Instance::new(period, self.last_id, since, until);
                let over = std::mem::replace(&mut self.open[at], new);
                self.ended.retain(|it| it.period != period);
                self.ended.push(over);
            }
        }
        self.stale.insert(period);
        self.begin_goals(period);
    }

    fn open_one(&mut self, period: Period, since: Millis, until: Millis) {
        self.last_id += 1;
        self.open.push(Instance::new(period, self.last_id, since, until));
        self.open.sort_by_key(|it| it.period);
        self.stale.insert(period);
        self.begin_goals(period);
    }

    /// Goals of a period begin anew; those that its open instance has reached already stay reached.
    fn begin_goals(&mut self, period: Period) {
        let open = self.open.iter().find(|it| it.period == period);
        for goal in self.goals.values_mut().filter(|goal| goal.spec.period == period) {
            let reached = open.is_some_and(|it| it.sum(&goal.spec.by) >= goal.spec.target);
            goal.reached_at = goal.reached_at.filter(|_| reached);
        }
    }

    /// Begins a session, unless it is the present one: then nothing changes, and this is false.
    pub fn begin_session(&mut self, id: &str, now: Millis) -> bool {
        if self.session.as_ref().is_some_and(|present| present.id == id) {
            return false;
        }
        self.session = Some(Session { id: id.to_owned(), since: now });
        if let Some(at) = self.open.iter().position(|it| it.period == Period::Session) {
            self.last_id += 1;
            let new = Instance::new(Period::Session, self.last_id, now, Millis::MAX);
            let over = std::mem::replace(&mut self.open[at], new);
            self.ended.retain(|it| it.period != Period::Session);
            self.ended.push(over);
            self.stale.insert(Period::Session);
            self.begin_goals(Period::Session);
        }
        true
    }

    /// Adds what a gift counted to the instances that it names.
    pub fn add(&mut self, counted: &Counted) {
        self.order += 1;
        self.each(counted, Instance::add);
    }

    /// Takes what a gift counted from where it was added.
    pub fn take(&mut self, counted: &Counted) {
        self.order += 1;
        self.each(counted, Instance::take);
    }

    fn each(&mut self, counted: &Counted, change: impl Fn(&mut Instance, &Counted)) {
        for id in counted.ids() {
            if let Some(instance) = self.open.iter_mut().find(|it| it.id == id) {
                change(instance, counted);
                self.stale.insert(instance.period);
            } else if let Some(instance) = self.ended.iter_mut().find(|it| it.id == id) {
                change(instance, counted);
            }
        }
    }

    /// So many users more, or fewer, have given in this instance.
    pub fn gifters(&mut self, id: u64, more: i64) {
        if let Some(instance) = self.open.iter_mut().chain(&mut self.ended).find(|it| it.id == id) {
            instance.gifters = instance.gifters.saturating_add_signed(more);
        }
    }

    /// Goals that are reached now and were not: each is reached once in an instance of its period.
    pub fn reach(&mut self, now: Millis) -> Vec<GoalId> {
        let open = &self.open;
        let is_reached = |goal: &Goal| {
            let instance = open.iter().find(|it| it.period == goal.spec.period);
            instance.is_some_and(|it| it.sum(&goal.spec.by) >= goal.spec.target)
        };
        let mut reached = Vec::new();
        for (name, goal) in &mut self.goals {
            if goal.reached_at.is_none() && is_reached(goal) {
                goal.reached_at = Some(now);
                reached.push(name.clone());
            }
        }
        reached
    }

    /// A goal as it is shown.
    pub fn goal(&self, name: &GoalId) -> Option<GoalView> {
        let Goal { spec, reached_at } = self.goals.get(name)?;
        let value = self.of(spec.period).map_or(0, |it| it.sum(&spec.by));
        Some(GoalView { goal: name.clone(), spec: spec.clone(), value, reached_at: *reached_at })
    }

    /// By what leaders of an instance are told: points if any are set, units, and the largest currencies.
    pub fn told_measures(&self, instance: &Instance) -> Vec<Measure> {
        let mut measures = Vec::with_capacity(2 + TOLD_CURRENCIES);
        if !self.rules.points.0.is_empty() {
            measures.push(Measure::Points);
        }
        measures.push(Measure::Units);
        let largest = instance.amounts().into_iter().take(TOLD_CURRENCIES);
        measures.extend(largest.map(|(currency, _)| Measure::Currency(currency.into())));
        measures
    }

    /// Until when a gift that counts now can be taken back at least: as long as a period that it was counted in
    /// runs, at most 35 days.
    pub fn keep_until(&self, now: Millis) -> Millis {
        let last = self.open.iter().map(|it| it.until).max().unwrap_or(now);
        last.min(now.plus(KEEP_MS))
    }

    /// True when watchers may be told what they were not told yet.
    pub fn may_tell(&self, now: Millis) -> bool {
        now >= self.told.plus(TELL_EVERY_MS) || now < self.told
    }

    /// When something is to be done by itself: watchers are told, or the calendar ends a period. `waits` says
    /// whether there is something to tell.
    pub fn next(&self, now: Millis, waits: bool) -> Option<Millis> {
        let ends = self.open.iter().filter(|it| it.period.is_calendar()).map(|it| it.until).min();
        let tells = (waits || !self.may_tell(now)).then(|| self.told.plus(TELL_EVERY_MS).max(now));
        ends.into_iter().chain(tells).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Value;
    use crate::domain::tally::Points;

    fn rules(periods: &str) -> Rules {
        Rules {
            periods: periods.parse().unwrap(),
            zone: "Europe/Berlin".parse().unwrap(),
            points: Points::default(),
        }
    }

    fn at(text: &str) -> Millis {
        Millis::parse(text).unwrap()
    }

    fn euros(state: &State, amount: u64) -> Counted {
        let value = Value { amount, currency: "EUR".into() };
        Counted::gift(state.instances().unwrap(), 1, Some(&value), &Points::default(), true)
    }

    #[test]
    fn a_gift_is_taken_back_from_where_it_was_added_also_after_midnight() {
        let mut state = State::default();
        assert!(state.settle(&rules("all,day,month"), at("2026-11-30T22:59:00Z")));
        let before = euros(&state, 5);
        state.add(&before);
        assert!(
            state.settle(&rules("all,day,month"), at("2026-11-30T23:00:00Z")),
            "it is December in Berlin"
        );
        let after = euros(&state, 3);
        state.add(&after);
        let sum = |it: Option<&Instance>| it.unwrap().sum(&Measure::Currency("EUR".into()));
        let shown = |state: &State| {
            let all = [state.of(Period::All), state.of(Period::Day), state.of(Period::Month)];
            (all.map(sum), [state.back(Period::Day), state.back(Period::Month)].map(sum))
        };
        assert_eq!(shown(&state), ([8, 3, 3], [5, 5]));
        state.take(&before);
        assert_eq!(shown(&state), ([3, 3, 3], [0, 0]));
        state.take(&after);
        assert_eq!(shown(&state), ([0, 0, 0], [0, 0]));
    }

    #[test]
    fn a_clock_that_was_wrong_for_a_while_gives_the_day_back() {
        let mut state = State::default();
        let (today, rules) = (at("2026-11-22T12:00:00Z"), rules("day"));
        state.settle(&rules, today);
        let day = state.of(Period::Day).unwrap().id;
        assert!(state.settle(&rules, today.plus(86_400_000)));
        assert_ne!(state.of(Period::Day).unwrap().id, day);
        assert!(state.settle(&rules, today.plus(1)));
        assert_eq!(state.of(Period::Day).unwrap().id, day);
        // A small step back over midnight opens nothing.
        let midnight = at("2026-11-22T23:00:00Z");
        state.settle(&rules, midnight);
        let new = state.of(Period::Day).unwrap().id;
        assert!(!state.settle(&rules, Millis(midnight.0 - 60_000)));
        assert_eq!(state.of(Period::Day).unwrap().id, new);
    }

    #[test]
    fn switching_off_discards_and_on_begins_anew() {
        let mut state = State::default();
        state.settle(&rules("all,session"), Millis(5));
        state.add(&euros(&state, 5));
        state.settle(&rules("session"), Millis(6));
        assert!(state.of(Period::All).is_none() && state.stale.contains(&Period::All));
        state.settle(&rules("all,session"), Millis(7));
        assert_eq!((state.of(Period::All).unwrap().gifts, state.of(Period::Session).unwrap().gifts), (0, 1));
        assert_eq!(state.of(Period::All).unwrap().since, Millis(7));
    }

    #[test]
    fn a_session_begins_by_name_and_its_goal_with_it() {
        let mut state = State::default();
        state.settle(&rules("session"), Millis(5));
        let by = Measure::Units;
        let spec = GoalSpec { title: "t".into(), period: Period::Session, by, target: 2 };
        state.goals.insert("g".parse().unwrap(), Goal { spec, reached_at: None });
        state.add(&euros(&state, 1));
        assert!(state.reach(Millis(6)).is_empty());
        let gift = euros(&state, 1);
        state.add(&gift);
        assert_eq!(state.reach(Millis(7)).len(), 1);
        assert!(state.reach(Millis(8)).is_empty(), "once");
        state.take(&gift);
        assert_eq!(
            state.goal(&"g".parse().unwrap()).unwrap().reached_at,
            Some(Millis(7)),
            "it stays reached"
        );
        assert!(state.begin_session("show 2", Millis(9)));
        assert!(!state.begin_session("show 2", Millis(10)));
        assert_eq!(state.goal(&"g".parse().unwrap()).unwrap().reached_at, None);
        assert_eq!(
            (state.of(Period::Session).unwrap().since, state.back(Period::Session).unwrap().gifts),
            (Millis(9), 1)
        );
    }
}
