//! `GET /v1/keys` and `GET /v1/audit`.

use super::*;

async fn ask(app: &TestApp, key: &str, line: &str, body: Option<Value>) -> crate::support::api::Said {
    let (method, path) = line.split_once(' ').unwrap();
    let request = app.request(method, path).bearer_auth(key);
    Api::send(body.iter().fold(request, |request, body| request.json(body))).await
}

#[tokio::test]
async fn keys_are_listed_with_what_they_may_and_when_they_were_used() {
    let (observer, mut observes) = key("eyes", &["*"], &["observe"]);
    observes.expires_at =
        toml::from_str::<KeyTable>("name = \"x\"\nmay = []\nexpires_at = \"2031-01-01T00:00:00Z\"")
            .unwrap()
            .expires_at;
    let (host, hosts) = key("host", &["game-*", "lobby"], &["moderate"]);
    let (_, idle) = key("idle", &["*"], &["gifts"]);
    let (local, locals) = key("local", &["game-*"], &["observe"]);
    let keys = vec![observes, hosts, idle, locals];
    let app = TestApp::with(&Backing::folder(), |config| config.auth.keys = keys.clone()).await;
    assert_eq!(ask(&app, &host, "GET /v1/feeds/lobby/blocks", None).await.status, 200);
    let said = ask(&app, &observer, "GET /v1/keys", None).await;
    assert_eq!(said.status, 200, "{}", said.text);
    assert!(!said.text.contains("sha256") && !said.text.contains(&host[4..]), "{}", said.text);
    let all = said.json();
    let [eyes, host, idle, _] = &all["keys"].as_array().unwrap()[..] else { panic!("{all}") };
    assert_eq!((&eyes["may"], &eyes["feeds"]), (&json!(["read", "observe"]), &json!(["*"])), "{eyes}");
    assert_eq!((&eyes["expires_at"], &eyes["signed"]), (&json!("2031-01-01T00:00:00.000Z"), &json!(false)));
    assert_eq!((&host["may"], &host["feeds"]), (&json!(["moderate", "read"]), &json!(["game-*", "lobby"])));
    assert!(host["last_used_at"].is_string() && idle.get("last_used_at").is_none(), "{host} {idle}");
    ask(&app, &local, "GET /v1/keys", None).await.problem(403);
    app.get("/v1/keys").await.problem(401);
}

#[tokio::test]
async fn changes_and_refused_keys_are_read_newest_first() {
    let (observer, observes) = key("eyes", &["*"], &["observe"]);
    let (host, hosts) = key("host", &["*"], &["moderate"]);
    let (local, locals) = key("local", &["show"], &["observe"]);
    let keys = vec![observes, hosts, locals];
    let app = TestApp::with(&Backing::folder(), |config| config.auth.keys = keys.clone()).await;
    for n in 0..5 {
        let line = format!("PUT /v1/feeds/{}/blocks/u{n}", if n == 2 { "other" } else { "show" });
        assert_eq!(ask(&app, &host, &line, Some(json!({}))).await.status, 201);
    }
    ask(&app, &host, "PUT /v1/feeds/show/policy", Some(json!({}))).await.problem(403);
    let page = ask(&app, &observer, "GET /v1/audit?limit=2", None).await.json();
    let lines = page["audit"].as_array().unwrap();
    assert_eq!(
        (&lines[0]["outcome"], &lines[0]["action"]),
        (&json!("refused"), &json!("PUT policy")),
        "{page}"
    );
    let (key, target) = (&lines[1]["key"], &lines[1]["target"]);
    assert_eq!((key, target, &lines[1]["feed"]), (&json!("host"), &json!("u4"), &json!("show")), "{page}");
    let next = page["next"].as_str().unwrap();
    let older = ask(&app, &observer, &format!("GET /v1/audit?after={next}"), None).await.json();
    let targets: Vec<_> =
        older["audit"].as_array().unwrap().iter().map(|it| it["target"].as_str().unwrap()).collect();
    assert_eq!((targets, older.get("next")), (vec!["u3", "u2", "u1", "u0"], None));
    let seen = ask(&app, &local, "GET /v1/audit", None).await.json();
    assert!(seen["audit"].as_array().unwrap().iter().all(|it| it["feed"] == "show"), "{seen}");
    assert_eq!(seen["audit"].as_array().unwrap().len(), 5);
    ask(&app, &observer, "GET /v1/audit?limit=0", None).await.problem(422);
}
