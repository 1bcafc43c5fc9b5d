//! Answers about gifts.

use std::fmt::Write;

use serde::Serialize;

use super::words::{CancelledStatus, RetractedStatus};
use crate::domain::json::push_number;
use crate::domain::{Answer, GiftId, Millis, Outcome, Position, RowId, Scheduled, Status};
use crate::http::problem::Problem;

/// What became of a gift, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GiftStatus {
    /// A new row.
    Accepted,
    /// It joined a row.
    Merged,
    /// Not shown, because of the dedup lock, or because its giver is blocked.
    Suppressed,
    /// It is shown later.
    Scheduled,
    /// It waits for a host's decision.
    InReview,
    /// Not shown, because a host said so.
    Denied,
    /// It was refused; only in a batch.
    Rejected,
}

impl GiftStatus {
    /// The word of the API.
    fn as_str(self) -> &'static str {
        match self {
            GiftStatus::Accepted => "accepted",
            GiftStatus::Merged => "merged",
            GiftStatus::Suppressed => "suppressed",
            GiftStatus::Scheduled => "scheduled",
            GiftStatus::InReview => "in_review",
            GiftStatus::Denied => "denied",
            GiftStatus::Rejected => "rejected",
        }
    }
}

/// What became of a gift: a new row, one that it joined, one that kept it from being shown, or a time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct GiftResult<'a> {
    pub status: GiftStatus,
    /// The gift's id.
    #[cfg_attr(test, schema(value_type = String, example = "order-7712"))]
    pub id: &'a GiftId,
    /// The life of the feed's numbering. Accepted and merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<&'a str>,
    /// The feed's newest change, right after. Accepted and merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(maximum = 9_007_199_254_740_991_u64))]
    pub seq: Option<u64>,
    /// The row that it made or joined, or that kept it from being shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub row: Option<&'a RowId>,
    /// The row's count now. Merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// It is shown then or shortly after, never before. Scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime))]
    pub deliver_at: Option<Millis>,
    /// True when the id came before; the rest is the first answer. Else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
}

impl<'a> GiftResult<'a> {
    fn shown(answer: &'a Answer, duplicate: Option<bool>) -> GiftResult<'a> {
        let Answer { status, id, at: Position { epoch, seq }, row, count } = answer;
        let at = answer.tells_seq().then_some((epoch.as_str(), *seq));
        let status = match status {
            Status::Accepted => GiftStatus::Accepted,
            Status::Merged => GiftStatus::Merged,
            Status::Suppressed => GiftStatus::Suppressed,
            Status::Denied => GiftStatus::Denied,
        };
        GiftResult {
            status,
            id,
            epoch: at.map(|(epoch, _)| epoch),
            seq: at.map(|(_, seq)| seq),
            row: row.as_ref(),
            count: *count,
            deliver_at: None,
            duplicate,
        }
    }

    fn scheduled(it: &'a Scheduled, duplicate: Option<bool>) -> GiftResult<'a> {
        GiftResult {
            status: GiftStatus::Scheduled,
            id: &it.id,
            epoch: None,
            seq: None,
            row: None,
            count: None,
            deliver_at: Some(it.deliver_at),
            duplicate,
        }
    }

    fn in_review(id: &'a GiftId, duplicate: Option<bool>) -> GiftResult<'a> {
        GiftResult {
            status: GiftStatus::InReview,
            id,
            epoch: None,
            seq: None,
            row: None,
            count: None,
            deliver_at: None,
            duplicate,
        }
    }

    /// Appends what a serializer writes, for several times as much: every gift has such an answer.
    pub fn push_json(&self, out: &mut String) {
        out.push_str("{\"status\":\"");
        self.push_members(out);
        out.push('}');
    }

    /// Appends the status, without its first quote, and the other members. No name of ours needs an escape.
    fn push_members(&self, out: &mut String) {
        let GiftResult { status, id, epoch, seq, row, count, deliver_at, duplicate } = self;
        for part in [status.as_str(), "\",\"id\":\"", id.as_str(), "\""] {
            out.push_str(part);
        }
        if let Some(epoch) = epoch {
            for part in [",\"epoch\":\"", epoch, "\""] {
                out.push_str(part);
            }
        }
        if let Some(seq) = seq {
            out.push_str(",\"seq\":");
            push_number(out, *seq as i64);
        }
        if let Some(row) = row {
            for part in [",\"row\":\"", row.as_str(), "\""] {
                out.push_str(part);
            }
        }
        if let Some(count) = count {
            out.push_str(",\"count\":");
            push_number(out, *count as i64);
        }
        if let Some(at) = deliver_at {
            let _ = write!(out, ",\"deliver_at\":\"{at}\"");
        }
        if let Some(duplicate) = duplicate {
            out.push_str(if *duplicate { ",\"duplicate\":true" } else { ",\"duplicate\":false" });
        }
    }

    /// What became of a gift about which a host decided.
    pub fn decided(answer: &'a Answer) -> GiftResult<'a> {
        GiftResult::shown(answer, None)
    }

    /// A host decided about a gift whose own time has not come.
    pub fn later(it: &'a Scheduled) -> GiftResult<'a> {
        GiftResult::scheduled(it, None)
    }

    /// The answer to an outcome; none for one that refuses the gift.
    pub fn of(outcome: &'a Outcome) -> Option<GiftResult<'a>> {
        match outcome {
            Outcome::New(answer) => Some(GiftResult::shown(answer, None)),
            Outcome::Duplicate(answer) => Some(GiftResult::shown(answer, Some(true))),
            Outcome::Scheduled(it) => Some(GiftResult::scheduled(it, None)),
            Outcome::ScheduledBefore(it) => Some(GiftResult::scheduled(it, Some(true))),
            Outcome::InReview(id) => Some(GiftResult::in_review(id, None)),
            Outcome::InReviewBefore(id) => Some(GiftResult::in_review(id, Some(true))),
            Outcome::IdReused(_) | Outcome::TooManyScheduled { .. } | Outcome::TooManyInReview { .. } => None,
        }
    }
}

/// What became of a batch.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct GiftBatchResult<'a> {
    pub accepted: u64,
    pub merged: u64,
    pub suppressed: u64,
    /// Repeated ids; their results carry the first answer's status.
    pub duplicate: u64,
    pub scheduled: u64,
    /// Gifts that wait for somebody's approval.
    pub in_review: u64,
    pub rejected: u64,
    /// In the order of the request.
    #[cfg_attr(test, schema(max_items = 128))]
    pub results: Vec<GiftBatchItem<'a>>,
}

/// What became of one gift of a batch: the members of a `GiftResult`, or why it was rejected.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct GiftBatchItem<'a> {
    /// Its place in the request, from 0.
    pub index: usize,
    pub status: GiftStatus,
    /// The gift's id. Not when it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub id: Option<&'a GiftId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(maximum = 9_007_199_254_740_991_u64))]
    pub seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    pub row: Option<&'a RowId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime))]
    pub deliver_at: Option<Millis>,
    /// True when the id came before; the rest is the first answer. Else absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<Problem>))]
    pub error: Option<Box<Problem>>,
}

impl<'a> GiftBatchItem<'a> {
    /// What became of the gift at `index`.
    pub fn taken(index: usize, it: GiftResult<'a>) -> GiftBatchItem<'a> {
        let GiftResult { status, id, epoch, seq, row, count, deliver_at, duplicate } = it;
        let id = Some(id);
        GiftBatchItem { index, status, id, epoch, seq, row, count, deliver_at, duplicate, error: None }
    }

    fn push_json(&self, out: &mut String) -> serde_json::Result<()> {
        let GiftBatchItem { index, status, id, epoch, seq, row, count, deliver_at, duplicate, error } = self;
        let (Some(id), None) = (*id, error) else {
            out.push_str(&serde_json::to_string(self)?);
            return Ok(());
        };
        out.push_str("{\"index\":");
        push_number(out, *index as i64);
        out.push_str(",\"status\":\"");
        let (status, epoch, seq, row, count) = (*status, *epoch, *seq, *row, *count);
        let (deliver_at, duplicate) = (*deliver_at, *duplicate);
        GiftResult { status, id, epoch, seq, row, count, deliver_at, duplicate }.push_members(out);
        out.push('}');
        Ok(())
    }

    /// Why the gift at `index` was rejected.
    pub fn rejected(index: usize, error: Problem) -> GiftBatchItem<'a> {
        GiftBatchItem {
            index,
            status: GiftStatus::Rejected,
            id: None,
            epoch: None,
            seq: None,
            row: None,
            count: None,
            deliver_at: None,
            duplicate: None,
            error: Some(Box::new(error)),
        }
    }
}

impl GiftBatchResult<'_> {
    /// As a serializer writes it.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let GiftBatchResult {
            accepted,
            merged,
            suppressed,
            duplicate,
            scheduled,
            in_review,
            rejected,
            results,
        } = self;
        let mut out = String::with_capacity(128 + 160 * results.len());
        for (name, number) in [
            ("{\"accepted\":", accepted),
            (",\"merged\":", merged),
            (",\"suppressed\":", suppressed),
            (",\"duplicate\":", duplicate),
            (",\"scheduled\":", scheduled),
            (",\"in_review\":", in_review),
            (",\"rejected\":", rejected),
        ] {
            out.push_str(name);
            push_number(&mut out, *number as i64);
        }
        out.push_str(",\"results\":[");
        for (n, item) in results.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            item.push_json(&mut out)?;
        }
        out.push_str("]}");
        Ok(out)
    }
}

/// A row was taken back.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RetractedRow<'a> {
    status: RetractedStatus,
    #[cfg_attr(test, schema(value_type = String))]
    row: &'a RowId,
    epoch: &'a str,
    /// The change that removed it.
    seq: u64,
}

impl<'a> RetractedRow<'a> {
    /// The row was removed by the change at `at`.
    pub fn new(row: &'a RowId, at: &'a Position) -> RetractedRow<'a> {
        RetractedRow { status: RetractedStatus::Retracted, row, epoch: at.epoch.as_str(), seq: at.seq }
    }
}

/// The scheduled gift will not be shown.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct CancelledGift<'a> {
    status: CancelledStatus,
    #[cfg_attr(test, schema(value_type = String))]
    id: &'a GiftId,
    /// When it would have been shown.
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    deliver_at: Millis,
}

impl<'a> CancelledGift<'a> {
    /// The gift would have been shown at `deliver_at`.
    pub fn new(id: &'a GiftId, deliver_at: Millis) -> CancelledGift<'a> {
        CancelledGift { status: CancelledStatus::Cancelled, id, deliver_at }
    }
}

/// What was due and could not be done, the newest first.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DueFailureList<'a> {
    #[cfg_attr(test, schema(max_items = 100))]
    pub dead: Vec<DueFailure<'a>>,
}

/// Something that was due and was given up after five tries.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DueFailure<'a> {
    /// `gift`, `drop`, or `unknown` for a kind that this version does not know.
    pub kind: &'a str,
    /// A gift's id, or a drop's name.
    pub id: &'a str,
    /// When it was due, the last time.
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    pub due: Millis,
    /// When it was given up.
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    pub at: Millis,
    /// Why.
    pub reason: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::problem::ApiError;

    #[test]
    fn answers_are_spelled_as_a_serializer_spells_them() {
        let id = || "a:b-1".parse().unwrap();
        let taken =
            [Status::Accepted, Status::Merged, Status::Suppressed, Status::Denied].map(|status| Answer {
                status,
                id: id(),
                at: Position { epoch: "e0".parse().unwrap(), seq: 1_234_567 },
                row: (status != Status::Denied).then(|| "e0-77".parse().unwrap()),
                count: (status == Status::Merged).then_some(9_007_199_254_740_991),
            });
        let it = Scheduled { id: id(), deliver_at: Millis(1_770_000_000_123) };
        let mut outcomes = vec![
            Outcome::Scheduled(it.clone()),
            Outcome::ScheduledBefore(it),
            Outcome::InReview(id()),
            Outcome::InReviewBefore(id()),
        ];
        outcomes.extend(taken.iter().cloned().map(Outcome::New));
        outcomes.extend(taken.into_iter().map(Outcome::Duplicate));
        let mut batch = GiftBatchResult { accepted: 10, rejected: 7, ..GiftBatchResult::default() };
        for (index, outcome) in outcomes.iter().enumerate() {
            let result = GiftResult::of(outcome).unwrap();
            let mut out = String::new();
            result.push_json(&mut out);
            assert_eq!(out, serde_json::to_string(&result).unwrap());
            batch.results.push(GiftBatchItem::taken(index, result));
        }
        batch.results.push(GiftBatchItem::rejected(77, ApiError::IdReused(id()).problem()));
        assert_eq!(batch.to_json().unwrap(), serde_json::to_string(&batch).unwrap());
    }
}
