//! The connection to one primary that only subscribes, by sharded pub/sub. It takes the channels that are wanted in
//! its server's slots, and gives back what the server takes away when a slot moves.
//!
//! It speaks RESP2, in which everything that comes is one of a few kinds of message. Behind each command goes a PING
//! with a number: an error that comes before its answer is about that command, whatever else the server sends unasked.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Value, ValueCodec};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::codec::FramedRead;

use super::connection::reconnects;
use super::connection::{Connection, Trip};
use super::dial::{Dial, ServerId, Stream};
use super::layout::Layout;
use crate::engine::protocol::address::Endpoint;
use crate::engine::protocol::faults::{Fault, explain, silent};
use crate::engine::protocol::slots::tag_of_slot;
use crate::engine::protocol::topics::Topics;
use crate::metrics::Metrics;
use crate::metrics::labels::RedisLink;
use crate::supervise::{Part, Parts};

/// How often the connection is asked for a sign of life, and unused subscriptions are looked for.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How many heartbeats make one while no feed is listened to. What is missed then are wake-ups, which are hints.
const IDLE_HEARTBEATS: u32 = 10;

/// How long a sign of life, a confirmation or a probe may take.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

/// Channels in one command where their slots do not matter.
const CHANNELS_PER_COMMAND: usize = 256;

/// Channels that are asked for before the first of them are confirmed.
const MAX_UNCONFIRMED_CHANNELS: usize = 4096;

/// How often channels are asked for again that a server refused.
const RESUBSCRIBE_INTERVAL: Duration = Duration::from_millis(250);

/// Another number for each connection of this process, to any server.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

/// Probes on their way, by their mark.
type Probes = Arc<Mutex<HashMap<u64, oneshot::Sender<()>>>>;

/// What a subscriber is made with.
pub struct Subscribing {
    pub endpoint: Endpoint,
    pub dial: Dial,
    /// Over which probes are published.
    pub connection: Arc<Connection>,
    pub topics: Arc<Topics>,
    pub layout: watch::Receiver<Arc<Layout>>,
    /// Notified when a slot seems to have moved.
    pub lost: Arc<Notify>,
    pub prefix: String,
    pub process: u64,
    /// True where every command must be about one slot.
    pub by_slot: bool,
    pub metrics: Arc<Metrics>,
    pub parts: Arc<Parts>,
}

/// A shard's subscriptions. Its task ends with the last owner.
pub struct Subscriber {
    wake: Arc<Notify>,
    probes: Probes,
    state: watch::Receiver<Option<Result<String, Arc<str>>>>,
    keeper: JoinHandle<()>,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Subscriber {
    pub fn open(with: Subscribing) -> Subscriber {
        let (wake, probes) = (Arc::new(Notify::new()), Probes::default());
        let (tell, state) = watch::channel(None);
        let stood = AtomicBool::new(false);
        let keeper = SubscriberKeeper { with, wake: wake.clone(), probes: probes.clone(), stood, tell };
        let kept = keeper.with.parts.clone().vital_task(Part::RedisSubscriptions, keeper.run());
        Subscriber { wake, probes, state, keeper: tokio::spawn(kept) }
    }

    /// Something new is wanted in the slots of this server. Why it cannot be had now, if it cannot: while the first
    /// attempt to connect is under way, it is asked for as soon as there is a connection.
    pub fn look(&self) -> Result<(), Fault> {
        self.wake.notify_one();
        match &*self.state.borrow() {
            Some(Err(why)) => Err(Fault::stay(&**why)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// The channel of probes, once the first attempt to connect has ended.
    async fn probe_channel(&self) -> Result<String, Fault> {
        let mut state = self.state.clone();
        match timeout(CONFIRM_TIMEOUT, state.wait_for(Option::is_some))
            .await
            .map(|it| it.map(|it| it.clone()))
        {
            Ok(Ok(Some(Ok(channel)))) => Ok(channel),
            Ok(Ok(Some(Err(why)))) => Err(Fault::stay(&*why)),
            _ => Err(Fault::stay("the subscribing connection to Redis is not there yet")),
        }
    }

    /// Has a mark published on this server and waits until it is back. `publish` says by which server, and how many it reached.
    pub async fn probe(
        &self,
        mark: u64,
        publish: impl AsyncFnOnce(&str, u64) -> Result<(ServerId, i64), Fault>,
    ) -> Result<ServerId, Fault> {
        let channel = self.probe_channel().await?;
        let (reply, back) = oneshot::channel();
        lock(&self.probes).insert(mark, reply);
        let sent = Instant::now();
        let result = async {
            let (server, heard) = publish(&channel, mark).await?;
            if heard == 0 {
                return Err(Fault::stay("the subscribing connection to Redis is not there yet, or broken"));
            }
            match timeout(CONFIRM_TIMEOUT.saturating_sub(sent.elapsed()), back).await {
                Ok(Ok(())) => Ok(server),
                _ => Err(Fault::stay("a probe published to Redis did not come back; see its pub/sub")),
            }
        };
        let result = result.await;
        lock(&self.probes).remove(&mark);
        result
    }
}

fn lock(probes: &Probes) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<()>>> {
    probes.lock().unwrap_or_else(PoisonError::into_inner)
}

struct SubscriberKeeper {
    with: Subscribing,
    wake: Arc<Notify>,
    probes: Probes,
    /// True once any connection stood: those that follow are reconnects.
    stood: AtomicBool,
    /// The channel of this connection's probes, or why there is no connection; `None` until the first attempt has ended.
    tell: watch::Sender<Option<Result<String, Arc<str>>>>,
}

/// One connection and what is under way on it.
struct Standing {
    /// Its number.
    id: u64,
    write: WriteHalf<Box<dyn Stream>>,
    /// Commands whose PING has not come back, with their channels.
    asked: VecDeque<(u64, Vec<String>)>,
    pings: u64,
    /// The channel of its probes.
    probe_channel: String,
    /// The oldest PING without a sign of life behind it.
    pinged: Option<Instant>,
    /// When a probe last came back.
    echoed: Instant,
    /// The oldest probe of the heartbeat that was taken by the server and has not come back.
    unheard: Option<Instant>,
    /// True once a sign of life came back.
    stood: bool,
    /// True when a server refused a channel: it is asked for again, after a pause.
    refused: bool,
}

type Frames = FramedRead<ReadHalf<Box<dyn Stream>>, ValueCodec>;

impl Standing {
    /// Sends commands, each with its PING behind it.
    async fn send(&mut self, commands: Vec<(&str, Vec<String>)>) -> Result<(), String> {
        let mut bytes = Vec::new();
        for (name, channels) in commands {
            self.pings += 1;
            if !channels.is_empty() {
                bytes.extend(redis::cmd(name).arg(&channels).get_packed_command());
            }
            bytes.extend(redis::cmd("PING").arg(self.pings).get_packed_command());
            self.asked.push_back((self.pings, channels));
        }
        self.pinged = self.pinged.or_else(|| Some(Instant::now()));
        match timeout(CONFIRM_TIMEOUT, self.write.write_all(&bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err("the server takes no commands".into()),
        }
    }

    /// The server took a probe: it must come back here, else this connection hears another server
    /// than the one that is written to. It may be back already.
    fn probe_was_taken(&mut self, sent: Option<Instant>) {
        let missing = sent.filter(|sent| *sent > self.echoed);
        self.unheard = self.unheard.or(missing);
    }
}

impl SubscriberKeeper {
    async fn run(mut self) {
        let mut backoff = reconnects();
        loop {
            let since = Instant::now();
            let why = match self.connect().await {
                Ok((mut standing, mut frames)) => {
                    let why = self.hold(&mut standing, &mut frames).await;
                    self.with.topics.ended(standing.id, &why);
                    tracing::warn!(why, "the subscribing connection to Redis ended");
                    why
                }
                Err(fault) => fault.why,
            };
            backoff.after(since.elapsed());
            let _ = self.tell.send_replace(Some(Err(why.as_str().into())));
            self.with.lost.notify_one();
            let layout = self.with.layout.borrow().clone();
            self.with.topics.refuse(|slot| layout.is_owner(&self.with.endpoint, slot), &why);
            tokio::select! {
                () = sleep(backoff.next_pause()) => {}
                // A server that a call was sent to before the layout names it has slots now.
                Ok(()) = self.with.layout.changed() => {}
            }
        }
    }

    async fn connect(&mut self) -> Result<(Standing, Frames), Fault> {
        let to = &self.with.endpoint;
        let home = self.with.layout.borrow_and_update().home_of(to);
        let home = home.ok_or_else(|| Fault::stay("the server has no slots"))?;
        let (stream, hello) = self.with.dial.raw(to).await?;
        let (read, mut write) = tokio::io::split(stream);
        let mut frames = FramedRead::new(read, ValueCodec::default());
        for command in hello {
            let exchange = async {
                write
                    .write_all(&command.get_packed_command())
                    .await
                    .map_err(|e| Fault::leave(e.to_string()))?;
                match frames.next().await {
                    Some(Ok(value)) => value.extract_error().map_err(|e| explain(to, &e)),
                    Some(Err(e)) => Err(explain(to, &e)),
                    None => Err(Fault::leave(format!("Redis at {to} closed the connection"))),
                }
            };
            timeout(CONFIRM_TIMEOUT, exchange).await.map_err(|_| Fault::leave(silent(to)))??;
        }
        let tag = if self.with.by_slot { tag_of_slot(home) } else { "probe".into() };
        let probe_channel = format!("{}{{{tag}}}:{:x}", self.with.prefix, self.with.process);
        let now = Instant::now();
        let mut standing = Standing {
            id: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            write,
            asked: VecDeque::new(),
            pings: 0,
            probe_channel: probe_channel.clone(),
            pinged: None,
            echoed: now,
            unheard: None,
            stood: false,
            refused: false,
        };
        let sent = standing.send(vec![("SSUBSCRIBE", vec![probe_channel])]).await;
        sent.map_err(|why| Fault::leave(format!("the connection to Redis at {to} failed: {why}")))?;
        Ok((standing, frames))
    }

    /// Until the connection is of no use; says why.
    async fn hold(&mut self, standing: &mut Standing, frames: &mut Frames) -> String {
        let (mut beats, mut quiet) = (interval(HEARTBEAT), 0);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut again = interval(RESUBSCRIBE_INTERVAL);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut probes = FuturesUnordered::new();
        let to = self.with.endpoint.clone();
        if let Err(why) = self.ask(standing).await {
            return why;
        }
        loop {
            tokio::select! {
                frame = frames.next() => {
                    let handled = match frame {
                        Some(Ok(value)) => self.take_in(standing, value),
                        Some(Err(e)) => Err(explain(&to, &e).why),
                        None => Err(format!("Redis at {to} closed the connection; it may be restarting")),
                    };
                    match handled {
                        // More may be wanted than was asked for at once.
                        Ok(true) if standing.asked.is_empty() => if let Err(why) = self.ask(standing).await { return why },
                        Ok(_) => {}
                        Err(why) => return why,
                    }
                }
                () = self.wake.notified() => if let Err(why) = self.ask(standing).await { return why },
                changed = self.with.layout.changed() => {
                    let owns_its_home = self.with.layout.borrow_and_update().is_owner(
                        &to,
                        crate::engine::protocol::slots::slot_of_key(&standing.probe_channel),
                    );
                    if changed.is_err() || (self.with.by_slot && !owns_its_home) {
                        return format!("the slots of Redis at {to} are others now");
                    }
                    if let Err(why) = self.ask(standing).await { return why }
                }
                _ = again.tick(), if standing.refused => {
                    standing.refused = false;
                    if let Err(why) = self.ask(standing).await { return why }
                }
                Some(taken) = probes.next() => standing.probe_was_taken(taken),
                _ = beats.tick() => {
                    if standing.pinged.is_some_and(|pinged| pinged.elapsed() > CONFIRM_TIMEOUT - HEARTBEAT / 2) {
                        return silent(&to);
                    }
                    if standing.unheard.is_some_and(|sent| sent.elapsed() > CONFIRM_TIMEOUT) {
                        return format!("Redis at {to} no longer sends what is published; perhaps it was replaced");
                    }
                    quiet = if self.with.topics.is_watched() { 0 } else { (quiet + 1) % IDLE_HEARTBEATS };
                    if quiet > 0 {
                        continue;
                    }
                    if probes.is_empty() && self.with.connection.is_up() {
                        probes.push(send_probe(self.with.connection.clone(), standing.probe_channel.clone()));
                    }
                    if let Err(why) = self.let_go(standing).await { return why }
                }
            }
        }
    }

    /// Asks for what is wanted in this server's slots.
    async fn ask(&self, standing: &mut Standing) -> Result<(), String> {
        let layout = self.with.layout.borrow().clone();
        let to = &self.with.endpoint;
        let wanted =
            self.with.topics.take(standing.id, |slot| layout.is_owner(to, slot), MAX_UNCONFIRMED_CHANNELS);
        if wanted.is_empty() {
            return Ok(());
        }
        standing.send(self.in_commands("SSUBSCRIBE", wanted)).await
    }

    /// Unsubscribes from channels without listeners, and asks for a sign of life.
    async fn let_go(&self, standing: &mut Standing) -> Result<(), String> {
        let unused = self.with.topics.unused(standing.id);
        let mut commands = self.in_commands("SUNSUBSCRIBE", unused);
        if commands.is_empty() {
            commands.push(("PING", Vec::new()));
        }
        standing.send(commands).await
    }

    /// Channels, which come by slot, in as few commands as may be.
    fn in_commands(
        &self,
        name: &'static str,
        channels: Vec<(u16, String)>,
    ) -> Vec<(&'static str, Vec<String>)> {
        let same = |a: &(u16, String), b: &(u16, String)| !self.with.by_slot || a.0 == b.0;
        let chunks = channels.chunk_by(same).flat_map(|group| group.chunks(CHANNELS_PER_COMMAND));
        chunks.map(|chunk| (name, chunk.iter().map(|(_, channel)| channel.clone()).collect())).collect()
    }

    /// Takes one message in. Returns true if it ends a command.
    fn take_in(&self, standing: &mut Standing, value: Value) -> Result<bool, String> {
        standing.pinged = None;
        let to = &self.with.endpoint;
        let parts = match value {
            Value::Array(parts) => parts,
            Value::ServerError(error) => return self.refused(standing, &error.into()),
            // What is not asked for in this mode means nothing.
            _ => return Ok(false),
        };
        let text = |at: usize| match parts.get(at) {
            Some(Value::BulkString(bytes)) => std::str::from_utf8(bytes).ok(),
            Some(Value::SimpleString(text)) => Some(text.as_str()),
            _ => None,
        };
        let (Some(kind), Some(about)) = (text(0), text(1)) else { return Ok(false) };
        match kind {
            "smessage" => match (about == standing.probe_channel, parts.get(2)) {
                (true, _) => self.probe_came_back(standing, text(2)),
                (false, Some(Value::BulkString(payload))) => {
                    self.with.topics.tell(standing.id, about, payload)
                }
                (false, _) => {}
            },
            "ssubscribe" if about == standing.probe_channel => {
                let _ = self.tell.send_replace(Some(Ok(standing.probe_channel.clone())));
            }
            "ssubscribe" => self.with.topics.confirmed(standing.id, about),
            "sunsubscribe" if about == standing.probe_channel => {
                return Err(format!("Redis at {to} gave its slots away"));
            }
            "sunsubscribe" if self.with.topics.taken_away(standing.id, about) => {
                standing.refused = true;
                self.with.lost.notify_one();
            }
            "pong" => {
                // A server that is still loading confirms channels and refuses this.
                let first = !std::mem::replace(&mut standing.stood, true);
                if first && self.stood.swap(true, Ordering::Relaxed) {
                    self.with.metrics.redis_reconnects[RedisLink::Pubsub].inc();
                }
                let number = about.parse().unwrap_or(0);
                while standing.asked.front().is_some_and(|(ping, _)| *ping <= number) {
                    standing.asked.pop_front();
                }
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    fn probe_came_back(&self, standing: &mut Standing, mark: Option<&str>) {
        standing.unheard = None;
        standing.echoed = Instant::now();
        if let Some(reply) =
            mark.and_then(|m| m.parse().ok()).and_then(|mark| lock(&self.probes).remove(&mark))
        {
            let _ = reply.send(());
        }
    }

    /// An error is about the oldest command whose PING has not come back.
    fn refused(&self, standing: &mut Standing, error: &redis::RedisError) -> Result<bool, String> {
        let fault = explain(&self.with.endpoint, error);
        let Some((_, channels)) = standing.asked.front() else { return Err(fault.why) };
        if channels.contains(&standing.probe_channel) {
            return Err(fault.why);
        }
        let mut any = false;
        for channel in channels {
            any |= self.with.topics.taken_away(standing.id, channel);
        }
        if any {
            tracing::debug!(why = fault.why, "a subscription was refused; it is asked for again");
            standing.refused = true;
            self.with.lost.notify_one();
        }
        Ok(false)
    }
}

/// Publishes a probe for which only the heartbeat waits. When it was sent, if the server took it.
async fn send_probe(connection: Arc<Connection>, channel: String) -> Option<Instant> {
    let sent = Instant::now();
    let mut publish = redis::cmd("SPUBLISH");
    publish.arg(channel).arg(0);
    connection.run(Trip::Command(&publish), false, CONFIRM_TIMEOUT).await.ok().map(|_| sent)
}
