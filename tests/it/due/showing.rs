//! Scheduled gifts as producers and watchers see them.

use serde_json::{Value, json};
use tipcast::domain::Millis;

use super::later;
use crate::support::TestApp;
use crate::support::app::Backing;
use crate::support::gifts::gift;

on_both_stores![
    a_gift_is_answered_202_and_reaches_watchers_when_it_is_due,
    a_whole_feed_may_be_delayed,
    scheduled_gifts_are_listed_and_cancelled,
    a_repeated_scheduled_gift_is_a_duplicate_before_and_after_showing,
    as_many_as_may_wait_and_no_more,
    scheduled_gifts_survive_a_restart_and_are_shown_in_order,
    a_later_gift_does_not_hold_up_an_earlier_one_that_came_after_it,
];

fn time(value: &Value) -> Millis {
    Millis::parse(value.as_str().unwrap()).unwrap()
}

async fn a_gift_is_answered_202_and_reaches_watchers_when_it_is_due() {
    let app = TestApp::start().await;
    let mut watcher = app.watch("show").await;
    let before = Millis::now();
    let said = app.post_gift("show", &later("g1", 300)).await;
    let after = Millis::now();
    assert_eq!(said.status, 202, "{said:?}");
    let answer = said.json();
    assert_eq!((&answer["status"], &answer["id"]), (&json!("scheduled"), &json!("g1")));
    assert_eq!(answer.as_object().unwrap().len(), 3);
    let due = time(&answer["deliver_at"]);
    assert!(before.plus(300) <= due && due <= after.plus(300), "{due}");
    assert_eq!(app.get_feed("show").await["epoch"], "0", "nobody wrote yet");
    watcher.wait_for_seq(1).await;
    let shown = time(&watcher.fold.rows[0]["at"]);
    assert!(shown >= due, "{shown} is before {due}");
    watcher.wait_for_the_list().await;
}

async fn a_whole_feed_may_be_delayed() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"delay_ms": 200})).await;
    let mut watcher = app.watch("show").await;
    let mut due = vec![];
    for n in 0..5 {
        let said = app.post_gift("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
        assert_eq!(said.status, 202);
        due.push(time(&said.json()["deliver_at"]));
    }
    let now = gift("now").by("now").with("delay_ms", json!(0));
    assert_eq!(app.give("show", &now).await["seq"], 1, "its own time counts");
    watcher.wait_for_seq(6).await;
    for (n, due) in due.iter().enumerate() {
        let row = &watcher.fold.rows[4 - n];
        assert_eq!(row["user"]["id"], format!("u{n}"));
        assert!(time(&row["at"]) >= *due);
    }
    app.patch_policy("show", json!({"delay_ms": 0})).await;
    assert_eq!(app.give("show", &gift("g9").by("u9")).await["seq"], 7);
}

async fn scheduled_gifts_are_listed_and_cancelled() {
    let app = TestApp::start().await;
    for n in 0..5 {
        app.post_gift("show", &later(&format!("g{n}"), 600_000 - 10_000 * n)).await;
    }
    let list = async |query: &str| app.get(&format!("/v1/feeds/show/scheduled{query}")).await.json();
    let all = list("").await;
    let ids = |page: &Value| -> Vec<String> {
        page["scheduled"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().into()).collect()
    };
    assert_eq!(
        (ids(&all), &all["next"]),
        (["g4", "g3", "g2", "g1", "g0"].map(String::from).into(), &Value::Null)
    );
    let first = &all["scheduled"][0];
    assert_eq!((&first["gift"]["user"]["id"], &first["gift"]["delay_ms"]), (&json!("g4"), &json!(560_000)));
    time(&first["deliver_at"]);
    let page = list("?limit=2").await;
    let rest = list(&format!("?limit=1000&after={}", page["next"].as_str().unwrap())).await;
    assert_eq!((ids(&page).len(), ids(&rest)), (2, ["g2", "g1", "g0"].map(String::from).into()));
    let gone = app.call("DELETE", "/v1/feeds/show/scheduled/g2", None).await;
    assert_eq!((gone.status, &gone.json()["status"]), (200, &json!("cancelled")));
    app.call("DELETE", "/v1/feeds/show/scheduled/g2", None).await.problem(404);
    app.call("DELETE", "/v1/feeds/show/scheduled/nobody", None).await.problem(404);
    assert_eq!(ids(&list("").await), ["g4", "g3", "g1", "g0"]);
    let again = app.post_gift("show", &later("g2", 580_000)).await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)));
    assert_eq!(ids(&list("").await).len(), 4, "a cancelled gift's id stays used");
    for query in ["?limit=0", "?limit=1001", "?after=nonsense"] {
        app.get(&format!("/v1/feeds/show/scheduled{query}")).await.problem(422);
    }
}

async fn a_repeated_scheduled_gift_is_a_duplicate_before_and_after_showing() {
    let app = TestApp::start().await;
    let mut watcher = app.watch("show").await;
    let first = app.post_gift("show", &later("g1", 150)).await.json();
    let again = app.post_gift("show", &later("g1", 150)).await;
    let mut wanted = first.clone();
    wanted["duplicate"] = json!(true);
    assert_eq!((again.status, again.json()), (200, wanted));
    app.post_gift("show", &later("g1", 151)).await.problem(422);
    watcher.wait_for_seq(1).await;
    let again = app.post_gift("show", &later("g1", 150)).await;
    let told = again.json();
    assert_eq!((again.status, &told["status"], &told["seq"]), (200, &json!("accepted"), &json!(1)));
    assert_eq!((&told["duplicate"], &told["row"]), (&json!(true), &watcher.fold.rows[0]["row"]));
    app.call("DELETE", "/v1/feeds/show/scheduled/g1", None).await.problem(409);
}

async fn as_many_as_may_wait_and_no_more() {
    let app = TestApp::with(&Backing::fresh(), |config| config.due.scheduled_max = 3).await;
    let gifts: Vec<_> = (0..5).map(|n| later(&format!("g{n}"), 90_000).json()).collect();
    let answer = app.post_batch("show", &gifts).await.json();
    assert_eq!((&answer["scheduled"], &answer["rejected"]), (&json!(3), &json!(2)), "{answer:#}");
    assert_eq!(answer["results"][4]["error"]["type"], "/problems/schedule-full");
    let full = app.post_gift("show", &later("g9", 1)).await;
    let problem = full.problem(429);
    assert_eq!(problem["type"], "/problems/schedule-full");
    assert!((80..=90).contains(&full.header("retry-after").parse::<u64>().unwrap()), "{full:?}");
    assert_eq!(app.post_gift("other", &later("g9", 90_000)).await.status, 202, "each feed has its own");
    app.give("show", &gift("now")).await;
    app.call("DELETE", "/v1/feeds/show/scheduled/g0", None).await;
    assert_eq!(app.post_gift("show", &later("g9", 90_000)).await.status, 202, "its id was not used");
}

async fn scheduled_gifts_survive_a_restart_and_are_shown_in_order() {
    let backing = Backing::fresh();
    let app = TestApp::on(&backing).await;
    app.patch_policy("show", json!({"capacity": 100, "dedup": "off"})).await;
    let due = Millis::now().plus(400).to_string();
    for part in 0..3 {
        let gifts = (0..30).map(|n| {
            let id = format!("g{:02}", part * 30 + n);
            gift(&id).by(&id).with("deliver_at", json!(due)).json()
        });
        let answer = app.post_batch("show", &gifts.collect::<Vec<_>>()).await.json();
        assert_eq!(answer["scheduled"], 30, "{answer:#}");
    }
    app.post_gift("show", &later("far", 600_000)).await;
    app.stop().await;
    let app = TestApp::on(&backing).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_until("all of them", |fold| fold.seq() >= 90).await;
    assert_eq!(watcher.fold.seq(), 90);
    let users: Vec<_> =
        watcher.fold.rows.iter().rev().map(|row| row["user"]["id"].as_str().unwrap()).collect();
    assert!(users.is_sorted() && users.len() == 90, "{users:?}");
    let first = time(&watcher.fold.rows[89]["at"]);
    assert!(first >= Millis::parse(&due).unwrap());
    assert_eq!(app.get("/v1/feeds/show/scheduled").await.json()["scheduled"][0]["id"], "far");
}

async fn a_later_gift_does_not_hold_up_an_earlier_one_that_came_after_it() {
    // Asleep for a minute, if nothing wakes it.
    let app = TestApp::with(&Backing::fresh(), |config| config.due.longest_sleep_ms = 60_000).await;
    app.post_gift("show", &later("far", 600_000)).await;
    let mut watcher = app.watch("show").await;
    app.post_gift("show", &later("near", 300)).await;
    app.post_gift("other", &later("nearer", 100)).await;
    watcher.wait_for_seq(1).await;
    assert_eq!(watcher.fold.rows[0]["user"]["id"], "near");
}
