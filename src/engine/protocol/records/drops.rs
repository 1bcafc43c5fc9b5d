use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::{DropId, DropSpec, DropView, Epoch, Millis, Phase, RowId, Value};

/// How a drop is defined (`lua/drops/stock.lua`).
#[derive(Serialize, Deserialize)]
struct StoredSpec<'a> {
    total: u64,
    per_user: u64,
    hold_ttl_ms: u64,
    max_holds_per_user: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    opens_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closes_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(borrow)]
    gift: &'a RawValue,
}

/// As it is stored; "" if the gift is no JSON.
pub fn drop_spec(spec: &DropSpec) -> String {
    let DropSpec { gift, value, total, per_user, hold_ttl_ms, max_holds_per_user, opens_at, closes_at } =
        spec;
    let (total, per_user, hold_ttl_ms, max_holds_per_user) =
        (*total, *per_user, *hold_ttl_ms, *max_holds_per_user);
    let [opens_at, closes_at] = [opens_at, closes_at].map(|at| at.map(|Millis(at)| at));
    let value = value.clone();
    let Ok(gift) = serde_json::from_str(gift) else { return String::new() };
    let stored =
        StoredSpec { total, per_user, hold_ttl_ms, max_holds_per_user, opens_at, closes_at, value, gift };
    serde_json::to_string(&stored).unwrap_or_default()
}

impl StoredSpec<'_> {
    fn spec(self) -> DropSpec {
        DropSpec {
            gift: self.gift.get().into(),
            value: self.value,
            total: self.total,
            per_user: self.per_user,
            hold_ttl_ms: self.hold_ttl_ms,
            max_holds_per_user: self.max_holds_per_user,
            opens_at: self.opens_at.map(Millis),
            closes_at: self.closes_at.map(Millis),
        }
    }
}

/// A drop as it is announced.
#[derive(Deserialize)]
pub(super) struct AnnouncedDrop<'a> {
    drop: DropId,
    phase: String,
    free: u64,
    held: u64,
    sold: u64,
    #[serde(borrow)]
    spec: StoredSpec<'a>,
}

impl AnnouncedDrop<'_> {
    pub(super) fn view(self) -> Option<DropView> {
        let AnnouncedDrop { drop, phase, free, held, sold, spec } = self;
        Some(DropView { drop, phase: phase.parse().ok()?, spec: spec.spec(), free, held, sold })
    }
}

/// Reads what was announced of a drop; `None` if the text is no such record.
pub fn read_announced_drop(text: &str) -> Option<DropView> {
    serde_json::from_str::<AnnouncedDrop>(text).ok()?.view()
}

/// A drop as `drops` has it.
#[derive(Deserialize)]
struct StoredDrop<'a> {
    held: u64,
    sold: u64,
    said: String,
    #[serde(borrow)]
    spec: StoredSpec<'a>,
}

/// Reads a drop whose clock has not struck: until then none of its times has passed, and its phase is the one that watchers know, but for
/// units that came back. `None` if the text is no drop.
pub fn read_drop_at_rest(name: &str, text: &str) -> Option<DropView> {
    let StoredDrop { held, sold, said, spec } = serde_json::from_str(text).ok()?;
    let spec = spec.spec();
    let free = spec.total.checked_sub(held.checked_add(sold)?)?;
    let phase = match said.parse().ok()? {
        Phase::SoldOut if free > 0 => Phase::Open,
        phase => phase,
    };
    Some(DropView { drop: name.parse().ok()?, phase, spec, free, held, sold })
}

/// What became of a claim.
#[derive(Debug, Deserialize)]
pub struct StoredClaim<'a> {
    /// Of the payload, in hex.
    pub fingerprint: String,
    /// Units.
    pub count: u64,
    /// What they cost.
    pub value: Option<Value>,
    /// When it was claimed, in milliseconds.
    pub made_at: i64,
    /// When the hold ends, in milliseconds; `None` after it was paid at once.
    pub expires_at: Option<i64>,
    /// Once it is sold.
    pub sale: Option<StoredSale>,
    /// The buyer.
    #[serde(borrow)]
    pub user: &'a RawValue,
}

/// The change and the row of a sale.
#[derive(Debug, Deserialize)]
pub struct StoredSale {
    /// Where the feed stood.
    pub epoch: Epoch,
    /// The change that added the row.
    pub seq: u64,
    /// The row that shows it.
    pub row: RowId,
    /// How much of its value was refunded.
    pub refunded: Option<u64>,
}
