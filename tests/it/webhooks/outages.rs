//! A Redis that restarts, and a node that loses its way to it.

use std::sync::Arc;

use tipcast::engine::store::StoreOptions;

use super::*;
use crate::support::proxy::{Mode, Proxy};
use crate::support::redis_server::RedisServer;

async fn engine_at(url: String) -> Store {
    let call_timeout = Duration::from_millis(500);
    Store::redis(StoreOptions { call_timeout, prefix: "w:".into(), ..StoreOptions::new(url) }).await.unwrap()
}

fn deliver(engine: &Store) -> ReportLoop {
    let timeout = Duration::from_millis(500);
    let options = ReportOptions { allow_private: true, timeout, ..ReportOptions::default() };
    let (metrics, tracer) = (Arc::new(Metrics::default()), Arc::default());
    ReportLoop::start(engine.clone(), metrics, tracer, options, &Default::default()).unwrap()
}

/// Gives a gift, again and again until it is taken: its id makes that harmless.
async fn give(engine: &Store, id: &str) {
    let since = Instant::now();
    while engine.publish(&named("show"), vec![gift(id).by(id).parse()], Millis::now()).await.is_err() {
        assert!(since.elapsed() < PATIENCE, "it does not come back");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_restarts_with_its_file_in_the_middle_loses_nothing() {
    let mut server = RedisServer::durable();
    let receiver = Receiver::start().await;
    let engine = engine_at(server.url()).await;
    roomy(&engine, "show").await;
    set(&engine, &key("show", "game"), HookSpec { batch_max: 4, ..spec(receiver.url("game")) }).await;
    set(&engine, &key("*", "all"), HookSpec { batch_max: 4, ..spec(receiver.url("all")) }).await;
    let _deliveries = deliver(&engine);
    let wanted = ids("g", 60);
    for (n, id) in wanted.iter().enumerate() {
        give(&engine, id).await;
        if n % 20 == 10 {
            server.start_again();
        }
    }
    for path in ["game", "all"] {
        let of = |got: &[crate::support::receiver::Delivery]| {
            let mut seen = std::collections::HashSet::new();
            let all = got.iter().filter(|it| it.path == path && it.accepted).flat_map(|it| it.gifts());
            all.filter(|id| seen.insert(id.clone())).collect::<Vec<_>>()
        };
        let got = receiver.wait_for("every gift", |got| of(got).len() == 60).await;
        assert_eq!(of(&got), wanted, "{path}, in order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_node_without_redis_is_done_by_another() {
    let server = RedisServer::start();
    let proxy = Proxy::before(format!("127.0.0.1:{}", server.port).parse().unwrap()).await;
    let receiver = Receiver::start().await;
    let (stuck, other) =
        (engine_at(format!("redis://{}/", proxy.address)).await, engine_at(server.url()).await);
    roomy(&other, "show").await;
    set(&other, &key("show", "game"), HookSpec { batch_max: 4, ..spec(receiver.url("game")) }).await;
    let _first = deliver(&stuck);
    give(&other, "g0").await;
    receiver.wait_for_gifts(1).await;
    proxy.set(Mode::Stalled);
    for id in &ids("g", 20)[1..] {
        give(&other, id).await;
    }
    let _second = deliver(&other);
    assert_eq!(receiver.wait_for_gifts(20).await, ids("g", 20));
    proxy.set(Mode::Cut);
    proxy.set(Mode::Open);
    give(&stuck, "g20").await;
    assert_eq!(receiver.wait_for_gifts(21).await, ids("g", 21));
}
