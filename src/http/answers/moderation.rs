//! Answers to what a host does while a show runs.

use serde::Serialize;

use super::words::{RefundedStatus, RetractedStatus};
use crate::domain::RowId;

/// The position of the feed after overlays were controlled.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ControlResult {
    /// The change that says it, or the newest one when nothing changed.
    pub seq: u64,
}

/// The gift counts no more.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RetractedGift {
    status: RetractedStatus,
}

impl RetractedGift {
    /// It was taken back, now or before.
    pub const DONE: RetractedGift = RetractedGift { status: RetractedStatus::Retracted };
}

/// How much of a gift's value is refunded.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RefundedGift {
    status: RefundedStatus,
    /// In minor units, so far.
    #[cfg_attr(test, schema(maximum = 9_007_199_254_740_991_u64))]
    refunded: u64,
    /// The row that the gift had to do with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    row: Option<RowId>,
}

impl RefundedGift {
    /// `whole`: the gift is taken back.
    pub fn new(whole: bool, refunded: u64, row: Option<RowId>) -> RefundedGift {
        let status = if whole { RefundedStatus::Retracted } else { RefundedStatus::Refunded };
        RefundedGift { status, refunded, row }
    }
}

/// How many rows were taken back.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RemovedRows {
    pub removed: u64,
}
