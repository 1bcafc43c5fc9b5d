//! What happened, for game backends (contract section 6): the ledger's entries, who reads them and how
//! far each has come.

use std::fmt::{self, Write};
use std::str::FromStr;

use serde::Deserialize;

use super::ids::BadName;
use super::json::push_string;
use super::{DropId, FeedId, GroupId, HoldId, HookId, Millis, RowId, Trace};

/// The number of an entry in its feed's ledger. Numbers of one ledger grow by one.
///
/// A ledger begins at a thousand times the milliseconds of its first entry's time, so that numbers of one
/// that was lost are not given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub u64);

impl Cursor {
    /// The first number of a ledger that begins at `now`.
    pub fn first(now: Millis) -> Cursor {
        Cursor(now.0.max(0) as u64 * 1_000)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cursor {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Cursor, BadName> {
        const RULE: BadName = BadName("must be the cursor of an entry");
        if text.is_empty() || text.len() > 16 || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(RULE);
        }
        text.parse().ok().filter(|n| *n <= super::MAX_SAFE).map(Cursor).ok_or(RULE)
    }
}

/// What became of a gift, as its entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryStatus {
    /// A row of its own.
    Accepted,
    /// Joined a row.
    Merged,
    /// Not shown, because of the dedup lock or a block.
    Suppressed,
    /// Not shown, because a host said so.
    Denied,
    /// A drop's units were sold.
    Sold,
    /// A gift was taken back. The event has its id, and its user and gift as far as they are known.
    Retracted,
    /// Part of a gift's value was refunded; the event as of one that was taken back.
    Refunded,
    /// Entries were cut before this reader was handed them. There is no event but which: `{"from","to","count"}`.
    Lost,
    /// A goal was reached. There is no event but the goal.
    Goal,
}

impl EntryStatus {
    /// The entry's `type`.
    pub fn kind(self) -> &'static str {
        match self {
            EntryStatus::Accepted => "gift.accepted",
            EntryStatus::Merged => "gift.merged",
            EntryStatus::Suppressed => "gift.suppressed",
            EntryStatus::Denied => "gift.denied",
            EntryStatus::Sold => "drop.sold",
            EntryStatus::Retracted => "gift.retracted",
            EntryStatus::Refunded => "gift.refunded",
            EntryStatus::Lost => "ledger.lost",
            EntryStatus::Goal => "goal.reached",
        }
    }
}

/// By how much an entry changes what was given in its feed: over all entries the deltas add up to that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Units.
    pub count: i64,
    /// Minor units and their currency, if the gift has a value.
    pub value: Option<(i64, String)>,
}

impl Delta {
    /// What takes it back.
    pub fn negative(self) -> Delta {
        Delta { count: -self.count, value: self.value.map(|(amount, currency)| (-amount, currency)) }
    }

    /// Appends it as the API answers it.
    pub fn push_json(&self, out: &mut String) {
        let _ = write!(out, "{{\"count\":{}", self.count);
        if let Some((amount, currency)) = &self.value {
            let _ = write!(out, ",\"value\":{{\"amount\":{amount},\"currency\":\"{currency}\"}}");
        }
        out.push('}');
    }
}

/// One entry of a feed's ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub cursor: Cursor,
    /// What became of the gift.
    pub status: EntryStatus,
    /// When that happened.
    pub at: Millis,
    /// The feed's seq then; none for a suppressed gift, and for one taken back that was not in the list.
    pub seq: Option<u64>,
    /// The row that shows the gift, or kept it from being shown.
    pub row: Option<RowId>,
    /// The event as it was accepted, with its id, as JSON; of [`EntryStatus::Goal`] the goal, of
    /// [`EntryStatus::Lost`] what was lost.
    pub gift: Box<str>,
    /// What it adds or takes away; `None` for [`EntryStatus::Goal`] and [`EntryStatus::Lost`].
    pub delta: Option<Delta>,
    /// Why a gift was taken back or refunded, as JSON.
    pub reason: Option<Box<str>>,
    /// The drop whose units were sold.
    pub drop: Option<DropId>,
    /// The hold that was paid, where the units were held before.
    pub hold: Option<HoldId>,
    /// The step of a trace that brought the gift or paid for it, where traces were recorded then.
    pub trace: Option<Trace>,
}

impl Entry {
    /// Appends it as the API answers it in `feed`; with `attempt` where it is handed out.
    pub fn push_json(&self, out: &mut String, feed: &FeedId, attempt: Option<u64>) {
        let Entry { cursor, status, at, seq, row, gift, delta, reason, drop, hold, trace } = self;
        let kind = status.kind();
        // A feed's name needs no escapes.
        let _ = write!(out, "{{\"cursor\":\"{cursor}\",\"event_id\":\"{feed}/{cursor}\",\"type\":\"{kind}\"");
        let _ = write!(out, ",\"feed\":\"{feed}\",\"at\":\"{at}\"");
        if let Some(attempt) = attempt {
            let _ = write!(out, ",\"attempt\":{attempt}");
        }
        if let Some(seq) = seq {
            let _ = write!(out, ",\"seq\":{seq}");
        }
        if let Some(row) = row {
            let _ = write!(out, ",\"row\":\"{row}\"");
        }
        if let Some(trace) = trace {
            let _ = write!(out, ",\"traceparent\":\"{}\"", trace.step);
            if let Some(state) = &trace.state {
                out.push_str(",\"tracestate\":");
                push_string(out, state.as_str());
            }
        }
        if let Some(drop) = drop {
            let _ = write!(out, ",\"drop\":\"{drop}\"");
        }
        if let Some(hold) = hold {
            let _ = write!(out, ",\"hold\":\"{hold}\"");
        }
        if let Some(delta) = delta {
            out.push_str(",\"delta\":");
            delta.push_json(out);
        }
        if let Some(reason) = reason {
            let _ = write!(out, ",\"reason\":{reason}");
        }
        let what = match status {
            EntryStatus::Goal => "goal",
            EntryStatus::Lost => "lost",
            _ => "gift",
        };
        let _ = write!(out, ",\"{what}\":{gift}}}");
    }

    /// The gift's id.
    pub fn gift_id(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Known {
            id: String,
        }
        serde_json::from_str::<Known>(&self.gift).ok().map(|gift| gift.id)
    }
}

/// A reader of a feed's ledger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reader {
    /// A group that pulls.
    Group(GroupId),
    /// A webhook of this feed.
    Hook(HookId),
    /// A webhook of all feeds.
    HookOfAll(HookId),
}

impl fmt::Display for Reader {
    /// As stores spell it: `g:NAME`, `w:NAME` or `*:NAME`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reader::Group(name) => write!(f, "g:{name}"),
            Reader::Hook(name) => write!(f, "w:{name}"),
            Reader::HookOfAll(name) => write!(f, "*:{name}"),
        }
    }
}

impl FromStr for Reader {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Reader, BadName> {
        match text.split_once(':') {
            Some(("g", name)) => Ok(Reader::Group(name.parse()?)),
            Some(("w", name)) => Ok(Reader::Hook(name.parse()?)),
            Some(("*", name)) => Ok(Reader::HookOfAll(name.parse()?)),
            _ => Err(BadName("must be g:NAME, w:NAME or *:NAME")),
        }
    }
}

/// Where a group begins that is made by its first claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = GroupStart, rename_all = "snake_case"))]
pub enum Start {
    /// With the oldest entry that is kept.
    #[default]
    Start,
    /// With what comes next.
    Now,
}

/// What a claim of a group asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Entries at most, 1…1000.
    pub max: usize,
    /// How long they are the claimer's, in milliseconds.
    pub lease_ms: u64,
    /// Where a group begins that is new.
    pub from: Start,
}

/// An entry in the hands of a claimer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The entry itself.
    pub entry: Entry,
    /// How often it has been handed out, this time included; from 1.
    pub attempt: u64,
}

/// What a claim got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// In the ledger's order.
    pub entries: Vec<Handed>,
    /// When the first lease in this group runs out, in milliseconds from now; `None` if nothing is pending.
    pub next_in_ms: Option<u64>,
}

/// The state of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// Entries never handed out.
    pub lag: u64,
    /// Entries handed out and not acknowledged.
    pub pending: u64,
    /// The age of the oldest entry that is not acknowledged, in milliseconds; 0 when there is none.
    pub oldest_ms: u64,
    /// Dead letters.
    pub dead: u64,
    /// Entries that were cut from the ledger before the group had acknowledged them.
    pub lost: u64,
}

/// An entry that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// When it was given up.
    pub died_at: Millis,
    /// A sentence for people.
    pub reason: String,
    /// How often it was handed out or sent.
    pub attempts: u64,
    /// The entry.
    pub entry: Entry,
}

/// Which dead letters are to be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Every one.
    All,
    /// Those with these cursors.
    Only(Vec<Cursor>),
}

/// A webhook's work in one feed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job {
    /// The feed whose ledger it reads.
    pub feed: FeedId,
    /// [`Reader::Hook`] or [`Reader::HookOfAll`].
    pub reader: Reader,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{TraceParent, TraceState};

    #[test]
    fn an_entry_is_told_with_what_it_has() {
        let feed: FeedId = "show".parse().unwrap();
        let spelled = |entry: &Entry, attempt| {
            let mut spelled = String::new();
            entry.push_json(&mut spelled, &feed, attempt);
            spelled
        };
        let mut entry = Entry {
            cursor: Cursor(17),
            status: EntryStatus::Accepted,
            at: Millis(0),
            seq: Some(3),
            row: Some("e-3".parse().unwrap()),
            gift: r#"{"id":"g:1","count":2}"#.into(),
            delta: Some(Delta { count: 2, value: Some((500, "EUR".to_owned())) }),
            reason: None,
            drop: None,
            hold: None,
            trace: None,
        };
        let head = r#"{"cursor":"17","event_id":"show/17","type":"gift."#;
        let at = r#","feed":"show","at":"1970-01-01T00:00:00.000Z","#;
        let delta = r#""delta":{"count":2,"value":{"amount":500,"currency":"EUR"}},"#;
        let gift = r#""gift":{"id":"g:1","count":2}}"#;
        let middle = r#""attempt":2,"seq":3,"row":"e-3","#;
        assert_eq!(spelled(&entry, Some(2)), format!(r#"{head}accepted"{at}{middle}{delta}{gift}"#));
        (entry.seq, entry.row, entry.status) = (None, None, EntryStatus::Suppressed);
        let suppressed = format!(r#"{head}suppressed"{at}{delta}{gift}"#);
        assert_eq!(spelled(&entry, None), suppressed);
        assert_eq!(entry.gift_id().as_deref(), Some("g:1"));
        entry.delta = entry.delta.map(Delta::negative);
        let less = r#""delta":{"count":-2,"value":{"amount":-500,"currency":"EUR"}}"#;
        assert!(spelled(&entry, None).contains(less));
        entry.delta = Some(Delta { count: 1, value: None });
        (entry.drop, entry.hold) = ("d1".parse().ok(), "d1~c:1".parse().ok());
        let sold = r#","drop":"d1","hold":"d1~c:1","delta":{"count":1},"gift""#;
        assert!(spelled(&entry, None).contains(sold), "{}", spelled(&entry, None));
        entry.trace = Some(TraceParent::root([7; 16], [8; 8]).into());
        let trace = format!("\"traceparent\":\"00-{}-{}-03\",\"drop\":", "07".repeat(16), "08".repeat(8));
        assert!(spelled(&entry, None).contains(&trace));
        entry.trace = entry.trace.map(|it| Trace { state: TraceState::read(["a=\"1\""].into_iter()), ..it });
        assert!(spelled(&entry, None).contains("-03\",\"tracestate\":\"a=\\\"1\\\"\",\"drop\":"));
        entry.reason = Some("\"chargeback\"".into());
        assert!(
            spelled(&entry, None).contains("\"delta\":{\"count\":1},\"reason\":\"chargeback\",\"gift\":")
        );
        let goal = Entry { status: EntryStatus::Goal, delta: None, drop: None, hold: None, ..entry };
        assert!(
            spelled(&goal, None).contains("\"type\":\"goal.reached\"")
                && !spelled(&goal, None).contains("delta")
        );
    }

    #[test]
    fn readers_and_cursors_survive_being_written() {
        for text in ["g:a.b", "w:a", "*:all-games"] {
            assert_eq!(text.parse::<Reader>().unwrap().to_string(), text);
        }
        for bad in ["", "a", "x:a", "g:", "g:a b"] {
            assert!(bad.parse::<Reader>().is_err(), "{bad}");
        }
        assert_eq!("17".parse(), Ok(Cursor(17)));
        for bad in ["", "-1", "1.0", "9007199254740992", "99999999999999999999"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }
}
