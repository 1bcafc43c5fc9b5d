//! Who gave how much, and in which order, in memory: what the embedded engine keeps beside its tables.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Counted, Leader, MAX_RANKED, Measure, State, Sum};
use crate::domain::Millis;

/// What one user gave in one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Gifts that counted, ranked or not.
    pub gifts: u64,
    /// What is ranked, by measure.
    pub scores: BTreeMap<Measure, Score>,
}

/// A score, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// How much.
    pub sum: Sum,
    /// [`State::order`] when the user came to it.
    pub order: u64,
    /// The time then.
    pub at: Millis,
}

/// A user who gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gifter {
    /// As their newest ranked gift named them, as JSON; empty when none was ranked.
    pub person: Arc<str>,
    /// By the number of the instance.
    pub given: BTreeMap<u64, Given>,
}

/// A place of a ranking: the highest score first, and of equal ones who was first.
type Place = (Reverse<u64>, u64, Arc<str>);

/// Gifters who may have moved since the rankings were brought up to date: more would hold up whoever looks next.
const MOVED_MOST: usize = 1_024;

/// All gifters of a feed, and the rankings. A gift moves its giver in every ranking of every period, so that is done
/// when somebody looks ([`Board::rank_all`]): once for all gifts of a giver since then.
#[derive(Clone, Debug, Default)]
pub struct Board {
    gifters: HashMap<Arc<str>, Gifter>,
    rankings: HashMap<(u64, Measure), BTreeSet<Place>>,
    /// Who moved since, and what they had given before: there they stand in the rankings.
    moved: HashMap<Arc<str>, BTreeMap<u64, Given>>,
}

/// One change: who, when, and whether it is taken back.
#[derive(Clone, Copy, Debug)]
pub struct Move<'a> {
    /// The user's id.
    pub user: &'a str,
    /// As this gift names them, as JSON.
    pub person: &'a str,
    /// True when it is taken back.
    pub back: bool,
    /// [`State::order`] of this change.
    pub order: u64,
    /// The time.
    pub at: Millis,
}

impl Board {
    /// Puts a gifter back who was read from a table. What belongs to instances that are over is left out.
    pub fn put(&mut self, user: &str, mut gifter: Gifter, state: &State) {
        gifter.given.retain(|id, _| state.knows(*id));
        let user: Arc<str> = user.into();
        for (id, given) in &gifter.given {
            for (measure, score) in &given.scores {
                enter(self.rankings.entry((*id, measure.clone())).or_default(), score, &user);
            }
        }
        if !gifter.given.is_empty() {
            self.gifters.insert(user, gifter);
        }
    }

    /// A gifter.
    pub fn gifter(&self, user: &str) -> Option<&Gifter> {
        self.gifters.get(user)
    }

    /// Moves a user by what a gift counted, in the state's sums too: how many gave.
    pub fn apply(&mut self, counted: &Counted, change: Move<'_>, state: &mut State) {
        let user: Arc<str> = match self.gifters.get_key_value(change.user) {
            Some((user, _)) => user.clone(),
            None => change.user.into(),
        };
        if self.moved.len() >= MOVED_MOST {
            self.rank_all();
        }
        let gifter = self.gifters.entry(user.clone()).or_default();
        self.moved.entry(user.clone()).or_insert_with(|| gifter.given.clone());
        gifter.given.retain(|id, _| state.knows(*id));
        if counted.ranked && !change.back && *gifter.person != *change.person {
            gifter.person = change.person.into();
        }
        let amount =
            counted.value.as_ref().map(|(amount, currency)| (Measure::Currency(currency.clone()), *amount));
        let moves =
            [(Measure::Points, counted.points), (Measure::Units, counted.units)].into_iter().chain(amount);
        let moves: Vec<_> = moves.filter(|(_, by)| counted.ranked && !by.is_zero()).collect();
        let known: Vec<u64> = counted.ids().filter(|id| state.knows(*id)).collect();
        for id in known {
            let given = gifter.given.entry(id).or_default();
            let had = given.gifts > 0;
            given.gifts = match change.back {
                false => given.gifts + counted.gifts,
                true => given.gifts.saturating_sub(counted.gifts),
            };
            state.gifters(id, i64::from(given.gifts > 0) - i64::from(had));
            for (measure, by) in &moves {
                let score = given.scores.entry(measure.clone()).or_default();
                let sum = if change.back { score.sum.minus(*by) } else { score.sum.plus(*by) };
                if sum.shown() == score.sum.shown() {
                    score.sum = sum;
                } else {
                    *score = Score { sum, order: change.order, at: change.at };
                }
            }
            given.scores.retain(|_, score| !score.sum.is_zero());
        }
        gifter.given.retain(|_, given| given.gifts > 0 || !given.scores.is_empty());
        if gifter.given.is_empty() {
            self.gifters.remove(&user);
        }
    }

    /// Brings the rankings up to date, for those who look at them next.
    pub fn rank_all(&mut self) {
        let place = |score: &Score, user: &Arc<str>| (Reverse(score.sum.shown()), score.order, user.clone());
        let moved = std::mem::take(&mut self.moved);
        // Whoever leaves a place does so before others come, so a full ranking loses nobody too many.
        for (user, before) in &moved {
            for (id, measure, score) in scores(before) {
                if let Some(ranking) = self.rankings.get_mut(&(id, measure.clone())) {
                    ranking.remove(&place(score, user));
                }
            }
        }
        for user in moved.keys() {
            for (id, measure, score) in self.gifters.get(user).into_iter().flat_map(|it| scores(&it.given)) {
                enter(self.rankings.entry((id, measure.clone())).or_default(), score, user);
            }
        }
    }

    /// Lets go of rankings of instances that are over, and of gifters who gave in none that is kept: their ids.
    pub fn sweep(&mut self, state: &State) -> Vec<Arc<str>> {
        self.rankings.retain(|(id, _), _| state.knows(*id));
        let mut gone = Vec::new();
        self.gifters.retain(|user, gifter| {
            gifter.given.retain(|id, _| state.knows(*id));
            let stays = !gifter.given.is_empty();
            if !stays {
                gone.push(user.clone());
            }
            stays
        });
        gone
    }

    /// The first of an instance, at most `limit`, as of the last [`Board::rank_all`].
    pub fn leaders(&self, id: u64, by: &Measure, limit: usize) -> Vec<Leader> {
        let places = self.rankings.get(&(id, by.clone())).into_iter().flatten();
        let leader = |(Reverse(score), _, user): &Place| {
            let gifter = self.gifters.get(user)?;
            let at = gifter.given.get(&id)?.scores.get(by)?.at;
            Some(Leader { score: *score, at, user: gifter.person.clone() })
        };
        places.take(limit).filter_map(leader).collect()
    }

    /// Rank, from 1, and score of a user, if ranked, as of the last [`Board::rank_all`].
    pub fn rank(&self, id: u64, by: &Measure, user: &str) -> Option<(u64, u64)> {
        let (user, gifter) = self.gifters.get_key_value(user)?;
        let score = gifter.given.get(&id)?.scores.get(by)?;
        let place = (Reverse(score.sum.shown()), score.order, user.clone());
        let ranking = self.rankings.get(&(id, by.clone()))?;
        ranking.contains(&place).then(|| (ranking.range(..&place).count() as u64 + 1, score.sum.shown()))
    }
}

fn scores(given: &BTreeMap<u64, Given>) -> impl Iterator<Item = (u64, &Measure, &Score)> {
    given.iter().flat_map(|(id, given)| given.scores.iter().map(|(measure, score)| (*id, measure, score)))
}

/// Enters a score; the lowest leaves a ranking that is full.
fn enter(ranking: &mut BTreeSet<Place>, score: &Score, user: &Arc<str>) {
    if score.sum.shown() > 0 {
        ranking.insert((Reverse(score.sum.shown()), score.order, user.clone()));
        if ranking.len() > MAX_RANKED {
            ranking.pop_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::tally::{Period, Points, Rules};
    use crate::domain::{MAX_SAFE, Value};

    type Of<'a> = &'a dyn Fn(&Counted) -> Sum;

    proptest! {
        /// Whatever is counted and taken back, in any order: sums, gifters and ranks are what a plain recount of
        /// what is left gives.
        #[test]
        fn totals_and_ranks_are_those_of_a_recount(
            gifts in prop::collection::vec((0..6usize, 1..4u64, prop::option::of(prop_oneof![0..5u64, Just(MAX_SAFE)]), any::<bool>()), 1..40),
            back in any::<u64>(),
        ) {
            let rules = Rules { periods: "all".parse().unwrap(), points: "EUR:2".parse().unwrap(), ..Rules::default() };
            let (mut state, mut board) = (State::default(), Board::default());
            state.settle(&rules, Millis(1));
            let id = state.of(Period::All).unwrap().id;
            let instances = state.instances().unwrap();
            let users = ["a", "b", "c", "d", "e", "f"];
            let mut run = |user: &str, counted: &Counted, back: bool, at: i64, state: &mut State| {
                if back { state.take(counted) } else { state.add(counted) }
                let order = state.order;
                let person = format!("{{\"id\":\"{user}\"}}");
                board.apply(counted, Move { user, person: &person, back, order, at: Millis(at) }, state);
            };
            let mut left: Vec<(usize, Counted)> = Vec::new();
            for (n, (user, units, amount, ranked)) in gifts.iter().enumerate() {
                let value = amount.map(|amount| Value { amount, currency: "EUR".into() });
                let counted = Counted::gift(instances.clone(), *units, value.as_ref(), &rules.points, *ranked);
                run(users[*user], &counted, false, n as i64, &mut state);
                left.push((*user, counted));
                if back >> (n % 64) & 1 == 1 {
                    let (user, counted) = left.swap_remove(back as usize % left.len());
                    run(users[user], &counted, true, n as i64, &mut state);
                }
            }
            board.rank_all();
            let all = state.of(Period::All).unwrap();
            let sum = |of: &dyn Fn(&Counted) -> Sum, only: Option<usize>| -> u64 {
                let parts = left.iter().filter(|(user, it)| only.is_none_or(|only| only == *user && it.ranked));
                parts.fold(Sum::default(), |sum, (_, it)| sum.plus(of(it))).shown()
            };
            let amount = |it: &Counted| it.value.as_ref().map_or(Sum::default(), |(amount, _)| *amount);
            let euros = Measure::Currency("EUR".into());
            let measures: [(Measure, Of<'_>); 3] =
                [(Measure::Points, &|it| it.points), (Measure::Units, &|it| it.units), (euros, &amount)];
            for (measure, of) in measures {
                prop_assert_eq!(all.sum(&measure), sum(of, None));
                let scores: Vec<u64> = board.leaders(id, &measure, 100).iter().map(|it| it.score).collect();
                let mut wanted: Vec<u64> = (0..6).map(|user| sum(of, Some(user))).filter(|score| *score > 0).collect();
                wanted.sort_by(|a, b| b.cmp(a));
                prop_assert_eq!(scores, wanted);
            }
            prop_assert_eq!(all.gifts, left.len() as u64);
            prop_assert_eq!(all.gifters, left.iter().map(|(user, _)| user).collect::<BTreeSet<_>>().len() as u64);
        }
    }

    #[test]
    fn of_equal_scores_the_first_leads_and_a_full_ranking_loses_the_lowest() {
        let (mut state, mut board) = (State::default(), Board::default());
        state.settle(&Rules { periods: "all".parse().unwrap(), ..Rules::default() }, Millis(1));
        let (id, instances) = (state.last_id, state.instances().unwrap());
        let mut give = |user: &str, units: u64, back: bool| {
            let counted = Counted::gift(instances.clone(), units, None, &Points::default(), true);
            if back {
                state.take(&counted)
            } else {
                state.add(&counted)
            }
            let (order, at) = (state.order, Millis(state.order as i64));
            board.apply(&counted, Move { user, person: "{}", back, order, at }, &mut state);
        };
        give("z", 5, false);
        give("a", 3, false);
        give("a", 2, false);
        give("m", 5, false);
        give("m", 4, false);
        give("m", 4, true);
        board.rank_all();
        let rank = |board: &Board, user| board.rank(id, &Measure::Units, user);
        assert_eq!(
            [rank(&board, "z"), rank(&board, "a"), rank(&board, "m")],
            [Some((1, 5)), Some((2, 5)), Some((3, 5))]
        );
        assert_eq!(board.leaders(id, &Measure::Units, 1).len(), 1);
        assert_eq!(rank(&board, "nobody"), None);
        for n in 0..MAX_RANKED {
            let mut give = |user: &str| {
                let counted = Counted::gift(instances.clone(), 7, None, &Points::default(), true);
                state.add(&counted);
                let (order, at) = (state.order, Millis(1));
                board.apply(&counted, Move { user, person: "{}", back: false, order, at }, &mut state);
            };
            give(&format!("user {n}"));
        }
        board.rank_all();
        assert_eq!((rank(&board, "z"), rank(&board, "m")), (None, None), "the lowest left the ranking");
        assert_eq!(state.of(Period::All).unwrap().gifters, MAX_RANKED as u64 + 3, "and not the totals");
    }
}
