//! `lua/feed/policy.lua`.

use crate::domain::{FeedId, Millis, Policy, PolicyPatch};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire;
use crate::engine::store::Store;
use crate::engine::store::feed::lists::Feeds;
use crate::engine::store::totals::counting::{is_again, policy_moves};
use crate::engine::{PolicyChange, StoreResult};
use crate::metrics::labels::Operation;

/// How often a change of a policy is tried. Each time that several try at once, one of them succeeds.
const CHANGES_AT_ONCE: usize = 100;

impl Store {
    /// Reads the policy in force.
    pub async fn read_policy(&self, feed: &FeedId) -> StoreResult<Policy> {
        self.measured(Operation::Policy, Some(feed), self.parts.feeds.policy(feed)).await
    }

    /// Changes the policy and returns the one in force afterwards. A changed capacity takes a seq
    /// ([`crate::domain::Op::Reset`]), unless the feed was never written to.
    pub async fn set_policy(&self, feed: &FeedId, change: &PolicyChange, now: Millis) -> StoreResult<Policy> {
        self.measured(Operation::SetPolicy, Some(feed), async {
            for _ in 0..CHANGES_AT_ONCE {
                let saw = self.parts.runner.overrides(feed).await?;
                let (old, before) = (wire::read_overrides(&saw)?, self.parts.runner.with_overrides(&saw)?);
                let new = match change {
                    PolicyChange::Replace(patch) => old.replaced(patch),
                    PolicyChange::Merge(patch) => old.merged(patch),
                };
                let text = match new == PolicyPatch::default() {
                    true => String::new(),
                    false => serde_json::to_string(&new).map_err(|error| Fault::data(error.to_string()))?,
                };
                let mut call = self.parts.runner.feed_call(&scripts::POLICY, feed);
                call.arg("saw", &saw).arg("new", &text);
                let reply = self.parts.runner.run_feed(call, feed, Some(now)).await?;
                if is_again(&reply) {
                    continue;
                }
                let policy = self.parts.runner.with_overrides(&text)?;
                // Periods are counted from now on. If this process dies before that, the next gift sees to it.
                let counts = |policy: &Policy| (policy.totals, policy.time_zone.clone());
                if counts(&before) != counts(&policy) {
                    self.parts.writer.tick_totals(feed, Some(now)).await?;
                }
                return Ok(policy);
            }
            Err(policy_moves())
        })
        .await
    }
}

impl Feeds {
    pub async fn policy(&self, feed: &FeedId) -> Result<Policy, Fault> {
        Ok(self.runner.with_overrides(&self.runner.overrides(feed).await?)?)
    }
}
