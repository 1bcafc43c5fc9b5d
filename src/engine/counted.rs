//! What the metrics count of what came of operations.

use super::{DueFate, DueRun, DueTurn};
use crate::domain::answer::GiftFate;
use crate::domain::{
    Cancelled, ClaimOutcome, ClaimRefused, Claimed, Confirmed, Defined, DropView, FeedId, InReview, Outcome,
    Position, Reviewing, Status,
};
use crate::metrics::Metrics;
use crate::metrics::labels::{ClaimFate, GiftStatus, HoldFate};

pub(super) fn gifts(outcomes: &[Outcome], feed: &FeedId, metrics: &Metrics) {
    for outcome in outcomes {
        let status = match outcome {
            Outcome::New(answer) => status_of(answer.status),
            Outcome::Scheduled(_) => GiftStatus::Scheduled,
            Outcome::InReview(_) => {
                metrics.reviews_waiting.joined(feed.as_str());
                GiftStatus::InReview
            }
            Outcome::Duplicate(_) | Outcome::ScheduledBefore(_) | Outcome::InReviewBefore(_) => {
                GiftStatus::Duplicate
            }
            // What was refused is counted where refusals of every kind meet.
            Outcome::IdReused(_) | Outcome::TooManyScheduled { .. } | Outcome::TooManyInReview { .. } => {
                continue;
            }
        };
        metrics.gifts[status].inc();
    }
}

pub(super) fn retracted_row(at: &Option<Position>, _: &FeedId, metrics: &Metrics) {
    if at.is_some() {
        metrics.rows_retracted.inc();
    }
}

pub(super) fn stock(view: &DropView, feed: &FeedId, metrics: &Metrics) {
    metrics.drops.note(feed.as_str(), view.drop.as_str(), [view.free, view.held, view.sold]);
}

pub(super) fn defined_drop(defined: &Defined, feed: &FeedId, metrics: &Metrics) {
    if let Defined::New(view) | Defined::Changed(view) = defined {
        stock(view, feed, metrics);
    }
}

pub(super) fn ticked_drop(view: &Option<DropView>, feed: &FeedId, metrics: &Metrics) {
    view.iter().for_each(|view| stock(view, feed, metrics));
}

pub(super) fn listed_drops(views: &[DropView], feed: &FeedId, metrics: &Metrics) {
    views.iter().for_each(|view| stock(view, feed, metrics));
}

pub(super) fn claimed_drop(claimed: &Claimed, _: &FeedId, metrics: &Metrics) {
    let fate = match claimed {
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
    };
    metrics.claims[fate].inc();
}

pub(super) fn confirmed_hold(confirmed: &Confirmed, _: &FeedId, metrics: &Metrics) {
    match confirmed {
        Confirmed::New(_) => drop(metrics.holds[HoldFate::Confirmed].inc()),
        Confirmed::Ended => drop(metrics.holds[HoldFate::TooLate].inc()),
        Confirmed::Again(_) | Confirmed::Unknown => {}
    }
}

pub(super) fn cancelled_hold(cancelled: &Cancelled, _: &FeedId, metrics: &Metrics) {
    match cancelled {
        Cancelled::Done => drop(metrics.holds[HoldFate::Cancelled].inc()),
        Cancelled::Ended => drop(metrics.holds[HoldFate::TooLate].inc()),
        Cancelled::Unknown => {}
    }
}

pub(super) fn waiting_reviews(waiting: &[InReview], feed: &FeedId, metrics: &Metrics) {
    metrics.reviews_waiting.note(feed.as_str(), waiting.len());
}

pub(super) fn decided_review(reviewed: &Reviewing, _: &FeedId, metrics: &Metrics) {
    match &reviewed.done {
        Some(GiftFate::Taken(answer)) => drop(metrics.gifts[status_of(answer.status)].inc()),
        Some(GiftFate::Waits(_)) => drop(metrics.gifts[GiftStatus::Scheduled].inc()),
        Some(GiftFate::Cancelled(_) | GiftFate::InReview { .. }) | None => {}
    }
}

pub(super) fn claimed_due(turn: &DueTurn, metrics: &Metrics) {
    metrics.due_claimed.inc_by(turn.feeds.len() as u64);
    let reclaimed = turn.feeds.iter().filter(|feed| feed.reclaimed).count();
    metrics.due_reclaimed.inc_by(reclaimed as u64);
    metrics.due_feeds.set(turn.waiting as i64);
}

pub(super) fn handled_due(run: &DueRun, feed: &FeedId, metrics: &Metrics) {
    for handled in &run.handled {
        if matches!(handled.fate, DueFate::Shown(_) | DueFate::PutOff | DueFate::Struck(_)) {
            metrics.due_lag.observe(handled.late_ms as f64 / 1_000.0);
        }
        match &handled.fate {
            DueFate::Shown(answer) => drop(metrics.gifts[status_of(answer.status)].inc()),
            DueFate::PutOff => {}
            DueFate::Struck(view) => view.iter().for_each(|view| stock(view, feed, metrics)),
            DueFate::SetAside => drop(metrics.due_set_aside.inc()),
            DueFate::Dead(dead) => {
                metrics.due_dead.inc();
                let (kind, id, reason) = (dead.kind_word(), &dead.id, &dead.reason);
                tracing::error!(%feed, kind, id, reason, "something due could not be done and is given up");
            }
        }
    }
}

pub(super) fn status_of(status: Status) -> GiftStatus {
    match status {
        Status::Accepted => GiftStatus::Accepted,
        Status::Merged => GiftStatus::Merged,
        Status::Suppressed => GiftStatus::Suppressed,
        Status::Denied => GiftStatus::Denied,
    }
}
