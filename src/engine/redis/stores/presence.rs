//! What the trait asks about those who watch.

use super::super::engine::RedisEngine;
use crate::domain::FeedId;
use crate::engine::{Count, Presence, PresenceStore, Wait};

impl PresenceStore for RedisEngine {
    fn attend<'a>(&'a self, node: &'a str, counts: &'a [(FeedId, Count)]) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.feeds.attend(node, counts).await?)
        })
    }

    fn presence<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Presence>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.feeds.presence(feeds).await?)
        })
    }
}
