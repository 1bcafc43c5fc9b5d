//! Calls about one thing share trips – gifts of one feed, claims of one drop: what arrives while a script
//! runs goes into the next run, in order. One run with 16 gifts costs Redis about as much as five with one,
//! so a busy feed is several times as fast, and a quiet one waits for nobody.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::super::EngineError;
use crate::domain::Millis;

/// Runs under way for one key: while one is on its way back, Redis works on another.
const RUNS: usize = 2;

/// Items in one run, as long as single calls bring no more.
const ITEMS: usize = 128;

/// Where a party's answers go.
type Reply<A> = oneshot::Sender<Result<Vec<A>, EngineError>>;

/// One call's items, which stay together, and for each an answer.
pub(super) struct Party<T, A> {
    pub items: Vec<T>,
    /// The time to run at; parties of one run agree on it. None for the store's clock.
    pub now: Option<Millis>,
    pub reply: Reply<A>,
}

/// Parties that go together.
pub(super) struct Run<T, A> {
    /// What they bring, in order.
    pub items: Vec<T>,
    /// Their time.
    pub now: Option<Millis>,
    replies: Vec<(usize, Reply<A>)>,
}

impl<T, A> Run<T, A> {
    pub(super) fn of(group: Vec<Party<T, A>>) -> Run<T, A> {
        let now = group.first().and_then(|party| party.now);
        let mut run = Run { items: Vec::new(), now, replies: Vec::with_capacity(group.len()) };
        for party in group {
            run.replies.push((party.items.len(), party.reply));
            run.items.extend(party.items);
        }
        run
    }

    /// Gives everybody their answers, one for each item; or the failure, which is given back.
    pub(super) fn answer(self, result: Result<Vec<A>, EngineError>) -> Option<EngineError> {
        let failed = result.as_ref().err().cloned();
        let mut answers = result.unwrap_or_default().into_iter();
        for (count, reply) in self.replies {
            let own = match &failed {
                None => Ok(answers.by_ref().take(count).collect()),
                Some(error) => Err(error.clone()),
            };
            // Nobody waiting for it any more is no failure.
            let _ = reply.send(own);
        }
        failed
    }
}

/// See the module; a line for each key.
pub(super) struct Lineup<K, T, A> {
    lines: Mutex<HashMap<K, Line<T, A>>>,
}

impl<K, T, A> Default for Lineup<K, T, A> {
    fn default() -> Self {
        Lineup { lines: Mutex::default() }
    }
}

struct Line<T, A> {
    running: usize,
    waiting: VecDeque<Party<T, A>>,
}

impl<T, A> Default for Line<T, A> {
    fn default() -> Self {
        Line { running: 0, waiting: VecDeque::new() }
    }
}

impl<T, A> Line<T, A> {
    /// Who goes next: from the front, no more than fits.
    fn board(&mut self) -> Vec<Party<T, A>> {
        let mut group: Vec<Party<T, A>> = Vec::new();
        let mut items = 0;
        while let Some(party) = self.waiting.front() {
            let fits = items + party.items.len() <= ITEMS && group.first().is_none_or(|p| p.now == party.now);
            if !group.is_empty() && !fits {
                break;
            }
            items += party.items.len();
            group.extend(self.waiting.pop_front());
        }
        group
    }
}

impl<K: Clone + Eq + Hash, T, A> Lineup<K, T, A> {
    fn locked(&self) -> MutexGuard<'_, HashMap<K, Line<T, A>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines up. When a run is to be started now, who is in it; whoever gets it must call
    /// [`Lineup::next`] after it.
    pub(super) fn join(&self, key: &K, party: Party<T, A>) -> Option<Vec<Party<T, A>>> {
        let mut lines = self.locked();
        let line = lines.entry(key.clone()).or_default();
        line.waiting.push_back(party);
        if line.running >= RUNS {
            return None;
        }
        line.running += 1;
        Some(line.board())
    }

    /// After a run: who is in the next one. When the run failed, whoever waits fails with it: the store
    /// would keep them waiting as long again.
    pub(super) fn next(&self, key: &K, failed: Option<&EngineError>) -> Option<Vec<Party<T, A>>> {
        let mut lines = self.locked();
        let line = lines.get_mut(key)?;
        if let Some(error) = failed {
            for party in line.waiting.drain(..) {
                let _ = party.reply.send(Err(error.clone()));
            }
        }
        if !line.waiting.is_empty() {
            return Some(line.board());
        }
        line.running -= 1;
        if line.running == 0 {
            lines.remove(key);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::FeedId;

    type Gifts = Lineup<FeedId, u8, ()>;

    fn party(items: usize, now: Option<i64>) -> Party<u8, ()> {
        Party { items: vec![0; items], now: now.map(Millis), reply: oneshot::channel().0 }
    }

    fn sizes(group: Option<Vec<Party<u8, ()>>>) -> Vec<usize> {
        group.unwrap_or_default().iter().map(|party| party.items.len()).collect()
    }

    #[test]
    fn what_waits_goes_together_in_order_as_far_as_it_fits() {
        let (lineup, feed): (Gifts, FeedId) = (Gifts::default(), "f".parse().unwrap());
        assert_eq!(sizes(lineup.join(&feed, party(1, None))), [1]);
        assert_eq!(sizes(lineup.join(&feed, party(2, None))), [2]);
        for gifts in [3, 100, 30, 128, 200, 4] {
            assert!(lineup.join(&feed, party(gifts, None)).is_none());
        }
        assert!(lineup.join(&feed, party(5, Some(7))).is_none());
        let mut runs = vec![];
        while let Some(group) = lineup.next(&feed, None) {
            runs.push(sizes(Some(group)));
        }
        assert_eq!(runs, [vec![3, 100], vec![30], vec![128], vec![200], vec![4], vec![5]]);
        assert!(lineup.next(&feed, None).is_none() && lineup.locked().is_empty());
    }

    #[test]
    fn whoever_waits_for_a_run_that_fails_fails_with_it() {
        let (lineup, feed): (Gifts, FeedId) = (Gifts::default(), "f".parse().unwrap());
        lineup.join(&feed, party(1, None));
        lineup.join(&feed, party(1, None));
        let (reply, mut answer) = oneshot::channel();
        lineup.join(&feed, Party { reply, ..party(1, None) });
        let error = EngineError::Unavailable("gone".into());
        assert!(lineup.next(&feed, Some(&error)).is_none());
        assert_eq!(answer.try_recv(), Ok(Err(error)));
    }
}
