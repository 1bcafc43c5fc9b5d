//! Totals, on the [`MemoryEngine`]: it counts nothing, but how often rankings of the feed `ranked` are read.

use std::sync::atomic::Ordering;

use super::MemoryEngine;
use crate::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use crate::domain::{FeedId, GoalId, Millis};
use crate::engine::{GoalPut, TotalsStore, Wait};

fn done<'a, T: Send + 'a>(value: T) -> Wait<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl TotalsStore for MemoryEngine {
    fn totals<'a>(&'a self, _: &'a FeedId, _: bool, _: Millis) -> Wait<'a, Option<TotalsView>> {
        done(None)
    }

    fn leaders<'a>(&'a self, feed: &'a FeedId, _: LeadersAsk, _: Millis) -> Wait<'a, Option<LeadersView>> {
        Box::pin(async move {
            if feed.as_str() != "ranked" {
                return Ok(None);
            }
            // So long that all who ask meanwhile wait for it.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            let since = Millis(self.rankings.fetch_add(1, Ordering::Relaxed) as i64 + 1);
            Ok(Some(LeadersView { since, leaders: Vec::new(), user: None }))
        })
    }

    fn begin_session<'a>(&'a self, _: &'a FeedId, id: String, now: Millis) -> Wait<'a, (Session, bool)> {
        done((Session { id, since: now }, true))
    }

    fn goals<'a>(&'a self, _: &'a FeedId, _: Millis) -> Wait<'a, Vec<GoalView>> {
        done(Vec::new())
    }

    fn put_goal<'a>(&'a self, _: &'a FeedId, _: &'a GoalId, _: GoalSpec, _: Millis) -> Wait<'a, GoalPut> {
        done(GoalPut::NotCounted)
    }

    fn delete_goal<'a>(&'a self, _: &'a FeedId, _: &'a GoalId, _: Millis) -> Wait<'a, bool> {
        done(false)
    }
}
