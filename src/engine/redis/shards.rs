//! What the store asks of the place where its scripts run, whatever is behind it: one Redis, sentinels, a cluster.
//! Nothing above this file knows of servers, slots' owners or connections.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::connection::Trip;
use super::scan::{Scanned, scan_command};
use super::shard::Shard;
use super::topology::{Map, Topology};
use crate::engine::StoreError;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::Call;
use crate::engine::protocol::slots::slot_of_key;
use crate::engine::protocol::tags::random;

impl Topology {
    /// Runs a script where its first key is.
    pub async fn script(&self, call: &Call, within: Duration) -> Result<Value, Fault> {
        self.run(slot_of_key(call.first_key()), Trip::Script(call), within).await
    }

    /// Room for one more call about keys of this slot. Each shard has bounds of its own, so that one that is slow takes
    /// no other's.
    pub fn permit(&self, slot: u16) -> Result<OwnedSemaphorePermit, StoreError> {
        self.owner(slot)?.place().ok_or(StoreError::Overloaded("queue of calls to Redis"))
    }

    /// The slot in which what is about all feeds of a shard is kept, of the shard that has `slot`.
    pub fn home(&self, slot: u16) -> u16 {
        self.map().layout.home(slot)
    }

    /// Every shard's home.
    pub fn homes(&self) -> Vec<u16> {
        self.map().layout.homes().collect()
    }

    /// Whether the shard that has this key answers, as far as is known without asking it.
    pub fn is_up(&self, key: &str) -> bool {
        self.owner(slot_of_key(key)).is_ok_and(|shard| shard.is_up())
    }

    /// Why no shard is known at all.
    pub fn why_empty(&self) -> Fault {
        self.owner(0).err().unwrap_or_else(|| Fault::stay("Redis was not found yet"))
    }

    /// A channel of this slot was added to what this process wants to hear. Why it cannot be had now, if it cannot.
    pub fn listen(&self, slot: u16) -> Result<(), Fault> {
        self.owner(slot)?.subscriber.look()
    }

    /// A published mark that comes back and a write, on every shard; also, where the operator wants that, that
    /// replicas are there. Empty while no shard is known.
    pub async fn probe_all(&self) -> Vec<Result<(), Fault>> {
        let map = self.map();
        let probes = map.shards.iter().map(|shard| self.probe(shard));
        futures_util::future::join_all(probes).await
    }

    /// [`Topology::probe_all`] on the shard that has this slot.
    pub async fn probe_slot(&self, slot: u16) -> Result<(), Fault> {
        self.probe(&*self.owner(slot)?).await
    }

    async fn probe(&self, shard: &Shard) -> Result<(), Fault> {
        let map = self.map();
        let marks = self.marks(&map);
        let life = shard.fence.as_ref().map(|fence| (fence, fence.life()));
        // Why writes fail says more than why notices do.
        shard.connection().stands().await?;
        // A server that lost everything has its mark again.
        let publish = async |channel: &str, word| marks.probe(shard, channel, word).await;
        let server = shard.subscriber.probe(random(), publish).await?;
        match life {
            Some((fence, life)) => fence.pass(life, server).await,
            None => Ok(()),
        }
    }

    /// The shards at this moment, for work that goes through all of them.
    pub fn shards(&self) -> Shards {
        Shards(self.map())
    }

    /// Changes whenever slots get other owners.
    pub fn moves(&self) -> Moves {
        Moves(self.maps())
    }
}

/// See [`Topology::moves`].
pub struct Moves(watch::Receiver<Arc<Map>>);

impl Moves {
    /// The shards now; what follows counts as a move.
    pub fn shards(&mut self) -> Shards {
        Shards(self.0.borrow_and_update().clone())
    }

    /// Waits for a move. False when the store was closed.
    pub async fn moved(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

/// The shards at one moment, by number.
pub struct Shards(Arc<Map>);

impl Shards {
    pub fn count(&self) -> usize {
        self.0.shards.len()
    }

    /// One word, another one when slots have other owners.
    pub fn layout(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for primary in &self.0.layout.primaries {
            (primary.endpoint.to_string(), &primary.slots).hash(&mut hasher);
        }
        format!("{:x}", hasher.finish())
    }

    /// The slots of a shard.
    pub fn slots(&self, shard: usize) -> Vec<u16> {
        self.0.layout.primaries[shard].slots.iter().cloned().flatten().collect()
    }

    /// The slot of a shard in which what is about all of its feeds is kept.
    pub fn home(&self, shard: usize) -> Option<u16> {
        self.0.layout.home_of(&self.0.shards[shard].endpoint)
    }

    /// One step through a shard's keys that match `pattern`. None for an answer that is none.
    pub async fn scan(
        &self,
        shard: usize,
        cursor: u64,
        (pattern, count): (&str, u32),
        within: Duration,
    ) -> Result<Option<Scanned>, Fault> {
        let scan = scan_command(cursor, pattern, count);
        let connection = self.0.shards[shard].connection();
        let (said, server) = connection.run(Trip::Command(&scan), false, within).await?;
        Ok(Scanned::read(said, server.word()))
    }

    /// Runs commands that change nothing on one shard, in one trip.
    pub async fn commands(
        &self,
        shard: usize,
        commands: &[Cmd],
        within: Duration,
    ) -> Result<Vec<Result<Value, Fault>>, Fault> {
        let mut pipe = Pipeline::with_capacity(commands.len());
        commands.iter().for_each(|command| _ = pipe.add_command(command.clone()));
        self.0.shards[shard].connection().commands(&pipe, within).await
    }
}
