//! What a host does to a feed while a show runs: alerts are paused or muted, rows and gifts are taken back.

use std::fmt::{self, Write};
use std::str::FromStr;

use serde_json::value::RawValue;

use super::feed::Effects;
use super::json::{Object, Refused, push_string};
use super::{FeedState, Millis, Op, Policy, RemoveReason, Row, RowId, Value};

/// What overlays do with alerts from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    /// Alerts wait.
    pub paused: bool,
    /// Alerts make no sound.
    pub muted: bool,
}

/// What a host says to overlays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Alerts wait from now on.
    Pause,
    /// Alerts go on.
    Resume,
    /// The alert that is shown goes.
    Skip,
    /// Alerts make no sound from now on.
    Mute,
    /// They do again.
    Unmute,
    /// A row is shown as an alert again, once.
    Replay,
}

/// One action, and the row it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// What to do.
    pub action: Action,
    /// Always there for a replay.
    pub row: Option<RowId>,
}

impl Action {
    const ALL: [Action; 6] =
        [Action::Pause, Action::Resume, Action::Skip, Action::Mute, Action::Unmute, Action::Replay];

    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Pause => "pause",
            Action::Resume => "resume",
            Action::Skip => "skip",
            Action::Mute => "mute",
            Action::Unmute => "unmute",
            Action::Replay => "replay",
        }
    }

    /// The action of this word.
    pub fn of(word: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

impl Controls {
    /// After `action`.
    pub fn after(self, action: Action) -> Controls {
        match action {
            Action::Pause => Controls { paused: true, ..self },
            Action::Resume => Controls { paused: false, ..self },
            Action::Mute => Controls { muted: true, ..self },
            Action::Unmute => Controls { muted: false, ..self },
            Action::Skip | Action::Replay => self,
        }
    }

    /// Appends `,"control":{…}` as snapshots carry it; nothing when neither is true.
    pub fn push_json(self, out: &mut String) {
        let Controls { paused, muted } = self;
        if paused || muted {
            let _ = write!(out, ",\"control\":{{\"paused\":{paused},\"muted\":{muted}}}");
        }
    }
}

impl Control {
    /// Reads the body of a POST.
    pub fn parse(raw: &RawValue) -> Result<Control, Refused> {
        let mut faults = Vec::new();
        let Some(mut body) = Object::open(raw, &mut faults) else {
            return Err(Refused::Invalid(faults));
        };
        let action = body.need("action", &mut faults).and_then(|field| {
            let action = Action::of(&field.string(&mut faults)?);
            if action.is_none() {
                field.wrong(&mut faults, "must be pause, resume, skip, mute, unmute or replay");
            }
            action
        });
        let row = body.take("row").map(|field| {
            let row: Option<RowId> = field.string(&mut faults).and_then(|text| text.parse().ok());
            match action {
                Some(Action::Skip | Action::Replay) | None if row.is_some() => {}
                Some(Action::Skip | Action::Replay) | None => {
                    field.wrong(&mut faults, "must be the id of a row")
                }
                Some(_) => field.wrong(&mut faults, "belongs to skip and replay only; remove it"),
            }
            row
        });
        if action == Some(Action::Replay) && row.is_none() {
            faults.push(super::json::fault("/row", "is required: the row to show again"));
        }
        body.close(&mut faults);
        match action {
            Some(action) if faults.is_empty() => Ok(Control { action, row: row.flatten() }),
            _ => Err(Refused::Invalid(faults)),
        }
    }
}

/// What a gift added to its row, remembered with its id so that it can be taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Nobody knows: the gift waits, was cancelled, or came before parts were remembered.
    #[default]
    Unknown,
    /// This much.
    Added(Added),
    /// It was taken back.
    TakenBack,
}

/// Units and money that one gift added to a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Units; of a combo's frame, by how much it grew the row.
    pub units: u64,
    /// Money, likewise.
    pub value: Option<Value>,
    /// A test is in no ledger, and so is its being taken back.
    pub test: bool,
}

impl fmt::Display for Part {
    /// As stores spell it: `-`, `x`, or `UNITS:AMOUNT:CURRENCY` with `~` in front for a test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Unknown => f.write_str("-"),
            Part::TakenBack => f.write_str("x"),
            Part::Added(Added { units, value, test }) => {
                write!(f, "{}{units}:", if *test { "~" } else { "" })?;
                match value {
                    Some(Value { amount, currency }) => write!(f, "{amount}:{currency}"),
                    None => f.write_str(":"),
                }
            }
        }
    }
}

impl FromStr for Part {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Part, &'static str> {
        const RULE: &str = "must be a gift's part of its row";
        match text {
            "" | "-" => return Ok(Part::Unknown),
            "x" => return Ok(Part::TakenBack),
            _ => {}
        }
        let test = text.starts_with('~');
        let mut parts = text.trim_start_matches('~').split(':');
        let mut part = || parts.next().ok_or(RULE);
        let units = part()?.parse().map_err(|_| RULE)?;
        let value = match (part()?, part()?) {
            ("", "") => None,
            (amount, currency) => {
                Some(Value { amount: amount.parse().map_err(|_| RULE)?, currency: currency.to_owned() })
            }
        };
        Ok(Part::Added(Added { units, value, test }))
    }
}

impl Added {
    /// What made `after` of `before`; of a new row, all of it.
    pub(super) fn between(before: Option<&Row>, after: &Row) -> Added {
        let was = before.and_then(|row| row.value.as_ref()).map_or(0, |value| value.amount);
        let fresh = before.is_none_or(|row| row.value.is_none());
        let value = after.value.as_ref().filter(|value| fresh || value.amount > was);
        Added {
            units: after.count - before.map_or(0, |row| row.count),
            value: value.map(|value| Value { amount: value.amount - was, currency: value.currency.clone() }),
            test: after.test,
        }
    }
}

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
                parts.push((answer.row, effects.part.unwrap()));
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

        #[test]
        fn a_part_survives_being_written(units in 0..=crate::domain::MAX_SAFE, money in prop::option::of((0..=crate::domain::MAX_SAFE, "[A-Za-z]{3,12}")), test in any::<bool>()) {
            let value = money.map(|(amount, currency)| Value { amount, currency });
            let part = Part::Added(Added { units, value, test });
            prop_assert_eq!(part.to_string().parse(), Ok(part));
        }
    }

    #[test]
    fn parts_that_say_nothing_and_what_is_none() {
        for part in [Part::Unknown, Part::TakenBack] {
            assert_eq!(part.to_string().parse(), Ok(part));
        }
        assert_eq!("".parse(), Ok(Part::Unknown));
        for bad in ["1", "1:", "a::", "1:2", "-1::", "1:x:EUR"] {
            assert!(bad.parse::<Part>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_control_is_read_and_what_is_wrong_is_named() {
        let read = |body: &str| Control::parse(json::syntax(body.as_bytes()).unwrap());
        for action in Action::ALL {
            assert_eq!(Action::of(action.as_str()), Some(action));
        }
        assert_eq!(read(r#"{"action":"pause"}"#), Ok(Control { action: Action::Pause, row: None }));
        let row = "e-1".parse().ok();
        assert_eq!(read(r#"{"action":"replay","row":"e-1"}"#), Ok(Control { action: Action::Replay, row }));
        for (body, at) in [
            ("{}", "/action"),
            (r#"{"action":"stop"}"#, "/action"),
            (r#"{"action":"replay"}"#, "/row"),
            (r#"{"action":"replay","row":"no row"}"#, "/row"),
            (r#"{"action":"pause","row":"e-1"}"#, "/row"),
            (r#"{"action":"pause","x":1}"#, "/x"),
        ] {
            let Err(Refused::Invalid(faults)) = read(body) else { panic!("{body}") };
            assert!(faults.iter().any(|fault| fault.pointer == at), "{body}: {faults:?}");
        }
    }
}
