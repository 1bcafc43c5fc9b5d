//! The index of feeds by name. Names get there soon after the first write of a process to a feed, so that no write waits
//! for another key's shard. In a cluster each shard has the names of its own feeds.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::cmd;

use crate::domain::FeedId;
use crate::engine::NameRange;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::{Part, SharedIndex};
use crate::engine::store::reports::groups::noted_everywhere;
use crate::engine::store::runner::Runner;
use crate::metrics::labels::Operation;

/// How often the name of a feed that goes on is written anew: the index may have been lost.
const RENEW_INTERVAL: Duration = Duration::from_secs(600);

/// Names that are remembered as written, and names that wait. Beyond, all are forgotten and written anew, and the next
/// write to a feed makes its name wait.
const MAX_NAMES: usize = 100_000;

/// Names written in one command.
const NAMES_PER_COMMAND: usize = 256;

/// The names of feeds.
pub struct FeedNames {
    pub(super) runner: Arc<Runner>,
    written: Mutex<WrittenNames>,
}

#[derive(Default)]
struct WrittenNames {
    /// Names that the index has, and since when.
    done: HashMap<FeedId, Instant>,
    /// Names that it may not have.
    waiting: HashSet<FeedId>,
}

/// Whether this operation may be the first that a feed knows.
fn makes_feed(operation: Operation) -> bool {
    use Operation::{
        BeginSession, Block, Claim, Control, DefineDrop, Hooks, Publish, PutGoal, SetPolicy, Sources,
    };
    matches!(
        operation,
        Publish | Claim | DefineDrop | PutGoal | BeginSession | SetPolicy | Control | Block | Hooks | Sources
    )
}

impl FeedNames {
    pub fn new(runner: Arc<Runner>) -> FeedNames {
        FeedNames { runner, written: Mutex::default() }
    }

    /// Notes that an operation on the feed was done.
    pub fn note(&self, operation: Operation, feed: &FeedId) {
        if makes_feed(operation) {
            self.note_feed(feed);
        }
    }

    /// Notes that there is this feed.
    pub fn note_feed(&self, feed: &FeedId) {
        let mut written = self.locked();
        let is_done = written.done.get(feed).is_some_and(|at| at.elapsed() < RENEW_INTERVAL);
        if !is_done && written.waiting.len() < MAX_NAMES && !written.waiting.contains(feed) {
            written.waiting.insert(feed.clone());
        }
    }

    /// Whether no name waits.
    pub fn are_written(&self) -> bool {
        self.locked().waiting.is_empty()
    }

    /// Writes the names that wait. Those of a shard that is away wait on.
    pub async fn write(&self) -> Result<(), Fault> {
        let mut of_parts: HashMap<Part, Vec<FeedId>> = HashMap::new();
        for feed in std::mem::take(&mut self.locked().waiting) {
            of_parts.entry(self.runner.part_of(SharedIndex::Feeds, &feed)).or_default().push(feed);
        }
        let mut fault = None;
        for (part, feeds) in of_parts {
            let key = self.runner.keys.feed_names(part);
            for feeds in feeds.chunks(NAMES_PER_COMMAND) {
                let mut add = cmd("ZADD");
                add.arg(&key);
                for feed in feeds {
                    add.arg(0).arg(feed.as_str());
                }
                let done = self.runner.get::<u64>(&key, &add).await;
                let mut written = self.locked();
                match done {
                    Ok(_) => {
                        if written.done.len() + feeds.len() > MAX_NAMES {
                            written.done.clear();
                        }
                        written.done.extend(feeds.iter().map(|feed| (feed.clone(), Instant::now())));
                    }
                    Err(why) => {
                        let room = MAX_NAMES.saturating_sub(written.waiting.len());
                        written.waiting.extend(feeds.iter().take(room).cloned());
                        fault = Some(why);
                    }
                }
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// At most `limit` names of these ranges behind `after`, in order. One command for each range and shard.
    pub async fn page(
        &self,
        ranges: &[NameRange],
        after: Option<&FeedId>,
        limit: usize,
    ) -> Result<Vec<FeedId>, Fault> {
        let after = after.map(FeedId::as_str);
        let parts = self.runner.parts(SharedIndex::Feeds);
        let reads = ranges.iter().flat_map(|range| {
            let least = match after {
                Some(after) if after >= &*range.begins => format!("({after}"),
                _ => format!("[{}", range.begins),
            };
            // Names are ASCII, so this byte comes behind all of them.
            let mut most = [b"[", range.begins.as_bytes()].concat();
            most.extend((!range.is_whole).then_some(0xff));
            parts.iter().map(move |part| {
                let key = self.runner.keys.feed_names(*part);
                let mut read = cmd("ZRANGEBYLEX");
                read.arg(&key).arg(&least).arg(&most).arg("LIMIT").arg(0).arg(limit);
                (key, read)
            })
        });
        let names = noted_everywhere(&self.runner, reads).await?;
        let mut feeds: Vec<FeedId> = names.iter().filter_map(|name| name.parse().ok()).collect();
        feeds.sort_unstable();
        feeds.dedup();
        feeds.truncate(limit);
        Ok(feeds)
    }

    /// Takes out the names of feeds of which nothing is stored any more.
    pub async fn remove(&self, feeds: &[FeedId]) -> Result<(), Fault> {
        for feed in feeds {
            // Its next write makes it known again.
            self.locked().done.remove(feed);
            let key = self.runner.keys.feed_names(self.runner.part_of(SharedIndex::Feeds, feed));
            let _: u64 = self.runner.get(&key, cmd("ZREM").arg(&key).arg(feed.as_str())).await?;
        }
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, WrittenNames> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
