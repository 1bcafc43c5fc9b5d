//! Parameters of paths are percent-decoded exactly once, after routing (contract, introduction).

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::TestApp;
use crate::support::api::Api;
use crate::support::app::Backing;
use crate::support::case::PATIENCE;
use crate::support::gifts::gift;
use crate::support::watcher::{Brought, open_socket, read_socket};

on_both_stores![
    each_of_sixteen_odd_users_is_blocked_listed_and_unblocked_as_itself,
    holds_and_revocations_name_the_same_odd_users,
    dots_are_named_by_query_wherever_a_path_names_an_id,
    a_malformed_escape_is_400_on_every_route_with_a_parameter,
    access_control_judges_the_feed_that_the_handler_gets,
    a_socket_watches_the_feed_that_its_path_names,
];

/// A user's id, and how it is sent.
const ODD: [(&str, &str); 16] = [
    ("odd:é/user", "odd%3A%C3%A9%2Fuser"),
    ("odd:é%2Fuser", "odd%3A%C3%A9%252Fuser"),
    ("100%", "100%25"),
    ("100%25", "100%2525"),
    ("%41", "%2541"),
    ("A", "%41"),
    ("a b", "a%20b"),
    ("a+b", "a+b"),
    ("a+b+", "a%2Bb+"),
    ("..", "%2E%2E"),
    (".", "%2e"),
    ("/", "%2F"),
    ("//", "%2f%2F"),
    ("a?b#c", "a%3Fb%23c"),
    ("日本", "%E6%97%A5%E6%9C%AC"),
    ("&=;\"\\", "%26%3D%3B%22%5C"),
];

/// Sends a request whose path no client library may rewrite; gives the status and the body.
async fn send(api: &Api, key: &str, line: &str, body: &str) -> (u16, Value) {
    let (method, path) = line.split_once(' ').unwrap();
    let mut stream = tokio::net::TcpStream::connect(api.authority()).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = vec![];
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{line}: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

async fn blocked(app: &TestApp) -> Vec<String> {
    let (status, list) = send(app, "", "GET /v1/feeds/show/blocks", "").await;
    assert_eq!(status, 200);
    let blocks = list["blocks"].as_array().unwrap();
    let mut users: Vec<_> = blocks.iter().map(|block| block["user"].as_str().unwrap().to_owned()).collect();
    users.sort();
    users
}

async fn each_of_sixteen_odd_users_is_blocked_listed_and_unblocked_as_itself() {
    let app = TestApp::start().await;
    for (n, (user, sent)) in ODD.into_iter().enumerate() {
        let path = format!("/v1/feeds/show/blocks/{sent}");
        let (status, said) = send(&app, "", &format!("PUT {path}"), "{}").await;
        assert_eq!((status, &said["user"]), (201, &json!(user)), "{sent}");
        assert_eq!(blocked(&app).await.len(), n + 1);
    }
    let mut all: Vec<_> = ODD.iter().map(|(user, _)| (*user).to_owned()).collect();
    all.sort();
    assert_eq!(blocked(&app).await, all);
    // Exactly these users are blocked, and none that is spelled alike.
    for (n, (user, _)) in ODD.into_iter().enumerate() {
        let mut body = gift(&format!("g{n}")).json();
        body["user"]["id"] = user.into();
        assert_eq!(app.post_json("show", &body).await.json()["status"], "suppressed", "{user}");
    }
    assert_eq!(app.give("show", &gift("other").by("odd:é")).await["status"], "accepted");
    for (user, sent) in ODD {
        let path = format!("/v1/feeds/show/blocks/{sent}");
        assert_eq!(send(&app, "", &format!("DELETE {path}"), "").await.0, 200, "{user}");
        assert_eq!(send(&app, "", &format!("DELETE {path}"), "").await.0, 404, "{user}");
    }
    assert!(blocked(&app).await.is_empty());
}

async fn holds_and_revocations_name_the_same_odd_users() {
    let app = TestApp::start().await;
    let drop = json!({"gift": {"id": "hat", "name": "Hat"}, "total": 100, "per_user": 1});
    assert_eq!(app.call("PUT", "/v1/feeds/show/drops/hat", Some(&drop.to_string())).await.status, 201);
    for (n, (user, sent)) in ODD.into_iter().enumerate() {
        let claim = json!({"id": format!("c{n}"), "user": {"id": user, "name": "U"}, "pay": "later"});
        let (status, held) =
            send(&app, "", "POST /v1/feeds/show/drops/%68at/claims", &claim.to_string()).await;
        assert_eq!(status, 201, "{held}");
        let (_, holds) = send(&app, "", &format!("GET /v1/feeds/show/users/{sent}/holds"), "").await;
        assert_eq!(holds["holds"][0]["hold"], held["hold"], "{user}");
        assert_eq!(send(&app, "", &format!("POST /v1/viewers/{sent}/revoke"), "").await.0, 200, "{user}");
    }
}

async fn dots_are_named_by_query_wherever_a_path_names_an_id() {
    let app = TestApp::start().await;
    let json = async |line: &str, body: Value, status: u16| {
        let (got, said) = send(&app, "", line, &body.to_string()).await;
        assert_eq!(got, status, "{line}: {said}");
        said
    };
    let f = "/v1/feeds/show";
    for id in [".", "..", "batch", "retract"] {
        json(&format!("PUT {f}/blocks?user={id}"), json!({}), 201).await;
        assert_eq!(blocked(&app).await, [id]);
        json(&format!("DELETE {f}/blocks?user={id}"), json!({}), 200).await;

        app.give("show", &gift(id).value(500, "EUR")).await;
        assert_eq!(json(&format!("GET {f}/gifts?id={id}"), json!({}), 200).await["id"], id);
        json(&format!("POST {f}/gifts/refund?id={id}"), json!({"refunded": 100}), 200).await;
        json(&format!("POST {f}/gifts/retract?id={id}"), json!({}), 200).await;
        if id == "retract" {
            // A fixed part of another path is an id too.
            assert_eq!(json(&format!("GET {f}/gifts/{id}"), json!({}), 200).await["status"], "retracted");
        }

        app.post_json("later", &gift(id).with("delay_ms", json!(60_000)).json()).await;
        json(&format!("DELETE /v1/feeds/later/scheduled?id={id}"), json!({}), 200).await;

        app.patch_policy("reviewed", json!({"review": "all"})).await;
        app.post_json("reviewed", &gift(id).json()).await;
        let decided =
            json(&format!("POST /v1/feeds/reviewed/review?id={id}"), json!({"action": "deny"}), 200).await;
        assert_eq!(decided["status"], "denied");

        let drop = json!({"gift": {"id": "hat", "name": "Hat"}, "total": 9, "per_user": 9});
        app.call("PUT", &format!("{f}/drops/hat"), Some(&drop.to_string())).await;
        let claim = json!({"id": id, "user": {"id": id, "name": "U"}, "pay": "later"});
        let held = json(&format!("POST {f}/drops/hat/claims"), claim, 201).await;
        let holds = json(&format!("GET {f}/users/holds?user={id}"), json!({}), 200).await;
        assert_eq!(holds["holds"][0]["hold"], held["hold"]);
        assert_eq!(
            json(&format!("GET {f}/drops/hat/claims?id={id}"), json!({}), 200).await["status"],
            "held"
        );
        json(&format!("POST {f}/drops/hat/claims/refund?id={id}"), json!({"refunded": 1}), 409).await;
        json(&format!("POST {f}/drops/hat/claims/retract?id={id}"), json!({}), 200).await;
        json(&format!("POST /v1/viewers/revoke?sub={id}"), json!({}), 200).await;
    }
    for line in [
        "PUT /v1/feeds/show/blocks",
        "GET /v1/feeds/show/gifts?id=",
        "DELETE /v1/feeds/show/scheduled?id=a&id=b",
    ] {
        json(line, json!({}), 405).await;
    }
    for line in ["POST /v1/feeds/show/gifts/retract", "GET /v1/feeds/show/users/holds?user="] {
        let problem = json(line, json!({}), 422).await;
        assert!(problem["detail"].as_str().unwrap().contains("say which: ?"), "{problem}");
    }
}

/// Paths with a parameter that the description of the API leaves out.
const UNDESCRIBED: [&str; 7] = [
    "GET /desk/{feed}",
    "GET /overlay/{feed}",
    "GET /overlay/{feed}/leaders",
    "GET /overlay/{feed}/goal/{goal}",
    "GET /static/{file}",
    "GET /problems/{name}",
    "POST /in/{path}",
];

async fn a_malformed_escape_is_400_on_every_route_with_a_parameter() {
    let app = TestApp::start().await;
    let described = app.get("/openapi.json").await.json();
    let mut lines: Vec<String> = UNDESCRIBED.map(str::to_owned).into();
    for (path, methods) in described["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys().filter(|it| *it != "parameters");
        lines.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    lines.retain(|line| line.contains('{'));
    assert!(lines.len() >= 52, "{lines:?}");
    for line in lines {
        let names: Vec<String> =
            line.split('{').skip(1).map(|it| it.split_once('}').unwrap().0.into()).collect();
        for name in names {
            for bad in ["%zz", "100%", "%C3"] {
                // The others are legal, and a star is no feed where one is needed.
                let line = line.replace(&format!("{{{name}}}"), bad).replace(['{', '}'], "");
                let (status, said) = send(&app, "", &line, "{}").await;
                assert_eq!((status, &said["type"]), (400, &json!("/problems/malformed-path")), "{line}");
                assert!(said["detail"].as_str().unwrap().contains(&format!("{{{name}}}")), "{said}");
            }
        }
    }
}

async fn access_control_judges_the_feed_that_the_handler_gets() {
    const KEY: &str = "tck_of-the-show-0123456789";
    let app = TestApp::with(&Backing::fresh(), |config| {
        config.auth.keys = vec![tipcast::config::KeyTable {
            name: "show".into(),
            hash: Some(tipcast::auth::KeyHash::of(KEY).to_string().into()),
            feeds: Some(vec!["show".into()]),
            may: vec!["gifts".into(), "moderate".into()],
            ..Default::default()
        }];
    })
    .await;
    let body = gift("g1").json().to_string();
    for (feed, status) in [
        ("%73how", 201),
        ("show", 200),
        ("sho%77", 200),
        ("%2573how", 403),
        ("show%2F..%2Fother", 403),
        ("%6Fther", 403),
        ("show%00", 403),
    ] {
        let (told, said) = send(&app, KEY, &format!("POST /v1/feeds/{feed}/gifts"), &body).await;
        assert_eq!(told, status, "{feed}: {said}");
    }
    let (status, said) = send(&app, KEY, "GET /v1/feeds/%2A/blocks", "").await;
    assert_eq!(status, 403, "{said}");
    // A slash that is encoded is part of a name: no path has one segment more, or less, by it.
    assert_eq!(send(&app, KEY, "POST /v1/feeds/show%2Fgifts", &body).await.0, 405);
    assert_eq!(send(&app, KEY, "GET /v1/feeds/show/blocks%2F", "").await.0, 404);
}

async fn a_socket_watches_the_feed_that_its_path_names() {
    let app = TestApp::start().await;
    app.give("show", &gift("g1")).await;
    let mut socket = open_socket(&app, "/v1/feeds/%73%68ow/ws", None).await.unwrap();
    let first = read_socket(&mut socket).await;
    assert!(
        matches!(&first, Brought::Frame(frame) if frame["feed"] == "show" && frame["seq"] == 1),
        "{first:?}"
    );
    assert_eq!(open_socket(&app, "/v1/feeds/show%zz/ws", None).await.err(), Some(400));
    assert_eq!(open_socket(&app, "/v1/feeds/show%2Fws", None).await.err(), Some(422));
}
