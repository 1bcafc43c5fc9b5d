//! A gateway on a folder is killed while batches flow, in the midst of a commit too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;

/// In a batch; each batch is of one feed.
const GIFTS: u64 = 128;

const FEEDS: u64 = 3;

/// Gifts that are taken before a gateway is killed.
const BEFORE: u64 = 2_000;

/// A debug build beside many others takes its time.
const PATIENCE: Duration = Duration::from_secs(300);

fn batch(feed: u64, round: u64, n: u64) -> Value {
    let gifts = (0..GIFTS).map(|k| {
        // Some ids follow those before, some come between them.
        let id =
            if k % 4 > 0 { format!("{round}-{n:04}-{k:03}") } else { format!("{:x}-{round}-{n}", k * 7919) };
        gift(&id).by(&format!("user {feed} {k}")).json()
    });
    json!({ "gifts": gifts.collect::<Vec<_>>() })
}

fn path(feed: u64) -> String {
    format!("/v1/feeds/show-{feed}/gifts/batch")
}

/// Posts until the gateway dies; gives the results of each batch that was answered.
async fn produce(api: Api, feed: u64, round: u64, acknowledged: Arc<AtomicU64>) -> Vec<Value> {
    let mut answers = vec![];
    loop {
        let n = answers.len() as u64;
        match Api::try_send(api.request("POST", &path(feed)).json(&batch(feed, round, n))).await {
            Ok(said) if said.status == 200 => {
                let mut said = said.json();
                let taken = [&said["accepted"], &said["duplicate"]].map(|it| it.as_u64().unwrap());
                assert!(taken == [GIFTS, 0] || taken == [0, GIFTS], "{said}");
                acknowledged.fetch_add(GIFTS, Ordering::Relaxed);
                answers.push(said["results"].take());
            }
            // A busy machine gives one up, which may have happened all the same.
            Ok(said) if said.status == 503 => {}
            Ok(said) => panic!("{said:?}"),
            Err(_) => return answers,
        }
    }
}

/// A gateway on a folder that is killed and started again.
struct Scene {
    backing: Backing,
    faults: TempDir,
    gateway: Process,
    round: u64,
}

impl Scene {
    async fn new() -> Scene {
        let (backing, faults) = (Backing::folder(), TempDir::new().unwrap());
        let gateway = Scene::gateway(&backing, &faults);
        for feed in 0..FEEDS {
            let policy = json!({"dedup": "off", "history": 1_000});
            gateway.patch_policy(&format!("show-{feed}"), policy).await;
        }
        Scene { backing, faults, gateway, round: 0 }
    }

    fn gateway(backing: &Backing, faults: &TempDir) -> Process {
        let mut env = backing.env();
        env.push(("TIPCAST_FAULTS".into(), faults.path().display().to_string()));
        Process::start("127.0.0.1:0", backing.args(), env)
    }

    async fn until(&self, what: &str, mut there: impl FnMut() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !there() {
            assert!(Instant::now() < until, "in time: {what}\n{}", self.gateway.said());
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Has batches posted until the gateway is killed, at this point of a commit or at any; gives what was answered to those of
    /// each feed.
    async fn is_killed(&mut self, point: Option<&str>) -> Vec<Vec<Value>> {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let producers: Vec<_> = (0..FEEDS)
            .map(|feed| produce(Api::clone(&self.gateway), feed, self.round, acknowledged.clone()))
            .map(tokio::spawn)
            .collect();
        self.until("gifts are taken", || acknowledged.load(Ordering::Relaxed) >= BEFORE).await;
        if let Some(point) = point {
            let (file, struck) =
                (self.faults.path().join(point), self.faults.path().join(format!("{point}.struck")));
            std::fs::write(file.with_extension("new"), "stall 3600000").unwrap();
            std::fs::rename(file.with_extension("new"), file).unwrap();
            self.until("a commit is there", || struck.exists()).await;
            std::fs::remove_file(struck).unwrap();
        }
        assert!(producers.iter().all(|it| !it.is_finished()), "{}", self.gateway.said());
        self.gateway.kill();
        let mut answers = vec![];
        for producer in producers {
            answers.push(producer.await.unwrap());
        }
        answers
    }

    /// Starts it again, and finds every batch that was answered, as it was answered, once.
    async fn has_all(&mut self, answers: &[Vec<Value>]) {
        self.gateway = Scene::gateway(&self.backing, &self.faults);
        for (feed, answers) in (0..).zip(answers) {
            let name = format!("show-{feed}");
            let seq = self.gateway.get_feed(&name).await["seq"].as_u64().unwrap();
            assert_eq!(seq % GIFTS, 0, "a batch is there whole or not at all");
            for (n, first) in (0..).zip(answers) {
                let last = first[GIFTS as usize - 1]["seq"].as_u64();
                assert!(last <= Some(seq), "batch {n} of feed {feed} is lost: {seq}");
                let request = self.gateway.request("POST", &path(feed)).json(&batch(feed, self.round, n));
                let said = Api::try_send(request).await.unwrap().json();
                assert_eq!(said["duplicate"], GIFTS, "{said}");
                let mut again = first.clone();
                again.as_array_mut().unwrap().iter_mut().for_each(|it| it["duplicate"] = json!(true));
                assert_eq!(said["results"], again, "what was acknowledged is remembered as it was");
            }
            assert_eq!(self.gateway.get_feed(&name).await["seq"], seq, "nothing came twice");
        }
        self.round += 1;
    }

    /// What the ledgers have, and what is on disk, is what the feeds show.
    async fn ends_whole(mut self) {
        for feed in 0..FEEDS {
            let group = format!("/v1/feeds/show-{feed}/groups/g");
            let ask = json!({"consumer": "t", "from": "start", "max": 1});
            let said =
                Api::try_send(self.gateway.request("POST", &format!("{group}/claim")).json(&ask)).await;
            assert_eq!(said.unwrap().status, 200);
            let group = self.gateway.get(&group).await.json();
            let entries = group["lag"].as_u64().unwrap() + group["pending"].as_u64().unwrap();
            let seq = &self.gateway.get_feed(&format!("show-{feed}")).await["seq"];
            assert_eq!(seq, entries, "each gift is in the ledger once: {group}");
        }
        self.gateway.kill();
        let dir = self.backing.args()[1].clone();
        let (status, said) = Process::run(&["store".into(), "check".into(), "--data-dir".into(), dir]);
        assert!(status.success(), "{said}");
    }
}

#[tokio::test]
async fn a_batch_is_there_whole_and_once_or_not_at_all_wherever_its_commit_ends() {
    let mut scene = Scene::new().await;
    for point in [Some("before-commit"), None, Some("after-commit"), None] {
        let answers = scene.is_killed(point).await;
        scene.has_all(&answers).await;
    }
    scene.ends_whole().await;
}
