//! Rows and changes as lines of text: how engines store them.
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

mod tally;

pub use tally::push_goal;

/// Appends nine of the lines of a row: those that `gift` gives the row it starts, whose combo has `key`; of a combo with the
/// count as it came, which may be 0.
pub fn push_body(out: &mut String, gift: &Gift, key: &str) {
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
    gift.user.push_json(out);
    out.push('\n');
    gift.gift.push_json(out);
    out.push('\n');
    if let Some(message) = &gift.message {
        push_string(out, message);
    }
    out.push('\n');
    if let Some(tier) = gift.tier {
        out.push(char::from(b'0' + tier));
    }
    out.push(' ');
    out.push_str(gift.meta.as_deref().unwrap_or(""));
    out.push('\n');
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
