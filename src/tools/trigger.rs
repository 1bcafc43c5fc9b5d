//! `tipcast trigger`: makes one real entry of a type happen, to try a program with that reads the ledger.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use clap::Args;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::gateway::{Attempt, Claimed, Gateway, GatewayOptions};
use super::stop_signal;
use crate::console;
use crate::domain::ledger::ENTRY_TYPES;
use crate::domain::{FeedId, Millis};

/// The drop that `drop.sold` sells from. A feed has few, and none can be deleted.
const DROP: &str = "trigger";

/// How long to wait for the entry to be handed out.
const WAIT_MS: u64 = 5_000;

/// The options of `tipcast trigger`.
#[derive(Clone, Debug, Args)]
pub struct TriggerOptions {
    /// The entry's type, such as gift.accepted.
    #[arg(value_name = "TYPE")]
    kind: String,
    #[command(flatten)]
    gateway: GatewayOptions,
    /// The feed.
    #[arg(long)]
    feed: FeedId,
}

/// Why there is no entry.
#[derive(Debug)]
pub enum TriggerError {
    /// There is no such type, or none that can be made to happen.
    Usage(String),
    /// The HTTP client could not be made, or standard output cannot be written.
    Io(io::Error),
    /// Nothing answers at the address; says which, and what to do.
    Unreachable(String),
    /// The gateway refuses; says what, and why.
    Refused(String),
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TriggerError::Usage(why) | TriggerError::Unreachable(why) | TriggerError::Refused(why) => {
                f.write_str(why)
            }
            TriggerError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TriggerError {}

impl From<io::Error> for TriggerError {
    fn from(error: io::Error) -> Self {
        TriggerError::Io(error)
    }
}

/// Makes the entry happen, takes away what it had to make for that, and prints the entry as a line of JSON.
///
/// # Errors
/// See [`TriggerError`].
///
/// Boxed in this crate, so that the program that awaits it need not compile it.
pub fn run(options: TriggerOptions) -> Pin<Box<dyn Future<Output = Result<(), TriggerError>>>> {
    Box::pin(async {
        tokio::select! {
            done = trigger(options) => done,
            () = interrupted_twice() => Err(TriggerError::Refused(
                "it was stopped: the feed may keep a policy, a block, a drop or a goal of it".into(),
            )),
        }
    })
}

/// Ends at the second SIGINT or SIGTERM. The first one leaves the time to take away what was made: a feed that goes on reviewing everything
/// would be found out on air.
async fn interrupted_twice() {
    let signal = || async {
        if stop_signal().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    signal().await;
    console::complain("taking away what was made for it; once more to stop at once");
    signal().await;
}

async fn trigger(options: TriggerOptions) -> Result<(), TriggerError> {
    check_type(&options.kind)?;
    let gateway = Gateway::new(&options.gateway, &options.feed)?;
    gateway.reach().await.map_err(TriggerError::Unreachable)?;
    let name = format!("trigger-{}", uuid::Uuid::now_v7().simple());
    let stage = Stage { gateway, name };
    let group = format!("groups/{}", stage.name);
    let claim = json!({"consumer": "tipcast trigger", "max": 1_000, "lease_ms": 600_000, "from": "now"});
    // A group of our own sees the entry, whatever else the feed's ledger has. Without the right to it, nothing is printed.
    let reads = match stage.call(Method::POST, &format!("{group}/claim"), Some(claim.clone())).await {
        Ok(_) => true,
        Err(why) => {
            console::complain(format!("the entry will not be printed: {why}"));
            false
        }
    };
    let made = stage.make(&options.kind).await;
    let found = match made.is_ok() && reads {
        true => stage.find(&options.kind, &format!("{group}/claim"), claim).await,
        false => None,
    };
    if reads {
        let _ = stage.gateway.attempt(Method::DELETE, &group, None).await;
    }
    made?;
    match found {
        Some(entry) => console::print(format!("{entry}\n"))?,
        None => console::complain(format!("{} happened to feed {}", options.kind, options.feed)),
    }
    Ok(())
}

fn check_type(kind: &str) -> Result<(), TriggerError> {
    let why = match kind {
        "ledger.lost" => "ledger.lost cannot be triggered: it is about entries that were cut from the ledger",
        "person.erased" => "person.erased cannot be triggered: it would erase a person",
        kind if ENTRY_TYPES.contains(&kind) => return Ok(()),
        _ => {
            let all = ENTRY_TYPES.iter().filter(|it| !matches!(**it, "ledger.lost" | "person.erased"));
            let all: Vec<&str> = all.copied().collect();
            return Err(TriggerError::Usage(format!(
                "{kind:?} is no type of entry; take one of {}",
                all.join(", ")
            )));
        }
    };
    Err(TriggerError::Usage(why.into()))
}

/// A feed, and the name of all that is made there.
struct Stage {
    gateway: Gateway,
    name: String,
}

#[derive(Deserialize)]
struct Known {
    #[serde(rename = "type")]
    kind: String,
}

impl Stage {
    /// Calls until there is an answer.
    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, TriggerError> {
        self.gateway.call(method, path, body).await.map_err(|(status, words)| {
            let hint = match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    ". Give a key: --key, or the variable TIPCAST_KEY"
                }
                _ => "",
            };
            TriggerError::Refused(format!("the gateway refuses {path}: {status} {words}{hint}"))
        })
    }

    /// What the entry's type needs to happen.
    async fn make(&self, kind: &str) -> Result<(), TriggerError> {
        match kind {
            "gift.merged" => self.merge().await,
            "gift.suppressed" => self.suppress().await,
            "gift.denied" => self.deny().await,
            "gift.retracted" => {
                self.show(json!({})).await?;
                self.call(Method::POST, &format!("gifts/{}/retract", self.name), None).await.map(drop)
            }
            "gift.refunded" => {
                self.show(json!({"value": {"amount": 500, "currency": "EUR"}})).await?;
                let refund = json!({"refunded": 100, "reason": "tipcast trigger"});
                self.call(Method::POST, &format!("gifts/{}/refund", self.name), Some(refund)).await.map(drop)
            }
            "drop.sold" => self.sell().await,
            "goal.reached" => self.reach_goal().await,
            _ => self.expect("accepted", self.show(json!({})).await?),
        }
    }

    fn person(&self) -> Value {
        json!({"id": self.name, "name": "Trigger"})
    }

    /// Posts a gift named as this, with these members too, shown at once whatever the feed's delay. What came of it.
    async fn give(&self, more: Value) -> Result<String, TriggerError> {
        let mut gift = json!({
            "id": self.name, "user": self.person(), "gift": {"id": "trigger", "name": "Trigger"}, "delay_ms": 0
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            gift[name] = value.clone();
        }
        let answer = self.call(Method::POST, "gifts", Some(gift)).await?;
        Ok(answer["status"].as_str().unwrap_or_default().to_owned())
    }

    /// [`Stage::give`], and approves the gift where a host is to look at it first.
    async fn show(&self, more: Value) -> Result<String, TriggerError> {
        let id = more["id"].as_str().unwrap_or(&self.name).to_owned();
        let status = self.give(more).await?;
        if status != "in_review" {
            return Ok(status);
        }
        self.call(Method::POST, &format!("review/{id}"), Some(json!({"action": "approve"}))).await?;
        Ok("approved".into())
    }

    fn expect(&self, wanted: &str, status: String) -> Result<(), TriggerError> {
        // What an approved gift became is seen in the ledger.
        if status == wanted || status == "approved" {
            return Ok(());
        }
        let why = format!(
            "the gift is {status}, not {wanted}, by the feed's policy; take a feed with the default policy"
        );
        Err(TriggerError::Refused(why))
    }

    /// Frames of a combo are merged whatever the feed's dedup says.
    async fn merge(&self) -> Result<(), TriggerError> {
        let frame = |count: u32| json!({"id": format!("{}-{count}", self.name), "combo": {"id": self.name, "count": count}});
        self.show(frame(1)).await?;
        self.expect("merged", self.show(frame(2)).await?)
    }

    async fn suppress(&self) -> Result<(), TriggerError> {
        let block = format!("blocks/{}", self.name);
        self.call(Method::PUT, &block, Some(json!({}))).await?;
        let given = self.give(json!({})).await;
        self.call(Method::DELETE, &block, None).await?;
        self.expect("suppressed", given?)
    }

    async fn deny(&self) -> Result<(), TriggerError> {
        let before = self.call(Method::GET, "policy", None).await?["review"].clone();
        self.call(Method::PATCH, "policy", Some(json!({"review": "all"}))).await?;
        let given = self.give(json!({"message": "tipcast trigger"})).await;
        self.call(Method::PATCH, "policy", Some(json!({ "review": before }))).await?;
        self.expect("in_review", given?)?;
        let deny = json!({"action": "deny"});
        self.call(Method::POST, &format!("review/{}", self.name), Some(deny)).await.map(drop)
    }

    async fn sell(&self) -> Result<(), TriggerError> {
        let path = format!("drops/{DROP}");
        let sold = match self.gateway.call(Method::GET, &path, None).await {
            Ok(drop) => drop["sold"].as_u64().unwrap_or(0) + drop["held"].as_u64().unwrap_or(0),
            Err(_) => 0,
        };
        let mut drop_spec = json!({"gift": {"id": "trigger", "name": "Trigger"}, "total": sold + 1});
        self.call(Method::PUT, &path, Some(drop_spec.clone())).await?;
        let claim = json!({"id": self.name, "user": self.person(), "count": 1, "pay": "now"});
        let claimed = self.call(Method::POST, &format!("{path}/claims"), Some(claim)).await;
        drop_spec["closes_at"] = json!(Millis::now().to_string());
        self.call(Method::PUT, &path, Some(drop_spec)).await?;
        claimed.map(drop)
    }

    async fn reach_goal(&self) -> Result<(), TriggerError> {
        let counted = self.call(Method::GET, "policy", None).await?["totals"].clone();
        let period = counted[0].as_str().unwrap_or("session").to_owned();
        let counts_nothing = counted.as_array().is_none_or(Vec::is_empty);
        if counts_nothing {
            self.call(Method::PATCH, "policy", Some(json!({"totals": [period]}))).await?;
        }
        let reached = self.reach_goal_of(&period).await;
        let deleted = self.call(Method::DELETE, &format!("goals/{}", self.name), None).await;
        if counts_nothing {
            self.call(Method::PATCH, "policy", Some(json!({"totals": []}))).await?;
        }
        reached.and(deleted.map(drop))
    }

    async fn reach_goal_of(&self, period: &str) -> Result<(), TriggerError> {
        let path = format!("goals/{}", self.name);
        let goal =
            |target: u64| json!({"title": "Trigger", "period": period, "by": "units", "target": target});
        let far = self.call(Method::PUT, &path, Some(goal(crate::domain::MAX_SAFE))).await?;
        let value = far["value"].as_u64().unwrap_or(0);
        self.call(Method::PUT, &path, Some(goal(value.saturating_add(1)))).await?;
        self.show(json!({})).await?;
        // Reached within half a second: what is counted is added up by then.
        for _ in 0..50 {
            let goal = self.call(Method::GET, &path, None).await?;
            if goal["reached_at"].is_string() {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Err(TriggerError::Refused("the goal was not reached; another program may have changed it".into()))
    }

    /// The newest entry of this type that came since the group was made.
    async fn find(&self, kind: &str, path: &str, mut claim: Value) -> Option<Box<RawValue>> {
        claim["wait_ms"] = WAIT_MS.into();
        loop {
            let Attempt::Answered(answer) =
                self.gateway.attempt(Method::POST, path, Some(claim.to_string())).await
            else {
                return None;
            };
            let Claimed { entries } = serde_json::from_str(&answer).ok()?;
            if entries.is_empty() {
                return None;
            }
            let is_it = |entry: &str| {
                entry.contains(&self.name)
                    && serde_json::from_str::<Known>(entry).is_ok_and(|it| it.kind == kind)
            };
            if let Some(entry) = entries.into_iter().rfind(|entry| is_it(entry.get())) {
                return Some(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_there_are_can_be_triggered_but_two() {
        for kind in ENTRY_TYPES {
            assert_eq!(check_type(kind).is_ok(), !matches!(kind, "ledger.lost" | "person.erased"), "{kind}");
        }
        let said = check_type("gift").unwrap_err().to_string();
        assert!(said.contains("gift.accepted") && !said.contains("ledger.lost"), "{said}");
    }
}
