//! Rows, changes and waiting gifts as lines of text: how engines store them.
//!
//! One field a line, a fixed number of lines per kind, so records stand one after another without
//! lengths. JSON fragments hold no raw control character and names keep to their alphabets, so no
//! field can hold a line break.

use std::fmt::{Display, Write};
use std::str::{FromStr, Split};
use std::sync::Arc;

use crate::domain::json::{push_number, push_string};
use crate::domain::{
    Action, Change, Control, DropSpec, DropView, Epoch, Gift, Millis, Op, RemoveReason, Row, RowCombo,
    RowDrop, RowId, Tag, Value,
};

mod entry;
mod gift;
mod tally;

pub use entry::{
    ENTRY_LINES, SoldEntry, entry_extra, push_entry, push_goal_entry, push_retracted, push_sold,
    push_started, trace_mark,
};
pub use gift::push_gift;
pub use tally::{push_gifter, push_goal, push_period, push_state, read_gifter};

/// Appends `row`: 15 lines.
pub fn push_row(out: &mut String, row: &Row) {
    text_line(out, row.id.as_str());
    let expires = row.expires_at.map_or(0, |at| at.0);
    for number in [row.rev as i64, row.seq as i64, row.at.0, row.updated_at.0, expires, row.count as i64] {
        push_number(out, number);
        out.push('\n');
    }
    match &row.value {
        Some(value) => push_value(out, value),
        None => out.push('\n'),
    }
    match &row.combo {
        Some(combo) => {
            line(out, &combo.key);
            line(out, format_args!("{} {}", u8::from(combo.ended), combo.id));
        }
        None => out.push_str("\n\n"),
    }
    match &row.drop {
        Some(RowDrop { drop, left }) => line(out, format_args!("{} {left} {drop}", u8::from(row.test))),
        None => out.push_str(if row.test { "1\n" } else { "0\n" }),
    }
    text_line(out, &row.user);
    text_line(out, &row.gift);
    text_line(out, row.message.as_deref().unwrap_or(""));
    if let Some(tier) = row.tier {
        push_number(out, tier.into());
    }
    out.push(' ');
    text_line(out, row.meta.as_deref().unwrap_or(""));
}

/// Appends the last nine of the lines of [`push_row`] for the row that `gift` starts, whose combo has
/// `key`; of a combo with the count as it came, which may be 0.
pub fn push_body(out: &mut String, gift: &Gift, key: &str) {
    push_body_of(out, gift, key, None);
}

/// As [`push_body`]. `row`: one that the gift has started, of which the texts are spelled already.
fn push_body_of(out: &mut String, gift: &Gift, key: &str, row: Option<&Row>) {
    push_number(out, gift.combo.as_ref().map_or(gift.count, |combo| combo.count.into()) as i64);
    out.push('\n');
    match &gift.value {
        Some(value) => push_value(out, value),
        None => out.push('\n'),
    }
    out.push_str(key);
    out.push('\n');
    if let Some(combo) = &gift.combo {
        out.push_str(if combo.end { "1 " } else { "0 " });
        push_string(out, &combo.id);
    }
    out.push_str(if gift.test { "\n1\n" } else { "\n0\n" });
    match row {
        Some(Row { user, gift, message, .. }) => {
            text_line(out, user);
            text_line(out, gift);
            out.push_str(message.as_deref().unwrap_or(""));
        }
        None => {
            gift.user.push_json(out);
            out.push('\n');
            gift.gift.push_json(out);
            out.push('\n');
            if let Some(message) = &gift.message {
                push_string(out, message);
            }
        }
    }
    out.push('\n');
    if let Some(tier) = gift.tier {
        out.push(char::from(b'0' + tier));
    }
    out.push(' ');
    out.push_str(gift.meta.as_deref().unwrap_or(""));
    out.push('\n');
}

/// Appends `change`: a line with `seq prev tag kind`, then what the kind needs.
pub fn push_change(out: &mut String, change: &Change) {
    let Change { seq, prev, tag, op, .. } = change;
    for number in [*seq, *prev] {
        push_number(out, number as i64);
        out.push(' ');
    }
    match i64::try_from(*tag) {
        Ok(tag) => push_number(out, tag),
        Err(_) => drop(write!(out, "{tag}")),
    }
    out.push(' ');
    match op {
        Op::Add(row) => {
            out.push_str("add\n");
            push_row(out, row);
        }
        Op::Update(row) => {
            out.push_str("update\n");
            push_row(out, row);
        }
        Op::Remove { row, reason } => {
            let _ = writeln!(out, "{} {row}", reason.as_str());
        }
        Op::Drop(view) => {
            out.push_str("drop\n");
            push_drop(out, view);
        }
        Op::Control(Control { action, row }) => {
            let row = row.as_ref().map_or("-", RowId::as_str);
            let _ = writeln!(out, "control {} {row}", action.as_str());
        }
        Op::Totals(periods) => {
            let _ = writeln!(out, "totals {}", periods.len());
            for (period, view) in periods {
                push_period(out, *period, view.as_deref());
            }
        }
        Op::Goal(goal, view) => {
            out.push_str("goal\n");
            push_goal(out, goal, view.as_deref());
        }
        Op::Reset => out.push_str("reset\n"),
    }
}

/// Appends `view`: two lines.
pub fn push_drop(out: &mut String, view: &DropView) {
    let DropView { drop, phase, spec, free, held, sold } = view;
    let phase = phase.as_str();
    line(out, format_args!("{drop} {phase} {free} {held} {sold} {}", SpecNumbers(spec)));
    line(out, &spec.gift);
}

/// `total per_user hold_ttl max_holds opens|- closes|-`.
pub struct SpecNumbers<'a>(pub &'a DropSpec);

impl Display for SpecNumbers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DropSpec { total, per_user, hold_ttl_ms, max_holds_per_user, opens_at, closes_at, .. } = self.0;
        write!(f, "{total} {per_user} {hold_ttl_ms} {max_holds_per_user}")?;
        for at in [opens_at, closes_at] {
            match at {
                Some(at) => write!(f, " {}", at.0)?,
                None => f.write_str(" -")?,
            }
        }
        Ok(())
    }
}

fn push_value(out: &mut String, value: &Value) {
    push_number(out, value.amount as i64);
    out.push(' ');
    text_line(out, &value.currency);
}

fn text_line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn line(out: &mut String, value: impl Display) {
    let _ = writeln!(out, "{value}");
}

/// Reads records back. Every method gives none when the text is not a record of that kind.
pub struct Records<'a> {
    lines: Split<'a, char>,
}

impl<'a> Records<'a> {
    /// Over a text of records.
    pub fn new(text: &'a str) -> Self {
        Records { lines: text.split('\n') }
    }

    /// Every record of a text that holds nothing else: none when anything of it is not read by `read`, so that
    /// what is damaged is never just shorter.
    pub fn all<T>(text: &'a str, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut records = Records::new(text);
        let mut found = Vec::new();
        while !records.is_at_end() {
            found.push(read(&mut records)?);
        }
        Some(found)
    }

    fn is_at_end(&self) -> bool {
        let mut rest = self.lines.clone();
        matches!((rest.next(), rest.next()), (None | Some(""), None))
    }

    /// The next row.
    pub fn row(&mut self) -> Option<Row> {
        let id: RowId = self.read()?;
        let (rev, seq) = (self.read()?, self.read()?);
        let (at, updated_at) = (Millis(self.read()?), Millis(self.read()?));
        let expires_at = Some(self.read()?).filter(|at| *at != 0).map(Millis);
        let count = self.read()?;
        let value = match self.lines.next()? {
            "" => None,
            text => {
                let (amount, currency) = text.split_once(' ')?;
                Some(Value { amount: amount.parse().ok()?, currency: currency.to_owned() })
            }
        };
        let (key, mark) = (self.lines.next()?, self.lines.next()?);
        let combo = mark.split_once(' ').map(|(ended, id)| RowCombo {
            key: key.into(),
            id: id.into(),
            ended: ended == "1",
        });
        let mut marks = self.lines.next()?.splitn(3, ' ');
        let test = marks.next()? == "1";
        let drop = match (marks.next(), marks.next()) {
            (Some(left), Some(drop)) => Some(RowDrop { drop: drop.parse().ok()?, left: left.parse().ok()? }),
            _ => None,
        };
        let (user, gift) = (self.lines.next()?.into(), self.lines.next()?.into());
        let message = text(self.lines.next()?);
        let (tier, meta) = self.lines.next()?.split_once(' ')?;
        let tier = if tier.is_empty() { None } else { Some(tier.parse().ok()?) };
        Some(Row {
            id,
            rev,
            seq,
            at,
            updated_at,
            expires_at,
            count,
            value,
            combo,
            drop,
            test,
            user,
            gift,
            message,
            tier,
            meta: text(meta),
        })
    }

    /// The next change, which belongs to `epoch`.
    pub fn change(&mut self, epoch: &Epoch) -> Option<Change> {
        let mut head = self.lines.next()?.split(' ');
        let seq: u64 = head.next()?.parse().ok()?;
        let prev: Tag = head.next()?.parse().ok()?;
        let tag: Tag = head.next()?.parse().ok()?;
        let remove = |row: Option<&str>, reason| Some(Op::Remove { row: row?.parse().ok()?, reason });
        let op = match head.next()? {
            "add" => Op::Add(Arc::new(self.row()?)),
            "update" => Op::Update(Arc::new(self.row()?)),
            "retracted" => remove(head.next(), RemoveReason::Retracted)?,
            "expired" => remove(head.next(), RemoveReason::Expired)?,
            "drop" => Op::Drop(Arc::new(self.drop()?)),
            "control" => {
                let action = Action::of(head.next()?)?;
                let row = match head.next()? {
                    "-" => None,
                    row => Some(row.parse().ok()?),
                };
                Op::Control(Control { action, row })
            }
            "totals" => {
                let count: usize = head.next()?.parse().ok()?;
                Op::Totals((0..count).map(|_| self.period()).collect::<Option<_>>()?)
            }
            "goal" => {
                let (goal, view) = self.goal()?;
                Op::Goal(goal, view.map(Arc::new))
            }
            "reset" => Op::Reset,
            _ => return None,
        };
        Some(Change { epoch: epoch.clone(), seq, prev, tag, op })
    }

    /// The next drop.
    pub fn drop(&mut self) -> Option<DropView> {
        let mut head = self.lines.next()?.split(' ');
        let (drop, phase) = (head.next()?.parse().ok()?, head.next()?.parse().ok()?);
        let mut count = || head.next()?.parse().ok();
        let (free, held, sold) = (count()?, count()?, count()?);
        let (total, per_user, hold_ttl_ms, max_holds_per_user) = (count()?, count()?, count()?, count()?);
        let mut time = || match head.next()? {
            "-" => Some(None),
            at => Some(Some(Millis(at.parse().ok()?))),
        };
        let (opens_at, closes_at) = (time()?, time()?);
        let gift = self.lines.next()?.into();
        let spec = DropSpec { gift, total, per_user, hold_ttl_ms, max_holds_per_user, opens_at, closes_at };
        Some(DropView { drop, phase, spec, free, held, sold })
    }

    fn read<T: FromStr>(&mut self) -> Option<T> {
        self.lines.next()?.parse().ok()
    }
}

fn text(line: &str) -> Option<Arc<str>> {
    (!line.is_empty()).then(|| line.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(at: Option<Millis>) -> DropView {
        let spec = DropSpec {
            gift: "{\"id\":\"r\",\"name\":\"a b\"}".into(),
            total: 1_000_000_000,
            per_user: 2,
            hold_ttl_ms: 1,
            max_holds_per_user: 3,
            opens_at: at,
            closes_at: at,
        };
        let phase = crate::domain::Phase::SoldOut;
        DropView { drop: "r-1".parse().unwrap(), phase, spec, free: 0, held: 1, sold: 999_999_999 }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let full = Row {
            id: "e-3".parse().unwrap(),
            rev: 2,
            seq: 3,
            at: Millis(5),
            updated_at: Millis(6),
            expires_at: Some(Millis(9)),
            count: crate::domain::MAX_SAFE,
            value: Some(Value { amount: 7, currency: "EUR".into() }),
            combo: Some(RowCombo { key: "[\"a b\"]".into(), id: "\"c d\"".into(), ended: true }),
            drop: Some(RowDrop { drop: "rocket".parse().unwrap(), left: 36 }),
            test: true,
            user: "{\"id\":\"a\\n\"}".into(),
            gift: "{\"id\":\"g\"}".into(),
            message: Some("\"\"".into()),
            tier: Some(0),
            meta: Some("{\"a b\":1}".into()),
        };
        let bare = Row {
            expires_at: None,
            value: None,
            combo: None,
            drop: None,
            message: None,
            tier: None,
            meta: None,
            ..full.clone()
        };
        let epoch: Epoch = "e".parse().unwrap();
        let reason = RemoveReason::Expired;
        let ops = [
            Op::Add(Arc::new(full)),
            Op::Update(Arc::new(bare)),
            Op::Remove { row: "e-3".parse().unwrap(), reason },
            Op::Drop(Arc::new(told(None))),
            Op::Drop(Arc::new(told(Some(Millis(7))))),
            Op::Control(Control { action: Action::Pause, row: None }),
            Op::Control(Control { action: Action::Replay, row: "e-3".parse().ok() }),
            Op::Reset,
        ];
        let changes: Vec<Change> = (1..)
            .zip(ops)
            .map(|(seq, op)| Change { epoch: epoch.clone(), seq, prev: seq - 1, tag: seq, op })
            .collect();
        let mut text = String::new();
        changes.iter().for_each(|change| push_change(&mut text, change));
        let mut records = Records::new(&text);
        let back: Vec<Change> = std::iter::from_fn(|| records.change(&epoch)).collect();
        assert_eq!(back, changes);
    }
}
