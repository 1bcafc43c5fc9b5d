//! The changes of a feed: what watchers fold to have the server's list.

use std::fmt::Write;
use std::sync::Arc;

use super::tally::goal::GoalView;
use super::tally::period::Period;
use super::tally::view::PeriodView;
use super::{Control, DropView, Epoch, GoalId, Row, RowId};

/// A random mark that one writing call leaves on its changes. A change names the mark of the one
/// before it, so a history that forked (a store that went back and moved on) shows at the fork.
pub type Tag = u64;

/// Change number `seq` of one life of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The life of the numbering.
    pub epoch: Epoch,
    /// 1, 2, 3 … without holes.
    pub seq: u64,
    /// The mark of the change before; 0 before the first.
    pub prev: Tag,
    /// This change's own mark.
    pub tag: Tag,
    /// What happened.
    pub op: Op,
}

/// What one change does to the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new row in front; what exceeds the capacity falls off the end.
    Add(Arc<Row>),
    /// The row of the same id is replaced in its place.
    Update(Arc<Row>),
    /// A row leaves the list.
    Remove {
        /// The row's id.
        row: RowId,
        /// What took it out.
        reason: RemoveReason,
    },
    /// A drop opened, sold out, closed, is announced in advance, or changed; this is its state.
    Drop(Arc<DropView>),
    /// The host sends overlays a command.
    Control(Control),
    /// Periods whose totals or leaders changed, as they stand; none for one that is not counted any more.
    Totals(Vec<(Period, Option<Arc<PeriodView>>)>),
    /// The state of a goal; `None` if it was deleted.
    Goal(GoalId, Option<Arc<GoalView>>),
    /// The list is another now (the capacity changed). Watchers get a snapshot; positions before
    /// this change are no longer covered.
    Reset,
}

/// Why a row left the list before newer ones pushed it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveReason {
    /// Somebody took it back.
    Retracted,
    /// Its time had passed.
    Expired,
}

impl RemoveReason {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            RemoveReason::Retracted => "retracted",
            RemoveReason::Expired => "expired",
        }
    }
}

impl Change {
    /// Appends the op as a delta's `ops` have it. A reset has no op: watchers get a snapshot.
    pub fn push_json(&self, out: &mut String) {
        let seq = self.seq;
        match &self.op {
            Op::Add(row) => {
                let _ = write!(out, "{{\"op\":\"add\",\"seq\":{seq},\"row\":");
                row.push_json(out);
            }
            Op::Update(row) => {
                let _ = write!(out, "{{\"op\":\"update\",\"seq\":{seq},\"row\":");
                row.push_json(out);
            }
            Op::Remove { row, reason } => {
                let _ = write!(out, "{{\"op\":\"remove\",\"seq\":{seq},\"row\":\"{row}\"");
                let _ = write!(out, ",\"reason\":\"{}\"", reason.as_str());
            }
            Op::Drop(view) => {
                let _ = write!(out, "{{\"op\":\"drop\",\"seq\":{seq},\"drop\":");
                view.push_json(out);
            }
            Op::Control(Control { action, row }) => {
                let _ = write!(out, "{{\"op\":\"control\",\"seq\":{seq},\"action\":\"{}\"", action.as_str());
                if let Some(row) = row {
                    let _ = write!(out, ",\"row\":\"{row}\"");
                }
            }
            Op::Totals(periods) => {
                let _ = write!(out, "{{\"op\":\"totals\",\"seq\":{seq},\"totals\":{{");
                for (n, (period, view)) in periods.iter().enumerate() {
                    let _ = write!(out, "{}\"{period}\":", if n > 0 { "," } else { "" });
                    match view {
                        Some(view) => view.push_json(out, true),
                        None => out.push_str("null"),
                    }
                }
                out.push('}');
            }
            Op::Goal(goal, view) => {
                let _ = write!(out, "{{\"op\":\"goal\",\"seq\":{seq},\"goal\":");
                match view {
                    Some(view) => view.push_json(out),
                    None => {
                        let _ = write!(out, "{{\"goal\":\"{goal}\",\"deleted\":true}}");
                    }
                }
            }
            Op::Reset => {
                let _ = write!(out, "{{\"op\":\"reset\",\"seq\":{seq}");
            }
        }
        out.push('}');
    }
}

/// Appends the op in a delta's `ops` that only counts: for a watcher who leaves the one of this seq out.
pub fn push_none(out: &mut String, seq: u64) {
    let _ = write!(out, "{{\"op\":\"none\",\"seq\":{seq}}}");
}
