//! Entries of the ledger, as lines of text. The event is put together as JSON when it is read: most entries
//! are trimmed without anybody having asked.

use std::fmt::Write;

use super::Records;
use crate::domain::json::push_number;
use crate::domain::{Cursor, Delta, Entry, EntryStatus, Gift, Millis, Show, Trace};

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

impl Records<'_> {
    /// The next entry, whose number is `cursor`.
    pub fn entry(&mut self, cursor: Cursor) -> Option<Entry> {
        let mut head = self.lines.next()?.split(' ');
        let status = EntryStatus::of(head.next()?)?;
        let seq = match head.next()? {
            seq if seq.starts_with('~') => None,
            seq => Some(seq.parse().ok()?),
        };
        let row = maybe(head.next()?)?;
        let at = Millis(head.next()?.parse().ok()?);
        let grown = head.next();
        let mut entry = Entry {
            cursor,
            status,
            at,
            seq,
            row,
            gift: "".into(),
            delta: None,
            reason: None,
            drop: None,
            hold: None,
            trace: None,
        };
        self.event(&mut entry)?;
        if let Some(grown) = grown {
            let mut words = grown.split(':');
            entry.delta = Some(delta(words.next()?, words.next()?, words.next()?)?);
        }
        Some(entry)
    }

    /// What an entry says of its event. A goal has none, nor has what was lost; of a gift that was taken back or refunded, count and value are
    /// what went, and the message is the reason.
    fn event(&mut self, entry: &mut Entry) -> Option<()> {
        let mut extra = self.lines.next()?.splitn(5, ' ');
        let (id, own_count, occurred, show) = (extra.next()?, extra.next()?, extra.next()?, extra.next()?);
        entry.trace = extra.next().and_then(|trace| trace.parse().ok());
        let (count, value, _key) = (self.lines.next()?, self.lines.next()?, self.lines.next()?);
        let (combo, mark) = (self.lines.next()?, self.lines.next()?);
        let (user, gift, message) = (self.lines.next()?, self.lines.next()?, self.lines.next()?);
        let (tier, meta) = self.lines.next()?.split_once(' ')?;
        if entry.status == EntryStatus::Goal {
            entry.gift = Records::new(gift).goal()?.1?.to_json().into();
            return Some(());
        }
        if entry.status == EntryStatus::Lost {
            let mut numbers = gift.split(' ').map(|number| number.parse::<u64>().ok());
            let (from, to, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
            entry.gift = format!("{{\"from\":\"{from}\",\"to\":\"{to}\",\"count\":{count}}}").into();
            return Some(());
        }
        let (amount, currency) = value.split_once(' ').unwrap_or_default();
        let mut out = String::with_capacity(96 + user.len() + gift.len() + message.len() + meta.len());
        let _ = write!(out, "{{\"id\":\"{id}\"");
        let sold_by = mark.splitn(3, ' ').nth(2);
        entry.drop = sold_by.map(str::parse).transpose().ok()?;
        if matches!(entry.status, EntryStatus::Retracted | EntryStatus::Refunded) {
            entry.reason = Some(message).filter(|reason| !reason.is_empty()).map(Box::from);
            entry.delta = Some(delta(count, amount, currency)?.negative());
            if !user.is_empty() {
                let _ = write!(out, ",\"user\":{user},\"gift\":{gift}");
            }
            out.push('}');
            entry.gift = out.into();
            return Some(());
        }
        entry.delta = Some(delta(own_count, amount, currency)?);
        let _ = write!(out, ",\"user\":{user},\"gift\":{gift},\"count\":{own_count}");
        if !amount.is_empty() {
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
        if entry.status == EntryStatus::Sold {
            // A sale is shown at once; what stands here is the claim, where it was held before.
            entry.hold =
                show.strip_prefix('~').and_then(|claim| format!("{}~{claim}", sold_by?).parse().ok());
        } else {
            match show.strip_prefix('+') {
                Some(ms) => drop(write!(out, ",\"delay_ms\":{ms}")),
                None if show != "-" => time("deliver_at", show)?,
                None => {}
            }
        }
        if !meta.is_empty() {
            let _ = write!(out, ",\"meta\":{meta}");
        }
        out.push('}');
        entry.gift = out.into();
        Some(())
    }
}

/// Of an amount that is "" the gift has no value.
fn delta(count: &str, amount: &str, currency: &str) -> Option<Delta> {
    let value = match amount {
        "" => None,
        amount => Some((amount.parse().ok()?, currency.to_owned())),
    };
    Some(Delta { count: count.parse().ok()?, value })
}

/// "-" is none.
fn maybe<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    match text {
        "-" => Some(None),
        text => text.parse().ok().map(Some),
    }
}
