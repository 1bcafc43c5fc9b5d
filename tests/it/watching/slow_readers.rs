//! A slow watcher is folded forward: never stale, never a hole, never in the others' way.

use serde_json::json;

use crate::support::TestApp;
use crate::support::gifts::gift;
use crate::support::watcher::Watcher;

on_both_stores_and_over_tls![
    a_watcher_that_does_not_read_for_a_while_converges_by_a_snapshot_that_says_what_it_skipped,
    a_watcher_that_never_reads_is_in_nobodys_way,
];

async fn pour(app: &TestApp, batches: std::ops::Range<u32>) {
    for batch in batches {
        let gifts: Vec<_> = (0..128)
            .map(|n| gift(&format!("b{batch}-{n}")).with("meta", json!({"pad": "x".repeat(900)})).json())
            .collect();
        assert_eq!(app.post_batch("show", &gifts).await.status, 200);
    }
}

async fn a_watcher_that_does_not_read_for_a_while_converges_by_a_snapshot_that_says_what_it_skipped() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "off", "flush_ms": 0})).await;
    app.give("show", &gift("first")).await;
    let mut fast = app.watch("show").await;
    let mut slow = Watcher::open_with(&app, "show", "", Some(131_072)).await;
    slow.wait_for_seq(1).await;
    pour(&app, 0..40).await;
    fast.wait_for_the_list().await;
    slow.wait_for_the_list().await;
    assert_eq!(slow.fold.seq(), 40 * 128 + 1);
    assert!(slow.fold.skipped > 0 && slow.fold.snapshots > 1, "{} skipped", slow.fold.skipped);
    assert_eq!(slow.fold.skipped + slow.fold.ops, 40 * 128, "every change is either seen or skipped");
    pour(&app, 40..41).await;
    slow.wait_for_the_list().await;
}

async fn a_watcher_that_never_reads_is_in_nobodys_way() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "off"})).await;
    app.give("show", &gift("first")).await;
    let stuck = Watcher::open_with(&app, "show", "", Some(131_072)).await;
    let mut fast = app.watch("show").await;
    pour(&app, 0..10).await;
    fast.wait_for_the_list().await;
    app.give("show", &gift("last")).await;
    fast.wait_for_the_list().await;
    drop(stuck);
}
