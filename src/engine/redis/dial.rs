//! ConnectionConfig connections: addresses, TLS, credentials, time-outs, and what a server must be before it is used.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisResult, Value};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::eviction::Eviction;
use super::tls;
use super::witness::{Cause, Witnessed};
use crate::engine::protocol::address::{Endpoint, ServerKind, Target};
use crate::engine::protocol::faults::{Fault, explain, failed, replica, silent};
use crate::engine::protocol::options::StoreOptions;

/// The oldest server with what the scripts need.
const OLDEST_SERVER: (u32, u32) = (7, 0);

/// How to reach the servers.
#[derive(Clone)]
pub struct Dial {
    pub target: Target,
    settings: RedisConnectionInfo,
    sentinel_settings: RedisConnectionInfo,
    tls: Option<tokio_rustls::TlsConnector>,
    /// Where an announced address can be reached from here.
    reachable: Arc<HashMap<String, Endpoint>>,
    /// For each of connecting and shaking hands.
    connect_timeout: Duration,
}

/// Digits of an epoch that name the server's process.
const LIFE_LENGTH: usize = 5;

/// How much later than a server says it may have been started: it says whole seconds, and the clocks of a primary and its
/// replicas differ a little.
const MARGIN_MS: u64 = 2_000;

/// Which process a connection leads to: another one each time a server is started.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerId {
    /// `None` where the server does not say.
    name: Option<u64>,
    /// When it was running for certain, by its own clock, in milliseconds since 1970. `None` where the server does not say.
    running_by: Option<u64>,
}

impl ServerId {
    /// Read from what INFO says of the server.
    pub fn of(info: &redis::InfoDict) -> ServerId {
        let name = info.get::<String>("run_id");
        let now = info.get::<u64>("server_time_usec").map(|now| now / 1_000_000);
        let began = now.zip(info.get::<u64>("uptime_in_seconds")).and_then(|(now, up)| now.checked_sub(up));
        ServerId {
            name: name.and_then(|name| u64::from_str_radix(name.get(..16)?, 16).ok()),
            running_by: began.map(|began| began * 1_000 + MARGIN_MS),
        }
    }

    /// A word for it, another one each time a server is started; "-" if it is unknown.
    pub fn word(self) -> String {
        self.name.map_or_else(|| "-".to_owned(), |name| format!("{name:x}"))
    }

    /// What a candidate epoch ends with ([`crate::engine::protocol::known`]): five digits of base 36 for this process, and after a
    /// blank a time by which it was running, in milliseconds since 1970. The digits are 00000 where the server has no name.
    pub fn life(self) -> String {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let mut n = self.name.unwrap_or(0);
        let mut life = String::with_capacity(LIFE_LENGTH + 14);
        for _ in 0..LIFE_LENGTH {
            life.push(char::from(DIGITS[(n % 36) as usize]));
            n /= 36;
        }
        if let Some(running_by) = self.running_by {
            life.push(' ');
            life.push_str(&running_by.to_string());
        }
        life
    }

    /// True when both are known, and one process.
    pub fn is(self, other: ServerId) -> bool {
        self.name.is_some() && self.name == other.name
    }
}

/// Why there is no connection.
pub enum DialError {
    /// Trying again may help.
    NotNow(Fault),
    /// The server will never do; says why.
    Never(String),
}

impl From<Fault> for DialError {
    fn from(fault: Fault) -> Self {
        DialError::NotNow(fault)
    }
}

/// A connection for commands, and the work that moves its bytes: to be spawned, and ended to break the
/// connection for all its users at once.
pub struct Dialled<D> {
    pub connection: MultiplexedConnection,
    pub driver: D,
    /// Why the connection ended, once it has.
    pub cause: Cause,
}

impl Dial {
    /// Reads the options; says what is wrong with them, without repeating a password.
    pub fn new(options: &StoreOptions) -> Result<Dial, String> {
        let target = Target::read(&options.url)?;
        let settings = |user: &Option<String>, password: &Option<String>, database| {
            let mut settings = RedisConnectionInfo::default().set_db(database).set_skip_set_lib_name();
            if let Some(user) = user {
                settings = settings.set_username(user);
            }
            match password {
                Some(password) => settings.set_password(password),
                None => settings,
            }
        };
        let tls = target.tls.then(|| tls::client_config(options)).transpose()?;
        let mut reachable = HashMap::new();
        for pair in &options.addresses {
            let read = pair.split_once('=').and_then(|(announced, reachable)| {
                Some((announced.trim().to_owned(), Endpoint::read(reachable.trim())?))
            });
            let (announced, to) = read.ok_or_else(|| {
                format!("[redis] addresses: {pair:?} is not announced=reachable, each host:port")
            })?;
            reachable.insert(announced, to);
        }
        Ok(Dial {
            settings: settings(&target.username, &target.password, target.database),
            sentinel_settings: settings(&options.sentinel_username, &options.sentinel_password, 0),
            target,
            tls: tls.map(Into::into),
            reachable: Arc::new(reachable),
            connect_timeout: options.connect_timeout,
        })
    }

    /// A connection to a data node that commands of any number of callers share.
    pub async fn commands(
        &self,
        to: &Endpoint,
    ) -> Result<Dialled<impl Future<Output = ()> + Send + 'static>, Fault> {
        self.multiplexed(to, &self.settings).await
    }

    /// One to a sentinel.
    pub async fn sentinel(
        &self,
        to: &Endpoint,
    ) -> Result<Dialled<impl Future<Output = ()> + Send + 'static>, Fault> {
        self.multiplexed(to, &self.sentinel_settings).await
    }

    async fn multiplexed(
        &self,
        to: &Endpoint,
        settings: &RedisConnectionInfo,
    ) -> Result<Dialled<impl Future<Output = ()> + Send + 'static>, Fault> {
        // The crate's own time-out is off: every call here has one around all of its work.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(1024);
        let (stream, cause) = Witnessed::new(self.stream(to).await?, self.tls.is_some());
        let config = MultiplexedConnection::new_with_config(settings, stream, config);
        match timeout(self.connect_timeout, config).await {
            Ok(Ok((connection, driver))) => Ok(Dialled { connection, driver, cause }),
            Ok(Err(e)) => Err(cause.explain(to, explain(to, &e))),
            Err(_) => Err(Fault::leave(silent(to))),
        }
    }

    /// A stream to a data node, and the commands by which it begins.
    pub async fn raw(&self, to: &Endpoint) -> Result<(Box<dyn Stream>, Vec<redis::Cmd>), Fault> {
        let stream = self.stream(to).await?;
        let mut hello = Vec::new();
        if let Some(password) = self.settings.password() {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = self.settings.username() {
                auth.arg(user);
            }
            auth.arg(password);
            hello.push(auth);
        }
        Ok((stream, hello))
    }

    async fn stream(&self, to: &Endpoint) -> Result<Box<dyn Stream>, Fault> {
        let to_reach = self.reachable.get(&to.to_string()).unwrap_or(to);
        let connect = async {
            match to_reach {
                // The name is looked up anew each time: after a failover it may lead elsewhere.
                Endpoint::Tcp(host, port) => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    stream.set_nodelay(true)?;
                    Ok(Box::new(stream) as Box<dyn Stream>)
                }
                #[cfg(unix)]
                Endpoint::Unix(path) => {
                    Ok(Box::new(tokio::net::UnixStream::connect(path).await?) as Box<dyn Stream>)
                }
                #[cfg(not(unix))]
                Endpoint::Unix(_) => Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
            }
        };
        let stream = match timeout(self.connect_timeout, connect).await {
            Ok(made) => made.map_err(|e: std::io::Error| failed(to, &e.to_string()))?,
            Err(_) => return Err(Fault::leave(silent(to))),
        };
        let Some(tls) = self.tls.as_ref().filter(|_| matches!(to_reach, Endpoint::Tcp(..))) else {
            return Ok(stream);
        };
        let name =
            ServerName::try_from(to_reach.host().to_owned()).map_err(|e| failed(to, &e.to_string()))?;
        match timeout(self.connect_timeout, tls.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            Ok(Err(e)) => Err(failed(to, &e.to_string())),
            Err(_) => Err(failed(
                to,
                "it does not answer the TLS handshake in time; perhaps it speaks no TLS there: then write redis:// in \
                 place of rediss://",
            )),
        }
    }

    async fn in_time<T>(
        &self,
        to: &Endpoint,
        work: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, Fault> {
        match timeout(self.connect_timeout, work).await {
            Ok(done) => done.map_err(|e| explain(to, &e)),
            Err(_) => Err(Fault::leave(silent(to))),
        }
    }

    /// Asks the server what it is, and which; `channel` is one that this process may publish on.
    pub async fn greet(
        &self,
        to: &Endpoint,
        connection: &mut MultiplexedConnection,
        channel: &str,
        eviction: &Eviction,
    ) -> Result<ServerId, DialError> {
        let mut pipe = redis::pipe();
        pipe.cmd("PING").cmd("INFO").arg("server").cmd("INFO").arg("memory").cmd("ROLE");
        let [ping, info, memory, role] = &mut self.ask(to, connection, &pipe).await?[..] else {
            return Err(Fault::leave(silent(to)).into());
        };
        std::mem::replace(ping, Ok(Value::Nil)).map_err(|e| explain(to, &e))?;
        // A user without the right to INFO or ROLE may still use the rest.
        let mut server = ServerId::default();
        if let Ok(info) = std::mem::replace(info, Ok(Value::Nil)) {
            let info: redis::InfoDict =
                redis::from_redis_value(info).map_err(|e| Fault::stay(e.to_string()))?;
            if let Some(why) = self.unfit(to, &info) {
                return Err(DialError::Never(why));
            }
            server = ServerId::of(&info);
        }
        if role.as_ref().is_ok_and(is_replica) {
            return Err(replica(to).into());
        }
        let memory = std::mem::replace(memory, Ok(Value::Nil)).ok();
        if let Some(memory) = memory.and_then(|info| redis::from_redis_value(info).ok()) {
            eviction.heard(to, &memory);
        }
        // A user without the right to publish would break scripts in the middle. That the channel is in a slot of
        // another node says that the user may.
        let mut pipe = redis::pipe();
        pipe.cmd("SPUBLISH").arg(channel).arg("");
        for reply in self.ask(to, connection, &pipe).await? {
            match reply {
                Err(e) if e.redirect_node().is_none() && e.code() != Some("CLUSTERDOWN") => {
                    return Err(explain(to, &e).into());
                }
                _ => {}
            }
        }
        Ok(server)
    }

    /// Why a server that says this of itself will never do.
    fn unfit(&self, to: &Endpoint, info: &redis::InfoDict) -> Option<String> {
        if let Some(version) = info.get::<String>("redis_version").filter(|v| is_too_old(v)) {
            let (major, minor) = OLDEST_SERVER;
            return Some(format!(
                "Redis at {to} is version {version}; Tipcast needs {major}.{minor} or newer (or Valkey)"
            ));
        }
        let scheme = if self.target.tls { "rediss" } else { "redis" };
        let mode = info.get::<String>("redis_mode").unwrap_or_default();
        match (mode.as_str(), &self.target.kind) {
            ("cluster", ServerKind::Single(_) | ServerKind::Sentinel(..)) => Some(format!(
                "Redis at {to} is a node of a cluster and has only some of the feeds; write {scheme}+cluster://{to}"
            )),
            ("sentinel", _) => Some(format!(
                "Redis at {to} is a sentinel and holds no feeds; write {scheme}+sentinel://{to}/MASTER with the name \
                 of the primary that it watches"
            )),
            _ => None,
        }
    }

    async fn ask(
        &self,
        to: &Endpoint,
        connection: &mut MultiplexedConnection,
        pipe: &redis::Pipeline,
    ) -> Result<Vec<RedisResult<Value>>, Fault> {
        let count = pipe.cmd_iter().count();
        let replies = self.in_time(to, connection.req_packed_commands(pipe, 0, count)).await?;
        Ok(replies.into_iter().map(Value::extract_error).collect())
    }
}

/// True for the answer of ROLE by a server that takes no writes.
pub fn is_replica(role: &Value) -> bool {
    let Value::Array(parts) = role else { return false };
    matches!(parts.first(), Some(Value::BulkString(name)) if name == b"slave")
}

fn is_too_old(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), minor) => (major, minor.unwrap_or(0)) < OLDEST_SERVER,
        _ => false,
    }
}

/// What Redis is spoken to over.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_seven_are_too_old() {
        assert!(is_too_old("6.2.14") && is_too_old("5"));
        assert!(!is_too_old("7.0.15") && !is_too_old("7") && !is_too_old("255.255.255") && !is_too_old("x"));
    }

    #[test]
    fn a_bad_address_pair_is_explained() {
        let options = |pair: &str| StoreOptions {
            addresses: vec![pair.to_owned()],
            ..StoreOptions::new("redis://127.0.0.1")
        };
        assert!(Dial::new(&options("a:1=b:2")).is_ok());
        assert!(Dial::new(&options("a:1")).err().is_some_and(|why| why.contains("addresses")));
    }
}
