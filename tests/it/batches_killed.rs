//! A gateway on a folder is killed while batches flow and what was logged of them goes to the tables.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::gifts::gift;
use crate::support::process::Process;

/// In a batch; each batch is of one feed.
const GIFTS: u64 = 128;

const FEEDS: u64 = 3;

/// Everything is logged until it is so many gifts.
const LOGGED: u64 = 8192;

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

fn wal(dir: &Path) -> u64 {
    std::fs::metadata(dir.join("tipcast.db-wal")).map_or(0, |it| it.len())
}

#[tokio::test]
async fn no_batch_is_lost_or_half_there_when_a_gateway_is_killed_while_its_log_goes_to_the_tables() {
    let backing = Backing::folder();
    let dir = std::path::PathBuf::from(&backing.args()[1]);
    let mut gateway = Process::on(&backing);
    for feed in 0..FEEDS {
        gateway.patch_policy(&format!("show-{feed}"), json!({"dedup": "off", "history": 1_000})).await;
    }
    for round in 0..2 {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let producers: Vec<_> = (0..FEEDS)
            .map(|feed| tokio::spawn(produce(Api::clone(&gateway), feed, round, acknowledged.clone())))
            .collect();
        let until = Instant::now() + PATIENCE;
        // The first gifts of a feed go to its tables; from then on the database rests, until what is logged goes there.
        while acknowledged.load(Ordering::Relaxed) < LOGGED / 2 {
            assert!(Instant::now() < until, "{acknowledged:?} gifts were taken\n{}", gateway.said());
            sleep(Duration::from_millis(5)).await;
        }
        let before = wal(&dir);
        while wal(&dir) == before {
            assert!(Instant::now() < until, "nothing went to the tables after {acknowledged:?} gifts");
            sleep(Duration::from_millis(1)).await;
        }
        assert!(producers.iter().all(|it| !it.is_finished()), "{}", gateway.said());
        gateway.kill();
        let mut answers = vec![];
        for producer in producers {
            answers.push(producer.await.unwrap());
        }

        gateway = Process::on(&backing);
        for (feed, answers) in (0..).zip(&answers) {
            let shown = gateway.get_feed(&format!("show-{feed}")).await;
            let seq = shown["seq"].as_u64().unwrap();
            assert_eq!(seq % GIFTS, 0, "a batch is there whole or not at all");
            for (n, first) in (0..).zip(answers) {
                let last = first[GIFTS as usize - 1]["seq"].as_u64();
                assert!(last <= Some(seq), "batch {n} of feed {feed} is lost: {seq}");
                let request = gateway.request("POST", &path(feed)).json(&batch(feed, round, n));
                let said = Api::try_send(request).await.unwrap().json();
                assert_eq!(said["duplicate"], GIFTS, "{said}");
                let mut again = first.clone();
                again.as_array_mut().unwrap().iter_mut().for_each(|it| it["duplicate"] = json!(true));
                assert_eq!(said["results"], again, "what was acknowledged is remembered as it was");
            }
            assert_eq!(gateway.get_feed(&format!("show-{feed}")).await["seq"], seq, "nothing came twice");
        }
    }
    gateway.kill();
    let args = ["store".to_owned(), "check".to_owned(), "--data-dir".to_owned(), backing.args()[1].clone()];
    let (status, said) = Process::run(&args);
    assert!(status.success(), "{said}");
}
