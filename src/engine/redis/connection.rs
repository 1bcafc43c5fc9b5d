//! A connection for commands that is always being kept: made anew whenever it breaks, watched while it
//! works. Calls fail at once while it is known to be down.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisResult, Value};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::dial::{Dial, DialError, Dialled, ServerId, is_replica};
use super::eviction::Eviction;
use crate::engine::protocol::address::{Endpoint, ServerKind};
use crate::engine::protocol::faults::{Fault, FaultKind, explain, is_no_script, replica, silent};
use crate::engine::protocol::scripts::{Call, Script};
use crate::metrics::Metrics;
use crate::metrics::labels::RedisLink;
use crate::supervise::Backoff;
use crate::supervise::{Part, Parts};

/// How often a connection is asked for a sign of life. Calls find out by themselves that a server does not answer; this finds
/// servers that were replaced while there were no calls, and replicas that only reads were sent to.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The pauses between attempts to connect.
pub fn reconnects() -> Backoff {
    Backoff::new(Duration::ZERO, Duration::from_millis(500))
}

/// How long readiness waits for the first attempt to connect.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How many heartbeats are for one question about the server's memory: an operator may set another policy at any time.
const MEMORY_EVERY: u32 = 2;

/// How a connection is.
#[derive(Clone)]
pub enum ConnectionState {
    /// The first attempt is under way.
    Starting,
    /// Ready; the number is another for each connection, and it leads to this server.
    Up(MultiplexedConnection, u64, ServerId),
    /// Not now, and why; attempts go on. A server that only lost its place to another is known as such: a call that
    /// has not been sent yet finds the other as soon as it is known.
    Down { why: Arc<str>, is_replica: bool },
    /// Never, and why.
    Refused(Arc<str>),
}

/// One kept connection. Ends with its last owner.
pub struct Connection {
    to: Endpoint,
    state: watch::Receiver<ConnectionState>,
    broken: mpsc::Sender<(u64, Fault)>,
    keeper: JoinHandle<()>,
    eviction: Eviction,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.keeper.abort();
        self.eviction.forget(&self.to);
    }
}

/// What a connection is made with.
#[derive(Clone)]
pub struct ConnectionConfig {
    pub dial: Dial,
    pub call_timeout: Duration,
    /// A channel that this process may publish on, without listeners.
    pub channel: String,
    /// Notified when a connection breaks: who has which slot may be another now.
    pub lost: Arc<Notify>,
    pub metrics: Arc<Metrics>,
    pub eviction: Eviction,
    /// Where what keeps connections is registered.
    pub parts: Arc<Parts>,
}

/// What is sent to a server in one trip.
#[derive(Clone, Copy)]
pub enum Trip<'a> {
    /// A script by its SHA, which is loaded first when the server does not know it.
    Script(&'a Call),
    /// One command.
    Command(&'a Cmd),
}

impl Trip<'_> {
    /// Whether the answer promises that what was written stays.
    pub fn promises(self) -> bool {
        matches!(self, Trip::Script(call) if call.script.promises)
    }
}

impl Connection {
    /// `asks_memory`: whether it is the one by which the server is asked what it does when its memory is full.
    pub fn open(to: Endpoint, config: ConnectionConfig, asks_memory: bool) -> Connection {
        let (tell, state) = watch::channel(ConnectionState::Starting);
        let (broken, complaints) = mpsc::channel(16);
        let eviction = config.eviction.clone();
        let keeper = ConnectionKeeper { to: to.clone(), config, asks_memory, tell, complaints, number: 0 };
        let kept = keeper.config.parts.clone().vital_task(Part::RedisCommands, keeper.run());
        Connection { to, state, broken, keeper: tokio::spawn(kept), eviction }
    }

    /// Waits for the end of the first attempt.
    pub async fn tried(&self) -> ConnectionState {
        let mut state = self.state.clone();
        match state.wait_for(|state| !matches!(state, ConnectionState::Starting)).await {
            Ok(state) => state.clone(),
            Err(_) => ConnectionState::Down { why: "the engine is closed".into(), is_replica: false },
        }
    }

    async fn standing(&self, within: Duration) -> Result<(MultiplexedConnection, u64, ServerId), Fault> {
        let state = self.state.borrow().clone();
        let state = match state {
            ConnectionState::Starting => {
                timeout(within, self.tried()).await.unwrap_or(ConnectionState::Starting)
            }
            other => other,
        };
        match state {
            ConnectionState::Up(connection, number, server) => Ok((connection, number, server)),
            ConnectionState::Starting => {
                Err(Fault::stay(format!("Redis at {} is being connected to", self.to)))
            }
            ConnectionState::Down { why, is_replica: true } => {
                Err(Fault { kind: FaultKind::Again, ..Fault::stay(&*why) })
            }
            ConnectionState::Down { why, .. } | ConnectionState::Refused(why) => Err(Fault::stay(&*why)),
        }
    }

    /// Waits for the end of the first attempt. Why there is no connection, if there is none.
    pub async fn stands(&self) -> Result<(), Fault> {
        self.standing(ANSWER_WITHIN).await.map(drop)
    }

    /// True while calls are sent.
    pub fn is_up(&self) -> bool {
        matches!(&*self.state.borrow(), ConnectionState::Up(..))
    }

    /// Sends one piece of work; `asking` allows the server to take it for a slot that it is about to get. Its answer,
    /// and which server gave it.
    pub async fn run(
        &self,
        work: Trip<'_>,
        asking: bool,
        within: Duration,
    ) -> Result<(Value, ServerId), Fault> {
        let run = async |mut connection: MultiplexedConnection, server: ServerId| match work {
            Trip::Command(command) => send(&mut connection, command, asking, None).await,
            Trip::Script(call) => {
                let command = call.command(&server.life());
                match send(&mut connection, &command, asking, None).await {
                    Err(e) if is_no_script(&e) => {
                        send(&mut connection, &command, asking, Some(call.script)).await
                    }
                    answer => answer,
                }
            }
        };
        self.with(within, run).await
    }

    /// Runs commands that change nothing, in one trip; each has an answer of its own.
    pub async fn commands(
        &self,
        pipe: &Pipeline,
        within: Duration,
    ) -> Result<Vec<Result<Value, Fault>>, Fault> {
        let count = pipe.cmd_iter().count();
        let run = async |mut connection: MultiplexedConnection, _| {
            connection.req_packed_commands(pipe, 0, count).await
        };
        let (replies, _) = self.with(within, run).await?;
        Ok(replies
            .into_iter()
            .map(|reply| reply.extract_error().map_err(|e| explain(&self.to, &e)))
            .collect())
    }

    async fn with<T>(
        &self,
        within: Duration,
        run: impl AsyncFnOnce(MultiplexedConnection, ServerId) -> RedisResult<T>,
    ) -> Result<(T, ServerId), Fault> {
        let (connection, number, server) = self.standing(within).await?;
        let fault = match timeout(within, run(connection, server)).await {
            Ok(Ok(done)) => return Ok((done, server)),
            Ok(Err(e)) => explain(&self.to, &e),
            // Replies come in order, so what was sent later on this connection is stuck as well.
            Err(_) => Fault::leave(silent(&self.to)),
        };
        if fault.leave {
            // A full channel holds complaints about this same connection.
            let _ = self.broken.try_send((number, fault.clone()));
        }
        Err(fault)
    }
}

/// One command and its answer; `script` is loaded in the same trip.
async fn send(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
    asking: bool,
    script: Option<&Script>,
) -> RedisResult<Value> {
    if !asking && script.is_none() {
        return connection.req_packed_command(command).await.and_then(Value::extract_error);
    }
    let mut pipe = redis::pipe();
    if let Some(script) = script {
        pipe.cmd("SCRIPT").arg("LOAD").arg(&*script.whole());
    }
    if asking {
        pipe.cmd("ASKING");
    }
    pipe.add_command(command.clone());
    let count = pipe.cmd_iter().count();
    let mut replies = connection.req_packed_commands(&pipe, 0, count).await?;
    replies.pop().unwrap_or(Value::Nil).extract_error()
}

struct ConnectionKeeper {
    to: Endpoint,
    config: ConnectionConfig,
    asks_memory: bool,
    tell: watch::Sender<ConnectionState>,
    complaints: mpsc::Receiver<(u64, Fault)>,
    number: u64,
}

impl ConnectionKeeper {
    async fn run(mut self) {
        let mut backoff = reconnects();
        loop {
            match self.connect().await {
                Ok((standing, server)) => {
                    let since = Instant::now();
                    let fault = self.hold(standing, server).await;
                    tracing::warn!(why = fault.why, "a connection to Redis ended");
                    self.tell.send_replace(self.down(fault));
                    backoff.after(since.elapsed());
                }
                Err(DialError::NotNow(fault)) => self.say_down(fault),
                Err(DialError::Never(why)) => {
                    tracing::error!(why, "this Redis cannot be used");
                    self.tell.send_replace(ConnectionState::Refused(why.into()));
                }
            }
            self.config.lost.notify_one();
            sleep(backoff.next_pause()).await;
        }
    }

    /// The same reason again is no news.
    fn say_down(&self, fault: Fault) {
        let known = matches!(&*self.tell.borrow(), ConnectionState::Down { why, .. } if **why == *fault.why);
        if !known {
            tracing::warn!(why = fault.why, "no connection to Redis");
            self.tell.send_replace(self.down(fault));
        }
    }

    /// How it is from now on. One server alone that is a replica stays what it is.
    fn down(&self, fault: Fault) -> ConnectionState {
        let alone = matches!(self.config.dial.target.kind, ServerKind::Single(_));
        ConnectionState::Down { is_replica: !alone && fault.is_of_a_replica(), why: fault.why.into() }
    }

    async fn connect(&mut self) -> Result<(Standing, ServerId), DialError> {
        let Dialled { mut connection, driver, cause } = self.config.dial.commands(&self.to).await?;
        let driver = tokio::spawn(driver);
        let standing = Standing { driver, connection: connection.clone(), finishes: false };
        let ConnectionConfig { dial, channel, eviction, .. } = &self.config;
        match dial.greet(&self.to, &mut connection, channel, eviction).await {
            Ok(server) => Ok((standing, server)),
            Err(DialError::NotNow(fault)) => Err(cause.explain(&self.to, fault).into()),
            Err(never) => Err(never),
        }
    }

    /// Until the connection is of no use; says why.
    async fn hold(&mut self, mut standing: Standing, server: ServerId) -> Fault {
        self.number += 1;
        if self.number > 1 {
            self.config.metrics.redis_reconnects[RedisLink::Commands].inc();
        }
        self.tell.send_replace(ConnectionState::Up(standing.connection.clone(), self.number, server));
        tracing::info!(addr = %self.to, "connected to Redis");
        let (mut beats, mut count) = (interval(HEARTBEAT), 0_u32);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = &mut standing.driver => {
                    let to = &self.to;
                    return Fault::leave(format!("Redis at {to} closed the connection; it may be restarting"));
                }
                complaint = self.complaints.recv() => match complaint {
                    Some((number, fault)) if number == self.number => return standing.end(fault),
                    Some(_) => {}
                    None => return Fault::leave("the engine is closed"),
                },
                _ = beats.tick() => {
                    count = count.wrapping_add(1);
                    let asks_memory = self.asks_memory && count.is_multiple_of(MEMORY_EVERY);
                    if let Err(fault) = self.beat(&mut standing, asks_memory).await {
                        return standing.end(fault);
                    }
                }
            }
        }
    }

    /// A sign of life, which also says whether the server still is the primary.
    async fn beat(&self, standing: &mut Standing, asks_memory: bool) -> Result<(), Fault> {
        let mut pipe = redis::pipe();
        pipe.cmd("ROLE");
        if asks_memory {
            pipe.cmd("INFO").arg("memory");
        }
        let count = pipe.cmd_iter().count();
        let replies = standing.connection.req_packed_commands(&pipe, 0, count);
        let replies = match timeout(self.config.call_timeout, replies).await {
            Ok(replies) => replies,
            Err(_) => return Err(Fault::leave(silent(&self.to))),
        };
        let mut replies = match replies {
            Ok(replies) => replies.into_iter().map(Value::extract_error),
            Err(e) => return Err(explain(&self.to, &e)).or_else(stays),
        };
        match replies.next() {
            Some(Ok(role)) if is_replica(&role) => return Err(replica(&self.to)),
            Some(Err(e)) => Err(explain(&self.to, &e)).or_else(stays)?,
            _ => {}
        }
        if let Some(memory) = replies.next().and_then(|info| redis::from_redis_value(info.ok()?).ok()) {
            self.config.eviction.heard(&self.to, &memory);
        }
        Ok(())
    }
}

/// A connection goes on after what is no fault of its own.
fn stays(fault: Fault) -> Result<(), Fault> {
    if fault.leave { Err(fault) } else { Ok(()) }
}

/// A connection and its driver. Ending the driver ends the calls that wait on it: no late reply can
/// reach anybody.
struct Standing {
    driver: JoinHandle<()>,
    connection: MultiplexedConnection,
    /// True when what is under way is still answered: the driver then ends with the last call.
    finishes: bool,
}

impl Standing {
    /// It is of no use any more. A server that became a replica still answers what it was asked, mostly by naming
    /// the new primary.
    fn end(mut self, fault: Fault) -> Fault {
        self.finishes = fault.is_of_a_replica();
        fault
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if !self.finishes {
            self.driver.abort();
        }
    }
}
