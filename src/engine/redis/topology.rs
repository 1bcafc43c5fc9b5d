//! Which server has which slot, and calls that find their way there. One Redis, and a primary that sentinels watch,
//! are topologies with one shard, so nothing above asks what kind it is.
//!
//! The map is a value that is replaced as a whole: no caller waits for a lock while the servers are asked. It is
//! made anew when a call is redirected, a connection is lost, a subscription is taken away, and now and then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::connection::{ConnectionState, Trip};
use super::dial::{Dial, DialError};
use super::discovery::discover;
use super::form::{Judged, Marks};
use super::layout::Layout;
use super::shard::{Shard, ShardConfig};
use crate::engine::protocol::address::{Endpoint, ServerKind};
use crate::engine::protocol::faults::{CLOSED, Fault, FaultKind};
use crate::engine::protocol::slots::slot_of_key;
use crate::metrics::Metrics;
use crate::metrics::labels::ShardState;
use crate::supervise::Part;
use crate::supervise::jitter;

/// How often the map is made anew though nothing seems to have changed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The same for sentinels: a primary that was replaced goes on taking writes until it, or this process, learns of it.
const REFRESH_SENTINEL: Duration = Duration::from_secs(2);

/// And while a shard is away.
const REFRESH_DOWN: Duration = Duration::from_millis(400);

/// Refreshes are at least so far apart.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(50);

/// Redirections that one call follows before it pauses.
const MAX_REDIRECTS: usize = 4;

/// Pauses before a call is made again that the server did not run.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));

/// The shards at one moment.
pub(super) struct Map {
    pub(super) layout: Arc<Layout>,
    /// In the order of the layout's primaries.
    pub(super) shards: Vec<Arc<Shard>>,
    /// Why there is no shard for a slot.
    why: Arc<str>,
}

impl Map {
    fn empty(why: &str) -> Map {
        Map { layout: Arc::default(), shards: Vec::new(), why: why.into() }
    }

    /// The shard that has a slot.
    fn owner(&self, slot: u16) -> Option<&Arc<Shard>> {
        self.shards.get(self.layout.place(slot)?)
    }
}

/// The shards of a Redis installation, kept up to date in the background.
pub struct Topology {
    map: watch::Receiver<Arc<Map>>,
    refresh: Arc<Notify>,
    /// Servers that a call was sent to before the map names them.
    newcomers: Mutex<HashMap<Endpoint, Arc<Shard>>>,
    config: ShardConfig,
    tell: watch::Sender<Arc<Map>>,
    tell_layout: watch::Sender<Arc<Layout>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
    /// Whether what is stored has this version's form, once that is known: nothing runs before.
    judged: OnceLock<Judged>,
    /// Why it is not known.
    unjudged: Mutex<Fault>,
}

impl Drop for Topology {
    fn drop(&mut self) {
        self.close();
    }
}

impl Topology {
    /// Asks who there is. Nobody answering is no failure: it is tried again in the background.
    pub async fn open(
        config: impl FnOnce(watch::Receiver<Arc<Layout>>, Arc<Notify>) -> ShardConfig,
    ) -> Result<Arc<Topology>, String> {
        let refresh = Arc::new(Notify::new());
        let (tell, map) = watch::channel(Arc::new(Map::empty("Redis was not found yet")));
        let (tell_layout, layout) = watch::channel(Arc::default());
        let config = config(layout, refresh.clone());
        let (newcomers, keeper) = (Mutex::default(), Mutex::default());
        let (judged, unjudged) = (OnceLock::new(), Mutex::new(Fault::stay("Redis was not found yet")));
        let topology =
            Topology { map, refresh, newcomers, config, tell, tell_layout, keeper, judged, unjudged };
        let topology = Arc::new(topology);
        if let Err(DialError::Never(why)) = topology.look().await {
            return Err(why);
        }
        for shard in topology.map().shards.clone() {
            if let ConnectionState::Refused(why) = shard.tried().await {
                return Err(why.to_string());
            }
        }
        if let Some(Judged::Foreign(why)) = topology.judge_once().await {
            return Err(why.clone());
        }
        topology.note();
        let parts = topology.config.connection.parts.clone();
        let keeper = tokio::spawn(parts.vital_task(Part::RedisCommands, keep(Arc::downgrade(&topology))));
        *topology.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(keeper);
        Ok(topology)
    }

    /// Checks once whether the stored data has this version's form. `None`: not known yet.
    async fn judge_once(&self) -> Option<&Judged> {
        let map = self.map();
        if self.judged.get().is_none() && !map.shards.is_empty() {
            match self.marks(&map).judge().await {
                Ok(judged) => _ = self.judged.set(judged),
                Err(fault) => *self.unjudged.lock().unwrap_or_else(PoisonError::into_inner) = fault,
            }
        }
        self.judged.get()
    }

    pub(super) fn marks<'a>(&'a self, map: &'a Map) -> Marks<'a> {
        Marks {
            shards: &map.shards,
            layout: &map.layout,
            is_cluster: self.is_cluster(),
            prefix: self.prefix(),
            call_timeout: self.call_timeout(),
            purpose: self.config.purpose,
        }
    }

    /// What was moved in is whole: gateways may begin on it.
    pub async fn end_move(&self) -> Result<(), Fault> {
        self.marks(&self.map()).end_move().await
    }

    /// Why nothing is to run, if so.
    fn is_usable(&self) -> Result<(), Fault> {
        match self.judged.get() {
            Some(Judged::Good) => Ok(()),
            Some(Judged::Foreign(why)) => Err(Fault::stay(why)),
            // The search for servers reports why there is none.
            None if self.map.borrow().shards.is_empty() => Ok(()),
            None => Err(self.unjudged.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        }
    }

    /// Ends every connection.
    pub fn close(&self) {
        if let Some(keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            keeper.abort();
        }
        self.newcomers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.tell.send_replace(Arc::new(Map::empty(CLOSED)));
    }

    /// Who has which slot now.
    pub(super) fn map(&self) -> Arc<Map> {
        self.map.borrow().clone()
    }

    /// Who has which slots, from now on.
    pub(super) fn maps(&self) -> watch::Receiver<Arc<Map>> {
        self.map.clone()
    }

    /// True where there is more than one shard, or may be.
    pub fn is_cluster(&self) -> bool {
        matches!(self.dial().target.kind, ServerKind::Cluster(_))
    }

    /// What keys and channels begin with.
    pub(super) fn prefix(&self) -> &str {
        &self.config.prefix
    }

    /// How long one call may take.
    pub(super) fn call_timeout(&self) -> Duration {
        self.config.connection.call_timeout
    }

    fn dial(&self) -> &Dial {
        &self.config.connection.dial
    }

    /// The shard that has a slot, or why no shard has it.
    pub(super) fn owner(&self, slot: u16) -> Result<Arc<Shard>, Fault> {
        self.is_usable()?;
        let map = self.map.borrow();
        map.owner(slot).cloned().ok_or_else(|| Fault::stay(&*map.why))
    }

    /// Runs one piece of work where its slot is. Where that moved, it follows; what a server did not run for
    /// reasons that pass is run again, within the time. What may have run is never run again.
    pub(super) async fn run(&self, slot: u16, work: Trip<'_>, within: Duration) -> Result<Value, Fault> {
        let until = Instant::now() + within;
        let mut redirected: Option<(Arc<Shard>, bool)> = None;
        let (mut hops, mut pause) = (0, RETRY_PAUSES.0);
        loop {
            let (shard, asking) = match redirected.take() {
                Some(there) => there,
                None => (self.owner(slot)?, false),
            };
            let left = until.saturating_duration_since(Instant::now());
            let fence = shard.fence.as_ref().filter(|_| work.promises()).map(|fence| (fence, fence.life()));
            let fault = match shard.connection_of(slot).run(work, asking, left).await {
                Ok((value, server)) => {
                    if let Some((fence, life)) = fence {
                        fence.pass(life, server).await?;
                    }
                    return Ok(value);
                }
                Err(fault) => fault,
            };
            let may_follow = self.is_cluster();
            match &fault.kind {
                FaultKind::Moved(to) if may_follow => {
                    self.refresh.notify_one();
                    redirected = Some((self.server_at(to), false));
                }
                FaultKind::Ask(to) if may_follow => redirected = Some((self.server_at(to), true)),
                FaultKind::Again => self.refresh.notify_one(),
                _ => return Err(fault),
            }
            hops += 1;
            if redirected.is_none() || hops > MAX_REDIRECTS {
                let pausing = jitter(pause);
                pause = (pause * 2).min(RETRY_PAUSES.1);
                if Instant::now() + pausing >= until {
                    return Err(fault);
                }
                sleep(pausing).await;
            }
        }
    }

    /// [`Topology::run`] for a command about one key.
    pub async fn command(&self, key: &str, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        self.run(slot_of_key(key), Trip::Command(command), within).await
    }

    /// Runs commands, each about the slot beside it; what may have run is never run again: one trip to every shard, all at the same
    /// time. Each has an answer of its own, so a shard that is away fails its own commands only.
    pub async fn commands(&self, commands: &[(u16, Cmd)], within: Duration) -> Vec<Result<Value, Fault>> {
        if let Err(fault) = self.is_usable() {
            return vec![Err(fault); commands.len()];
        }
        let map = self.map();
        let mut groups: HashMap<&Endpoint, (&Arc<Shard>, Vec<usize>)> = HashMap::new();
        let mut answers: Vec<Option<Result<Value, Fault>>> = vec![None; commands.len()];
        for (at, (slot, _)) in commands.iter().enumerate() {
            match map.owner(*slot) {
                Some(shard) => groups.entry(&shard.endpoint).or_insert((shard, Vec::new())).1.push(at),
                None => answers[at] = Some(Err(Fault::stay(&*map.why))),
            }
        }
        let trips = groups.into_values().map(async |(shard, places)| {
            let mut pipe = redis::pipe();
            for at in &places {
                pipe.add_command(commands[*at].1.clone());
            }
            (places, shard.connection().commands(&pipe, within).await)
        });
        for (places, replies) in futures_util::future::join_all(trips).await {
            match replies {
                Ok(replies) => {
                    places.into_iter().zip(replies).for_each(|(at, reply)| answers[at] = Some(reply))
                }
                Err(fault) => places.into_iter().for_each(|at| answers[at] = Some(Err(fault.clone()))),
            }
        }
        let mut all = Vec::with_capacity(commands.len());
        for ((slot, command), answer) in commands.iter().zip(answers) {
            all.push(match answer {
                // What did not run there runs where it belongs.
                Some(Err(fault))
                    if self.is_cluster() && !matches!(fault.kind, FaultKind::Unclear | FaultKind::Data) =>
                {
                    self.run(*slot, Trip::Command(command), within).await
                }
                Some(answer) => answer,
                None => Err(Fault::stay("Redis answered less than it was asked")),
            });
        }
        all
    }

    /// The server there, whether the map knows it or not.
    fn server_at(&self, endpoint: &Endpoint) -> Arc<Shard> {
        if let Some(shard) = self.map.borrow().shards.iter().find(|shard| shard.endpoint == *endpoint) {
            return shard.clone();
        }
        let mut newcomers = self.newcomers.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || Arc::new(Shard::open(endpoint.clone(), &self.config));
        newcomers.entry(endpoint.clone()).or_insert_with(open).clone()
    }

    /// Asks who has which slots, and puts that in place of what was known.
    async fn look(&self) -> Result<(), DialError> {
        let before = self.map();
        let mut known = Vec::new();
        if self.is_cluster() {
            // A call was sent there because a server said that it has the slot: it knows more than others.
            let newcomers = self.newcomers.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(newcomers.values().map(|it| (it.endpoint.clone(), it.is_up())));
        }
        known.extend(before.shards.iter().map(|it| (it.endpoint.clone(), it.is_up())));
        let primaries = match discover(self.dial(), &known).await {
            Ok(primaries) => primaries,
            Err(refusal) => {
                if before.shards.is_empty() {
                    let why = match &refusal {
                        DialError::NotNow(fault) => &fault.why,
                        DialError::Never(why) => why,
                    };
                    self.tell.send_replace(Arc::new(Map::empty(why)));
                }
                return Err(refusal);
            }
        };
        if primaries == before.layout.primaries {
            return Ok(());
        }
        let names: Vec<_> = primaries.iter().map(|primary| primary.endpoint.to_string()).collect();
        tracing::info!(primaries = ?names, "who has which slots of Redis is another now");
        // The layout first: what a new shard subscribes to depends on it.
        let layout = Arc::new(Layout::of(primaries));
        self.tell_layout.send_replace(layout.clone());
        let shards = layout.primaries.iter().map(|primary| self.server_at(&primary.endpoint)).collect();
        let why = "no node of the Redis cluster has this feed's slot; see CLUSTER SLOTS";
        self.tell.send_replace(Arc::new(Map { layout, shards, why: why.into() }));
        self.newcomers.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }

    /// Updates the metrics.
    fn note(&self) {
        let map = self.map();
        let up = map.shards.iter().filter(|shard| shard.is_up()).count();
        let metrics: &Metrics = &self.config.connection.metrics;
        metrics.redis_shards[ShardState::Up].set(up as i64);
        metrics.redis_shards[ShardState::Down].set((map.shards.len() - up) as i64);
        metrics.redis_uncovered_slots.set(map.layout.uncovered() as i64);
    }

    /// Until the map is to be made anew at the latest.
    fn pause(&self) -> Duration {
        let map = self.map();
        let is_known = self.judged.get().is_some();
        if !is_known || map.shards.is_empty() || map.shards.iter().any(|shard| !shard.is_up()) {
            return jitter(REFRESH_DOWN);
        }
        match self.dial().target.kind {
            ServerKind::Sentinel(..) => jitter(REFRESH_SENTINEL),
            _ => jitter(REFRESH_INTERVAL),
        }
    }
}

/// Keeps the map true for as long as somebody has the topology.
async fn keep(topology: std::sync::Weak<Topology>) {
    let mut said = String::new();
    loop {
        let Some((pause, refresh)) = topology.upgrade().map(|it| (it.pause(), it.refresh.clone())) else {
            return;
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = refresh.notified() => sleep(MIN_REFRESH_INTERVAL).await,
        }
        let Some(topology) = topology.upgrade() else { return };
        let why = match topology.look().await {
            // A Redis that was away when this process began.
            Ok(()) => match topology.judge_once().await {
                Some(Judged::Foreign(why)) => why.clone(),
                _ => String::new(),
            },
            Err(DialError::NotNow(fault)) => fault.why,
            Err(DialError::Never(why)) => why,
        };
        if why != said {
            if !why.is_empty() {
                tracing::warn!(why, "Redis is of no use now");
            }
            said = why;
        }
        topology.note();
    }
}
