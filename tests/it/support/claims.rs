//! Drops and claims as producers spell them, and a case's verbs for them.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tipcast::domain::{
    Cancelled, Claim, ClaimAnswer, ClaimOutcome, ClaimRefused, Claimed, Confirmed, Defined, DropId, DropSpec,
    DropView, Hold, HoldId, Millis, Phase,
};

use super::case::Case;

/// A claim of one unit, paid at once.
pub fn claim(id: &str, user: &str) -> Value {
    json!({"id": id, "user": {"id": user, "name": format!("user {user}")}, "pay": "now"})
}

/// A claim of one unit, to be paid later.
pub fn hold(id: &str, user: &str) -> Value {
    json!({"id": id, "user": {"id": user, "name": format!("user {user}")}, "pay": "later"})
}

/// A drop of `stock` rockets.
pub fn rockets(total: u64) -> Value {
    json!({"gift": {"id": "rocket", "name": "Rocket"}, "total": total})
}

/// This JSON with a field set.
pub fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

/// As the domain reads it.
pub fn claim_of(body: &Value) -> Claim {
    let raw = RawValue::from_string(body.to_string()).unwrap();
    Claim::parse(&raw, None).unwrap_or_else(|refused| panic!("{refused:?} of {body}"))
}

/// As the domain reads it.
pub fn spec_of(body: &Value) -> DropSpec {
    let raw = RawValue::from_string(body.to_string()).unwrap();
    DropSpec::parse(&raw).unwrap_or_else(|refused| panic!("{refused:?} of {body}"))
}

/// A drop's name.
pub fn named(drop: &str) -> DropId {
    drop.parse().unwrap()
}

/// The hold of this answer.
pub fn held(answer: &ClaimAnswer) -> (HoldId, Millis) {
    match answer.fate {
        ClaimOutcome::Held(at) => (answer.claim.clone(), at),
        ClaimOutcome::Sold(_) => panic!("sold: {answer:?}"),
    }
}

impl Case {
    /// PUT drop; whatever becomes of it.
    pub async fn define(&mut self, drop: &str, body: Value) -> Defined {
        let defined =
            self.engine.define_drop(&self.feed, &named(drop), &spec_of(&body), self.now).await.unwrap();
        self.list().await;
        defined
    }

    /// GET drop.
    pub async fn stock(&mut self, drop: &str) -> DropView {
        let view = self.engine.tick_drop(&self.feed, &named(drop), self.now).await.unwrap().expect("a drop");
        assert_eq!(view.free + view.held + view.sold, view.spec.total, "{view:?}");
        self.list().await;
        view
    }

    /// free, held and sold.
    pub async fn units(&mut self, drop: &str) -> (u64, u64, u64) {
        let view = self.stock(drop).await;
        (view.free, view.held, view.sold)
    }

    /// What watchers got last.
    pub async fn told(&mut self, drop: &str) -> (Phase, u64, u64, u64) {
        let list = self.list().await;
        let view = &list.drops[&named(drop)];
        (view.phase, view.free, view.held, view.sold)
    }

    /// Claims; whatever becomes of it.
    pub async fn claim(&mut self, drop: &str, body: &Value) -> Claimed {
        let claimed =
            self.engine.claim_drop(&self.feed, &named(drop), claim_of(body), self.now).await.unwrap();
        self.list().await;
        claimed
    }

    /// A claim that must be filled.
    pub async fn filled(&mut self, drop: &str, body: Value) -> ClaimAnswer {
        match self.claim(drop, &body).await {
            Claimed::New(answer) => answer,
            other => panic!("{body} got {other:?}"),
        }
    }

    /// A claim that must be refused, and change nothing.
    pub async fn refused(&mut self, drop: &str, body: Value) -> ClaimRefused {
        let before = self.units(drop).await;
        match self.claim(drop, &body).await {
            Claimed::Refused(refused) => {
                assert_eq!(self.units(drop).await, before, "a refusal changes nothing");
                refused
            }
            other => panic!("{body} got {other:?}"),
        }
    }

    /// Pays for a hold.
    pub async fn confirm(&mut self, hold: &HoldId) -> Confirmed {
        let confirmed = self.engine.confirm_hold(&self.feed, hold, None, self.now).await.unwrap();
        self.list().await;
        confirmed
    }

    /// Gives a hold back.
    pub async fn give_back(&mut self, hold: &HoldId) -> Cancelled {
        let cancelled = self.engine.cancel_hold(&self.feed, hold, self.now).await.unwrap();
        self.list().await;
        cancelled
    }

    /// A user's holds.
    pub async fn holds_of(&mut self, user: &str) -> Vec<Hold> {
        self.engine.list_holds(&self.feed, user, self.now).await.unwrap()
    }
}
