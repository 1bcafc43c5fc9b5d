//! Knowing that replicas have what was written, for all connections to a primary at once.
//!
//! WAIT speaks only for the connection that asks. But replication is one stream: whatever the primary did before a
//! small SET of ours is on every replica that has that SET. So one connection writes it and waits, in a loop, and each
//! round lets everybody go whose write was answered before the round began. That is one trip for all of them.
//!
//! It proves nothing across another life of the primary: a server that restarted, or was a replica in between, may
//! have lost the write and have the SET. So a call notes the fence's life before it writes, and a life ends with its
//! connection, with the server's role and with the name of its replication stream. Nor does it prove anything of
//! another server: behind one address (a virtual one, or a proxy's) an old connection for commands may lead to another
//! process than a new one of the fence. So the run ids of both must be one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Pipeline, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::connection::reconnects;
use super::dial::{Dial, Dialled, ServerId};
use super::layout::Layout;
use crate::engine::protocol::address::Endpoint;
use crate::engine::protocol::faults::{Fault, FaultKind, explain, silent};
use crate::engine::protocol::slots::tag_of_slot;
use crate::supervise::{Part, Parts};

/// Calls that may wait for one round; one more is refused.
const MAX_QUEUED_CALLS: usize = 4096;

/// How long a server may take beyond the time in which replicas have to answer.
const ANSWER_GRACE: Duration = Duration::from_secs(1);

/// How often an idle fence makes a round, so that its connection is known to stand.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);

/// How many replicas must have a write, and within which time.
#[derive(Clone, Copy, Debug)]
pub struct FenceRule {
    pub replicas: usize,
    pub within: Duration,
}

struct QueuedCall {
    life: u64,
    /// Who answered the write.
    server: ServerId,
    answer: oneshot::Sender<Result<(), Arc<str>>>,
}

/// Waits for replicas. Its task ends with the last owner.
pub struct Fence {
    rule: FenceRule,
    /// 0 while there is no connection; else another number for each.
    life: Arc<AtomicU64>,
    waiting: mpsc::Sender<QueuedCall>,
    keeper: JoinHandle<()>,
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Fence {
    pub fn open(
        to: Endpoint,
        rule: FenceRule,
        dial: Dial,
        layout: watch::Receiver<Arc<Layout>>,
        prefix: &str,
        parts: Arc<Parts>,
    ) -> Fence {
        let (waiting, waiters) = mpsc::channel(MAX_QUEUED_CALLS);
        let life = Arc::new(AtomicU64::new(0));
        let keeper =
            FenceKeeper { to, rule, dial, layout, prefix: prefix.to_owned(), life: life.clone(), waiters };
        Fence {
            rule,
            life,
            waiting,
            keeper: tokio::spawn(parts.vital_task(Part::RedisCommands, keeper.run())),
        }
    }

    /// To be noted before a write is sent.
    pub fn life(&self) -> u64 {
        self.life.load(Ordering::Acquire)
    }

    /// Waits until enough replicas have what this server has answered so far, in this life.
    pub async fn pass(&self, life: u64, server: ServerId) -> Result<(), Fault> {
        let failed = |why: &str| Fault { why: why.to_owned(), leave: false, kind: FaultKind::NotReplicated };
        if life == 0 || life != self.life() {
            return Err(failed("the connection that asks the replicas was made anew meanwhile"));
        }
        let (answer, answered) = oneshot::channel();
        if self.waiting.try_send(QueuedCall { life, server, answer }).is_err() {
            return Err(failed("too many writes wait for replicas"));
        }
        match timeout(2 * (self.rule.within + ANSWER_GRACE), answered).await {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(why))) => Err(failed(&why)),
            _ => Err(failed("the replicas were not heard in time")),
        }
    }
}

struct FenceKeeper {
    to: Endpoint,
    rule: FenceRule,
    dial: Dial,
    layout: watch::Receiver<Arc<Layout>>,
    prefix: String,
    life: Arc<AtomicU64>,
    waiters: mpsc::Receiver<QueuedCall>,
}

impl FenceKeeper {
    async fn run(mut self) {
        let (mut backoff, mut lives) = (reconnects(), 0);
        loop {
            let since = Instant::now();
            let why = match self.dial.commands(&self.to).await {
                Ok(Dialled { connection, driver, .. }) => {
                    lives += 1;
                    tokio::select! {
                        why = self.hold(connection, lives) => why,
                        () = driver => format!("Redis at {} closed the connection", self.to),
                    }
                }
                Err(fault) => fault.why,
            };
            self.life.store(0, Ordering::Release);
            tracing::debug!(why, "no connection that asks for replicas");
            backoff.after(since.elapsed());
            let until = sleep(backoff.next_pause());
            tokio::pin!(until);
            loop {
                tokio::select! {
                    () = &mut until => break,
                    waiting = self.waiters.recv() => match waiting {
                        Some(waiting) => drop(waiting.answer.send(Err(why.as_str().into()))),
                        None => return,
                    },
                }
            }
        }
    }

    /// Makes rounds until the connection is of no use; says why.
    async fn hold(&mut self, mut connection: MultiplexedConnection, life: u64) -> String {
        // A key in a slot that this server has.
        let Some(home) = self.layout.borrow().home_of(&self.to) else {
            return "the server has no slots".into();
        };
        let key = format!("{}{{{}}}:fence", self.prefix, tag_of_slot(home));
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(&key).arg(life).arg("PX").arg(60_000);
        pipe.cmd("WAIT").arg(self.rule.replicas).arg(self.rule.within.as_millis() as u64);
        pipe.cmd("INFO").arg("replication");
        let server = match server_of(&self.to, &mut connection, self.rule).await {
            Ok(server) => server,
            Err(why) => return why,
        };
        let mut stream = match round(&self.to, &mut connection, &pipe, self.rule).await {
            Ok((_, stream)) => stream,
            Err(why) => return why,
        };
        self.life.store(life, Ordering::Release);
        let mut batch = Vec::new();
        loop {
            match timeout(IDLE_INTERVAL, self.waiters.recv()).await {
                Ok(Some(first)) => batch.push(first),
                Ok(None) => return "the engine is closed".into(),
                Err(_) => {}
            }
            while let Ok(next) = self.waiters.try_recv() {
                batch.push(next);
            }
            let outcome =
                round(&self.to, &mut connection, &pipe, self.rule).await.and_then(|(count, now)| {
                    match std::mem::replace(&mut stream, now) == stream {
                        true => Ok(count),
                        false => Err(format!("Redis at {} began another replication stream", self.to)),
                    }
                });
            let verdict: Result<(), Arc<str>> = match &outcome {
                Ok(count) if *count >= self.rule.replicas => Ok(()),
                Ok(count) => Err(format!(
                    "{count} of {} replicas of Redis at {} confirmed within {} ms; see INFO replication there",
                    self.rule.replicas,
                    self.to,
                    self.rule.within.as_millis()
                )
                .into()),
                Err(why) => Err(why.as_str().into()),
            };
            for waiting in batch.drain(..) {
                let own = match (waiting.life == life, waiting.server.is(server)) {
                    (true, true) => verdict.clone(),
                    (false, _) => Err("the connection that asks the replicas was made anew meanwhile".into()),
                    (true, false) => Err(format!(
                        "Redis at {} is another server for the connection that asks the replicas than for the one \
                         that wrote; or the user may not use INFO there",
                        self.to
                    )
                    .into()),
                };
                // Nobody waiting for it any more is no failure.
                let _ = waiting.answer.send(own);
            }
            if let Err(why) = outcome {
                return why;
            }
        }
    }
}

/// Which server it is.
async fn server_of(
    to: &Endpoint,
    connection: &mut MultiplexedConnection,
    rule: FenceRule,
) -> Result<ServerId, String> {
    let mut info = redis::cmd("INFO");
    info.arg("server");
    let info_answer = timeout(rule.within + ANSWER_GRACE, connection.req_packed_command(&info)).await;
    let info_answer = info_answer
        .map_err(|_| silent(to))?
        .and_then(Value::extract_error)
        .map_err(|e| explain(to, &e).why)?;
    redis::from_redis_value(info_answer).map(|info| ServerId::of(&info)).map_err(|e| e.to_string())
}

/// One round: how many replicas have everything, and the name of the replication stream.
async fn round(
    to: &Endpoint,
    connection: &mut MultiplexedConnection,
    pipe: &Pipeline,
    rule: FenceRule,
) -> Result<(usize, String), String> {
    let answers = timeout(rule.within + ANSWER_GRACE, connection.req_packed_commands(pipe, 0, 3)).await;
    let answers = answers.map_err(|_| silent(to))?.map_err(|e| explain(to, &e).why)?;
    let mut values = Vec::with_capacity(3);
    for answer in answers {
        values.push(answer.extract_error().map_err(|e| explain(to, &e).why)?);
    }
    let [_, Value::Int(count), info] = &values[..] else { return Err(silent(to)) };
    let info: String = redis::from_redis_value(info.clone()).map_err(|e| e.to_string())?;
    let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name));
    match (field("role:"), field("master_replid:")) {
        (Some("master"), Some(stream)) => Ok((usize::try_from(*count).unwrap_or(0), stream.to_owned())),
        _ => Err(format!("Redis at {to} is no primary any more")),
    }
}
