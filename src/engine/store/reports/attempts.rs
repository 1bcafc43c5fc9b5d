//! The newest attempts to deliver to each webhook. They are for people who look, and worth nothing to the webhook.

use redis::cmd;

use crate::domain::{HookKey, HookScope};
use crate::engine::StoreResult;
use crate::engine::protocol::slots::slot_of_key;
use crate::engine::store::Store;
use crate::engine::{ATTEMPTS_KEPT, ATTEMPTS_KEPT_MS};
use crate::metrics::labels::Operation;

impl Store {
    /// Keeps attempts, which are texts, the oldest first. The newest [`ATTEMPTS_KEPT`] of a webhook stay.
    pub async fn note_attempts(&self, hook: &HookKey, attempts: &[String]) -> StoreResult<()> {
        self.measured(Operation::Hooks, None, async {
            let key = self.attempts_key(hook);
            let (mut push, mut trim, mut keep) = (cmd("LPUSH"), cmd("LTRIM"), cmd("PEXPIRE"));
            push.arg(&key).arg(attempts);
            trim.arg(&key).arg(0).arg(ATTEMPTS_KEPT - 1);
            keep.arg(&key).arg(ATTEMPTS_KEPT_MS);
            let slot = slot_of_key(&key);
            let runner = &self.parts.runner;
            let all = [push, trim, keep].map(|command| (slot, command));
            for reply in runner.backend.commands(&all, runner.part_timeout()).await {
                reply?;
            }
            Ok(())
        })
        .await
    }

    /// The newest attempts, the newest first.
    pub async fn list_attempts(&self, hook: &HookKey, limit: usize) -> StoreResult<Vec<String>> {
        self.measured(Operation::Hooks, None, async {
            let key = self.attempts_key(hook);
            let range = cmd("LRANGE").arg(&key).arg(0).arg(limit.saturating_sub(1)).take();
            self.parts.runner.get(&key, &range).await
        })
        .await
    }

    fn attempts_key(&self, hook: &HookKey) -> String {
        let keys = &self.parts.runner.keys;
        match &hook.scope {
            HookScope::Feed(feed) => keys.attempts(feed, &hook.name),
            HookScope::All => keys.attempts_of_all(&hook.name),
        }
    }
}
