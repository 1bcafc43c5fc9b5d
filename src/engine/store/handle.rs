//! The handle of a store. Each operation is a method, in its subject's folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::domain::{FeedId, Position};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::options::StoreOptions;
use crate::engine::store::parts::StoreParts;
use crate::engine::{Shards, StoreError, StoreResult, Wakes};
use crate::metrics::Metrics;
use crate::metrics::labels::{Failure, Operation};

/// Feeds in Redis or in this process. Clones share it.
#[derive(Clone)]
pub struct Store {
    pub(super) parts: Arc<StoreParts>,
    /// Asked before and after each operation.
    #[cfg(any(test, feature = "faults"))]
    interceptor: Option<Arc<dyn test_store::Interceptor>>,
}

impl From<Arc<StoreParts>> for Store {
    fn from(parts: Arc<StoreParts>) -> Store {
        let store = Store {
            parts,
            #[cfg(any(test, feature = "faults"))]
            interceptor: None,
        };
        store.metrics().describe(store.name());
        store
    }
}

impl Store {
    /// Connects to Redis. A Redis that is down, or that refuses for now, is tried again in the background;
    /// a bad URL and a server that will never do are [`StoreError::Open`].
    pub async fn redis(options: StoreOptions) -> Result<Store, StoreError> {
        StoreParts::connect(options).await.map(Store::from)
    }

    /// Opens the store of this folder in the process, which runs the same scripts as a Redis. The members of `options` about
    /// servers and connections are not used.
    pub async fn embedded(options: StoreOptions, data_dir: PathBuf) -> Result<Store, StoreError> {
        StoreParts::open_embedded(options, data_dir).await.map(Store::from)
    }

    /// `"embedded"` or `"redis"`.
    pub fn name(&self) -> &'static str {
        if self.parts.is_embedded() { "embedded" } else { "redis" }
    }

    /// Checks options without asking a server: the URL, the files and the prefix. The error says what is wrong, without
    /// repeating a password.
    pub fn check(options: &StoreOptions) -> Result<(), String> {
        StoreParts::check(options)
    }

    /// Does `operation`, within the bounds on calls that are under way: times it, counts it, and notes that it may have changed
    /// `feed`. A shard that is away fails the operations on its feeds and no others.
    pub(super) async fn measured<T>(
        &self,
        operation: Operation,
        feed: Option<&FeedId>,
        call: impl Future<Output = Result<T, Fault>>,
    ) -> StoreResult<T> {
        let metrics = self.metrics();
        let mut count = CallCount { metrics, operation, failure: Some(Failure::Abandoned) };
        metrics.engine_calls_in_flight.inc();
        let begun = Instant::now();
        let done = async {
            #[cfg(any(test, feature = "faults"))]
            if let Some(interceptor) = &self.interceptor {
                interceptor.before(operation).await?;
            }
            let _permit = self.parts.permit(feed)?;
            let reply = call.await?;
            #[cfg(any(test, feature = "faults"))]
            if let Some(interceptor) = &self.interceptor {
                interceptor.after(operation).await?;
            }
            Ok(reply)
        };
        let done = done.await;
        metrics.engine_calls[operation].observe(begun.elapsed().as_secs_f64());
        count.failure = done.as_ref().err().map(StoreError::failure);
        self.parts.writes.note(operation, feed);
        if let (Ok(_), Some(feed)) = (&done, feed) {
            self.parts.names.note(operation, feed);
        }
        done
    }

    /// Sends a mark through the publishing path of every part of the store that can fail by itself, and waits until they
    /// are back. An error when the operator would not call that ready: no part answers, or not all of them and all are
    /// wanted.
    pub async fn probe_store(&self) -> StoreResult<Shards> {
        self.measured(Operation::Probe, None, self.parts.probe()).await
    }

    /// [`Store::probe_store`] for the part in which this feed lives.
    pub async fn probe_feed(&self, feed: &FeedId) -> StoreResult<()> {
        self.measured(Operation::Probe, None, self.parts.probe_feed(feed)).await
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.parts.runner.options.metrics
    }

    /// A number that changes after each operation of this process that may have changed what the feed counts. Operations of
    /// other nodes do not change it.
    pub fn writes(&self, feed: &FeedId) -> u64 {
        self.parts.writes.number(feed)
    }

    /// The furthest position of the feed that this process has seen acknowledged, if it remembers one. Never waits. A
    /// newcomer must not be shown anything older.
    pub fn known(&self, feed: &FeedId) -> Option<Position> {
        Some(self.parts.runner.known.get(feed)?.at)
    }

    /// How many feeds are best run at the same time by [`Store::run_due`]: as many as share a commit, or as few as leave
    /// room for everybody else's calls.
    pub fn due_at_once(&self) -> usize {
        // In Redis each is a script that others wait for.
        if self.parts.is_embedded() { 64 } else { 3 }
    }

    /// Wakes the caller for what joins any due queue before everything else there, from this moment on.
    pub fn due_wakes(&self) -> Wakes {
        Wakes::new(self.parts.wakes.due.subscribe())
    }

    /// Wakes the caller for webhooks' jobs that come before every other there, from this moment on.
    pub fn job_wakes(&self) -> Wakes {
        Wakes::new(self.parts.wakes.jobs.subscribe())
    }

    /// Wakes the caller for every revocation from this moment on, but for those that come while the way to the store is
    /// interrupted.
    pub fn revocation_wakes(&self) -> Wakes {
        Wakes::new(self.parts.wakes.revocations.subscribe())
    }

    /// What an operator should change though the store works; `None` when there is nothing to say.
    pub fn warning(&self) -> Option<String> {
        self.parts.warning()
    }

    /// How often to probe while `/readyz` is not asked. Each probe costs the store something.
    pub fn probe_every(&self) -> Duration {
        // Calls find out by themselves that a server is gone.
        Duration::from_secs(if self.parts.is_embedded() { 1 } else { 10 })
    }

    /// Finishes what was accepted and lets the store go. Later calls are [`StoreError::Unavailable`].
    pub async fn close(&self) {
        self.parts.close().await;
    }
}

/// Counts a call. Its caller may stop waiting at any moment, by dropping it.
struct CallCount<'a> {
    metrics: &'a Metrics,
    operation: Operation,
    failure: Option<Failure>,
}

impl Drop for CallCount<'_> {
    fn drop(&mut self) {
        self.metrics.engine_calls_in_flight.dec();
        if let Some(failure) = self.failure {
            self.metrics.engine_failures[(self.operation, failure)].inc();
        }
    }
}

#[cfg(any(test, feature = "faults"))]
pub mod test_store {
    //! Failures that only tests have.

    use std::pin::Pin;
    use std::sync::Arc;

    use super::{Operation, Store, StoreError};

    /// What an interceptor waits for.
    pub type Interception<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

    /// Makes operations fail, wait or panic.
    pub trait Interceptor: Send + Sync {
        /// Called before the store does the operation, which does not happen after an error.
        fn before(&self, operation: Operation) -> Interception<'_>;

        /// Called after the store has done it; an error takes the place of the answer.
        fn after(&self, _: Operation) -> Interception<'_> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    impl Store {
        /// An embedded store on a folder that goes with the second value.
        #[cfg(test)]
        pub async fn in_temporary_folder(scheduled_max: u64) -> (Store, tempfile::TempDir) {
            let folder = tempfile::tempdir().expect("a folder");
            let options = super::StoreOptions { scheduled_max, ..super::StoreOptions::new("") };
            let store = Store::embedded(options, folder.path().to_owned()).await;
            (store.expect("a new store"), folder)
        }

        /// This store, with `interceptor` asked around each operation.
        pub fn intercepted(self, interceptor: Arc<dyn Interceptor>) -> Store {
            Store { interceptor: Some(interceptor), ..self }
        }
    }
}
