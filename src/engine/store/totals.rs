//! Counting: what `lua/totals/tally.lua` is called with and answers.

use std::fmt::Write;
use std::pin::Pin;

use super::counting::{Action, Tallied};
use super::faults::Fault;
use super::rounds::{Ready, Rounds};
use super::runner::Reply;
use super::scripts::{self, Call};
use super::wire::Garbled;
use crate::domain::json::push_string;
use crate::domain::tally::{
    GoalSpec, GoalView, LeadersAsk, LeadersView, MAX_GOALS, Period, Session, TotalsView,
};
use crate::domain::{FeedId, GoalId, Millis, Policy};
use crate::engine::GoalPut;
use crate::engine::record::{Records, push_goal};

/// How often a call is made anew because the policy or the calendar was another by then.
const AGAIN: usize = 8;

impl Rounds {
    /// Adds up what came, and does what is asked. Boxed, because what it calls may call it.
    pub fn tally<'a>(
        &'a self,
        feed: &'a FeedId,
        action: &'a Action,
        now: Option<Millis>,
    ) -> Pin<Box<dyn Future<Output = Result<Tallied, Fault>> + Send + 'a>> {
        Box::pin(async move {
            let mut clock = match self.runner.clock(now) {
                Some(now) => now,
                None => Millis::now(),
            };
            let mut ready = Ready::default();
            for _ in 0..AGAIN {
                let saw = self.runner.overrides(feed).await?;
                let policy = self.runner.with_overrides(&saw)?;
                let call = |_: &Ready| self.tally_call(feed, action, (&saw, &policy), clock);
                // More than one run adds up at a time is run again and again.
                let reply = loop {
                    let reply = self.run(feed, now, &mut ready, call).await?;
                    if reply.texts.get(1).is_none_or(|text| text != "m") {
                        break reply;
                    }
                };
                if let Some(at) = again(&reply) {
                    clock = at;
                    continue;
                }
                let (_, now) = reply.mark()?;
                if !policy.totals.is_empty() {
                    self.totals.learn(feed, true);
                }
                let next = reply.texts.first().and_then(|text| text.parse().ok()).map(Millis);
                return Ok(Tallied { now: *now, next, texts: reply.texts.into_iter().skip(1).collect() });
            }
            Err(policy_moves())
        })
    }

    fn tally_call(
        &self,
        feed: &FeedId,
        action: &Action,
        (saw, policy): (&str, &Policy),
        clock: Millis,
    ) -> Call {
        let keys = &self.runner.keys;
        let mut call = self.runner.feed_call(&scripts::TALLY, feed);
        let ([due, later], [sums, gifters, ranks]) = (keys.due(feed), keys.tallied(feed));
        call.keys([("due", due), ("later", later), ("sums", sums), ("gifters", gifters), ("ranks", ranks)]);
        let mut bounds = String::new();
        for period in Period::ALL.into_iter().filter(|period| period.is_calendar()) {
            let (since, until) = policy.time_zone.bounds(period, clock);
            let _ = write!(bounds, "{period} {} {};", since.0.max(0), until.0);
        }
        call.arg("saw", saw).arg("rules", policy.rules()).arg("bounds", bounds);
        let (mut name, mut back, mut measure, mut limit, mut user, mut goal) =
            (String::new(), "", String::new(), 0, "", String::new());
        let word = match action {
            Action::Tick => "tick",
            Action::Totals(ended) => {
                back = if *ended { "1" } else { "" };
                "totals"
            }
            Action::Leaders(ask) => {
                (name, measure, limit) = (ask.period.to_string(), ask.by.code(), ask.limit);
                back = if ask.back { "1" } else { "" };
                user = ask.user.as_deref().unwrap_or_default();
                "leaders"
            }
            Action::Session(id) => {
                push_string(&mut name, id);
                "session"
            }
            Action::Goals => "goals",
            Action::Goal(id, spec) => {
                (name, limit) = (id.to_string(), MAX_GOALS);
                let view = GoalView { goal: id.clone(), spec: spec.clone(), value: 0, reached_at: None };
                let mut text = String::new();
                push_goal(&mut text, id, Some(&view));
                goal = text.trim_end().split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
                "goal"
            }
            Action::Ungoal(id) => {
                name = id.to_string();
                "ungoal"
            }
        };
        match action {
            Action::Totals(_) | Action::Leaders { .. } | Action::Goals => {
                call.for_a_reader();
            }
            Action::Session(_) | Action::Goal(..) => {
                call.bounded();
            }
            _ => {}
        }
        call.arg("action", word).arg("name", name).arg("back", back).arg("measure", measure);
        call.arg("limit", limit).arg("user", user).arg("goal", goal);
        call
    }

    async fn asked(&self, feed: &FeedId, action: Action, now: Millis) -> Result<Vec<String>, Fault> {
        Ok(self.tally(feed, &action, Some(now)).await?.texts)
    }

    pub async fn read_totals(
        &self,
        feed: &FeedId,
        back: bool,
        now: Millis,
    ) -> Result<Option<TotalsView>, Fault> {
        let texts = self.asked(feed, Action::Totals(back), now).await?;
        if texts.first().is_none_or(|text| text != "o") {
            return Ok(None);
        }
        let mut totals = TotalsView::new();
        for text in &texts[1..] {
            let (period, view) = Records::new(text).period().ok_or(Garbled("totals"))?;
            totals.extend(view.map(|view| (period, view)));
        }
        Ok(Some(totals))
    }

    pub async fn read_leaders(
        &self,
        feed: &FeedId,
        ask: LeadersAsk,
        now: Millis,
    ) -> Result<Option<LeadersView>, Fault> {
        let texts = self.asked(feed, Action::Leaders(ask), now).await?;
        let [found, since, list, ref user @ ..] = texts.iter().map(String::as_str).collect::<Vec<_>>()[..]
        else {
            return Ok(None);
        };
        const WHAT: Garbled = Garbled("a ranking");
        if found != "o" {
            return Ok(None);
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| WHAT);
        let user = match user {
            [rank, score] => Some((number(rank)?, number(score)?)),
            _ => None,
        };
        let (_, leaders) = Records::new(list).leaders().ok_or(WHAT)?;
        let since = Millis(since.parse().map_err(|_| WHAT)?);
        Ok(Some(LeadersView { since, leaders, user }))
    }

    pub async fn begin_session(
        &self,
        feed: &FeedId,
        id: String,
        now: Millis,
    ) -> Result<(Session, bool), Fault> {
        let texts = self.asked(feed, Action::Session(id.clone()), now).await?;
        let since =
            texts.get(1).and_then(|text| text.split_once(' ')).and_then(|(since, _)| since.parse().ok());
        let since = Millis(since.ok_or(Garbled("a session"))?);
        Ok((Session { id, since }, texts.first().is_some_and(|text| text == "n")))
    }

    pub async fn read_goals(&self, feed: &FeedId, now: Millis) -> Result<Vec<GoalView>, Fault> {
        let texts = self.asked(feed, Action::Goals, now).await?;
        let mut goals = texts.iter().map(|text| goal(text)).collect::<Result<Vec<_>, _>>()?;
        goals.sort_by(|a, b| a.goal.cmp(&b.goal));
        Ok(goals)
    }

    pub async fn put_goal(
        &self,
        feed: &FeedId,
        id: &GoalId,
        spec: GoalSpec,
        now: Millis,
    ) -> Result<GoalPut, Fault> {
        let texts = self.asked(feed, Action::Goal(id.clone(), spec), now).await?;
        let text = || texts.get(1).ok_or(Garbled("a goal"));
        Ok(match texts.first().map(String::as_str) {
            Some("n") => GoalPut::New(goal(text()?)?),
            Some("c") => GoalPut::Changed(goal(text()?)?),
            Some("f") => GoalPut::TooMany,
            Some("x") => GoalPut::NotCounted,
            _ => return Err(Garbled("what became of a goal").into()),
        })
    }

    pub async fn delete_goal(&self, feed: &FeedId, id: &GoalId, now: Millis) -> Result<bool, Fault> {
        Ok(self.asked(feed, Action::Ungoal(id.clone()), now).await?.first().is_some_and(|text| text == "1"))
    }
}

fn goal(text: &str) -> Result<GoalView, Garbled> {
    Records::new(text).goal().and_then(|(_, view)| view).ok_or(Garbled("a goal"))
}

/// Of a feed whose policy was another each time that it was to be used.
pub(super) fn policy_moves() -> Fault {
    Fault::stay("the feed's policy changes faster than it is read")
}

/// Whether the script refused because what the caller saw before is another by now.
pub(super) fn is_again(reply: &Reply) -> bool {
    reply.mark.is_none() && reply.texts.get(1).is_some_and(|text| text == "again")
}

/// The store's time, when the call is to be made anew.
fn again(reply: &Reply) -> Option<Millis> {
    is_again(reply).then(|| reply.texts.get(2)?.parse().ok().map(Millis)).flatten()
}
