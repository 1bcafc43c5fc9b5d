use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::tally::{GoalSpec, GoalView, Leader, Measure, Period, PeriodView};
use crate::domain::{GoalId, Millis};

/// What a run of a period has (`lua/totals/runs.lua`).
#[derive(Deserialize)]
struct StoredPeriod {
    since: i64,
    sums: BTreeMap<String, u64>,
    #[serde(default)]
    leaders: BTreeMap<String, Vec<StoredLeader>>,
}

#[derive(Deserialize)]
struct StoredLeader {
    score: u64,
    user: Box<RawValue>,
}

impl StoredLeader {
    fn leader(self) -> Leader {
        Leader { score: self.score, user: self.user.get().into() }
    }
}

impl StoredPeriod {
    fn view(self) -> Option<PeriodView> {
        let sum = |name: &str| self.sums.get(name).copied().unwrap_or(0);
        let (gifts, gifters, units, points) = (sum("gifts"), sum("gifters"), sum("units"), sum("points"));
        let value = |(name, amount): (&String, &u64)| Some((name.strip_prefix('$')?.to_owned(), *amount));
        let mut values: Vec<(String, u64)> = self.sums.iter().filter_map(value).collect();
        values.sort_by(|(a, more), (b, less)| less.cmp(more).then(a.cmp(b)));
        let leaders = self.leaders.into_iter().map(|(by, leaders)| {
            Some((Measure::of_code(&by)?, leaders.into_iter().map(StoredLeader::leader).collect()))
        });
        let mut leaders = leaders.collect::<Option<Vec<(Measure, Vec<Leader>)>>>()?;
        leaders.sort_by(|(a, _), (b, _)| a.cmp(b));
        let since = Millis(self.since);
        Some(PeriodView { since, gifts, units, gifters, points, values, leaders })
    }
}

/// Periods by name; `None` for a period that the feed does not count any more.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct StoredPeriods(BTreeMap<String, Option<StoredPeriod>>);

/// Periods, and what watchers know of them.
pub type Periods = Vec<(Period, Option<Arc<PeriodView>>)>;

impl StoredPeriods {
    pub(super) fn views(self) -> Option<Periods> {
        let view = |(period, run): (String, Option<StoredPeriod>)| {
            let view = match run {
                Some(run) => Some(Arc::new(run.view()?)),
                None => None,
            };
            Some((period.parse().ok()?, view))
        };
        self.0.into_iter().map(view).collect()
    }
}

/// Reads periods; `None` if the text is no such record.
pub fn read_periods(text: &str) -> Option<Periods> {
    serde_json::from_str::<StoredPeriods>(text).ok()?.views()
}

/// Reads the first of a ranking; `None` if the text is no such record.
pub fn read_leaders(text: &str) -> Option<Vec<Leader>> {
    let leaders: Vec<StoredLeader> = serde_json::from_str(text).ok()?;
    Some(leaders.into_iter().map(StoredLeader::leader).collect())
}

/// A goal; of one that is deleted its name alone.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredGoal {
    goal: String,
    #[serde(skip_serializing)]
    deleted: bool,
    period: String,
    by: String,
    target: u64,
    #[serde(skip_serializing)]
    value: u64,
    #[serde(skip_serializing)]
    reached_at: Option<i64>,
    title: String,
}

impl StoredGoal {
    /// The goal's name, and the goal unless it is deleted.
    pub(super) fn view(self) -> Option<(GoalId, Option<GoalView>)> {
        let StoredGoal { goal, deleted, period, by, target, value, reached_at, title } = self;
        let goal: GoalId = goal.parse().ok()?;
        if deleted {
            return Some((goal, None));
        }
        let spec = GoalSpec { title, period: period.parse().ok()?, by: Measure::of_code(&by)?, target };
        let view = GoalView { goal: goal.clone(), spec, value, reached_at: reached_at.map(Millis) };
        Some((goal, Some(view)))
    }
}

/// A goal as it is defined.
pub fn goal_spec(goal: &GoalId, spec: &GoalSpec) -> String {
    let GoalSpec { title, period, by, target } = spec;
    let (goal, period, by, title) = (goal.to_string(), period.to_string(), by.code(), title.clone());
    let stored = StoredGoal { goal, period, by, target: *target, title, ..StoredGoal::default() };
    serde_json::to_string(&stored).unwrap_or_default()
}

/// Reads a goal; `None` if the text is none.
pub fn read_goal(text: &str) -> Option<GoalView> {
    serde_json::from_str::<StoredGoal>(text).ok()?.view()?.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_and_a_goal_are_read() {
        let day = r#"{"since":5,"sums":{"gifters":2,"gifts":3,"units":4,"$EUR":9,"$coins":9,"$USD":10},
            "leaders":{"units":[{"score":3,"user":{"id":"a"}}],"$EUR":[],"points":[]}}"#;
        let periods = read_periods(&format!("{{\"day\":{day},\"week\":null}}")).unwrap();
        let [(Period::Day, Some(view)), (Period::Week, None)] = &periods[..] else { panic!("{periods:?}") };
        assert_eq!((view.gifts, view.units, view.points, view.gifters), (3, 4, 0, 2));
        let values: Vec<_> = view.values.iter().map(|(currency, _)| currency.as_str()).collect();
        assert_eq!(values, ["USD", "EUR", "coins"]);
        let by: Vec<_> = view.leaders.iter().map(|(by, _)| by.as_str()).collect();
        assert_eq!(by, ["points", "units", "EUR"]);
        assert_eq!(view.leaders[1].1[0].user.as_ref(), r#"{"id":"a"}"#);
        assert_eq!(read_periods(r#"{"year":null}"#), None);

        let spec = GoalSpec { title: "\"".into(), period: Period::All, by: Measure::Units, target: 7 };
        let text = goal_spec(&"mic".parse().unwrap(), &spec);
        assert_eq!(text, r#"{"goal":"mic","period":"all","by":"units","target":7,"title":"\""}"#);
        assert_eq!(read_goal(&text).unwrap().spec, spec);
        assert_eq!(read_goal(r#"{"goal":"mic","deleted":true}"#), None);
    }
}
