use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::{DropId, Gift, Millis, Row, RowCombo, RowDrop, RowId, Value, row};

/// What a gift gives the row that it begins (`lua/feed/row.lua`), in the order in which scripts expect it. Of a frame of a combo the
/// count is the one that it says, which may be 0.
#[derive(Serialize)]
struct GiftBody<'a> {
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a str>,
    test: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    combo_key: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    combo: Option<&'a str>,
    user: Box<RawValue>,
    gift: Box<RawValue>,
}

/// The members that `gift` gives the row that it begins, without braces.
pub fn gift_body(gift: &Gift) -> String {
    let raw = |json: String| RawValue::from_string(json).unwrap_or_default();
    let body = GiftBody {
        count: gift.combo.as_ref().map_or(gift.count, |combo| combo.count.into()),
        amount: gift.value.as_ref().map(|value| value.amount),
        currency: gift.value.as_ref().map(|value| &*value.currency),
        ended: gift.combo.as_ref().is_some_and(|combo| combo.end),
        message: gift.message.as_deref(),
        tier: gift.tier,
        meta: gift.meta.as_deref(),
        test: gift.test,
        combo_key: row::combo_key(gift).map(raw),
        combo: gift.combo.as_ref().map(|combo| &*combo.id),
        user: raw(gift.user.to_json()),
        gift: raw(gift.gift.to_json()),
    };
    let mut text = serde_json::to_string(&body).unwrap_or_default();
    text.pop();
    text.split_off(1)
}

/// A row as it is stored.
#[derive(Deserialize)]
pub(super) struct StoredRow<'a> {
    id: RowId,
    rev: u64,
    seq: u64,
    at: i64,
    updated_at: i64,
    expires_at: Option<i64>,
    count: u64,
    amount: Option<u64>,
    currency: Option<String>,
    #[serde(default)]
    ended: bool,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    tier: Option<u8>,
    #[serde(borrow)]
    meta: Option<Cow<'a, str>>,
    test: bool,
    #[serde(borrow)]
    combo_key: Option<&'a RawValue>,
    #[serde(borrow)]
    combo: Option<&'a RawValue>,
    drop: Option<DropId>,
    left: Option<u64>,
    #[serde(borrow)]
    user: &'a RawValue,
    #[serde(borrow)]
    gift: &'a RawValue,
}

impl StoredRow<'_> {
    /// The row as the domain has it; `None` if a member is missing that another one needs.
    pub(super) fn row(self) -> Option<Row> {
        let text = |raw: &RawValue| Arc::from(raw.get());
        Some(Row {
            id: self.id,
            rev: self.rev,
            seq: self.seq,
            at: Millis(self.at),
            updated_at: Millis(self.updated_at),
            expires_at: self.expires_at.map(Millis),
            count: self.count,
            value: match self.amount {
                Some(amount) => Some(Value { amount, currency: self.currency? }),
                None => None,
            },
            combo: match self.combo {
                Some(id) => Some(RowCombo { key: text(self.combo_key?), id: text(id), ended: self.ended }),
                None => None,
            },
            drop: match self.drop {
                Some(drop) => Some(RowDrop { drop, left: self.left? }),
                None => None,
            },
            test: self.test,
            user: text(self.user),
            gift: text(self.gift),
            message: self.message.map(text),
            tier: self.tier,
            meta: self.meta.as_deref().map(Arc::from),
        })
    }
}

/// Reads a row; `None` if the text is none.
pub fn read_row(text: &str) -> Option<Row> {
    serde_json::from_str::<StoredRow>(text).ok()?.row()
}
