//! `lua/totals/leaders.lua`.

use crate::domain::tally::{LeadersAsk, LeadersView};
use crate::domain::{FeedId, Millis};
use crate::engine::StoreResult;
use crate::engine::protocol::records::read_leaders;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::totals::known_rankings::KnownRankings;
use crate::metrics::labels::Operation;

impl Store {
    /// A ranking. `None` if the period is not counted, or did not end yet where the one that ended is asked for.
    pub async fn read_leaders(
        &self,
        feed: &FeedId,
        ask: LeadersAsk,
        now: Millis,
    ) -> StoreResult<Option<LeadersView>> {
        self.measured(Operation::Leaders, Some(feed), async {
            let own = |call: &mut Call, rankings: &KnownRankings, are_ranked| {
                let [_, _, people, unranked] = self.parts.runner.keys.totals(feed);
                call.keys([("people", people), ("unranked", unranked)]);
                rankings.push(call, &self.parts.runner.keys, feed);
                call.arg("are_ranked", if are_ranked { "1" } else { "" });
                let state = if ask.back { "ended" } else { "open" };
                call.arg("period", ask.period).arg("state", state).arg("measure", ask.by.code());
                call.arg("limit", ask.limit).arg("user", ask.user.as_deref().unwrap_or_default());
            };
            let texts = self.parts.writer.look(&scripts::TOTALS_LEADERS, feed, now, own).await?;
            let [since, leaders, ref user @ ..] = texts.iter().map(String::as_str).collect::<Vec<_>>()[..]
            else {
                return Ok(None);
            };
            const WHAT: Corrupt = Corrupt("a ranking");
            let number = |text: &str| text.parse::<u64>().map_err(|_| WHAT);
            let user = match user {
                [rank, score] => Some((number(rank)?, number(score)?)),
                _ => None,
            };
            let since = Millis(since.parse().map_err(|_| WHAT)?);
            Ok(Some(LeadersView { since, leaders: read_leaders(leaders).ok_or(WHAT)?, user }))
        })
        .await
    }
}
