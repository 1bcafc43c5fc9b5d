//! The gateway inside the test's own process, on a free port.

use std::net::TcpListener;
use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;

use tempfile::TempDir;
use tipcast::app::{self, StartError};
use tipcast::config::{self, Config, Flags};
use tokio::sync::oneshot;

use super::api::Api;
use super::stores::{Corner, in_memory};
use super::tls::{Papers, Tunnel};
use super::watcher::Watcher;

tokio::task_local! {
    /// Whether [`Backing::fresh`] is a corner of a Redis.
    static ON_REDIS: bool;
    /// Whether gateways are reached over TLS.
    static OVER_TLS: bool;
}

/// Runs a test whose gateways speak TLS; its clients reach them through tunnels.
pub async fn over_tls<T>(test: impl Future<Output = T>) -> T {
    OVER_TLS.scope(true, test).await
}

/// Runs a test with [`Backing::fresh`] being a corner of a Redis, or a folder.
pub async fn with_redis<T>(redis: bool, test: impl Future<Output = T>) -> T {
    ON_REDIS.scope(redis, test).await
}

/// Runs each test, an `async fn()`, on a folder and on Redis.
macro_rules! on_both_stores {
    ($($test:ident),+ $(,)?) => {
        mod on_a_folder {
            $(#[tokio::test] async fn $test() { $crate::support::app::with_redis(false, super::$test()).await })+
        }
        mod on_redis {
            $(#[tokio::test] async fn $test() { $crate::support::app::with_redis(true, super::$test()).await })+
        }
    };
}

/// Runs each test, an `async fn()`, on a folder, in the clear and over TLS.
macro_rules! in_the_clear_and_over_tls {
    ($($test:ident),+ $(,)?) => {
        mod in_the_clear {
            $(#[tokio::test(flavor = "multi_thread")] async fn $test() { super::$test().await })+
        }
        mod over_tls {
            $(#[tokio::test(flavor = "multi_thread")] async fn $test() {
                $crate::support::app::over_tls(super::$test()).await
            })+
        }
    };
}

/// Runs each test, an `async fn()`, on a folder and on Redis, and on a folder over TLS.
macro_rules! on_both_stores_and_over_tls {
    ($($test:ident),+ $(,)?) => {
        on_both_stores![$($test),+];
        mod over_tls {
            $(#[tokio::test] async fn $test() { $crate::support::app::over_tls(super::$test()).await })+
        }
    };
}

/// Where a gateway keeps its feeds. Clones are the same store.
#[derive(Clone)]
pub enum Backing {
    /// A folder of its own.
    Folder(Arc<TempDir>),
    /// A corner of a Redis; the address may be a proxy's.
    Redis(Corner, String),
}

impl Backing {
    /// Empty, of the kind that the test runs on.
    pub fn fresh() -> Backing {
        match ON_REDIS.try_with(|redis| *redis).unwrap_or(false) {
            true => Backing::redis(),
            false => Backing::folder(),
        }
    }

    /// A new folder.
    pub fn folder() -> Backing {
        Backing::Folder(Arc::new(in_memory()))
    }

    /// A new corner of the shared Redis.
    pub fn redis() -> Backing {
        Backing::corner(Corner::new())
    }

    /// A corner of a Redis.
    pub fn corner(corner: Corner) -> Backing {
        let url = corner.server.url();
        Backing::Redis(corner, url)
    }

    /// The command line that chooses it.
    pub fn args(&self) -> Vec<String> {
        match self {
            Backing::Folder(dir) => {
                vec!["--data-dir".into(), dir.path().display().to_string()]
            }
            Backing::Redis(_, url) => vec!["--redis".into(), url.clone()],
        }
    }

    /// The environment that goes with it.
    pub fn env(&self) -> Vec<(String, String)> {
        match self {
            Backing::Folder(_) => vec![],
            Backing::Redis(corner, _) => vec![("TIPCAST_REDIS__PREFIX".into(), corner.prefix.clone())],
        }
    }

    fn config(&self) -> Config {
        let mut flags = Flags { listen: Some("127.0.0.1:0".into()), ..Flags::default() };
        match self {
            Backing::Folder(dir) => flags.data_dir = Some(dir.path().display().to_string()),
            Backing::Redis(_, url) => flags.redis = Some(url.clone()),
        }
        let mut config = config::load(None, self.env(), flags).unwrap();
        // No load balancer looks at these.
        config.http.unready_ms = 0;
        config.check().unwrap();
        config
    }
}

/// A running gateway; stops when dropped, and panics when it could not stop in order.
pub struct TestApp {
    /// Keeps the folder until the gateway has stopped.
    _backing: Backing,
    _papers: Option<Papers>,
    tunnel: Option<Tunnel>,
    api: Api,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<Result<(), StartError>>>,
}

impl Deref for TestApp {
    type Target = Api;
    fn deref(&self) -> &Api {
        &self.api
    }
}

impl TestApp {
    /// On a fresh store.
    pub async fn start() -> TestApp {
        TestApp::on(&Backing::fresh()).await
    }

    /// On this store.
    pub async fn on(backing: &Backing) -> TestApp {
        TestApp::with(backing, |_| ()).await
    }

    /// On this store, with a changed configuration.
    pub async fn with(backing: &Backing, change: impl FnOnce(&mut Config)) -> TestApp {
        let mut config = backing.config();
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let server = listener.local_addr().unwrap();
        let papers = OVER_TLS.try_with(|tls| *tls).unwrap_or(false).then(Papers::new);
        let mut tunnel = None;
        if let Some(papers) = &papers {
            config.http.tls_cert = papers.cert().display().to_string();
            config.http.tls_key = papers.key().display().to_string();
            tunnel = Some(Tunnel::to(server, papers));
        }
        let api = Api::at(format!("http://{}", tunnel.as_ref().map_or(server, |tunnel| tunnel.address)));
        let (stop, stopped) = oneshot::channel();
        let server = std::thread::Builder::new().name("gateway".into()).spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(app::run(config, listener, async {
                let _ = stopped.await;
            }))
        });
        let app = TestApp {
            _backing: backing.clone(),
            _papers: papers,
            tunnel,
            api,
            stop: Some(stop),
            server: Some(server.unwrap()),
        };
        assert_eq!(app.get("/healthz").await.status, 200);
        app
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.api.base.clone()
    }

    /// A watcher of `feed`.
    pub async fn watch(&self, feed: &str) -> Watcher {
        Watcher::open(&self.api, feed).await
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stop(mut self) {
        let server = self.server.take().unwrap();
        drop(self.stop.take());
        tokio::task::spawn_blocking(move || server.join().expect("no panic").expect("in order"))
            .await
            .unwrap();
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        // Clients that this thread owns cannot hear a goodbye any more; the tunnel would keep them connected.
        drop(self.tunnel.take());
        drop(self.stop.take());
        let Some(server) = self.server.take() else { return };
        let ended = server.join();
        if !std::thread::panicking() {
            ended.expect("the gateway did not panic").expect("the gateway stopped in order");
        }
    }
}
