//! A Redis that another version of Tipcast wrote to is refused; a new one is marked, and stays known as this version's.

use super::*;

const MARK: &str = "tc:{probe}:form";

async fn refusal(server: &RedisServer) -> String {
    match Store::redis(StoreOptions::new(server.url())).await {
        Err(StoreError::Open(why)) => why,
        Err(other) => panic!("wanted a refusal at start, got {other}"),
        Ok(_) => panic!("a Redis of another version was opened"),
    }
}

#[actix_web::test]
async fn a_new_redis_is_marked_and_opened_again_and_keys_of_others_do_not_matter() {
    let server = RedisServer::start();
    server.run(&["SET", "somebody:{else}:list", "1"]);
    for id in ["g1", "g2"] {
        let engine = engine_on(&server).await;
        assert!(!server.run(&["GET", MARK]).is_empty(), "a mark");
        post(&engine, id).await;
        engine.close().await;
    }
}

#[actix_web::test]
async fn a_foreign_or_unmarked_store_is_refused_unchanged() {
    let server = RedisServer::start();
    server.run(&["SET", "tc:{room1}:meta", "of long ago"]);
    let why = refusal(&server).await;
    assert!(why.contains("tc:{room1}:meta") && why.contains("start the version that wrote them"), "{why}");
    assert_eq!(server.run(&["DBSIZE"]), "1", "nothing was added");

    server.run(&["SET", MARK, "99"]);
    let why = refusal(&server).await;
    assert!(why.contains("its form is 99") && why.contains("[redis] prefix"), "{why}");
    assert_eq!(server.run(&["GET", "tc:{room1}:meta"]), "of long ago");
}

#[actix_web::test]
async fn a_redis_that_comes_later_is_judged_before_it_is_used() {
    let mut server = RedisServer::durable();
    server.run(&["SET", "tc:{room1}:meta", "of long ago"]);
    server.kill();
    let engine = engine_on(&server).await;
    server.start_again();
    let until = Instant::now() + PATIENCE;
    loop {
        let refused = engine.publish(&feed(), vec![gift("g1")], NOW).await;
        let why = refused.expect_err("a Redis of another version took a gift").to_string();
        if why.contains("start the version that wrote them") {
            break;
        }
        assert!(Instant::now() < until, "{why}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.run(&["GET", "tc:{room1}:meta"]), "of long ago");
}

#[actix_web::test]
async fn a_server_that_lost_everything_has_its_mark_again_after_a_probe() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    server.run(&["FLUSHALL"]);
    engine.probe_store().await.unwrap();
    assert!(!server.run(&["GET", MARK]).is_empty(), "the mark is there again");
    post(&engine, "g1").await;
    engine.close().await;
    engine_on(&server).await;
}
