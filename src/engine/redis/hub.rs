//! The connection that only subscribes. One task owns it and the set of feeds that are wanted:
//! after every reconnect it subscribes to all of them anew and tells every subscription
//! [`Notice::Lost`], for nobody knows what was published meanwhile.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::super::{NOTICES, Notice, Subscription};
use super::dial::Dial;
use super::faults::{Fault, silent};
use super::known::Known;
use super::lane::{Lane, Pause};
use super::wire;
use crate::domain::{FeedId, Policy};
use crate::metrics::Metrics;
use crate::metrics::labels::RedisLink;
use crate::supervise::{Part, Parts};

/// How often the connection is asked for a sign of life, and unused subscriptions are looked for.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How long a sign of life, a confirmation or a probe may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Channels in one SUBSCRIBE.
const CHUNK: usize = 256;

/// Probes on their way, by their mark.
type Probes = Arc<Mutex<HashMap<u64, oneshot::Sender<()>>>>;

enum Ask {
    Subscribe(FeedId, String, oneshot::Sender<Result<Subscription, Fault>>),
}

/// See the module. Ends with its last owner.
pub(super) struct Hub {
    asks: mpsc::Sender<Ask>,
    probes: Probes,
    channel: String,
    keeper: JoinHandle<()>,
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// What the hub needs from the engine.
pub(super) struct Wiring {
    pub dial: Dial,
    pub lane: Arc<Lane>,
    pub known: Arc<Known>,
    pub defaults: Policy,
    /// The channel of this process's probes.
    pub probe_channel: String,
    /// Where it is told that something is due before everything else.
    pub wake_channels: Vec<String>,
    /// Who is to know of that.
    pub wakes: broadcast::Sender<u64>,
    /// The same for webhooks with something to send.
    pub job_channel: String,
    /// Who is to know of that.
    pub job_wakes: broadcast::Sender<u64>,
    pub metrics: Arc<Metrics>,
    pub parts: Arc<Parts>,
}

impl Hub {
    pub(super) fn open(wiring: Wiring) -> Hub {
        let (asks, asked) = mpsc::channel(256);
        let probes = Probes::default();
        let channel = wiring.probe_channel.clone();
        let keeper = Keeper { wiring, probes: probes.clone(), asked, topics: HashMap::new() };
        let parts = keeper.wiring.parts.clone();
        let kept = parts.vital_task(Part::RedisSubscriptions, keeper.run());
        Hub { asks, probes, channel, keeper: tokio::spawn(kept) }
    }

    /// Subscribes to a feed, whose channel this is. Returns when the server has confirmed it.
    pub(super) async fn subscribe(&self, feed: &FeedId, channel: String) -> Result<Subscription, Fault> {
        let closed = || Fault::stay("the engine is closed; the gateway is stopping");
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.asks.send(Ask::Subscribe(feed.clone(), channel, reply)).await.map_err(|_| closed())?;
            answer.await.unwrap_or_else(|_| Err(closed()))
        };
        match timeout(PATIENCE, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(Fault::stay("Redis did not confirm a subscription in time")),
        }
    }

    /// Publishes a mark and waits until it is back.
    pub(super) async fn probe(&self, lane: &Lane, mark: u64) -> Result<(), Fault> {
        let (reply, back) = oneshot::channel();
        lock(&self.probes).insert(mark, reply);
        let sent = Instant::now();
        let result = async {
            let heard = lane.command(redis::cmd("PUBLISH").arg(&self.channel).arg(mark), PATIENCE).await?;
            if heard == redis::Value::Int(0) {
                return Err(Fault::stay("the subscribing connection to Redis is not there yet, or broken"));
            }
            match timeout(PATIENCE.saturating_sub(sent.elapsed()), back).await {
                Ok(Ok(())) => Ok(()),
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

/// A feed that somebody wants, by its channel.
struct Topic {
    feed: FeedId,
    notices: broadcast::Sender<Notice>,
    /// True once the server confirmed it on the connection that stands.
    confirmed: bool,
    /// Who waits for that.
    waiting: Vec<(Subscription, oneshot::Sender<Result<Subscription, Fault>>)>,
}

struct Keeper {
    wiring: Wiring,
    probes: Probes,
    asked: mpsc::Receiver<Ask>,
    topics: HashMap<String, Topic>,
}

/// One connection and what is under way on it.
struct Standing {
    sink: PubSubSink,
    stream: PubSubStream,
    /// The last sign of life.
    heard: Instant,
    /// When a probe last came back.
    echoed: Instant,
    /// The oldest probe of the heartbeat that was taken by the server and has not come back.
    unheard: Option<Instant>,
}

impl Standing {
    /// The server took a probe: it must come back here, else this connection hears another server
    /// than the one that is written to. It may be back already.
    fn probe_was_taken(&mut self, sent: Option<Instant>) {
        let missing = sent.filter(|sent| *sent > self.echoed);
        self.unheard = self.unheard.or(missing);
    }
}

impl Keeper {
    async fn run(mut self) {
        let (mut pause, mut stood) = (Pause::default(), false);
        loop {
            let why = match self.connect().await {
                Ok(standing) => {
                    if std::mem::replace(&mut stood, true) {
                        self.wiring.metrics.redis_reconnects[RedisLink::Pubsub].inc();
                    }
                    let since = Instant::now();
                    let why = self.hold(standing).await;
                    pause.after(since.elapsed());
                    tracing::warn!(why, "the subscribing connection to Redis ended");
                    why
                }
                Err(fault) => fault.why,
            };
            if self.asked.is_closed() {
                return;
            }
            self.refuse_asks(pause.next(), &why).await;
        }
    }

    /// Connects and subscribes to everything that is wanted.
    async fn connect(&mut self) -> Result<Standing, Fault> {
        let (sink, stream) = self.wiring.dial.pubsub().await?.split();
        self.topics.retain(|_, topic| topic.notices.receiver_count() > 0);
        for topic in self.topics.values_mut() {
            topic.confirmed = false;
        }
        let mut channels: Vec<&str> = self.topics.keys().map(String::as_str).collect();
        channels.push(&self.wiring.probe_channel);
        channels.push(&self.wiring.job_channel);
        channels.extend(self.wiring.wake_channels.iter().map(String::as_str));
        for chunk in channels.chunks(CHUNK) {
            let mut sink = sink.clone();
            match timeout(PATIENCE, sink.subscribe(chunk)).await {
                Ok(done) => done.map_err(|e| super::faults::explain(&self.wiring.dial.addr, &e))?,
                Err(_) => return Err(Fault::leave(silent(&self.wiring.dial.addr))),
            }
        }
        for topic in self.topics.values_mut() {
            topic.confirm();
            let _ = topic.notices.send(Notice::Lost);
        }
        // Nobody knows what was due meanwhile either.
        let _ = self.wiring.wakes.send(0);
        let _ = self.wiring.job_wakes.send(0);
        Ok(Standing { sink, stream, heard: Instant::now(), echoed: Instant::now(), unheard: None })
    }

    /// While there is no connection, whoever asks is told why at once.
    async fn refuse_asks(&mut self, pause: Duration, why: &str) {
        for topic in self.topics.values_mut() {
            for (_, reply) in topic.waiting.drain(..) {
                let _ = reply.send(Err(Fault::stay(why)));
            }
        }
        let until = sleep(pause);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return,
                ask = self.asked.recv() => match ask {
                    Some(Ask::Subscribe(_, _, reply)) => drop(reply.send(Err(Fault::stay(why)))),
                    None => return,
                },
            }
        }
    }

    /// Until the connection is of no use; says why.
    async fn hold(&mut self, mut standing: Standing) -> String {
        let mut beats = interval(HEARTBEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut confirmations = FuturesUnordered::new();
        let mut pings = FuturesUnordered::new();
        let mut probes = FuturesUnordered::new();
        let addr = self.wiring.dial.addr.clone();
        loop {
            tokio::select! {
                message = standing.stream.next() => match message {
                    Some(message) => self.take_in(&mut standing, &message),
                    None => return format!("Redis at {addr} closed the connection; it may be restarting"),
                },
                ask = self.asked.recv() => match ask {
                    Some(Ask::Subscribe(feed, channel, reply)) => {
                        if self.want(feed, &channel, reply) {
                            confirmations.push(subscribe(standing.sink.clone(), channel));
                        }
                    }
                    None => return "the engine is closed".into(),
                },
                Some((channel, confirmed)) = confirmations.next() => match confirmed {
                    Ok(()) => {
                        if let Some(topic) = self.topics.get_mut(&channel) {
                            topic.confirm();
                        }
                    }
                    Err(why) => return why,
                },
                Some(alive) = pings.next() => if alive {
                    standing.heard = Instant::now();
                },
                Some(taken) = probes.next() => standing.probe_was_taken(taken),
                _ = beats.tick() => {
                    if standing.heard.elapsed() > PATIENCE + HEARTBEAT / 2 {
                        return silent(&addr);
                    }
                    if standing.unheard.is_some_and(|sent| sent.elapsed() > PATIENCE) {
                        return format!("Redis at {addr} no longer tells what is published; perhaps it was replaced");
                    }
                    if pings.is_empty() {
                        pings.push(ping(standing.sink.clone()));
                    }
                    if probes.is_empty() && self.wiring.lane.is_up() {
                        probes.push(send_probe(self.wiring.lane.clone(), self.wiring.probe_channel.clone()));
                    }
                    self.let_go(&standing.sink);
                }
            }
        }
    }

    /// Notes that somebody wants a feed; true when the server has to be told.
    fn want(
        &mut self,
        feed: FeedId,
        channel: &str,
        reply: oneshot::Sender<Result<Subscription, Fault>>,
    ) -> bool {
        let known = self.topics.contains_key(channel);
        let topic = self.topics.entry(channel.to_owned()).or_insert_with(|| Topic {
            feed,
            notices: broadcast::channel(NOTICES).0,
            confirmed: false,
            waiting: Vec::new(),
        });
        // From here on nothing is missed, so it is made before the server is asked.
        let subscription = Subscription::new(topic.notices.subscribe());
        if topic.confirmed {
            let _ = reply.send(Ok(subscription));
        } else {
            topic.waiting.push((subscription, reply));
        }
        !known
    }

    /// Unsubscribes from what nobody listens to any more.
    fn let_go(&mut self, sink: &PubSubSink) {
        let unused: Vec<String> = self
            .topics
            .extract_if(|_, topic| topic.confirmed && topic.notices.receiver_count() == 0)
            .map(|(channel, _)| channel)
            .collect();
        for chunk in unused.chunks(CHUNK) {
            // Polled once, here, so that it is on its way before the next SUBSCRIBE. Whether it was
            // confirmed is not waited for: the next sign of life comes after it.
            let _ = sink.clone().unsubscribe(chunk).now_or_never();
        }
    }

    fn take_in(&mut self, standing: &mut Standing, message: &redis::Msg) {
        standing.heard = Instant::now();
        let channel = message.get_channel_name();
        if channel == self.wiring.probe_channel {
            standing.unheard = None;
            standing.echoed = standing.heard;
            let mark = std::str::from_utf8(message.get_payload_bytes()).ok().and_then(|m| m.parse().ok());
            if let Some(reply) = mark.and_then(|mark| lock(&self.probes).remove(&mark)) {
                let _ = reply.send(());
            }
            return;
        }
        let of_jobs = channel == self.wiring.job_channel;
        if of_jobs || self.wiring.wake_channels.iter().any(|wake| wake == channel) {
            let in_ms = std::str::from_utf8(message.get_payload_bytes()).ok().and_then(|ms| ms.parse().ok());
            // Nobody waiting for it is no failure.
            let wakes = if of_jobs { &self.wiring.job_wakes } else { &self.wiring.wakes };
            let _ = wakes.send(in_ms.unwrap_or(0));
            return;
        }
        let Some(topic) = self.topics.get(channel) else { return };
        let told = std::str::from_utf8(message.get_payload_bytes())
            .map_err(|_| wire::Garbled("a message"))
            .and_then(wire::read_message);
        match told {
            Ok(message) => topic.tell(message, &self.wiring),
            Err(wire::Garbled(what)) => {
                tracing::warn!(channel, what, "a message that Tipcast did not write");
                let _ = topic.notices.send(Notice::Lost);
            }
        }
    }
}

impl Topic {
    fn confirm(&mut self) {
        self.confirmed = true;
        for (subscription, reply) in self.waiting.drain(..) {
            let _ = reply.send(Ok(subscription));
        }
    }

    /// Passes on what one call published. Nobody listening is no failure.
    fn tell(&self, message: wire::Message, wiring: &Wiring) {
        if message.lost {
            let _ = self.notices.send(Notice::Lost);
        }
        // Without changes too: what is new is then in the ledger alone.
        if !message.changes.is_empty() || (message.overrides.is_none() && !message.lost) {
            for change in &message.changes {
                wiring.known.received(&self.feed, change);
            }
            let _ = self.notices.send(Notice::Changes(message.changes.into()));
        }
        if let Some(overrides) = message.overrides {
            let policy = wiring.defaults.with(&overrides);
            let _ = self.notices.send(Notice::Policy(Arc::new(policy)));
        }
    }
}

async fn subscribe(mut sink: PubSubSink, channel: String) -> (String, Result<(), String>) {
    let done = match timeout(PATIENCE, sink.subscribe(&channel)).await {
        Ok(done) => done.map_err(|e| e.to_string()),
        Err(_) => Err("Redis did not confirm a subscription in time".into()),
    };
    (channel, done)
}

async fn ping(mut sink: PubSubSink) -> bool {
    matches!(timeout(PATIENCE, sink.ping::<redis::Value>()).await, Ok(Ok(_)))
}

/// Publishes a probe that nobody waits for but the heartbeat. When it was sent, if the server took it.
async fn send_probe(lane: Arc<Lane>, channel: String) -> Option<Instant> {
    let sent = Instant::now();
    lane.command(redis::cmd("PUBLISH").arg(channel).arg(0), PATIENCE).await.ok().map(|_| sent)
}
