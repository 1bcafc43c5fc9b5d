//! Signed requests that were accepted.
//!
//! A request may be sent again to any feed, so its record cannot be in the feed's slot. In a cluster it is in two slots
//! that are half of all slots apart, so on two shards, and one that answers is enough: a shard that is away makes no
//! request to feeds of the others wait, and forgets nothing that the other one has.

use futures_util::future::join_all;

use crate::domain::Millis;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::runner::Runner;
use crate::engine::{REQUEST_KEPT_MS, RequestUse, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Records that a request is for `target`, unless it is recorded for a target already. `request` identifies it: at most 64
    /// ASCII letters and digits, evenly spread. A record lasts [`crate::engine::REQUEST_KEPT_MS`], restarts included, and all nodes of a store
    /// share it.
    pub async fn claim_request(&self, request: &str, target: &str, now: Millis) -> StoreResult<RequestUse> {
        self.measured(Operation::ClaimRequest, None, async {
            let keys = self.parts.runner.keys.request(request);
            let records =
                join_all(keys.into_iter().map(|key| record(&self.parts.runner, key, target, now))).await;
            let mut found: Option<Result<RequestUse, Fault>> = None;
            for record in records {
                found = Some(match (found, record) {
                    (Some(Ok(RequestUse::Elsewhere)), _) | (_, Ok(RequestUse::Elsewhere)) => {
                        return Ok(RequestUse::Elsewhere);
                    }
                    (Some(Ok(RequestUse::Again(a))), Ok(RequestUse::Again(b))) => {
                        Ok(RequestUse::Again(a.max(b)))
                    }
                    // A record that only one shard has is as good: the other was away, or is new.
                    (Some(Ok(RequestUse::Again(age))), _) | (_, Ok(RequestUse::Again(age))) => {
                        Ok(RequestUse::Again(age))
                    }
                    (Some(Ok(RequestUse::First)), _) | (_, Ok(RequestUse::First)) => Ok(RequestUse::First),
                    (_, Err(fault)) => Err(fault),
                });
            }
            found.unwrap_or_else(|| Err(Corrupt("a request's keys").into()))
        })
        .await
    }
}

/// Records the request under one of its keys.
async fn record(runner: &Runner, key: String, target: &str, now: Millis) -> Result<RequestUse, Fault> {
    let mut call = runner.timed(&scripts::REQUEST_CLAIM, Some(now));
    call.key("request", key).arg("target", target).arg("kept_for", REQUEST_KEPT_MS);
    let reply: String = runner.run_within(&call, runner.part_timeout()).await?;
    match &*reply {
        "first" => Ok(RequestUse::First),
        "elsewhere" => Ok(RequestUse::Elsewhere),
        age => Ok(RequestUse::Again(age.parse().map_err(|_| Corrupt("a reply"))?)),
    }
}
