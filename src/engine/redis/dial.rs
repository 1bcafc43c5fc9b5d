//! Making connections: addresses, time-outs, and what a server must be before it is used.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Value};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::faults::{Fault, explain, replica, silent};
use super::scripts;

/// The oldest server with what the scripts need.
const OLDEST: (u32, u32) = (7, 0);

/// How to reach Redis.
#[derive(Clone)]
pub(super) struct Dial {
    info: ConnectionInfo,
    /// Without credentials, for messages.
    pub addr: String,
    /// For each of connecting and shaking hands.
    connect_timeout: Duration,
    /// A channel that this process may publish on and nobody listens to.
    hello: String,
}

/// Why there is no connection.
pub(super) enum Refusal {
    /// Trying again may help.
    NotNow(Fault),
    /// The server will never do; says why.
    Never(String),
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Refusal::NotNow(fault)
    }
}

/// A connection for commands, and the work that moves its bytes: to be spawned, and ended to break the
/// connection for all its users at once.
pub(super) struct Dialled<D> {
    pub connection: MultiplexedConnection,
    pub driver: D,
}

impl Dial {
    /// Reads the URL; says what is wrong with it, without repeating its password.
    pub(super) fn new(url: &str, connect_timeout: Duration, hello: String) -> Result<Dial, String> {
        let info = url.into_connection_info().map_err(|e| {
            format!(
                "the Redis URL cannot be read ({e}); write redis://[user:password@]host[:port][/database]"
            )
        })?;
        if !matches!(info.addr(), ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_)) {
            return Err("this build speaks no TLS to Redis; use redis:// or a local TLS proxy".into());
        }
        Ok(Dial { addr: info.addr().to_string(), info, connect_timeout, hello })
    }

    /// A connection that commands of any number of callers share.
    pub(super) async fn commands(
        &self,
    ) -> Result<Dialled<impl Future<Output = ()> + Send + 'static>, Refusal> {
        // The crate's own time-out is off: every call here has one around all of its work.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(1024);
        let stream = self.stream().await?;
        let settings = self.info.redis_settings();
        let made = self.in_time(MultiplexedConnection::new_with_config(settings, stream, config)).await?;
        Ok(Dialled { connection: made.0, driver: made.1 })
    }

    /// A connection that only subscribes.
    pub(super) async fn pubsub(&self) -> Result<PubSub, Fault> {
        let stream = self.stream().await?;
        self.in_time(PubSub::new(self.info.redis_settings(), stream)).await
    }

    async fn stream(&self) -> Result<Box<dyn Stream>, Fault> {
        let failed =
            |e: std::io::Error| Fault::leave(format!("no connection to Redis at {}: {e}", self.addr));
        let connect = async {
            match self.info.addr() {
                // The name is looked up anew each time: after a failover it leads elsewhere.
                ConnectionAddr::Tcp(host, port) => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    stream.set_nodelay(true)?;
                    Ok(Box::new(stream) as Box<dyn Stream>)
                }
                #[cfg(unix)]
                ConnectionAddr::Unix(path) => {
                    Ok(Box::new(tokio::net::UnixStream::connect(path).await?) as Box<dyn Stream>)
                }
                _ => Err(std::io::ErrorKind::Unsupported.into()),
            }
        };
        match timeout(self.connect_timeout, connect).await {
            Ok(made) => made.map_err(failed),
            Err(_) => Err(Fault::leave(silent(&self.addr))),
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = redis::RedisResult<T>>) -> Result<T, Fault> {
        match timeout(self.connect_timeout, work).await {
            Ok(done) => done.map_err(|e| explain(&self.addr, &e)),
            Err(_) => Err(Fault::leave(silent(&self.addr))),
        }
    }

    /// Asks the server what it is, and gives it the scripts.
    pub(super) async fn greet(&self, connection: &mut MultiplexedConnection) -> Result<(), Refusal> {
        let mut pipe = redis::pipe();
        pipe.cmd("PING").cmd("INFO").arg("server").cmd("ROLE");
        let [ping, info, role] = &mut self.ask(connection, &pipe).await?[..] else {
            return Err(Fault::leave(silent(&self.addr)).into());
        };
        std::mem::replace(ping, Ok(Value::Nil)).map_err(|e| explain(&self.addr, &e))?;
        // Whoever may not ask for INFO or ROLE may still use the rest.
        if let Ok(info) = std::mem::replace(info, Ok(Value::Nil)) {
            let info: redis::InfoDict =
                redis::from_redis_value(info).map_err(|e| Fault::stay(e.to_string()))?;
            if info.get::<String>("redis_mode").is_some_and(|mode| mode == "cluster") {
                let addr = &self.addr;
                return Err(Refusal::Never(format!(
                    "Redis at {addr} is a node of a cluster and has only some of the feeds; write \
                     redis+cluster://{addr} instead of redis://{addr}"
                )));
            }
            if let Some(version) = info.get::<String>("redis_version").filter(|v| is_too_old(v)) {
                let (addr, (major, minor)) = (&self.addr, OLDEST);
                return Err(Refusal::Never(format!(
                    "Redis at {addr} is version {version}; Tipcast needs {major}.{minor} or newer (or Valkey)"
                )));
            }
        }
        if role.as_ref().is_ok_and(is_replica) {
            return Err(Fault::leave(replica(&self.addr)).into());
        }
        // A trip of their own: a server that wants a password hangs up on so long a command, and could
        // not say why. And a user without the right to publish would break scripts in the middle.
        let mut pipe = redis::pipe();
        pipe.cmd("PUBLISH").arg(&self.hello).arg("");
        for script in scripts::ALL {
            pipe.cmd("SCRIPT").arg("LOAD").arg(script.source());
        }
        for reply in self.ask(connection, &pipe).await? {
            reply.map_err(|e| explain(&self.addr, &e))?;
        }
        Ok(())
    }

    async fn ask(
        &self,
        connection: &mut MultiplexedConnection,
        pipe: &redis::Pipeline,
    ) -> Result<Vec<redis::RedisResult<Value>>, Fault> {
        let count = pipe.cmd_iter().count();
        let replies = self.in_time(connection.req_packed_commands(pipe, 0, count)).await?;
        Ok(replies.into_iter().map(Value::extract_error).collect())
    }
}

/// True for the answer of ROLE by a server that takes no writes.
pub(super) fn is_replica(role: &Value) -> bool {
    let Value::Array(parts) = role else { return false };
    matches!(parts.first(), Some(Value::BulkString(name)) if name == b"slave")
}

fn is_too_old(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), minor) => (major, minor.unwrap_or(0)) < OLDEST,
        _ => false,
    }
}

/// What Redis is spoken to over.
trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Stream for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_before_seven_are_too_old() {
        assert!(is_too_old("6.2.14") && is_too_old("5"));
        assert!(!is_too_old("7.0.15") && !is_too_old("7") && !is_too_old("255.255.255") && !is_too_old("x"));
    }

    #[test]
    fn a_bad_url_is_explained() {
        let dial = |url| Dial::new(url, Duration::from_secs(1), String::new());
        assert!(dial("http://x").is_err() && dial("").is_err() && dial("rediss://127.0.0.1").is_err());
        assert!(dial("redis://127.0.0.1:6379/2").is_ok_and(|d| d.addr == "127.0.0.1:6379"));
    }
}
