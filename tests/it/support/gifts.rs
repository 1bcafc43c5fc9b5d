//! Gifts as producers spell them.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tipcast::domain::Gift;

/// A gift under construction: JSON, so that it can be posted as well as parsed.
#[derive(Clone, Debug)]
pub struct GiftSpec(Value);

/// A rose from Ann with this id.
pub fn gift(id: &str) -> GiftSpec {
    GiftSpec(json!({"id": id, "user": {"id": "ann", "name": "Ann"}, "gift": {"id": "rose", "name": "Rose"}}))
}

impl GiftSpec {
    /// Sets any field.
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.0[field] = value;
        self
    }

    /// Takes a field away.
    pub fn without(mut self, field: &str) -> Self {
        self.0.as_object_mut().unwrap().remove(field);
        self
    }

    /// Sent by the user of this id.
    pub fn by(self, user: &str) -> Self {
        let name = format!("user {user}");
        self.with("user", json!({"id": user, "name": name}))
    }

    /// A gift of this kind.
    pub fn kind(self, gift: &str) -> Self {
        let name = format!("gift {gift}");
        self.with("gift", json!({"id": gift, "name": name}))
    }

    /// This many units.
    pub fn count(self, count: u64) -> Self {
        self.with("count", json!(count))
    }

    /// Worth this much.
    pub fn value(self, amount: u64, currency: &str) -> Self {
        self.with("value", json!({"amount": amount, "currency": currency}))
    }

    /// A frame of an explicit combo.
    pub fn combo(self, id: &str, count: u32) -> Self {
        self.with("combo", json!({"id": id, "count": count}))
    }

    /// The frame that closes its combo.
    pub fn end(mut self) -> Self {
        self.0["combo"]["end"] = json!(true);
        self
    }

    /// A test gift.
    pub fn test(self) -> Self {
        self.with("test", json!(true))
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        self.0.clone()
    }

    /// As the domain reads it.
    pub fn parse(&self) -> Gift {
        let raw = RawValue::from_string(self.0.to_string()).unwrap();
        Gift::parse(&raw, None).unwrap_or_else(|refused| panic!("{refused:?} of {}", self.0))
    }
}
