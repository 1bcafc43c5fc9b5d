//! One line of the ticker.

use std::sync::Arc;

use super::gift::{Gift, Value, push_value};
use super::json::push_string;
use super::{Claim, DropId, Millis, RowId};

/// A row of a feed's list. The parts that no gift changes are kept as the JSON text that watchers
/// get, so a row is encoded by joining texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Names the row for ever.
    pub id: RowId,
    /// 1 when new, one more with each change.
    pub rev: u64,
    /// The change that added the row; merges leave it.
    pub seq: u64,
    /// When the row was added.
    pub at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
    /// When it leaves the list; `None` if the policy has no ttl.
    pub expires_at: Option<Millis>,
    /// Units, up to 2^53−1.
    pub count: u64,
    /// Sum (or, in a combo, cumulative maximum) of its gifts' values in one currency.
    pub value: Option<Value>,
    /// The explicit combo that keys this row.
    pub combo: Option<RowCombo>,
    /// The drop that sold it.
    pub drop: Option<RowDrop>,
    /// True when its gifts are tests.
    pub test: bool,
    /// `{"id","name","avatar"?}` as JSON.
    pub user: Arc<str>,
    /// `{"id","name","icon"?}` as JSON.
    pub gift: Arc<str>,
    /// The newest message as a JSON string.
    pub message: Option<Arc<str>>,
    /// The newest tier.
    pub tier: Option<u8>,
    /// The newest meta as JSON.
    pub meta: Option<Arc<str>>,
}

impl Claim {
    /// The message as rows keep it: a JSON string.
    pub fn message_json(&self) -> Option<Arc<str>> {
        self.message.as_deref().map(json_string)
    }
}

/// What a sale's row knows of its drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDrop {
    /// The drop's name.
    pub drop: DropId,
    /// Units that were free right after the sale.
    pub left: u64,
}

/// What a row knows of its explicit combo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCombo {
    /// See [`combo_key`]; keys the row while it is in the list.
    pub key: Arc<str>,
    /// The combo's id as a JSON string.
    pub id: Arc<str>,
    /// True once a frame closed it; later frames change nothing.
    pub ended: bool,
}

#[cfg(test)]
impl Row {
    /// A row that a gift starts as this change, as tests have it.
    pub fn start(id: RowId, seq: u64, gift: &Gift) -> Row {
        let text = |spell: &dyn Fn(&mut String)| -> Arc<str> {
            let mut spelled = String::new();
            spell(&mut spelled);
            spelled.into()
        };
        Row {
            id,
            rev: 1,
            seq,
            at: crate::domain::Millis(0),
            updated_at: crate::domain::Millis(0),
            expires_at: None,
            count: gift.count,
            value: gift.value.clone(),
            combo: None,
            drop: None,
            test: gift.test,
            user: text(&|out| gift.user.push_json(out)),
            gift: text(&|out| gift.gift.push_json(out)),
            message: gift.message.as_deref().map(|message| text(&|out| push_string(out, message))),
            tier: gift.tier,
            meta: gift.meta.as_deref().map(Into::into),
        }
    }
}

impl Row {
    /// Appends the row as watchers and GET see it.
    pub fn push_json(&self, out: &mut String) {
        use std::fmt::Write;
        let _ = write!(out, "{{\"row\":\"{}\",\"rev\":{},\"seq\":{}", self.id, self.rev, self.seq);
        let _ = write!(out, ",\"user\":{},\"gift\":{},\"count\":{}", self.user, self.gift, self.count);
        push_value(out, self.value.as_ref());
        if let Some(message) = &self.message {
            let _ = write!(out, ",\"message\":{message}");
        }
        if let Some(tier) = self.tier {
            let _ = write!(out, ",\"tier\":{tier}");
        }
        let _ = write!(out, ",\"at\":\"{}\",\"updated_at\":\"{}\"", self.at, self.updated_at);
        if let Some(at) = self.expires_at {
            let _ = write!(out, ",\"expires_at\":\"{at}\"");
        }
        if let Some(combo) = &self.combo {
            let _ = write!(out, ",\"combo\":{{\"id\":{},\"count\":{}", combo.id, self.count);
            out.push_str(if combo.ended { ",\"end\":true}" } else { "}" });
        }
        if let Some(RowDrop { drop, left }) = &self.drop {
            let _ = write!(out, ",\"drop\":{{\"drop\":\"{drop}\",\"left\":{left}}}");
        }
        if self.test {
            out.push_str(",\"test\":true");
        }
        if let Some(meta) = &self.meta {
            let _ = write!(out, ",\"meta\":{meta}");
        }
        out.push('}');
    }
}

fn json_string(text: &str) -> Arc<str> {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out.into()
}

/// The key of the dedup lock of `gift`: `["user","gift"]`, with a third `true` for tests, which
/// never join what is counted. JSON quoting keeps user `a:b` + gift `c` apart from `a` + `b:c`.
pub fn lock_key(gift: &Gift) -> String {
    key(&[&gift.user.id, &gift.gift.id], gift.test)
}

/// The key of the row of an explicit combo: `["user","gift","combo"]`, with a fourth `true` for
/// tests. None for a gift without one.
pub fn combo_key(gift: &Gift) -> Option<String> {
    let combo = gift.combo.as_ref()?;
    Some(key(&[&gift.user.id, &gift.gift.id, &combo.id], gift.test))
}

fn key(parts: &[&str], test: bool) -> String {
    let mut out = String::with_capacity(64);
    for part in parts {
        out.push(if out.is_empty() { '[' } else { ',' });
        push_string(&mut out, part);
    }
    out.push_str(if test { ",true]" } else { "]" });
    out
}
