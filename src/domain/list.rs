//! The list of a feed, and the one way in which changes move it. A store that reads its history back and a
//! node that follows a feed both fold by this; watchers do the same in their own languages.
//! `docs/protocol/vectors` holds all of them together.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use super::drop::push_drops;
use super::tally::goal::GoalView;
use super::tally::view::{TotalsView, push_told};
use super::{Change, Controls, Drops, Epoch, GoalId, Omit, Op, Position, Row};

/// A feed's goals as they were announced, by name.
pub type Goals = BTreeMap<GoalId, Arc<GoalView>>;

/// The rows of a feed at one position, and what else was announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedList {
    /// The last change that was folded.
    pub at: Position,
    /// Newest first.
    pub rows: VecDeque<Arc<Row>>,
    /// The feed's drops as they were announced.
    pub drops: Drops,
    /// Whether overlays are paused or muted.
    pub controls: Controls,
    /// Totals and leaders as they were announced.
    pub totals: TotalsView,
    /// Goals as they were announced.
    pub goals: Goals,
}

/// Why a change cannot be folded. The list is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotFold {
    /// It is not the change after the list's position: something was missed, or comes again.
    NotNext,
    /// It is the next one, but about a row that the list lacks, or it adds one that the list has: this is
    /// not the list that the change was made for.
    Misfit,
}

impl fmt::Display for CannotFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CannotFold::NotNext => "a change does not follow the one before it",
            CannotFold::Misfit => "a change does not fit the list it was made for",
        })
    }
}

impl std::error::Error for CannotFold {}

impl Default for FeedList {
    /// That of a feed to which nobody wrote.
    fn default() -> FeedList {
        FeedList {
            at: Position::start(),
            rows: VecDeque::new(),
            drops: Drops::new(),
            controls: Controls::default(),
            totals: TotalsView::new(),
            goals: Goals::new(),
        }
    }
}

impl FeedList {
    /// Folds the next change. `capacity`, in rows, is the one in force with the change.
    ///
    /// A feed's first change (seq 1 of a new epoch) follows the list of a feed to which nobody wrote.
    pub fn fold(&mut self, change: &Change, capacity: u64) -> Result<(), CannotFold> {
        if !self.leads_to(&change.epoch, change.seq) {
            return Err(CannotFold::NotNext);
        }
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        let place = |row: &Row| self.rows.iter().position(|known| known.id == row.id);
        match &change.op {
            Op::Add(row) => {
                if place(row).is_some() {
                    return Err(CannotFold::Misfit);
                }
                self.rows.push_front(row.clone());
                self.rows.truncate(capacity);
            }
            Op::Update(row) => {
                let at = place(row).ok_or(CannotFold::Misfit)?;
                self.rows[at] = row.clone();
            }
            Op::Remove { row, .. } => {
                let at = self.rows.iter().position(|known| known.id == *row);
                self.rows.remove(at.ok_or(CannotFold::Misfit)?);
            }
            Op::Drop(view) => drop(self.drops.insert(view.drop.clone(), view.clone())),
            Op::Control(control) => self.controls = self.controls.after(control.action),
            Op::Totals(periods) => {
                for (period, view) in periods {
                    match view {
                        Some(view) => drop(self.totals.insert(*period, view.clone())),
                        None => drop(self.totals.remove(period)),
                    }
                }
            }
            Op::Goal(goal, view) => match view {
                Some(view) => drop(self.goals.insert(goal.clone(), view.clone())),
                None => drop(self.goals.remove(goal)),
            },
            Op::Reset => self.rows.truncate(capacity),
        }
        self.at = Position { epoch: change.epoch.clone(), seq: change.seq };
        Ok(())
    }

    /// Appends what a snapshot for a watcher that leaves `omit` out has beside the rows, each member with a
    /// comma in front.
    pub fn push_beside(&self, out: &mut String, omit: Omit) {
        push_drops(out, self.drops.values());
        self.controls.push_json(out);
        if omit != Omit::Totals {
            push_told(out, &self.totals, &self.goals);
        }
    }

    /// What of `omit` there is to leave out of a snapshot: nothing, where nothing of it is in the list.
    pub fn omits(&self, omit: Omit) -> Omit {
        match self.totals.is_empty() && self.goals.is_empty() {
            true => Omit::Nothing,
            false => omit,
        }
    }

    /// True when the change `seq` of `epoch` is the one after this list.
    pub fn leads_to(&self, epoch: &Epoch, seq: u64) -> bool {
        let begins = self.at.epoch.is_none() && !epoch.is_none();
        (begins || *epoch == self.at.epoch) && seq == self.at.seq + 1
    }
}

#[cfg(test)]
mod tests;
