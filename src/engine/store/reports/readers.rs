//! Those who read ledgers, and `lua/ledger/forget.lua`.

use crate::domain::{FeedId, GroupId, Millis, Reader};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::SharedIndex;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::reports::groups::{noted, noted_everywhere};
use crate::engine::{MAX_LISTED, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Deletes a group with all it has. Returns false if there is no such group.
    pub async fn delete_group(&self, feed: &FeedId, group: &GroupId) -> StoreResult<bool> {
        self.measured(Operation::Readers, Some(feed), async {
            let was = self.parts.groups.forget(feed, &Reader::Group(group.clone()), Millis(0)).await?;
            self.parts.groups.unnote_unless_there(feed, group).await?;
            Ok(was)
        })
        .await
    }

    /// Groups and webhooks of one feed, or groups of all feeds, by name; at most [`crate::engine::MAX_LISTED`].
    pub async fn list_readers(&self, feed: Option<&FeedId>) -> StoreResult<Vec<(FeedId, Reader)>> {
        self.measured(Operation::Readers, None, async {
            let mut readers = match feed {
                None => {
                    let keys = &self.parts.runner.keys;
                    let lists = self
                        .parts
                        .runner
                        .parts(SharedIndex::Groups)
                        .into_iter()
                        .map(|part| noted(keys.groups(part)));
                    let read = |text: &String| {
                        let (feed, group) = text.split_once(' ')?;
                        Some((feed.parse().ok()?, Reader::Group(group.parse().ok()?)))
                    };
                    let names = noted_everywhere(&self.parts.runner, lists).await?;
                    let read = |name: &String| {
                        read(name).ok_or_else(|| Fault::from(Corrupt("a group's name")).of_an_index())
                    };
                    names.iter().map(read).collect::<Result<Vec<_>, Fault>>()?
                }
                Some(feed) => {
                    let [_, _, readers] = self.parts.runner.keys.ledger(feed);
                    let names: Vec<String> =
                        self.parts.runner.get(&readers, redis::cmd("HKEYS").arg(&readers)).await?;
                    let own = names.iter().map(|name| {
                        Ok((feed.clone(), name.parse().map_err(|_| Corrupt("a reader's name"))?))
                    });
                    own.collect::<Result<Vec<_>, Corrupt>>()?
                }
            };
            readers.sort_by_cached_key(|(feed, reader)| (feed.clone(), reader.to_string()));
            readers.truncate(MAX_LISTED);
            Ok(readers)
        })
        .await
    }
}
