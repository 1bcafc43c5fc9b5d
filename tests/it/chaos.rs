//! Redis is cut off, stalls, is frozen, forgets; the gateway says so, and heals by itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::many::Many;
use crate::support::proxy::{Mode, Proxy};
use crate::support::redis_server::RedisServer;
use crate::support::sse::SseWatcher;
use crate::support::stores::Corner;
use crate::support::watcher::Watcher;

/// A gateway behind a proxy, and one that reaches the same Redis directly.
async fn behind_a_proxy() -> (Proxy, TestApp, TestApp) {
    let corner = Corner::new();
    let target = SocketAddr::from(([127, 0, 0, 1], corner.server.port));
    let proxy = Proxy::before(target).await;
    let direct = TestApp::on(&Backing::corner(corner.clone())).await;
    let behind = TestApp::on(&Backing::Redis(corner, format!("redis://{}/", proxy.address))).await;
    (proxy, behind, direct)
}

async fn until_ready(app: &TestApp, status: u16, patience: Duration) {
    let began = Instant::now();
    loop {
        let said = app.get("/readyz").await;
        if said.status == status {
            return;
        }
        assert!(began.elapsed() < patience, "/readyz says {} after {:?}", said.status, began.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
}

/// A write is refused with 503, the process lives, and it says that it isn't ready. (How soon is the probe's to say:
/// `http::health::tests`; and calls have their time-outs.)
async fn says_so(app: &TestApp) {
    let lost = until_ready(app, 503, 2 * PATIENCE);
    let write = async {
        let refused = timeout(2 * PATIENCE, app.post_gift("show", &gift("refused"))).await;
        refused.expect("no write hangs").problem(503);
    };
    let lives = async {
        for _ in 0..20 {
            assert_eq!(app.get("/healthz").await.status, 200);
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::join!(lost, write, lives);
    let more = async {
        app.post_batch("show", &[gift("refused too").with("id", json!("refused-too")).json()])
            .await
            .problem(503);
        app.retract("show", "nothing-1").await.problem(503);
    };
    timeout(2 * PATIENCE, more).await.expect("no write hangs");
    app.get("/readyz").await.problem(503);
}

/// Writes are taken again.
async fn heals(app: &TestApp, id: &str) {
    let began = Instant::now();
    loop {
        let said = app.post_gift("show", &gift(id).by(id)).await;
        match said.status {
            200 | 201 => break,
            _ => drop(said.problem(503)),
        }
        assert!(began.elapsed() < 2 * PATIENCE, "not healed after {:?}", began.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    until_ready(app, 200, 2 * PATIENCE).await;
}

async fn suffers(mode: Mode) {
    let (proxy, app, direct) = behind_a_proxy().await;
    until_ready(&app, 200, Duration::from_secs(5)).await;
    app.give("show", &gift("g1")).await;
    let mut watcher = app.watch("show").await;
    let mut sse = SseWatcher::open(&app, "show").await;
    let mut many = Many::open(&app).await;
    many.subscribe("show").await;
    watcher.wait_for_seq(1).await;
    sse.wait_for_seq(1).await;
    many.wait_until("the list", |m| m.fold("show").seq() == 1).await;
    for round in 0..2 {
        proxy.set(mode);
        says_so(&app).await;
        for n in 0..5 {
            direct.give("show", &gift(&format!("r{round}-{n}")).by(&format!("r{round}-{n}"))).await;
        }
        proxy.set(Mode::Open);
        heals(&app, &format!("healed{round}")).await;
        let seq = direct.get_feed("show").await["seq"].as_u64().unwrap();
        watcher.wait_for_the_list().await;
        sse.wait_until("the list", |fold| fold.seq() >= seq).await;
        many.wait_until("the list", |m| m.fold("show").seq() >= seq).await;
        watcher.fold.assert_is(&direct.get_feed("show").await);
    }
    // What was refused may or may not have happened; again with the same id it happens once.
    for _ in 0..2 {
        let said = app.post_gift("show", &gift("refused")).await;
        assert!(matches!(said.status, 200 | 201), "{said:?}");
    }
    let rows = app.get_feed("show").await["rows"].clone();
    let anns: u64 = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["user"]["id"] == "ann")
        .map(|r| r["count"].as_u64().unwrap())
        .sum();
    assert!(anns <= 3, "g1, refused, refused-too: {rows:#}");
    watcher.wait_for_the_list().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_cut_off_is_a_503_that_heals() {
    suffers(Mode::Cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_stalls_is_a_503_that_heals() {
    suffers(Mode::Stalled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_cuts_and_stalls_are_not_seen_by_watchers() {
    let (proxy, app, direct) = behind_a_proxy().await;
    direct.patch_policy("show", json!({"history": 100_000})).await;
    direct.give("show", &gift("g1")).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(1).await;
    for n in 0..12u32 {
        proxy.set(if n % 2 == 0 { Mode::Cut } else { Mode::Stalled });
        for k in 0..10 {
            direct.give("show", &gift(&format!("g{n}-{k}")).by(&format!("u{}", n * k % 17))).await;
        }
        proxy.set(Mode::Open);
        direct.give("show", &gift(&format!("open{n}")).by(&format!("open{n}"))).await;
        if n % 3 == 0 {
            watcher.wait_for_the_list().await;
        }
    }
    watcher.wait_for_the_list().await;
    assert_eq!(
        watcher.fold.skipped + watcher.fold.ops + 1,
        watcher.fold.seq(),
        "each change seen or skipped once"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_is_a_503_that_heals() {
    let server = Arc::new(RedisServer::start());
    let app = TestApp::on(&Backing::corner(Corner::of(server.clone()))).await;
    until_ready(&app, 200, Duration::from_secs(5)).await;
    app.give("show", &gift("g1")).await;
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(1).await;
    server.freeze();
    says_so(&app).await;
    server.thaw();
    heals(&app, "healed").await;
    watcher.wait_for_the_list().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_starts_while_redis_is_away_and_serves_when_it_comes() {
    let corner = Corner::new();
    let proxy = Proxy::before(SocketAddr::from(([127, 0, 0, 1], corner.server.port))).await;
    proxy.set(Mode::Cut);
    let app = TestApp::on(&Backing::Redis(corner, format!("redis://{}/", proxy.address))).await;
    app.get("/readyz").await.problem(503);
    app.post_gift("show", &gift("g1")).await.problem(503);
    proxy.set(Mode::Open);
    heals(&app, "healed").await;
    app.watch("show").await.wait_for_the_list().await;
}

async fn forgets(forget: impl AsyncFnOnce(&mut RedisServer)) {
    let mut server = RedisServer::start();
    let (url, prefix) = (server.url(), "t:".to_owned());
    // The server is restarted by the test, so the corner only lends its address.
    let corner = Corner { server: Arc::new(RedisServer::start()), prefix };
    let backing = Backing::Redis(corner, url);
    let (a, b) = (TestApp::on(&backing).await, TestApp::on(&backing).await);
    for n in 0..5 {
        a.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    let (mut one, mut two) = (a.watch("show").await, b.watch("show").await);
    one.wait_for_seq(5).await;
    two.wait_for_seq(5).await;
    let old = one.fold.epoch().to_owned();
    forget(&mut server).await;
    for watcher in [&mut one, &mut two] {
        let what = "a snapshot of another life";
        watcher.follow_until(Duration::from_secs(10), what, |fold| fold.epoch() != old).await;
    }
    heals(&a, "after").await;
    heals(&b, "after-b").await;
    for watcher in [&mut one, &mut two] {
        watcher.follow_until(Duration::from_secs(10), "the new gifts", |fold| fold.rows.len() == 2).await;
        watcher.wait_for_the_list().await;
        assert_ne!(watcher.fold.epoch(), old);
    }
    assert_eq!(one.fold.at, two.fold.at);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushall_under_watchers_gives_them_a_snapshot_of_a_new_epoch() {
    forgets(async |server: &mut RedisServer| {
        redis::cmd("FLUSHALL").query::<()>(&mut server.connect()).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_back_empty_gives_watchers_a_snapshot_of_a_new_epoch() {
    forgets(async |server: &mut RedisServer| server.start_again()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_of_a_forgotten_life_gets_a_snapshot() {
    let server = Arc::new(RedisServer::start());
    let app = TestApp::on(&Backing::corner(Corner::of(server.clone()))).await;
    for n in 0..5 {
        app.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
    }
    let mut watcher = app.watch("show").await;
    watcher.wait_for_seq(5).await;
    watcher.disconnect();
    let old = watcher.fold.epoch().to_owned();
    redis::cmd("FLUSHALL").query::<()>(&mut server.connect()).unwrap();
    for n in 0..9 {
        app.give("show", &gift(&format!("n{n}")).by(&format!("u{n}"))).await;
    }
    watcher.reconnect().await;
    watcher.follow_until(Duration::from_secs(10), "another life", |fold| fold.epoch() != old).await;
    watcher.wait_for_the_list().await;
    assert_eq!(watcher.fold.rows.len(), 9);
    let mut late = Watcher::open(&app, "show").await;
    late.wait_for_the_list().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_from_another_node_is_not_shown_an_older_list_while_redis_is_away() {
    for mode in [Mode::Cut, Mode::Stalled] {
        let (proxy, behind, direct) = behind_a_proxy().await;
        direct.give("show", &gift("g1")).await;
        let mut stays = behind.watch("show").await;
        stays.wait_for_seq(1).await;
        proxy.set(mode);
        let mut moves = direct.watch("show").await;
        for n in 2..8 {
            direct.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
        }
        moves.wait_for_seq(7).await;
        moves.disconnect();
        moves.api = Api::clone(&behind);
        // Whether it is let in now or asked to come again: what it sees is never older than what it has.
        let _ = moves.try_reconnect().await;
        let _ = timeout(Duration::from_secs(3), moves.step()).await;
        proxy.set(Mode::Open);
        moves.wait_for_the_list().await;
        stays.wait_for_the_list().await;
    }
}
