//! The oracle's moderation: who gave what to which row is kept, and a row that lost a gift is added up anew.

use std::collections::BTreeMap;

use serde_json::json;
use tipcast::domain::{
    Action, Control, Decision, Delta, EntryStatus, FeedId, Gift, GiftId, GiftTakenBack, Millis, Op, Policy,
    Position, RemoveReason, Row, RowId, Value,
};
use tipcast::engine::{Count, Presence, Unscheduled};

use super::{Feed, Known, Model};

/// What a gift brought to a row, and what was given with it.
#[derive(Clone, Debug)]
pub(super) struct Brought {
    row: Option<RowId>,
    units: u64,
    money: Option<Value>,
    pub(super) given: Delta,
    test: bool,
    taken_back: bool,
}

/// The largest that frames of a combo said, until when.
#[derive(Debug)]
pub(super) struct Combo {
    until: Millis,
    count: i64,
    money: BTreeMap<String, i64>,
}

impl Feed {
    fn given(&mut self, gift: &Gift, policy: &Policy, now: Millis) -> Delta {
        let value = gift.value.as_ref().map(|it| (it.amount as i64, it.currency.clone()));
        let (Some(key), Some(mark)) = (tipcast::domain::row::combo_key(gift), &gift.combo) else {
            return Delta { count: gift.count as i64, value };
        };
        self.grown.retain(|_, combo| now < combo.until);
        let until = now.plus(policy.idempotency_window_ms);
        let combo = self.grown.entry(key).or_insert(Combo { until, count: 0, money: BTreeMap::new() });
        combo.until = until;
        let grow = |known: &mut i64, is: i64| {
            let was = *known;
            *known = was.max(is);
            *known - was
        };
        let count = grow(&mut combo.count, i64::from(mark.count).max(1));
        let value = value.map(|(amount, currency)| {
            (grow(combo.money.entry(currency.clone()).or_default(), amount), currency)
        });
        Delta { count, value }
    }

    /// Notes what `gift` made of its row, which was `before`.
    pub(super) fn note(
        &mut self,
        gift: &Gift,
        row: &RowId,
        before: Option<&Row>,
        policy: &Policy,
        now: Millis,
    ) {
        let ended = before.and_then(|row| row.combo.as_ref()).is_some_and(|combo| combo.ended);
        let given = if ended { Delta::default() } else { self.given(gift, policy, now) };
        let after = self.rows.iter().find(|known| known.id == *row).cloned();
        let amount = |row: Option<&Row>| row.and_then(|row| row.value.clone());
        let (units, money) = match &after {
            Some(after) => {
                let (was, is) = (amount(before), amount(Some(after)));
                let grown = match (was, is) {
                    (Some(was), Some(is)) if is.amount == was.amount => None,
                    (Some(was), Some(is)) => Some(Value { amount: is.amount - was.amount, ..is }),
                    (_, is) => is,
                };
                (after.count - before.map_or(0, |row| row.count), grown)
            }
            None => (0, None),
        };
        let (row, test) = (Some(row.clone()), gift.test);
        let brought = Brought { row, units, money, given, test, taken_back: false };
        self.brought.insert(gift.id.clone(), brought);
    }

    /// Notes a gift that no row shows.
    pub(super) fn note_nothing(&mut self, gift: &Gift, policy: &Policy, now: Millis) {
        let (given, test) = (self.given(gift, policy, now), gift.test);
        let brought = Brought { row: None, units: 0, money: None, given, test, taken_back: false };
        self.brought.insert(gift.id.clone(), brought);
    }

    fn remove_row(&mut self, at: usize, policy: &Policy) {
        let row = self.rows.remove(at).id.clone();
        self.record(Op::Remove { row, reason: RemoveReason::Retracted }, policy);
    }

    fn retract_gift(&mut self, id: &GiftId, policy: &Policy, now: Millis) -> GiftTakenBack {
        match self.ids.get(id) {
            Some((_, Known::Waits(_), _)) => {
                return match self.unschedule(id, policy, now) {
                    Unscheduled::Cancelled(_) => GiftTakenBack::Done,
                    _ => GiftTakenBack::Unknown,
                };
            }
            Some((_, Known::InReview, _)) => {
                self.decide(id, Decision::Deny, policy, now);
                return match self.decided[id] {
                    Decision::Deny => GiftTakenBack::Done,
                    _ => self.retract_gift(id, policy, now),
                };
            }
            Some((_, Known::Cancelled(_), until)) if now < *until => return GiftTakenBack::Done,
            Some((_, Known::Taken(_), until)) if now < *until => {}
            _ => return GiftTakenBack::Unknown,
        }
        let brought = self.brought.get_mut(id).unwrap();
        if std::mem::replace(&mut brought.taken_back, true) {
            return GiftTakenBack::Done;
        }
        let brought = brought.clone();
        self.sweep(policy, now);
        let found = self.rows.iter().position(|row| Some(&row.id) == brought.row.as_ref());
        let shown = found.map(|at| self.rows[at].clone());
        let nothing = brought.units == 0 && brought.money.as_ref().is_none_or(|money| money.amount == 0);
        let seq = found.filter(|_| !nothing).map(|at| {
            let old = self.rows[at].clone();
            if old.count == brought.units {
                self.remove_row(at, policy);
                return self.at.seq;
            }
            let mut row = (*old).clone();
            row.count -= brought.units;
            if let (Some(mine), Some(gone)) = (old.value.clone(), &brought.money) {
                let amount = mine.amount - gone.amount;
                row.value = Some(Value { amount, ..mine }).filter(|_| amount > 0 || gone.amount == 0);
            }
            row.rev += 1;
            row.updated_at = now;
            self.rows[at] = row.into();
            self.record(Op::Update(self.rows[at].clone()), policy);
            self.at.seq
        });
        let given = brought.given;
        if !brought.test && (given.count != 0 || given.value.as_ref().is_some_and(|(amount, _)| *amount != 0))
        {
            let mut event = json!({"id": id.to_string()});
            if let Some(row) = shown {
                event["user"] = serde_json::from_str(&row.user).unwrap();
                event["gift"] = serde_json::from_str(&row.gift).unwrap();
            }
            self.enter((EntryStatus::Retracted, seq), brought.row, event, given.negative(), now);
        }
        GiftTakenBack::Done
    }
}

impl Model {
    pub(crate) fn control(&self, feed: &FeedId, control: Control, now: Millis) -> Option<Position> {
        self.on(feed, |f, policy| {
            f.sweep(&policy, now);
            let was = f.controls;
            match control.action {
                Action::Pause => f.controls.paused = true,
                Action::Resume => f.controls.paused = false,
                Action::Mute => f.controls.muted = true,
                Action::Unmute => f.controls.muted = false,
                Action::Skip => {}
                Action::Replay if f.rows.iter().any(|row| Some(&row.id) == control.row.as_ref()) => {}
                Action::Replay => return None,
            }
            if f.controls != was || matches!(control.action, Action::Skip | Action::Replay) {
                f.begin();
                f.record(Op::Control(control), &policy);
            }
            Some(f.at.clone())
        })
    }

    pub(crate) fn retract_user(&self, feed: &FeedId, user: &str, now: Millis) -> u64 {
        self.on(feed, |f, policy| {
            f.sweep(&policy, now);
            let is_theirs = |row: &Row| {
                let parsed: serde_json::Value = serde_json::from_str(&row.user).unwrap();
                parsed["id"] == user
            };
            let mut removed = 0;
            while let Some(at) = f.rows.iter().rposition(|row| is_theirs(row)) {
                f.remove_row(at, &policy);
                removed += 1;
            }
            removed
        })
    }

    pub(crate) fn retract_gift(&self, feed: &FeedId, id: &GiftId, now: Millis) -> GiftTakenBack {
        self.on(feed, |f, policy| f.retract_gift(id, &policy, now))
    }
}

impl Model {
    pub(crate) fn attend(&self, node: &str, counts: &[(FeedId, Count)]) -> bool {
        let mut told = self.told.lock().unwrap();
        for (feed, count) in counts {
            told.insert((feed.clone(), node.to_owned()), *count);
        }
        true
    }

    pub(crate) fn presence(&self, feeds: &[FeedId]) -> Vec<Presence> {
        let told = self.told.lock().unwrap();
        let of = |feed: &FeedId| {
            let here: Vec<Count> = told
                .iter()
                .filter(|((name, _), count)| name == feed && count.watchers > 0)
                .map(|(_, count)| *count)
                .collect();
            Presence {
                watchers: here.iter().map(|count| count.watchers).sum(),
                overlays: here.iter().map(|count| count.overlays).sum(),
                nodes: here.len() as u64,
            }
        };
        feeds.iter().map(of).collect()
    }
}
