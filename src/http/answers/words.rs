//! Words that answers and bodies share.

use serde::Serialize;

/// What a gift does that finds the dedup lock of its user and kind.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum DedupMode {
    Combine,
    Drop,
    Off,
}

/// Who may read and watch a feed: everybody, or who has a viewer token for it or a key with the right to read.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    Public,
    Private,
}

/// Whether watchers get the number of watchers.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PresenceMode {
    Off,
    Count,
}

/// Which gifts wait for a host.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReviewMode {
    Off,
    Messages,
    All,
}

/// What happens to a gift about which nobody decided in time.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ReviewDefault {
    Show,
    Mask,
    Deny,
}

/// What becomes of deliveries that fail for too long.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryMode {
    AtLeastOnce,
    BestEffort,
}

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

/// What is counted together.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PeriodName {
    All,
    Session,
    Day,
    Week,
    Month,
}
