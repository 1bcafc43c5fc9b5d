//! An engine that is watched at work: counts and times every call of the one behind it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    DeadDue, DropStore, DueDone, DueFate, DueRun, DueStore, DueTurn, Engine, EngineError, FeedStore, Head,
    Missed, PolicyChange, ScheduledPage, Shards, Snapshot, Subscription, Unscheduled, Wait, Wakes,
};
use crate::domain::{
    Cancelled, Claim, ClaimOutcome, ClaimRefused, Claimed, Confirmed, Defined, DropId, DropSpec, DropView,
    DuePlace, FeedId, Gift, GiftId, Hold, HoldId, Millis, Outcome, Policy, Position, RowId, Status, Trace,
};
use crate::metrics::Metrics;
use crate::metrics::labels::{ClaimFate, Failure, GiftStatus, HoldFate, Operation};

mod moderation;
mod reports;
mod requests;
mod review;
mod sources;
mod totals;
mod viewers;
mod writes;

use writes::Writes;

/// Passes every call on, and counts it.
pub struct Metered {
    engine: Arc<dyn Engine>,
    metrics: Arc<Metrics>,
    writes: Writes,
}

impl Metered {
    /// `engine`, counted in `metrics`.
    pub fn over(engine: Arc<dyn Engine>, metrics: Arc<Metrics>) -> Arc<dyn Engine> {
        metrics.describe(engine.name());
        Arc::new(Metered { engine, metrics, writes: Writes::default() })
    }

    async fn time<T>(&self, operation: Operation, work: Wait<'_, T>) -> Result<T, EngineError> {
        let mut call = Call { metrics: &self.metrics, operation, failure: Some(Failure::Abandoned) };
        call.metrics.engine_calls_in_flight.inc();
        let begun = Instant::now();
        let done = work.await;
        self.writes.note_operation(operation);
        self.metrics.engine_calls[operation].observe(begun.elapsed().as_secs_f64());
        call.failure = match &done {
            Ok(_) => None,
            Err(EngineError::Overloaded(_)) => Some(Failure::Overloaded),
            Err(EngineError::FeedDamaged(_)) => Some(Failure::Damaged),
            Err(EngineError::NotReplicated(_)) => Some(Failure::NotReplicated),
            Err(EngineError::Unavailable(_) | EngineError::Open(_)) => Some(Failure::Unavailable),
        };
        done
    }

    fn call<'a, T: Send + 'a>(&'a self, operation: Operation, work: Wait<'a, T>) -> Wait<'a, T> {
        Box::pin(self.time(operation, work))
    }

    fn count(&self, feed: &FeedId, outcome: &Outcome) {
        let status = match outcome {
            Outcome::New(answer) => status_of(answer.status),
            Outcome::Scheduled(_) => GiftStatus::Scheduled,
            Outcome::InReview(_) => {
                self.metrics.reviews_waiting.joined(feed.as_str());
                GiftStatus::InReview
            }
            Outcome::Duplicate(_) | Outcome::ScheduledBefore(_) | Outcome::InReviewBefore(_) => {
                GiftStatus::Duplicate
            }
            // What was refused is counted where refusals of every kind meet.
            Outcome::IdReused(_) | Outcome::TooManyScheduled { .. } | Outcome::TooManyInReview { .. } => {
                return;
            }
        };
        self.metrics.gifts[status].inc();
    }

    fn count_due(&self, feed: &FeedId, run: &DueRun) {
        for handled in &run.handled {
            match &handled.fate {
                DueFate::Shown(answer) => {
                    self.metrics.due_lag.observe(handled.late_ms as f64 / 1_000.0);
                    self.metrics.gifts[status_of(answer.status)].inc();
                }
                DueFate::PutOff => {
                    self.metrics.due_lag.observe(handled.late_ms as f64 / 1_000.0);
                }
                DueFate::Struck(view) => {
                    self.metrics.due_lag.observe(handled.late_ms as f64 / 1_000.0);
                    view.iter().for_each(|view| self.note(feed, view));
                }
                DueFate::SetAside => {
                    self.metrics.due_set_aside.inc();
                }
                DueFate::Dead(dead) => {
                    self.metrics.due_dead.inc();
                    let (kind, id, reason) = (dead.kind_word(), &dead.id, &dead.reason);
                    tracing::error!(%feed, kind, id, reason, "something due could not be done and is given up");
                }
            }
        }
    }
}

fn status_of(status: Status) -> GiftStatus {
    match status {
        Status::Accepted => GiftStatus::Accepted,
        Status::Merged => GiftStatus::Merged,
        Status::Suppressed => GiftStatus::Suppressed,
        Status::Denied => GiftStatus::Denied,
    }
}

/// A call under way. Its caller may stop waiting at any moment, by dropping it.
struct Call<'a> {
    metrics: &'a Metrics,
    operation: Operation,
    failure: Option<Failure>,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.metrics.engine_calls_in_flight.dec();
        if let Some(failure) = self.failure {
            self.metrics.engine_failures[(self.operation, failure)].inc();
        }
    }
}

impl FeedStore for Metered {
    fn publish<'a>(&'a self, feed: &'a FeedId, gifts: Vec<Gift>, now: Millis) -> Wait<'a, Vec<Outcome>> {
        Box::pin(async move {
            let outcomes = self.time(Operation::Publish, self.engine.publish(feed, gifts, now)).await;
            self.writes.note(feed);
            let outcomes = outcomes?;
            outcomes.iter().for_each(|outcome| self.count(feed, outcome));
            Ok(outcomes)
        })
    }

    fn retract<'a>(&'a self, feed: &'a FeedId, row: &'a RowId, now: Millis) -> Wait<'a, Option<Position>> {
        Box::pin(async move {
            let at = self.time(Operation::Retract, self.engine.retract(feed, row, now)).await?;
            if at.is_some() {
                self.metrics.rows_retracted.inc();
            }
            Ok(at)
        })
    }

    fn policy<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Policy> {
        self.call(Operation::Policy, self.engine.policy(feed))
    }

    fn set_policy<'a>(&'a self, feed: &'a FeedId, change: PolicyChange, now: Millis) -> Wait<'a, Policy> {
        self.call(Operation::SetPolicy, self.engine.set_policy(feed, change, now))
    }

    fn snapshot<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Snapshot> {
        self.call(Operation::Snapshot, self.engine.snapshot(feed, now))
    }

    fn changes<'a>(&'a self, feed: &'a FeedId, since: &'a Position, max: usize) -> Wait<'a, Missed> {
        self.call(Operation::Changes, self.engine.changes(feed, since, max))
    }

    fn heads<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Result<Head, EngineError>>> {
        self.call(Operation::Heads, self.engine.heads(feeds))
    }

    fn subscribe<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Subscription> {
        self.call(Operation::Subscribe, self.engine.subscribe(feed))
    }

    fn known(&self, feed: &FeedId) -> Option<Position> {
        self.engine.known(feed)
    }
}

impl DueStore for Metered {
    fn scheduled<'a>(
        &'a self,
        feed: &'a FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> Wait<'a, ScheduledPage> {
        self.call(Operation::Scheduled, self.engine.scheduled(feed, after, max))
    }

    fn unschedule<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, Unscheduled> {
        self.call(Operation::Unschedule, self.engine.unschedule(feed, id, now))
    }

    fn dead<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<DeadDue>> {
        self.call(Operation::Dead, self.engine.dead(feed))
    }

    fn claim_due(&self, over: Vec<DueDone>, max: usize, now: Millis) -> Wait<'_, DueTurn> {
        Box::pin(async move {
            let turn = self.time(Operation::ClaimDue, self.engine.claim_due(over, max, now)).await?;
            self.metrics.due_claimed.inc_by(turn.feeds.len() as u64);
            let reclaimed = turn.feeds.iter().filter(|feed| feed.reclaimed).count();
            self.metrics.due_reclaimed.inc_by(reclaimed as u64);
            self.metrics.due_feeds.set(turn.waiting as i64);
            Ok(turn)
        })
    }

    fn run_due<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, DueRun> {
        Box::pin(async move {
            let run = self.time(Operation::RunDue, self.engine.run_due(feed, now)).await;
            self.writes.note(feed);
            let run = run?;
            self.count_due(feed, &run);
            Ok(run)
        })
    }

    fn due_at_once(&self) -> usize {
        self.engine.due_at_once()
    }

    fn wakes(&self) -> Wakes {
        self.engine.wakes()
    }
}

impl Engine for Metered {
    fn probe(&self) -> Wait<'_, Shards> {
        self.call(Operation::Probe, self.engine.probe())
    }

    fn probe_feed<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, ()> {
        self.call(Operation::Probe, self.engine.probe_feed(feed))
    }

    fn close(&self) -> Wait<'_, ()> {
        self.engine.close()
    }

    fn warning(&self) -> Option<String> {
        self.engine.warning()
    }

    fn probe_every(&self) -> Duration {
        self.engine.probe_every()
    }

    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn writes(&self, feed: &FeedId) -> u64 {
        self.writes.number(feed)
    }
}

impl Metered {
    fn note(&self, feed: &FeedId, view: &DropView) {
        let units = [view.free, view.held, view.sold];
        self.metrics.drops.note(feed.as_str(), view.drop.as_str(), units);
    }
}

fn fate_of(claimed: &Claimed) -> ClaimFate {
    match claimed {
        Claimed::New(answer) => match answer.fate {
            ClaimOutcome::Sold(_) => ClaimFate::Sold,
            ClaimOutcome::Held(_) => ClaimFate::Held,
        },
        Claimed::Again(_) => ClaimFate::Repeated,
        Claimed::Refused(refused) => match refused {
            ClaimRefused::UnknownDrop => ClaimFate::UnknownDrop,
            ClaimRefused::IdReused | ClaimRefused::AbovePerUser(_) => ClaimFate::Invalid,
            ClaimRefused::NotOpen(_) => ClaimFate::NotOpen,
            ClaimRefused::AlreadyClaimed(_) => ClaimFate::AlreadyClaimed,
            ClaimRefused::SoldOut(_) => ClaimFate::SoldOut,
            ClaimRefused::TooManyHolds(_) => ClaimFate::TooManyHolds,
        },
    }
}

impl DropStore for Metered {
    fn define_drop<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        spec: DropSpec,
        now: Millis,
    ) -> Wait<'a, Defined> {
        Box::pin(async move {
            let work = self.engine.define_drop(feed, drop, spec, now);
            let defined = self.time(Operation::DefineDrop, work).await?;
            if let Defined::New(view) | Defined::Changed(view) = &defined {
                self.note(feed, view);
            }
            Ok(defined)
        })
    }

    fn tick<'a>(&'a self, feed: &'a FeedId, drop: &'a DropId, now: Millis) -> Wait<'a, Option<DropView>> {
        Box::pin(async move {
            let view = self.time(Operation::Tick, self.engine.tick(feed, drop, now)).await?;
            view.iter().for_each(|view| self.note(feed, view));
            Ok(view)
        })
    }

    fn drops<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<DropView>> {
        Box::pin(async move {
            let views = self.time(Operation::Drops, self.engine.drops(feed, now)).await?;
            views.iter().for_each(|view| self.note(feed, view));
            Ok(views)
        })
    }

    fn claim<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        claim: Claim,
        now: Millis,
    ) -> Wait<'a, Claimed> {
        Box::pin(async move {
            let claimed = self.time(Operation::Claim, self.engine.claim(feed, drop, claim, now)).await;
            self.writes.note(feed);
            let claimed = claimed?;
            self.metrics.claims[fate_of(&claimed)].inc();
            Ok(claimed)
        })
    }

    fn confirm<'a>(
        &'a self,
        feed: &'a FeedId,
        hold: &'a HoldId,
        trace: Option<Trace>,
        now: Millis,
    ) -> Wait<'a, Confirmed> {
        Box::pin(async move {
            let confirmed = self.time(Operation::Confirm, self.engine.confirm(feed, hold, trace, now)).await;
            self.writes.note(feed);
            let confirmed = confirmed?;
            match confirmed {
                Confirmed::New(_) => drop(self.metrics.holds[HoldFate::Confirmed].inc()),
                Confirmed::Ended => drop(self.metrics.holds[HoldFate::TooLate].inc()),
                Confirmed::Again(_) | Confirmed::Unknown => {}
            }
            Ok(confirmed)
        })
    }

    fn cancel<'a>(&'a self, feed: &'a FeedId, hold: &'a HoldId, now: Millis) -> Wait<'a, Cancelled> {
        Box::pin(async move {
            let cancelled = self.time(Operation::Cancel, self.engine.cancel(feed, hold, now)).await?;
            match cancelled {
                Cancelled::Done => drop(self.metrics.holds[HoldFate::Cancelled].inc()),
                Cancelled::Ended => drop(self.metrics.holds[HoldFate::TooLate].inc()),
                Cancelled::Unknown => {}
            }
            Ok(cancelled)
        })
    }

    fn holds<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, Vec<Hold>> {
        self.call(Operation::Holds, self.engine.holds(feed, user, now))
    }
}
