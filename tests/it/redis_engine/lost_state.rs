//! A store that forgets, is robbed of keys, or goes back.

use super::*;

#[tokio::test]
async fn forgotten_scripts_are_loaded_again() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    for n in 1..=3 {
        assert_eq!(post(&engine, &format!("g{n}")).await.at.seq, n);
        run(&server, &["SCRIPT", "FLUSH", "SYNC"]);
        let (first, second) = tokio::join!(at(&engine), at(&engine));
        assert_eq!((first.seq, second.seq), (n, n));
        run(&server, &["SCRIPT", "FLUSH", "SYNC"]);
    }
}

#[tokio::test]
async fn a_flushed_store_is_an_empty_feed_and_then_a_new_epoch() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let before = post(&engine, "a").await;
    run(&server, &["FLUSHALL"]);
    assert_eq!(engine.read_heads(&[feed()]).await.unwrap().remove(0).unwrap().at, Position::start());
    assert_eq!(at(&engine).await, Position::start());
    assert_eq!(engine.known(&feed()), None);
    let after = post(&engine, "a").await;
    assert_eq!(after.at.seq, 1);
    assert!(after.at.epoch.as_str() > before.at.epoch.as_str());
    assert_eq!(engine.read_changes(&feed(), &before.at, 9).await, Ok(Missed::NotCovered));
}

#[tokio::test]
async fn a_key_that_was_evicted_is_a_new_epoch_and_never_an_error() {
    for key in ["list", "hist", "meta", "policy"] {
        for writing in [true, false] {
            let server = RedisServer::start();
            let engine = engine_on(&server).await;
            let mut subscription = engine.subscribe(&feed()).await.unwrap();
            let patch = PolicyPatch { row_ttl_ms: Some(60_000), ..PolicyPatch::default() };
            engine.set_policy(&feed(), &PolicyChange::Merge(patch), NOW).await.unwrap();
            for id in ["a", "b", "c"] {
                post(&engine, id).await;
            }
            let before = at(&engine).await;
            told_of(&mut subscription, &before).await;
            run(&server, &["DEL", &format!("tc:{{room1}}:{key}")]);
            if writing {
                let after = post(&engine, "d").await.at;
                assert_eq!(after.epoch != before.epoch, key != "policy", "{key}");
                let rows = ids(&engine).await;
                let kept = matches!(key, "hist" | "policy");
                assert_eq!(rows.len(), if kept { 4 } else { 1 }, "{key}: {rows:?}");
                told_of(&mut subscription, &after).await;
            } else {
                let after = at(&engine).await;
                assert_eq!(after.epoch != before.epoch, key != "policy", "{key}: {after}");
                assert_eq!(ids(&engine).await.len(), if matches!(key, "hist" | "policy") { 3 } else { 0 });
                if key != "policy" {
                    told_lost(&mut subscription).await;
                    assert_eq!(engine.read_changes(&feed(), &before, 9).await, Ok(Missed::NotCovered));
                }
            }
            let last = post(&engine, "e").await;
            assert_eq!(at(&engine).await, last.at);
        }
    }
}

#[tokio::test]
async fn a_store_that_went_back_gets_a_new_epoch() {
    for write_first in [false, true] {
        let server = RedisServer::start();
        let engine = engine_on(&server).await;
        let (_, then) = (post(&engine, "a").await, post(&engine, "b").await);
        let saved = dump(&server);
        let later = post(&engine, "c").await;
        let mut subscription = engine.subscribe(&feed()).await.unwrap();
        go_back(&server, &saved);
        assert_eq!(
            engine.read_heads(&[feed()]).await.unwrap().remove(0).unwrap().at,
            then.at,
            "heads only tell"
        );
        assert_eq!(engine.read_changes(&feed(), &then.at, 9).await, Ok(Missed::NotCovered));
        let now = if write_first { post(&engine, "d").await.at } else { at(&engine).await };
        assert!(now.epoch.as_str() > later.at.epoch.as_str());
        assert_eq!(now.seq, then.at.seq + u64::from(write_first), "the numbers go on from the store's");
        told_lost(&mut subscription).await;
        assert_eq!(ids(&engine).await.len(), 2 + usize::from(write_first), "the rows are the store's");
        assert_eq!(at(&engine).await, now, "once is enough");
        assert_eq!(engine.known(&feed()), Some(now));
    }
}

#[tokio::test]
async fn a_store_that_went_back_and_moved_on_past_us_gets_a_new_epoch() {
    for further in [1, 2, 5] {
        let server = RedisServer::start();
        let engine = engine_on(&server).await;
        post(&engine, "a").await;
        let saved = dump(&server);
        post(&engine, "b").await;
        let later = post(&engine, "c").await;
        let mut subscription = engine.subscribe(&feed()).await.unwrap();
        go_back(&server, &saved);
        // A node that knows nothing of b and c.
        let other = engine_on(&server).await;
        let mut last = None;
        for n in 0..1 + further {
            last = Some(post(&other, &format!("other-{n}")).await.at);
        }
        let last = last.unwrap();
        assert_eq!(last.epoch, later.at.epoch);
        told_of(&mut subscription, &last).await;
        assert_eq!(engine.known(&feed()), Some(later.at.clone()), "another's word is not enough");
        let now = at(&engine).await;
        assert!(now.epoch.as_str() > later.at.epoch.as_str(), "{now} after {}", later.at);
        assert_eq!(now.seq, last.seq);
        assert_eq!(at(&other).await, now);
    }
}

#[tokio::test]
async fn a_store_that_went_back_to_an_earlier_life_gets_a_new_epoch() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    post(&engine, "a").await;
    let saved = dump(&server);
    run(&server, &["FLUSHALL"]);
    let second = post(&engine, "b").await;
    go_back(&server, &saved);
    let now = at(&engine).await;
    assert!(now.epoch.as_str() > second.at.epoch.as_str());
}

#[tokio::test]
async fn junk_under_our_keys_leaves_nothing_half_written() {
    const KEYS: [&str; 7] = ["list", "hist", "meta", "policy", "ledger", "id:b", "lock:[\"ann\",\"b\"]"];
    const JUNK: [[&str; 2]; 3] = [["SET", "x"], ["LPUSH", "x"], ["SADD", "x"]];
    // A feed that began right now is published to by the script that knows every rule, one with three gifts by the plain
    // one; which finds out whether rows are there in one way until the list is full, and in another afterwards.
    let cases =
        KEYS.iter().flat_map(|key| JUNK.map(|junk| [1, 3, 12].map(|begun| (key, junk, begun)))).flatten();
    for (key, junk, begun) in cases {
        let server = RedisServer::start();
        let engine = engine_on(&server).await;
        for n in 0..begun {
            post(&engine, &format!("a{n}")).await;
        }
        let key = format!("tc:{{room1}}:{key}");
        run(&server, &["DEL", &key]);
        run(&server, &[junk[0], &key, junk[1]]);
        let before = dump(&server);
        match engine.publish(&feed(), vec![gift("b")], NOW).await {
            Err(StoreError::FeedDamaged(why)) => {
                assert!(why.contains("prefix"), "{key}: {why}");
                assert_eq!(dump(&server), before, "{key}: nothing was written");
                run(&server, &["DEL", &key]);
                post(&engine, "b").await;
            }
            Err(other) => panic!("{other:?}"),
            Ok(outcomes) => {
                let answer = new(outcomes[0].clone());
                match engine.read_snapshot(&feed(), NOW).await {
                    // So is one that is shorter than its feed says.
                    Ok(list) if key.ends_with("list") && list.rows.is_empty() => {}
                    Ok(list) => {
                        assert_eq!(
                            (&list.at, Some(&list.rows[0].id)),
                            (&answer.at, answer.row.as_ref()),
                            "{key}"
                        )
                    }
                    // A list of the right length that names no row is found out when it is read.
                    Err(error) => {
                        assert!(
                            matches!(error, StoreError::FeedDamaged(_)) && key.ends_with("list"),
                            "{error}"
                        );
                        run(&server, &["DEL", &key]);
                    }
                }
            }
        }
        let last = post(&engine, "c").await;
        assert_eq!(at(&engine).await, last.at, "{key}");
    }
}

#[tokio::test]
async fn an_idle_feed_expires_as_a_whole_and_its_policy_stays() {
    let server = RedisServer::start();
    let options =
        StoreOptions { store_clock: false, feed_idle_ttl_ms: 300, ..StoreOptions::new(server.url()) };
    let engine = Store::redis(options).await.unwrap();
    let patch = PolicyPatch { capacity: Some(3), ..PolicyPatch::default() };
    engine.set_policy(&feed(), &PolicyChange::Merge(patch), NOW).await.unwrap();
    let before = post(&engine, "a").await;
    let since = Instant::now();
    while at(&engine).await != Position::start() {
        assert!(since.elapsed() < PATIENCE, "it expires");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(engine.read_policy(&feed()).await.unwrap().capacity, 3);
    let after = post(&engine, "b").await;
    assert!(after.at.epoch != before.at.epoch && after.at.seq == 1);
    assert_eq!(ids(&engine).await.len(), 1);
    // Switched off: the next change keeps the feed for ever.
    let engine = engine_on(&server).await;
    post(&engine, "c").await;
    for key in ["list", "hist", "meta"] {
        let ttl: i64 =
            redis::cmd("PTTL").arg(format!("tc:{{room1}}:{key}")).query(&mut server.connect()).unwrap();
        assert_eq!(ttl, -1, "{key}");
    }
}

#[tokio::test]
async fn no_position_survives_a_server_that_came_back_from_an_older_file() {
    // A node that saw all of it and is gone, and one that lived through it and had seen no more than the older file has.
    for (lives_on, clock) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut server = RedisServer::durable();
        let witness = engine_by(&server, clock).await;
        for n in 0..5 {
            post(&witness, &format!("a{n}")).await;
        }
        let older = server.copy_files();
        let gone = engine_by(&server, clock).await;
        for n in 0..4 {
            post(&gone, &format!("lost{n}")).await;
        }
        let seen = at(&gone).await;
        assert!(
            gone.read_changes(&feed(), &seen, 9).await.is_ok_and(|missed| missed == Missed::Changes(vec![]))
        );
        drop(gone);
        let witness = lives_on.then_some(witness);
        server.start_again_with(&older);
        let engine = match witness {
            Some(witness) => witness,
            None => engine_by(&server, clock).await,
        };
        let first = heals(&engine, "b0").await.at;
        for n in 1..8 {
            post(&engine, &format!("b{n}")).await;
        }
        let now = at(&engine).await;
        assert!(now.seq > seen.seq, "{now} is past {seen}");
        assert_eq!(
            engine.read_changes(&feed(), &seen, 99).await,
            Ok(Missed::NotCovered),
            "{seen} was lost; now {now}"
        );
        // Within one life of the server watchers resume as ever.
        let Ok(Missed::Changes(missed)) = engine.read_changes(&feed(), &first, 99).await else {
            panic!("{first}")
        };
        assert_eq!(missed.len() as u64, now.seq - first.seq);
    }
}

#[tokio::test]
async fn the_first_write_after_a_server_restart_begins_an_epoch() {
    for (counts, clock, ahead) in
        [(false, false, false), (true, false, false), (true, true, false), (false, true, true)]
    {
        let mut server = RedisServer::durable();
        let engine = engine_by(&server, clock).await;
        if counts {
            let patch = PolicyPatch { totals: Some("all".parse().unwrap()), ..PolicyPatch::default() };
            engine.set_policy(&feed(), &PolicyChange::Merge(patch), NOW).await.unwrap();
        }
        let before = post(&engine, "a").await.at;
        if ahead {
            // The server's clock was ahead, and was set before it started again.
            let meta = format!("tc:{{{}}}:meta", feed());
            let text = server.run(&["GET", &meta]);
            let mut stored: serde_json::Value = serde_json::from_str(&text).unwrap();
            stored["changed"] = json!(Millis::now().0 + 3_600_000);
            run(&server, &["SET", &meta, &stored.to_string()]);
        }
        server.start_again();
        // What several nodes hold ready at the same time is one new life.
        let other = engine_by(&server, clock).await;
        let after = heals(&engine, "b").await.at;
        assert!(after.epoch.as_str() > before.epoch.as_str(), "{before} and {after}");
        assert_eq!(post(&other, "c").await.at.epoch, after.epoch);
        assert_eq!(post(&engine, "d").await.at.epoch, after.epoch);
    }
}
