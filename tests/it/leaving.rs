//! SIGTERM: unready first, goodbyes spread, running requests finished, exit 0; and what a rolling restart
//! looks like from outside.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::process::Process;
use crate::support::watcher::Watcher;

fn with(backing: &Backing, settings: &[(&str, &str)]) -> Process {
    let settings = settings.iter().map(|(name, value)| (format!("TIPCAST_HTTP__{name}"), value.to_string()));
    Process::start("127.0.0.1:0", backing.args(), backing.env().into_iter().chain(settings).collect())
}

#[tokio::test]
async fn it_is_unready_for_a_while_before_it_stops_to_serve() {
    let backing = Backing::folder();
    let mut gateway = with(&backing, &[("UNREADY_MS", "2000")]);
    let mut watcher = Watcher::open(&gateway, "show").await;
    watcher.wait_until("the empty list", |fold| fold.snapshots == 1).await;
    while gateway.get("/readyz").await.status != 200 {}
    gateway.terminate();
    let unready = async {
        loop {
            let said = gateway.get("/readyz").await;
            if said.status != 200 {
                return said;
            }
        }
    };
    let said = timeout(PATIENCE, unready).await.unwrap();
    assert!(said.problem(503)["detail"].as_str().unwrap().contains("shutting down"), "{said:?}");
    gateway.give("show", &gift("g1")).await;
    watcher.wait_for_seq(1).await;
    assert_eq!(watcher.fold.goodbye, None);
    assert_eq!(watcher.wait_for_close().await.map(u16::from), Some(4200));
    assert!(watcher.fold.goodbye.is_some());
    assert_eq!(gateway.wait().code(), Some(0), "{}", gateway.said());
}

#[tokio::test]
async fn clients_that_stay_are_cut_at_the_end_of_the_drain() {
    let backing = Backing::folder();
    let patient = ("BODY_TIMEOUT_MS", "600000");
    let mut gateway =
        with(&backing, &[("SHUTDOWN_MS", "1500"), ("UNREADY_MS", "0"), ("DRAIN_MS", "0"), patient]);
    use tokio::io::AsyncWriteExt;
    let mut stuck = tokio::net::TcpStream::connect(gateway.authority()).await.unwrap();
    let head = "POST /v1/feeds/show/gifts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 500\r\n\r\n{";
    stuck.write_all(head.as_bytes()).await.unwrap();
    let mut watcher = Watcher::open(&gateway, "show").await;
    watcher.wait_until("the empty list", |fold| fold.snapshots == 1).await;
    gateway.terminate();
    // The body would be waited for ten minutes.
    let left = tokio::task::spawn_blocking(move || (gateway.wait(), gateway.said()));
    let status = timeout(3 * PATIENCE, left).await.expect("it leaves").unwrap();
    assert_eq!(status.0.code(), Some(0), "{}", status.1);
    assert!(status.1.contains("did not finish in time"), "{}", status.1);
}

#[tokio::test]
async fn two_signals_at_once_are_one_asking_and_a_later_one_ends_it() {
    let backing = Backing::folder();
    let mut gateway = with(&backing, &[("UNREADY_MS", "700")]);
    gateway.terminate_twice();
    assert_eq!(gateway.wait().code(), Some(0), "{}", gateway.said());

    let mut gateway = with(&backing, &[("UNREADY_MS", "60000")]);
    gateway.terminate();
    gateway.wait_for_words("shutting down");
    // Beyond what counts as one asking.
    sleep(Duration::from_millis(400)).await;
    gateway.terminate();
    assert_eq!(gateway.wait().code(), Some(1), "{}", gateway.said());
}

const WATCHERS: usize = 200;

/// What a load balancer would know: the nodes that take connections.
#[derive(Clone, Default)]
struct Nodes(Arc<Mutex<Vec<Api>>>);

impl Nodes {
    fn some(&self, n: usize) -> Api {
        let nodes = self.0.lock().unwrap();
        nodes[n % nodes.len()].clone()
    }

    fn all(&self) -> Vec<Api> {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, node: &Process) {
        self.0.lock().unwrap().push(Api::clone(node));
    }

    fn remove(&self, node: &Process) {
        self.0.lock().unwrap().retain(|api| api.base != node.base);
    }
}

/// One return after a goodbye: which node said it, when, and for how long to stay away.
struct Return {
    from: String,
    told_at: Instant,
    away: Duration,
}

/// Watches as a good client does, until the feed is at the seq that `end` gives.
async fn watch_through(
    n: usize,
    nodes: Nodes,
    mut end: watch::Receiver<Option<u64>>,
) -> (Watcher, Vec<Return>) {
    let mut watcher = Watcher::open(&nodes.some(n), "show").await;
    let mut returns = vec![];
    loop {
        let done = end.borrow_and_update().is_some_and(|end| watcher.fold.seq() >= end);
        if done {
            return (watcher, returns);
        }
        let open = tokio::select! {
            open = watcher.step() => open,
            _ = end.changed() => true,
        };
        if open {
            continue;
        }
        assert_eq!(watcher.closed, Some(4200), "{}", watcher.fold.story());
        let goodbye = watcher.fold.goodbye.take().expect("a goodbye before the close");
        let away = Duration::from_millis(goodbye["reconnect_in_ms"].as_u64().unwrap());
        returns.push(Return { from: watcher.api.base.clone(), told_at: Instant::now(), away });
        sleep(away).await;
        loop {
            watcher.api = nodes.some(n);
            if watcher.try_reconnect().await {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Posts until asked to stop, each gift until it is acknowledged; gives how many.
async fn produce(nodes: Nodes, stop: watch::Receiver<bool>) -> u64 {
    let mut sent = 0;
    while !*stop.borrow() {
        let spec = gift(&format!("g{sent}")).by(&format!("u{}", sent % 7));
        let mut attempt = 0;
        loop {
            let request = nodes.some(sent as usize + attempt).request("POST", "/v1/feeds/show/gifts");
            match Api::try_send(request.json(&spec.json())).await {
                Ok(said) if matches!(said.status, 200 | 201) => break,
                Ok(said) if said.status == 503 => {}
                Ok(said) => panic!("{said:?}"),
                Err(_) => {}
            }
            attempt += 1;
            sleep(Duration::from_millis(10)).await;
        }
        sent += 1;
        sleep(Duration::from_millis(5)).await;
    }
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_loses_and_repeats_nothing_and_watchers_return_spread() {
    let backing = Backing::redis();
    let settings = [("DRAIN_MS", "1000"), ("UNREADY_MS", "300")];
    let mut running = [with(&backing, &settings), with(&backing, &settings)];
    let nodes = Nodes::default();
    running.iter().for_each(|node| nodes.add(node));
    running[0].patch_policy("show", json!({"dedup": "off", "history": 100_000})).await;
    running[0].give("show", &gift("first")).await;

    let (end, ended) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let mut watchers = JoinSet::new();
    for n in 0..WATCHERS {
        watchers.spawn(watch_through(n, nodes.clone(), ended.clone()));
    }
    let producer = tokio::spawn(produce(nodes.clone(), stopped));
    let mut restarted = vec![];
    for node in &mut running {
        let fresh = with(&backing, &settings);
        restarted.push(node.base.clone());
        node.terminate();
        // A load balancer needs a moment to see that the node is unready.
        sleep(Duration::from_millis(100)).await;
        nodes.remove(node);
        nodes.add(&fresh);
        let mut old = std::mem::replace(node, fresh);
        let status = tokio::task::spawn_blocking(move || (old.wait(), old.said())).await.unwrap();
        assert_eq!(status.0.code(), Some(0), "{}", status.1);
        assert!(!status.1.contains("are cut"), "{}", status.1);
        // Every watcher is back before the other node goes.
        let back = async || {
            let mut watching = 0;
            for node in nodes.all() {
                let text = node.get("/metrics").await.text;
                let count =
                    text.lines().find_map(|line| line.strip_prefix("tipcast_watchers{transport=\"ws\"} "));
                watching += count.and_then(|count| count.parse::<usize>().ok()).unwrap();
            }
            watching == WATCHERS
        };
        let deadline = Instant::now() + 3 * PATIENCE;
        while !back().await {
            assert!(Instant::now() < deadline, "every watcher comes back");
            sleep(Duration::from_millis(50)).await;
        }
    }
    stop.send(true).unwrap();
    let gifts = producer.await.unwrap();
    let feed = running[0].get_feed("show").await;
    assert_eq!(feed["seq"], gifts + 1, "each acknowledged gift is there, once");
    assert!(gifts > 100, "{gifts}");
    end.send(Some(gifts + 1)).unwrap();

    let mut returns: Vec<Return> = vec![];
    let followed = async {
        while let Some(followed) = watchers.join_next().await {
            let (watcher, returned) = followed.unwrap();
            // The fold panics on a gap or a repeat; with one snapshot it has had every change.
            let fold = &watcher.fold;
            assert_eq!((fold.snapshots, fold.seq()), (1, gifts + 1), "{}", fold.story());
            assert_eq!(fold.resumes as usize, returned.len(), "{}", fold.story());
            returns.extend(returned);
        }
    };
    timeout(PATIENCE, followed).await.expect("every watcher has everything");
    for base in restarted {
        let from: Vec<&Return> = returns.iter().filter(|back| back.from == base).collect();
        assert!(from.len() >= WATCHERS / 4, "{} were at {base}", from.len());
        let first = from.iter().map(|back| back.told_at).min().unwrap();
        let back = |back: &&Return| (back.told_at + back.away - first).as_millis();
        let mut times: Vec<u128> = from.iter().map(back).collect();
        times.sort_unstable();
        let fullest =
            times.iter().map(|at| times.iter().filter(|t| (*at..at + 500).contains(t)).count()).max();
        assert!(
            fullest.unwrap() <= from.len() / 3,
            "{} came back within half a second: {times:?}",
            fullest.unwrap()
        );
        assert!(times.last().unwrap() - times[0] > 2_500, "{times:?}");
        let goodbyes = from.iter().map(|back| back.told_at - first).max().unwrap();
        assert!(goodbyes >= Duration::from_millis(30), "told all at once: {goodbyes:?}");
    }
}
