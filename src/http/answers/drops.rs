//! Answers about claims of drops, and holds.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::{self, ClaimAnswer, ClaimState, ClaimStory, DropId, GiftId, HoldId, Millis, Value};

use super::words::CancelledStatus;

/// What became of a claim's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClaimStatus {
    /// They are sold, and shown.
    Sold,
    /// They are held until they are paid for.
    Held,
}

/// What became of a claim: sold, with its row; or held, with the hold's name and end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ClaimResult {
    status: ClaimStatus,
    /// The claim's.
    #[cfg_attr(test, schema(value_type = String))]
    id: GiftId,
    #[cfg_attr(test, schema(value_type = String))]
    drop: DropId,
    /// Units.
    count: u64,
    /// What they cost, if the drop has a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<crate::http::bodies::Money>))]
    value: Option<Value>,
    /// The life of the feed's numbering. Sold.
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<String>,
    /// The change that added the row. Sold.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    /// The row that shows the sale. Sold.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<String>,
    /// The hold's name, for confirming and cancelling. Held.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
    /// When the hold ends by itself. Held.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime))]
    expires_at: Option<Millis>,
}

impl From<&ClaimAnswer> for ClaimResult {
    fn from(answer: &ClaimAnswer) -> ClaimResult {
        let (sale, expires_at) = match &answer.fate {
            domain::ClaimOutcome::Sold(sale) => (Some(sale), None),
            domain::ClaimOutcome::Held(at) => (None, Some(*at)),
        };
        ClaimResult {
            status: if sale.is_some() { ClaimStatus::Sold } else { ClaimStatus::Held },
            id: answer.claim.claim.sent().clone(),
            drop: answer.claim.drop.clone(),
            count: answer.count,
            value: answer.value.clone(),
            epoch: sale.map(|sale| sale.at.epoch.to_string()),
            seq: sale.map(|sale| sale.at.seq),
            row: sale.map(|sale| sale.row.to_string()),
            hold: expires_at.map(|_| answer.claim.to_string()),
            expires_at,
        }
    }
}

/// What became of a claim.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct FoundClaim<'a> {
    #[cfg_attr(test, schema(value_type = String))]
    id: &'a GiftId,
    status: ClaimState,
    #[cfg_attr(test, schema(value_type = crate::http::bodies::User))]
    user: &'a RawValue,
    /// Units.
    count: u64,
    /// What they cost, if the drop had a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<crate::http::bodies::Money>))]
    value: Option<&'a Value>,
    /// The hold's name, also after its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<String>,
    /// The row that showed the sale.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<String>,
    /// When it was claimed.
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    at: Millis,
    /// When its hold ends, or ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime))]
    expires_at: Option<Millis>,
    /// How much of its value was refunded so far, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    refunded: Option<u64>,
}

impl FoundClaim<'_> {
    /// As it was looked up.
    pub fn new(story: &ClaimStory) -> FoundClaim<'_> {
        let ClaimStory { state, answer, user, at, expires_at, refunded } = story;
        let sale = match &answer.fate {
            domain::ClaimOutcome::Sold(sale) => Some(sale),
            domain::ClaimOutcome::Held(_) => None,
        };
        FoundClaim {
            id: answer.claim.claim.sent(),
            status: *state,
            user,
            count: answer.count,
            value: answer.value.as_ref(),
            hold: expires_at.map(|_| answer.claim.to_string()),
            row: sale.map(|sale| sale.row.to_string()),
            at: *at,
            expires_at: *expires_at,
            refunded: Some(*refunded).filter(|amount| *amount > 0),
        }
    }
}

/// The hold ended; its units are free again.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct CancelledHold {
    status: CancelledStatus,
    hold: String,
}

impl CancelledHold {
    /// The hold of this name ended.
    pub fn new(hold: &HoldId) -> CancelledHold {
        CancelledHold { status: CancelledStatus::Cancelled, hold: hold.to_string() }
    }
}

/// The holds of a user over all drops of a feed, the earliest to end first.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct HoldList {
    #[cfg_attr(test, schema(max_items = 1_000))]
    pub holds: Vec<Hold>,
}

/// A hold that still holds.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Hold {
    hold: String,
    #[cfg_attr(test, schema(value_type = String))]
    drop: DropId,
    /// The claim that made it.
    #[cfg_attr(test, schema(value_type = String))]
    claim: GiftId,
    /// Units.
    count: u64,
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    expires_at: Millis,
}

impl From<domain::Hold> for Hold {
    fn from(hold: domain::Hold) -> Hold {
        let domain::Hold { hold, count, expires_at } = hold;
        Hold {
            drop: hold.drop.clone(),
            claim: hold.claim.sent().clone(),
            count,
            expires_at,
            hold: hold.to_string(),
        }
    }
}
