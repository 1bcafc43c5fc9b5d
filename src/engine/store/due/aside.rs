//! `lua/due/aside.lua`.

use crate::domain::{DueKind, FeedId, GiftId, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::due::queue::{DueQueue, QueuedEntry, name_of};
use crate::engine::store::runner::{needed, number};
use crate::engine::{DEAD_KEPT, DUE_TRIES, DeadDue, DueFate, DueHandled, DueRun, StoreResult, rest_after};
use crate::metrics::labels::Operation;

impl Store {
    /// Lists entries of the feed's due queue that failed after all retries, the newest first, at most
    /// [`crate::engine::DEAD_KEPT`].
    pub async fn list_dead_due(&self, feed: &FeedId) -> StoreResult<Vec<DeadDue>> {
        self.measured(Operation::Dead, Some(feed), async {
            let [_, dead] = self.parts.runner.keys.failed(feed);
            let mut cmd = redis::cmd("LRANGE");
            cmd.arg(&dead).arg(0).arg(DEAD_KEPT - 1);
            let texts: Vec<Vec<u8>> = self.parts.runner.get(&dead, &cmd).await?;
            let read =
                |text: &Vec<u8>| read_dead(&String::from_utf8_lossy(text)).ok_or(Corrupt("a dead entry"));
            Ok(texts.iter().map(read).collect::<Result<_, _>>()?)
        })
        .await
    }
}

impl DueQueue {
    /// Lets an entry that cannot be handled rest, or gives it up.
    pub(super) async fn set_aside(
        &self,
        feed: &FeedId,
        entry: &QueuedEntry,
        why: &str,
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), Fault> {
        let keys = &self.runner().keys;
        let ([due, later], [tries, dead]) = (keys.due(feed), keys.failed(feed));
        let is_gift = matches!(DueKind::of(entry.kind), Some(DueKind::Gift | DueKind::Review));
        let later = if entry.kind == DueKind::Review.letter() { keys.reviews(feed) } else { later };
        let gift = entry.id.parse::<GiftId>().ok().filter(|_| is_gift);
        let id = gift.as_ref().map_or(due.clone(), |id| keys.id(feed, id));
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
        let mut call = self.runner().timed(&scripts::DUE_ASIDE, Some(now));
        call.keys([("due", due), ("later", later), ("tries", tries), ("dead", dead), ("id", id)]);
        call.arg("member", &entry.member).arg("reason", &why);
        call.arg("gift", gift.map(|id| id.to_string()).unwrap_or_default());
        call.arg("tries", DUE_TRIES).arg("rest", rest_after(1)).arg("dead_entries", DEAD_KEPT);
        call.arg("window", self.runner().options.defaults.idempotency_window_ms).arg("due_at", entry.at.0);
        let reply: Vec<Vec<u8>> = self.runner().run(&call).await?;
        let now = Millis(needed(reply.first())?);
        run.next = number(reply.get(1)).map(Millis);
        let fate = match reply.get(2).map(Vec::as_slice) {
            Some(b"rests") => DueFate::SetAside,
            Some(b"dead") => {
                let (kind, id) = (entry.kind, entry.id.clone());
                DueFate::Dead(DeadDue { kind, id, due: entry.at, at: now, reason: why })
            }
            _ => return Ok(()),
        };
        run.handled.push(DueHandled { late_ms: now.since(entry.at), fate });
        Ok(())
    }
}

/// "AT DUE REASON", the member, the rest.
fn read_dead(text: &str) -> Option<DeadDue> {
    let mut lines = text.split('\n');
    let mut head = lines.next()?.splitn(3, ' ');
    let (at, due) = (Millis(head.next()?.parse().ok()?), Millis(head.next()?.parse().ok()?));
    let reason = head.next()?.to_owned();
    let (kind, id) = name_of(lines.next()?);
    Some(DeadDue { kind, id, due, at, reason })
}
