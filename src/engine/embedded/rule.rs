//! How the writer does an operation: as a rule that it runs on one feed, or on all of them.

use super::EmbeddedEngine;
use super::fault::Step;
use super::feeds::Feeds;
use super::txn::FeedTxn;
use crate::domain::Millis;
use crate::engine::{EngineError, Operation, Run, Scope};

/// The clock of operations that judge nothing by time.
const NO_CLOCK: Millis = Millis(0);

/// An operation on one feed, in a transaction of that feed.
pub trait FeedRule: Operation + Sync {
    /// How many gifts it may bring.
    fn weight(&self) -> usize {
        1
    }

    /// Does it. It may run more than once, from the state in which it began: a group of calls that a damaged feed or the
    /// disk spoils is taken back and run again.
    fn apply(&self, txn: &mut FeedTxn<'_>) -> Step<Self::Reply>;
}

/// An operation that is not on one feed alone.
pub trait Rule: Operation {
    /// See [`FeedRule::weight`].
    fn task_weight(&self) -> usize {
        1
    }

    /// See [`FeedRule::apply`].
    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<Self::Reply>;
}

impl<R: FeedRule> Rule for R {
    fn task_weight(&self) -> usize {
        self.weight()
    }

    fn apply_to_all(&self, feeds: &mut Feeds) -> Step<R::Reply> {
        match self.scope() {
            Scope::Feed(feed) => feeds.on(feed, self.now().unwrap_or(NO_CLOCK), |txn| self.apply(txn)),
            Scope::Store => Err(super::fault::Fault::Disk("this operation names no feed".into())),
        }
    }
}

impl<R: Rule> Run<EmbeddedEngine> for R {
    async fn run_on(self, engine: &EmbeddedEngine) -> Result<R::Reply, EngineError> {
        let about = (self.task_weight(), self.now());
        engine.task(about, move |feeds| self.apply_to_all(feeds)).await
    }
}
