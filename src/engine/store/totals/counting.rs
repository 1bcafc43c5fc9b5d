//! Totals, leaders, sessions and goals: what the scripts of `lua/totals` are called with and answer.

use std::fmt::Write;
use std::pin::Pin;

use crate::domain::tally::Period;
use crate::domain::{FeedId, Millis, Policy};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call, Script};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::runner::Reply;
use crate::engine::store::totals::known_rankings::KnownRankings;
use crate::engine::store::writer::{FeedWriter, Preconditions};

/// How often a call is made anew because the policy or the calendar was another by then.
const MAX_ATTEMPTS: usize = 8;

/// Users that `lua/totals/rank.lua` ranks in one call.
const RANKED_AT_ONCE: u64 = 256;

/// What a look at what a feed counts came to.
pub(crate) struct Ticked {
    /// The store's clock.
    pub now: Millis,
    /// When the feed's due queue has something next.
    pub next: Option<Millis>,
}

impl FeedWriter {
    /// Ranks who gave, and settles what a feed counts. Boxed, because what it calls may call it.
    pub fn tick_totals<'a>(
        &'a self,
        feed: &'a FeedId,
        now: Option<Millis>,
    ) -> Pin<Box<dyn Future<Output = Result<Ticked, Fault>> + Send + 'a>> {
        Box::pin(async move {
            self.rank(feed, now).await?;
            let own = |call: &mut Call, prepared: &Preconditions| {
                prepared.rankings.push(call, &self.runner.keys, feed)
            };
            let reply = self.turn(&scripts::TOTALS_TICK, feed, now, own).await?;
            let next = reply.texts.first().and_then(|text| text.parse().ok()).map(Millis);
            Ok(Ticked { now: reply.mark()?.1, next })
        })
    }

    /// Brings the rankings up to what users gave before this call.
    async fn rank(&self, feed: &FeedId, now: Option<Millis>) -> Result<(), Fault> {
        let mut rankings = self.rankings.of(feed);
        let (mut waiting, mut attempts) = (None, MAX_ATTEMPTS);
        while attempts > 0 {
            let mut call = self.runner.timed(&scripts::TOTALS_RANK, now);
            let [totals, sums, people, unranked] = self.runner.keys.totals(feed);
            call.keys([("totals", totals), ("sums", sums), ("people", people), ("unranked", unranked)]);
            rankings.push(&mut call, &self.runner.keys, feed);
            let texts = self.texts(&call, feed).await?;
            if let Some(missing) = missing_rankings(&texts) {
                rankings = self.rankings.learn(feed, missing);
                attempts -= 1;
                continue;
            }
            let left: u64 = texts.first().and_then(|text| text.parse().ok()).ok_or(Corrupt("a reply"))?;
            // Who gave meanwhile need not be ranked.
            let before = *waiting.get_or_insert(left);
            waiting = Some(before.min(left).saturating_sub(RANKED_AT_ONCE));
            if left == 0 || before == 0 {
                return Ok(());
            }
        }
        Err(policy_moves())
    }

    /// What a script of one feed answers without a position. A damaged feed is known as such from then on.
    async fn texts(&self, call: &Call, feed: &FeedId) -> Result<Vec<String>, Fault> {
        self.runner.run(call).await.inspect_err(|fault| self.runner.damaged.note(feed, fault))
    }

    /// Runs a script that begins and ends runs by the calendar, which it gets from here. `own` adds what is the script's own.
    pub(super) async fn turn(
        &self,
        script: &'static Script,
        feed: &FeedId,
        now: Option<Millis>,
        own: impl Fn(&mut Call, &Preconditions) + Sync,
    ) -> Result<Reply, Fault> {
        let mut clock = self.runner.clock(now).unwrap_or_else(Millis::now);
        let mut prepared = Preconditions { rankings: self.rankings.of(feed), ..Preconditions::default() };
        for _ in 0..MAX_ATTEMPTS {
            let policy = self.runner.with_overrides(&self.runner.overrides(feed).await?)?;
            let call = |prepared: &Preconditions| {
                let mut call = self.runner.feed_call(script, feed);
                let [due, _] = self.runner.keys.due(feed);
                call.key("due", due)
                    .arg("time_zone", &policy.time_zone)
                    .arg("bounds", bounds(&policy, clock));
                own(&mut call, prepared);
                call
            };
            let reply = self.write(feed, now, &mut prepared, call).await?;
            match again(&reply) {
                Some(at) => clock = at,
                None => return Ok(reply),
            }
        }
        Err(policy_moves())
    }

    /// Runs a script that reads what a feed counts, once that is settled.
    pub(super) async fn look(
        &self,
        script: &'static Script,
        feed: &FeedId,
        now: Millis,
        own: impl Fn(&mut Call, &KnownRankings, bool) + Sync,
    ) -> Result<Vec<String>, Fault> {
        let (mut rankings, mut are_ranked) = (self.rankings.of(feed), false);
        for _ in 0..MAX_ATTEMPTS {
            let mut call = self.runner.timed(script, Some(now));
            let [totals, ..] = self.runner.keys.totals(feed);
            call.keys([("policy", self.runner.keys.policy(feed)), ("totals", totals)]);
            call.arg("default_policy", self.runner.defaults()).for_a_reader();
            own(&mut call, &rankings, are_ranked);
            let texts = self.texts(&call, feed).await?;
            match &texts[..] {
                [none, what] if none.is_empty() && what == "period" => {
                    self.tick_totals(feed, Some(now)).await?;
                }
                [none, what] if none.is_empty() && what == "rank" => {
                    self.rank(feed, Some(now)).await?;
                    are_ranked = true;
                }
                _ => match missing_rankings(&texts) {
                    Some(missing) => rankings = missing,
                    None => return Ok(texts),
                },
            }
        }
        Err(policy_moves())
    }

    pub(super) async fn read_all(
        &self,
        feed: &FeedId,
        what: &str,
        now: Millis,
    ) -> Result<Vec<String>, Fault> {
        let own = |call: &mut Call, _: &KnownRankings, _| {
            let [_, sums, ..] = self.runner.keys.totals(feed);
            call.arg("what", what).key("sums", sums);
        };
        self.look(&scripts::TOTALS_READ, feed, now, own).await
    }
}

/// The rankings without which a script refused.
fn missing_rankings(texts: &[String]) -> Option<KnownRankings> {
    match texts {
        [none, what, runs, measures] if none.is_empty() && what == "runs" => {
            Some(KnownRankings { runs: runs.clone(), measures: measures.clone() })
        }
        _ => None,
    }
}

/// When the day, the week and the month of this time begin and end.
fn bounds(policy: &Policy, clock: Millis) -> String {
    let mut bounds = String::new();
    for period in Period::ALL.into_iter().filter(|period| period.is_calendar()) {
        let (since, until) = policy.time_zone.bounds(period, clock);
        let _ = write!(bounds, "{period} {} {};", since.0.max(0), until.0);
    }
    bounds
}

/// Of a feed whose policy was another each time that it was to be used.
pub(crate) fn policy_moves() -> Fault {
    Fault::stay("the feed's policy changes faster than it is read")
}

/// Whether the script refused because what the caller saw before is another by now.
pub(crate) fn is_again(reply: &Reply) -> bool {
    reply.mark.is_none() && reply.texts.get(1).is_some_and(|text| text == "again")
}

/// The store's time, when the call is to be made anew.
fn again(reply: &Reply) -> Option<Millis> {
    is_again(reply).then(|| reply.texts.get(2)?.parse().ok().map(Millis)).flatten()
}
