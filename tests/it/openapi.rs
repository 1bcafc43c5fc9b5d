//! `/openapi.json` against the running server: its examples are accepted, and what is answered has the
//! shapes that it says. `/docs` shows it.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::api::Said;
use crate::support::claims::{claim, hold, rockets, with};
use crate::support::gifts::gift;
use crate::support::schema::differences;

/// The document.
struct Document(Value);

impl Document {
    async fn of(app: &TestApp) -> Document {
        let said = app.get("/openapi.json").await;
        assert_eq!(said.status, 200);
        assert_eq!(said.header("content-type"), "application/json");
        Document(said.json())
    }

    fn faults(&self, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        differences(&self.0, schema, value, at)
    }

    /// Checks an answer against the operation that gave it.
    fn check(&self, method: &str, path: &str, said: &Said) {
        let operation = &self.0["paths"][path][method];
        assert!(operation.is_object(), "{method} {path}");
        let answer = &operation["responses"][said.status.to_string()];
        assert!(answer.is_object(), "{method} {path} does not say {}: {}", said.status, said.text);
        let kind = said.header("content-type").split(';').next().unwrap();
        let Some(content) = answer["content"].as_object() else {
            assert_eq!(said.text, "", "{method} {path}");
            return;
        };
        let content = content.get(kind).unwrap_or_else(|| panic!("{method} {path}: {kind} is not described"));
        if kind.ends_with("json") {
            let faults = self.faults(&content["schema"], &said.json(), "");
            assert!(faults.is_empty(), "{method} {path}\n{}\n{}", faults.join("\n"), said.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_a_body_is_accepted_and_answered_as_described() {
    let app = TestApp::start().await;
    let document = Document::of(&app).await;
    let mut sent = 0;
    for (path, item) in document.0["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let examples = &operation["requestBody"]["content"]["application/json"]["examples"];
            for example in examples.as_object().into_iter().flat_map(|examples| examples.values()) {
                let body = &example["value"];
                let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
                assert_eq!(document.faults(schema, body, ""), Vec::<String>::new(), "{method} {path}");
                let real = path.replace("{feed}", "show").replace("{drop}", "rocket");
                let real = real.replace("{group}", "game").replace("{name}", "game").replace("{goal}", "mic");
                let real = real.replace("{id}", "paid");
                let query = operation["parameters"].as_array().into_iter().flatten();
                let by_query = query.into_iter().any(|it| it["in"] == "query" && it["name"] == "id");
                let real = if by_query { format!("{real}?id=paid") } else { real };
                if by_query || path.contains("{id}") {
                    app.give("show", &gift("paid").value(1_500, "EUR")).await;
                }
                if path.contains("/claims/") {
                    let drop = with(rockets(1), "value", json!({"amount": 1_500, "currency": "EUR"}));
                    app.call("PUT", "/v1/feeds/show/drops/sold", Some(&drop.to_string())).await;
                    let sale = claim("paid", "ann").to_string();
                    app.call("POST", "/v1/feeds/show/drops/sold/claims", Some(&sale)).await;
                }
                let real = if path.contains("/claims/") { real.replace("/rocket/", "/sold/") } else { real };
                if path.contains("{goal}") {
                    app.patch_policy("show", json!({"totals": ["session"]})).await;
                }
                let said = app.call(&method.to_uppercase(), &real, Some(&body.to_string())).await;
                assert!(matches!(said.status, 200..=202), "{method} {path}: {said:?}");
                document.check(method, path, &said);
                sent += 1;
            }
        }
    }
    assert!(sent >= 8, "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_an_answer_has_the_shape_that_is_described() {
    let app = TestApp::start().await;
    let document = Document::of(&app).await;
    let mut checked = 0;
    for (path, item) in document.0["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let content = &answer["content"]["application/json"];
                if let Some(example) = content.get("example") {
                    let faults = document.faults(&content["schema"], example, "");
                    assert!(faults.is_empty(), "{method} {path} {status}: {}", faults.join("\n"));
                    checked += 1;
                }
            }
        }
    }
    assert!(checked >= 10, "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_match_their_schema() {
    let app = TestApp::start().await;
    let document = Document::of(&app).await;
    let (gifts, batch) = ("/v1/feeds/{feed}/gifts", "/v1/feeds/{feed}/gifts/batch");
    app.put_policy("show", json!({"row_ttl_ms": 600_000})).await;
    let whole = gift("a").count(3).value(499, "EUR").combo("run", 3).end().test();
    let whole = whole.with("message", json!("hi")).with("tier", json!(9)).with("meta", json!({"a": 1}));
    let first = app.post_gift("show", &whole).await;
    assert_eq!(first.status, 201);
    document.check("post", gifts, &first);
    for again in [whole, gift("b"), gift("c"), gift("b"), gift("d").with("avatar", json!(1)), gift("é")] {
        document.check("post", gifts, &app.post_gift("show", &again).await);
    }
    app.patch_policy("show", json!({"dedup": "drop"})).await;
    for suppressed in [gift("e"), gift("e")] {
        document.check("post", gifts, &app.post_gift("show", &suppressed).await);
    }
    let mixed = [gift("a").json(), gift("f").kind("tea").json(), gift("g").json(), json!(7)];
    document.check("post", batch, &app.post_batch("show", &mixed).await);
    for body in ["{", "[]", "{\"gifts\":[]}"] {
        for path in [gifts, batch] {
            let real = path.replace("{feed}", "show");
            document.check("post", path, &app.call("POST", &real, Some(body)).await);
        }
    }
    let text = "x".repeat(9_000);
    document.check("post", gifts, &app.call("POST", "/v1/feeds/show/gifts", Some(&text)).await);
    let untyped = app.request("POST", "/v1/feeds/show/gifts").body("{}");
    document.check("post", gifts, &crate::support::api::Api::send(untyped).await);

    for path in ["/v1/feeds/{feed}", "/v1/feeds/{feed}/policy", "/v1/feeds/{feed}/ws"] {
        for feed in ["show", "empty", "not%20a%20name"] {
            document.check("get", path, &app.get(&path.replace("{feed}", feed)).await);
        }
    }
    for (path, real) in [
        ("/v1/ws", "/v1/ws"),
        ("/healthz", "/healthz"),
        ("/readyz", "/readyz"),
        ("/metrics", "/metrics"),
        ("/problems/{name}", "/problems/invalid"),
        ("/problems/{name}", "/problems/none"),
    ] {
        document.check("get", path, &app.get(real).await);
    }
    let row = first.json()["row"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        document.check("delete", "/v1/feeds/{feed}/rows/{row}", &app.retract("show", &row).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_the_console_match_their_schema() {
    let app = TestApp::start().await;
    let document = Document::of(&app).await;
    let hook = json!({"url": "https://8.8.8.8/", "secret": crate::support::receiver::SECRET});
    assert_eq!(app.call("PUT", "/v1/feeds/*/webhooks/all", Some(&hook.to_string())).await.status, 201);
    // A feed without a change, and lines of the audit log without a key and about no feed.
    app.put_policy("quiet", json!({"capacity": 3})).await;
    app.give("show", &gift("a")).await;
    app.call("POST", "/v1/viewers/ann/revoke", Some("{}")).await;
    let deadline = tokio::time::Instant::now() + crate::support::case::PATIENCE;
    while app.get("/v1/feeds").await.json()["feeds"].as_array().unwrap().len() < 2 {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for path in ["/v1/feeds", "/v1/nodes", "/v1/stats", "/v1/audit", "/v1/keys", "/v1/admin/overview"] {
        let said = app.get(path).await;
        assert_eq!(said.status, 200, "{path}");
        document.check("get", path, &said);
    }
    for query in ["/v1/feeds?limit=0", "/v1/stats?minutes=0", "/v1/audit?limit=0"] {
        document.check("get", query.split('?').next().unwrap(), &app.get(query).await);
    }
    let path = "/v1/feeds/{feed}/webhooks/{name}/attempts";
    document.check("get", path, &app.get("/v1/feeds/*/webhooks/all/attempts").await);
    document.check("get", path, &app.get("/v1/feeds/*/webhooks/none/attempts").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_docs_page_asks_no_other_host_and_runs_nothing_inline() {
    let app = TestApp::start().await;
    let page = app.get("/docs").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    // The text of the live protocol, which tests/it/asyncapi.rs looks at.
    let (head, rest) = page.text.split_once("<div id=\"protocol\"").unwrap();
    let page_text = format!("{head}{}", rest.split_once("</section>").unwrap().1);
    for (path, mime) in [("/static/docs.js", "text/javascript"), ("/static/docs.css", "text/css")] {
        assert!(page_text.contains(&format!("\"{}\"", &path[1..])), "{path}");
        let file = app.get(path).await;
        assert_eq!(file.status, 200, "{path}");
        assert!(file.header("content-type").starts_with(mime), "{path}");
        for text in [&page_text, &file.text] {
            assert!(!text.contains("://") && !text.contains("innerHTML"), "{path}");
        }
        let again = app.request("GET", path).header("if-none-match", file.header("etag"));
        assert_eq!(crate::support::api::Api::send(again).await.status, 304, "{path}");
    }
    assert!(!page_text.contains("<style") && !page_text.contains(" on") && !page_text.contains("style="));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_about_drops_match_their_schema() {
    let app = TestApp::start().await;
    let document = Document::of(&app).await;
    let check = async |method: &str, path: &str, rest: [&str; 2], body: Option<Value>, status: u16| {
        let real = path.replace("{feed}", "show").replace("{drop}", rest[0]).replace("{user}", rest[0]);
        let real = real.replace("{hold}", rest[1]);
        let said =
            app.call(&method.to_uppercase(), &real, body.map(|body| body.to_string()).as_deref()).await;
        assert_eq!(said.status, status, "{method} {real}: {said:?}");
        document.check(method, path, &said);
    };
    let (one, claims) = ("/v1/feeds/{feed}/drops/{drop}", "/v1/feeds/{feed}/drops/{drop}/claims");
    let (confirm, end) = ("/v1/feeds/{feed}/holds/{hold}/confirm", "/v1/feeds/{feed}/holds/{hold}");
    let whole =
        with(with(rockets(3), "opens_at", json!("2020-01-01T00:00:00Z")), "max_holds_per_user", json!(1));
    for (body, status) in
        [(with(whole, "closes_at", json!("2999-01-01T00:00:00Z")), 201), (rockets(4), 200), (json!({}), 422)]
    {
        check("put", one, ["r", ""], Some(body), status).await;
    }
    check("put", one, ["s", ""], Some(with(rockets(1), "max_holds_per_user", json!(1))), 201).await;
    for (body, status) in [
        (claim("c1", "ann"), 201),
        (claim("c1", "ann"), 201),
        (claim("c1", "bob"), 422),
        (claim("c2", "ann"), 409),
        (hold("c3", "bob"), 201),
        (hold("c4", "eve"), 201),
        (hold("c5", "zoe"), 201),
        (claim("c6", "max"), 409),
    ] {
        check("post", claims, ["r", ""], Some(body), status).await;
    }
    check("post", claims, ["s", ""], Some(hold("c7", "bob")), 409).await;
    for id in ["c1", "c3", "none"] {
        let one = "/v1/feeds/{feed}/drops/{drop}/claims/{id}";
        let found = app.get(&format!("/v1/feeds/show/drops/r/claims/{id}")).await;
        assert_eq!(found.status, if id == "none" { 404 } else { 200 }, "{found:?}");
        document.check("get", one, &found);
    }
    check("post", claims, ["none", ""], Some(claim("c1", "ann")), 404).await;
    check("put", one, ["r", ""], Some(rockets(1)), 409).await;
    for (name, status) in [("r", 200), ("none", 404), ("a~b", 422)] {
        check("get", one, [name, ""], None, status).await;
    }
    check("get", "/v1/feeds/{feed}/drops", ["", ""], None, 200).await;
    check("get", "/v1/feeds/{feed}", ["", ""], None, 200).await;
    check("get", "/v1/feeds/{feed}/users/{user}/holds", ["bob", ""], None, 200).await;
    for (hold, status) in [("r~c3", 200), ("r~c3", 200), ("r~none", 404)] {
        check("post", confirm, ["", hold], None, status).await;
    }
    for (hold, status) in [("r~c4", 200), ("r~c4", 409), ("none", 404)] {
        check("delete", end, ["", hold], None, status).await;
    }
    check("post", confirm, ["", "r~c4"], None, 409).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_about_reports_match_their_schema() {
    let app = TestApp::with(&crate::support::app::Backing::fresh(), |config| {
        config.reports.max_attempts = 1;
    })
    .await;
    let document = Document::of(&app).await;
    let check = async |method: &str, path: &str, feed: &str, name: &str, body: Option<Value>, status: u16| {
        let real = path.replace("{feed}", feed).replace("{group}", name).replace("{name}", name);
        let body = body.map(|body| body.to_string());
        let said = app.call(&method.to_uppercase(), &real, body.as_deref()).await;
        assert_eq!(said.status, status, "{method} {real}: {said:?}");
        document.check(method, path, &said);
        said
    };
    let (groups, hooks) = ("/v1/feeds/{feed}/groups", "/v1/feeds/{feed}/webhooks");
    let (group, hook) = (format!("{groups}/{{group}}"), format!("{hooks}/{{name}}"));
    let (claim, ack, nack) = (format!("{group}/claim"), format!("{group}/ack"), format!("{group}/nack"));
    let (dead, hook_dead) = (format!("{group}/dead"), format!("{hook}/dead"));
    let (replay, hook_replay) = (format!("{dead}/replay"), format!("{hook_dead}/replay"));
    app.patch_policy("show", json!({"dedup": "drop"})).await;
    for id in ["a", "b", "c"] {
        app.give("show", &gift(id)).await;
    }
    let asks = json!({"consumer": "t"});
    let said = check("post", &claim, "show", "g", Some(asks.clone()), 200).await.json();
    let cursor = |n: usize| json!({"cursors": [said["entries"][n]["cursor"]]});
    check("post", &claim, "show", "g", Some(json!({})), 422).await;
    check("post", &ack, "show", "g", Some(cursor(0)), 200).await;
    check("post", &nack, "show", "g", Some(cursor(1)), 200).await;
    // It was handed out as often as may be.
    check("post", &claim, "show", "g", Some(asks), 200).await;
    check("get", &dead, "show", "g", None, 200).await;
    check("get", &group, "show", "g", None, 200).await;
    check("get", groups, "show", "g", None, 200).await;
    let spec = json!({"url": "https://nobody.invalid/", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"});
    for (feed, status) in [("show", 201), ("show", 200), ("*", 201), ("a~b", 422)] {
        check("put", &hook, feed, "w", Some(spec.clone()), status).await;
    }
    for feed in ["show", "*"] {
        check("get", &hook, feed, "w", None, 200).await;
        check("get", hooks, feed, "w", None, 200).await;
        check("get", &hook_dead, feed, "w", None, 200).await;
        check("post", &hook_replay, feed, "w", Some(json!({})), 200).await;
    }
    check("get", "/v1/admin/overview", "", "", None, 200).await;
    check("post", &replay, "show", "g", Some(json!({})), 200).await;
    for (method, path) in
        [("get", &group), ("get", &dead), ("delete", &group), ("get", &hook), ("delete", &hook)]
    {
        check(method, path, "show", "none", None, 404).await;
    }
    for (path, body) in
        [(&ack, cursor(0)), (&nack, cursor(0)), (&replay, json!({})), (&hook_replay, json!({}))]
    {
        check("post", path, "show", "none", Some(body), 404).await;
    }
    check("delete", &group, "show", "g", None, 204).await;
    check("delete", &hook, "*", "w", None, 204).await;
}
