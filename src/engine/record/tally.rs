//! What is counted, as lines of text: what watchers were told, and what the embedded engine keeps.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::{Records, line};
use crate::domain::json::push_string;
use crate::domain::tally::board::{Given, Score};
use crate::domain::tally::state::Goal;
use crate::domain::tally::{
    Gifter, GoalSpec, GoalView, Instance, Leader, Measure, Period, PeriodView, Rules, Session, State,
};
use crate::domain::{GoalId, Millis};

/// Appends what watchers are told of a period: `PERIOD SINCE GIFTS UNITS GIFTERS POINTS LISTS`, and `CURRENCY:AMOUNT`
/// for each currency behind; then for each list of leaders a line `MEASURE COUNT`, and a line `SCORE AT USER` for
/// each leader. Of one that is not counted: `PERIOD -`.
pub fn push_period(out: &mut String, period: Period, view: Option<&PeriodView>) {
    let Some(view) = view else { return line(out, format_args!("{period} -")) };
    let PeriodView { since, gifts, units, gifters, points, values, leaders } = view;
    let lists = leaders.len();
    let _ = write!(out, "{period} {} {gifts} {units} {gifters} {points} {lists}", since.0);
    for (currency, amount) in values {
        let _ = write!(out, " {currency}:{amount}");
    }
    out.push('\n');
    for (measure, leaders) in leaders {
        line(out, format_args!("{} {}", measure.code(), leaders.len()));
        for Leader { score, at, user } in leaders {
            line(out, format_args!("{score} {} {user}", at.0));
        }
    }
}

/// Appends what watchers are told of a goal: `GOAL PERIOD MEASURE TARGET VALUE REACHED|- TITLE`, or `GOAL -`.
pub fn push_goal(out: &mut String, goal: &GoalId, view: Option<&GoalView>) {
    let Some(view) = view else { return line(out, format_args!("{goal} -")) };
    let GoalSpec { title, period, by, target } = &view.spec;
    let _ = write!(out, "{goal} {period} {} {target} {} ", by.code(), view.value);
    push_time(out, view.reached_at);
    out.push(' ');
    push_string(out, title);
    out.push('\n');
}

fn push_time(out: &mut String, at: Option<Millis>) {
    match at {
        Some(at) => drop(write!(out, "{}", at.0)),
        None => out.push('-'),
    }
}

/// Appends a state: a line for it, one for its session, one for each instance (`o` open, `e` ended), one for each
/// goal (`g`), and one for what watchers were not told yet (`s`).
pub fn push_state(out: &mut String, state: &State) {
    let State { rules, session, open, ended, last_id, order, told, stale, goals } = state;
    line(out, format_args!("{last_id} {order} {} {rules}", told.0));
    match session {
        Some(Session { id, since }) => {
            let _ = write!(out, "{} ", since.0);
            push_string(out, id);
            out.push('\n');
        }
        None => out.push_str("-\n"),
    }
    for (kind, instance) in open.iter().map(|it| ('o', it)).chain(ended.iter().map(|it| ('e', it))) {
        let Instance { period, id, since, until, gifts, units, points, gifters, values } = instance;
        let (since, until) = (since.0, until.0);
        let _ = write!(out, "{kind} {period} {id} {since} {until} {gifts} {units} {points} {gifters}");
        for (currency, sum) in values {
            let _ = write!(out, " {currency}={sum}");
        }
        out.push('\n');
    }
    for (goal, Goal { spec, reached_at }) in goals {
        out.push_str("g ");
        let view = GoalView { goal: goal.clone(), spec: spec.clone(), value: 0, reached_at: *reached_at };
        push_goal(out, goal, Some(&view));
    }
    out.push('s');
    for period in stale {
        let _ = write!(out, " {period}");
    }
    out.push('\n');
}

/// Appends a gifter: a line for the person, and `ID GIFTS`, and for each score ` MEASURE=SUM=ORDER=AT`, for each
/// instance. Instances in which they gave the same, as most did since counting began, share a line: `ID.ID GIFTS`.
pub fn push_gifter(out: &mut String, gifter: &Gifter) {
    line(out, &gifter.person);
    let mut lines: Vec<(String, &Given)> = Vec::with_capacity(gifter.given.len());
    for (id, given) in &gifter.given {
        match lines.iter_mut().find(|(_, known)| *known == given) {
            Some((ids, _)) => drop(write!(ids, ".{id}")),
            None => lines.push((id.to_string(), given)),
        }
    }
    for (ids, Given { gifts, scores }) in lines {
        let _ = write!(out, "{ids} {gifts}");
        for (measure, Score { sum, order, at }) in scores {
            let _ = write!(out, " {}={sum}={order}={}", measure.code(), at.0);
        }
        out.push('\n');
    }
}

/// Reads what [`push_gifter`] writes; none when the text is not that.
pub fn read_gifter(text: &str) -> Option<Gifter> {
    let (person, rest) = text.split_once('\n')?;
    let mut given = BTreeMap::new();
    for text in rest.lines() {
        let mut words = text.split(' ');
        let (ids, gifts) = (words.next()?, words.next()?.parse().ok()?);
        let score = |word: &str| {
            let [measure, sum, order, at] = word.split('=').collect::<Vec<_>>()[..] else { return None };
            let score =
                Score { sum: sum.parse().ok()?, order: order.parse().ok()?, at: Millis(at.parse().ok()?) };
            Some((Measure::of_code(measure)?, score))
        };
        let same = Given { gifts, scores: words.map(score).collect::<Option<_>>()? };
        for id in ids.split('.') {
            given.insert(id.parse().ok()?, same.clone());
        }
    }
    Some(Gifter { person: person.into(), given })
}

impl Records<'_> {
    /// What watchers were told of the next period.
    pub fn period(&mut self) -> Option<(Period, Option<Arc<PeriodView>>)> {
        let mut head = self.lines.next()?.split(' ');
        let period = head.next()?.parse().ok()?;
        let since = match head.next()? {
            "-" => return Some((period, None)),
            since => Millis(since.parse().ok()?),
        };
        let mut number = || head.next()?.parse::<u64>().ok();
        let (gifts, units, gifters, points, lists) = (number()?, number()?, number()?, number()?, number()?);
        let value = |word: &str| {
            let (currency, amount) = word.split_once(':')?;
            Some((currency.to_owned(), amount.parse().ok()?))
        };
        let values = head.map(value).collect::<Option<_>>()?;
        let leaders = (0..lists).map(|_| self.leaders()).collect::<Option<_>>()?;
        Some((period, Some(PeriodView { since, gifts, units, gifters, points, values, leaders }.into())))
    }

    /// The next list of leaders.
    pub fn leaders(&mut self) -> Option<(Measure, Vec<Leader>)> {
        let (measure, count) = self.lines.next()?.split_once(' ')?;
        let leader = |text: &str| {
            let mut words = text.splitn(3, ' ');
            let (score, at) = (words.next()?.parse().ok()?, Millis(words.next()?.parse().ok()?));
            Some(Leader { score, at, user: words.next()?.into() })
        };
        let count: usize = count.parse().ok()?;
        let leaders = (0..count).map(|_| leader(self.lines.next()?)).collect::<Option<_>>()?;
        Some((Measure::of_code(measure)?, leaders))
    }

    /// What watchers were told of the next goal.
    pub fn goal(&mut self) -> Option<(GoalId, Option<GoalView>)> {
        read_goal(self.lines.next()?)
    }

    /// The next state; it ends the text.
    pub fn state(&mut self) -> Option<State> {
        let mut head = self.lines.next()?.splitn(4, ' ');
        let (last_id, order) = (head.next()?.parse().ok()?, head.next()?.parse().ok()?);
        let (told, rules) = (Millis(head.next()?.parse().ok()?), head.next()?.parse::<Rules>().ok()?);
        let session = match self.lines.next()? {
            "-" => None,
            text => {
                let (since, id) = text.split_once(' ')?;
                Some(Session { id: serde_json::from_str(id).ok()?, since: Millis(since.parse().ok()?) })
            }
        };
        let mut state = State { rules, session, last_id, order, told, ..State::default() };
        loop {
            let text = self.lines.next()?;
            match text.split_once(' ').unwrap_or((text, "")) {
                ("o", rest) => state.open.push(read_instance(rest)?),
                ("e", rest) => state.ended.push(read_instance(rest)?),
                ("g", rest) => {
                    let (name, view) = read_goal(rest)?;
                    let GoalView { spec, reached_at, .. } = view?;
                    state.goals.insert(name, Goal { spec, reached_at });
                }
                ("s", rest) => {
                    let words = rest.split(' ').filter(|word| !word.is_empty());
                    state.stale = words.map(|word| word.parse()).collect::<Result<_, _>>().ok()?;
                    return Some(state);
                }
                _ => return None,
            }
        }
    }
}

fn read_goal(text: &str) -> Option<(GoalId, Option<GoalView>)> {
    let mut words = text.splitn(7, ' ');
    let goal: GoalId = words.next()?.parse().ok()?;
    let period = match words.next()? {
        "-" => return Some((goal, None)),
        period => period.parse().ok()?,
    };
    let (by, target) = (Measure::of_code(words.next()?)?, words.next()?.parse().ok()?);
    let value = words.next()?.parse().ok()?;
    let reached_at = match words.next()? {
        "-" => None,
        at => Some(Millis(at.parse().ok()?)),
    };
    let title = serde_json::from_str(words.next()?).ok()?;
    let spec = GoalSpec { title, period, by, target };
    Some((goal.clone(), Some(GoalView { goal, spec, value, reached_at })))
}

fn read_instance(text: &str) -> Option<Instance> {
    let mut words = text.split(' ');
    let period = words.next()?.parse().ok()?;
    let (id, since) = (words.next()?.parse().ok()?, Millis(words.next()?.parse().ok()?));
    let (until, gifts) = (Millis(words.next()?.parse().ok()?), words.next()?.parse().ok()?);
    let (units, points) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let gifters = words.next()?.parse().ok()?;
    let value = |word: &str| {
        let (currency, sum) = word.split_once('=')?;
        Some((currency.to_owned(), sum.parse().ok()?))
    };
    let values = words.map(value).collect::<Option<_>>()?;
    Some(Instance { period, id, since, until, gifts, units, points, gifters, values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::MAX_SAFE;

    fn goal() -> GoalView {
        let by = Measure::Currency("EUR".into());
        let spec = GoalSpec { title: "a \"new\" mic".into(), period: Period::Day, by, target: MAX_SAFE };
        GoalView { goal: "mic".parse().unwrap(), spec, value: 0, reached_at: Some(Millis(5)) }
    }

    #[test]
    fn what_watchers_are_told_is_read_back() {
        let leader = Leader { score: MAX_SAFE, at: Millis(7), user: "{\"id\":\"a b\"}".into() };
        let view = PeriodView {
            since: Millis(1),
            gifts: 2,
            units: 3,
            gifters: 1,
            points: 0,
            values: vec![("EUR".into(), 9), ("coins".into(), 0)],
            leaders: vec![(Measure::Units, vec![leader]), (Measure::Currency("EUR".into()), vec![])],
        };
        let mut text = String::new();
        push_period(&mut text, Period::Week, Some(&view));
        push_period(&mut text, Period::All, None);
        push_goal(&mut text, &goal().goal, Some(&goal()));
        push_goal(&mut text, &goal().goal, None);
        let mut records = Records::new(&text);
        assert_eq!(records.period(), Some((Period::Week, Some(view.into()))));
        assert_eq!(records.period(), Some((Period::All, None)));
        assert_eq!(records.goal(), Some((goal().goal, Some(goal()))));
        assert_eq!(records.goal(), Some((goal().goal, None)));
        assert_eq!(records.goal(), None);
    }

    #[test]
    fn a_state_and_a_gifter_are_read_back_and_cut_ones_are_none() {
        let mut state = State::default();
        let rules: Rules = "all,session,day Europe/Berlin EUR:2".parse().unwrap();
        state.settle(&rules, Millis(1_800_000_000_000));
        state.settle(&rules, Millis(1_800_100_000_000));
        state.begin_session("show \n 2", Millis(1_800_100_000_001));
        let GoalView { goal, spec, reached_at, .. } = goal();
        state.goals.insert(goal, Goal { spec, reached_at });
        let value = crate::domain::Value { amount: MAX_SAFE, currency: "EUR".into() };
        let counted = crate::domain::tally::Counted::gift(
            state.instances().unwrap(),
            3,
            Some(&value),
            &rules.points,
            true,
        );
        state.add(&counted);
        state.add(&counted);
        let mut text = String::new();
        push_state(&mut text, &state);
        assert_eq!(Records::new(&text).state(), Some(state));
        let cut: Vec<&str> = text.lines().take(text.lines().count() - 1).collect();
        assert_eq!(Records::new(&cut.join("\n")).state(), None);

        let score = Score { sum: "1:7".parse().unwrap(), order: 9, at: Millis(8) };
        let scores = [(Measure::Points, score), (Measure::Currency("EUR".into()), score)].into();
        let most = Given { gifts: 2, scores };
        let given = [(4, most.clone()), (5, Given { gifts: 1, scores: BTreeMap::new() }), (7, most)].into();
        let gifter = Gifter { person: "{\"id\":\"a b\"}".into(), given };
        let mut text = String::new();
        push_gifter(&mut text, &gifter);
        assert_eq!(text.lines().count(), 3, "the same is written once");
        assert_eq!(read_gifter(&text), Some(gifter));
        assert_eq!(read_gifter(&text[..text.len() - 2]), None);
    }
}
