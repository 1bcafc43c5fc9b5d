//! One line of the ticker.

use std::sync::Arc;

use super::gift::{Gift, Value};
use super::json::push_string;
use super::{Claim, DropId, MAX_SAFE, Millis, RowId};

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
    /// When it leaves the list; none when the policy has no ttl.
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

/// What a sale's row is made of.
#[derive(Clone, Debug)]
pub struct SoldRow<'a> {
    /// The buyer as JSON.
    pub user: &'a str,
    /// What was sold, as JSON.
    pub gift: &'a Arc<str>,
    /// The message as a JSON string.
    pub message: Option<&'a str>,
    /// Units.
    pub count: u64,
    /// The drop, and what is left of it.
    pub drop: RowDrop,
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

impl Row {
    /// The row that `gift` starts as change `seq`.
    pub fn start(id: RowId, seq: u64, gift: &Gift, now: Millis, ttl_ms: u64) -> Row {
        let mut spelled = String::with_capacity(192);
        let mut text = |spell: &dyn Fn(&mut String)| -> Arc<str> {
            spelled.clear();
            spell(&mut spelled);
            spelled.as_str().into()
        };
        Row {
            id,
            rev: 1,
            seq,
            at: now,
            updated_at: now,
            expires_at: expiry(now, ttl_ms),
            // A combo's count is cumulative; a first frame that says 0 still is one gift on screen.
            count: gift.combo.as_ref().map_or(gift.count, |c| u64::from(c.count).max(1)),
            value: gift.value.clone(),
            combo: gift.combo.as_ref().zip(combo_key(gift)).map(|(c, key)| RowCombo {
                key: key.into(),
                id: json_string(&c.id),
                ended: c.end,
            }),
            drop: None,
            test: gift.test,
            user: text(&|out| gift.user.push_json(out)),
            gift: text(&|out| gift.gift.push_json(out)),
            message: gift.message.as_deref().map(|message| text(&|out| push_string(out, message))),
            tier: gift.tier,
            meta: gift.meta.as_deref().map(Into::into),
        }
    }

    /// The row of a sale, as change `seq`: `user` and `message` as JSON, units, and what was sold.
    pub fn sold(id: RowId, seq: u64, sale: SoldRow<'_>, now: Millis, ttl_ms: u64) -> Row {
        Row {
            id,
            rev: 1,
            seq,
            at: now,
            updated_at: now,
            expires_at: expiry(now, ttl_ms),
            count: sale.count,
            value: None,
            combo: None,
            drop: Some(sale.drop),
            test: false,
            user: sale.user.into(),
            gift: sale.gift.clone(),
            message: sale.message.map(Into::into),
            tier: None,
            meta: None,
        }
    }

    /// True when `gift` may join this row: one of the two has no value, or the currency is one.
    pub fn same_money(&self, gift: &Gift) -> bool {
        match (&self.value, &gift.value) {
            (Some(mine), Some(more)) => mine.currency == more.currency,
            _ => true,
        }
    }

    /// This row after `gift` joined it through the dedup lock: count and value add.
    pub fn combined(&self, gift: &Gift, now: Millis, ttl_ms: u64) -> Row {
        let mut row = self.clone();
        row.count = (row.count + gift.count).min(MAX_SAFE);
        row.value = match (&self.value, &gift.value) {
            (Some(mine), Some(more)) => Some(Value {
                amount: (mine.amount + more.amount).min(MAX_SAFE),
                currency: mine.currency.clone(),
            }),
            (mine, more) => mine.clone().or_else(|| more.clone()),
        };
        row.take_newest(gift);
        row.touch(now, ttl_ms);
        row
    }

    /// This row after a frame of its combo, or nothing when the frame changes nothing: count and
    /// value are cumulative, so each becomes the larger. A frame whose count is behind the row's
    /// came late; its texts are older than what is shown and are left out.
    pub fn framed(&self, gift: &Gift, now: Millis, ttl_ms: u64) -> Option<Row> {
        let (combo, mark) = self.combo.as_ref().zip(gift.combo.as_ref())?;
        if combo.ended {
            return None;
        }
        let mut row = self.clone();
        row.count = row.count.max(mark.count.into());
        row.value = match (&self.value, &gift.value) {
            (Some(mine), Some(more)) if more.amount > mine.amount => Some(more.clone()),
            (Some(mine), _) => Some(mine.clone()),
            (None, more) => more.clone(),
        };
        if u64::from(mark.count) >= self.count {
            row.take_newest(gift);
        }
        row.combo = Some(RowCombo { ended: mark.end, ..combo.clone() });
        if row == *self {
            return None;
        }
        row.touch(now, ttl_ms);
        Some(row)
    }

    fn take_newest(&mut self, gift: &Gift) {
        if let Some(message) = &gift.message {
            self.message = Some(json_string(message));
        }
        if gift.tier.is_some() {
            self.tier = gift.tier;
        }
        if let Some(meta) = &gift.meta {
            self.meta = Some(meta.as_str().into());
        }
    }

    fn touch(&mut self, now: Millis, ttl_ms: u64) {
        self.rev += 1;
        self.updated_at = now;
        self.expires_at = expiry(now, ttl_ms);
    }

    /// Appends the row as watchers and GET see it.
    pub fn push_json(&self, out: &mut String) {
        use std::fmt::Write;
        let _ = write!(out, "{{\"row\":\"{}\",\"rev\":{},\"seq\":{}", self.id, self.rev, self.seq);
        let _ = write!(out, ",\"user\":{},\"gift\":{},\"count\":{}", self.user, self.gift, self.count);
        if let Some(Value { amount, currency }) = &self.value {
            let _ = write!(out, ",\"value\":{{\"amount\":{amount},\"currency\":\"{currency}\"}}");
        }
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

fn expiry(now: Millis, ttl_ms: u64) -> Option<Millis> {
    (ttl_ms > 0).then(|| now.plus(ttl_ms))
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
