use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;

use super::drops::{AnnouncedDrop, read_announced_drop};
use super::row::StoredRow;
use super::totals::{Periods, StoredGoal, StoredPeriods};
use crate::domain::tally::GoalView;
use crate::domain::{Action, Change, Control, DropView, Epoch, GoalId, Op, RemoveReason, RowId, Tag};

/// A change of a feed (`lua/feed/feed.lua`).
#[derive(Deserialize)]
struct StoredChange<'a> {
    seq: u64,
    prev: Tag,
    tag: Tag,
    op: StoredOp,
    #[serde(borrow)]
    row: Option<StoredRow<'a>>,
    id: Option<RowId>,
    #[serde(borrow)]
    drop: Option<AnnouncedDrop<'a>>,
    #[serde(borrow)]
    action: Option<Cow<'a, str>>,
    totals: Option<StoredPeriods>,
    goal: Option<StoredGoal>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredOp {
    Add,
    Update,
    Retracted,
    Expired,
    Drop,
    Control,
    Totals,
    Goal,
    Reset,
}

/// Reads a change, which belongs to `epoch`; `None` if the text is none.
pub fn read_change(epoch: &Epoch, text: &str) -> Option<Change> {
    let it: StoredChange = serde_json::from_str(text).ok()?;
    let op = match it.op {
        StoredOp::Add => Op::Add(Arc::new(it.row?.row()?)),
        StoredOp::Update => Op::Update(Arc::new(it.row?.row()?)),
        StoredOp::Retracted => Op::Remove { row: it.id?, reason: RemoveReason::Retracted },
        StoredOp::Expired => Op::Remove { row: it.id?, reason: RemoveReason::Expired },
        StoredOp::Drop => Op::Drop(Arc::new(it.drop?.view()?)),
        StoredOp::Control => Op::Control(Control { action: Action::of(&it.action?)?, row: it.id }),
        StoredOp::Totals => Op::Totals(it.totals?.views()?),
        StoredOp::Goal => {
            let (goal, view) = it.goal?.view()?;
            Op::Goal(goal, view.map(Arc::new))
        }
        StoredOp::Reset => Op::Reset,
    };
    Some(Change { epoch: epoch.clone(), seq: it.seq, prev: it.prev, tag: it.tag, op })
}

/// What was announced of a drop, of a period, or of a goal: what a snapshot has of it.
pub enum Announced {
    /// A drop.
    Drop(DropView),
    /// One period.
    Totals(Periods),
    /// A goal.
    Goal(GoalId, Option<GoalView>),
}

/// Reads an announcement; `None` if the text is none.
pub fn read_announced(text: &str) -> Option<Announced> {
    #[derive(Deserialize)]
    struct OfTotals {
        totals: Option<StoredPeriods>,
        goal: Option<StoredGoal>,
    }
    if text.starts_with("{\"drop\"") {
        return read_announced_drop(text).map(Announced::Drop);
    }
    let it: OfTotals = serde_json::from_str(text).ok()?;
    match it.totals {
        Some(totals) => totals.views().map(Announced::Totals),
        None => it.goal?.view().map(|(goal, view)| Announced::Goal(goal, view)),
    }
}

/// What one call published.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// The feed began a new epoch, or lost its list.
    pub lost: bool,
    /// In order.
    pub changes: Vec<Change>,
    /// The feed's policy is another now.
    pub new_policy: bool,
}

/// How a message begins.
#[derive(Deserialize)]
struct MessageHead {
    news: News,
    epoch: Epoch,
    #[serde(default)]
    policy: bool,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum News {
    Live,
    Lost,
}

/// Reads a message: a line that says what it is, and one for each change. `None` if the text is none.
pub fn read_message(text: &str) -> Option<Message> {
    let mut lines = text.split('\n');
    let head: MessageHead = serde_json::from_str(lines.next()?).ok()?;
    let changes = lines.map(|line| read_change(&head.epoch, line)).collect::<Option<_>>()?;
    Some(Message { lost: head.news == News::Lost, changes, new_policy: head.policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_line_by_line() {
        let row = r#"{"id":"e-1","rev":1,"seq":1,"at":5,"updated_at":5,"count":2,"amount":7,"currency":"EUR","message":"hi","meta":"3","test":true,"user":{"id":"u"},"gift":{"id":"g"}}"#;
        let add = format!(r#"{{"seq":1,"prev":0,"tag":9,"op":"add","row":{row}}}"#);
        let text = format!(
            "{{\"news\":\"lost\",\"epoch\":\"e\"}}\n{add}\n{}",
            r#"{"seq":2,"prev":9,"tag":9,"op":"expired","id":"e-1"}"#
        );
        let message = read_message(&text).unwrap();
        assert!(message.lost && !message.new_policy && message.changes.len() == 2);
        let Op::Add(row) = &message.changes[0].op else { panic!() };
        assert_eq!((row.count, row.message.as_deref(), row.meta.as_deref()), (2, Some("\"hi\""), Some("3")));
        assert_eq!((row.test, row.value.as_ref().unwrap().amount), (true, 7));
        assert_eq!(read_message("{\"news\":\"live\",\"epoch\":\"e\"}\nx"), None);
        assert!(read_message(r#"{"news":"live","epoch":"0","policy":true}"#).unwrap().new_policy);
    }
}
