//! `lua/drops/lookup.lua`.

use crate::domain::{ClaimState, ClaimStory, FeedId, HoldId, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::drops::filled::{filled, stored_claim};
use crate::metrics::labels::Operation;

impl Store {
    /// What became of a claim; `None` if there is none of this id, or its hold ended so long ago that it is forgotten.
    pub async fn look_up_claim(
        &self,
        feed: &FeedId,
        claim: &HoldId,
        now: Millis,
    ) -> StoreResult<Option<ClaimStory>> {
        self.measured(Operation::LookUpClaim, Some(feed), async {
            let keys = &self.parts.runner.keys;
            let mut call = self.parts.runner.feed_call(&scripts::DROP_LOOKUP, feed);
            call.for_a_reader();
            call.keys(["claims", "holds"].map(|what| (what, keys.of_drop(feed, what, &claim.drop))));
            call.key("retracted", keys.retracted(feed)).arg("claim", &claim.claim);
            let reply = self.parts.runner.run_feed(call, feed, Some(now)).await?;
            let texts = &reply.texts[usize::from(reply.mark.is_none()).min(reply.texts.len())..];
            let [state, text] = texts else { return Ok(None) };
            let state = serde_json::from_value(state.as_str().into())
                .map_err(|_| Corrupt("what became of a claim"))?;
            Ok(Some(read_story(text, claim.clone(), state)?))
        })
        .await
    }
}

/// What `claims` has of a claim that is looked up.
fn read_story(text: &str, claim: HoldId, state: ClaimState) -> Result<ClaimStory, Corrupt> {
    let it = stored_claim(text)?;
    let (user, at, expires_at) = (it.user.to_owned(), Millis(it.made_at), it.expires_at.map(Millis));
    let refunded = it.sale.as_ref().and_then(|sale| sale.refunded).unwrap_or(0);
    let filled = filled(it, claim);
    let answer = if filled.sale.is_some() { filled.sold()? } else { filled.first()? };
    Ok(ClaimStory { state, answer, user, at, expires_at, refunded })
}
