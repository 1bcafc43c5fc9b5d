//! The oracle counts nothing: what is counted is compared with a recount of the ledger instead (`tests/it/totals`).

use tipcast::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use tipcast::domain::{FeedId, GoalId, Millis};
use tipcast::engine::{GoalPut, TotalsStore, Wait};

use super::{Model, done};

impl TotalsStore for Model {
    fn totals<'a>(&'a self, _: &'a FeedId, _: bool, _: Millis) -> Wait<'a, Option<TotalsView>> {
        done(None)
    }

    fn leaders<'a>(&'a self, _: &'a FeedId, _: LeadersAsk, _: Millis) -> Wait<'a, Option<LeadersView>> {
        done(None)
    }

    fn begin_session<'a>(&'a self, _: &'a FeedId, id: String, now: Millis) -> Wait<'a, (Session, bool)> {
        done((Session { id, since: now }, true))
    }

    fn goals<'a>(&'a self, _: &'a FeedId, _: Millis) -> Wait<'a, Vec<GoalView>> {
        done(vec![])
    }

    fn put_goal<'a>(&'a self, _: &'a FeedId, _: &'a GoalId, _: GoalSpec, _: Millis) -> Wait<'a, GoalPut> {
        done(GoalPut::NotCounted)
    }

    fn delete_goal<'a>(&'a self, _: &'a FeedId, _: &'a GoalId, _: Millis) -> Wait<'a, bool> {
        done(false)
    }
}
