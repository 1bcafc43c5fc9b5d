//! Reading a feed's ledger: which entries are asked for, and what their deltas add up to (contract section 6).

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use super::{Cursor, Entry, Millis};

/// The types that an entry may have.
pub const ENTRY_TYPES: [&str; 10] = [
    "gift.accepted",
    "gift.merged",
    "gift.suppressed",
    "gift.denied",
    "gift.retracted",
    "gift.refunded",
    "drop.sold",
    "goal.reached",
    "person.erased",
    "ledger.lost",
];

/// Entries that stand one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerPart {
    /// In the ledger's order.
    pub entries: Vec<Entry>,
    /// The number that the next entry will have.
    pub behind: Cursor,
}

/// Which entries are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFilter {
    /// Not before this time.
    pub from: Option<Millis>,
    /// Before this time.
    pub to: Option<Millis>,
    /// Of this type, one of [`ENTRY_TYPES`].
    pub kind: Option<String>,
    /// About a gift of this user.
    pub user: Option<String>,
}

impl LedgerFilter {
    /// Whether `entry` is asked for.
    pub fn takes(&self, entry: &Entry) -> bool {
        self.from.is_none_or(|from| from <= entry.at)
            && self.to.is_none_or(|to| entry.at < to)
            && self.kind.as_ref().is_none_or(|kind| kind == entry.status.kind())
            && self.user.as_ref().is_none_or(|user| user_of(entry).as_ref() == Some(user))
    }
}

impl LedgerFilter {
    /// Whether all of these entries are asked for, or none of them; `None` where that is not known.
    pub fn takes_all(&self, sum: &LedgerSum) -> Option<bool> {
        let Some((earliest, latest)) = sum.times else { return Some(false) };
        let of_kind = self
            .kind
            .as_ref()
            .map_or(sum.entries, |kind| sum.types.get(kind.as_str()).copied().unwrap_or_default());
        if of_kind == 0
            || self.from.is_some_and(|from| latest < from)
            || self.to.is_some_and(|to| to <= earliest)
        {
            return Some(false);
        }
        let is_within = self.from.is_none_or(|from| from <= earliest) && self.to.is_none_or(|to| latest < to);
        (is_within && of_kind == sum.entries && self.user.is_none()).then_some(true)
    }
}

fn user_of(entry: &Entry) -> Option<String> {
    #[derive(Deserialize)]
    struct Known {
        user: Option<User>,
    }
    #[derive(Deserialize)]
    struct User {
        id: String,
    }
    serde_json::from_str::<Known>(&entry.gift).ok()?.user.map(|user| user.id)
}

/// What entries add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerSum {
    first: Option<(Cursor, Millis)>,
    last: Option<(Cursor, Millis)>,
    /// The earliest and the latest of their times, which need not be those of the ends: clocks are set.
    times: Option<(Millis, Millis)>,
    entries: u64,
    types: BTreeMap<&'static str, u64>,
    count: i128,
    values: BTreeMap<String, i128>,
}

impl LedgerSum {
    /// Adds an entry.
    pub fn add(&mut self, entry: &Entry) {
        let place = (entry.cursor, entry.at);
        self.first.get_or_insert(place);
        self.last = Some(place);
        self.widen(entry.at, entry.at);
        self.entries += 1;
        *self.types.entry(entry.status.kind()).or_default() += 1;
        if let Some(delta) = &entry.delta {
            self.count += i128::from(delta.count);
            if let Some((amount, currency)) = &delta.value {
                *self.values.entry(currency.clone()).or_default() += i128::from(*amount);
            }
        }
    }

    fn widen(&mut self, earliest: Millis, latest: Millis) {
        let (first, last) = self.times.unwrap_or((earliest, latest));
        self.times = Some((first.min(earliest), last.max(latest)));
    }

    /// Adds what later entries add up to.
    pub fn join(&mut self, later: &LedgerSum) {
        self.first = self.first.or(later.first);
        self.last = later.last.or(self.last);
        if let Some((earliest, latest)) = later.times {
            self.widen(earliest, latest);
        }
        self.entries += later.entries;
        later.types.iter().for_each(|(kind, many)| *self.types.entry(kind).or_default() += many);
        self.count += later.count;
        for (currency, amount) in &later.values {
            *self.values.entry(currency.clone()).or_default() += amount;
        }
    }

    /// As the API answers it, of what `asked` asked for. Where it has no bounds, those of the entries are said.
    pub fn to_json(&self, asked: &LedgerFilter, now: Millis) -> String {
        let from = asked.from.or(self.first.map(|(_, at)| at)).unwrap_or(now);
        let to = asked.to.unwrap_or_else(|| self.last.map_or(now, |(_, at)| now.max(at.plus(1))));
        let mut out = format!("{{\"from\":\"{from}\",\"to\":\"{to}\"");
        for (name, place) in [("first", self.first), ("last", self.last)] {
            if let Some((cursor, _)) = place {
                let _ = write!(out, ",\"{name}\":\"{cursor}\"");
            }
        }
        let _ = write!(out, ",\"entries\":{},\"types\":{{", self.entries);
        for (n, (kind, many)) in self.types.iter().enumerate() {
            let _ = write!(out, "{}\"{kind}\":{many}", if n > 0 { "," } else { "" });
        }
        let _ = write!(out, "}},\"count\":{},\"values\":[", self.count);
        for (n, (currency, amount)) in self.values.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{{\"currency\":\"{currency}\",\"amount\":{amount}}}");
        }
        out.push_str("]}");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Delta, EntryStatus};

    fn entry(cursor: u64, at: i64, status: EntryStatus, user: &str, delta: (i64, Option<i64>)) -> Entry {
        Entry {
            cursor: Cursor(cursor),
            status,
            at: Millis(at),
            seq: None,
            row: None,
            gift: format!(r#"{{"id":"g","user":{{"id":"{user}","name":"N"}}}}"#).into(),
            delta: Some(Delta { count: delta.0, value: delta.1.map(|amount| (amount, "EUR".to_owned())) }),
            reason: None,
            drop: None,
            hold: None,
            trace: None,
        }
    }

    #[test]
    fn a_filter_takes_what_it_says() {
        let one = entry(7, 1_000, EntryStatus::Accepted, "ann", (1, None));
        let takes = |filter: LedgerFilter| filter.takes(&one);
        let all = LedgerFilter::default;
        assert!(takes(all()));
        assert!(takes(LedgerFilter { from: Some(Millis(1_000)), to: Some(Millis(1_001)), ..all() }));
        assert!(!takes(LedgerFilter { from: Some(Millis(1_001)), ..all() }));
        assert!(!takes(LedgerFilter { to: Some(Millis(1_000)), ..all() }));
        assert!(takes(LedgerFilter {
            kind: Some("gift.accepted".into()),
            user: Some("ann".into()),
            ..all()
        }));
        assert!(!takes(LedgerFilter { kind: Some("gift.merged".into()), ..all() }));
        assert!(!takes(LedgerFilter { user: Some("an".into()), ..all() }));
        let goal = Entry { gift: r#"{"goal":"mic"}"#.into(), status: EntryStatus::Goal, ..one.clone() };
        assert!(!LedgerFilter { user: Some("ann".into()), ..all() }.takes(&goal));
        use EntryStatus::{Accepted, Denied, Lost, Merged, Refunded, Retracted, Sold, Suppressed};
        let kinds =
            [Accepted, Merged, Suppressed, Denied, Sold, Retracted, Refunded, Lost, EntryStatus::Goal];
        assert!(kinds.into_iter().all(|kind| ENTRY_TYPES.contains(&kind.kind())));
    }

    #[test]
    fn deltas_are_added_up_by_currency() {
        let mut sum = LedgerSum::default();
        let empty =
            r#"{"from":"1970-01-01T00:00:05.000Z","to":"1970-01-01T00:00:05.000Z","entries":0,"types":{},"#;
        let said = sum.to_json(&LedgerFilter::default(), Millis(5_000));
        assert_eq!(said, format!(r#"{empty}"count":0,"values":[]}}"#));
        sum.add(&entry(7, 1_000, EntryStatus::Accepted, "ann", (3, Some(500))));
        sum.add(&entry(8, 9_000, EntryStatus::Retracted, "ann", (-3, Some(-499))));
        sum.add(&entry(9, 9_000, EntryStatus::Accepted, "ann", (1, None)));
        let said = sum.to_json(&LedgerFilter::default(), Millis(5_000));
        let head =
            r#"{"from":"1970-01-01T00:00:01.000Z","to":"1970-01-01T00:00:09.001Z","first":"7","last":"9","#;
        let tail = r#""types":{"gift.accepted":2,"gift.retracted":1},"count":1,"values":[{"currency":"EUR","amount":1}]}"#;
        assert_eq!(said, format!("{head}\"entries\":3,{tail}"));
    }
}
