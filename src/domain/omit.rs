//! What a watcher leaves out of a feed.

use std::str::FromStr;

use super::Op;

/// What a watcher asked to be left out. Its seqs go on all the same: in the place of an op that it leaves out it gets
/// [`push_none`](super::change::push_none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Omit {
    /// Nothing is left out.
    #[default]
    Nothing,
    /// Of no totals, leaders and goals.
    Totals,
}

impl Omit {
    /// True if such a watcher does not get `op`.
    pub fn leaves_out(self, op: &Op) -> bool {
        self == Omit::Totals && matches!(op, Op::Totals(_) | Op::Goal(..))
    }
}

impl FromStr for Omit {
    /// What is allowed, in words.
    type Err = &'static str;

    /// Reads the word of the protocol.
    fn from_str(word: &str) -> Result<Omit, &'static str> {
        match word {
            "totals" => Ok(Omit::Totals),
            _ => Err("must be totals"),
        }
    }
}
