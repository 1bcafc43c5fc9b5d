//! `lua/feed/show.lua`.

use crate::domain::{FeedId, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::records::WaitingGift;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire;
use crate::engine::store::due::queue::{DueQueue, QueuedEntry};
use crate::engine::store::runner::Reply;
use crate::engine::store::writer::Preconditions;
use crate::engine::{DueFate, DueHandled, DueRun};

impl DueQueue {
    /// Takes gifts whose time has come like ones that come now.
    pub(super) async fn show(
        &self,
        feed: &FeedId,
        entries: &[QueuedEntry],
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), Fault> {
        let mut readable = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry.waiting() {
                Some(gift) => readable.push((entry, gift)),
                None => {
                    let why = "what is stored of the gift cannot be read";
                    self.set_aside(feed, entry, why, now, run).await?;
                }
            }
        }
        if readable.is_empty() {
            return Ok(());
        }
        let Err(fault) = self.show_all(feed, &readable, now, run).await else { return Ok(()) };
        if !fault.is_data() {
            return Err(fault);
        }
        // Redis refuses what it met, and would again: one by one, so that neighbours do not suffer.
        for one in readable.chunks(1) {
            match self.show_all(feed, one, now, run).await {
                Err(fault) if fault.is_data() => self.set_aside(feed, one[0].0, &fault.why, now, run).await?,
                done => done?,
            }
        }
        Ok(())
    }

    async fn show_all(
        &self,
        feed: &FeedId,
        gifts: &[(&QueuedEntry, WaitingGift<'static>)],
        now: Millis,
        run: &mut DueRun,
    ) -> Result<(), Fault> {
        let everywhere = self.reviews.blocks.everywhere(gifts.iter().map(|(_, it)| &*it.gift), now).await;
        let call = |_: &Preconditions| self.show_call(feed, gifts, &everywhere);
        let reply = self.writer.write(feed, Some(now), &mut Preconditions::default(), call).await?;
        shown(gifts, &reply, run)
    }

    fn show_call(
        &self,
        feed: &FeedId,
        gifts: &[(&QueuedEntry, WaitingGift<'static>)],
        everywhere: &str,
    ) -> Call {
        let keys = &self.runner().keys;
        let [due, later] = keys.due(feed);
        let mut call = self.runner().feed_call(&scripts::SHOW, feed);
        call.keys([("due", due), ("later", later), ("blocks", keys.blocks(feed))]);
        call.arg("blocked_everywhere", everywhere);
        for (entry, WaitingGift { gift, masked }) in gifts {
            let keys = [("id", keys.id(feed, &gift.id)), ("lock", keys.lock(feed, gift))];
            let args = wire::gift_args(gift, *masked);
            call.item(keys, args.into_iter().chain([("member", entry.member.clone())]));
        }
        call
    }
}

/// Reads what `feed_show` answered.
fn shown(
    gifts: &[(&QueuedEntry, WaitingGift<'static>)],
    reply: &Reply,
    run: &mut DueRun,
) -> Result<(), Fault> {
    let (_, now) = reply.mark()?;
    run.next = reply.texts.first().and_then(|text| text.parse().ok()).map(Millis);
    for ((entry, it), text) in gifts.iter().zip(reply.texts.iter().skip(1)) {
        // None: another node was faster.
        if let Some(answer) = wire::shown(text, &it.gift.id)? {
            let late_ms = now.since(entry.at);
            run.handled.push(DueHandled { late_ms, fate: DueFate::Shown(answer) });
        }
    }
    Ok(())
}
