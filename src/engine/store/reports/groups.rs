//! Groups that pull, and dead letters.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::domain::{Cursor, FeedId, GroupId, Millis, Reader};
use crate::engine::MAX_LISTED;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::SharedIndex;
use crate::engine::protocol::scripts::{self, Call, Script};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::reports::index::JobIndex;
use crate::engine::store::reports::stored::{padded, reader_keys};
use crate::engine::store::runner::Runner;

pub(super) fn name_of_group(feed: &FeedId, group: &GroupId) -> String {
    format!("{feed} {group}")
}

/// The groups that read ledgers.
pub struct Groups {
    pub runner: Arc<Runner>,
    pub jobs: Arc<JobIndex>,
}

/// Puts a name into a list of names.
pub async fn note(runner: &Runner, key: &str, name: &str) -> Result<(), Fault> {
    let _: u64 = runner.get(key, redis::cmd("ZADD").arg(key).arg(0).arg(name)).await?;
    Ok(())
}

/// Takes it out again.
pub async fn unnote(runner: &Runner, key: &str, name: &str) -> Result<(), Fault> {
    let _: u64 = runner.get(key, redis::cmd("ZREM").arg(key).arg(name)).await?;
    Ok(())
}

/// Reads the first names in such a list.
pub fn noted(list: String) -> (String, redis::Cmd) {
    let mut range = redis::cmd("ZRANGE");
    range.arg(&list).arg(0).arg(MAX_LISTED - 1);
    (list, range)
}

/// The names in lists that are on several shards, each read by its command. Those of a shard that is away are left out.
pub async fn noted_everywhere(
    runner: &Runner,
    lists: impl Iterator<Item = (String, redis::Cmd)>,
) -> Result<Vec<String>, Fault> {
    let (mut all, mut fault, mut any) = (Vec::new(), None, false);
    let reads = lists.map(async |(list, command)| runner.get::<Vec<String>>(&list, &command).await);
    for names in join_all(reads).await {
        match names.map_err(Fault::of_an_index) {
            Ok(names) => {
                any = true;
                all.extend(names);
            }
            Err(why) => fault = Some(why),
        }
    }
    match fault {
        Some(fault) if !any => Err(fault),
        Some(fault) => {
            tracing::warn!(
                why = fault.why,
                "groups or webhooks are listed without those of a shard that is away"
            );
            Ok(all)
        }
        None => Ok(all),
    }
}

impl Groups {
    /// A call of a script about a reader.
    pub(super) fn call(&self, script: &'static Script, feed: &FeedId, reader: &Reader, now: Millis) -> Call {
        let mut call = self.runner.timed(script, Some(now));
        reader_keys(&mut call, &self.runner.keys, feed, reader);
        call.arg("reader", reader);
        call
    }

    /// The list that has the feed's groups.
    pub(super) fn list_of(&self, feed: &FeedId) -> String {
        self.runner.keys.groups(self.runner.part_of(SharedIndex::Groups, feed))
    }

    /// A group that could not be made, or that somebody else may have made meanwhile.
    pub(super) async fn unnote_unless_there(&self, feed: &FeedId, group: &GroupId) -> Result<(), Fault> {
        let [_, _, readers] = self.runner.keys.ledger(feed);
        let reader = Reader::Group(group.clone()).to_string();
        let there: u64 = self.runner.get(&readers, redis::cmd("HEXISTS").arg(&readers).arg(reader)).await?;
        match there {
            0 => unnote(&self.runner, &self.list_of(feed), &name_of_group(feed, group)).await,
            _ => Ok(()),
        }
    }

    /// Runs a script about these cursors. Returns how many it changed, or `None` if there is no such reader.
    pub(super) async fn about(
        &self,
        feed: &FeedId,
        mut call: Call,
        cursors: &[Cursor],
    ) -> Result<Option<u64>, Fault> {
        for cursor in cursors {
            call.item([], [("number", padded(cursor))]);
        }
        let text: String = self.runner.run(&call).await?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| Corrupt("a reply"));
        match text.split_once(' ') {
            None if text.is_empty() => Ok(None),
            None => Ok(Some(number(&text)?)),
            Some((count, lost)) => {
                self.runner.entries_lost(feed, number(lost)?);
                Ok(Some(number(count)?))
            }
        }
    }

    /// Forgets a reader with all it has; false when it did not read there.
    pub async fn forget(&self, feed: &FeedId, reader: &Reader, now: Millis) -> Result<bool, Fault> {
        let was: u64 = self.runner.run(&self.call(&scripts::REPORT_FORGET, feed, reader, now)).await?;
        Ok(was == 1)
    }
}
