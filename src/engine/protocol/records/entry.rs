use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::totals::StoredGoal;

use crate::domain::json::push_string;
use crate::domain::{Cursor, Delta, DropId, Entry, EntryStatus, Gift, Millis, RowId, Trace, trace};

/// An entry of a feed's ledger (`lua/ledger/stored.lua`).
#[derive(Deserialize)]
struct LedgerEntry<'a> {
    #[serde(rename = "type")]
    status: EntryStatus,
    at: i64,
    seq: u64,
    #[serde(default)]
    unseen: bool,
    row: Option<RowId>,
    given: Option<Given>,
    reason: Option<Box<RawValue>>,
    drop: Option<DropId>,
    hold: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "trace::read_or_none")]
    trace: Option<Trace>,
    #[serde(borrow)]
    gift: Option<&'a RawValue>,
    goal: Option<StoredGoal>,
    #[serde(borrow)]
    lost: Option<&'a RawValue>,
}

/// Units, and money in minor units.
#[derive(Deserialize)]
struct Given {
    units: i64,
    amount: Option<i64>,
    #[serde(default)]
    currency: String,
}

/// The members that a gift gives its entry: the step of its trace, and the event as the API has it. Empty for a test, which has
/// no entry.
pub fn entry_members(gift: &Gift) -> String {
    if gift.test {
        return String::new();
    }
    let mut out = String::with_capacity(320);
    if let Some(trace) = &gift.trace {
        out.push_str("\"trace\":");
        push_string(&mut out, &trace.to_string());
        out.push(',');
    }
    out.push_str("\"gift\":");
    gift.push_json(&mut out);
    out
}

/// Reads an entry, whose number is `cursor`; `None` if the text is none.
pub fn read_entry(cursor: Cursor, text: &[u8]) -> Option<Entry> {
    let it: LedgerEntry = serde_json::from_slice(text).ok()?;
    let delta = it.given.map(|given| Delta {
        count: given.units,
        value: given.amount.map(|amount| (amount, given.currency)),
    });
    let (gift, delta) = match it.status {
        EntryStatus::Goal => (it.goal?.view()?.1?.to_json().into(), None),
        EntryStatus::Lost => (it.lost?.get().into(), None),
        EntryStatus::Retracted | EntryStatus::Refunded => (it.gift?.get().into(), Some(delta?.negative())),
        _ => (it.gift?.get().into(), Some(delta?)),
    };
    Some(Entry {
        cursor,
        status: it.status,
        at: Millis(it.at),
        seq: (!it.unseen).then_some(it.seq),
        row: it.row,
        gift,
        delta,
        reason: it.reason.map(|reason| reason.get().into()),
        drop: it.drop,
        hold: it.hold.map(|hold| hold.parse()).transpose().ok()?,
        trace: it.trace,
    })
}
