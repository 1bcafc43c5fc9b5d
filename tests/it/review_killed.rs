//! A gateway that is killed while hosts decide: what was answered is so, and what is shown is shown once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::watcher::Watcher;

const HOSTS: usize = 6;
const GIFTS: usize = 48;

/// How often each gateway is killed: few, or as many as `KILLS` says.
fn kills() -> usize {
    std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(2)
}

fn action(n: usize) -> &'static str {
    ["approve", "approve", "mask", "deny"][n % 4]
}

fn path(id: &str) -> String {
    format!("/v1/feeds/show/review/{id}")
}

/// Decides about every gift of this host, until the gateway dies; gives what was answered.
async fn decide(api: Api, round: usize, host: usize, answered: Arc<AtomicUsize>) -> BTreeMap<String, Value> {
    let mut answers = BTreeMap::new();
    for n in (host..GIFTS).step_by(HOSTS) {
        let id = format!("r{round}-{n}");
        let request = api.request("POST", &path(&id)).json(&json!({"action": action(n)}));
        match Api::try_send(request).await {
            Ok(said) if said.status == 200 => {
                answered.fetch_add(1, Ordering::Relaxed);
                answers.insert(id, said.json());
            }
            Ok(said) => panic!("{id}: {said:?}"),
            Err(_) => break,
        }
    }
    answers
}

/// Every entry of the ledger by gift: how often it is there, and as what.
async fn ledger(api: &Api, round: usize) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    loop {
        let claim = json!({"consumer": "t", "max": 1_000, "lease_ms": 600_000});
        let path = format!("/v1/feeds/show/groups/after-{round}/claim");
        let said = api.call("POST", &path, Some(&claim.to_string())).await;
        assert_eq!(said.status, 200, "{said:?}");
        let entries = said.json()["entries"].as_array().unwrap().clone();
        if entries.is_empty() {
            return all;
        }
        for entry in entries {
            let id = entry["gift"]["id"].as_str().unwrap().to_owned();
            all.entry(id).or_default().push(entry["type"].as_str().unwrap().to_owned());
        }
    }
}

async fn is_killed_while_hosts_decide(backing: Backing) {
    let mut gateway = Process::on(&backing);
    let policy = json!({
        "review": "all", "review_timeout_ms": 3_600_000, "dedup": "off", "capacity": 100, "history": 100_000,
    });
    gateway.patch_policy("show", policy).await;
    let mut watcher = Watcher::open(&gateway, "show").await;
    watcher.wait_until("a list", |fold| fold.snapshots == 1).await;
    for round in 0..kills() {
        let gifts: Vec<Value> = (0..GIFTS)
            .map(|n| gift(&format!("r{round}-{n}")).by(&format!("u{n}")).with("message", json!("hi")).json())
            .collect();
        let posted = gateway.post_batch("show", &gifts).await.json();
        assert_eq!(posted["in_review"], GIFTS, "{posted}");
        let answered = Arc::new(AtomicUsize::new(0));
        let hosts: Vec<_> = (0..HOSTS)
            .map(|host| tokio::spawn(decide(Api::clone(&gateway), round, host, answered.clone())))
            .collect();
        // In the middle of it, each time elsewhere.
        let enough = 3 + 7 * (round % 5);
        while answered.load(Ordering::Relaxed) < enough {
            sleep(Duration::from_millis(1)).await;
        }
        gateway.kill();
        let mut answers = BTreeMap::new();
        for host in hosts {
            answers.extend(host.await.unwrap());
        }

        gateway = Process::on(&backing);
        watcher.api = Api::clone(&gateway);
        // What was answered is the answer still; what was not is decided now, or was before the kill.
        for n in 0..GIFTS {
            let id = format!("r{round}-{n}");
            let body = json!({"action": action(n)}).to_string();
            let said = gateway.call("POST", &path(&id), Some(&body)).await;
            assert_eq!(said.status, 200, "{id}: {said:?}");
            if let Some(first) = answers.get(&id) {
                assert_eq!(&said.json(), first, "{id}");
            }
            let denied = action(n) == "deny";
            assert_eq!(said.json()["status"], if denied { "denied" } else { "accepted" }, "{id}");
        }
        assert_eq!(gateway.get("/v1/feeds/show/review").await.json(), json!({"review": []}));
        let entered = ledger(&gateway, round).await;
        assert_eq!(entered.len(), (round + 1) * GIFTS);
        for (id, statuses) in &entered {
            let n: usize = id.rsplit('-').next().unwrap().parse().unwrap();
            assert_eq!(
                statuses,
                &[if action(n) == "deny" { "gift.denied" } else { "gift.accepted" }],
                "{id}: once"
            );
        }
        // A feed has this number of groups and no more.
        let gone = gateway.call("DELETE", &format!("/v1/feeds/show/groups/after-{round}"), None).await;
        assert_eq!(gone.status, 204, "{gone:?}");
        // Each that is shown is one change of the list, and there is no other.
        let shown = (0..GIFTS).filter(|n| action(*n) != "deny").count() * (round + 1);
        let feed = gateway.get_feed("show").await;
        assert_eq!(feed["seq"], shown, "{}", feed["seq"]);
        watcher.follow_until(PATIENCE, "all of them", |fold| fold.seq() >= shown as u64).await;
        watcher.fold.assert_is(&feed);
    }
}

#[tokio::test]
async fn an_approval_is_shown_once_when_a_gateway_on_a_folder_is_killed_after_its_answer() {
    is_killed_while_hosts_decide(Backing::folder()).await;
}

#[tokio::test]
async fn an_approval_is_shown_once_when_a_gateway_on_redis_is_killed_after_its_answer() {
    is_killed_while_hosts_decide(Backing::redis()).await;
}
