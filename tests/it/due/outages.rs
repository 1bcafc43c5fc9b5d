//! A wake-up that gets lost, a Redis that goes away and comes back, clocks that are wrong.

use tipcast::work::due::{DueLoop, DueOptions};

use super::*;
use crate::support::proxy::{Mode, Proxy};
use crate::support::redis_server::RedisServer;

fn options(longest_sleep: Duration) -> DueOptions {
    DueOptions { longest_sleep }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_wake_up_costs_no_more_than_the_longest_sleep() {
    let corner = Corner::new();
    let engine = node(&corner).await;
    let work = DueLoop::start(engine.clone(), options(Duration::from_millis(1_200)), &Default::default());
    schedule(&engine, &[later("g1", 600_000)]).await;
    // As if it had come just now, and no notice had been sent.
    let mut redis = corner.server.connect();
    let at = |key: String, member: String, redis: &mut redis::Connection| {
        redis::cmd("ZADD").arg(key).arg(1).arg(member).query::<()>(redis).unwrap();
    };
    let due = format!("{}{{show}}:due", corner.prefix);
    let member: Vec<String> = redis::cmd("ZRANGE").arg(&due).arg(0).arg(0).query(&mut redis).unwrap();
    at(due, member[0].clone(), &mut redis);
    at(format!("{}{{due:0}}:feeds", corner.prefix), "show".into(), &mut redis);
    let took = wait_for_seq(&engine, 1).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    work.stop().await;
}

/// A Redis that keeps what it was sent, and a node whose way to it leads through a proxy.
async fn through_proxy(server: RedisServer) -> (Corner, Proxy, Store) {
    let corner = Corner::of(std::sync::Arc::new(server));
    let proxy = Proxy::before(format!("127.0.0.1:{}", corner.server.port).parse().unwrap()).await;
    let engine = node_with(&corner, |options| {
        options.url = format!("redis://{}/", proxy.address);
        options.call_timeout = Duration::from_millis(500);
    });
    let engine = engine.await;
    (corner, proxy, engine)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_behind_a_half_open_connection_leaves_the_work_to_others_and_heals() {
    let (corner, proxy, stuck) = through_proxy(RedisServer::start()).await;
    let other = node(&corner).await;
    roomy(&other).await;
    let loops = [stuck.clone(), other.clone()]
        .map(|engine| DueLoop::start(engine, options(Duration::from_millis(1_000)), &Default::default()));
    schedule(&other, &[later("g1", 50)]).await;
    wait_for_seq(&other, 1).await;
    proxy.set(Mode::Stalled);
    for n in 2..5 {
        schedule(&other, &[later(&format!("g{n}"), 50)]).await;
        wait_for_seq(&other, n).await;
    }
    let [stuck_loop, other_loop] = loops;
    other_loop.stop().await;
    schedule(&other, &[later("g5", 50)]).await;
    proxy.set(Mode::Cut);
    proxy.set(Mode::Open);
    wait_for_seq(&other, 5).await;
    stuck_loop.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_restarts_with_its_file_in_the_middle_loses_and_repeats_nothing() {
    let mut server = RedisServer::durable();
    let prefix = "aof:".to_owned();
    let open = |url: String| Store::redis(StoreOptions { prefix: prefix.clone(), ..StoreOptions::new(url) });
    let engine = open(server.url()).await.unwrap();
    roomy(&engine).await;
    let work = DueLoop::start(engine.clone(), DueOptions::default(), &Default::default());
    let all: Vec<_> = (0..90).map(|n| later(&format!("g{n:02}"), 300 + 10 * n)).collect();
    schedule(&engine, &all).await;
    for seq in [10, 40] {
        let since = Instant::now();
        while head_of(&engine, &feed()).await.unwrap().at.seq < seq {
            assert!(since.elapsed() < PATIENCE);
            sleep(Duration::from_millis(1)).await;
        }
        server.start_again();
        while head_of(&engine, &feed()).await.is_err() {
            assert!(since.elapsed() < 2 * PATIENCE);
            sleep(Duration::from_millis(5)).await;
        }
    }
    wait_for_seq(&engine, 90).await;
    let users = shown(&engine).await;
    assert!(users.len() == 90 && users.is_sorted(), "{users:?}");
    work.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_redis_forgot_are_loaded_again() {
    let corner = Corner::of(std::sync::Arc::new(RedisServer::start()));
    let engine = node(&corner).await;
    let work = DueLoop::start(engine.clone(), DueOptions::default(), &Default::default());
    for n in 1..4 {
        redis::cmd("SCRIPT").arg("FLUSH").query::<()>(&mut corner.server.connect()).unwrap();
        schedule(&engine, &[later(&format!("g{n}"), 30)]).await;
        redis::cmd("SCRIPT").arg("FLUSH").query::<()>(&mut corner.server.connect()).unwrap();
        wait_for_seq(&engine, n).await;
    }
    work.stop().await;
}

/// The nodes' clocks are not asked: a gift waits by the store's clock, whatever they say.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_clocks_are_wrong_by_minutes_show_at_the_right_time() {
    let corner = Corner::new();
    let (ahead, behind) = (node(&corner).await, node(&corner).await);
    let wrong = |minutes: i64| Millis(Millis::now().0 + minutes * 60_000);
    let publish = async |engine: &Store, gift: GiftSpec, now: Millis| {
        let mut outcomes = engine.publish(&feed(), vec![gift.parse()], now).await.unwrap();
        match outcomes.remove(0) {
            Outcome::Scheduled(it) => it.deliver_at,
            other => panic!("{other:?}"),
        }
    };
    let due = publish(&ahead, later("g1", 400), wrong(7)).await;
    assert!(due <= Millis::now().plus(400), "the store's clock counts: {due}");
    let at = json!(Millis::now().plus(400).to_string());
    publish(&ahead, gift("g2").by("g2").with("deliver_at", at.clone()), wrong(7)).await;
    publish(&behind, gift("g3").by("g3").with("deliver_at", at), wrong(-7)).await;
    // Steps by nodes that think that it is long over, or not yet: nothing before its time, nothing after it.
    let mut works = [(ahead.clone(), 7), (behind.clone(), -7)]
        .map(|(engine, minutes)| (tipcast::work::due::DueWork::new(engine, DueOptions::default()), minutes));
    let since = Instant::now();
    while head_of(&ahead, &feed()).await.unwrap().at.seq < 3 {
        assert!(since.elapsed() < PATIENCE);
        for (work, minutes) in &mut works {
            work.step(wrong(*minutes)).await.unwrap();
        }
    }
    let list = ahead.read_snapshot(&feed(), Millis::now()).await.unwrap();
    assert!(list.rows.iter().all(|row| row.at >= due && row.at < due.plus(5_000)), "{:?}", list.rows);
}
