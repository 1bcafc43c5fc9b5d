//! What Redis keeps, exactly as the contract says, also when others use it.

use super::*;
use tipcast::domain::tally::{LeadersAsk, Measure, Period};
use tipcast::domain::{Decision, ReviewMode};

/// Scripts that the server has run.
fn scripts_run(server: &RedisServer) -> u64 {
    runs_of(server, "evalsha")
}

/// How often the server has run a command.
fn runs_of(server: &RedisServer, command: &str) -> u64 {
    let stats: redis::InfoDict = redis::cmd("INFO").arg("commandstats").query(&mut server.connect()).unwrap();
    let said = stats.get::<String>(&format!("cmdstat_{command}")).unwrap_or_default();
    said.split(['=', ',']).nth(1).map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn a_plain_gift_is_one_run_of_a_script_and_a_feed_whose_gifts_are_not_costs_few_more() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    // A feed begins by the script that knows every rule, and then it is looked once at what it holds.
    for id in ["a", "b", "c"] {
        post(&engine, id).await;
    }
    let before = scripts_run(&server);
    for n in 0..10 {
        post(&engine, &format!("c{n}")).await;
    }
    assert_eq!(scripts_run(&server) - before, 10);
    // Another policy is learned, and then it is looked whether somebody else writes here.
    let patch = PolicyPatch { capacity: Some(3), dedup_window_ms: Some(0), ..PolicyPatch::default() };
    engine.set_policy(&feed(), &PolicyChange::Merge(patch), NOW).await.unwrap();
    for id in ["d", "d2", "d3", "d4"] {
        post(&engine, id).await;
    }
    let before = scripts_run(&server);
    for n in 0..10 {
        post(&engine, &format!("e{n}")).await;
    }
    assert_eq!(scripts_run(&server) - before, 10);
    assert_eq!(ids(&engine).await.len(), 3);
    // Of one that is not plain too, and then it is left alone most of the time.
    let patch = PolicyPatch { row_ttl_ms: Some(60_000), ..PolicyPatch::default() };
    engine.set_policy(&feed(), &PolicyChange::Merge(patch), NOW).await.unwrap();
    let before = scripts_run(&server);
    for n in 0..200 {
        post(&engine, &format!("f{n}")).await;
    }
    let more = scripts_run(&server) - before - 200;
    assert!(more < 20, "{more}");
}

/// Asking for a measure that nobody gave must not cost a walk over all who gave: anybody may ask.
#[tokio::test]
async fn a_ranking_by_a_currency_that_nobody_gave_is_empty_and_looks_at_no_gifter() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let patch =
        PolicyPatch { totals: "all,day".parse().ok(), dedup: Some(Dedup::Off), ..PolicyPatch::default() };
    engine.set_policy(&feed(), &PolicyChange::Merge(patch), NOW).await.unwrap();
    let given = |id: &str, user: &str, currency: &str| {
        gift_of(json!({
            "id": id, "user": {"id": user, "name": "N"}, "gift": {"id": "rose", "name": "Rose"},
            "value": {"amount": 5, "currency": currency},
        }))
    };
    for call in 0..10 {
        let gifts = (0..60).map(|n| given(&format!("g{call}-{n}"), &format!("u{call}-{n}"), "EUR")).collect();
        engine.publish(&feed(), gifts, NOW).await.unwrap();
    }
    let read = async |period, by: &str, user: Option<&str>| {
        let by = Measure::of(by).unwrap();
        let ask = LeadersAsk { period, back: false, by, limit: 100, user: user.map(str::to_owned) };
        engine.read_leaders(&feed(), ask, NOW).await.unwrap().unwrap()
    };
    // Everything is added up, and the rankings that are known are made.
    for period in [Period::All, Period::Day] {
        assert_eq!(read(period, "EUR", None).await.leaders.len(), 100);
    }
    let before = ["hscan", "hget", "hset", "zadd"].map(|command| runs_of(&server, command));
    for by in ["XYZ", "abc", "GBP", "bits"] {
        for user in [None, Some("u1-1")] {
            for period in [Period::All, Period::Day] {
                let view = read(period, by, user).await;
                assert_eq!((view.leaders, view.user), (vec![], None), "{by}");
            }
        }
    }
    let after = ["hscan", "hget", "hset", "zadd"].map(|command| runs_of(&server, command));
    assert_eq!(after, before, "hscan, hget, hset, zadd");
    engine.publish(&feed(), vec![given("first", "u1-1", "XYZ")], NOW).await.unwrap();
    let view = read(Period::All, "XYZ", Some("u1-1")).await;
    assert_eq!((view.leaders.len(), view.user), (1, Some((1, 5))));
}

#[tokio::test]
async fn gifts_of_one_giver_in_one_call_are_rows_of_their_own_where_no_lock_is_taken_and_else_join_one_row() {
    let server = RedisServer::start();
    let alike = |id: &str| {
        gift_of(
            json!({"id": id, "user": {"id": "ann", "name": "Ann"}, "gift": {"id": "rose", "name": "Rose"}}),
        )
    };
    let three = |n: u32| (0..3).map(|k| alike(&format!("g{n}-{k}"))).collect::<Vec<_>>();
    for (dedup, rows) in [(Dedup::Off, 10), (Dedup::Combine, 1)] {
        let engine = engine_on(&server).await;
        let name: FeedId = dedup.as_str().parse().unwrap();
        let patch = PolicyPatch { dedup: Some(dedup), ..PolicyPatch::default() };
        engine.set_policy(&name, &PolicyChange::Merge(patch), NOW).await.unwrap();
        for n in 0..4 {
            engine.publish(&name, three(n), NOW).await.unwrap();
        }
        for n in 4..14 {
            let outcomes = engine.publish(&name, three(n), NOW).await.unwrap();
            assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::New(_))), "{outcomes:?}");
        }
        let list = engine.read_snapshot(&name, NOW).await.unwrap();
        assert_eq!(list.rows.len(), rows, "{dedup:?}");
        assert_eq!(list.rows.iter().map(|row| row.count).sum::<u64>(), if rows == 1 { 42 } else { 10 });
    }
}

#[tokio::test]
async fn gifts_of_approved_names_pass_until_one_of_another_comes() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let patch =
        PolicyPatch { review: Some(ReviewMode::Messages), dedup: Some(Dedup::Off), ..PolicyPatch::default() };
    for (name, totals) in [("seen", ""), ("counted", "all,day")] {
        let feed: FeedId = name.parse().unwrap();
        let patch = PolicyPatch { totals: totals.parse().ok(), ..patch.clone() };
        engine.set_policy(&feed, &PolicyChange::Merge(patch), NOW).await.unwrap();
        let by = |id: &str, name: &str, message: Option<&str>| {
            let mut json =
                json!({"id": id, "user": {"id": "a\"nn", "name": name}, "gift": {"id": "r", "name": "R"}});
            if let Some(message) = message {
                json["message"] = message.into();
            }
            vec![gift_of(json)]
        };
        let waits = |outcomes: Vec<Outcome>| matches!(outcomes[..], [Outcome::InReview(_)]);
        assert!(waits(engine.publish(&feed, by("first", "A\\nn", None), NOW).await.unwrap()));
        let id: tipcast::domain::GiftId = "first".parse().unwrap();
        engine.decide_review(&feed, &id, Decision::Approve, NOW).await.unwrap();
        for n in 0..70 {
            engine.publish(&feed, by(&format!("a{n}"), "A\\nn", None), NOW).await.unwrap();
        }
        engine.read_totals(&feed, false, NOW).await.unwrap();
        for n in 0..20 {
            let outcomes = engine.publish(&feed, by(&format!("b{n}"), "A\\nn", None), NOW).await.unwrap();
            assert!(matches!(outcomes[..], [Outcome::New(_)]), "{outcomes:?}");
        }
        assert!(waits(engine.publish(&feed, by("said", "A\\nn", Some("hi")), NOW).await.unwrap()));
        assert!(waits(engine.publish(&feed, by("new", "Ann", None), NOW).await.unwrap()));
        assert_eq!(engine.list_reviews(&feed, NOW).await.unwrap().len(), 2);
        // A name passes for thirty days.
        let later = Millis(NOW.0 + 31 * 86_400_000);
        assert!(waits(engine.publish(&feed, by("later", "A\\nn", None), later).await.unwrap()));
    }
}

#[tokio::test]
async fn two_engines_on_one_redis_see_each_others_changes() {
    let server = RedisServer::start();
    let (one, two) = (engine_on(&server).await, engine_on(&server).await);
    let mut of_one = one.subscribe(&feed()).await.unwrap();
    let mut of_two = two.subscribe(&feed()).await.unwrap();
    let first = post(&one, "a").await;
    let second = post(&two, "b").await;
    for subscription in [&mut of_one, &mut of_two] {
        let a = told_of(subscription, &first.at).await;
        let b = told_of(subscription, &second.at).await;
        assert_eq!((a.prev, b.prev, b.seq), (0, a.tag, 2));
    }
    assert_eq!(one.known(&feed()), Some(second.at.clone()), "a received change counts");
    let patch = PolicyPatch { capacity: Some(1), ..PolicyPatch::default() };
    let policy = one.set_policy(&feed(), &PolicyChange::Merge(patch), NOW).await.unwrap();
    assert_eq!((policy.capacity, two.read_policy(&feed()).await.unwrap()), (1, policy.clone()));
    for subscription in [&mut of_one, &mut of_two] {
        let mut reset = false;
        loop {
            match next(subscription).await {
                Notice::Changes(changes) => reset |= changes.iter().any(|c| c.op == Op::Reset),
                Notice::Policy => break,
                Notice::Lost => {}
            }
        }
        assert!(reset);
    }
    assert_eq!(ids(&two).await, ["\"b\""]);
}

#[tokio::test]
async fn reading_and_watching_a_feed_that_nobody_wrote_to_writes_nothing() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let subscription = engine.subscribe(&feed()).await.unwrap();
    assert_eq!(at(&engine).await, Position::start());
    assert_eq!(engine.read_heads(&[feed()]).await.unwrap().remove(0).unwrap().at, Position::start());
    assert_eq!(engine.read_changes(&feed(), &Position::start(), 9).await, Ok(Missed::Changes(vec![])));
    assert_eq!(engine.read_policy(&feed()).await, Ok(Policy::default()));
    assert_eq!(engine.retract_row(&feed(), &"a-1".parse().unwrap(), NOW).await, Ok(None));
    assert!(keys(&server).is_empty(), "{:?}", keys(&server));
    drop(subscription);
}

#[tokio::test]
async fn sums_stop_at_the_largest_safe_integer_and_are_exact_below() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let send = async |id: String, amount: u64| {
        let gift =
            gift_of(json!({"id": id, "user": {"id": "u", "name": "U"}, "gift": {"id": "g", "name": "G"},
            "count": 1_000_000, "value": {"amount": amount, "currency": "EUR"}}));
        new(engine.publish(&feed(), vec![gift], NOW).await.unwrap().remove(0));
        let row = engine.read_snapshot(&feed(), NOW).await.unwrap().rows[0].clone();
        (row.count, row.value.clone().unwrap().amount)
    };
    assert_eq!(send("a".into(), MAX_SAFE - 3).await, (1_000_000, MAX_SAFE - 3));
    assert_eq!(send("b".into(), 1).await.1, MAX_SAFE - 2);
    assert_eq!(send("c".into(), 1).await.1, MAX_SAFE - 1);
    assert_eq!(send("d".into(), 1).await.1, MAX_SAFE);
    assert_eq!(send("e".into(), 1).await.1, MAX_SAFE);
    assert_eq!(send("f".into(), MAX_SAFE).await, (6_000_000, MAX_SAFE));
    // A count that a float's shortest spelling would round.
    let key = "tc:{room1}:list";
    let text: String = redis::cmd("LINDEX").arg(key).arg(0).query(&mut server.connect()).unwrap();
    let grown = text.replace(&format!("\"count\":{},", 6_000_000), "\"count\":1234567890123456,");
    assert_ne!(grown, text);
    run(&server, &["LSET", key, "0", &grown]);
    assert_eq!(send("g".into(), 0).await.0, 1_234_567_891_123_456);
}

#[tokio::test]
async fn a_lock_of_one_user_and_kind_never_meets_another() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let send = async |user: &str, kind: &str| {
        let gift = gift_of(json!({"user": {"id": user, "name": "U"}, "gift": {"id": kind, "name": "G"}}));
        new(engine.publish(&feed(), vec![gift], NOW).await.unwrap().remove(0)).status
    };
    let pairs = [
        ("a:b", "c"),
        ("a", "b:c"),
        ("a\",\"b", "c"),
        ("a", "b\",\"c"),
        ("a\n", "c"),
        ("a", "\nc"),
        ("a b", "c"),
    ];
    for (user, kind) in pairs {
        assert_eq!(send(user, kind).await, Status::Accepted, "{user} {kind}");
    }
    for (user, kind) in pairs {
        assert_eq!(send(user, kind).await, Status::Merged, "{user} {kind}");
    }
}

#[tokio::test]
async fn another_default_capacity_cuts_the_list_and_tells_the_watchers() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    for n in 0..5 {
        post(&engine, &format!("g{n}")).await;
    }
    let before = at(&engine).await;
    let mut subscription = engine.subscribe(&feed()).await.unwrap();
    // The next deploy has another default.
    let defaults = Policy { capacity: 3, ..Policy::default() };
    let options = StoreOptions { store_clock: false, defaults, ..StoreOptions::new(server.url()) };
    let engine = Store::redis(options).await.unwrap();
    let list = engine.read_snapshot(&feed(), NOW).await.unwrap();
    assert_eq!((list.rows.len(), list.policy.capacity), (3, 3));
    assert_eq!(list.at, Position { seq: before.seq + 1, ..before.clone() });
    assert_eq!(told_of(&mut subscription, &list.at).await.op, Op::Reset);
    assert_eq!(engine.read_changes(&feed(), &before, 9).await, Ok(Missed::NotCovered));
    assert_eq!(at(&engine).await, list.at, "once");
}

#[tokio::test]
async fn redis_gives_the_time_when_it_is_asked_to() {
    let server = RedisServer::start();
    let engine = Store::redis(StoreOptions::new(server.url())).await.unwrap();
    let long_ago = Millis(1);
    engine.publish(&feed(), vec![gift("a")], long_ago).await.unwrap();
    let list = engine.read_snapshot(&feed(), long_ago).await.unwrap();
    let now = Millis::now();
    assert!(now.since(list.rows[0].at) < 60_000 && now.since(list.now) < 60_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn gifts_of_one_call_stay_together_whoever_calls_at_the_same_time() {
    let server = RedisServer::start();
    let engine = Store::redis(StoreOptions::new(server.url())).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..300u64 {
        let engine = engine.clone();
        calls.spawn(async move {
            let gifts: Vec<_> = (0..1 + n % 3).map(|g| gift(&format!("{n}-{g}"))).collect();
            let wanted: Vec<_> = gifts.iter().map(|gift| gift.id.clone()).collect();
            let answers = engine.publish(&feed(), gifts, NOW).await.unwrap().into_iter().map(new);
            let answers: Vec<Answer> = answers.collect();
            assert_eq!(answers.iter().map(|a| a.id.clone()).collect::<Vec<_>>(), wanted);
            answers.iter().map(|a| a.at.seq).collect::<Vec<_>>()
        });
    }
    let mut all = vec![];
    while let Some(seqs) = calls.join_next().await {
        let seqs = seqs.unwrap();
        assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
        all.extend(seqs);
    }
    all.sort();
    assert_eq!(all, (1..=600).collect::<Vec<u64>>());
}

#[tokio::test]
async fn nobody_listening_any_more_ends_the_subscription() {
    let server = RedisServer::start();
    let engine = engine_on(&server).await;
    let listeners = || {
        let counts: Vec<(String, u64)> = redis::cmd("PUBSUB")
            .arg("SHARDNUMSUB")
            .arg("tc:{room1}:live:0")
            .query(&mut server.connect())
            .unwrap();
        counts[0].1
    };
    let first = engine.subscribe(&feed()).await.unwrap();
    let mut second = engine.subscribe(&feed()).await.unwrap();
    assert_eq!(listeners(), 1, "one for all");
    drop(first);
    let answer = post(&engine, "a").await;
    told_of(&mut second, &answer.at).await;
    drop(second);
    let since = Instant::now();
    while listeners() > 0 {
        assert!(since.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut again = engine.subscribe(&feed()).await.unwrap();
    let answer = post(&engine, "b").await;
    told_of(&mut again, &answer.at).await;
}
