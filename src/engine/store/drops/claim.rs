//! `lua/drops/claim.lua`: claims of one drop share calls.

use tokio::sync::oneshot;

use crate::domain::claim::user_digest;
use crate::domain::{Claim, ClaimRefused, Claimed, DropId, FeedId, HoldId, Millis, Pay, Phase};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::drops::filled::{read_claim, split, trace_json};
use crate::engine::store::drops::stock::DropStock;
use crate::engine::store::feed::batcher::Submission;
use crate::engine::store::feed::lists::in_turn;
use crate::engine::{StoreResult, counted};
use crate::metrics::labels::Operation;

impl Store {
    /// Claims units. The id is decided first: filled before, it gets the first answer again, whatever
    /// became of the drop. Then the refusals, in the order of [`crate::domain::ClaimRefused`]. A claim is
    /// filled whole or refused. Paid now, its row is shown in the same step.
    pub async fn claim_drop(
        &self,
        feed: &FeedId,
        drop: &DropId,
        claim: Claim,
        now: Millis,
    ) -> StoreResult<Claimed> {
        let reply = self
            .measured(Operation::Claim, Some(feed), async {
                let (reply, answer) = oneshot::channel();
                let submission =
                    Submission { items: vec![claim], now: self.parts.runner.clock(Some(now)), reply };
                let key = (feed.clone(), drop.clone());
                // A run goes on when its caller has gone: others may wait for it.
                if let Some(group) = self.parts.stock.claims.submit(&key, submission) {
                    let stock = self.parts.stock.clone();
                    tokio::spawn(async move {
                        let run = |claims, now| stock.claim_all(&key, claims, now);
                        stock.claims.run_batches(&key, group, run).await;
                    });
                }
                let mut answers = in_turn(&self.parts.runner, answer).await?;
                Ok(answers.pop().ok_or(Corrupt("an answer to a claim"))?)
            })
            .await?;
        counted::claimed_drop(&reply, feed, self.metrics());
        Ok(reply)
    }
}

impl DropStock {
    async fn claim_all(
        &self,
        (feed, drop): &(FeedId, DropId),
        claims: Vec<Claim>,
        now: Option<Millis>,
    ) -> Result<Vec<Claimed>, Fault> {
        let own = |call: &mut Call| {
            for claim in &claims {
                call.item([], claim_args(claim));
            }
        };
        // Where the store's own clock counts, this time is not looked at.
        let now = now.unwrap_or(Millis(0));
        let reply = self.run(&scripts::DROP_CLAIM, feed, drop, now, own).await?;
        let one = |(at, claim): (usize, &Claim)| Ok(claimed(reply.text(at)?, drop, claim)?);
        claims.iter().enumerate().map(one).collect()
    }
}

/// What the script gets of a claim.
fn claim_args(claim: &Claim) -> [(&'static str, String); 8] {
    [
        ("claim", claim.id.to_string()),
        ("fingerprint", claim.fingerprint.to_string()),
        ("user_digest", user_digest(&claim.user.id).to_string()),
        ("units", claim.count.to_string()),
        ("pay", if claim.pay == Pay::Now { "now" } else { "later" }.to_owned()),
        ("user", claim.user.to_json()),
        ("message", claim.message_json().as_deref().unwrap_or_default().to_owned()),
        ("trace", trace_json(claim.trace.as_ref())),
    ]
}

/// What `feed_drop_claim` says to one claim.
fn claimed(text: &str, drop: &DropId, claim: &Claim) -> Result<Claimed, Corrupt> {
    let (kind, rest) = split(text)?;
    let own = || HoldId { drop: drop.clone(), claim: claim.id.clone() };
    let number = || rest.parse::<u64>().map_err(|_| Corrupt("a number about a claim"));
    let refused = match kind {
        'n' => return Ok(Claimed::New(read_claim(rest, own())?.first()?)),
        'a' => {
            let filled = read_claim(rest, own())?;
            if filled.fingerprint == claim.fingerprint.to_string() {
                return Ok(Claimed::Again(filled.first()?));
            }
            ClaimRefused::IdReused
        }
        'u' => ClaimRefused::UnknownDrop,
        'p' => ClaimRefused::AbovePerUser(number()?),
        'o' => ClaimRefused::NotOpen(rest.parse::<Phase>().map_err(|()| Corrupt("a phase"))?),
        'c' => ClaimRefused::AlreadyClaimed(match rest.split_once('\n') {
            Some((id, text)) => {
                let claim = id.parse().map_err(|_| Corrupt("a claim's id"))?;
                Some(read_claim(text, HoldId { drop: drop.clone(), claim })?.first()?)
            }
            None => None,
        }),
        's' => ClaimRefused::SoldOut(number()?),
        'h' => ClaimRefused::TooManyHolds(number()?),
        _ => return Err(Corrupt("an answer to a claim")),
    };
    Ok(Claimed::Refused(refused))
}
