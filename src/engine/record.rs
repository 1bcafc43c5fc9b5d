//! Totals and goals as lines of text: how engines store what was announced of them.
//!
//! JSON fragments hold no raw control character and names keep to their alphabets, so no field can hold a line break.

use std::fmt::{Display, Write};
use std::str::Split;

mod tally;

pub use tally::push_goal;

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
}
