//! Blocks of all feeds that take rows back, where nobody keeps a list of feeds.

use tipcast::domain::{Block, BlockScope};
use tipcast::engine::Walk;

use super::*;
use crate::support::case::Case;
use crate::support::gifts::gift as spec;
use crate::support::stores::{Corner, Storage};

const BAD: &str = "b\"a\nd";

/// Feeds in which a bad user's row is beside another's.
async fn feeds_with_rows(t: &Case, feeds: usize) -> Vec<FeedId> {
    let feeds: Vec<FeedId> = (0..feeds).map(|n| format!("{}-{n}", t.feed).parse().unwrap()).collect();
    for feed in &feeds {
        let gifts = [spec("a").by(BAD), spec("b").by("good")];
        t.engine.publish(feed, gifts.iter().map(|gift| gift.parse()).collect(), t.now).await.unwrap();
    }
    feeds
}

/// How many rows there are of each: of bad users and of others.
async fn rows_of(t: &Case, feeds: &[FeedId]) -> (usize, usize) {
    let (mut bad, mut good) = (0, 0);
    for feed in feeds {
        for row in t.engine.read_snapshot(feed, t.now).await.unwrap().rows {
            match row.user.contains("good") {
                true => good += 1,
                false => bad += 1,
            }
        }
    }
    (bad, good)
}

/// Other keys, so that a walk takes several steps.
fn fill(server: &RedisServer) {
    let mut pipe = redis::pipe();
    for n in 0..4_000 {
        pipe.cmd("SET").arg(format!("junk-{n}")).arg(n).ignore();
    }
    pipe.query::<()>(&mut server.connect()).unwrap();
}

/// Walks to the end; what it did in all.
async fn walk_to_the_end(t: &Case, engine: &Store, node: &str) -> Walk {
    let (mut all, since) = (Walk::default(), Instant::now());
    while !all.is_over {
        assert!(since.elapsed() < PATIENCE, "{all:?}");
        match engine.continue_walk(node, t.now).await {
            Ok(step) => {
                all.feeds += step.feeds;
                all.rows += step.rows;
                (all.user, all.is_over) = (step.user, step.is_over);
            }
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(other) => panic!("{other:?}"),
        }
    }
    all
}

#[tokio::test]
async fn rows_of_a_blocked_user_leave_every_feed_and_another_node_goes_on_when_one_dies() {
    let server = Arc::new(RedisServer::start());
    let corner = Corner::of(server.clone());
    let mut t = Case::on(Storage::Redis(corner.clone())).await;
    let feeds = feeds_with_rows(&t, 60).await;
    let damaged: FeedId = "damaged".parse().unwrap();
    t.engine.publish(&damaged, vec![spec("a").by(BAD).parse()], t.now).await.unwrap();
    server.run(&["SET", &format!("{}{{damaged}}:meta", corner.prefix), "junk"]);
    fill(&server);
    t.engine.begin_walk(BAD, t.now).await.unwrap();
    assert_eq!(
        t.engine.continue_walk("a", t.now).await.unwrap(),
        Walk::default(),
        "nodes have to know of the block first"
    );
    t.pass(2_000);
    let step = t.engine.continue_walk("a", t.now).await.unwrap();
    assert!(step.user.as_deref() == Some(BAD) && !step.is_over && step.feeds < 61, "{step:?}");
    let other = t.store.open_store().await;
    assert_eq!(other.continue_walk("b", t.now).await.unwrap(), Walk::default(), "one node at a time");
    // The first one says nothing any more.
    t.pass(16_000);
    let rest = walk_to_the_end(&t, &other, "b").await;
    assert!(rest.feeds < 61, "it went on where the other one was: {rest:?}");
    assert_eq!((step.rows + rest.rows, rows_of(&t, &feeds).await), (60, (0, 60)));
    for (node, engine) in [("a", t.engine.store()), ("b", &other)] {
        assert_eq!(engine.continue_walk(node, t.now).await.unwrap(), Walk::default());
    }
    assert_eq!(
        server.run(&["EXISTS", &format!("{}{{blocks}}:walks", corner.prefix)]),
        "0",
        "nothing is left behind"
    );
}

#[tokio::test]
async fn a_walk_over_a_redis_that_was_restarted_looks_at_all_of_it_again() {
    let mut server = RedisServer::durable();
    let engine = engine_on(&server).await;
    let t = Case::with(Storage::Redis(Corner::new()), engine.clone(), "walked".parse().unwrap()).await;
    let feeds = feeds_with_rows(&t, 30).await;
    fill(&server);
    engine.begin_walk(BAD, t.now).await.unwrap();
    let later = t.now.plus(2_000);
    assert!(!engine.continue_walk("a", later).await.unwrap().is_over);
    server.kill();
    assert!(engine.continue_walk("a", later).await.is_err());
    server.start_again();
    heals(&engine, "again").await;
    let mut t = t;
    t.now = later;
    let rest = walk_to_the_end(&t, &engine, "a").await;
    assert!(rest.feeds >= 30, "{rest:?}");
    assert_eq!(rows_of(&t, &feeds).await, (0, 30));
}

#[tokio::test]
async fn a_block_that_is_taken_back_ends_its_walk() {
    let mut t = Case::on(Storage::redis()).await;
    let feeds = feeds_with_rows(&t, 2).await;
    let block = Block { user: BAD.to_owned(), at: t.now, until: None };
    t.engine.block_user(&BlockScope::All, &block).await.unwrap();
    t.engine.begin_walk(BAD, t.now).await.unwrap();
    assert!(t.engine.unblock_user(&BlockScope::All, BAD, t.now).await.unwrap());
    t.pass(60_000);
    assert_eq!(t.engine.continue_walk("a", t.now).await.unwrap(), Walk::default());
    assert_eq!(rows_of(&t, &feeds).await, (2, 2));
}

#[tokio::test]
async fn a_walk_that_comes_no_further_holds_up_no_other() {
    let server = Arc::new(RedisServer::start());
    let mut t = Case::on(Storage::Redis(Corner::of(server.clone()))).await;
    let feeds = feeds_with_rows(&t, 3).await;
    t.engine.begin_walk("first", t.now).await.unwrap();
    t.pass(10);
    t.engine.begin_walk(BAD, t.now).await.unwrap();
    t.pass(2_000);
    // As it is for a user of before, who may not do this.
    server.run(&["ACL", "SETUSER", "default", "-scan"]);
    for _ in 0..2 {
        t.pass(100);
        let error = t.engine.continue_walk("a", t.now).await.unwrap_err().to_string();
        assert!(error.contains("ACL line"), "{error}");
    }
    server.run(&["ACL", "SETUSER", "default", "+scan"]);
    assert_eq!(
        t.engine.continue_walk("a", t.now).await.unwrap().user.as_deref(),
        Some(BAD),
        "it was the second"
    );
    walk_to_the_end(&t, t.engine.store(), "a").await;
    assert_eq!(rows_of(&t, &feeds).await, (0, 3));
}

#[tokio::test]
async fn every_shard_of_a_cluster_is_walked_through() {
    let mut t = Case::on(Storage::cluster()).await;
    let feeds = feeds_with_rows(&t, 40).await;
    t.engine.begin_walk(BAD, t.now).await.unwrap();
    t.pass(2_000);
    let all = walk_to_the_end(&t, t.engine.store(), "a").await;
    assert!(all.feeds >= 40 && all.rows == 40, "{all:?}");
    assert_eq!(rows_of(&t, &feeds).await, (0, 40));
}
