//! What only a process can suffer: kill -9 under load, a folder that is taken, a file that is damaged.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::gifts::{GiftSpec, gift};
use crate::support::process::Process;
use crate::support::watcher::Watcher;

const PRODUCERS: u64 = 16;

/// How often each gateway is killed: few, or as many as `KILLS` says.
fn kills() -> u64 {
    std::env::var("KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(3)
}

fn load_gift(producer: u64, round: u64, n: u64) -> GiftSpec {
    gift(&format!("p{producer}-r{round}-{n}")).by(&format!("producer {producer}")).value(n, "EUR")
}

/// Posts until the gateway dies; gives every answer with its gift.
async fn produce(
    api: Api,
    producer: u64,
    round: u64,
    acknowledged: Arc<AtomicU64>,
) -> Vec<(GiftSpec, Value)> {
    let mut answers = vec![];
    for n in 0..100_000 {
        let spec = load_gift(producer, round, n);
        let request = api.request("POST", "/v1/feeds/show/gifts").json(&spec.json());
        match Api::try_send(request).await {
            Ok(said) if matches!(said.status, 200 | 201) => {
                acknowledged.fetch_add(1, Ordering::Relaxed);
                answers.push((spec, said.json()));
            }
            Ok(said) => panic!("{said:?}"),
            Err(_) => return answers,
        }
    }
    answers
}

async fn is_killed_again_and_again(backing: Backing) {
    let mut gateway = Process::on(&backing);
    gateway.patch_policy("show", json!({"dedup": "off", "history": 100_000})).await;
    gateway.give("show", &gift("first")).await;
    let mut watcher = Watcher::open(&gateway, "show").await;
    watcher.wait_for_seq(1).await;
    for round in 0..kills() {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|p| tokio::spawn(produce(Api::clone(&gateway), p, round, acknowledged.clone())))
            .collect();
        let enough = 200 + 37 * (round % 8);
        let following = watcher.follow_until(Duration::from_secs(30), "some gifts", |_| {
            acknowledged.load(Ordering::Relaxed) >= enough
        });
        following.await;
        gateway.kill();
        let mut answers = vec![];
        for producer in producers {
            answers.extend(producer.await.unwrap());
        }
        assert!(answers.len() as u64 >= enough);

        gateway = Process::on(&backing);
        watcher.api = Api::clone(&gateway);
        let feed = gateway.get_feed("show").await;
        for (spec, first) in &answers {
            assert!(first["seq"].as_u64() <= feed["seq"].as_u64(), "{first} is lost: {}", feed["seq"]);
            assert_eq!(first["epoch"], feed["epoch"]);
            let said = gateway.post_gift("show", spec).await;
            let mut again = first.clone();
            again["duplicate"] = json!(true);
            assert_eq!((said.status, said.json()), (200, again), "an acknowledged gift is remembered");
        }
        watcher.follow_until(Duration::from_secs(20), "a connection", |fold| fold.resumes == round + 1).await;
        watcher.wait_for_the_list().await;
        if watcher.fold.snapshots != 1 {
            let metrics = gateway.get("/metrics").await.text;
            let told: Vec<&str> = metrics.lines().filter(|line| line.contains("snapshots_total")).collect();
            panic!("round {round}: a snapshot in place of changes: {told:?}\n{}", watcher.fold.story());
        }
    }
}

#[tokio::test]
async fn no_acknowledged_gift_is_lost_when_a_gateway_on_a_folder_is_killed_under_load() {
    is_killed_again_and_again(Backing::folder()).await;
}

#[tokio::test]
async fn no_acknowledged_gift_is_lost_when_a_gateway_on_redis_is_killed_under_load() {
    is_killed_again_and_again(Backing::redis()).await;
}

fn refuses(args: &[String], words: &[&str]) {
    let mut all = vec!["--listen".to_owned(), "127.0.0.1:0".to_owned()];
    all.extend_from_slice(args);
    let (status, said) = Process::run(&all);
    assert!(status.code().is_some_and(|code| code != 0), "{status:?}\n{said}");
    for word in words {
        assert!(said.contains(word), "nothing about {word:?}:\n{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    assert!(!said.contains("listening on"), "it does not say that it serves before it can:\n{said}");
}

#[tokio::test]
async fn a_second_process_on_the_same_folder_is_refused_and_does_no_harm() {
    let backing = Backing::folder();
    let app = TestApp::on(&backing).await;
    app.give("show", &gift("g1")).await;
    let args = backing.args();
    refuses(&args, &["another", &args[1]]);
    app.give("show", &gift("g2")).await;
    app.stop().await;
    let app = TestApp::on(&backing).await;
    assert_eq!(app.get_feed("show").await["seq"], 2);
}

/// The biggest file of the folder: the database.
fn database(dir: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap()
}

#[tokio::test]
async fn a_damaged_database_is_a_clear_message_and_stays_as_it_is() {
    let backing = Backing::folder();
    let Backing::Folder(dir) = &backing else { unreachable!() };
    let app = TestApp::on(&backing).await;
    for batch in 0..8 {
        let gifts: Vec<_> =
            (0..128).map(|n| gift(&format!("b{batch}-{n}")).by(&format!("u{n}")).json()).collect();
        assert_eq!(app.post_batch("show", &gifts).await.status, 200);
    }
    app.stop().await;
    let file = database(dir.path());
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let good = std::fs::read(&file).unwrap();
    assert!(good.len() > 40_000, "{} bytes", good.len());
    let scribbled = {
        let mut bytes = good.clone();
        for page in bytes.chunks_mut(4_096).skip(1) {
            page[..64].fill(0x5a);
        }
        bytes
    };
    let damaged = [
        b"this is no database, it is somebody's shopping list".repeat(100),
        [&b"\0".repeat(100)[..], &good[100..]].concat(),
        good[..good.len() / 2 + 77].to_vec(),
        good[..50].to_vec(),
        scribbled,
    ];
    for (n, bytes) in damaged.iter().enumerate() {
        std::fs::write(&file, bytes).unwrap();
        refuses(&backing.args(), &[&name]);
        assert!(std::fs::read(&file).unwrap() == *bytes, "case {n}: the damaged file was changed");
    }
    std::fs::write(&file, &good).unwrap();
    let app = TestApp::on(&backing).await;
    assert_eq!(app.get_feed("show").await["seq"], 8 * 128, "the backup is fine");
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_a_clear_message() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let inside = file.join("data").display().to_string();
    refuses(&["--data-dir".into(), inside.clone()], &[&inside]);
}

#[tokio::test]
async fn an_address_that_is_taken_is_a_clear_message() {
    let backing = Backing::folder();
    let app = TestApp::on(&backing).await;
    let args: Vec<String> = ["--listen", app.authority(), "--data-dir", "unused"].map(Into::into).into();
    let dir = tempfile::TempDir::new().unwrap();
    let args: Vec<String> = args
        .into_iter()
        .map(|arg| if arg == "unused" { dir.path().display().to_string() } else { arg })
        .collect();
    let (status, said) = Process::run(&args);
    assert!(!status.success() && said.contains(app.authority()), "{said}");
}

#[tokio::test]
async fn beyond_loopback_it_does_not_start_without_being_told() {
    let dir = tempfile::TempDir::new().unwrap();
    let args = ["--listen", "0.0.0.0:0", "--data-dir", dir.path().to_str().unwrap()].map(str::to_owned);
    let (status, said) = Process::run(&args);
    assert!(!status.success() && said.contains("--insecure"), "{said}");
    let args = ["--listen", "127.0.0.1:0", "--redis", "http://nonsense"].map(str::to_owned);
    let (status, said) = Process::run(&args);
    assert!(!status.success() && said.contains("redis"), "{said}");
}
