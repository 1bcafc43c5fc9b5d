//! The place where scripts run: Redis, whatever is behind it, or the store in this process. Everything above asks this type,
//! and nothing above knows which one it is, but for a few settings that differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::domain::Millis;
use crate::engine::StoreError;
use crate::engine::embedded::{Answer, CallRefusal, EmbeddedStore, Reply, ScriptText, Words};
use crate::engine::protocol::faults::{CLOSED, Fault, FaultKind};
use crate::engine::protocol::scripts::{Call, Use};
use crate::engine::protocol::topics::Topics;
use crate::engine::redis::scan::{Scanned, scan_command};
use crate::engine::redis::shards;
use crate::engine::redis::topology::Topology;

/// The number by which the store in this process is known to [`Topics`]: it never ends before they do.
pub(super) const CONNECTION: u64 = 1;

/// How long the store in this process may take to finish what was accepted.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Channels that may be there before it is looked whether somebody still listens to each.
const CHANNELS: usize = 1_024;

/// A Redis, or the store in this process.
pub(super) enum Backend {
    /// Servers.
    Redis(Arc<Topology>),
    /// This process.
    Embedded(Arc<Embedded>),
}

/// The store in this process, and who listens.
pub(super) struct Embedded {
    store: EmbeddedStore,
    topics: Arc<Topics>,
    /// As many channels are there when it is looked again whether somebody listens to each.
    most: AtomicUsize,
}

impl Embedded {
    /// A store whose messages already go to `topics`.
    pub fn new(store: EmbeddedStore, topics: Arc<Topics>) -> Embedded {
        Embedded { store, topics, most: AtomicUsize::new(CHANNELS) }
    }

    /// What the store in this process publishes is heard from the moment on in which somebody wants to.
    fn listen(&self, channel: &str) {
        if self.topics.len() >= self.most.load(Ordering::Relaxed) {
            self.topics.unused(CONNECTION);
            self.most.store(2 * self.topics.len() + CHANNELS, Ordering::Relaxed);
        }
        self.topics.confirm(CONNECTION, channel);
    }

    async fn command(&self, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        read(self.store.command(words(command), within).await)
    }
}

impl Backend {
    /// Runs a script where its first key is.
    pub async fn script(&self, call: &Call, within: Duration) -> Result<Value, Fault> {
        match self {
            Backend::Redis(net) => net.script(call, within).await,
            Backend::Embedded(local) => {
                let (keys, args) = call.words(local.store.life());
                let reads = call.script.header().data == Some(Use::Reads);
                let script = ScriptText {
                    name: call.script.name,
                    text: call.script.whole(),
                    reads,
                    room: call.room(),
                };
                let within = if call.reads() { READS_WITHIN.max(within) } else { within };
                read(local.store.script(script, keys, args, within).await)
            }
        }
    }

    /// Runs a command about one key.
    pub async fn command(&self, key: &str, command: &Cmd, within: Duration) -> Result<Value, Fault> {
        match self {
            Backend::Redis(net) => net.command(key, command, within).await,
            Backend::Embedded(local) => local.command(command, within).await,
        }
    }

    /// Runs commands that change nothing, each about the slot beside it, all at the same time. Each has an answer of its own.
    pub async fn commands(&self, commands: &[(u16, Cmd)], within: Duration) -> Vec<Result<Value, Fault>> {
        match self {
            Backend::Redis(net) => net.commands(commands, within).await,
            Backend::Embedded(local) => {
                let all = commands.iter().map(|(_, command)| local.command(command, within));
                futures_util::future::join_all(all).await
            }
        }
    }

    /// Room for one more call about keys of this slot, where each shard has a bound of its own.
    pub fn permit(&self, slot: u16) -> Result<Option<OwnedSemaphorePermit>, StoreError> {
        match self {
            Backend::Redis(net) => net.permit(slot).map(Some),
            Backend::Embedded(_) => Ok(None),
        }
    }

    /// True where there is more than one shard, or may be.
    pub fn is_cluster(&self) -> bool {
        matches!(self, Backend::Redis(net) if net.is_cluster())
    }

    /// The slot in which what is about all feeds of a shard is kept, of the shard that has `slot`.
    pub fn home(&self, slot: u16) -> u16 {
        match self {
            Backend::Redis(net) => net.home(slot),
            Backend::Embedded(_) => 0,
        }
    }

    /// Every shard's home.
    pub fn homes(&self) -> Vec<u16> {
        match self {
            Backend::Redis(net) => net.homes(),
            Backend::Embedded(_) => vec![0],
        }
    }

    /// Whether the shard that has this key answers, as far as is known without asking it.
    pub fn is_up(&self, key: &str) -> bool {
        match self {
            Backend::Redis(net) => net.is_up(key),
            Backend::Embedded(_) => true,
        }
    }

    /// Why no shard is known at all.
    pub fn why_empty(&self) -> Fault {
        match self {
            Backend::Redis(net) => net.why_empty(),
            Backend::Embedded(_) => Fault::stay(CLOSED),
        }
    }

    /// This channel, of this slot, was added to what this process wants to hear. Why it cannot be had now, if it cannot.
    pub fn listen(&self, slot: u16, channel: &str) -> Result<(), Fault> {
        match self {
            Backend::Redis(net) => net.listen(slot),
            Backend::Embedded(local) => {
                local.listen(channel);
                Ok(())
            }
        }
    }

    /// Writes something on every shard, and hears from it. Empty while no shard is known.
    pub async fn probe_all(&self) -> Vec<Result<(), Fault>> {
        match self {
            Backend::Redis(net) => net.probe_all().await,
            Backend::Embedded(local) => vec![local.probe().await],
        }
    }

    /// [`Backend::probe_all`] on the shard that has this slot.
    pub async fn probe_slot(&self, slot: u16) -> Result<(), Fault> {
        match self {
            Backend::Redis(net) => net.probe_slot(slot).await,
            Backend::Embedded(local) => local.probe().await,
        }
    }

    /// The shards at this moment, for work that goes through all of them.
    pub fn shards(&self) -> BackendShards {
        match self {
            Backend::Redis(net) => BackendShards::Redis(net.shards()),
            Backend::Embedded(local) => BackendShards::Embedded(local.clone()),
        }
    }

    /// The time by which windows run, in milliseconds since 1970, where it is another than the wall's.
    pub fn steady(&self) -> Option<i64> {
        match self {
            Backend::Redis(_) => None,
            Backend::Embedded(local) => Some(local.store.steady()),
        }
    }

    /// What somebody should see to, though everything works.
    pub fn warning(&self) -> Option<String> {
        let Backend::Embedded(local) = self else { return None };
        if let Some(set_by) = local.store.clock_was_set_by(Millis::now().0) {
            return Some(format!(
                "the clock of this machine was set by {} s: ids and locks go on by a steady one, holds and schedules end by the \
                 new time, early where it was set forward; look at its time service",
                set_by / 1_000
            ));
        }
        let (bytes, most) = local.store.memory();
        (bytes / 9 >= most / 10).then(|| {
            format!(
                "the store's data takes {:.1} of {:.1} MiB; when it is full gifts are refused: raise [embedded] max_memory",
                mib(bytes),
                mib(most)
            )
        })
    }

    /// Finishes what was accepted, and lets it go.
    pub async fn close(&self) {
        match self {
            Backend::Redis(net) => net.close(),
            Backend::Embedded(local) => {
                // A disk that hangs does not delay the end: what was answered is on it.
                if timeout(CLOSE_TIMEOUT, local.store.close()).await.is_err() {
                    tracing::warn!(
                        "the disk of the data folder does not answer; what nobody was answered is left behind"
                    );
                }
            }
        }
    }
}

impl Embedded {
    async fn probe(&self) -> Result<(), Fault> {
        read(self.store.prove(PROBE_TIMEOUT).await).map(drop)
    }
}

/// How long somebody who reads a feed waits for a commit that hangs. What takes longer comes no more.
const READS_WITHIN: Duration = Duration::from_secs(30);

/// How long a row may take that is written as a sign that writing goes.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The shards at one moment, by number.
pub(super) enum BackendShards {
    /// Servers.
    Redis(shards::Shards),
    /// The store in this process, which is one.
    Embedded(Arc<Embedded>),
}

impl BackendShards {
    pub fn count(&self) -> usize {
        match self {
            BackendShards::Redis(shards) => shards.count(),
            BackendShards::Embedded(_) => 1,
        }
    }

    /// One word, another one when slots have other owners.
    pub fn layout(&self) -> String {
        match self {
            BackendShards::Redis(shards) => shards.layout(),
            BackendShards::Embedded(_) => "local".into(),
        }
    }

    /// One step through a shard's keys that match `pattern`. None for an answer that is none.
    pub async fn scan(
        &self,
        shard: usize,
        cursor: u64,
        (pattern, count): (&str, u32),
        within: Duration,
    ) -> Result<Option<Scanned>, Fault> {
        let local = match self {
            BackendShards::Redis(shards) => {
                return shards.scan(shard, cursor, (pattern, count), within).await;
            }
            BackendShards::Embedded(local) => local,
        };
        let said = local.command(&scan_command(cursor, pattern, count), within).await?;
        // Its cursors mean the same after a restart.
        Ok(Scanned::read(said, local.store.life().to_owned()))
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn words(command: &Cmd) -> Words {
    let mut words = Words::default();
    for arg in command.args_iter() {
        let redis::Arg::Simple(word) = arg else { continue };
        words.push(&[word]);
    }
    words
}

fn read(answer: Answer) -> Result<Value, Fault> {
    match answer {
        Ok(Reply::Error(said)) | Err(CallRefusal::Failed(said)) => Err(refused(&said)),
        Ok(reply) => Ok(value(reply)),
        Err(CallRefusal::Unavailable(why)) => Err(Fault::stay(why)),
        Err(CallRefusal::ReadOnly(why)) => Err(Fault { kind: FaultKind::ReadOnly, ..Fault::stay(why) }),
        Err(CallRefusal::Full(bytes, most)) => Err(Fault {
            kind: FaultKind::Full,
            ..Fault::stay(format!(
                "its data takes {:.1} of {:.1} MiB; raise [embedded] max_memory, or have less kept (shorter idempotency windows, ledgers \
                 that are read)",
                mib(bytes),
                mib(most)
            ))
        }),
        Err(CallRefusal::Overloaded(what)) => Err(Fault::overloaded(what)),
    }
}

/// What a script or a command said that failed. All of it is about what it met in the store.
fn refused(said: &str) -> Fault {
    let (code, what) = said.split_once(' ').unwrap_or((said, ""));
    match code {
        "DAMAGED" => Fault::data(format!(
            "the store holds {what} that Tipcast did not write; `tipcast store check` says more, restore the feed from a backup"
        )),
        "WRONGTYPE" => Fault::data(
            "a key of the store holds something that Tipcast did not write; restore it from a backup",
        ),
        _ => Fault::data(format!("the store answered: {said}")),
    }
}

fn value(reply: Reply) -> Value {
    match reply {
        Reply::Nil => Value::Nil,
        Reply::Int(number) => Value::Int(number),
        Reply::Bulk(bytes) => Value::BulkString(bytes),
        Reply::Status("OK") => Value::Okay,
        Reply::Status(word) => Value::SimpleString(word.into()),
        Reply::Array(all) => Value::Array(all.into_iter().map(value).collect()),
        // Inside an array: no script of ours does that.
        Reply::Error(said) => Value::SimpleString(said),
    }
}
