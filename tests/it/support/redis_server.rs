//! A Redis of a test's own, that the test may freeze, kill and start again.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::stores::in_memory;

/// A running redis-server on a free port, in a folder of its own; ends with its owner.
pub struct RedisServer {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    dir: TempDir,
    options: Vec<String>,
    child: Option<Child>,
}

impl RedisServer {
    /// Keeps nothing on disk.
    pub fn start() -> RedisServer {
        RedisServer::with(&["--appendonly", "no"])
    }

    /// Keeps every write on disk before it answers, so that a restart loses nothing.
    pub fn durable() -> RedisServer {
        RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// A replica of `primary`.
    pub fn replica_of(primary: &RedisServer) -> RedisServer {
        let port = primary.port.to_string();
        RedisServer::with(&["--appendonly", "no", "--replicaof", "127.0.0.1", &port])
    }

    /// With these options beside the fixed ones.
    pub fn with(options: &[&str]) -> RedisServer {
        let mut options: Vec<String> = options.iter().map(|o| o.to_string()).collect();
        // Somebody else may take the free port first: then another one.
        for _ in 0..20 {
            let port = free_port();
            let dir = in_memory();
            let mut server = RedisServer { port, dir, options, child: None };
            if server.try_up() {
                return server;
            }
            options = std::mem::take(&mut server.options);
        }
        panic!("redis-server did not start; is it installed?");
    }

    /// For clients.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// A plain connection.
    pub fn connect(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().expect("a connection to the test's Redis")
    }

    /// Stops it as SIGSTOP does: it takes connections and answers nothing.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Ends it at once, as kill -9 does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again on the same port, with what it has on disk.
    pub fn start_again(&mut self) {
        self.kill();
        let since = Instant::now();
        while !self.try_up() {
            assert!(since.elapsed() < Duration::from_secs(10), "redis-server did not start again");
        }
    }

    fn try_up(&mut self) -> bool {
        let port = self.port.to_string();
        let child = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--loglevel", "warning", "--dir"])
            .arg(self.dir.path())
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.expect("redis-server must be installed for these tests");
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(10) {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            if self.is_ready() {
                self.child = Some(child);
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    fn is_ready(&self) -> bool {
        let client = redis::Client::open(self.url()).unwrap();
        let wait = Duration::from_millis(200);
        client.get_connection_with_timeout(wait).is_ok_and(|mut connection| {
            let _ = connection.set_read_timeout(Some(wait));
            redis::cmd("PING").query::<String>(&mut connection).is_ok_and(|pong| pong == "PONG")
        })
    }

    fn signal(&self, name: &str) {
        let Some(child) = &self.child else { return };
        let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} was sent");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}
