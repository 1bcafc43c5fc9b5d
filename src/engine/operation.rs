//! One type for each thing that can be asked of a store. The file of a feature (`viewers`, `drops`, …) has the types and
//! their replies, and its documentation is what every store must do; `store` does it in a file of the same name.

use super::EngineError;
use crate::domain::{FeedId, Millis};
use crate::metrics::Metrics;
use crate::metrics::labels;

/// A request to a store, with everything that it needs.
pub trait Operation: Send + 'static {
    /// What the store answers.
    type Reply: Send + 'static;

    /// The name under which calls are counted and timed.
    const LABEL: labels::Operation;

    /// Which part of the store it needs.
    fn scope(&self) -> Scope<'_>;

    /// The caller's clock, if the operation judges anything by time.
    fn now(&self) -> Option<Millis> {
        None
    }

    /// Counts what came of it. `feed` is the one of [`Operation::scope`].
    fn record(_reply: &Self::Reply, _feed: Option<&FeedId>, _metrics: &Metrics) {}
}

/// Which part of a store an operation needs: a shard that is away fails the operations on its feeds and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// The shard of this feed.
    Feed(&'a FeedId),
    /// Something that belongs to no feed alone.
    Store,
}

/// An operation that the engine `E` can do.
pub trait Run<E>: Operation {
    /// Does it.
    fn run_on(self, engine: &E) -> impl Future<Output = Result<Self::Reply, EngineError>> + Send;
}

/// Makes a type an operation. Names its reply, its label, the place of its feed in it (or `store`), the place of its clock
/// if it has one, and the function that counts its replies.
macro_rules! operation {
    ($operation:ident -> $reply:ty, $label:ident, store $(, now: $($now:ident).+)? $(, record: $record:path)?) => {
        impl $crate::engine::Operation for $operation {
            type Reply = $reply;
            const LABEL: $crate::metrics::labels::Operation = $crate::metrics::labels::Operation::$label;

            fn scope(&self) -> $crate::engine::Scope<'_> {
                $crate::engine::Scope::Store
            }
            $(fn now(&self) -> Option<$crate::domain::Millis> {
                Some(self.$($now).+)
            })?
            $(fn record(reply: &$reply, _: Option<&$crate::domain::FeedId>, metrics: &$crate::metrics::Metrics) {
                $record(reply, metrics);
            })?
        }
    };
    ($operation:ident -> $reply:ty, $label:ident, feed: $($feed:ident).+ $(, now: $($now:ident).+)? $(, record: $record:path)?) => {
        impl $crate::engine::Operation for $operation {
            type Reply = $reply;
            const LABEL: $crate::metrics::labels::Operation = $crate::metrics::labels::Operation::$label;

            fn scope(&self) -> $crate::engine::Scope<'_> {
                $crate::engine::Scope::Feed(&self.$($feed).+)
            }
            $(fn now(&self) -> Option<$crate::domain::Millis> {
                Some(self.$($now).+)
            })?
            $(fn record(reply: &$reply, feed: Option<&$crate::domain::FeedId>, metrics: &$crate::metrics::Metrics) {
                if let Some(feed) = feed {
                    $record(reply, feed, metrics);
                }
            })?
        }
    };
}

pub(super) use operation;
