//! What a gateway asks of Redis while nobody asks anything of it.

use super::*;
use crate::support::app::Backing;
use crate::support::process::Process;
use crate::support::stores::Corner;

/// Commands that the server has run since they were last counted from zero, but for those of the test.
fn commands(server: &RedisServer) -> Vec<(String, u64)> {
    let told: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connect()).unwrap();
    let read = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    told.lines().filter_map(read).filter(|(name, _)| !name.starts_with("config|")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_gateway_asks_at_most_two_commands_a_second() {
    let server = Arc::new(RedisServer::start());
    let backing = Backing::corner(Corner::of(server.clone()));
    let secret = "TIPCAST_AUTH__TOKENS__HS256_SECRETS".to_owned();
    let env = backing.env().into_iter().chain([(secret, "0123456789abcdef0123456789abcdef".to_owned())]);
    let gateway = Process::start("127.0.0.1:0", backing.args(), env.collect());
    // The questions of a start are answered.
    for _ in 0..20 {
        assert_eq!(gateway.get("/readyz").await.status, 200);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    run(&server, &["CONFIG", "RESETSTAT"]);
    let since = Instant::now();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (commands, took) = (commands(&server), since.elapsed());
    // SET is called by the probe's script, and once in five seconds it reports the node.
    let all: u64 = commands.iter().filter(|(name, _)| name != "set").map(|(_, calls)| calls).sum();
    println!("{all} commands in {took:?}: {commands:?}");
    assert!(all as f64 <= 2.0 * took.as_secs_f64(), "{all} commands in {took:?}: {commands:?}");
    assert!(all > 0, "it is still there");
    let set = commands.iter().find(|(name, _)| name == "set").map_or(0, |(_, calls)| *calls);
    assert!(set <= 2 + 4 + 2, "{set} in {took:?}: of the probe, of the node's state, and of its series");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_gateway_whose_redis_hangs_is_not_ready_when_it_is_asked_three_seconds_later() {
    let server = Arc::new(RedisServer::start());
    let gateway = Process::on(&Backing::corner(Corner::of(server.clone())));
    while gateway.get("/readyz").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.freeze();
    // Nobody asks meanwhile.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let ready = gateway.get("/readyz").await;
    server.thaw();
    assert_eq!(ready.status, 503, "{}", ready.text);
}
