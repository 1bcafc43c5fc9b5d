//! Publishing calls on one feed share trips: what arrives while a script runs goes into the next run,
//! in order. One run with 16 gifts costs Redis about as much as five with one, so a busy feed is
//! several times as fast, and a quiet one waits for nobody.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::super::EngineError;
use crate::domain::{FeedId, Gift, Millis, Outcome};

/// Runs under way for one feed: while one is on its way back, Redis works on another.
const RUNS: usize = 2;

/// Gifts in one run, as long as single calls bring no more.
const GIFTS: usize = 128;

/// One call's gifts, which stay together.
pub(super) struct Party {
    pub gifts: Vec<Gift>,
    /// The time to run at; parties of one run agree on it. None for the store's clock.
    pub now: Option<Millis>,
    pub reply: oneshot::Sender<Result<Vec<Outcome>, EngineError>>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Lineup {
    feeds: Mutex<HashMap<FeedId, Line>>,
}

#[derive(Default)]
struct Line {
    running: usize,
    waiting: VecDeque<Party>,
}

impl Line {
    /// Who goes next: from the front, no more than fits.
    fn board(&mut self) -> Vec<Party> {
        let mut group: Vec<Party> = Vec::new();
        let mut gifts = 0;
        while let Some(party) = self.waiting.front() {
            let fits = gifts + party.gifts.len() <= GIFTS && group.first().is_none_or(|p| p.now == party.now);
            if !group.is_empty() && !fits {
                break;
            }
            gifts += party.gifts.len();
            group.extend(self.waiting.pop_front());
        }
        group
    }
}

impl Lineup {
    fn locked(&self) -> MutexGuard<'_, HashMap<FeedId, Line>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines up. When a run is to be started now, who is in it; whoever gets it must call
    /// [`Lineup::next`] after it.
    pub(super) fn join(&self, feed: &FeedId, party: Party) -> Option<Vec<Party>> {
        let mut feeds = self.locked();
        let line = feeds.entry(feed.clone()).or_default();
        line.waiting.push_back(party);
        if line.running >= RUNS {
            return None;
        }
        line.running += 1;
        Some(line.board())
    }

    /// After a run: who is in the next one. When the run failed, whoever waits fails with it: the store
    /// would keep them waiting as long again.
    pub(super) fn next(&self, feed: &FeedId, failed: Option<&EngineError>) -> Option<Vec<Party>> {
        let mut feeds = self.locked();
        let line = feeds.get_mut(feed)?;
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
            feeds.remove(feed);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(gifts: usize, now: Option<i64>) -> Party {
        let body = r#"{"user":{"id":"u","name":"u"},"gift":{"id":"g","name":"g"}}"#;
        let raw = crate::domain::json::syntax(body.as_bytes()).unwrap();
        let gift = Gift::parse(raw, None).unwrap();
        Party { gifts: vec![gift; gifts], now: now.map(Millis), reply: oneshot::channel().0 }
    }

    fn sizes(group: Option<Vec<Party>>) -> Vec<usize> {
        group.unwrap_or_default().iter().map(|party| party.gifts.len()).collect()
    }

    #[test]
    fn what_waits_goes_together_in_order_as_far_as_it_fits() {
        let (lineup, feed): (Lineup, FeedId) = (Lineup::default(), "f".parse().unwrap());
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
        let (lineup, feed): (Lineup, FeedId) = (Lineup::default(), "f".parse().unwrap());
        lineup.join(&feed, party(1, None));
        lineup.join(&feed, party(1, None));
        let (reply, mut answer) = oneshot::channel();
        lineup.join(&feed, Party { reply, ..party(1, None) });
        let error = EngineError::Unavailable("gone".into());
        assert!(lineup.next(&feed, Some(&error)).is_none());
        assert_eq!(answer.try_recv(), Ok(Err(error)));
    }
}
