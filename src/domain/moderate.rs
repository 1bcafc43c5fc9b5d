//! What a host does to a feed while a show runs: alerts are paused or muted, rows and gifts are taken back.

use super::feed::Effects;
use super::json::push_string;
use super::{Action, Added, Control, FeedState, Millis, Op, Policy, RemoveReason, Row, RowId, Value};

/// What became of the wish to take one gift back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GiftTakenBack {
    /// It is taken back, now or before; or it waited, and is cancelled.
    Done,
    /// Its id is not, or no longer, remembered.
    Unknown,
}

/// How a row's `user` begins for this user id: names are cleaned and pictures change, ids stay.
pub fn user_prefix(user: &str) -> String {
    let mut out = String::from("{\"id\":");
    push_string(&mut out, user);
    out.push(',');
    out
}

impl FeedState {
    /// Tells overlays what to do. False for the replay of a row that is not in the list; an action that
    /// changes nothing makes no change.
    pub fn control(
        &mut self,
        control: &Control,
        policy: &Policy,
        now: Millis,
        effects: &mut Effects,
    ) -> bool {
        self.sweep(policy, now, effects);
        let Control { action, row } = control;
        let listed = |row: &RowId| self.list.rows.iter().any(|known| known.id == *row);
        if *action == Action::Replay && !row.as_ref().is_some_and(listed) {
            return false;
        }
        let controls = self.list.controls.after(*action);
        if controls != self.list.controls || matches!(action, Action::Skip | Action::Replay) {
            self.begin();
            self.list.controls = controls;
            self.record(Op::Control(control.clone()), policy, effects);
        }
        true
    }

    /// Takes every row of a user back, the oldest first. How many.
    pub fn retract_user(&mut self, user: &str, policy: &Policy, now: Millis, effects: &mut Effects) -> u64 {
        self.sweep(policy, now, effects);
        let prefix = user_prefix(user);
        let rows: Vec<RowId> = self
            .list
            .rows
            .iter()
            .rev()
            .filter(|row| row.user.starts_with(&prefix))
            .map(|row| row.id.clone())
            .collect();
        rows.iter().filter(|row| self.retract(row, policy, now, effects)).count() as u64
    }

    /// Takes out of a row what one gift had added to it; a row of which nothing is left goes. Its time is not
    /// renewed. False when the list did not change.
    pub fn take_part(
        &mut self,
        row: &RowId,
        part: &Added,
        policy: &Policy,
        now: Millis,
        effects: &mut Effects,
    ) -> bool {
        self.sweep(policy, now, effects);
        let nothing = part.units == 0 && part.value.as_ref().is_none_or(|value| value.amount == 0);
        let Some(at) = self.list.rows.iter().position(|known| known.id == *row).filter(|_| !nothing) else {
            return false;
        };
        let row = self.list.rows[at].without(part, now);
        if row.count == 0 {
            self.list.rows.remove(at);
            let reason = RemoveReason::Retracted;
            self.record(Op::Remove { row: row.id, reason }, policy, effects);
        } else {
            self.replace(at, row, policy, effects);
        }
        true
    }
}

impl Row {
    /// This row without what a gift had added. Money of which nothing is left is not shown as nothing.
    fn without(&self, part: &Added, now: Millis) -> Row {
        let mut row = self.clone();
        row.count = row.count.saturating_sub(part.units);
        if let (Some(mine), Some(gone)) = (&self.value, &part.value) {
            let amount = mine.amount.saturating_sub(gone.amount);
            row.value =
                (amount > 0 || gone.amount == 0).then(|| Value { amount, currency: mine.currency.clone() });
        }
        row.rev += 1;
        row.updated_at = now;
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Gift, json};
    use proptest::prelude::*;

    fn gift(n: usize, count: u64, money: Option<u64>, combo: Option<u32>) -> Gift {
        let value = money.map_or(String::new(), |amount| {
            format!(",\"value\":{{\"amount\":{amount},\"currency\":\"EUR\"}}")
        });
        let combo =
            combo.map_or(String::new(), |count| format!(",\"combo\":{{\"id\":\"c\",\"count\":{count}}}"));
        let body = format!(
            "{{\"id\":\"g{n}\",\"user\":{{\"id\":\"u\",\"name\":\"u\"}},\"gift\":{{\"id\":\"g\",\"name\":\"g\"}},\"count\":{count}{value}{combo}}}"
        );
        Gift::parse(json::syntax(body.as_bytes()).unwrap(), None).unwrap()
    }

    proptest! {
        /// In whatever order gifts of one row are taken back, it shows what is left, and goes with the last.
        #[test]
        fn what_is_left_of_a_row_is_what_was_not_taken_back(
            gifts in prop::collection::vec((1..1_000_000u64, prop::option::of(0..=crate::domain::MAX_SAFE)), 1..12),
            frames in any::<bool>(),
            order in any::<u64>(),
        ) {
            let (policy, now, mut feed) = (Policy::default(), Millis(5), FeedState::default());
            let mut parts = vec![];
            let mut run = 0u32;
            for (n, (count, money)) in gifts.iter().enumerate() {
                run += (*count % 7) as u32;
                let mut effects = Effects::default();
                let gift = gift(n, *count, *money, frames.then_some(run));
                let answer = feed.publish(&gift, &policy, now, &mut effects);
                parts.push((answer.row.unwrap(), effects.part.unwrap()));
            }
            let whole = feed.list.rows[0].clone();
            prop_assert_eq!(parts.iter().map(|(_, part)| part.units).sum::<u64>(), whole.count);
            let money = |parts: &[(RowId, Added)]| -> u64 { parts.iter().filter_map(|(_, p)| p.value.as_ref()).map(|v| v.amount).sum() };
            prop_assert_eq!(money(&parts), whole.value.as_ref().map_or(0, |v| v.amount));
            let mut turn = order as usize;
            while !parts.is_empty() {
                turn = turn.wrapping_mul(31).wrapping_add(7);
                let (row, part) = parts.remove(turn % parts.len());
                feed.take_part(&row, &part, &policy, now, &mut Effects::default());
                let left: u64 = parts.iter().map(|(_, part)| part.units).sum();
                prop_assert_eq!(feed.list.rows.front().map_or(0, |row| row.count), left);
                if left > 0 {
                    prop_assert_eq!(feed.list.rows[0].value.as_ref().map_or(0, |v| v.amount), money(&parts));
                }
            }
        }
    }
}
