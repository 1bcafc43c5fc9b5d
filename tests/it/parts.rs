//! Parts of the gateway that are killed or held up one by one, by faults that only test builds have
//! (`tipcast::supervise::faults`): each is started again and does its work, or the process ends and says so.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tipcast::auth::token::mint::Minter;
use tipcast::domain::Millis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::collector::{Collector, attribute};
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::receiver::{Receiver, SECRET};
use crate::support::watcher::Watcher;

/// A gateway with a folder of faults.
struct Faulty {
    gateway: Process,
    faults: TempDir,
    _backing: Backing,
}

impl std::ops::Deref for Faulty {
    type Target = Process;
    fn deref(&self) -> &Process {
        &self.gateway
    }
}

impl Faulty {
    fn start() -> Faulty {
        Faulty::on(Backing::folder())
    }

    fn on(backing: Backing) -> Faulty {
        Faulty::with(backing, &[])
    }

    fn with(backing: Backing, settings: &[(&str, &str)]) -> Faulty {
        let faults = TempDir::new().unwrap();
        let mut env = backing.env();
        env.push(("TIPCAST_FAULTS".into(), faults.path().display().to_string()));
        env.push(("TIPCAST_WEBHOOKS__ALLOW_PRIVATE".into(), "true".into()));
        env.extend(settings.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let gateway = Process::start("127.0.0.1:0", backing.args(), env);
        Faulty { gateway, faults, _backing: backing }
    }

    fn inject(&self, point: &str, what: &str) {
        // Whole at once: a reader never sees half of it.
        let file = self.faults.path().join(format!("{point}.new"));
        std::fs::write(&file, what).unwrap();
        std::fs::rename(file, self.faults.path().join(point)).unwrap();
    }

    async fn struck(&self, point: &str) {
        let file = self.faults.path().join(format!("{point}.struck"));
        self.until(&format!("{point} is struck"), async || file.exists()).await;
        std::fs::remove_file(file).unwrap();
    }

    async fn until(&self, what: &str, mut there: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE + Duration::from_secs(10);
        while !there().await {
            assert!(Instant::now() < deadline, "in time: {what}\n{}", self.said());
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn restarts(&self, part: &str) -> u64 {
        // On a connection of its own: another may have been cut with the part.
        let text = Api::at(self.base.clone()).get("/metrics").await.text;
        let line = format!("tipcast_part_restarts_total{{part=\"{part}\"}} ");
        let found = text.lines().find_map(|it| it.strip_prefix(&line)).unwrap_or_else(|| panic!("{text}"));
        found.parse().unwrap()
    }

    /// Panics the part at its next step and waits until it runs again.
    async fn kill(&self, part: &str) {
        let before = self.restarts(part).await;
        self.inject(part, "panic");
        self.struck(part).await;
        self.until(&format!("{part} runs again"), async || self.restarts(part).await == before + 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_dies_ends_the_process_with_a_message_and_nothing_acknowledged_is_lost() {
    let mut faulty = Faulty::start();
    faulty.give("show", &gift("kept")).await;
    faulty.inject("writer", "panic");
    let ended = tokio::task::block_in_place(|| faulty.gateway.wait());
    assert_eq!(ended.code(), Some(1));
    faulty.wait_for_words("the writer thread of the embedded store has ended");
    let again = Process::on(&faulty._backing);
    assert_eq!(again.get_feed("show").await["rows"][0]["user"]["id"], gift("kept").json()["user"]["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_dies_starts_anew_and_its_watchers_old_and_new_have_the_list() {
    let faulty = Faulty::start();
    faulty.give("show", &gift("one").by("a")).await;
    let mut old = Watcher::open(&faulty, "show").await;
    old.wait_for_seq(1).await;
    faulty.inject("replica", "panic");
    faulty.give("show", &gift("two").by("b")).await;
    faulty.struck("replica").await;
    let mut new = Watcher::open(&faulty, "show").await;
    for watcher in [&mut old, &mut new] {
        watcher.wait_for_the_list().await;
        assert_eq!(watcher.fold.seq(), 2, "{}", watcher.fold.story());
    }
    faulty.give("show", &gift("three").by("c")).await;
    old.wait_for_seq(3).await;
    new.wait_for_seq(3).await;
    assert_eq!(faulty.restarts("replica").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn due_gifts_are_shown_after_their_loop_died() {
    let faulty = Faulty::start();
    faulty.inject("due", "panic");
    let said = faulty.post_gift("show", &gift("later").with("delay_ms", json!(300))).await;
    assert_eq!(said.status, 202, "{said:?}");
    faulty.struck("due").await;
    faulty.until("it is shown", async || faulty.get_feed("show").await["seq"] == 1).await;
    assert_eq!(faulty.restarts("due").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_sent_to_although_their_loop_died() {
    let (faulty, receiver) = (Faulty::start(), Receiver::start().await);
    faulty.inject("reports", "panic");
    let hook = json!({"url": format!("http://{}/", receiver.address), "secret": SECRET, "batch_ms": 0});
    let said = faulty.call("PUT", "/v1/feeds/show/webhooks/w", Some(&hook.to_string())).await;
    assert_eq!(said.status, 201, "{said:?}");
    faulty.give("show", &gift("told")).await;
    faulty.struck("reports").await;
    faulty.until("it is delivered", async || !receiver.got().is_empty()).await;
    assert_eq!(receiver.got()[0].gifts(), ["told"]);
    assert_eq!(faulty.restarts("reports").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_comparison_with_the_store_goes_on_although_it_died() {
    let faulty = Faulty::start();
    faulty.kill("compare").await;
    faulty.kill("compare").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn key_sets_are_fetched_although_the_loop_for_it_died() {
    let sets = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", sets.local_addr().unwrap());
    let faulty = Faulty::with(Backing::folder(), &[("TIPCAST_AUTH__TOKENS__JWKS_URL", &url)]);
    let asked = async || drop(timeout(2 * PATIENCE, sets.accept()).await.expect("it is asked for").unwrap());
    asked().await;
    faulty.kill("key_set").await;
    asked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_who_is_revoked_on_another_node_is_refused_although_what_learns_of_it_died() {
    const SECRET: &str = "a secret of the tests that is longer than it must be";
    const ADMIN: &str = "admin-key-0123456789";
    let settings = [
        ("TIPCAST_AUTH__ADMIN_KEYS", ADMIN),
        ("TIPCAST_AUTH__TOKENS__HS256_SECRETS", SECRET),
        ("TIPCAST_FEEDS__VISIBILITY", "private"),
    ];
    let faulty = Faulty::with(Backing::redis(), &settings);
    let other = TestApp::with(&faulty._backing, |config| {
        config.auth.admin_keys = vec![ADMIN.to_owned().into()];
        config.auth.tokens.hs256_secrets = vec![SECRET.to_owned().into()];
        config.feeds.visibility = "private".into();
    })
    .await;
    let seconds = Millis::now().0 as f64 / 1e3;
    for viewer in ["ann", "eve"] {
        let claims = json!({"sub": viewer, "iat": seconds - 5.0, "exp": seconds + 3_000.0, "feeds": ["*"]});
        let token = Minter::secret(SECRET).sign(&claims, None).unwrap();
        let status =
            async || Api::send(faulty.request("GET", "/v1/feeds/show").bearer_auth(&token)).await.status;
        faulty.until("the token is taken", async || status().await == 200).await;
        faulty.kill("revocations").await;
        let path = format!("/v1/viewers/{viewer}/revoke");
        let said = Api::send(other.request("POST", &path).bearer_auth(ADMIN)).await;
        assert_eq!(said.status, 200, "{said:?}");
        faulty.until("it is refused", async || status().await == 401).await;
    }
    assert_eq!(faulty.restarts("revocations").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_goes_on_although_its_thread_died_and_the_line_that_it_held_is_counted() {
    const KEY: &str = "producer-0123456789";
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("audit.log");
    let settings = [("TIPCAST_LOG__AUDIT", file.to_str().unwrap()), ("TIPCAST_AUTH__PRODUCER_KEYS", KEY)];
    let faulty = Faulty::with(Backing::folder(), &settings);
    let change = async |capacity: u64| {
        let change = faulty.request("PATCH", "/v1/feeds/show/policy").bearer_auth(KEY);
        let said = Api::send(change.json(&json!({"capacity": capacity}))).await;
        assert_eq!(said.status, 200, "{said:?}");
    };
    let lines = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
    change(5).await;
    faulty.until("the first line", async || lines() == 1).await;
    faulty.inject("audit", "panic");
    change(6).await;
    faulty.struck("audit").await;
    change(7).await;
    faulty.until("the third line", async || lines() == 2).await;
    assert_eq!(faulty.restarts("audit").await, 1);
    let metrics = faulty.get("/metrics").await.text;
    assert!(metrics.contains("\ntipcast_audit_dropped_total 1\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_are_sent_on_although_the_loop_for_it_died_and_what_it_held_is_counted() {
    let collector = Collector::start().await;
    let faulty = Faulty::with(Backing::folder(), &[("TIPCAST_LOG__OTLP_URL", &collector.url())]);
    faulty.inject("traces", "panic");
    faulty.give("lost", &gift("g").by("u")).await;
    faulty.struck("traces").await;
    faulty.until("the loop runs again", async || faulty.restarts("traces").await == 1).await;
    assert_eq!(faulty.get("/healthz").await.status, 200);
    faulty.give("sent", &gift("g").by("u")).await;
    collector.wait_for("what came after", |span| attribute(span, "url.path").contains("/sent/")).await;
    let metrics = faulty.get("/metrics").await.text;
    assert!(metrics.contains("\ntipcast_trace_spans_total{outcome=\"lost\"} 1\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_rung_for_and_told_of_changes_although_the_tasks_for_it_died() {
    let faulty = Faulty::start();
    faulty.give("show", &gift("g0").by("u0")).await;
    let mut spaced = Watcher::open_with(&faulty, "show", "?max_hz=5", None).await;
    let mut plain = Watcher::open(&faulty, "show").await;
    for (n, part) in (1u64..).zip(["ticks", "moves", "ticks", "moves"]) {
        faulty.inject(part, "panic");
        let before = faulty.restarts(part).await;
        // The spaced watcher's deadline rings the wheel; a change moves the board.
        faulty.give("show", &gift(&format!("g{n}")).by(&format!("u{n}"))).await;
        faulty.struck(part).await;
        spaced.wait_for_seq(n + 1).await;
        plain.wait_for_seq(n + 1).await;
        faulty.until("it runs again", async || faulty.restarts(part).await == before + 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_of_sockets_that_dies_begins_anew_and_its_watchers_come_back() {
    let faulty = Faulty::start();
    faulty.give("show", &gift("one").by("a")).await;
    let mut watcher = Watcher::open(&faulty, "show").await;
    watcher.wait_for_seq(1).await;
    faulty.inject("sockets", "panic");
    faulty.give("show", &gift("two").by("b")).await;
    faulty.struck("sockets").await;
    watcher.follow_until(PATIENCE, "the second gift", |fold| fold.seq() == 2).await;
    watcher.wait_for_the_list().await;
    faulty.until("it runs again", async || faulty.restarts("sockets").await == 1).await;
}

/// A WebSocket watcher of bytes.
async fn raw_watcher(faulty: &Faulty, feed: &str) -> TcpStream {
    let mut stream = TcpStream::connect(faulty.authority()).await.unwrap();
    let ask = format!(
        "GET /v1/feeds/{feed}/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    assert!(hears(&mut stream, "\"seq\":").await, "the list of {feed}");
    stream
}

/// Whether it hears this, or its connection ends before.
async fn hears(stream: &mut TcpStream, what: &str) -> bool {
    let (mut told, mut some) = (String::new(), [0; 4096]);
    while !told.contains(what) {
        match timeout(PATIENCE, stream.read(&mut some)).await {
            Ok(Ok(n @ 1..)) => told.push_str(&String::from_utf8_lossy(&some[..n])),
            // A reset is an end too.
            Ok(Ok(0) | Err(_)) => return false,
            Err(_) => panic!("it neither hears {what} nor is it cut, but hears {told}"),
        }
    }
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchers_of_a_small_feed_share_a_thread_and_those_of_others_outlive_its_death() {
    let faulty = Faulty::with(Backing::folder(), &[("TIPCAST_HTTP__WORKERS", "4")]);
    let feeds: Vec<String> = (0..24).map(|n| format!("room-{n}")).collect();
    let mut rooms = Vec::new();
    for feed in &feeds {
        let mut watchers = Vec::new();
        for _ in 0..6 {
            watchers.push(raw_watcher(&faulty, feed).await);
        }
        rooms.push(watchers);
    }
    faulty.inject("sockets", "panic");
    faulty.until("it runs again", async || faulty.restarts("sockets").await == 1).await;
    let mut cut = 0;
    for (feed, watchers) in feeds.iter().zip(&mut rooms) {
        faulty.give(feed, &gift("after").by("a")).await;
        let mut heard = 0;
        for watcher in watchers.iter_mut() {
            heard += usize::from(hears(watcher, "Rose").await);
        }
        assert!(heard == 0 || heard == watchers.len(), "{heard} of {} of {feed} live on", watchers.len());
        cut += usize::from(heard == 0);
    }
    assert!((1..feeds.len()).contains(&cut), "{cut} rooms were cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_answers_requests_and_dies_begins_anew_and_watchers_do_not_notice() {
    let faulty = Faulty::start();
    faulty.give("show", &gift("one").by("a")).await;
    let mut watcher = Watcher::open(&faulty, "show").await;
    watcher.wait_for_seq(1).await;
    faulty.inject("requests", "panic");
    let mut cut = TcpStream::connect(faulty.authority()).await.unwrap();
    cut.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut told = Vec::new();
    // A reset is an end too.
    let _ = timeout(PATIENCE, cut.read_to_end(&mut told)).await.expect("its connections are cut");
    assert!(told.is_empty(), "{:?}", String::from_utf8_lossy(&told));
    faulty.struck("requests").await;
    faulty.until("it runs again", async || faulty.restarts("requests").await == 1).await;
    // More than one for each thread.
    for n in 0..8 {
        let producer = Api::at(faulty.base.clone());
        producer.give("show", &gift(&format!("after-{n}")).by(&format!("b{n}"))).await;
    }
    watcher.wait_for_seq(9).await;
    watcher.wait_for_the_list().await;
    assert_eq!(faulty.restarts("requests").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_is_stuck_turns_readiness_red_and_is_named_until_it_goes_on() {
    let faulty = Faulty::start();
    faulty.until("it is ready", async || faulty.get("/readyz").await.status == 200).await;
    faulty.inject("due", "stall 14000");
    let said = faulty.post_gift("show", &gift("later").with("delay_ms", json!(1))).await;
    assert_eq!(said.status, 202, "{said:?}");
    faulty.struck("due").await;
    faulty.until("it is red", async || faulty.get("/readyz").await.status == 503).await;
    let detail = faulty.get("/readyz").await.problem(503)["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("the loop that does what is due"), "{detail}");
    let metrics = faulty.get("/metrics").await.text;
    assert!(metrics.contains("\ntipcast_ready 0\n"), "the metric agrees");
    assert_eq!(faulty.get("/healthz").await.status, 200, "it is slow, not dead");
    faulty.until("it is green", async || faulty.get("/readyz").await.status == 200).await;
}
