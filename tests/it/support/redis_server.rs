//! A Redis of a test's own, that the test may freeze, kill and start again.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::stores::in_memory;

/// Which of the ACL lines.
#[derive(Clone, Copy, Debug)]
pub enum AclBlock {
    /// The first, for one server.
    Single,
    /// The second, for sentinels.
    Sentinel,
    /// The last, for a cluster.
    Cluster,
}

/// A running redis-server on a free port, in a folder of its own; ends with its owner.
pub struct RedisServer {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    /// Where nodes of its cluster talk to it, if it has [`BUS_PORT`] among its options.
    pub bus_port: u16,
    /// Where it speaks TLS, if it has [`TLS_PORT`] among its options.
    pub tls_port: u16,
    /// User and password for [`RedisServer::run`], where it wants them.
    pub login: Option<(String, String)>,
    /// What is in front of the host in URLs.
    pub user: &'static str,
    program: String,
    is_sentinel: bool,
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

    /// With these options beside the fixed ones; [`BUS_PORT`] and [`TLS_PORT`] among them become ports.
    pub fn with(options: &[&str]) -> RedisServer {
        RedisServer::program("redis-server", options)
    }

    /// [`RedisServer::with`] of another program that takes the same options.
    pub fn program(program: &str, options: &[&str]) -> RedisServer {
        let up = |server: &mut RedisServer| {
            let (bus, tls) = (server.bus_port.to_string(), server.tls_port.to_string());
            let word = |it: &&str| match *it {
                BUS_PORT => bus.clone(),
                TLS_PORT => tls.clone(),
                word => word.to_owned(),
            };
            server.options = options.iter().map(word).collect();
            program.clone_into(&mut server.program);
        };
        RedisServer::on_free_ports(up).unwrap_or_else(|| panic!("{program} did not start; is it installed?"))
    }

    /// A sentinel with these lines in its configuration.
    pub fn sentinel(lines: &str) -> RedisServer {
        let up = |server: &mut RedisServer| {
            server.is_sentinel = true;
            std::fs::write(server.dir.path().join("sentinel.conf"), lines)
                .expect("a sentinel's configuration");
        };
        RedisServer::on_free_ports(up).expect("a sentinel starts")
    }

    /// Somebody else may take a port between looking and listening: then others are tried.
    fn on_free_ports(prepare: impl Fn(&mut RedisServer)) -> Option<RedisServer> {
        (0..20).find_map(|_| {
            let mut server = RedisServer {
                port: free_port(),
                bus_port: free_port(),
                tls_port: free_port(),
                login: None,
                user: "",
                program: "redis-server".to_owned(),
                is_sentinel: false,
                dir: in_memory(),
                options: Vec::new(),
                child: None,
            };
            prepare(&mut server);
            server.try_up().then_some(server)
        })
    }

    /// Runs a command by redis-cli; what it says, errors too.
    pub fn run(&self, words: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        cli.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        if let Some((user, password)) = &self.login {
            cli.args(["--user", user, "--pass", password, "--no-auth-warning"]);
        }
        let told = cli
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli must be installed for these tests");
        String::from_utf8_lossy(&told.stdout).replace('\r', "").trim_end().to_owned()
    }

    /// Waits until this holds of it.
    pub fn wait(&self, what: &str, done: impl Fn(&RedisServer) -> bool) {
        let since = Instant::now();
        while !done(self) {
            assert!(since.elapsed() < Duration::from_secs(30), "Redis at {}: {what}, in time", self.port);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// False once it was killed.
    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// For clients.
    pub fn url(&self) -> String {
        format!("redis://{}127.0.0.1:{}/", self.user, self.port)
    }

    fn plain_url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Makes the user that docs/OPERATING.md describes, and clients use it from now on. The keys are
    /// those that tests use.
    pub fn make_user(&mut self, block: AclBlock) {
        let docs = include_str!("../../../docs/OPERATING.md");
        let mut blocks = docs.split("```").filter(|block| block.trim_start().starts_with("user tipcast on "));
        let block = match block {
            AclBlock::Single => blocks.next(),
            AclBlock::Sentinel => blocks.nth(1),
            AclBlock::Cluster => blocks.last(),
        };
        let line = block.and_then(|block| block.lines().find(|line| line.starts_with("user tipcast on ")));
        let line = line.expect("the ACL line in docs/OPERATING.md");
        let rules = line.strip_prefix("user ").unwrap().replace(">PASSWORD", ">secret");
        let rules = rules.replace("~tc:*", "~t*").replace("&tc:*", "&t*");
        let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(rules.split_whitespace()).collect();
        assert_eq!(self.run(&words), "OK", "{rules}");
        self.user = "tipcast:secret@";
    }

    /// A plain connection.
    pub fn connect(&self) -> redis::Connection {
        redis::Client::open(self.plain_url())
            .unwrap()
            .get_connection()
            .expect("a connection to the test's Redis")
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

    /// A copy of what it has on disk now.
    pub fn copy_files(&self) -> TempDir {
        let copy = in_memory();
        copy_folder(self.dir.path(), copy.path());
        copy
    }

    /// Ends it, puts a copy in the place of what it has on disk, and starts it again.
    pub fn start_again_with(&mut self, copy: &TempDir) {
        self.kill();
        self.dir = in_memory();
        copy_folder(copy.path(), self.dir.path());
        self.start_again();
    }

    fn try_up(&mut self) -> bool {
        let port = self.port.to_string();
        let mut command = Command::new(&self.program);
        if self.is_sentinel {
            command.arg(self.dir.path().join("sentinel.conf")).arg("--sentinel");
        }
        command
            .args(["--port", &port, "--bind", "127.0.0.1", "--loglevel", "warning", "--dir"])
            .arg(self.dir.path());
        if !self.is_sentinel {
            command.args(["--save", ""]).args(&self.options);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("redis-server must be installed for these tests");
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(10) {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return false;
            }
            if self.is_ready(child.id()) {
                self.child = Some(child);
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = child.kill();
        let _ = child.wait();
        false
    }

    /// True when it is this process that answers, and no other that took the port before it.
    fn is_ready(&self, process: u32) -> bool {
        let client = redis::Client::open(self.plain_url()).unwrap();
        let wait = Duration::from_secs(1);
        client.get_connection_with_timeout(wait).is_ok_and(|mut connection| {
            let _ = connection.set_read_timeout(Some(wait));
            match redis::cmd("INFO").query::<redis::InfoDict>(&mut connection) {
                Ok(info) => {
                    info.get::<u32>("process_id") == Some(process) && info.get::<u8>("loading") != Some(1)
                }
                // One that wants credentials is ready to be asked for them.
                Err(e) => e.code() == Some("NOAUTH"),
            }
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

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} was copied", from.display());
}

/// Among a server's options: a port for its cluster's bus, another one at each attempt to start it.
pub const BUS_PORT: &str = "BUS PORT";

/// The same for TLS.
pub const TLS_PORT: &str = "TLS PORT";

/// Ports below those that the system gives to clients and to listeners that name none, so that only another run of
/// these tests is after them.
const PORTS: std::ops::Range<u16> = 11_000..32_000;

/// A port that nobody has just now, and that no other test of this process gets. The server that listens there must be
/// ready to find it taken all the same.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    // Two runs at the same time begin far from each other.
    let first = (std::process::id().wrapping_mul(7919) % u32::from(count)) as u16;
    loop {
        let turn = NEXT.fetch_add(1, Ordering::Relaxed) % count;
        let port = PORTS.start + (u32::from(first) + u32::from(turn)).rem_euclid(u32::from(count)) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
