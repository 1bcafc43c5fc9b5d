//! Rounds of a script that writes only once everything is ready.
//!
//! A feed's script may find out that it must not write yet: a gift is for later, and the feed is not in the index of
//! due feeds; an entry of the ledger wakes a webhook that rests, and that is not in the index of jobs; there are
//! webhooks of all feeds that this feed has not heard of. These are in other slots, so the script refuses and says
//! what is missing, the caller makes it ready, and calls again. This is that round, for everybody who needs it.

use std::sync::Arc;

use super::due::index::DueIndex;
use super::faults::Fault;
use super::known_rankings::{KnownRankings, KnownRankingsOfFeeds};
use super::reports::attach::Attaching;
use super::runner::{Reply, Runner};
use super::scripts::Call;
use super::wire::Garbled;
use crate::domain::{FeedId, Millis};

/// How often a script is called before it is given up: each time something has to be made ready that it did not know
/// of the time before.
const ROUNDS: usize = 8;

/// What has been made ready for a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready {
    /// Webhooks that rest and are in the index of jobs, as the script named them.
    pub registered: String,
    /// Since when the feed is in the index of due feeds.
    pub due_since: Option<Millis>,
    /// The runs and the measures whose rankings come along.
    pub rankings: KnownRankings,
}

/// What one call of a round came to.
pub(super) enum Said<R, M> {
    /// It is done.
    Done(R),
    /// Nothing was done; this is to be made ready first.
    Missing(M),
}

/// What is called again until nothing is missing.
pub(super) trait Round: Send {
    type Reply;
    type Missing: Send;

    /// Calls the script.
    fn ask(&mut self) -> impl Future<Output = Result<Said<Self::Reply, Self::Missing>, Fault>> + Send;

    /// Makes ready what it said was missing.
    fn make_ready(&mut self, missing: Self::Missing) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// Asks, and makes ready what is missing, until nothing is.
pub(super) async fn rounds<R: Round>(mut round: R) -> Result<R::Reply, Fault> {
    for _ in 0..ROUNDS {
        match round.ask().await? {
            Said::Done(reply) => return Ok(reply),
            Said::Missing(missing) => round.make_ready(missing).await?,
        }
    }
    Err(Fault::stay("what a feed needs to be written to changes faster than it is made ready; try again"))
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
    /// The feed is to be put into the index of due feeds, from this time on; and the policy's delay, if told.
    Due(Millis, Option<u64>),
}

/// A script that appends to a feed's ledger.
struct Appending<'a, F> {
    rounds: &'a Rounds,
    feed: &'a FeedId,
    now: Option<Millis>,
    clock: Option<Millis>,
    ready: &'a mut Ready,
    call: F,
}

impl<F: Fn(&Ready) -> Call + Send> Round for Appending<'_, F> {
    type Reply = Reply;
    type Missing = Missing;

    async fn ask(&mut self) -> Result<Said<Reply, Missing>, Fault> {
        let mut call = (self.call)(self.ready);
        self.rounds.ledger(&mut call, self.feed, self.ready);
        self.rounds.counted(&mut call, self.feed, self.ready);
        let reply = self.rounds.runner.run_feed(call, self.feed, self.now).await?;
        Ok(match missing(&reply)? {
            None => Said::Done(reply),
            Some(missing) => Said::Missing(missing),
        })
    }

    async fn make_ready(&mut self, missing: Missing) -> Result<(), Fault> {
        let Appending { rounds, feed, now, clock, ready, .. } = self;
        match missing {
            Missing::Hooks => {
                rounds.attaching.attach(feed, "", *clock).await?;
                ready.registered = String::new();
            }
            Missing::Jobs(idle) => {
                rounds.attaching.register_idle(feed, &idle, *clock).await?;
                ready.registered = idle;
            }
            Missing::Period => {
                rounds.tick_totals(feed, *now).await?;
            }
            Missing::Rankings(rankings) => {
                ready.rankings = rounds.rankings.learn(feed, rankings);
            }
            Missing::Due(at, delay) => {
                delay.into_iter().for_each(|delay| rounds.due.set_delay(feed, delay));
                ready.due_since = Some(rounds.due.register(feed, Some(at), None, *clock).await?);
            }
        }
        Ok(())
    }
}

/// See the module.
pub(super) struct Rounds {
    pub runner: Arc<Runner>,
    pub due: Arc<DueIndex>,
    pub attaching: Arc<Attaching>,
    pub rankings: KnownRankingsOfFeeds,
}

impl Rounds {
    /// Calls a script that appends to the feed's ledger until nothing is missing; `call` makes the call of each
    /// round, all but what every such script gets.
    pub async fn run(
        &self,
        feed: &FeedId,
        now: Option<Millis>,
        ready: &mut Ready,
        call: impl Fn(&Ready) -> Call + Send,
    ) -> Result<Reply, Fault> {
        let clock = self.runner.clock(now);
        let reply = rounds(Appending { rounds: self, feed, now, clock, ready, call }).await?;
        self.settle(feed, &reply, clock).await;
        Ok(reply)
    }

    /// KEYS and ARGV by which a script counts.
    fn counted(&self, call: &mut Call, feed: &FeedId, ready: &Ready) {
        let keys = &self.runner.keys;
        let [totals, sums, people, unranked] = keys.totals(feed);
        call.keys([("totals", totals), ("sums", sums), ("people", people), ("unranked", unranked)]);
        call.keys([("parts", keys.parts(feed)), ("announced", keys.announced(feed))]);
        let since = ready.due_since.map(|since| since.0.to_string()).unwrap_or_default();
        call.arg("looked_at", since);
    }

    /// KEYS and ARGV by which a script appends to the ledger.
    fn ledger(&self, call: &mut Call, feed: &FeedId, ready: &Ready) {
        let [ledger, reports, readers] = self.runner.keys.ledger(feed);
        call.keys([("ledger", ledger), ("reports", reports), ("readers", readers)]);
        let limits = &self.runner.options.reports;
        call.arg("hooks_version", self.attaching.version()).arg("registered", &ready.registered);
        let bounds = format!("{} {} {}", limits.ledger_max, limits.backlog_max, limits.max_age_ms);
        call.arg("ledger_bounds", bounds);
    }

    /// What is to be done once the script has written.
    async fn settle(&self, feed: &FeedId, reply: &Reply, clock: Option<Millis>) {
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

/// Reads a refusal: "", what, and what about it. None: the script has written.
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
        _ => Err(Garbled("a reply").into()),
    }
}
