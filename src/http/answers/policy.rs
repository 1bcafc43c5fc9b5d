//! A feed's policy as it is answered.

use std::collections::BTreeMap;

use serde::Serialize;

use super::words::{DedupMode, PeriodName, PresenceMode, ReviewDefault, ReviewMode, Visibility};
use crate::domain;

/// How a feed behaves: the whole policy in force.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Policy {
    /// Rows of the list.
    #[cfg_attr(test, schema(minimum = 1, maximum = 100))]
    capacity: u64,
    dedup: DedupMode,
    /// How long the dedup lock lasts.
    #[cfg_attr(test, schema(minimum = 0, maximum = 86_400_000))]
    dedup_window_ms: u64,
    /// How long a row lives after its last change; 0 for ever.
    #[cfg_attr(test, schema(minimum = 0, maximum = 604_800_000))]
    row_ttl_ms: u64,
    /// How much later gifts are shown.
    #[cfg_attr(test, schema(minimum = 0, maximum = 604_800_000))]
    delay_ms: u64,
    /// How long changes are gathered for watchers.
    #[cfg_attr(test, schema(minimum = 0, maximum = 1_000))]
    flush_ms: u64,
    /// How long an id is remembered.
    #[cfg_attr(test, schema(minimum = 60_000, maximum = 604_800_000))]
    idempotency_window_ms: u64,
    /// How many of the newest changes a watcher can resume over.
    #[cfg_attr(test, schema(minimum = 0, maximum = 100_000))]
    history: u64,
    visibility: Visibility,
    /// Whether watchers get the number of watchers.
    presence: PresenceMode,
    /// Which gifts wait for a host: those with a message or a name that was not approved before, or all.
    review: ReviewMode,
    /// How long they wait.
    #[cfg_attr(test, schema(minimum = 1_000, maximum = 3_600_000))]
    review_timeout_ms: u64,
    /// What happens then.
    review_default: ReviewDefault,
    /// The periods that are counted.
    totals: Vec<PeriodName>,
    /// The time zone in which days begin.
    time_zone: String,
    /// Points for a minor unit of each currency.
    points: BTreeMap<String, u64>,
}

impl From<&domain::Policy> for Policy {
    fn from(policy: &domain::Policy) -> Policy {
        Policy {
            capacity: policy.capacity,
            dedup: match policy.dedup {
                domain::Dedup::Combine => DedupMode::Combine,
                domain::Dedup::Drop => DedupMode::Drop,
                domain::Dedup::Off => DedupMode::Off,
            },
            dedup_window_ms: policy.dedup_window_ms,
            row_ttl_ms: policy.row_ttl_ms,
            delay_ms: policy.delay_ms,
            flush_ms: policy.flush_ms,
            idempotency_window_ms: policy.idempotency_window_ms,
            history: policy.history,
            visibility: match policy.visibility {
                domain::Visibility::Public => Visibility::Public,
                domain::Visibility::Private => Visibility::Private,
            },
            totals: policy.totals.iter().map(PeriodName::from).collect(),
            time_zone: policy.time_zone.to_string(),
            points: (*policy.points.0).clone(),
            presence: match policy.presence {
                domain::TellPresence::Off => PresenceMode::Off,
                domain::TellPresence::Count => PresenceMode::Count,
            },
            review: match policy.review {
                domain::ReviewMode::Off => ReviewMode::Off,
                domain::ReviewMode::Messages => ReviewMode::Messages,
                domain::ReviewMode::All => ReviewMode::All,
            },
            review_timeout_ms: policy.review_timeout_ms,
            review_default: match policy.review_default {
                domain::ReviewDefault::Show => ReviewDefault::Show,
                domain::ReviewDefault::Mask => ReviewDefault::Mask,
                domain::ReviewDefault::Deny => ReviewDefault::Deny,
            },
        }
    }
}

impl From<domain::tally::Period> for PeriodName {
    fn from(period: domain::tally::Period) -> PeriodName {
        use domain::tally::Period;
        match period {
            Period::All => PeriodName::All,
            Period::Session => PeriodName::Session,
            Period::Day => PeriodName::Day,
            Period::Week => PeriodName::Week,
            Period::Month => PeriodName::Month,
        }
    }
}
