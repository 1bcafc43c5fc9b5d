//! Gifts that wait for a decision, and `lua/feed/settle.lua`.

use crate::domain::review::REVIEWS_MAX;
use crate::domain::{Decision, FeedId, GiftId, InReview, Millis, Reviewing};
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::store::Store;
use crate::engine::store::review::reviews::{ReviewOutcome, read};
use crate::engine::{StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Lists the gifts that wait for a decision, the oldest first, without those that time or a block has
    /// decided.
    pub async fn list_reviews(&self, feed: &FeedId, now: Millis) -> StoreResult<Vec<InReview>> {
        let reply = self
            .measured(Operation::Reviews, Some(feed), async {
                let most = REVIEWS_MAX as usize;
                let found = self.parts.queue.entries(feed, "r", None, most, Some(now)).await?;
                let now = self.parts.runner.clock(Some(now)).unwrap_or(found.now);
                let mut all = Vec::new();
                for (n, entry) in found.entries.iter().enumerate().filter(|(_, entry)| entry.at > now) {
                    let Some(text) = &entry.text else { continue };
                    let (note, gift) = read(text).ok_or(Corrupt("a gift in review"))?;
                    // Time or a block has decided about others.
                    if !self.parts.blocks.is_blocked(feed, &gift.user.id, now).await? {
                        all.push((note.at, n, InReview { at: note.at, expires_at: entry.at, gift }));
                    }
                }
                all.sort_by_key(|(at, n, _)| (*at, *n));
                Ok(all.into_iter().map(|(.., it)| it).collect::<Vec<_>>())
            })
            .await?;
        counted::waiting_reviews(&reply, feed, self.metrics());
        Ok(reply)
    }

    /// Decides about a gift that waits, and shows it in the same step. If its time has passed, the policy's
    /// default decides first; a gift of a blocked user is denied, whatever is asked for. A gift whose own
    /// time is in the future joins the queue of scheduled gifts. A repeat answers the same.
    pub async fn decide_review(
        &self,
        feed: &FeedId,
        id: &GiftId,
        decision: Decision,
        now: Millis,
    ) -> StoreResult<Reviewing> {
        let reply = self
            .measured(Operation::Review, Some(feed), async {
                let runner = &self.parts.runner;
                let (reviews, known) = (runner.keys.reviews(feed), runner.keys.id(feed, id));
                let held: Option<String> =
                    runner.get(&reviews, redis::cmd("HGET").arg(&reviews).arg(id.as_str())).await?;
                let (done, by_this) = match held {
                    Some(held) => {
                        let record = held.split_once('\n').and_then(|(_, text)| read(text));
                        let (_, gift) = record.ok_or(Corrupt("a gift in review"))?;
                        let done = self
                            .parts
                            .reviews
                            .decide(feed, &gift, ReviewOutcome::Host(decision), now)
                            .await?;
                        (done.known, done.now)
                    }
                    None => {
                        let texts: Vec<Option<String>> =
                            runner.get(&known, redis::cmd("MGET").arg(&known)).await?;
                        let text = texts.into_iter().next().flatten().unwrap_or_default();
                        let now = runner.store_time(&known, now).await?;
                        (wire::still_remembered(&text, id, runner.steady(now))?, false)
                    }
                };
                Ok(match done.map(|known| (known.decided, known.fate)) {
                    Some((Some(decided), fate)) => Reviewing::of(decision, decided, fate, by_this),
                    _ => Reviewing::UNKNOWN,
                })
            })
            .await?;
        counted::decided_review(&reply, feed, self.metrics());
        Ok(reply)
    }
}
