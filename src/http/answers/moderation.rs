//! Answers to what a host does while a show runs.

use serde::Serialize;

use super::words::RetractedStatus;

/// Where the feed stands after overlays were told.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ControlResult {
    /// The change that tells it, or the newest one when nothing changed.
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

/// How many rows were taken back.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RemovedRows {
    pub removed: u64,
}
