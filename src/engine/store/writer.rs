//! Running the scripts that write to a feed, with what must be prepared first.
//!
//! A script touches the keys of one slot, and writes only if everything that it needs from elsewhere is there. If not, it writes
//! nothing and answers which precondition is missing:
//!
//! - `register`: a gift or a drop waits for its time, and the feed is not in the index of due feeds;
//! - `reports`: the entry wakes idle webhooks, and they are not in the index of jobs;
//! - `hooks`: webhooks of all feeds have changed since the feed last saw them;
//! - `period`: a period has ended, so runs have to be begun and ended first;
//! - `runs`: rankings have other keys than those that came along.
//!
//! [`FeedWriter::write`] prepares what is missing and calls again. Preparing too much does no harm: an
//! index entry with nothing behind it is removed by the loop that finds it.

use std::sync::Arc;

use crate::domain::{FeedId, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::Call;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::due::index::DueIndex;
use crate::engine::store::reports::attach::Attaching;
use crate::engine::store::runner::{Reply, Runner};
use crate::engine::store::totals::known_rankings::{KnownRankings, KnownRankingsOfFeeds};

/// How often a script is called for one write: each time another precondition may be missing.
pub(super) const MAX_ATTEMPTS: usize = 8;

/// What is prepared for a write.
#[derive(Clone, Debug, Default)]
pub(super) struct Preconditions {
    /// Idle webhooks that are in the index of jobs, as the script named them.
    pub registered: String,
    /// Since when the feed is in the index of due feeds.
    pub due_since: Option<Millis>,
    /// The runs and the measures whose rankings come along.
    pub rankings: KnownRankings,
}

/// What a script refused to write without.
enum Missing {
    /// The webhooks of all feeds are to be brought to the feed.
    Hooks,
    /// These webhooks are to be put into the index of jobs.
    Jobs(String),
    /// The runs that are counted are to be settled.
    Period,
    /// These rankings are to come along.
    Rankings(KnownRankings),
    /// The feed is to be put into the index of due feeds, from this time on; and the policy's delay, if the script said it.
    Due(Millis, Option<u64>),
}

/// Runs scripts that append to a feed's ledger and count.
pub(super) struct FeedWriter {
    pub runner: Arc<Runner>,
    pub due: Arc<DueIndex>,
    pub attaching: Arc<Attaching>,
    pub rankings: KnownRankingsOfFeeds,
}

impl FeedWriter {
    /// Calls a script until nothing is missing. `call` makes each call, without what every such script gets.
    pub async fn write(
        &self,
        feed: &FeedId,
        now: Option<Millis>,
        prepared: &mut Preconditions,
        call: impl Fn(&Preconditions) -> Call + Send,
    ) -> Result<Reply, Fault> {
        let clock = self.runner.clock(now);
        for _ in 0..MAX_ATTEMPTS {
            let mut call = call(prepared);
            self.push_ledger(&mut call, feed, prepared);
            self.push_totals(&mut call, feed, prepared);
            let reply = self.runner.run_feed(call, feed, now).await?;
            let Some(missing) = missing(&reply)? else {
                self.written(feed, &reply, clock).await;
                return Ok(reply);
            };
            self.prepare(feed, missing, now, prepared).await?;
        }
        Err(unsettled())
    }

    async fn prepare(
        &self,
        feed: &FeedId,
        missing: Missing,
        now: Option<Millis>,
        prepared: &mut Preconditions,
    ) -> Result<(), Fault> {
        let clock = self.runner.clock(now);
        match missing {
            Missing::Hooks => {
                self.attaching.attach(feed, "", clock).await?;
                prepared.registered = String::new();
            }
            Missing::Jobs(idle) => {
                self.attaching.register_idle(feed, &idle, clock).await?;
                prepared.registered = idle;
            }
            Missing::Period => {
                self.tick_totals(feed, now).await?;
            }
            Missing::Rankings(rankings) => {
                prepared.rankings = self.rankings.learn(feed, rankings);
            }
            Missing::Due(at, delay) => {
                delay.into_iter().for_each(|delay| self.due.set_delay(feed, delay));
                prepared.due_since = Some(self.due.register(feed, Some(at), None, clock).await?);
            }
        }
        Ok(())
    }

    /// KEYS and ARGV by which a script counts.
    fn push_totals(&self, call: &mut Call, feed: &FeedId, prepared: &Preconditions) {
        let keys = &self.runner.keys;
        let [totals, sums, people, unranked] = keys.totals(feed);
        call.keys([("totals", totals), ("sums", sums), ("people", people), ("unranked", unranked)]);
        call.keys([("parts", keys.parts(feed)), ("announced", keys.announced(feed))]);
        let since = prepared.due_since.map(|since| since.0.to_string()).unwrap_or_default();
        call.arg("looked_at", since);
    }

    /// KEYS and ARGV by which a script appends to the ledger.
    fn push_ledger(&self, call: &mut Call, feed: &FeedId, prepared: &Preconditions) {
        let [ledger, reports, readers] = self.runner.keys.ledger(feed);
        call.keys([("ledger", ledger), ("reports", reports), ("readers", readers)]);
        let limits = &self.runner.options.reports;
        call.arg("hooks_version", self.attaching.version()).arg("registered", &prepared.registered);
        let bounds = format!("{} {} {}", limits.ledger_max, limits.backlog_max, limits.max_age_ms);
        call.arg("ledger_bounds", bounds);
    }

    /// Does what follows a write.
    async fn written(&self, feed: &FeedId, reply: &Reply, clock: Option<Millis>) {
        self.attaching.appended(feed);
        self.runner.entries_lost(feed, reply.unread);
        if reply.vanished > 0 {
            let unread = reply.vanished;
            self.runner.options.metrics.report_lost.inc_by(unread);
            tracing::error!(
                %feed, unread,
                "Redis let go of a ledger, with entries that a reader had not acknowledged; they are gone. Set \
                 maxmemory-policy noeviction"
            );
        }
        if let Some(dozed) = &reply.dozed
            && let Err(fault) = self.attaching.register_idle(feed, dozed, clock).await
        {
            // They are looked at soon in any case.
            tracing::debug!(%feed, why = fault.why, "webhooks that dozed are late");
        }
    }
}

/// After [`MAX_ATTEMPTS`].
pub(super) fn unsettled() -> Fault {
    Fault::stay("what a feed needs to be written to changes faster than it is prepared; try again")
}

/// Reads a refusal: "", what, and what about it. `None`: the script has written.
fn missing(reply: &Reply) -> Result<Option<Missing>, Fault> {
    if reply.mark.is_some() {
        return Ok(None);
    }
    let number = |at: usize| reply.texts.get(at).and_then(|text| text.parse::<i64>().ok());
    match (reply.texts.get(1).map(String::as_str), reply.texts.get(2), number(2)) {
        (Some("hooks"), ..) => Ok(Some(Missing::Hooks)),
        (Some("reports"), Some(idle), _) => Ok(Some(Missing::Jobs(idle.clone()))),
        // For the caller to see: what it brought is of another policy or time.
        (Some("again"), ..) => Ok(None),
        (Some("period"), ..) => Ok(Some(Missing::Period)),
        (Some("runs"), ..) => {
            let (runs, measures) = (reply.text(2)?.to_owned(), reply.text(3)?.to_owned());
            Ok(Some(Missing::Rankings(KnownRankings { runs, measures })))
        }
        (Some("register"), _, Some(at)) => {
            Ok(Some(Missing::Due(Millis(at), number(3).map(|delay| delay.max(0) as u64))))
        }
        // The drop's clock is to strike before anybody would look at the feed.
        (Some("r"), _, Some(at)) => Ok(Some(Missing::Due(Millis(at), None))),
        _ => Err(Corrupt("a reply").into()),
    }
}
