//! What is due in a feed.

use crate::domain::{DueKind, FeedId, Millis};
use crate::engine::store::Store;
use crate::engine::{DUE_BATCH, DueRun, StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Handles what is due in the feed, at most [`crate::engine::DUE_BATCH`] entries, by time, then arrival.
    /// Each entry leaves the queue in the step that handles it. A gift is taken like one that comes now, and
    /// the answer becomes what is remembered of its id, for a window from now. An entry that cannot be
    /// handled is retried later ([`crate::engine::rest_after`]) and holds up no other; after
    /// [`crate::engine::DUE_TRIES`] it is dead.
    pub async fn run_due(&self, feed: &FeedId, now: Millis) -> StoreResult<DueRun> {
        let reply = self
            .measured(Operation::RunDue, Some(feed), async {
                let found = self.parts.queue.entries(feed, "due", None, DUE_BATCH, Some(now)).await?;
                let mut run = DueRun { handled: Vec::new(), next: found.next };
                let asked = self.parts.runner.clock(Some(now)).unwrap_or(found.now);
                for group in found.entries.chunk_by(|a, b| a.kind == b.kind) {
                    if let Some(DueKind::Gift) = DueKind::of(group[0].kind) {
                        self.parts.queue.show(feed, group, asked, &mut run).await?;
                        continue;
                    }
                    for entry in group {
                        match self.parts.queue.handle(feed, entry, asked).await {
                            Ok((next, handled)) => {
                                run.next = next;
                                run.handled.extend(handled);
                            }
                            Err(fault) if fault.is_data() => {
                                self.parts.queue.set_aside(feed, entry, &fault.why, asked, &mut run).await?;
                            }
                            Err(fault) => return Err(fault),
                        }
                    }
                }
                Ok(run)
            })
            .await?;
        counted::handled_due(&reply, feed, self.metrics());
        Ok(reply)
    }
}
