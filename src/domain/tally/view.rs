//! Totals, leaders and goals as readers and watchers get them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use super::{GoalView, Measure, Period};
use crate::domain::{GoalId, Millis};

/// One of a period's leaders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// What they gave, 1…2^53−1.
    pub score: u64,
    /// As the newest gift named them, as JSON.
    pub user: Arc<str>,
}

/// What a period has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodView {
    /// When it began.
    pub since: Millis,
    /// Gifts.
    pub gifts: u64,
    /// Units.
    pub units: u64,
    /// Different users.
    pub gifters: u64,
    /// Points.
    pub points: u64,
    /// Amounts by currency, the largest first.
    pub values: Vec<(String, u64)>,
    /// Of each measure that is announced, the highest first.
    pub leaders: Vec<(Measure, Vec<Leader>)>,
}

/// Periods as they were announced.
pub type TotalsView = BTreeMap<Period, Arc<PeriodView>>;

impl PeriodView {
    /// Appends `{"since","gifts",…}`; with `leaders` as watchers get it, without as GET answers.
    pub fn push_json(&self, out: &mut String, leaders: bool) {
        let PeriodView { since, gifts, units, gifters, points, values, .. } = self;
        let _ = write!(
            out,
            "{{\"since\":\"{since}\",\"gifts\":{gifts},\"units\":{units},\"gifters\":{gifters},\
             \"points\":{points},\"values\":["
        );
        for (n, (currency, amount)) in values.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{{\"currency\":\"{currency}\",\"amount\":{amount}}}");
        }
        out.push(']');
        if leaders {
            out.push_str(",\"leaders\":{");
            for (n, (by, leaders)) in self.leaders.iter().enumerate() {
                let _ = write!(out, "{}\"{}\":", if n > 0 { "," } else { "" }, by.as_str());
                push_leaders(out, leaders);
            }
            out.push('}');
        }
        out.push('}');
    }
}

/// Appends `[{"rank","user","score"},…]`.
fn push_leaders(out: &mut String, leaders: &[Leader]) {
    out.push('[');
    for (n, Leader { score, user }) in leaders.iter().enumerate() {
        let (comma, rank) = (if n > 0 { "," } else { "" }, n + 1);
        let _ = write!(out, "{comma}{{\"rank\":{rank},\"user\":{user},\"score\":{score}}}");
    }
    out.push(']');
}

/// Appends what snapshots carry, each member with a comma in front and only where there is something.
pub fn push_told(out: &mut String, totals: &TotalsView, goals: &BTreeMap<GoalId, Arc<GoalView>>) {
    if !totals.is_empty() {
        out.push_str(",\"totals\":{");
        for (n, (period, view)) in totals.iter().enumerate() {
            let _ = write!(out, "{}\"{period}\":", if n > 0 { "," } else { "" });
            view.push_json(out, true);
        }
        out.push('}');
    }
    for (n, goal) in goals.values().enumerate() {
        out.push_str(if n > 0 { "," } else { ",\"goals\":[" });
        goal.push_json(out);
    }
    if !goals.is_empty() {
        out.push(']');
    }
}

/// What a reader asks of a ranking.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeadersAsk {
    /// Which period.
    pub period: Period,
    /// True for the one that ended last.
    pub back: bool,
    /// By what.
    pub by: Measure,
    /// Leaders at most, 1…100.
    pub limit: usize,
    /// Whose rank is asked for too: a user's id.
    pub user: Option<String>,
}

/// A ranking as GET answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadersView {
    /// When its period began.
    pub since: Millis,
    /// The highest first.
    pub leaders: Vec<Leader>,
    /// Rank, from 1, and score of the user that was asked for, if ranked.
    pub user: Option<(u64, u64)>,
}

impl LeadersView {
    /// As GET answers it.
    pub fn to_json(&self, ask: &LeadersAsk) -> String {
        let (period, by, since) = (ask.period, ask.by.as_str(), self.since);
        let mut out = format!("{{\"period\":\"{period}\",\"since\":\"{since}\",\"by\":\"{by}\",\"leaders\":");
        push_leaders(&mut out, &self.leaders);
        if let Some((rank, score)) = self.user {
            let _ = write!(out, ",\"user\":{{\"rank\":{rank},\"score\":{score}}}");
        }
        out.push('}');
        out
    }
}
