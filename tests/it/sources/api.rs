//! Setting, showing, trying and deleting sources; who may, and how often one is posted to.

use super::*;
use crate::support::app::Backing;

on_both_stores![
    a_source_is_set_shown_and_deleted_and_its_path_stays_until_then,
    a_feed_has_sixteen_sources,
    a_sample_is_tried_and_nothing_is_done,
    a_source_of_ones_own_says_everything_itself,
    paths_that_nobody_has_lead_nowhere,
    a_source_is_posted_to_so_often_and_no_other_notices,
    path_guessers_are_slowed_and_sources_of_their_address_not,
];

async fn a_source_is_set_shown_and_deleted_and_its_path_stays_until_then() {
    let app = gateway().await;
    let at = "/v1/feeds/show/sources/tips";
    app.get(at).await.problem(404);
    app.call("DELETE", at, None).await.problem(404);
    let first = app.call("PUT", at, Some(&settings("stripe", SECRET).to_string())).await;
    assert_eq!(first.status, 201, "{first:?}");
    let path = first.json()["path"].as_str().unwrap().to_owned();
    assert!(
        path.starts_with("/in/") && path.ends_with(".show") && path.len() == "/in/".len() + 32 + 5,
        "{path}"
    );
    let mut other = settings("stripe", "another-secret-of-stripe");
    other["default_gift"]["name"] = json!("Coffee");
    let again = app.call("PUT", at, Some(&other.to_string())).await;
    assert_eq!((again.status, again.json()["path"].as_str()), (200, Some(path.as_str())));
    for said in [&first, &again, &app.get(at).await, &app.get("/v1/feeds/show/sources").await] {
        assert!(!said.text.contains(SECRET) && !said.text.contains("another-secret"), "{said:?}");
    }
    assert_eq!(get(&app, "show", "tips").await["default_gift"]["name"], "Coffee");
    let list = app.get("/v1/feeds/show/sources").await.json();
    assert_eq!(list["sources"].as_array().unwrap().len(), 1);
    deliver(&app, &path, stripe(STRIPE, now()), STRIPE).await.problem(401);

    for (body, pointer) in [
        (json!({"preset": "paypal"}), "/preset"),
        (json!({"preset": "kofi", "default_gift": {"id": "a", "name": "b"}}), "/secret"),
        (
            json!({"preset": "kofi", "token": "t", "default_gift": {"id": "a", "name": "b"}, "extra": 1}),
            "/extra",
        ),
    ] {
        let said = app.call("PUT", at, Some(&body.to_string())).await;
        assert!(said.pointers().contains(&pointer.to_owned()), "{said:?}");
    }
    app.call("PUT", at, Some("{")).await.problem(400);
    app.call("PUT", "/v1/feeds/show/sources/no%20name", Some("{}")).await.problem(422);
    assert_eq!(app.call("DELETE", at, None).await.status, 204);
    deliver(&app, &path, stripe(STRIPE, now()), STRIPE).await.problem(404);
    let new = set(&app, "show", "tips", &other).await;
    assert_ne!(new, path, "another source has another path");
}

async fn a_feed_has_sixteen_sources() {
    let app = gateway().await;
    for n in 0..16 {
        set(&app, "show", &format!("s{n}"), &settings("kofi", "t")).await;
    }
    let said = app.call("PUT", "/v1/feeds/show/sources/more", Some(&settings("kofi", "t").to_string())).await;
    assert_eq!(said.problem(409)["type"], "/problems/too-many-sources");
    set(&app, "show", "s7", &settings("kofi", "t")).await;
    set(&app, "other", "s", &settings("kofi", "t")).await;
}

async fn a_sample_is_tried_and_nothing_is_done() {
    let app = gateway().await;
    set(&app, "show", "kofi", &settings("kofi", "t-1")).await;
    let at = "/v1/feeds/show/sources/kofi/test";
    let (headers, posted) = form(KOFI);
    for (headers, body) in [(headers, posted.as_str()), (vec![], KOFI)] {
        let tried = deliver(&app, at, headers, body).await.json();
        assert_eq!(tried["outcome"], "gift", "{tried}");
        assert_eq!(tried["gift"]["value"], json!({"amount": 300, "currency": "USD"}));
        assert_eq!(tried["gift"]["user"]["name"], "Mira");
    }
    for (body, outcome, word) in [
        (with(KOFI, "/amount", json!("3.005")), "refused", "/amount"),
        (with(KOFI, "/type", json!("Newsletter")), "ignored", "when"),
        ("{".to_owned(), "refused", "JSON"),
    ] {
        let said = deliver(&app, at, vec![], &body).await;
        let tried = said.json();
        assert_eq!((said.status, tried["outcome"].as_str()), (200, Some(outcome)), "{tried}");
        assert!(tried["detail"].as_str().unwrap().contains(word), "{tried}");
    }
    let kept = get(&app, "show", "kofi").await;
    assert_eq!((&kept["counts"], &kept["last_at"]), (&json!({}), &Value::Null));
    assert_eq!(app.get_feed("show").await["epoch"], "0");
    deliver(&app, "/v1/feeds/show/sources/none/test", vec![], KOFI).await.problem(404);
}

async fn a_source_of_ones_own_says_everything_itself() {
    let app = gateway().await;
    let own = json!({
        "preset": "custom", "secret": SECRET, "default_gift": {"id": "b", "name": "Beer"},
        "verify": {"scheme": "hmac-sha256", "header": "X-Sig", "encoding": "hex", "prefix": "v1:"},
        "when": [{"pointer": "/kind", "equals": "payment"}, {"pointer": "/live", "equals": true}],
        "map": {"id": "/no", "user_id": "/who/id", "user_name": "/who/name", "amount": "/sum", "currency": "/cur",
            "message": "/say"},
        "amount": "micros",
        "refund": {"when": [{"pointer": "/kind", "equals": "refund"}], "id": "/no"},
    });
    let path = set(&app, "show", "own", &own).await;
    let post = async |body: Value| {
        let body = body.to_string();
        let sent = vec![("x-sig", format!("v1:{}", hex_hmac(&[body.as_bytes()])))];
        deliver(&app, &path, sent, &body).await
    };
    let payment = json!({"kind": "payment", "live": true, "no": 7, "who": {"id": "u-1", "name": "Ada"},
        "sum": 1_230_000, "cur": "eur", "say": "Hi"});
    assert_eq!(post(payment.clone()).await.json()["status"], "accepted");
    let row = rows(&app, "show").await.remove(0);
    assert_eq!(
        (&row["user"]["id"], &row["value"]),
        (&json!("u-1"), &json!({"amount": 123, "currency": "EUR"}))
    );
    assert_eq!((&row["message"], &row["gift"]["name"]), (&json!("Hi"), &json!("Beer")));
    let mut fine = payment.clone();
    (fine["sum"], fine["no"]) = (json!(1_234_567), json!(8));
    post(fine).await.problem(422);
    let mut test = payment.clone();
    (test["live"], test["no"]) = (json!(false), json!(9));
    assert_eq!(post(test).await.json()["status"], "ignored");
    assert_eq!(post(json!({"kind": "refund", "no": 7})).await.json()["status"], "retracted");
    assert_eq!(rows(&app, "show").await.len(), 0);
    let shown = get(&app, "show", "own").await;
    assert_eq!((&shown["map"], &shown["verify"]), (&own["map"], &own["verify"]));
}

async fn paths_that_nobody_has_lead_nowhere() {
    let app = gateway().await;
    let path = set(&app, "show", "tips", &settings("kofi", "kofi-token-1")).await;
    let (headers, body) = form(KOFI);
    let guess = format!("/in/{}.show", "0".repeat(32));
    for nobody in [
        guess.as_str(),
        "/in/show",
        "/in/",
        "/in/x.show",
        &path.replace(".show", ".other"),
        &path.to_uppercase(),
    ] {
        let said = deliver(&app, nobody, headers.clone(), &body).await;
        assert_eq!(said.status, 404, "{nobody} {said:?}");
        assert!(!said.text.contains("/in/0"), "{said:?}");
    }
    app.get(&path).await.problem(405);
    assert_eq!(deliver(&app, &path, headers, &body).await.status, 200);
}

async fn path_guessers_are_slowed_and_sources_of_their_address_not() {
    let app = gateway().await;
    let path = set(&app, "show", "tips", &settings("kofi", "kofi-token-1")).await;
    let (headers, body) = form(KOFI);
    let mut tried = 0;
    let refused = loop {
        tried += 1;
        let said = deliver(&app, &format!("/in/{tried:032}.show"), headers.clone(), &body).await;
        match said.status {
            404 if tried < 5_000 => {}
            _ => break said,
        }
    };
    refused.problem(429);
    assert!(tried > 100, "who mistypes a path a few times does not notice: {tried}");
    assert_eq!(deliver(&app, &path, headers, &body).await.status, 200);
}

async fn a_source_is_posted_to_so_often_and_no_other_notices() {
    let app = TestApp::with(&Backing::fresh(), |config| config.limits.deliveries_per_second = 1).await;
    let busy = set(&app, "show", "busy", &settings("kofi", "kofi-token-1")).await;
    let quiet = set(&app, "show", "quiet", &settings("kofi", "kofi-token-1")).await;
    let (headers, body) = form(KOFI);
    let mut refused = None;
    for _ in 0..60 {
        let said = deliver(&app, &busy, headers.clone(), &body).await;
        if said.status == 429 {
            refused = Some(said);
            break;
        }
    }
    refused.expect("it is refused in the end").problem(429);
    assert_eq!(deliver(&app, &quiet, headers, &body).await.status, 200);
}

#[tokio::test]
async fn a_path_needs_no_key_and_setting_it_does() {
    let key = tipcast::app::fresh_key();
    let hash = tipcast::app::KeyHash::of(&key).to_string();
    let app = TestApp::with(&Backing::fresh(), |config| config.auth.producer_keys = vec![hash.into()]).await;
    let at = "/v1/feeds/show/sources/tips";
    let body = settings("kofi", "kofi-token-1").to_string();
    app.call("PUT", at, Some(&body)).await.problem(401);
    app.get(at).await.problem(401);
    app.get("/v1/feeds/show/sources").await.problem(401);
    app.call("DELETE", at, None).await.problem(401);
    deliver(&app, &format!("{at}/test"), vec![], KOFI).await.problem(401);
    let put = app.request("PUT", at).bearer_auth(&key).header("content-type", "application/json").body(body);
    let said = Api::send(put).await;
    assert_eq!(said.status, 201, "{said:?}");
    let (headers, body) = form(KOFI);
    let path = said.json()["path"].as_str().unwrap().to_owned();
    assert_eq!(deliver(&app, &path, headers, &body).await.status, 200);
}
