//! `[embedded] max_memory`: what takes more is refused before the machine suffers, and everything else goes on.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::receiver::SECRET;

const PATIENCE: Duration = Duration::from_secs(20);

fn bounded(backing: &Backing, most: &str) -> Process {
    let env = vec![("TIPCAST_EMBEDDED__MAX_MEMORY".to_owned(), most.to_owned())];
    Process::start("127.0.0.1:0", backing.args(), env)
}

async fn store_bytes(gateway: &Process) -> i64 {
    let text = gateway.get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix("tipcast_store_bytes "));
    line.expect("the size of the store is a metric").parse().unwrap()
}

#[tokio::test]
async fn a_full_store_refuses_gifts_says_so_and_goes_on_with_everything_else() {
    let backing = Backing::folder();
    let gateway = bounded(&backing, "1 MiB");
    let later = gift("later").with("delay_ms", json!(3_600_000));
    assert_eq!(gateway.post_gift("show", &later).await.status, 202);
    let claim = "/v1/feeds/show/groups/backend/claim";
    let (mut refused, mut warned, mut n) = (None, None, 0);
    while refused.is_none() {
        let said = gateway.post_gift("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
        match said.status {
            201 => {}
            _ => refused = Some(said),
        }
        let ready = gateway.get("/readyz").await;
        if ready.status == 200 && ready.json().get("warning").is_some() {
            warned.get_or_insert(n);
        }
        n += 1;
        assert!(n < 20_000, "it never was full");
    }
    let refused = refused.unwrap();
    let problem = refused.problem(503);
    assert_eq!(problem["type"], "/problems/store-full");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    let warned = warned.expect("from nine tenths on it says so");
    assert!(warned > n / 2 && warned < n, "{warned} of {n}");
    let since = Instant::now();
    let ready = loop {
        let said = gateway.get("/readyz").await;
        if said.status == 503 {
            break said.problem(503);
        }
        assert!(since.elapsed() < PATIENCE, "it stays green: {}", said.text);
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(ready["detail"].as_str().unwrap().contains("max_memory"), "{ready}");
    let bytes = store_bytes(&gateway).await;
    assert!((900 << 10..=1 << 20).contains(&bytes), "{bytes}");

    // A batch says it for each of its gifts, or as a whole; nothing of it is there.
    let batch: Vec<Value> = (0..100).map(|at| gift(&format!("b{at}")).by(&format!("b{at}")).json()).collect();
    gateway.post_batch("show", &batch).await.problem(503);
    // What does not grow goes on.
    assert_eq!(gateway.get_feed("show").await["rows"].as_array().unwrap().len(), 10);
    assert_eq!(gateway.give("show", &gift("g3").by("u3")).await["duplicate"], true);
    let entries = gateway.call("POST", claim, Some(r#"{"consumer":"c","max":100}"#)).await.json();
    let cursors: Vec<&Value> =
        entries["entries"].as_array().unwrap().iter().map(|it| &it["cursor"]).collect();
    assert!(!cursors.is_empty());
    let ack = json!({"cursors": cursors}).to_string();
    let said = gateway.call("POST", "/v1/feeds/show/groups/backend/ack", Some(&ack)).await;
    assert_eq!((said.status, said.json()["acked"].as_u64()), (200, Some(cursors.len() as u64)));
    let cancelled = gateway.request("DELETE", "/v1/feeds/show/scheduled/later").send().await.unwrap();
    assert_eq!(cancelled.status(), 200);
    let row = gateway.get_feed("show").await["rows"][0]["row"].as_str().unwrap().to_owned();
    assert_eq!(gateway.retract("show", &row).await.status, 200);
    // By the wish of somebody, only a little beyond the bound.
    let wishes = async || {
        for n in 0..20_000 {
            let policy = json!({"points": {"EUR": n, "coins": n + 1, "stars": n + 2}, "totals": ["all"]});
            let feed = format!("/v1/feeds/wish-{n}");
            for (method, path, body) in [
                ("PUT", format!("{feed}/policy"), policy),
                ("POST", format!("{feed}/control"), json!({"action": "pause"})),
                ("POST", format!("{feed}/groups/g/claim"), json!({"consumer": "c"})),
            ] {
                let said = gateway.call(method, &path, Some(&body.to_string())).await;
                if said.status == 503 {
                    assert_eq!(said.problem(503)["type"], "/problems/store-full", "{path}");
                    return;
                }
                assert!(said.status < 300, "{path}: {said:?}");
            }
        }
        panic!("they never end");
    };
    wishes().await;
    // Nor does a group or a webhook that is refused leave anything behind.
    let hook = json!({"url": "https://games.example/", "secret": SECRET}).to_string();
    for n in 0..300 {
        for (method, path, body) in [
            ("POST", format!("/v1/feeds/show/groups/refused-{n}/claim"), r#"{"consumer":"c"}"#),
            ("PUT", format!("/v1/feeds/refused-{n}/webhooks/game"), &hook),
        ] {
            let said = gateway.call(method, &path, Some(body)).await;
            assert_eq!(said.problem(503)["type"], "/problems/store-full", "{path}");
        }
    }
    let bytes = store_bytes(&gateway).await;
    assert!(bytes <= (1 << 20) + (1 << 20) / 20, "{bytes}");
    drop(gateway);

    // With more room it goes on where it was.
    let gateway = bounded(&backing, "4000000");
    let counted = store_bytes(&gateway).await;
    assert!((counted - bytes).abs() < bytes / 5, "{counted} after a start, {bytes} before");
    assert_eq!(gateway.give("show", &gift("more").by("somebody")).await["status"], "accepted");
    assert!(gateway.get("/readyz").await.json().get("warning").is_none());
}

#[test]
fn a_size_that_is_none_is_refused_with_how_to_write_one() {
    for (text, wanted) in [("lots", "512 MiB"), ("-1", "below 0"), ("1.5 GiB", "512 MiB")] {
        let env = vec![("TIPCAST_EMBEDDED__MAX_MEMORY".to_owned(), text.to_owned())];
        let (status, said) = Process::run_with(&["check-config".to_owned()], env);
        assert!(!status.success() && said.contains("max_memory") && said.contains(wanted), "{text}: {said}");
    }
}
