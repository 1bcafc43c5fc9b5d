//! Drops, totals and goals as lines of text: how engines store what was announced of them.
//!
//! JSON fragments hold no raw control character and names keep to their alphabets, so no field can hold a line break.

use std::fmt::{Display, Write};
use std::str::Split;

use crate::domain::{DropSpec, DropView, Millis};

mod tally;

pub use tally::push_goal;

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
}
