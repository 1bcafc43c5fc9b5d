//! What stands around the gifts of a show: what is counted, a session, a goal that fills, and a host who looks at what
//! waits, as long as nobody else does.

use std::collections::HashMap;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{DemoOptions, Show};
use crate::domain::MAX_SAFE;
use crate::tools::gateway::Gateway;

/// The goal's name.
pub(super) const GOAL: &str = "tonight";
/// How long a goal takes to fill, as the show plays.
const FILLS_IN: Duration = Duration::from_secs(90);
/// How long a goal that was reached stays before the next one.
const CELEBRATED: Duration = Duration::from_secs(20);
/// Gifts a second, above which nobody could look at them.
const REVIEWED_MOST: f64 = 20.0;
/// How often the host looks.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long a message waits: somebody at the desk may decide before. By gift, from the first to the sum of both.
const LOOKED_AT: Duration = Duration::from_secs(6);
const LOOKED_AT_MORE: u64 = 6_000;

/// What counts as a point, where the feed's policy does not say.
const POINTS: &[&str] = &["BHD", "COIN", "EUR", "JPY", "USD", "coins"];

/// The stage of one show.
pub(super) struct Stage {
    gateway: Gateway,
    /// How much is given while a goal fills, in points.
    step: u64,
    /// What of the policy is to be put back in the end.
    before: Option<Value>,
}

impl Stage {
    /// Nothing is set yet.
    pub(super) fn new(options: &DemoOptions, gateway: Gateway) -> Stage {
        Stage { gateway, step: given_within(options, FILLS_IN), before: None }
    }

    /// Sets the stage: the feed's policy, a session named `session`, and a goal. What is said about it, line by line; the
    /// error is why it cannot be set.
    pub(super) async fn set(
        &mut self,
        options: &DemoOptions,
        session: &str,
    ) -> Result<Vec<String>, (StatusCode, String)> {
        let policy = self.gateway.call(Method::GET, "policy", None).await?;
        let mut counted: Vec<Value> = policy["totals"].as_array().cloned().unwrap_or_default();
        if !counted.iter().any(|period| period == "session") {
            counted.push("session".into());
        }
        let mut patch = json!({ "totals": counted });
        if policy["points"].as_object().is_none_or(|points| points.is_empty()) {
            patch["points"] = POINTS.iter().map(|currency| ((*currency).to_owned(), json!(1))).collect();
        }
        // Who has a host already keeps the rules that they work by.
        let reviews = policy["review"] == "off" && options.rate <= REVIEWED_MOST;
        if reviews {
            let ours = [("review", json!("messages")), ("review_timeout_ms", json!(30_000))];
            for (name, value) in ours {
                patch[name] = value;
            }
            self.before = Some(json!({"review": "off", "review_timeout_ms": policy["review_timeout_ms"]}));
        }
        self.gateway.call(Method::PATCH, "policy", Some(patch)).await?;
        self.gateway.call(Method::POST, "session", Some(json!({ "id": session }))).await?;
        self.begin_goal(0).await?;
        let (feed, url) = (&options.feed, &options.gateway.url);
        let mut said = vec![format!(
            "leaders at {url}overlay/{feed}/leaders, a goal at {url}overlay/{feed}/goal/{GOAL}"
        )];
        said.push(match (reviews, options.host) {
            (true, false) => format!("messages wait some seconds for a host; the desk is {url}desk/{feed}"),
            (true, true) => format!("messages wait for you at {url}desk/{feed}"),
            (false, _) => {
                format!("the desk is {url}desk/{feed}; what waits there is up to the feed's policy")
            }
        });
        Ok(said)
    }

    /// Whether gifts wait because of this show.
    pub(super) fn reviews(&self) -> bool {
        self.before.is_some()
    }

    async fn begin_goal(&self, from: u64) -> Result<(), (StatusCode, String)> {
        let path = format!("goals/{GOAL}");
        // One that was reached stays reached; the next one begins as another.
        drop(self.gateway.call(Method::DELETE, &path, None).await);
        let target = from.saturating_add(self.step);
        let goal = json!({"title": "Tonight 🎯", "period": "session", "by": "points", "target": target});
        self.gateway.call(Method::PUT, &path, Some(goal)).await.map(drop)
    }

    /// Looks after the show for as long as it runs: goals that were reached make room, and where `decides` is set,
    /// what waits is decided about. What is refused meanwhile is tried again with the next look.
    pub(super) async fn attend(&self, decides: bool) {
        let mut waiting: HashMap<String, Instant> = HashMap::new();
        let mut reached: Option<Instant> = None;
        loop {
            sleep(POLL_INTERVAL).await;
            if let Ok(goal) = self.gateway.call(Method::GET, &format!("goals/{GOAL}"), None).await {
                let since = goal["reached_at"].is_string().then(|| *reached.get_or_insert_with(Instant::now));
                if since.is_some_and(|since| since.elapsed() >= CELEBRATED) {
                    reached = None;
                    drop(self.begin_goal(goal["value"].as_u64().unwrap_or(0)).await);
                }
            }
            if decides {
                self.decide(&mut waiting).await;
            }
        }
    }

    /// Decides what has waited long enough, most of it kindly. `waiting`: since when each gift is known to wait.
    async fn decide(&self, waiting: &mut HashMap<String, Instant>) {
        let Ok(listing) = self.gateway.call(Method::GET, "review", None).await else { return };
        let listed = listing["review"].as_array().cloned().unwrap_or_default();
        let ids: Vec<&str> = listed.iter().filter_map(|it| it["id"].as_str()).collect();
        waiting.retain(|id, _| ids.contains(&id.as_str()));
        for it in &listed {
            let Some(id) = it["id"].as_str() else { continue };
            let since = waiting.entry(id.to_owned()).or_insert_with(Instant::now);
            // A name alone is seen at a glance. What is decided differs by gift, and is the same in every run.
            let mark: u64 = id.bytes().map(u64::from).sum();
            let patience = match it["gift"]["message"].is_string() {
                true => LOOKED_AT + Duration::from_millis(mark * 97 % LOOKED_AT_MORE),
                false => Duration::ZERO,
            };
            if since.elapsed() < patience {
                continue;
            }
            let action = match mark % 8 {
                0 if !patience.is_zero() => "deny",
                1 if !patience.is_zero() => "mask",
                _ => "approve",
            };
            let path = format!("review/{id}");
            // Somebody at the desk, or time, may have been quicker.
            drop(self.gateway.call(Method::POST, &path, Some(json!({ "action": action }))).await);
        }
    }

    /// Puts back what of the policy was changed for the host. What was counted stays.
    pub(super) async fn strike(self) {
        if let Some(before) = self.before {
            drop(self.gateway.attempt(Method::PATCH, "policy", Some(before.to_string())).await);
        }
    }
}

/// How many points the show gives in its first `time`: what is sent says so itself.
fn given_within(options: &DemoOptions, time: Duration) -> u64 {
    let gifts = (options.rate * time.as_secs_f64()).ceil().max(1.0) as u64;
    // The rest is like the beginning.
    let looked_at = gifts.min(2_000);
    let mut ids: HashMap<String, u64> = HashMap::new();
    for gift in Show::named(options.seed, "s", options.hostile).take(looked_at as usize) {
        let counts = gift["value"]["currency"].as_str().is_some_and(|code| POINTS.contains(&code));
        if counts && gift["test"] != true {
            // Frames of a combo say how much it is by now; a retry says the same again.
            let one = gift["combo"]["id"].as_str().or(gift["id"].as_str()).unwrap_or_default().to_owned();
            let most = ids.entry(one).or_default();
            *most = gift["value"]["amount"].as_u64().unwrap_or(0).max(*most);
        }
    }
    let points = ids.into_values().fold(0u64, u64::saturating_add);
    points.saturating_mul(gifts / looked_at).clamp(1, MAX_SAFE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::gateway::GatewayOptions;

    #[test]
    fn a_goal_takes_about_as_long_as_it_is_to_take_in_every_show() {
        for seed in 0..20 {
            let url = "http://127.0.0.1:1".parse().unwrap();
            let options = DemoOptions {
                hostile: false,
                gateway: GatewayOptions { url, key: None },
                feed: "demo".parse().unwrap(),
                rate: 5.0,
                seed,
                host: false,
                gifts_only: false,
            };
            let (half, whole) = (given_within(&options, FILLS_IN / 2), given_within(&options, FILLS_IN));
            assert!(half > 0 && half < whole, "{seed}: {half} of {whole}");
        }
    }
}
