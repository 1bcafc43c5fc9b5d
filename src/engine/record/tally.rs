//! What is counted, as lines of text: what watchers were told.

use std::fmt::Write;
use std::sync::Arc;

use super::{Records, line};
use crate::domain::json::push_string;
use crate::domain::tally::{GoalSpec, GoalView, Leader, Measure, Period, PeriodView};
use crate::domain::{GoalId, Millis};

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

impl Records<'_> {
    /// What watchers were told of all periods that follow.
    pub fn periods(&mut self) -> Option<Vec<(Period, Option<Arc<PeriodView>>)>> {
        let mut all = Vec::new();
        while self.lines.clone().next().is_some_and(|line| !line.is_empty()) {
            all.push(self.period()?);
        }
        Some(all)
    }

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
