//! A watcher's fold at the level of engine changes, strict.

use std::sync::Arc;

use tipcast::domain::list::Goals;
use tipcast::domain::tally::TotalsView;
use tipcast::domain::{
    Action, Change, Control, Controls, Drops, Op, Policy, Position, RemoveReason, Row, Tag,
};
use tipcast::engine::Snapshot;

/// What somebody has who folded every change so far.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Where it stands.
    pub at: Position,
    /// The mark of the last change.
    pub tag: Tag,
    /// How long the list may be.
    pub capacity: u64,
    /// Newest first.
    pub rows: Vec<Arc<Row>>,
    /// The newest state of the feed's drops.
    pub drops: Drops,
    /// What overlays were asked to do.
    pub controls: Controls,
    /// The newest totals and leaders.
    pub totals: TotalsView,
    /// The newest goals.
    pub goals: Goals,
}

impl Replica {
    /// From the server's list.
    pub fn of(snapshot: Snapshot) -> Self {
        let Snapshot {
            at, tag, policy: Policy { capacity, .. }, rows, drops, controls, totals, goals, ..
        } = snapshot;
        Replica { at, tag, capacity, rows, drops, controls, totals, goals }
    }

    /// Folds the next change; panics when it isn't the next one or makes no sense here.
    pub fn fold(&mut self, change: &Change) {
        let met = self.clone();
        let story = || format!("{change:#?}\n  met {met:#?}");
        if self.at == Position::start() {
            assert!(!change.epoch.is_none(), "a change has a real epoch: {}", story());
            self.at.epoch = change.epoch.clone();
        }
        assert_eq!(change.epoch, self.at.epoch, "a change of another epoch: {}", story());
        assert_eq!(change.seq, self.at.seq + 1, "a gap, a repeat or a reorder: {}", story());
        assert_eq!(change.prev, self.tag, "the mark of the change before: {}", story());
        match &change.op {
            Op::Add(row) => {
                assert_eq!((row.rev, row.seq), (1, change.seq), "a new row: {}", story());
                assert!(self.find(&row.id).is_none(), "a row that was there: {}", story());
                self.rows.insert(0, row.clone());
                self.rows.truncate(self.capacity as usize);
            }
            Op::Update(row) => {
                let at = self.find(&row.id).unwrap_or_else(|| panic!("an update of no row: {}", story()));
                let old = &self.rows[at];
                assert_eq!((row.rev, row.seq, row.at), (old.rev + 1, old.seq, old.at), "{}", story());
                self.rows[at] = row.clone();
            }
            Op::Remove { row, reason } => {
                let at = self.find(row).unwrap_or_else(|| panic!("a remove of no row: {}", story()));
                let old = self.rows.remove(at);
                assert!(*reason != RemoveReason::Expired || old.expires_at.is_some(), "{old:?}");
            }
            Op::Drop(view) => {
                assert_eq!(view.free + view.held + view.sold, view.spec.total, "{}", story());
                self.drops.insert(view.drop.clone(), view.clone());
            }
            Op::Control(Control { action, row }) => match action {
                Action::Pause => self.controls.paused = true,
                Action::Resume => self.controls.paused = false,
                Action::Mute => self.controls.muted = true,
                Action::Unmute => self.controls.muted = false,
                Action::Skip => {}
                Action::Replay => assert!(self.find(row.as_ref().unwrap()).is_some(), "{}", story()),
            },
            Op::Totals(periods) => {
                assert!(!periods.is_empty(), "{}", story());
                for (period, view) in periods {
                    self.totals.remove(period);
                    self.totals.extend(view.clone().map(|view| (*period, view)));
                }
            }
            Op::Goal(goal, view) => {
                self.goals.remove(goal);
                self.goals.extend(view.clone().map(|view| (goal.clone(), view)));
            }
            Op::Reset => self.rows.truncate(self.capacity as usize),
        }
        self.at.seq = change.seq;
        self.tag = change.tag;
    }

    /// Panics unless this is what the server has.
    pub fn assert_is(&self, snapshot: &Snapshot) {
        assert_eq!(self.at, snapshot.at, "the position");
        assert_eq!(self.rows, snapshot.rows, "the list at {}", self.at);
        assert_eq!(self.drops, snapshot.drops, "the drops at {}", self.at);
        assert_eq!(self.controls, snapshot.controls, "what overlays do at {}", self.at);
        assert_eq!(self.totals, snapshot.totals, "the totals at {}", self.at);
        assert_eq!(self.goals, snapshot.goals, "the goals at {}", self.at);
        assert_eq!(self.tag, snapshot.tag, "the mark at {}", self.at);
        assert_eq!(self.capacity, snapshot.policy.capacity, "the capacity");
    }

    fn find(&self, row: &tipcast::domain::RowId) -> Option<usize> {
        self.rows.iter().position(|known| known.id == *row)
    }
}
