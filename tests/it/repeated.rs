//! Calls that a client makes again because it got no answer: the second one changes nothing, whatever came between.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::gifts::gift;

on_both_stores!(any_call_may_be_made_again_and_any_other_in_between);

/// What was done with a gift before the calls.
const STATES: [&str; 5] = ["shown", "suppressed", "in review", "scheduled", "denied"];

/// What may be asked about it.
const CALLS: [&str; 6] = ["retract", "refund", "approve", "deny", "cancel", "block"];

struct Scene<'a> {
    app: &'a TestApp,
    feed: String,
}

impl Scene<'_> {
    /// A gift of 10.00 by Ann, in this state, beside one by Bob.
    async fn prepare(&self, state: &str) {
        let policy = json!({"dedup": "drop", "dedup_window_ms": 600_000, "totals": ["all"], "review_timeout_ms": 3_600_000});
        self.app.patch_policy(&self.feed, policy).await;
        self.app.give(&self.feed, &gift("other").by("bob").value(1, "EUR")).await;
        let mut one = gift("g").by("ann").value(1_000, "EUR");
        match state {
            "suppressed" => drop(self.app.give(&self.feed, &gift("first").by("ann").value(2, "EUR")).await),
            "in review" | "denied" => {
                self.app.patch_policy(&self.feed, json!({"review": "all"})).await;
            }
            "scheduled" => one = one.with("delay_ms", json!(3_600_000)),
            _ => {}
        }
        let said = self.app.post_gift(&self.feed, &one).await;
        assert!(said.status < 300, "{state}: {said:?}");
        if state == "denied" {
            assert_eq!(self.call("deny").await, 200);
        }
    }

    async fn call(&self, call: &str) -> u16 {
        let (method, path, body) = match call {
            "retract" => ("POST", "gifts/g/retract", json!({"reason": "chargeback"})),
            "refund" => ("POST", "gifts/g/refund", json!({"refunded": 400})),
            "approve" => ("POST", "review/g", json!({"action": "approve"})),
            "deny" => ("POST", "review/g", json!({"action": "deny"})),
            "cancel" => ("DELETE", "scheduled/g", Value::Null),
            _ => ("PUT", "blocks/ann", json!({"retract": true})),
        };
        let path = format!("/v1/feeds/{}/{path}", self.feed);
        let body = (!body.is_null()).then(|| body.to_string());
        let said = self.app.call(method, &path, body.as_deref()).await;
        assert!(said.status < 500, "{call}: {said:?}");
        said.status
    }

    /// Everything that a call may change and a second one may not.
    async fn seen(&self) -> Value {
        let get = async |path: &str| self.app.get(&format!("/v1/feeds/{}{path}", self.feed)).await.json();
        let mut ledger = get("/ledger?limit=1000").await;
        for entry in ledger["entries"].as_array_mut().unwrap() {
            *entry = json!([entry["type"], entry["gift"]["id"], entry["delta"]]);
        }
        let mut totals = get("/totals").await;
        totals["totals"]["all"].as_object_mut().unwrap().remove("since");
        json!({
            "rows": get("").await["rows"], "ledger": ledger, "totals": totals, "status": get("/gifts/g").await["status"],
            "review": get("/review").await, "scheduled": get("/scheduled").await,
        })
    }

    /// What is left of the gift's money.
    async fn money(&self) -> i64 {
        let path = format!("/v1/feeds/{}/ledger?limit=1000", self.feed);
        let ledger = self.app.get(&path).await.json();
        let own = ledger["entries"].as_array().unwrap().iter().filter(|it| it["gift"]["id"] == "g");
        own.filter_map(|entry| entry["delta"]["value"]["amount"].as_i64()).sum()
    }
}

async fn any_call_may_be_made_again_and_any_other_in_between() {
    let app = TestApp::with(&Backing::fresh(), |_| {}).await;
    for (n, state) in STATES.iter().enumerate() {
        for (at, first) in CALLS.iter().enumerate() {
            for (behind, second) in CALLS.iter().enumerate() {
                let scene = Scene { app: &app, feed: format!("show-{n}-{at}-{behind}") };
                scene.prepare(state).await;
                let story = format!("{state}: {first}, {second}");
                let status = scene.call(first).await;
                let after_first = scene.seen().await;
                if (*first, status) == ("retract", 200) {
                    assert_eq!(scene.money().await, 0, "{story}");
                }
                scene.call(first).await;
                assert_eq!(scene.seen().await, after_first, "{story}: the first one again");
                scene.call(second).await;
                let after_both = scene.seen().await;
                scene.call(second).await;
                assert_eq!(scene.seen().await, after_both, "{story}: the second one again");
                scene.call(first).await;
                if after_both == after_first || status < 300 {
                    assert_eq!(scene.seen().await, after_both, "{story}: the first one, late");
                }
                let money = scene.money().await;
                assert!((0..=1_000).contains(&money), "{story}: {money}");
            }
        }
    }
}
