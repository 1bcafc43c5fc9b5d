//! Webhooks as they are set.

use crate::domain::{FeedId, Hook, HookId, HookKey, HookScope, Millis};
use crate::engine::protocol::slots::slot_of_key;
use crate::engine::store::Store;
use crate::engine::store::reports::hooks::read_hooks;
use crate::engine::{MAX_LISTED, StoreResult, Swapped};
use crate::metrics::labels::Operation;

impl Store {
    /// Feeds in which a webhook of all feeds has, or had lately, dead letters; at most [`crate::engine::MAX_LISTED`].
    pub async fn list_dead_letter_feeds(&self, hook: &HookId) -> StoreResult<Vec<FeedId>> {
        self.measured(Operation::Letters, None, self.parts.webhooks.letter_feeds(hook)).await
    }

    /// Reads a webhook, or `None` if there is no such webhook.
    pub async fn read_webhook(&self, key: &HookKey) -> StoreResult<Option<Hook>> {
        self.measured(Operation::Hooks, None, self.parts.webhooks.hook(key)).await
    }

    /// Puts `to` (`None`: nothing) in the place of a webhook whose version is `was` (`None`: there is no such
    /// webhook). A new one begins to read at the ledger's end, or one of all feeds with what comes from
    /// `since` on. One that is deleted loses all it has.
    pub async fn swap_webhook(
        &self,
        key: &HookKey,
        was: Option<u64>,
        to: Option<Hook>,
        now: Millis,
    ) -> StoreResult<Swapped> {
        self.measured(Operation::Hooks, None, self.parts.webhooks.swap(key, was, to, now)).await
    }

    /// Every webhook in the store, by scope and name; at most [`crate::engine::MAX_LISTED`].
    pub async fn list_webhooks(&self) -> StoreResult<Vec<(HookKey, Hook)>> {
        self.measured(Operation::Hooks, None, async {
            let feeds = self.parts.webhooks.feeds_with_hooks().await?;
            let scopes: Vec<HookScope> =
                std::iter::once(HookScope::All).chain(feeds.into_iter().map(HookScope::Feed)).collect();
            let commands: Vec<_> = scopes
                .iter()
                .map(|scope| {
                    let (key, mut command) = (self.parts.webhooks.key_of(scope), redis::cmd("HGETALL"));
                    command.arg(&key);
                    (slot_of_key(&key), command)
                })
                .collect();
            let replies =
                self.parts.runner.backend.commands(&commands, self.parts.runner.options.call_timeout).await;
            let (mut all, mut fault) = (Vec::new(), None);
            for (scope, reply) in scopes.iter().zip(replies) {
                match reply.and_then(|reply| read_hooks(scope, reply)) {
                    Ok(hooks) => all.extend(hooks),
                    Err(why) => {
                        tracing::warn!(%scope, why = why.why, "webhooks are listed without these");
                        fault = Some(why);
                    }
                }
            }
            if let Some(fault) = fault.filter(|fault| all.is_empty() && !fault.is_data()) {
                return Err(fault);
            }
            all.sort_by_cached_key(|(key, _)| (key.scope.to_string(), key.name.to_string()));
            all.truncate(MAX_LISTED);
            Ok(all)
        })
        .await
    }
}
