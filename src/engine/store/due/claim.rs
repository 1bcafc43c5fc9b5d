//! Whose turn it is: `lua/due/turns.lua`.

use crate::domain::Millis;
use crate::engine::store::Store;
use crate::engine::{DueDone, DueTurn, StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Releases leases, and leases at most `max` feeds whose time has come, those that wait longest first. A
    /// feed with more due than one step takes goes behind the others.
    ///
    /// While a lease lasts, no other caller gets the feed, unless something new comes into its queue. A lease
    /// that is not released ends by itself well within a second. Two callers that run one feed do no harm:
    /// every step of [`Store::run_due`] is atomic.
    pub async fn claim_due(&self, over: Vec<DueDone>, max: usize, now: Millis) -> StoreResult<DueTurn> {
        let reply = self.measured(Operation::ClaimDue, None, self.parts.due.claim(over, max, now)).await?;
        counted::claimed_due(&reply, self.metrics());
        Ok(reply)
    }
}
