//! Moving what indexes hold to where it belongs, in a cluster. Each shard has one part of every index, in the slot that is
//! its home. When slots move, a shard may get another home, and a feed another shard: what was registered before lies in a
//! part that is not looked into, or on a shard with which the feed no longer shares its fate.
//!
//! Every node goes through all slots when it starts and whenever slots moved, and again a little later, because nodes that
//! had not heard of it yet may have registered something. That is one EXISTS for each slot, and no list of parts has to be kept.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::Value;
use tokio::time::sleep;

use crate::domain::{FeedId, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::{PARTS_MAX, Part, SharedIndex};
use crate::engine::protocol::slots::slot_of_key;
use crate::engine::redis::shards::{Moves, Shards};
use crate::engine::store::due::index::{self as due, DueIndex};
use crate::engine::store::reports::groups::{note, unnote};
use crate::engine::store::reports::index::{self as jobs, JobIndex};
use crate::engine::store::runner::Runner;

/// By then every node knows that slots moved.
const TOPOLOGY_SETTLE_TIME: Duration = Duration::from_secs(15);

/// How often all slots are gone through though nothing moved: a node that had not heard of a move may have died before it
/// could bring what it had registered where it belongs.
const AT_LEAST: Duration = Duration::from_secs(6 * 3_600);

/// Slots asked about in one trip.
const SLOTS_PER_TRIP: usize = 512;

/// Names of a list that are moved in one trip.
const NAMES_PER_TRIP: usize = 256;

/// Moves index entries of feeds to the shards that have the feeds.
pub(super) struct Rehoming {
    pub runner: Arc<Runner>,
    pub due: Arc<DueIndex>,
    pub jobs: Arc<JobIndex>,
}

/// Goes through all slots whenever it may be needed, for as long as somebody has the store.
pub(super) async fn keep_rehoming(rehoming: Weak<Rehoming>, mut moves: Moves) {
    let mut again = true;
    loop {
        let Some(it) = rehoming.upgrade() else { return };
        it.due.turns.listen();
        it.jobs.turns.listen();
        let all = {
            let shards = moves.shards();
            it.go_through(&shards).await
        };
        drop(it);
        let pause = if again || !all { TOPOLOGY_SETTLE_TIME } else { AT_LEAST };
        tokio::select! {
            () = sleep(pause) => again = false,
            moved = moves.moved() => match moved {
                true => again = true,
                false => return,
            },
        }
    }
}

impl Rehoming {
    /// True when every slot was gone through.
    async fn go_through(&self, shards: &Shards) -> bool {
        let mut all = shards.count() > 0;
        // What a store of one server had that was moved into a cluster.
        for part in (0..PARTS_MAX).map(Part::Named) {
            all &= self.move_part(part).await.is_ok();
        }
        for shard in 0..shards.count() {
            if let Err(fault) = self.go_through_shard(shards, shard).await {
                tracing::debug!(why = fault.why, "what a shard has of indexes is looked through later");
                all = false;
            }
        }
        all
    }

    async fn go_through_shard(&self, shards: &Shards, shard: usize) -> Result<(), Fault> {
        let home = shards.home(shard);
        for slots in shards.slots(shard).chunks(SLOTS_PER_TRIP) {
            let ask = |slot: &u16| {
                let mut exists = redis::cmd("EXISTS");
                exists.arg(&self.runner.keys.whole_part(Part::Slot(*slot)));
                exists
            };
            let asks: Vec<_> = slots.iter().map(ask).collect();
            let replies = shards.commands(shard, &asks, self.runner.options.call_timeout).await?;
            for (slot, reply) in slots.iter().zip(replies) {
                if reply? == Value::Int(0) {
                    continue;
                }
                self.move_part(Part::Slot(*slot)).await?;
                if Some(*slot) != home {
                    let (keys, part) = (&self.runner.keys, Part::Slot(*slot));
                    let [all, version] = keys.hooks_copy(part);
                    let copies = [all, version, keys.signing_key_copy(part)];
                    let _: u64 = self.runner.get(&copies[0], redis::cmd("DEL").arg(&copies)).await?;
                }
            }
        }
        Ok(())
    }

    async fn move_part(&self, part: Part) -> Result<(), Fault> {
        let (now, keys) = (Millis::now(), &self.runner.keys);
        self.due.turns.move_part(part, due::read_member, |feed| feed, now).await?;
        self.jobs.turns.move_part(part, jobs::read_member, |job| &job.feed, now).await?;
        let first = |name: &str| name.split(' ').next().and_then(|feed| feed.parse().ok());
        let last = |name: &str| name.split(' ').next_back().and_then(|feed| feed.parse().ok());
        self.move_names(part, SharedIndex::Hooks, |part| keys.hook_feeds(part), first).await?;
        self.move_names(part, SharedIndex::Hooks, |part| keys.letter_feeds(part), last).await?;
        self.move_names(part, SharedIndex::Groups, |part| keys.groups(part), first).await?;
        self.move_names(part, SharedIndex::Feeds, |part| keys.feed_names(part), first).await
    }

    async fn move_names(
        &self,
        part: Part,
        what: SharedIndex,
        list: impl Fn(Part) -> String,
        feed_of: impl Fn(&str) -> Option<FeedId>,
    ) -> Result<(), Fault> {
        let (from, mut stay) = (list(part), 0);
        loop {
            let mut range = redis::cmd("ZRANGE");
            range.arg(&from).arg(stay).arg(stay + NAMES_PER_TRIP - 1);
            let names: Vec<String> = self.runner.get(&from, &range).await?;
            if names.is_empty() {
                return Ok(());
            }
            for name in names {
                let to = feed_of(&name).map(|feed| list(self.runner.part_of(what, &feed)));
                match to.filter(|to| slot_of_key(to) != slot_of_key(&from)) {
                    Some(to) => {
                        note(&self.runner, &to, &name).await?;
                        unnote(&self.runner, &from, &name).await?;
                    }
                    None => stay += 1,
                }
            }
        }
    }
}
