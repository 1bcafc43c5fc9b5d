//! Snapshot, deltas, and the invariant: what a watcher folded is what GET says.

use serde_json::json;

use crate::support::TestApp;
use crate::support::gifts::gift;

#[tokio::test]
async fn a_watcher_gets_the_list_first_and_then_every_change() {
    let app = TestApp::start().await;
    app.give("show", &gift("g1")).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(1).await;
    assert_eq!((watcher.fold.snapshots, watcher.fold.skipped), (1, 0));
    app.give("show", &gift("g2")).await;
    app.give("show", &gift("g3").by("bob").with("meta", json!({"k": [1, 2.5, null]}))).await;
    let row = app.give("show", &gift("g4").by("eve")).await;
    app.retract("show", row["row"].as_str().unwrap()).await;
    watcher.wait_for_seq(5).await;
    assert_eq!((watcher.fold.snapshots, watcher.fold.ops), (1, 4));
    watcher.wait_for_the_list().await;
}
