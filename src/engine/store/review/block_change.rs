//! `lua/feed/block_change.lua`.

use crate::domain::{Block, BlockScope, Blocked, FeedId, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::metrics::labels::Operation;

impl Store {
    /// Ends a block; false when there was none.
    pub async fn unblock_user(&self, scope: &BlockScope, user: &str, now: Millis) -> StoreResult<bool> {
        self.measured(Operation::Block, None, async {
            if *scope == BlockScope::All {
                self.end_walk(user, now).await?;
            }
            self.parts.blocks.unblock(scope, user, now).await
        })
        .await
    }

    /// Whether the user's gifts are kept from being shown in the feed, by a block of the feed or of all feeds.
    pub async fn is_blocked(&self, feed: &FeedId, user: &str, now: Millis) -> StoreResult<bool> {
        self.measured(Operation::Blocks, Some(feed), self.parts.blocks.is_blocked(feed, user, now)).await
    }

    /// Keeps a user's gifts from being shown from [`Block::at`] on, in the place of a block that there is. Within a
    /// second it holds on every node.
    pub async fn block_user(&self, scope: &BlockScope, block: &Block) -> StoreResult<Blocked> {
        self.measured(Operation::Block, None, async {
            let until = block.until.map_or(0, |until| until.0.max(1));
            match &*self.parts.blocks.change(scope, &block.user, &until.to_string(), block.at).await? {
                "new" => Ok(Blocked::New),
                "again" => Ok(Blocked::Replaced),
                "full" => Ok(Blocked::Full),
                _ => Err(Corrupt("a reply").into()),
            }
        })
        .await
    }

    /// Blocks that hold, by user.
    pub async fn list_blocks(&self, scope: &BlockScope, now: Millis) -> StoreResult<Vec<Block>> {
        self.measured(Operation::Blocks, None, async {
            let all = self.parts.blocks.read(scope).await?;
            let mut all: Vec<Block> = all.values().filter(|block| block.holds(now)).cloned().collect();
            all.sort_by(|a, b| a.user.cmp(&b.user));
            Ok(all)
        })
        .await
    }
}
