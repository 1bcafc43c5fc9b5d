//! One feed's due queue: reading its entries (`lua/due/entries.lua`), and handling one that is due.

use std::sync::Arc;

use crate::domain::{DueKind, DuePlace, FeedId, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::records::WaitingGift;
use crate::engine::protocol::scripts;
use crate::engine::store::drops::stock::DropStock;
use crate::engine::store::review::reviews::{self, ReviewOutcome, Reviews};
use crate::engine::store::runner::{Runner, needed, number};
use crate::engine::store::writer::FeedWriter;
use crate::engine::{DueFate, DueHandled};

/// An entry as the store has it.
pub(crate) struct QueuedEntry {
    pub at: Millis,
    pub member: String,
    pub kind: char,
    pub id: String,
    /// What `later` or `reviews` holds, without its first line. `None` if it is no text.
    pub text: Option<String>,
}

impl QueuedEntry {
    fn read(at: &[u8], member: &[u8], text: &[u8]) -> Option<QueuedEntry> {
        let (at, member) = (std::str::from_utf8(at).ok()?, std::str::from_utf8(member).ok()?);
        let (kind, id) = name_of(member);
        let text = std::str::from_utf8(text).ok().and_then(|text| text.split_once('\n'));
        Some(QueuedEntry {
            at: Millis(at.parse().ok()?),
            member: member.to_owned(),
            kind,
            id,
            text: text.map(|(_, record)| record.to_owned()),
        })
    }

    pub(super) fn waiting(&self) -> Option<WaitingGift<'static>> {
        WaitingGift::read(self.text.as_deref()?)
    }

    pub(super) fn place(&self) -> Option<DuePlace> {
        Some(DuePlace { at: self.at, order: self.member.split_once(' ')?.0.parse().ok()? })
    }
}

/// What `due_entries` found.
pub(crate) struct Entries {
    pub now: Millis,
    pub next: Option<Millis>,
    pub entries: Vec<QueuedEntry>,
}

/// The due queues of feeds.
pub struct DueQueue {
    pub writer: Arc<FeedWriter>,
    pub stock: Arc<DropStock>,
    pub reviews: Arc<Reviews>,
}

impl DueQueue {
    pub(super) fn runner(&self) -> &Runner {
        &self.writer.runner
    }

    pub async fn entries(
        &self,
        feed: &FeedId,
        which: &str,
        after: Option<DuePlace>,
        max: usize,
        now: Option<Millis>,
    ) -> Result<Entries, Fault> {
        let [due, later] = self.runner().keys.due(feed);
        let mut call = self.runner().timed(&scripts::DUE_ENTRIES, now);
        call.for_a_reader();
        let reviews = self.runner().keys.reviews(feed);
        call.keys([("due", due.clone()), ("later", later), ("reviews", reviews)])
            .arg("most", max)
            .arg("which", which);
        match after {
            Some(after) => call.arg("after", after.at.0).arg("order", after.order),
            None => call.arg("after", "").arg("order", ""),
        };
        let reply: Vec<Vec<u8>> = self.runner().run(&call).await?;
        let (now, next) = (Millis(needed(reply.first())?), number(reply.get(1)).map(Millis));
        let mut entries = Vec::with_capacity(reply.len() / 3);
        for part in reply.get(2..).unwrap_or_default().chunks_exact(3) {
            match QueuedEntry::read(&part[0], &part[1], &part[2]) {
                Some(entry) => entries.push(entry),
                // Not even a name by which it could be set aside, and it would be found again and again.
                None => {
                    tracing::warn!(%feed, "an entry in a due queue that Tipcast did not write; it is removed");
                    let mut cmd = redis::cmd("ZREM");
                    cmd.arg(&due).arg(&part[1]);
                    let _: u64 = self.runner().get(&due, &cmd).await?;
                }
            }
        }
        Ok(Entries { now, next, entries })
    }

    /// Does what is due of anything but gifts. Returns when the next entry is due, and what became of this one, unless somebody else
    /// did it. The script of a drop and that of totals put their entry into the queue anew.
    pub(super) async fn handle(
        &self,
        feed: &FeedId,
        entry: &QueuedEntry,
        now: Millis,
    ) -> Result<(Option<Millis>, Option<DueHandled>), Fault> {
        let (next, at, fate) = match DueKind::of(entry.kind) {
            Some(DueKind::Review) => {
                let gift = entry.text.as_deref().and_then(reviews::read);
                let (_, gift) =
                    gift.ok_or_else(|| Fault::data("what is stored of the gift cannot be read"))?;
                let done = self.reviews.decide(feed, &gift, ReviewOutcome::Time, now).await?;
                let fate = done.now.then(|| done.answer().map_or(DueFate::PutOff, DueFate::Shown));
                (done.next, done.at, fate)
            }
            Some(DueKind::Drop) => {
                let drop = entry.id.parse().map_err(|_| Fault::data("this is no drop's name"))?;
                let ticked = self.stock.tick(feed, &drop, now).await?;
                (ticked.next, ticked.now, Some(DueFate::Struck(ticked.view.map(Box::new))))
            }
            Some(DueKind::Totals) => {
                let ticked = self.writer.tick_totals(feed, Some(now)).await?;
                (ticked.next, ticked.now, Some(DueFate::Struck(None)))
            }
            Some(DueKind::Gift) | None => {
                return Err(Fault::data("this version of Tipcast does not know what it is for"));
            }
        };
        Ok((next, fate.map(|fate| DueHandled { late_ms: at.since(entry.at), fate })))
    }
}

/// The letter and the id in a member of `due`; of one that is not ours "?" and the whole.
pub(super) fn name_of(member: &str) -> (char, String) {
    let name = member.split_once(' ').filter(|(order, _)| order.bytes().all(|b| b.is_ascii_digit()));
    match name.and_then(|(_, name)| name.chars().next().map(|kind| (kind, name))) {
        Some((kind, name)) => (kind, name[kind.len_utf8()..].to_owned()),
        None => ('?', member.to_owned()),
    }
}
