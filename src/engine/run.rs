//! Where every operation passes: it is timed and counted here, and given to the engine that is open.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::EngineError;
use super::due::Wakes;
use super::operation::{Run, Scope};
use super::store::{Store, StoreOptions};
use super::writes::Writes;
use crate::domain::{FeedId, Position};
use crate::metrics::Metrics;
use crate::metrics::labels::{self, Failure};

/// A store that is open. Clones share it.
#[derive(Clone)]
pub struct Engine {
    backend: Backend,
    /// Where operations are counted, if they are.
    metrics: Option<Arc<Metrics>>,
    writes: Arc<Writes>,
    /// Asked before and after each operation.
    #[cfg(any(test, feature = "faults"))]
    interceptor: Option<Arc<dyn test_store::Interceptor>>,
}

#[derive(Clone)]
enum Backend {
    Store(Arc<Store>),
    #[cfg(any(test, feature = "faults"))]
    Test(Arc<dyn test_store::TestStore>),
}

/// An operation that every engine can do.
pub trait Supported: Run<Store> {}

impl<O: Run<Store>> Supported for O {}

impl From<Backend> for Engine {
    fn from(backend: Backend) -> Engine {
        Engine {
            backend,
            metrics: None,
            writes: Arc::default(),
            #[cfg(any(test, feature = "faults"))]
            interceptor: None,
        }
    }
}

impl From<Arc<Store>> for Engine {
    fn from(engine: Arc<Store>) -> Engine {
        Backend::Store(engine).into()
    }
}

impl Engine {
    /// Connects to Redis. A server that is down is tried again in the background.
    pub async fn redis(options: StoreOptions) -> Result<Engine, EngineError> {
        Store::open(options).await.map(Engine::from)
    }

    /// Opens the store of this folder in the process, which runs the same scripts as a Redis.
    pub async fn embedded(options: StoreOptions, data_dir: PathBuf) -> Result<Engine, EngineError> {
        Store::open_embedded(options, data_dir).await.map(Engine::from)
    }

    /// Counts operations in `metrics` from now on.
    pub fn metered(self, metrics: Arc<Metrics>) -> Engine {
        metrics.describe(self.name());
        Engine { metrics: Some(metrics), ..self }
    }

    /// Has the store do `operation`.
    pub async fn run<O: Supported>(&self, operation: O) -> Result<O::Reply, EngineError> {
        let feed = match operation.scope() {
            Scope::Feed(feed) => Some(feed.clone()),
            Scope::Store => None,
        };
        let done = match &self.metrics {
            None => self.dispatch(operation).await,
            Some(metrics) => {
                let mut call =
                    MeteredCall { metrics, operation: O::LABEL, failure: Some(Failure::Abandoned) };
                metrics.engine_calls_in_flight.inc();
                let begun = Instant::now();
                let done = self.dispatch(operation).await;
                metrics.engine_calls[O::LABEL].observe(begun.elapsed().as_secs_f64());
                call.failure = done.as_ref().err().map(EngineError::failure);
                done.inspect(|reply| O::record(reply, feed.as_ref(), metrics))
            }
        };
        self.writes.note(O::LABEL, feed.as_ref());
        done
    }

    async fn dispatch<O: Supported>(&self, operation: O) -> Result<O::Reply, EngineError> {
        #[cfg(any(test, feature = "faults"))]
        if let Some(interceptor) = &self.interceptor {
            interceptor.before(O::LABEL).await?;
            let reply = self.backend.run(operation).await?;
            interceptor.after(O::LABEL).await?;
            return Ok(reply);
        }
        self.backend.run(operation).await
    }

    /// Another number after each operation of this engine that may have changed what the feed counts. It says nothing of
    /// other nodes' operations.
    pub fn writes(&self, feed: &FeedId) -> u64 {
        self.writes.number(feed)
    }

    /// The furthest position of the feed that this process has seen acknowledged, if it remembers one. Never waits. A
    /// newcomer must not be shown anything older.
    pub fn known(&self, feed: &FeedId) -> Option<Position> {
        match &self.backend {
            Backend::Store(engine) => engine.known(feed),
            #[cfg(any(test, feature = "faults"))]
            Backend::Test(store) => store.known(feed),
        }
    }

    /// How many feeds are best run at the same time by [`super::RunDue`]: as many as share a commit, or as few as leave
    /// room for everybody else's calls.
    pub fn due_at_once(&self) -> usize {
        match &self.backend {
            Backend::Store(engine) if engine.is_embedded() => 64,
            // Each is a script that others wait for.
            _ => 3,
        }
    }

    /// Wakes the caller for what joins any due queue before everything else there, from this moment on.
    pub fn due_wakes(&self) -> Wakes {
        match &self.backend {
            Backend::Store(engine) => engine.due_wakes(),
            #[cfg(any(test, feature = "faults"))]
            Backend::Test(store) => store.due_wakes(),
        }
    }

    /// Wakes the caller for webhooks' jobs that come before every other there, from this moment on.
    pub fn job_wakes(&self) -> Wakes {
        match &self.backend {
            Backend::Store(engine) => engine.job_wakes(),
            #[cfg(any(test, feature = "faults"))]
            Backend::Test(store) => store.job_wakes(),
        }
    }

    /// Wakes the caller for every revocation from this moment on, but for those that come while the way to the store is
    /// interrupted. `None` for a store that has to be asked.
    pub fn revocation_wakes(&self) -> Option<Wakes> {
        match &self.backend {
            Backend::Store(engine) => Some(engine.revocation_wakes()),
            #[cfg(any(test, feature = "faults"))]
            Backend::Test(_) => None,
        }
    }

    /// What an operator should change though the store works; `None` when there is nothing to say.
    pub fn warning(&self) -> Option<String> {
        match &self.backend {
            Backend::Store(engine) => engine.warning(),
            #[cfg(any(test, feature = "faults"))]
            Backend::Test(_) => None,
        }
    }

    /// How often to probe while nobody asks whether the store is ready: each probe costs it something.
    pub fn probe_every(&self) -> Duration {
        match &self.backend {
            // Calls find out by themselves that a server is gone.
            Backend::Store(engine) if !engine.is_embedded() => Duration::from_secs(10),
            _ => Duration::from_secs(1),
        }
    }

    /// Finishes what was accepted and lets the store go. Later calls are [`EngineError::Unavailable`].
    pub async fn close(&self) -> Result<(), EngineError> {
        match &self.backend {
            Backend::Store(engine) => engine.close().await,
            #[cfg(any(test, feature = "faults"))]
            Backend::Test(_) => Ok(()),
        }
    }

    /// `"embedded"` or `"redis"`.
    pub fn name(&self) -> &'static str {
        match &self.backend {
            Backend::Store(engine) if engine.is_embedded() => "embedded",
            Backend::Store(_) => "redis",
            #[cfg(any(test, feature = "faults"))]
            Backend::Test(store) => store.name(),
        }
    }
}

impl Backend {
    async fn run<O: Supported>(&self, operation: O) -> Result<O::Reply, EngineError> {
        match self {
            Backend::Store(engine) => engine.run(operation).await,
            #[cfg(any(test, feature = "faults"))]
            Backend::Test(store) => test_store::run(&**store, operation),
        }
    }
}

/// A call under way. Its caller may stop waiting at any moment, by dropping it.
struct MeteredCall<'a> {
    metrics: &'a Metrics,
    operation: labels::Operation,
    failure: Option<Failure>,
}

impl Drop for MeteredCall<'_> {
    fn drop(&mut self) {
        self.metrics.engine_calls_in_flight.dec();
        if let Some(failure) = self.failure {
            self.metrics.engine_failures[(self.operation, failure)].inc();
        }
    }
}

#[cfg(any(test, feature = "faults"))]
pub mod test_store {
    //! Stores and failures that only tests have.

    use std::any::{Any, type_name};
    use std::pin::Pin;
    use std::sync::Arc;

    use super::super::operation::Operation;
    use super::{Backend, Engine, EngineError, FeedId, Position, Wakes, labels};

    /// What an interceptor waits for.
    pub type Interception<'a> = Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send + 'a>>;

    /// Makes operations fail, wait or panic.
    pub trait Interceptor: Send + Sync {
        /// Called before the store does the operation, which does not happen after an error.
        fn before(&self, operation: labels::Operation) -> Interception<'_>;

        /// Called after the store has done it; an error takes the place of the answer.
        fn after(&self, _: labels::Operation) -> Interception<'_> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    /// A store in the memory of a test.
    pub trait TestStore: Send + Sync {
        /// Answers the operations that this store knows, with [`Asked::on`].
        fn answer(&self, asked: Asked) -> Asked;

        /// See [`Engine::name`].
        fn name(&self) -> &'static str {
            "test"
        }

        /// See [`Engine::known`].
        fn known(&self, _: &FeedId) -> Option<Position> {
            None
        }

        /// See [`Engine::due_wakes`].
        fn due_wakes(&self) -> Wakes {
            Wakes::new(Wakes::sender().subscribe())
        }

        /// See [`Engine::job_wakes`].
        fn job_wakes(&self) -> Wakes {
            Wakes::new(Wakes::sender().subscribe())
        }
    }

    /// An operation whose type is to be found out, or the answer to it.
    pub struct Asked {
        operation: Option<Box<dyn Any + Send>>,
        reply: Option<Result<Box<dyn Any + Send>, EngineError>>,
    }

    impl Asked {
        /// Answers it if it is an `O`.
        pub fn on<O: Operation>(mut self, answer: impl FnOnce(O) -> Result<O::Reply, EngineError>) -> Asked {
            match self.operation.take().map(<Box<dyn Any + Send>>::downcast::<O>) {
                Some(Ok(operation)) => {
                    self.reply = Some(answer(*operation).map(|reply| Box::new(reply) as Box<dyn Any + Send>));
                }
                Some(Err(other)) => self.operation = Some(other),
                None => {}
            }
            self
        }
    }

    pub(super) fn run<O: Operation>(store: &dyn TestStore, operation: O) -> Result<O::Reply, EngineError> {
        let asked = store.answer(Asked { operation: Some(Box::new(operation)), reply: None });
        match asked.reply.map(|reply| reply.map(<Box<dyn Any + Send>>::downcast::<O::Reply>)) {
            Some(Ok(Ok(reply))) => Ok(*reply),
            Some(Err(error)) => Err(error),
            Some(Ok(Err(_))) | None => panic!("this test's store does not know {}", type_name::<O>()),
        }
    }

    impl Engine {
        /// An embedded store on a folder that goes with the second value.
        #[cfg(test)]
        pub async fn in_temporary_folder(scheduled_max: u64) -> (Engine, tempfile::TempDir) {
            let folder = tempfile::tempdir().expect("a folder");
            let options = super::StoreOptions { scheduled_max, ..super::StoreOptions::new("") };
            let engine = Engine::embedded(options, folder.path().to_owned()).await;
            (engine.expect("a new store"), folder)
        }

        /// An engine over a test's store.
        pub fn of_test(store: Arc<dyn TestStore>) -> Engine {
            Backend::Test(store).into()
        }

        /// This engine, with `interceptor` asked around each operation.
        pub fn intercepted(self, interceptor: Arc<dyn Interceptor>) -> Engine {
            Engine { interceptor: Some(interceptor), ..self }
        }
    }
}
