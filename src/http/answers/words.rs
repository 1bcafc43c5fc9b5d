//! Words that answers and bodies share.

use serde::Serialize;

/// The one word of an answer that has one.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CancelledStatus {
    Cancelled,
}

/// The one word of an answer that has one.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RetractedStatus {
    Retracted,
}

/// What became of a gift of which something was refunded.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RefundedStatus {
    /// Part of its value is refunded.
    Refunded,
    /// It is taken back: all of it was refunded, or it was taken back before.
    Retracted,
}
