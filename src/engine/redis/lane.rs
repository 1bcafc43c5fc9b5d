//! A connection for commands that is always being kept: made anew whenever it breaks, watched while it
//! stands. Calls fail at once while it is known to be down.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::RedisOptions;
use super::dial::{Dial, Dialled, Refusal, is_replica};
use super::faults::{Fault, explain, is_no_script, replica, silent};
use super::scripts::Script;
use crate::metrics::Metrics;
use crate::metrics::labels::RedisLink;
use crate::supervise::Part;

/// The longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How often an idle connection is asked for a sign of life.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How a lane is.
#[derive(Clone)]
pub(super) enum State {
    /// The first attempt is under way.
    Starting,
    /// Ready; the number tells one connection from the next.
    Up(MultiplexedConnection, u64),
    /// Not now, and why; attempts go on.
    Down(Arc<str>),
    /// Never, and why.
    Refused(Arc<str>),
}

/// One kept connection. Ends with its last owner.
pub(super) struct Lane {
    addr: String,
    state: watch::Receiver<State>,
    broken: mpsc::Sender<(u64, String)>,
    keeper: JoinHandle<()>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.close();
    }
}

impl Lane {
    pub(super) fn open(dial: Dial, options: &RedisOptions) -> Lane {
        let (tell, state) = watch::channel(State::Starting);
        let (broken, complaints) = mpsc::channel(16);
        let addr = dial.addr.clone();
        let (call_timeout, metrics) = (options.call_timeout, options.metrics.clone());
        let keeper = Keeper { dial, tell, complaints, call_timeout, number: 0, metrics };
        let kept = options.parts.clone().vital_task(Part::RedisCommands, keeper.run());
        Lane { addr, state, broken, keeper: tokio::spawn(kept) }
    }

    /// Waits until the first attempt is over.
    pub(super) async fn tried(&self) -> State {
        let mut state = self.state.clone();
        match state.wait_for(|state| !matches!(state, State::Starting)).await {
            Ok(state) => state.clone(),
            Err(_) => State::Down("the engine is closed".into()),
        }
    }

    fn connection(&self) -> Result<(MultiplexedConnection, u64), Fault> {
        match &*self.state.borrow() {
            State::Up(connection, number) => Ok((connection.clone(), *number)),
            State::Starting => Err(Fault::stay(format!("Redis at {} is being connected to", self.addr))),
            State::Down(why) | State::Refused(why) => Err(Fault::stay(&**why)),
        }
    }

    /// Ends the connection for good.
    pub(super) fn close(&self) {
        self.keeper.abort();
    }

    /// True while calls are sent.
    pub(super) fn is_up(&self) -> bool {
        matches!(&*self.state.borrow(), State::Up(..))
    }

    /// Runs a script by its SHA, and loads it first when the server has forgotten it.
    pub(super) async fn script(&self, script: &Script, call: &Cmd, within: Duration) -> Result<Value, Fault> {
        self.with(within, async |mut connection| {
            match connection.req_packed_command(call).await.and_then(Value::extract_error) {
                Err(e) if is_no_script(&e) => {
                    let mut pipe = redis::pipe();
                    pipe.cmd("SCRIPT").arg("LOAD").arg(script.source()).add_command(call.clone());
                    let mut replies = connection.req_packed_commands(&pipe, 0, 2).await?;
                    replies.pop().unwrap_or(Value::Nil).extract_error()
                }
                answer => answer,
            }
        })
        .await
    }

    /// Runs one command.
    pub(super) async fn command(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        let run = async |mut connection: MultiplexedConnection| {
            connection.req_packed_command(command).await.and_then(Value::extract_error)
        };
        self.with(within, run).await
    }

    /// Runs commands that change nothing, in one trip.
    pub(super) async fn commands(&self, pipe: &Pipeline, within: Duration) -> Result<Vec<Value>, Fault> {
        let count = pipe.cmd_iter().count();
        let run = async |mut connection: MultiplexedConnection| {
            connection
                .req_packed_commands(pipe, 0, count)
                .await?
                .into_iter()
                .map(Value::extract_error)
                .collect()
        };
        self.with(within, run).await
    }

    async fn with<T>(
        &self,
        within: Duration,
        run: impl AsyncFnOnce(MultiplexedConnection) -> redis::RedisResult<T>,
    ) -> Result<T, Fault> {
        let (connection, number) = self.connection()?;
        let fault = match timeout(within, run(connection)).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(e)) => explain(&self.addr, &e),
            // Replies come in order, so what was sent later on this connection is stuck as well.
            Err(_) => Fault::leave(silent(&self.addr)),
        };
        if fault.leave {
            // A full channel holds complaints about this same connection.
            let _ = self.broken.try_send((number, fault.why.clone()));
        }
        Err(fault)
    }
}

struct Keeper {
    dial: Dial,
    tell: watch::Sender<State>,
    complaints: mpsc::Receiver<(u64, String)>,
    call_timeout: Duration,
    number: u64,
    metrics: Arc<Metrics>,
}

impl Keeper {
    async fn run(mut self) {
        let mut pause = Pause::default();
        loop {
            match self.connect().await {
                Ok(dialled) => {
                    let since = Instant::now();
                    let why = self.hold(dialled).await;
                    tracing::warn!(why, "a connection to Redis ended");
                    self.tell.send_replace(State::Down(why.into()));
                    pause.after(since.elapsed());
                }
                Err(Refusal::NotNow(fault)) => {
                    self.say_down(fault.why);
                }
                Err(Refusal::Never(why)) => {
                    tracing::error!(why, "this Redis cannot be used");
                    self.tell.send_replace(State::Refused(why.into()));
                }
            }
            sleep(pause.next()).await;
        }
    }

    /// The same reason again is no news.
    fn say_down(&self, why: String) {
        let known = matches!(&*self.tell.borrow(), State::Down(old) if **old == *why);
        if !known {
            tracing::warn!(why, "no connection to Redis");
            self.tell.send_replace(State::Down(why.into()));
        }
    }

    async fn connect(&mut self) -> Result<Standing, Refusal> {
        let Dialled { mut connection, driver } = self.dial.commands().await?;
        let standing = Standing { driver: tokio::spawn(driver), connection: connection.clone() };
        self.dial.greet(&mut connection).await?;
        Ok(standing)
    }

    /// Until the connection is of no use; says why.
    async fn hold(&mut self, mut standing: Standing) -> String {
        self.number += 1;
        if self.number > 1 {
            self.metrics.redis_reconnects[RedisLink::Commands].inc();
        }
        self.tell.send_replace(State::Up(standing.connection.clone(), self.number));
        tracing::info!(addr = self.dial.addr, "connected to Redis");
        let mut beats = interval(HEARTBEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = &mut standing.driver => {
                    return format!("Redis at {} closed the connection; it may be restarting", self.dial.addr);
                }
                complaint = self.complaints.recv() => match complaint {
                    Some((number, why)) if number == self.number => return why,
                    Some(_) => {}
                    None => return "the engine is closed".into(),
                },
                _ = beats.tick() => {
                    if let Err(why) = self.beat(&mut standing).await {
                        return why;
                    }
                }
            }
        }
    }

    /// A sign of life, which also says whether the server still is the primary.
    async fn beat(&self, standing: &mut Standing) -> Result<(), String> {
        let role = redis::cmd("ROLE");
        match timeout(self.call_timeout, standing.connection.req_packed_command(&role)).await {
            Ok(Ok(role)) if is_replica(&role) => Err(replica(&self.dial.addr)),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(e)) => {
                let fault = explain(&self.dial.addr, &e);
                if fault.leave { Err(fault.why) } else { Ok(()) }
            }
            Err(_) => Err(silent(&self.dial.addr)),
        }
    }
}

/// A connection and its driver. Ending the driver ends the calls that wait on it: no late reply can
/// reach anybody.
struct Standing {
    driver: JoinHandle<()>,
    connection: MultiplexedConnection,
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Pauses that grow from nothing to [`LONGEST_PAUSE`].
#[derive(Default)]
pub(super) struct Pause {
    next: Duration,
}

impl Pause {
    /// The pause before the next attempt.
    pub(super) fn next(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).clamp(Duration::from_millis(50), LONGEST_PAUSE);
        now
    }

    /// A connection that lasted starts the pauses from nothing again.
    pub(super) fn after(&mut self, lasted: Duration) {
        if lasted > 4 * LONGEST_PAUSE {
            self.next = Duration::ZERO;
        }
    }
}
