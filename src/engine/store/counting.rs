//! Which feeds count something, and what may be asked of what they count.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::domain::tally::{GoalSpec, LeadersAsk};
use crate::domain::{FeedId, GoalId, Millis};

/// Feeds that are known to count something; all are forgotten when there are more, and learned again.
const FEEDS: usize = 65_536;

/// Which feeds count something. A hint: scripts know, and say so.
pub(super) struct Totals {
    /// True when the server's default policy counts something.
    all: bool,
    known: Mutex<HashSet<FeedId>>,
}

impl Totals {
    /// `all`: the server's default policy counts something.
    pub fn new(all: bool) -> Totals {
        Totals { all, known: Mutex::default() }
    }

    /// True when this feed is known to count something.
    pub fn counts(&self, feed: &FeedId) -> bool {
        self.all || self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(feed)
    }

    /// Takes in whether a feed counts something.
    pub fn learn(&self, feed: &FeedId, counts: bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !counts {
            known.remove(feed);
        } else if !known.contains(feed) {
            if known.len() >= FEEDS {
                known.clear();
            }
            known.insert(feed.clone());
        }
    }
}

/// What the script is asked to do, once it has added up what came.
pub(super) enum Action {
    /// Nothing more.
    Tick,
    /// Read totals; those of the runs that ended last.
    Totals(bool),
    /// Read a ranking.
    Leaders(LeadersAsk),
    /// Begin a session.
    Session(String),
    /// Read goals.
    Goals,
    /// Define a goal.
    Goal(GoalId, GoalSpec),
    /// Delete a goal.
    Ungoal(GoalId),
}

/// What it answered.
pub(super) struct Tallied {
    /// The store's clock.
    pub now: Millis,
    /// When the feed's due queue has something next.
    pub next: Option<Millis>,
    /// What the action answers.
    pub texts: Vec<String>,
}
