//! `?without=totals`: a watcher that asks gets no totals, leaders and goals, and the same list as everybody.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::fold::Fold;
use crate::support::gifts::gift;
use crate::support::many::Many;
use crate::support::sse::SseWatcher;
use crate::support::watcher::Watcher;

on_both_stores_and_over_tls![
    a_watcher_without_totals_gets_the_same_rows,
    it_holds_for_what_was_missed_too,
    a_watcher_that_wants_them_again_gets_them_with_its_snapshot,
    another_word_is_refused,
];

const WITHOUT: &str = "?without=totals";

/// A feed that counts, with a goal and a gift.
async fn counting(app: &TestApp) {
    app.patch_policy("show", json!({"totals": ["all", "day"], "points": {"EUR": 1}, "dedup": "off"})).await;
    let goal = json!({"title": "Mic", "period": "all", "by": "units", "target": 10});
    assert_eq!(app.call("PUT", "/v1/feeds/show/goals/mic", Some(&goal.to_string())).await.status, 201);
    give(app, 0..1).await;
}

async fn give(app: &TestApp, ids: std::ops::Range<u32>) {
    for n in ids {
        let gift = gift(&format!("g{n}")).by(&format!("u{}", n % 3)).value(100, "EUR");
        app.give("show", &gift).await;
    }
}

/// Everything that `gifts` gifts make was sent.
fn told(fold: &Fold, gifts: u64) -> bool {
    fold.totals.get("all").is_some_and(|all| all["gifts"] == gifts)
        && fold.goals.get("mic").is_some_and(|goal| goal["value"] == gifts)
}

fn is_without(fold: &Fold, like: &Fold) {
    assert!(fold.totals.is_empty() && fold.goals.is_empty(), "{}", fold.story());
    assert_eq!(fold.rows, like.rows, "{}", fold.story());
}

async fn a_watcher_without_totals_gets_the_same_rows() {
    let app = TestApp::start().await;
    counting(&app).await;
    let mut every = app.watch("show").await;
    every.wait_until("what was counted", |fold| told(fold, 1)).await;
    let mut fewer = Watcher::open_with(&app, "show", WITHOUT, None).await;
    let mut seldom = Watcher::open_with(&app, "show", "?max_hz=5&without=totals", None).await;
    let mut events = SseWatcher::open_with(&app, "show", WITHOUT).await;
    let mut many = Many::open(&app).await;
    many.subscribe_with("show", json!({"without": "totals"})).await;
    many.subscribe("other").await;
    for fold in [&mut fewer, &mut seldom] {
        fold.wait_until("a list", |fold| fold.snapshots == 1).await;
    }
    events.wait_until("a list", |fold| fold.snapshots == 1).await;
    many.wait_until("a list", |m| m.fold("show").snapshots == 1).await;
    give(&app, 1..25).await;
    every.wait_until("what was counted", |fold| told(fold, 25)).await;
    let seq = every.fold.seq();
    fewer.wait_until("all of it", |fold| fold.seq() >= seq).await;
    seldom.wait_until("all of it", |fold| fold.seq() >= seq).await;
    events.wait_until("all of it", |fold| fold.seq() >= seq).await;
    many.wait_until("all of it", |m| m.fold("show").seq() >= seq).await;
    assert_eq!(every.fold.nones, 0);
    assert!(every.fold.goals["mic"]["reached_at"].is_string());
    for fold in [&fewer.fold, &seldom.fold, &events.fold, many.fold("show")] {
        is_without(fold, &every.fold);
        assert!(fold.nones > 0 || fold.snapshots > 1, "{}", fold.story());
    }
    // Their frames are not what changes a list: GET has it for everybody.
    let said = app.get_feed("show").await;
    assert!(said["totals"]["all"]["gifts"] == 25 && said["rows"] == json!(fewer.fold.rows), "{said}");
}

async fn it_holds_for_what_was_missed_too() {
    let backing = Backing::fresh();
    let app = TestApp::on(&backing).await;
    counting(&app).await;
    let mut every = app.watch("show").await;
    every.wait_until("what was counted", |fold| told(fold, 1)).await;
    let mut fewer = Watcher::open_with(&app, "show", WITHOUT, None).await;
    fewer.wait_until("a list", |fold| fold.snapshots == 1).await;
    // From the ring of a gateway that runs, and from the history of one that began anew.
    fewer.disconnect();
    give(&app, 1..9).await;
    every.wait_until("what was counted", |fold| told(fold, 9)).await;
    fewer.reconnect().await;
    fewer.wait_until("what it missed", |fold| fold.seq() >= every.fold.seq()).await;
    is_without(&fewer.fold, &every.fold);
    fewer.disconnect();
    give(&app, 9..20).await;
    every.wait_until("what was counted", |fold| told(fold, 20)).await;
    every.disconnect();
    app.stop().await;
    let app = TestApp::on(&backing).await;
    fewer.api = Api::clone(&app);
    fewer.reconnect().await;
    fewer.wait_until("what it missed", |fold| fold.seq() >= every.fold.seq()).await;
    is_without(&fewer.fold, &every.fold);
    assert_eq!((fewer.fold.snapshots, fewer.fold.resumes), (1, 2), "{}", fewer.fold.story());
    assert!(fewer.fold.nones >= 4, "{}", fewer.fold.story());
}

async fn a_watcher_that_wants_them_again_gets_them_with_its_snapshot() {
    let app = TestApp::start().await;
    counting(&app).await;
    let mut many = Many::open(&app).await;
    many.subscribe_with("show", json!({"without": "totals"})).await;
    many.wait_until("a list", |m| m.fold("show").snapshots == 1).await;
    assert!(many.fold("show").totals.is_empty());
    // Until nothing more comes: what is on its way while it is watched anew belongs to the watch before.
    let mut every = app.watch("show").await;
    every.wait_until("what was counted", |fold| told(fold, 1)).await;
    many.wait_until("as much", |m| m.fold("show").seq() == every.fold.seq()).await;
    // Watching a feed again starts it anew, as it is asked for then.
    many.subscribe("show").await;
    many.wait_until("what was counted", |m| told(m.fold("show"), 1)).await;
}

async fn another_word_is_refused() {
    let app = TestApp::start().await;
    for word in ["drops", "", "Totals", "totals,goals", "totals%00"] {
        for way in ["ws", "sse"] {
            let path = format!("/v1/feeds/show/{way}?without={word}");
            let request = app
                .request("GET", &path)
                .header("connection", "upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
            let problem = Api::send(request).await.problem(422);
            assert!(problem.to_string().contains("without must be totals"), "{word}: {problem}");
        }
    }
    let mut many = Many::open(&app).await;
    for without in [json!("drops"), json!(""), json!(true), json!(["totals"]), Value::Null] {
        let before = many.errors.len();
        let command = json!({"type": "subscribe", "feed": "show", "without": without});
        many.say(&command.to_string()).await;
        many.wait_until(&format!("an error for {without}"), |m| m.errors.len() > before).await;
        let error = many.errors.last().unwrap();
        assert_eq!((&error["code"], &error["feed"]), (&json!("bad_command"), &json!("show")), "{error}");
        assert!(error["message"].as_str().unwrap().starts_with("without must be"), "{error}");
    }
    // The socket stays, and nothing is watched by halves.
    many.subscribe("show").await;
    many.wait_until("a list", |m| m.fold("show").snapshots == 1).await;
}
