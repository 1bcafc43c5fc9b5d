//! `GET /v1/feeds`.

use super::*;
use crate::support::cluster::Cluster;

on_both_stores![
    a_new_feed_appears_with_how_it_stands,
    pages_follow_each_other_in_the_order_of_names,
    a_feed_of_which_nothing_is_left_leaves_the_list,
    a_feed_that_only_has_a_policy_is_listed,
];

fn names(page: &Value) -> Vec<&str> {
    page["feeds"].as_array().unwrap().iter().map(|it| it["feed"].as_str().unwrap()).collect()
}

async fn a_new_feed_appears_with_how_it_stands() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/v1/feeds").await.json(), json!({"feeds": []}));
    app.put_policy("show", json!({"dedup": "off"})).await;
    app.give("show", &gift("g1")).await;
    app.give("show", &gift("g2").by("b")).await;
    let page = until(&app, "/v1/feeds", |page| names(page) == ["show"]).await;
    let (it, feed) = (&page["feeds"][0], app.get_feed("show").await);
    assert_eq!((&it["epoch"], &it["seq"], &it["rows"]), (&feed["epoch"], &feed["seq"], &json!(2)), "{it}");
    assert_eq!((&it["visibility"], &it["watchers"]), (&json!("public"), &json!(0)));
    assert!(it["last_at"].as_str().unwrap().ends_with('Z') && it.get("damaged").is_none());
    app.patch_policy("show", json!({"visibility": "private"})).await;
    assert_eq!(app.get("/v1/feeds").await.json()["feeds"][0]["visibility"], "private");
    let _watcher = app.watch("other").await;
    app.give("other", &gift("g1")).await;
    let page = until(&app, "/v1/feeds", |page| page["feeds"][0]["watchers"] == 1).await;
    assert_eq!((names(&page), page.get("next")), (vec!["other", "show"], None));
}

async fn pages_follow_each_other_in_the_order_of_names() {
    let app = TestApp::start().await;
    let all: Vec<String> = (0..25).map(|n| format!("room-{n:02}")).collect();
    for feed in &all {
        app.give(feed, &gift("g1")).await;
    }
    app.give("hall", &gift("g1")).await;
    until(&app, "/v1/feeds?limit=1000", |page| names(page).len() == 26).await;
    let (mut seen, mut path) = (Vec::new(), "/v1/feeds?prefix=room-&limit=10".to_owned());
    loop {
        let page = app.get(&path).await.json();
        seen.extend(names(&page).into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/feeds?prefix=room-&limit=10&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, all);
    assert_eq!(app.get("/v1/feeds?prefix=room-24").await.json()["feeds"].as_array().unwrap().len(), 1);
    assert_eq!(app.get("/v1/feeds?prefix=zzz").await.json(), json!({"feeds": []}));
    for wrong in ["limit=0", "limit=1001", "limit=x", "prefix=a%20b", "after="] {
        app.get(&format!("/v1/feeds?{wrong}")).await.problem(422);
    }
}

async fn a_feed_of_which_nothing_is_left_leaves_the_list() {
    let backing = Backing::fresh();
    let Backing::Redis(corner, _) = &backing else { return };
    let app = TestApp::on(&backing).await;
    app.give("gone", &gift("g1")).await;
    until(&app, "/v1/feeds", |page| names(page) == ["gone"]).await;
    let mut redis = corner.server.connect();
    let pattern = format!("{}{{gone}}*", corner.prefix);
    let keys: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut redis).unwrap();
    let _: u64 = redis::cmd("DEL").arg(keys).query(&mut redis).unwrap();
    assert_eq!(app.get("/v1/feeds").await.json(), json!({"feeds": []}));
    let index = format!("{}{{feeds}}:names", corner.prefix);
    let left: u64 = redis::cmd("ZCARD").arg(index).query(&mut redis).unwrap();
    assert_eq!(left, 0);
    app.give("gone", &gift("g2")).await;
    until(&app, "/v1/feeds", |page| names(page) == ["gone"]).await;
}

async fn a_feed_that_only_has_a_policy_is_listed() {
    let app = TestApp::start().await;
    app.put_policy("quiet", json!({"capacity": 3})).await;
    let page = until(&app, "/v1/feeds", |page| names(page) == ["quiet"]).await;
    let it = &page["feeds"][0];
    assert_eq!((&it["seq"], &it["rows"], &it["last_at"]), (&json!(0), &json!(0), &Value::Null), "{it}");
}

#[tokio::test]
async fn a_key_sees_the_feeds_that_it_covers() {
    let (observer, observes) = key("eyes", &["show-*", "hall"], &["observe"]);
    let (reader, reads) = key("reader", &["*"], &["read"]);
    let (giver, gives) = key("game", &["*"], &["gifts"]);
    let app =
        TestApp::with(&Backing::folder(), |config| config.auth.keys = vec![observes, reads, gives]).await;
    let ask = async |key: &str, line: &str| {
        let (method, path) = line.split_once(' ').unwrap();
        Api::send(app.request(method, path).bearer_auth(key).body("{")).await
    };
    for feed in ["show-1", "hall", "halls", "other"] {
        let post = app.request("POST", &format!("/v1/feeds/{feed}/gifts")).bearer_auth(&giver);
        assert_eq!(Api::send(post.json(&gift("g1").json())).await.status, 201);
    }
    let deadline = Instant::now() + PATIENCE;
    while names(&ask(&reader, "GET /v1/feeds").await.json()) != ["hall", "halls", "other", "show-1"] {
        assert!(Instant::now() < deadline);
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(names(&ask(&observer, "GET /v1/feeds").await.json()), ["hall", "show-1"]);
    let first = ask(&observer, "GET /v1/feeds?limit=1").await.json();
    assert_eq!((names(&first), first["next"].as_str()), (vec!["hall"], Some("hall")));
    ask(&giver, "GET /v1/feeds").await.problem(403);
    app.get("/v1/feeds").await.problem(401);
    // It reads everything of its feeds, and changes nothing.
    for line in ["GET /v1/feeds/hall/review", "GET /v1/feeds/hall/groups", "GET /v1/feeds/hall/sources"] {
        assert_eq!(ask(&observer, line).await.status, 200, "{line}");
        ask(&observer, &line.replace("hall", "other")).await.problem(403);
    }
    for line in ["POST /v1/feeds/hall/gifts", "PUT /v1/feeds/hall/policy", "DELETE /v1/feeds/hall/rows/r"] {
        ask(&observer, line).await.problem(403);
    }
}

#[tokio::test]
async fn feeds_and_nodes_of_a_cluster_are_listed_and_those_of_a_dead_shard_are_left_out() {
    let mut cluster = Cluster::start(0);
    let app = TestApp::with(&Backing::folder(), |config| config.redis.url = cluster.url()).await;
    let of_shards: Vec<String> = (0..3).map(|primary| cluster.name_at(primary, "room-")).collect();
    for feed in &of_shards {
        app.give(feed, &gift("g1")).await;
    }
    let mut sorted = of_shards.clone();
    sorted.sort();
    let page = until(&app, "/v1/feeds", |page| names(page) == sorted).await;
    assert!(page["feeds"].as_array().unwrap().iter().all(|it| it["rows"] == 1), "{page}");
    until(&app, "/v1/nodes", |page| page["nodes"][0]["ready"] == true).await;
    cluster.nodes[0].kill();
    sorted.retain(|feed| *feed != of_shards[0]);
    until(&app, "/v1/feeds", |page| names(page) == sorted).await;
    let detail = |page: &Value| page["nodes"][0]["detail"].as_str().unwrap_or_default().to_owned();
    let nodes = until(&app, "/v1/nodes", |page| !detail(page).is_empty()).await;
    assert!(detail(&nodes).contains("shards"), "{nodes}");
}

#[tokio::test]
async fn a_damaged_feed_is_listed_as_such_and_hides_no_other() {
    let backing = Backing::redis();
    let Backing::Redis(corner, _) = &backing else { unreachable!() };
    let app = TestApp::on(&backing).await;
    for feed in ["hurt", "well"] {
        app.give(feed, &gift("g1")).await;
    }
    until(&app, "/v1/feeds", |page| names(page) == ["hurt", "well"]).await;
    let meta = format!("{}{{hurt}}:meta", corner.prefix);
    let _: () = redis::cmd("SET").arg(meta).arg("{garbage").query(&mut corner.server.connect()).unwrap();
    let page = app.get("/v1/feeds").await.json();
    let [hurt, well] = &page["feeds"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!(
        (&hurt["damaged"], well.get("damaged"), &well["rows"]),
        (&json!(true), None, &json!(1)),
        "{page}"
    );
}
