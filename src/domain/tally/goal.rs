//! Goals: an amount to be reached within a period, once.

use std::fmt::Write;

use serde_json::value::RawValue;

use super::{Measure, Period};
use crate::domain::gift::display_text;
use crate::domain::json::{Fault, Object, Refused, push_string};
use crate::domain::{GoalId, MAX_SAFE, Millis};

/// Goals of one feed. A snapshot carries them all.
pub const MAX_GOALS: usize = 16;

/// How a goal is defined: what PUT says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalSpec {
    /// To show: cleaned text.
    pub title: String,
    /// The period whose total it goes by, with which it begins anew.
    pub period: Period,
    /// What is counted.
    pub by: Measure,
    /// How much, 1…2^53−1.
    pub target: u64,
}

impl GoalSpec {
    /// Reads the body of a PUT.
    pub fn parse(raw: &RawValue) -> Result<GoalSpec, Refused> {
        let mut faults = Vec::new();
        match Self::read(raw, &mut faults) {
            Some(spec) if faults.is_empty() => Ok(spec),
            _ => Err(Refused::Invalid(faults)),
        }
    }

    fn read(raw: &RawValue, faults: &mut Vec<Fault>) -> Option<GoalSpec> {
        let mut body = Object::open(raw, faults)?;
        let title = body.need("title", faults).and_then(|f| display_text(&f, 1, 64, faults));
        let period = body.need("period", faults).and_then(|f| {
            let period = f.string(faults)?.parse();
            period.map_err(|rule| f.wrong(faults, rule)).ok()
        });
        let by = body.need("by", faults).and_then(|f| {
            let by = Measure::of(&f.string(faults)?);
            if by.is_none() {
                f.wrong(faults, "must be points, units, or a currency: 3 to 12 of A-Z a-z");
            }
            by
        });
        let target = body.need("target", faults).and_then(|f| f.integer(1, MAX_SAFE, faults));
        body.close(faults);
        Some(GoalSpec { title: title?, period: period?, by: by?, target: target? })
    }
}

/// A goal as GET and announcements show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoalView {
    /// Its name.
    pub goal: GoalId,
    /// How it is defined.
    pub spec: GoalSpec,
    /// How far it is.
    pub value: u64,
    /// When it was reached in the present run of its period. Stays when a gift is taken back.
    pub reached_at: Option<Millis>,
}

impl GoalView {
    /// Appends the goal as GET answers it.
    pub fn push_json(&self, out: &mut String) {
        let GoalView { goal, spec: GoalSpec { title, period, by, target }, value, reached_at } = self;
        let _ = write!(out, "{{\"goal\":\"{goal}\",\"title\":");
        push_string(out, title);
        let by = by.as_str();
        let _ = write!(out, ",\"period\":\"{period}\",\"by\":\"{by}\",\"target\":{target},\"value\":{value}");
        if let Some(at) = reached_at {
            let _ = write!(out, ",\"reached_at\":\"{at}\"");
        }
        out.push('}');
    }

    /// See [`GoalView::push_json`].
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(160);
        self.push_json(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::syntax;

    #[test]
    fn a_goal_is_read_and_what_is_wrong_is_named() {
        let read = |body: &str| GoalSpec::parse(syntax(body.as_bytes()).unwrap());
        let goal = read(r#"{"title":"New mic","period":"session","by":"EUR","target":50000}"#).unwrap();
        assert_eq!((goal.title.as_str(), goal.period, goal.target), ("New mic", Period::Session, 50_000));
        assert_eq!(goal.by, Measure::Currency("EUR".into()));
        for (body, at) in [
            ("{}", "/title"),
            (r#"{"title":"","period":"all","by":"units","target":1}"#, "/title"),
            (r#"{"title":"t","period":"year","by":"units","target":1}"#, "/period"),
            (r#"{"title":"t","period":"all","by":"€","target":1}"#, "/by"),
            (r#"{"title":"t","period":"all","by":"units","target":0}"#, "/target"),
            (r#"{"title":"t","period":"all","by":"units","target":1,"x":1}"#, "/x"),
        ] {
            let Err(Refused::Invalid(faults)) = read(body) else { panic!("{body}") };
            assert!(faults.iter().any(|fault| fault.pointer == at), "{body}: {faults:?}");
        }
    }
}
