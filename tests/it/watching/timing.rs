//! The first change of a quiet feed goes at once; what follows is gathered for at most `flush_ms`.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::TestApp;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::watcher::Watcher;

on_both_stores_and_over_tls![
    a_newcomer_sees_what_was_acknowledged,
    the_first_change_is_sent_at_once_and_the_next_ones_are_gathered,
    without_gathering_every_change_goes_at_once,
    a_burst_is_few_frames,
    a_watcher_may_ask_for_fewer_frames_and_still_converges,
];

/// The longest `flush_ms`.
const WINDOW: Duration = Duration::from_secs(1);

async fn the_first_change_is_sent_at_once_and_the_next_ones_are_gathered() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"flush_ms": 1_000, "dedup": "off"})).await;
    app.give("show", &gift("g0")).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(1).await;
    // A machine that does much else may be late once and again. Were the first change gathered too, it would be late
    // each time; were the others not, they would be more frames each time.
    let (mut at_once, mut gathered, mut seq) = (false, false, 1);
    let deadline = Instant::now() + 6 * PATIENCE;
    while !(at_once && gathered) {
        assert!(Instant::now() < deadline, "at once {at_once}, gathered {gathered}");
        // Quiet is a matter of time.
        tokio::time::sleep(WINDOW + Duration::from_millis(200)).await;
        let begun = Instant::now();
        seq += 1;
        app.give("show", &gift(&format!("g{seq}"))).await;
        watcher.wait_for_seq(seq).await;
        at_once |= begun.elapsed() < WINDOW * 7 / 10;
        let deltas = watcher.fold.deltas;
        for _ in 0..6 {
            seq += 1;
            app.give("show", &gift(&format!("g{seq}"))).await;
        }
        watcher.wait_for_seq(seq).await;
        gathered |= watcher.fold.deltas <= deltas + 2;
    }
}

async fn a_newcomer_sees_what_was_acknowledged() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"flush_ms": 1_000, "dedup": "off"})).await;
    let _first = app.watch("show").await;
    for n in 1..=6 {
        let answer = app.give("show", &gift(&format!("g{n}"))).await;
        let mut newcomer = app.watch("show").await;
        newcomer.wait_until("the list", |fold| fold.at.is_some()).await;
        assert!(newcomer.fold.seq() >= answer["seq"].as_u64().unwrap(), "{}", newcomer.fold.story());
    }
}

async fn without_gathering_every_change_goes_at_once() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"flush_ms": 0, "dedup": "off"})).await;
    app.give("show", &gift("g0")).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(1).await;
    for n in 1..=20 {
        app.give("show", &gift(&format!("g{n}"))).await;
        watcher.wait_for_seq(n + 1).await;
    }
    assert_eq!(watcher.fold.deltas, 20);
}

async fn a_burst_is_few_frames() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"dedup": "off"})).await;
    app.give("show", &gift("g0")).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(1).await;
    for batch in 0..8 {
        let gifts: Vec<_> = (0..100).map(|n| gift(&format!("b{batch}-{n}")).json()).collect();
        assert_eq!(app.post_batch("show", &gifts).await.status, 200);
    }
    watcher.wait_for_the_list().await;
    assert_eq!(watcher.fold.seq(), 801);
    assert!(watcher.fold.deltas + watcher.fold.snapshots < 100, "{} deltas", watcher.fold.deltas);
}

async fn a_watcher_may_ask_for_fewer_frames_and_still_converges() {
    let app = TestApp::start().await;
    app.patch_policy("show", json!({"flush_ms": 0, "dedup": "off"})).await;
    app.give("show", &gift("g0")).await;
    let mut calm = Watcher::open_with(&app, "show", "?max_hz=2", None).await;
    let mut keen = app.watch("show").await;
    calm.wait_for_seq(1).await;
    keen.wait_for_seq(1).await;
    let began = Instant::now();
    for posted in 1..=60 {
        app.give("show", &gift(&format!("g{posted}"))).await;
        keen.wait_for_seq(posted + 1).await;
    }
    calm.wait_for_the_list().await;
    let frames = calm.fold.deltas + calm.fold.snapshots - 1;
    assert!(keen.fold.deltas > 30, "{} frames of 60 gifts", keen.fold.deltas);
    let most = 2.0 * began.elapsed().as_secs_f64() + 2.0;
    assert!(
        f64::from(frames as u32) <= most,
        "twice a second, and yet {frames} frames in {:?}",
        began.elapsed()
    );
}
