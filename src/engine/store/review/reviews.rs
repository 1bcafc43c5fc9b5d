//! Gifts that wait for a host's decision (`lua/feed/review.lua`).

use std::sync::Arc;

use crate::domain::json::push_string;
use crate::domain::review::ReviewNote;
use crate::domain::{Answer, Decision, FeedId, Gift, GiftId, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::records::WaitingGift;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::store::review::blocks::BlockBook;
use crate::engine::store::writer::{FeedWriter, Preconditions};

/// What was done with a gift in review.
pub(crate) struct Done {
    /// What is remembered of its id.
    pub known: Option<crate::domain::answer::Remembered>,
    /// Whether it was done by this call.
    pub now: bool,
    /// When the feed's next entry is due.
    pub next: Option<Millis>,
    /// The time that the script went by.
    pub at: Millis,
}

impl Done {
    /// The answer, when it is one of this call.
    pub fn answer(&self) -> Option<Answer> {
        match self.known.as_ref().filter(|_| self.now).map(|known| &known.fate) {
            Some(crate::domain::answer::GiftFate::Taken(answer)) => Some(answer.clone()),
            _ => None,
        }
    }
}

/// What `reviews` holds of a gift, without its first line.
pub(crate) fn read(text: &str) -> Option<(ReviewNote, Gift)> {
    let (note, record) = text.split_once('\n')?;
    Some((note.parse().ok()?, WaitingGift::read(record)?.gift.into_owned()))
}

/// What becomes of a gift in review.
#[derive(Clone, Copy)]
pub(crate) enum ReviewOutcome<'a> {
    /// What the policy says, if its time has come.
    Time,
    Host(Decision),
    /// It is denied and taken back, for this reason.
    TakeBack(Option<&'a str>),
}

/// Decisions, by hosts and by time.
pub(crate) struct Reviews {
    pub writer: Arc<FeedWriter>,
    pub blocks: Arc<BlockBook>,
}

impl Reviews {
    /// Denies a gift in review and takes it back in one step. False when it was not in review any more.
    pub async fn take_back(
        &self,
        feed: &FeedId,
        id: &GiftId,
        reason: Option<&str>,
        now: Millis,
    ) -> Result<bool, Fault> {
        let runner = &self.writer.runner;
        let reviews = runner.keys.reviews(feed);
        let held: Option<String> =
            runner.get(&reviews, redis::cmd("HGET").arg(&reviews).arg(id.as_str())).await?;
        let Some(held) = held else { return Ok(false) };
        let record = held.split_once('\n').and_then(|(_, text)| read(text));
        let (_, gift) = record.ok_or(Corrupt("a gift in review"))?;
        Ok(self.decide(feed, &gift, ReviewOutcome::TakeBack(reason), now).await?.now)
    }

    /// Decides about a gift in review.
    pub async fn decide(
        &self,
        feed: &FeedId,
        gift: &Gift,
        wish: ReviewOutcome<'_>,
        now: Millis,
    ) -> Result<Done, Fault> {
        let everywhere = self.blocks.everywhere(std::iter::once(gift), now).await;
        let call = |prepared: &Preconditions| self.review_call(feed, gift, wish, &everywhere, prepared);
        let reply = self.writer.write(feed, Some(now), &mut Preconditions::default(), call).await?;
        let known = match reply.text(2)? {
            "" => None,
            text => Some(wire::remembered(text, &gift.id)?),
        };
        let next = reply.text(0)?.parse().ok().map(Millis);
        Ok(Done { known, now: reply.text(1)? == "done", next, at: reply.mark()?.1 })
    }

    fn review_call(
        &self,
        feed: &FeedId,
        gift: &Gift,
        wish: ReviewOutcome<'_>,
        everywhere: &str,
        prepared: &Preconditions,
    ) -> Call {
        let keys = &self.writer.runner.keys;
        let [due, later] = keys.due(feed);
        let mut call = self.writer.runner.feed_call(&scripts::REVIEW, feed);
        call.keys([("due", due), ("later", later), ("blocks", keys.blocks(feed))]);
        call.keys([("reviews", keys.reviews(feed)), ("approved", keys.approved(feed))]);
        call.arg("looked_at", prepared.due_since.map(|since| since.0.to_string()).unwrap_or_default());
        call.arg("blocked_everywhere", everywhere).arg("gift", &gift.id);
        let (decision, reason) = match wish {
            ReviewOutcome::Time => ("", None),
            ReviewOutcome::Host(decision) => (decision.as_str(), None),
            ReviewOutcome::TakeBack(reason) => ("retract", reason),
        };
        if let ReviewOutcome::Host(Decision::Approve | Decision::Mask) = wish {
            call.bounded();
        }
        let mut text = String::new();
        reason.iter().for_each(|reason| push_string(&mut text, reason));
        call.arg("decision", decision).arg("reason", text);
        for is_masked in [false, true] {
            let keys = [("id", keys.id(feed, &gift.id)), ("lock", keys.lock(feed, gift))];
            let args = wire::gift_args(gift, is_masked);
            call.item(keys, args.into_iter().chain([("record", WaitingGift::text(gift, is_masked))]));
        }
        call
    }
}
