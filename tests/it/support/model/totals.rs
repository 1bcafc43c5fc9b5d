//! The oracle counts nothing: what is counted is compared with a recount of the ledger instead (`tests/it/totals`).

use tipcast::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use tipcast::domain::{FeedId, GoalId, Millis};
use tipcast::engine::GoalPut;

use super::Model;

impl Model {
    pub(crate) fn totals(&self, _: &FeedId, _: bool, _: Millis) -> Option<TotalsView> {
        None
    }

    pub(crate) fn leaders(&self, _: &FeedId, _: LeadersAsk, _: Millis) -> Option<LeadersView> {
        None
    }

    pub(crate) fn begin_session(&self, _: &FeedId, id: String, now: Millis) -> (Session, bool) {
        (Session { id, since: now }, true)
    }

    pub(crate) fn goals(&self, _: &FeedId, _: Millis) -> Vec<GoalView> {
        vec![]
    }

    pub(crate) fn put_goal(&self, _: &FeedId, _: &GoalId, _: GoalSpec, _: Millis) -> GoalPut {
        GoalPut::NotCounted
    }

    pub(crate) fn delete_goal(&self, _: &FeedId, _: &GoalId, _: Millis) -> bool {
        false
    }
}
