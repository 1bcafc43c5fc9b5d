//! What the scripts of drops share: their keys, and repeating a call while more is due.

use std::sync::Arc;

use crate::domain::{Claim, Claimed, DropId, FeedId, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{Call, Script};
use crate::engine::store::feed::batcher::Batcher;
use crate::engine::store::runner::{Reply, Runner};
use crate::engine::store::writer::{FeedWriter, Preconditions};

/// Drops with their stock, claims and holds.
pub(crate) struct DropStock {
    writer: Arc<FeedWriter>,
    pub claims: Batcher<(FeedId, DropId), Claim, Claimed>,
}

impl DropStock {
    pub fn new(writer: Arc<FeedWriter>) -> DropStock {
        DropStock { writer, claims: Batcher::default() }
    }

    fn runner(&self) -> &Runner {
        &self.writer.runner
    }

    /// A call of a script of drops, without what is its own.
    fn call(&self, script: &'static Script, feed: &FeedId, drop: &DropId) -> Call {
        let keys = &self.runner().keys;
        let [due, _] = keys.due(feed);
        let mut call = self.runner().feed_call(script, feed);
        call.keys([("due", due), ("drops", keys.drops(feed)), ("shown", keys.shown(feed))]);
        call.key("unpaid", keys.unpaid(feed));
        call.keys(["claims", "holds", "units"].map(|what| (what, keys.of_drop(feed, what, drop))));
        call.arg("drop", drop).arg("reminder", self.runner().options.drop_reminder_ms);
        call
    }

    /// Runs a script of drops, again and again while it says that more is due: each run ends a part of
    /// what has ended. `own` adds what only this script gets.
    pub async fn run(
        &self,
        script: &'static Script,
        feed: &FeedId,
        drop: &DropId,
        now: Millis,
        own: impl Fn(&mut Call) + Sync,
    ) -> Result<Reply, Fault> {
        let mut prepared = Preconditions::default();
        let runs = async {
            loop {
                let call = |_: &Preconditions| {
                    let mut call = self.call(script, feed, drop);
                    own(&mut call);
                    call
                };
                let reply = self.writer.write(feed, Some(now), &mut prepared, call).await?;
                if reply.texts.first().is_none_or(|text| text != "m") {
                    return Ok(reply);
                }
            }
        };
        tokio::time::timeout(self.runner().batch_timeout(), runs).await.unwrap_or_else(|_| {
            Err(Fault::stay("very many holds have expired, and ending them takes a while"))
        })
    }
}
