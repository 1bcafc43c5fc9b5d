//! Claims of a drop's units, what they are answered, and holds (contract section 5).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::drop::{MAX_TOTAL, Phase};
use super::gift::{Value, display_text, read_person};
use super::ids::BadName;
use super::json::{Fault, Object, Refused};
use super::{DropId, Fingerprint, GiftId, Millis, Person, Position, RowId, Trace};

/// When a claim is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = PaymentTime, rename_all = "snake_case"))]
pub enum Pay {
    /// It is paid for: sold at once.
    Now,
    /// The units are held until they are paid for, or the hold expires.
    Later,
}

/// A claim that keeps every rule of the contract that does not depend on the drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its identity, unique in the drop.
    pub id: ClaimId,
    /// The buyer.
    pub user: Person,
    /// Units, 1…10^9; the drop's `per_user` bounds them further.
    pub count: u64,
    /// When it is paid for.
    pub pay: Pay,
    /// Cleaned text, never empty.
    pub message: Option<String>,
    /// What makes the same id with another payload a conflict.
    pub fingerprint: Fingerprint,
    /// The step of a trace that brought it, where traces are recorded. No part of what was sent: a retry has another.
    pub trace: Option<Trace>,
}

impl Claim {
    /// Reads the body of a POST. `key` is the request's `Idempotency-Key`, the same thing as the id.
    pub fn parse(raw: &RawValue, key: Option<&GiftId>) -> Result<Claim, Refused> {
        let mut faults = Vec::new();
        match Self::read(raw, key, &mut faults) {
            Some(claim) if faults.is_empty() => Ok(claim),
            _ => Err(Refused::Invalid(faults)),
        }
    }

    fn read(raw: &RawValue, key: Option<&GiftId>, faults: &mut Vec<Fault>) -> Option<Claim> {
        let mut body = Object::open(raw, faults)?;
        // A claim is money: a client that repeats one must be able to say which.
        let id = match (body.take("id"), key) {
            (None, Some(key)) => Some(key.clone()),
            (None, None) => {
                body.need("id", faults);
                None
            }
            (Some(field), key) => super::gift::read_given_id(&field, key, faults),
        };
        let user = body.need("user", faults).and_then(|f| read_person(&f, faults));
        let count = match body.take("count") {
            Some(f) => f.integer(1, MAX_TOTAL, faults),
            None => Some(1),
        };
        let pay = body.need("pay", faults).and_then(|f| match f.string(faults)?.as_str() {
            "now" => Some(Pay::Now),
            "later" => Some(Pay::Later),
            _ => {
                f.wrong(faults, "must be \"now\" or \"later\"");
                None
            }
        });
        let message = body.take("message").and_then(|f| display_text(&f, 0, 200, faults));
        body.close(faults);
        let mut claim = Claim {
            id: id?.into(),
            user: user?,
            count: count?,
            pay: pay?,
            message: message.filter(|text| !text.is_empty()),
            fingerprint: Fingerprint([0; 16]),
            trace: None,
        };
        claim.fingerprint = claim.digest();
        Some(claim)
    }

    fn digest(&self) -> Fingerprint {
        let Person { id, name, avatar, anonymous } = &self.user;
        let person = match anonymous {
            false => serde_json::json!([id, name, avatar]),
            true => serde_json::json!([id, name, avatar, true]),
        };
        let later = self.pay == Pay::Later;
        Fingerprint::of(&serde_json::json!([person, self.count, later, self.message]).to_string())
    }
}

/// A user's id in 32 characters that fit into any text: equal for equal ids only.
pub fn user_digest(user: &str) -> Fingerprint {
    Fingerprint::of(user)
}

/// A claim's id, unique in its drop. The ids that a viewer chooses are in a namespace of that viewer: nobody can take an
/// id that the backend, or another viewer, is going to use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId {
    viewer: Option<Fingerprint>,
    id: GiftId,
}

impl ClaimId {
    /// As it was sent.
    pub fn sent(&self) -> &GiftId {
        &self.id
    }

    /// The same id in the namespace of a viewer.
    pub fn of_viewer(self, sub: &str) -> ClaimId {
        ClaimId { viewer: Some(user_digest(sub)), ..self }
    }
}

impl From<GiftId> for ClaimId {
    fn from(id: GiftId) -> ClaimId {
        ClaimId { viewer: None, id }
    }
}

impl fmt::Display for ClaimId {
    /// `ID`, or `DIGEST~ID` in a viewer's namespace: no id holds a `~`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.viewer {
            None => self.id.fmt(f),
            Some(viewer) => write!(f, "{viewer}~{}", self.id),
        }
    }
}

impl FromStr for ClaimId {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let Some((viewer, id)) = text.split_once('~') else { return Ok(text.parse::<GiftId>()?.into()) };
        let viewer = Fingerprint::from_hex(viewer).filter(|read| read.to_string() == viewer);
        let viewer = viewer.ok_or(BadName("must be an id, or a viewer's digest~id"))?;
        Ok(ClaimId { viewer: Some(viewer), id: id.parse()? })
    }
}

/// A hold's name: the drop and the claim that made it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoldId {
    /// The drop that the units are of.
    pub drop: DropId,
    /// The claim that made it.
    pub claim: ClaimId,
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}", self.drop, self.claim)
    }
}

impl FromStr for HoldId {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        let (drop, claim) = text.split_once('~').ok_or(BadName("must be drop~claim"))?;
        Ok(HoldId { drop: drop.parse()?, claim: claim.parse()? })
    }
}

/// A hold that still holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its name.
    pub hold: HoldId,
    /// Its units.
    pub count: u64,
    /// It holds while `now` is before this.
    pub expires_at: Millis,
}

/// Where a sale is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sale {
    /// The position at which its row was added.
    pub at: Position,
    /// Its row.
    pub row: RowId,
}

/// What became of a claim's units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Sold, and shown.
    Sold(Sale),
    /// Held until then.
    Held(Millis),
}

/// The first answer to a claim, which is repeated for the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimAnswer {
    /// The claim, by the name that its hold has, if it is one.
    pub claim: HoldId,
    /// Its units.
    pub count: u64,
    /// What they cost, by the drop's price at the time of the claim.
    pub value: Option<Value>,
    /// What became of them.
    pub fate: ClaimOutcome,
}

/// What a store says to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It was new, and is filled.
    New(ClaimAnswer),
    /// Its id was filled before, with the same payload; this was the answer.
    Again(ClaimAnswer),
    /// It is not filled. Nothing changed, and its id is not remembered.
    Refused(ClaimRefused),
}

/// What became of a claim, and what its buyer has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ClaimState {
    /// Its units are held until they are paid for.
    Held,
    /// They are sold.
    Sold,
    /// They were not paid for in time.
    Expired,
    /// The hold was cancelled.
    Cancelled,
    /// The sale was taken back.
    Retracted,
}

/// A claim as it is looked up.
#[derive(Clone, Debug)]
pub struct ClaimStory {
    /// What became of it.
    pub state: ClaimState,
    /// The first answer to it, or since it was sold that of its confirmation.
    pub answer: ClaimAnswer,
    /// The buyer, `{"id","name","avatar"?}`.
    pub user: Box<RawValue>,
    /// When it was claimed.
    pub at: Millis,
    /// When its hold ends, or ended; `None` if it was paid at once.
    pub expires_at: Option<Millis>,
    /// How much of its value was refunded, in minor units.
    pub refunded: u64,
}

/// Why a claim is not filled. The first that applies, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimRefused {
    /// The feed has no such drop.
    UnknownDrop,
    /// Its id was filled before with another payload.
    IdReused,
    /// It is for more units than one user may have, which is this.
    AbovePerUser(u64),
    /// The drop has not opened yet, or has closed.
    NotOpen(Phase),
    /// With it the user would have more units than one may; the user's first claim that still counts, unless
    /// it is too long ago.
    AlreadyClaimed(Option<ClaimAnswer>),
    /// Only this number of units is free.
    SoldOut(u64),
    /// The user has as many unpaid holds in the feed as the drop allows; the earliest ends in this number of
    /// milliseconds.
    TooManyHolds(u64),
}

/// What a store says to the confirmation of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmed {
    /// It is sold now.
    New(ClaimAnswer),
    /// It was confirmed before; this was the answer.
    Again(ClaimAnswer),
    /// It ended before, by its time or because somebody cancelled it.
    Ended,
    /// There is, or is remembered, no such hold.
    Unknown,
}

/// What a store says to the cancelling of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// Its units are free again.
    Done,
    /// It ended, or was sold, before.
    Ended,
    /// There is, or is remembered, no such hold.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::syntax;

    fn parse(body: &str, key: Option<&str>) -> Result<Claim, Vec<String>> {
        let key = key.map(|key| key.parse().unwrap());
        Claim::parse(syntax(body.as_bytes()).unwrap(), key.as_ref()).map_err(|refused| match refused {
            Refused::Invalid(faults) => faults.into_iter().map(|fault| fault.pointer).collect(),
            Refused::Syntax(why) => panic!("{why}"),
        })
    }

    #[test]
    fn a_claim_says_who_it_is_and_when_it_is_paid() {
        let claim = parse(r#"{"id":"c-1","user":{"id":"u","name":"U"},"pay":"later"}"#, None).unwrap();
        assert_eq!((claim.count, claim.pay, claim.message.clone()), (1, Pay::Later, None));
        let by_header =
            parse(r#"{"user":{"id":"u","name":"U"},"pay":"later","message":""}"#, Some("c-1")).unwrap();
        assert_eq!(by_header, claim);
        let other = parse(r#"{"id":"c-1","user":{"id":"u","name":"U"},"pay":"now"}"#, None).unwrap();
        assert_ne!(other.fingerprint, claim.fingerprint);
    }

    #[test]
    fn every_fault_is_named() {
        assert_eq!(parse("{}", None).unwrap_err(), ["/id", "/user", "/pay"]);
        let body = r#"{"id":"a b","user":{"id":"","name":"U"},"count":0,"pay":"soon","message":1,"value":1}"#;
        assert_eq!(
            parse(body, None).unwrap_err(),
            ["/id", "/user/id", "/count", "/pay", "/message", "/value"]
        );
        let both = r#"{"id":"c-1","user":{"id":"u","name":"U"},"pay":"now"}"#;
        assert_eq!(parse(both, Some("c-2")).unwrap_err(), ["/id"]);
    }

    #[test]
    fn a_hold_survives_being_written_and_read() {
        let hold: HoldId = "rocket-1.a~order:7".parse().unwrap();
        assert_eq!(hold.to_string(), "rocket-1.a~order:7");
        assert_eq!((hold.drop.as_str(), hold.claim.sent().as_str()), ("rocket-1.a", "order:7"));
        for bad in ["", "~", "a", "a~", "~a", "a~b~c", "a b~c"] {
            assert!(bad.parse::<HoldId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_viewers_claim_is_never_the_backends_or_another_viewers() {
        let backends = ClaimId::from("order-7".parse::<GiftId>().unwrap());
        let ann = backends.clone().of_viewer("ann");
        let bob = backends.clone().of_viewer("bob");
        assert!(ann != backends && ann != bob && ann == backends.clone().of_viewer("ann"));
        assert_eq!(ann.sent().as_str(), "order-7");
        let digest = user_digest("ann");
        let hold: HoldId = format!("r~{digest}~order-7").parse().unwrap();
        assert_eq!((&hold.claim, hold.to_string()), (&ann, format!("r~{digest}~order-7")));
        let upper = digest.to_string().to_uppercase();
        for bad in [format!("r~{upper}~order-7"), format!("r~{digest}~"), format!("r~{digest}~a~b")] {
            assert!(bad.parse::<HoldId>().is_err(), "{bad}");
        }
    }
}
