//! The oracle's moderation: who gave what to which row is kept, and a row that lost a gift is added up anew.

use std::collections::BTreeMap;

use serde_json::json;
use tipcast::domain::moderate::{GiftRefunded, TakingBack};
use tipcast::domain::{
    Action, Control, Decision, Delta, DropId, EntryStatus, FeedId, Gift, GiftId, GiftTakenBack, Millis, Op,
    Policy, Position, RemoveReason, Row, RowId, Status, Value,
};
use tipcast::engine::{Count, Presence, Unscheduled};

use super::{Feed, Known, Model};

/// A gift or a sale of which a row was made.
#[derive(Clone, Debug)]
pub(super) enum Made {
    Gift(GiftId),
    Sale(DropId, serde_json::Value, Delta),
}

/// What a gift brought to a row, and what was given with it.
#[derive(Clone, Debug)]
pub(super) struct Brought {
    /// Its id, user and kind.
    who: serde_json::Value,
    row: Option<RowId>,
    units: u64,
    money: Option<Value>,
    /// What is left of what was given, and what was refunded.
    pub(super) given: Delta,
    refunded: u64,
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

fn who(gift: &Gift) -> serde_json::Value {
    let read = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
    json!({"id": gift.id.to_string(), "user": read(gift.user.to_json()), "gift": read(gift.gift.to_json())})
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
        (row, status): (&RowId, Status),
        before: Option<&Row>,
        policy: &Policy,
        now: Millis,
    ) {
        let ended = before.and_then(|row| row.combo.as_ref()).is_some_and(|combo| combo.ended);
        let given = match ended {
            true => Delta { count: 0, value: gift.value.as_ref().map(|it| (0, it.currency.clone())) },
            false => self.given(gift, policy, now),
        };
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
        if !gift.test && status != Status::Suppressed {
            self.made.entry(row.clone()).or_default().push(Made::Gift(gift.id.clone()));
        }
        let (row, test, who) = (Some(row.clone()), gift.test, who(gift));
        let brought = Brought { who, row, units, money, given, refunded: 0, test, taken_back: false };
        self.brought.insert(gift.id.clone(), brought);
    }

    /// Notes a gift that no row shows.
    pub(super) fn note_nothing(&mut self, gift: &Gift, policy: &Policy, now: Millis) {
        let (given, test, who) = (self.given(gift, policy, now), gift.test, who(gift));
        let brought =
            Brought { who, row: None, units: 0, money: None, given, refunded: 0, test, taken_back: false };
        self.brought.insert(gift.id.clone(), brought);
    }

    /// Takes a row back, and of each gift that made it what is left.
    pub(super) fn remove_row(&mut self, at: usize, policy: &Policy, now: Millis) {
        let row = self.rows.remove(at).id.clone();
        self.record(Op::Remove { row: row.clone(), reason: RemoveReason::Retracted }, policy);
        for made in self.made.remove(&row).unwrap_or_default() {
            match made {
                Made::Gift(id) => {
                    let brought = self.brought.get_mut(&id).unwrap();
                    if !std::mem::replace(&mut brought.taken_back, true) {
                        let (who, given) = (brought.who.clone(), brought.given.clone());
                        self.enter_back(Some(self.at.seq), Some(row.clone()), who, given, now);
                    }
                }
                Made::Sale(drop, who, given) => {
                    self.enter_back(Some(self.at.seq), Some(row.clone()), who, given, now);
                    self.ledger.entries.last_mut().unwrap().drop = Some(drop);
                }
            }
        }
    }

    /// Takes a sale back by its claim, with its row if that is shown.
    pub(super) fn retract_sale(&mut self, row: &RowId, reason: Option<&str>, policy: &Policy, now: Millis) {
        self.sweep(policy, now);
        let Some(Made::Sale(drop, who, given)) = self.made.remove(row).and_then(|mut made| made.pop()) else {
            return;
        };
        let seq = self.rows.iter().position(|shown| shown.id == *row).map(|at| {
            self.rows.remove(at);
            self.record(Op::Remove { row: row.clone(), reason: RemoveReason::Retracted }, policy);
            self.at.seq
        });
        let before = self.ledger.entries.len();
        self.enter_less((EntryStatus::Retracted, seq), Some(row.clone()), who, given, reason, now);
        self.ledger.entries[before..].iter_mut().for_each(|entry| entry.drop = Some(drop.clone()));
    }

    /// Takes a part of what a sale cost out of it, and of its row if that is shown.
    pub(super) fn refund_sale(
        &mut self,
        row: &RowId,
        lost: (i64, String),
        what: &TakingBack,
        policy: &Policy,
        now: Millis,
    ) {
        self.sweep(policy, now);
        let Some([Made::Sale(drop, who, given)]) = self.made.get_mut(row).map(|made| &mut made[..]) else {
            return;
        };
        if let Some((amount, _)) = &mut given.value {
            *amount -= lost.0;
        }
        let (drop, who) = (drop.clone(), who.clone());
        let seq = self.rows.iter().position(|shown| shown.id == *row).map(|at| {
            let mut shown = (*self.rows[at]).clone();
            shown.value.as_mut().unwrap().amount -= lost.0 as u64;
            shown.rev += 1;
            shown.updated_at = now;
            self.rows[at] = shown.into();
            self.record(Op::Update(self.rows[at].clone()), policy);
            self.at.seq
        });
        let less = Delta { count: 0, value: Some(lost) };
        let place = (EntryStatus::Refunded, seq);
        self.enter_less(place, Some(row.clone()), who, less, what.reason.as_deref(), now);
        self.ledger.entries.last_mut().unwrap().drop = Some(drop);
    }

    fn enter_back(
        &mut self,
        seq: Option<u64>,
        row: Option<RowId>,
        who: serde_json::Value,
        given: Delta,
        now: Millis,
    ) {
        self.enter_less((EntryStatus::Retracted, seq), row, who, given, None, now);
    }

    fn enter_less(
        &mut self,
        place: (EntryStatus, Option<u64>),
        row: Option<RowId>,
        who: serde_json::Value,
        given: Delta,
        reason: Option<&str>,
        now: Millis,
    ) {
        if given.count != 0 || given.value.as_ref().is_some_and(|(amount, _)| *amount != 0) {
            self.enter(place, row, who, given.negative(), now);
            let entry = self.ledger.entries.last_mut().unwrap();
            entry.reason = reason.map(|text| json!(text).to_string().into());
        }
    }

    fn retract_gift(
        &mut self,
        id: &GiftId,
        reason: Option<&str>,
        policy: &Policy,
        now: Millis,
    ) -> GiftTakenBack {
        match self.ids.get(id) {
            Some((_, Known::Waits(_), _)) => {
                return match self.unschedule(id, policy, now) {
                    Unscheduled::Cancelled(_) => GiftTakenBack::Done,
                    _ => GiftTakenBack::Unknown,
                };
            }
            Some((_, Known::InReview, _)) => {
                self.decide(id, Decision::Deny, policy, now);
                return self.retract_gift(id, reason, policy, now);
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
        let nothing = brought.units == 0 && brought.money.as_ref().is_none_or(|money| money.amount == 0);
        let seq = found.filter(|_| !nothing).map(|at| {
            let old = self.rows[at].clone();
            if old.count == brought.units {
                let row = self.rows.remove(at).id.clone();
                self.record(Op::Remove { row, reason: RemoveReason::Retracted }, policy);
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
        if !brought.test {
            let place = (EntryStatus::Retracted, seq);
            self.enter_less(place, brought.row, brought.who, brought.given, reason, now);
        }
        GiftTakenBack::Done
    }
}

impl Feed {
    fn refund_gift(
        &mut self,
        id: &GiftId,
        refunded: u64,
        reason: Option<String>,
        policy: &Policy,
        now: Millis,
    ) -> GiftRefunded {
        match self.ids.get(id) {
            Some((_, Known::Waits(_) | Known::InReview, _)) => return GiftRefunded::Waits,
            Some((_, Known::Cancelled(_), until)) if now < *until => {
                return GiftRefunded::Done { whole: true, refunded: 0, row: None };
            }
            Some((_, Known::Taken(_), until)) if now < *until => {}
            _ => return GiftRefunded::Unknown,
        }
        let brought = self.brought.get_mut(id).unwrap();
        let row = brought.row.clone();
        if brought.taken_back {
            return GiftRefunded::Done { whole: true, refunded: brought.refunded, row };
        }
        let Some((worth, _)) = &mut brought.given.value else { return GiftRefunded::NoValue };
        let value = *worth as u64 + brought.refunded;
        if refunded > value {
            return GiftRefunded::Above(value);
        }
        let Some(lost) = refunded.checked_sub(brought.refunded).filter(|lost| *lost > 0) else {
            return GiftRefunded::Done { whole: false, refunded: brought.refunded, row };
        };
        brought.refunded = refunded;
        if refunded == value {
            self.retract_gift(id, reason.as_deref(), policy, now);
            return GiftRefunded::Done { whole: true, refunded, row };
        }
        *worth -= lost as i64;
        let mine = brought.money.as_mut().filter(|money| money.amount > 0);
        let from_row = mine.map_or(0, |money| {
            let less = lost.min(money.amount);
            money.amount -= less;
            less
        });
        let (who, test) = (brought.who.clone(), brought.test);
        let currency = brought.given.value.clone().unwrap().1;
        self.sweep(policy, now);
        let found = self.rows.iter().position(|known| Some(&known.id) == row.as_ref());
        let seq = found.filter(|_| from_row > 0).map(|at| {
            let mut shown = (*self.rows[at]).clone();
            let left = shown.value.take().map(|value| Value { amount: value.amount - from_row, ..value });
            shown.value = left.filter(|value| value.amount > 0);
            shown.rev += 1;
            shown.updated_at = now;
            self.rows[at] = shown.into();
            self.record(Op::Update(self.rows[at].clone()), policy);
            self.at.seq
        });
        if !test {
            let less = Delta { count: 0, value: Some((lost as i64, currency)) };
            self.enter_less((EntryStatus::Refunded, seq), row.clone(), who, less, reason.as_deref(), now);
        }
        GiftRefunded::Done { whole: false, refunded, row }
    }
}

impl Model {
    pub(crate) fn refund_gift(
        &self,
        feed: &FeedId,
        id: &GiftId,
        refunded: u64,
        reason: Option<String>,
        now: Millis,
    ) -> GiftRefunded {
        self.on(feed, |f, policy| f.refund_gift(id, refunded, reason, &policy, now))
    }

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
                f.remove_row(at, &policy, now);
                removed += 1;
            }
            removed
        })
    }

    pub(crate) fn retract_gift(
        &self,
        feed: &FeedId,
        id: &GiftId,
        reason: Option<&str>,
        now: Millis,
    ) -> GiftTakenBack {
        self.on(feed, |f, policy| f.retract_gift(id, reason, &policy, now))
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
