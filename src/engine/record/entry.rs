//! Entries of the ledger, as lines of text. The event is put together as JSON when it is read: most entries
//! are trimmed without anybody having asked.

use std::fmt::Write;

use super::{Records, line, push_body_of};
use crate::domain::json::{push_number, push_string};
use crate::domain::row::combo_key;
use crate::domain::tally::GoalView;
use crate::domain::{Cursor, Entry, EntryStatus, Gift, GiftId, Millis, Row, RowId, Show, Trace};

/// Lines of one entry.
pub const ENTRY_LINES: usize = 11;

/// What an entry keeps of `gift` beside the lines of [`super::push_body`]: `ID COUNT OCCURRED|- SHOW`, where SHOW is
/// `-`, `+MS` or a time, and behind that [`trace_mark`]. Without a line break; empty for a test, which is no entry.
pub fn entry_extra(gift: &Gift) -> String {
    if gift.test {
        return String::new();
    }
    let mut out = String::with_capacity(64);
    push_extra(&mut out, gift);
    out
}

fn push_extra(out: &mut String, gift: &Gift) {
    out.push_str(gift.id.as_str());
    out.push(' ');
    push_number(out, gift.count as i64);
    out.push(' ');
    match gift.occurred_at {
        Some(at) => push_number(out, at.0),
        None => out.push('-'),
    }
    match gift.show {
        Show::ByPolicy => out.push_str(" -"),
        Show::After(ms) => {
            out.push_str(" +");
            push_number(out, ms as i64);
        }
        Show::At(at) => {
            out.push(' ');
            push_number(out, at.0);
        }
    }
    if gift.trace.is_some() {
        out.push_str(&trace_mark(gift.trace.as_ref()));
    }
}

/// What an entry's second line ends with: nothing, or a blank and the trace.
pub fn trace_mark(trace: Option<&Trace>) -> String {
    trace.map(|trace| format!(" {trace}")).unwrap_or_default()
}

/// Appends an entry's first line: `STATUS SEQ|- ROW|- AT`.
pub fn push_entry_head(
    out: &mut String,
    status: EntryStatus,
    seq: Option<u64>,
    row: Option<&RowId>,
    at: Millis,
) {
    out.push(status.letter());
    out.push(' ');
    match seq {
        Some(seq) => push_number(out, seq as i64),
        None => out.push('-'),
    }
    out.push(' ');
    out.push_str(row.map_or("-", RowId::as_str));
    out.push(' ');
    push_number(out, at.0);
    out.push('\n');
}

/// Appends the entry of a gift: [`ENTRY_LINES`] lines. Nothing for a test.
pub fn push_entry(
    out: &mut String,
    gift: &Gift,
    status: EntryStatus,
    seq: Option<u64>,
    row: Option<&RowId>,
    at: Millis,
) {
    push_gift_entry(out, gift, (status, seq, row), at, None);
}

/// As [`push_entry`], of a gift that has started this row with what it says itself.
pub fn push_started(out: &mut String, gift: &Gift, row: &Row, at: Millis) {
    push_gift_entry(out, gift, (EntryStatus::Accepted, Some(row.seq), Some(&row.id)), at, Some(row));
}

fn push_gift_entry(
    out: &mut String,
    gift: &Gift,
    (status, seq, row): (EntryStatus, Option<u64>, Option<&RowId>),
    at: Millis,
    started: Option<&Row>,
) {
    if gift.test {
        return;
    }
    push_entry_head(out, status, seq, row, at);
    push_extra(out, gift);
    out.push('\n');
    push_body_of(out, gift, &combo_key(gift).unwrap_or_default(), started);
}

/// A sale, for its entry.
#[derive(Clone, Copy, Debug)]
pub struct SoldEntry<'a> {
    /// The claim's id, which is the gift's.
    pub id: &'a GiftId,
    /// Units.
    pub count: u64,
    /// `FREE DROP`: what is left, and the drop's name.
    pub drop: &'a str,
    /// The claimer, as JSON.
    pub user: &'a str,
    /// What was sold, as JSON.
    pub gift: &'a str,
    /// A JSON string.
    pub message: Option<&'a str>,
    /// The step of a trace that paid for it.
    pub trace: Option<&'a Trace>,
}

/// Appends the entry of a sale: [`ENTRY_LINES`] lines.
pub fn push_sold(out: &mut String, sale: SoldEntry<'_>, seq: u64, row: &RowId, at: Millis) {
    push_entry_head(out, EntryStatus::Sold, Some(seq), Some(row), at);
    let SoldEntry { id, count, drop, user, gift, message, trace } = sale;
    line(out, format_args!("{id} {count} - -{}", trace_mark(trace)));
    let message = message.unwrap_or_default();
    let _ = write!(out, "{count}\n\n\n\n0 {drop}\n{user}\n{gift}\n{message}\n \n");
}

/// Appends the entry of a gift that was taken back: [`ENTRY_LINES`] lines, all but the first two without a word.
pub fn push_retracted(out: &mut String, id: &GiftId, seq: Option<u64>, row: Option<&RowId>, at: Millis) {
    push_entry_head(out, EntryStatus::Retracted, seq, row, at);
    let _ = write!(out, "{id} 0 - -\n0\n\n\n\n0\n{{}}\n{{}}\n\n \n");
}

/// Appends the entry of a goal that was reached: [`ENTRY_LINES`] lines, the goal in the place of the gift.
pub fn push_goal_entry(out: &mut String, goal: &GoalView, seq: u64, at: Millis) {
    push_entry_head(out, EntryStatus::Goal, Some(seq), None, at);
    let _ = write!(out, "{} 0 - -\n0\n\n\n\n0\n{{}}\n", goal.goal);
    super::push_goal(out, &goal.goal, Some(goal));
    out.push_str("\n \n");
}

impl Records<'_> {
    /// The next entry, whose number is `cursor`.
    pub fn entry(&mut self, cursor: Cursor) -> Option<Entry> {
        let mut head = self.lines.next()?.split(' ');
        let status = EntryStatus::of(head.next()?)?;
        let seq = maybe(head.next()?)?;
        let row = maybe(head.next()?)?;
        let at = Millis(head.next()?.parse().ok()?);
        let (gift, trace) = self.event(status)?;
        Some(Entry { cursor, status, at, seq, row, gift: gift.into(), trace })
    }

    /// The event of an entry, as JSON, and the trace that brought it.
    fn event(&mut self, status: EntryStatus) -> Option<(String, Option<Trace>)> {
        let mut extra = self.lines.next()?.splitn(5, ' ');
        let (id, own_count, occurred, show) = (extra.next()?, extra.next()?, extra.next()?, extra.next()?);
        let trace = extra.next().and_then(|trace| trace.parse().ok());
        let (count, value, _key) = (self.lines.next()?, self.lines.next()?, self.lines.next()?);
        let (combo, mark) = (self.lines.next()?, self.lines.next()?);
        let (user, gift, message) = (self.lines.next()?, self.lines.next()?, self.lines.next()?);
        let (tier, meta) = self.lines.next()?.split_once(' ')?;
        if status == EntryStatus::Retracted {
            return Some((format!("{{\"id\":\"{id}\"}}"), None));
        }
        if status == EntryStatus::Goal {
            return Records::new(gift).goal()?.1.map(|goal| (goal.to_json(), None));
        }
        let mut out = String::with_capacity(96 + user.len() + gift.len() + message.len() + meta.len());
        let _ = write!(out, "{{\"id\":\"{id}\",\"user\":{user},\"gift\":{gift},\"count\":{own_count}");
        if let Some((amount, currency)) = value.split_once(' ') {
            let _ = write!(out, ",\"value\":{{\"amount\":{amount},\"currency\":\"{currency}\"}}");
        }
        if let Some((end, id)) = combo.split_once(' ') {
            let end = if end == "1" { ",\"end\":true" } else { "" };
            let _ = write!(out, ",\"combo\":{{\"id\":{id},\"count\":{count}{end}}}");
        }
        if !message.is_empty() {
            let _ = write!(out, ",\"message\":{message}");
        }
        if !tier.is_empty() {
            let _ = write!(out, ",\"tier\":{tier}");
        }
        let mut time = |name: &str, text: &str| -> Option<()> {
            let _ = write!(out, ",\"{name}\":\"{}\"", Millis(text.parse().ok()?));
            Some(())
        };
        if occurred != "-" {
            time("occurred_at", occurred)?;
        }
        match show.strip_prefix('+') {
            Some(ms) => drop(write!(out, ",\"delay_ms\":{ms}")),
            None if show != "-" => time("deliver_at", show)?,
            None => {}
        }
        if let Some(drop) = mark.splitn(3, ' ').nth(2) {
            out.push_str(",\"drop\":");
            push_string(&mut out, drop);
        }
        if !meta.is_empty() {
            let _ = write!(out, ",\"meta\":{meta}");
        }
        out.push('}');
        Some((out, trace))
    }
}

/// "-" is none.
fn maybe<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    match text {
        "-" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{TraceParent, TraceState, json};

    fn gift(body: &str) -> Gift {
        Gift::parse(json::syntax(body.as_bytes()).unwrap(), None).unwrap()
    }

    #[test]
    fn an_entry_gives_the_event_back_as_it_was_accepted() {
        for body in [
            r#"{"id":"a:b","user":{"id":"u\n","name":"U"},"gift":{"id":"g","name":"\"G\""},"count":1}"#,
            r#"{"id":"x","user":{"id":"u","name":"U","avatar":"https://a.example/u"},"gift":{"id":"g","name":"G","icon":"https://a.example/g"},"count":7,"value":{"amount":9007199254740991,"currency":"EUR"},"combo":{"id":"c 1","count":3,"end":true},"message":"hi \"there\"","tier":0,"occurred_at":"2026-01-31T12:00:05.000Z","deliver_at":"2026-02-01T00:00:00.000Z","meta":{"a b":[1]}}"#,
            r#"{"id":"y","user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"},"count":2,"combo":{"id":"c","count":0},"delay_ms":5000}"#,
        ] {
            let mut text = String::new();
            let row: RowId = "e-1".parse().unwrap();
            push_entry(&mut text, &gift(body), EntryStatus::Merged, Some(7), Some(&row), Millis(5));
            assert_eq!(text.lines().count(), ENTRY_LINES);
            let started = Row::start(row.clone(), 7, &gift(body), Millis(5), 0);
            let (mut of_row, mut of_gift) = (String::new(), String::new());
            push_started(&mut of_row, &gift(body), &started, Millis(5));
            push_entry(&mut of_gift, &gift(body), EntryStatus::Accepted, Some(7), Some(&row), Millis(5));
            assert_eq!(of_row, of_gift);
            let entry = Records::new(&text).entry(Cursor(9)).unwrap();
            assert_eq!(
                (entry.cursor, entry.seq, entry.row, entry.at),
                (Cursor(9), Some(7), Some(row), Millis(5))
            );
            assert_eq!((&*entry.gift, entry.trace), (body, None));
            let state = TraceState::read(["a=1,b=x \"y\""].into_iter());
            let trace = Some(Trace { step: TraceParent::root([7; 16], [8; 8]), state });
            let mut traced = String::new();
            push_entry(
                &mut traced,
                &Gift { trace: trace.clone(), ..gift(body) },
                EntryStatus::Merged,
                Some(7),
                None,
                Millis(5),
            );
            assert_eq!(traced.lines().count(), ENTRY_LINES);
            let entry = Records::new(&traced).entry(Cursor(9)).unwrap();
            assert_eq!((&*entry.gift, entry.trace), (body, trace));
            let cut: Vec<&str> = text.lines().take(8).collect();
            assert_eq!(Records::new(&cut.join("\n")).entry(Cursor(9)), None);
        }
    }

    #[test]
    fn a_test_is_no_entry_and_a_sale_is_one() {
        let mut text = String::new();
        let test = gift(r#"{"user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"},"test":true}"#);
        push_entry(&mut text, &test, EntryStatus::Accepted, None, None, Millis(1));
        assert_eq!(text, "");
        let (user, gift) = ("{\"id\":\"u\",\"name\":\"U\"}", "{\"id\":\"r\",\"name\":\"R\"}");
        let (id, row) = ("c-1".parse().unwrap(), "e-2".parse().unwrap());
        let sale = SoldEntry {
            id: &id,
            count: 2,
            drop: "8 rocket",
            user,
            gift,
            message: Some("\"hi\""),
            trace: None,
        };
        let traced = Trace::from(TraceParent::root([7; 16], [8; 8]));
        let mut with_trace = String::new();
        push_sold(&mut with_trace, SoldEntry { trace: Some(&traced), ..sale }, 2, &row, Millis(3));
        assert_eq!(Records::new(&with_trace).entry(Cursor(1)).unwrap().trace, Some(traced));
        push_sold(&mut text, sale, 2, &row, Millis(3));
        assert_eq!(text.lines().count(), ENTRY_LINES);
        let entry = Records::new(&text).entry(Cursor(1)).unwrap();
        assert_eq!(
            &*entry.gift,
            format!(
                "{{\"id\":\"c-1\",\"user\":{user},\"gift\":{gift},\"count\":2,\"message\":\"hi\",\"drop\":\"rocket\"}}"
            )
        );
        assert_eq!((entry.status, entry.seq), (EntryStatus::Sold, Some(2)));
    }
}
