//! Nodes that die, and a Redis that forgets.

use tipcast::engine::{Count, Presence, Store};

use crate::support::case::Case;
use crate::support::stores::Storage;

const A: Count = Count { watchers: 3, overlays: 1 };
const B: Count = Count { watchers: 2, overlays: 0 };

async fn on_redis() -> (Case, redis::Connection, String) {
    let store = Storage::redis();
    let Storage::Redis(corner) = &store else { panic!() };
    let (connection, prefix) = (corner.server.connect(), corner.prefix.clone());
    (Case::on(store).await, connection, prefix)
}

async fn watchers(engine: &Store, t: &Case) -> Presence {
    engine.read_presence(std::slice::from_ref(&t.feed)).await.unwrap()[0]
}

#[tokio::test]
async fn a_node_whose_lease_is_over_does_not_count_and_is_told_when_it_comes_back() {
    let (t, mut connection, prefix) = on_redis().await;
    t.engine.report_presence("a", &[(t.feed.clone(), A)]).await.unwrap();
    t.engine.report_presence("b", &[(t.feed.clone(), B)]).await.unwrap();
    let lease = format!("{prefix}{{presence}}:node:a");
    let left: i64 = redis::cmd("PTTL").arg(&lease).query(&mut connection).unwrap();
    assert!((1..=12_000).contains(&left), "a node that dies is gone within 15 s: {left}");
    // As if it had died and its time had ended.
    let _: i64 = redis::cmd("DEL").arg(&lease).query(&mut connection).unwrap();
    assert_eq!(watchers(t.engine.store(), &t).await, Presence { watchers: 2, overlays: 0, nodes: 1 });
    let counts = format!("{prefix}{{{}}}:watching", t.feed);
    let nodes: Vec<String> = redis::cmd("HKEYS").arg(&counts).query(&mut connection).unwrap();
    assert_eq!(nodes, ["b"], "what nobody stands for is taken out");
    let overlays = format!("{prefix}{{{}}}:overlays", t.feed);
    assert!(!redis::cmd("EXISTS").arg(&overlays).query::<bool>(&mut connection).unwrap());
    assert!(!t.engine.report_presence("a", &[]).await.unwrap(), "it has to tell everything again");
    t.engine.report_presence("a", &[(t.feed.clone(), A)]).await.unwrap();
    assert_eq!(watchers(t.engine.store(), &t).await, Presence { watchers: 5, overlays: 1, nodes: 2 });
}
