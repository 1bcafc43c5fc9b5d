//! A gateway that runs on a folder while its clock is set, its disk fills up, or one of its feeds is damaged.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tipcast::domain::Millis;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::claims::{hold, rockets, with};
use crate::support::damage::hurt;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::watcher::Watcher;

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;

/// A gateway whose faults are files in a folder, see `tipcast::supervise::faults`.
fn faulty(args: Vec<String>, faults: &Path) -> Process {
    let env = vec![("TIPCAST_FAULTS".to_owned(), faults.display().to_string())];
    Process::start("127.0.0.1:0", args, env)
}

/// Whole at once: a reader never sees half of it.
fn put(faults: &Path, point: &str, what: &str) {
    std::fs::write(faults.join("new"), what).unwrap();
    std::fs::rename(faults.join("new"), faults.join(point)).unwrap();
}

async fn until(what: &str, mut there: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + 2 * PATIENCE;
    while !there().await {
        assert!(Instant::now() < deadline, "in time: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Gifts without end to some feeds, until it is asked to stop; each must be taken.
struct Load {
    stop: Arc<AtomicBool>,
    producers: JoinSet<Vec<(String, String)>>,
}

impl Load {
    fn on(api: &Api, feeds: &[&str]) -> Load {
        let (stop, mut producers) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for feed in feeds {
            let (api, feed, stop) = (Api::clone(api), (*feed).to_owned(), stop.clone());
            producers.spawn(async move {
                let mut taken = vec![];
                while !stop.load(Ordering::Relaxed) {
                    let id = format!("load-{}", taken.len());
                    api.give(&feed, &gift(&id).by(&format!("u{}", taken.len() % 9))).await;
                    taken.push((feed.clone(), id));
                }
                taken
            });
        }
        Load { stop, producers }
    }

    /// Everything that was taken: feeds and ids.
    async fn end(self) -> Vec<(String, String)> {
        self.stop.store(true, Ordering::Relaxed);
        self.producers.join_all().await.concat()
    }
}

/// A gateway whose clock the test sets.
struct Clock {
    gateway: Process,
    faults: TempDir,
    offset: Cell<i64>,
}

impl Clock {
    fn step_to(&self, offset: i64) {
        self.offset.set(offset);
        put(self.faults.path(), "clock", &offset.to_string());
    }

    fn now(&self) -> Millis {
        Millis(Millis::now().0 + self.offset.get())
    }

    async fn knows(&self, id: &str) {
        let again = self.gateway.post_gift("show", &gift(id)).await;
        assert_eq!(
            (again.status, &again.json()["duplicate"]),
            (200, &json!(true)),
            "{id} at {}: {again:?}",
            self.offset.get()
        );
    }

    /// The rows of a feed by the id of their user.
    async fn row_of(&self, feed: &str, user: &str) -> Option<Value> {
        let rows = self.gateway.get_feed(feed).await["rows"].clone();
        rows.as_array().unwrap().iter().find(|row| row["user"]["id"] == user).cloned()
    }

    /// One gift for later, which is shown at its time by this clock, and not before.
    async fn shows_what_is_scheduled(&self, id: &str) {
        let later = gift(id).by(id).with("delay_ms", json!(600));
        let said = self.gateway.post_gift("later", &later).await;
        assert_eq!(said.status, 202, "{said:?}");
        let due = Millis::parse(said.json()["deliver_at"].as_str().unwrap()).unwrap();
        assert!(due <= self.now().plus(600), "{due}");
        until("it is shown", async || self.row_of("later", id).await.is_some()).await;
        assert!(self.now() >= due, "it is early");
        let at = self.row_of("later", id).await.unwrap()["at"].as_str().unwrap().to_owned();
        assert!(Millis::parse(&at).unwrap() >= due, "{at} is before {due}");
    }

    /// A row with a ttl, and a hold: both end by themselves.
    async fn ends_what_is_over(&self, name: &str) {
        self.gateway.give("short", &gift(name).by(name)).await;
        let claims = "/v1/feeds/show/drops/quick/claims";
        let said = self.gateway.call("POST", claims, Some(&hold(name, name).to_string())).await;
        assert_eq!(said.status, 201, "{said:?}");
        until("the row is over", async || self.row_of("short", name).await.is_none()).await;
        until("the hold is over", async || self.holds(name).await == 0).await;
    }

    async fn holds(&self, user: &str) -> usize {
        let said = self.gateway.get(&format!("/v1/feeds/show/users/{user}/holds")).await.json();
        said["holds"].as_array().unwrap().len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_under_load_loses_no_id_and_nothing_is_early_or_late_by_the_clock_that_is_right_now()
 {
    let faults = TempDir::new().unwrap();
    let backing = Backing::folder();
    let gateway = faulty(backing.args(), faults.path());
    let t = Clock { gateway, faults, offset: Cell::new(0) };
    t.gateway.patch_policy("short", json!({"row_ttl_ms": 1_000})).await;
    t.gateway.patch_policy("later", json!({"capacity": 100})).await;
    let drop = async |name: &str, ttl: i64| {
        let spec = with(rockets(50), "hold_ttl_ms", json!(ttl)).to_string();
        let said = t.gateway.call("PUT", &format!("/v1/feeds/show/drops/{name}"), Some(&spec)).await;
        assert_eq!(said.status, 201, "{said:?}");
    };
    drop("quick", 1_000).await;
    drop("slow", DAY).await;
    let group = async |path: &str, body: Value| {
        let said =
            t.gateway.call("POST", &format!("/v1/feeds/load/groups/g/{path}"), Some(&body.to_string())).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()
    };
    group("claim", json!({"consumer": "c"})).await;
    let load = Load::on(&t.gateway, &["load", "load-2"]);
    t.gateway.give("show", &gift("before")).await;
    let tomorrow = gift("tomorrow").by("tomorrow").with("delay_ms", json!(DAY));
    assert_eq!(t.gateway.post_gift("later", &tomorrow).await.status, 202);
    let claims = "/v1/feeds/show/drops/slow/claims";
    let held = t.gateway.call("POST", claims, Some(&hold("day", "patient").to_string())).await;
    assert_eq!(held.status, 201, "{held:?}");

    for (n, offset) in [2 * DAY, 0, -HOUR, 0].into_iter().enumerate() {
        t.step_to(offset);
        let new = format!("new-{n}");
        t.gateway.give("show", &gift(&new)).await;
        t.shows_what_is_scheduled(&format!("soon-{n}")).await;
        t.ends_what_is_over(&format!("over-{n}")).await;
        t.knows(&new).await;
        if n == 0 {
            until("it is long tomorrow", async || t.row_of("later", "tomorrow").await.is_some()).await;
            until("the hold of a day is over", async || t.holds("patient").await == 0).await;
        } else {
            for id in ["before", "new-0"].into_iter().chain((n > 1).then_some("new-1")) {
                t.knows(id).await;
            }
        }
    }
    let mut watcher = Watcher::open(&t.gateway, "load").await;
    watcher.wait_for_the_list().await;
    let taken = load.end().await;
    assert!(taken.len() > 50, "{}", taken.len());
    let mut wanted: Vec<String> =
        taken.into_iter().filter_map(|(feed, id)| (feed == "load").then_some(id)).collect();
    let mut got: Vec<String> = vec![];
    loop {
        let entries = group("claim", json!({"consumer": "c", "max": 1_000, "lease_ms": 600_000})).await;
        let entries = entries["entries"].as_array().unwrap().clone();
        if entries.is_empty() {
            break;
        }
        got.extend(entries.iter().map(|entry| entry["gift"]["id"].as_str().unwrap().to_owned()));
    }
    wanted.sort();
    got.sort();
    assert_eq!(got, wanted, "nothing that nobody has read was cut, and each is there once");
}

/// A disk with little room, if one can be made here; else the engine is made to see a full disk.
struct Disk {
    dir: TempDir,
    faults: TempDir,
    mounted: bool,
}

impl Disk {
    fn small() -> Disk {
        let (dir, faults) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"]).arg(dir.path());
        let mounted = mount.output().is_ok_and(|done| done.status.success());
        if !mounted {
            println!("no small disk can be mounted here: the fault is injected instead");
        }
        Disk { dir, faults, mounted }
    }

    fn ballast(&self) -> PathBuf {
        self.dir.path().join("ballast")
    }

    fn fill(&self) {
        if !self.mounted {
            return put(self.faults.path(), "disk", "fail");
        }
        use std::io::Write;
        let mut file = std::fs::File::create(self.ballast()).unwrap();
        while file.write_all(&[0x55; 4_096]).is_ok() {}
    }

    fn free(&self) {
        let full = if self.mounted { self.ballast() } else { self.faults.path().join("disk") };
        std::fs::remove_file(full).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.dir.path()).output();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_turns_readiness_red_and_says_why_and_the_first_write_after_green_succeeds() {
    let disk = Disk::small();
    let data = disk.dir.path().join("data").display().to_string();
    let gateway = faulty(vec!["--data-dir".into(), data], disk.faults.path());
    gateway.patch_policy("short", json!({"row_ttl_ms": 1_000})).await;
    let ready = async || gateway.get("/readyz").await.status == 200;
    let (mut posted, mut taken) = (0, 0);
    let mut give = async || {
        posted += 1;
        let long =
            gift(&format!("g{posted}")).by(&format!("u{posted}")).with("message", json!("m".repeat(190)));
        let said = gateway.post_gift("show", &long).await;
        taken += u64::from(said.status == 201);
        (said.status, taken)
    };
    until("it is ready", ready).await;
    for round in 0..3 {
        assert_eq!(give().await.0, 201);
        gateway.give("short", &gift(&format!("short-{round}"))).await;
        disk.fill();
        until("writes are refused", async || give().await.0 == 503).await;
        until("it is red", async || !ready().await).await;
        let said = gateway.get("/readyz").await.problem(503);
        assert!(said["detail"].as_str().unwrap().contains("full"), "{said}");
        assert!(gateway.get("/metrics").await.text.contains("\ntipcast_ready 0\n"), "the metric agrees");
        assert_eq!(gateway.get("/healthz").await.status, 200, "nothing is dead");
        let seq = gateway.get_feed("show").await["seq"].clone();
        for _ in 0..5 {
            let (status, taken) = give().await;
            assert_eq!((status, json!(taken)), (503, seq.clone()), "what is refused is not shown");
        }
        // Also a feed whose rows are over meanwhile is read.
        let until_over = Instant::now() + Duration::from_millis(1_100);
        until("its row is over", async || Instant::now() > until_over).await;
        assert_eq!(gateway.get("/v1/feeds/short").await.status, 200);
        disk.free();
        until("it is green", ready).await;
        assert_eq!(give().await.0, 201, "round {round}: the first write after green");
        // Killed now, it leaves a folder that is whole: what the failed commits wrote is no damage.
        let left = TempDir::new().unwrap();
        for name in ["tipcast.db", "tipcast.db-wal"] {
            std::fs::copy(disk.dir.path().join("data").join(name), left.path().join(name)).unwrap();
        }
        let (code, said) = super::store_command::store(left.path(), &["check"]);
        assert_eq!(code, Some(0), "round {round}: {said}");
        let copy = Process::serve(&["--data-dir".to_owned(), left.path().display().to_string()]);
        let seq = gateway.get_feed("show").await["seq"].clone();
        assert_eq!(copy.get_feed("show").await["seq"], seq, "round {round}");
    }
    let said = gateway.said();
    let lines = said.lines().filter(|line| line.contains("a commit failed")).count();
    assert!((1..=3).contains(&lines), "said once each time it fills up, not for every write: {lines}");
    // Stopped in good order and started again while it is full, on a disk that really is.
    if !disk.mounted {
        return;
    }
    let seq = gateway.get_feed("show").await["seq"].clone();
    let mut gateway = gateway;
    gateway.terminate();
    gateway.wait();
    disk.fill();
    let data = disk.dir.path().join("data").display().to_string();
    let gateway = faulty(vec!["--data-dir".into(), data], disk.faults.path());
    assert_eq!(gateway.get_feed("show").await["seq"], seq, "what is there is read");
    let red = gateway.get("/readyz").await.problem(503);
    assert!(red["detail"].as_str().unwrap().contains("full"), "{red}");
    assert_eq!(gateway.post_gift("show", &gift("later")).await.status, 503);
    disk.free();
    until("it is green", async || gateway.get("/readyz").await.status == 200).await;
    assert_eq!(gateway.post_gift("show", &gift("later")).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_is_damaged_is_503_alone_while_somebody_keeps_asking_for_it_and_others_take_everything() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let healthy = ["one", "two", "three", "four"];
    let gateway = Process::on(&backing);
    for feed in healthy.iter().chain(&["rotten"]) {
        gateway.give(feed, &gift("g")).await;
        let later = gift("later").by("later").with("delay_ms", json!(1_500));
        assert_eq!(gateway.post_gift(feed, &later).await.status, 202);
    }
    drop(gateway);
    hurt(dir.path(), "rotten", "hist");
    let gateway = Process::on(&backing);
    let load = Load::on(&gateway, &healthy);
    let mut asked = 0;
    let begun = Instant::now();
    while asked < 200 && begun.elapsed() < PATIENCE {
        let said = match asked % 3 {
            0 => gateway.post_gift("rotten", &gift(&format!("x{asked}"))).await,
            1 => gateway.get("/v1/feeds/rotten").await,
            _ => gateway.get("/v1/feeds/rotten/scheduled").await,
        };
        assert_eq!(said.problem(503)["type"], "/problems/feed-damaged");
        asked += 1;
    }
    // Each was taken, or the load would have panicked.
    let taken = load.end().await;
    println!(
        "{} gifts of {} healthy feeds taken, {asked} answers 503 of the damaged one",
        taken.len(),
        healthy.len()
    );
    for feed in healthy {
        let of_feed = taken.iter().filter(|(name, _)| name == feed).count() as u64;
        assert!(of_feed > 0, "{feed}");
        let shows = async || gateway.get_feed(feed).await["seq"].as_u64().unwrap();
        until("what was scheduled before is shown", async || {
            let said =
                gateway.post_gift(feed, &gift("later").by("later").with("delay_ms", json!(1_500))).await;
            said.json()["status"] != "scheduled"
        })
        .await;
        assert!(shows().await >= 2, "{feed}");
    }
    let metrics = gateway.get("/metrics").await.text;
    assert!(metrics.contains("\ntipcast_feeds_damaged 1\n"), "{metrics}");
    let lines = gateway.said().lines().filter(|line| line.contains("is damaged; it answers 503")).count();
    assert!(lines <= 1 && gateway.said().contains("rotten"), "said once: {}", gateway.said());
    assert_eq!(gateway.get("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_hangs_holds_up_what_it_writes_and_no_other_feed() {
    let (backing, faults) = (Backing::folder(), TempDir::new().unwrap());
    let gateway = faulty(backing.args(), faults.path());
    for feed in ["slow", "other"] {
        gateway.give(feed, &gift("g1")).await;
    }
    // Longer than a write may take.
    put(faults.path(), "before-commit", "stall 6000");
    let api = Api::clone(&gateway);
    let posted = tokio::spawn(async move { api.post_gift("slow", &gift("g2").by("another")).await });
    let struck = faults.path().join("before-commit.struck");
    until("the commit hangs", async || struck.exists()).await;
    let read = async |path: &str| assert_eq!(gateway.get(path).await.status, 200, "{path}");
    let slow = async {
        // It is read once it is there, and not before.
        let paths = ["", "/goals", "/scheduled", "/groups"].map(|path| format!("/v1/feeds/slow{path}"));
        futures_util::future::join_all(paths.iter().map(|path| read(path))).await;
        assert_eq!(gateway.get_feed("slow").await["seq"], 2);
    };
    let watcher = async { Watcher::open(&gateway, "slow").await.wait_for_seq(2).await };
    let others = async {
        for _ in 0..20 {
            read("/v1/feeds/other").await;
            read("/v1/feeds/other/scheduled").await;
            read("/v1/feeds/other/policy").await;
            read("/v1/feeds/nobody/scheduled").await;
        }
        Watcher::open(&gateway, "other").await.wait_for_seq(1).await;
        assert!(!posted.is_finished(), "nothing is answered that is not on the disk");
    };
    tokio::join!(slow, watcher, others);
    assert_eq!(posted.await.unwrap().status, 503, "a write is refused within five seconds");
    assert_eq!(gateway.post_gift("slow", &gift("g2").by("another")).await.json()["duplicate"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_nobody_writes_to_leaves_the_disk_alone_though_somebody_watches() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let gateway = Process::on(&backing);
    gateway.give("show", &gift("g1")).await;
    let mut watcher = Watcher::open(&gateway, "show").await;
    watcher.wait_for_seq(1).await;
    let told = async || {
        let metrics = gateway.get("/metrics").await.text;
        let line = metrics.lines().find(|line| {
            line.starts_with("tipcast_engine_call_seconds_count") && line.contains("\"attend\"")
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    until("the watcher is counted", async || told().await > 0.0).await;
    let files = || {
        let of = |name: &str| {
            let file = std::fs::metadata(dir.path().join(name)).unwrap();
            (file.len(), file.modified().unwrap())
        };
        ["tipcast.db", "tipcast.db-wal"].map(of)
    };
    // What the gift left to do (it moves to its table, its lock ends) may come some seconds after it on a busy machine.
    let mut seen = (files(), told().await);
    until("it is counted again, and again, and nothing is written", async || {
        if files() != seen.0 {
            seen = (files(), told().await);
        }
        told().await >= seen.1 + 3.0
    })
    .await;
}

#[tokio::test]
async fn ids_and_locks_run_by_a_steady_clock_over_restarts_and_it_is_said_that_the_other_one_was_set() {
    let faults = TempDir::new().unwrap();
    let backing = Backing::folder();
    put(faults.path(), "clock", &(-5 * DAY).to_string());
    let gateway = faulty(backing.args(), faults.path());
    gateway.patch_policy("show", json!({"dedup_window_ms": 3_600_000})).await;
    gateway.give("show", &gift("behind").by("a")).await;
    let warning = async |gateway: &Process| gateway.get("/readyz").await.json()["warning"].clone();
    assert_eq!(
        warning(&gateway).await,
        Value::Null,
        "one that was wrong from the start is the only one known"
    );

    put(faults.path(), "clock", "0");
    let repeat = gateway.give("show", &gift("behind").by("a")).await;
    assert_eq!(repeat["duplicate"], true, "put right after five days");
    let same = gateway.give("show", &gift("right").by("a")).await;
    assert_eq!(same["status"], "merged", "the lock holds for an hour, not for less");
    assert!(warning(&gateway).await.as_str().unwrap().contains("clock"), "it is said");
    gateway.wait_for_words("was set");
    drop(gateway);

    let gateway = faulty(backing.args(), faults.path());
    for id in ["behind", "right"] {
        assert_eq!(gateway.give("show", &gift(id).by("a")).await["duplicate"], true, "{id} after a restart");
    }
    put(faults.path(), "clock", &(365 * DAY).to_string());
    gateway.give("show", &gift("ahead").by("b")).await;
    put(faults.path(), "clock", "0");
    assert_eq!(gateway.give("show", &gift("ahead").by("b")).await["duplicate"], true);
    assert_eq!(gateway.give("show", &gift("then").by("b")).await["status"], "merged");
    let scheduled = gift("later").by("c").with("delay_ms", json!(3_600_000));
    assert_eq!(gateway.post_gift("show", &scheduled).await.status, 202);
    assert_eq!(
        gateway.request("DELETE", "/v1/feeds/show/scheduled/later").send().await.unwrap().status(),
        200
    );
}
