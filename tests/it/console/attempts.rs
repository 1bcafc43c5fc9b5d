//! Attempts to deliver to a webhook, and tests of it.

use super::*;
use crate::support::receiver::{OK, Receiver, Reply, SECRET, signature};

on_both_stores![
    attempts_have_what_came_back_newest_first,
    a_test_sends_a_signed_sample_of_each_type_and_says_what_came_back,
    a_webhook_that_waits_or_is_disabled_sends_at_once_when_it_is_asked_to,
];

async fn gateway() -> TestApp {
    TestApp::with(&Backing::fresh(), |config| config.webhooks.allow_private = true).await
}

async fn hook(app: &TestApp, feed: &str, receiver: &Receiver) {
    let spec = json!({"url": receiver.url("/hook"), "secret": SECRET, "batch_max": 1, "batch_ms": 0});
    let said = app.call("PUT", &format!("/v1/feeds/{feed}/webhooks/game"), Some(&spec.to_string())).await;
    assert_eq!(said.status, 201, "{}", said.text);
}

async fn attempts_have_what_came_back_newest_first() {
    let app = gateway().await;
    let mut count = 0;
    let receiver = Receiver::that(move |_| {
        count += 1;
        if count == 1 { Reply::Status(503, "") } else { OK }
    })
    .await;
    app.get("/v1/feeds/show/webhooks/game/attempts").await.problem(404);
    hook(&app, "show", &receiver).await;
    let path = "/v1/feeds/show/webhooks/game/attempts";
    assert_eq!(app.get(path).await.json(), json!({"attempts": []}));
    app.give("show", &gift("g1")).await;
    let len = |page: &Value| page["attempts"].as_array().unwrap().len();
    let all = until(&app, path, |page| len(page) == 2).await;
    let [newest, first] = &all["attempts"].as_array().unwrap()[..] else { panic!("{all}") };
    assert_eq!(
        (&first["status"], &first["entries"], &first["feed"]),
        (&json!(503), &json!(1), &json!("show"))
    );
    assert!(first["error"].as_str().unwrap().contains("503") && first["ms"].is_u64(), "{first}");
    assert_eq!((&newest["status"], newest.get("error")), (&json!(204), None), "{newest}");
    assert_eq!(newest["batch"], first["batch"], "the same batch again");
    for n in 0..55 {
        app.give("show", &gift(&format!("m{n}")).by(&format!("u{n}"))).await;
    }
    receiver.wait_for("all of them", |got| got.len() == 57).await;
    let all = until(&app, path, |page| len(page) == 50 && page["attempts"][49]["status"] == 204).await;
    assert_eq!(len(&all), 50);
    assert_eq!(len(&app.get(&format!("{path}?limit=3")).await.json()), 3);
    app.get(&format!("{path}?limit=51")).await.problem(422);
}

async fn a_test_sends_a_signed_sample_of_each_type_and_says_what_came_back() {
    let app = gateway().await;
    let receiver = Receiver::start().await;
    app.call("POST", "/v1/feeds/show/webhooks/game/test", None).await.problem(404);
    for feed in ["show", "*"] {
        hook(&app, feed, &receiver).await;
        let said = app.call("POST", &format!("/v1/feeds/{feed}/webhooks/game/test"), None).await;
        let came = said.json();
        assert_eq!((said.status, &came["status"], &came["entries"]), (200, &json!(204), &json!(9)), "{came}");
        let delivery = receiver.got().pop().unwrap();
        assert_eq!((&delivery.json["test"], delivery.feed()), (&json!(true), feed));
        assert!(delivery.json["entries"].as_array().unwrap().iter().all(|it| it["test"] == true));
        let wanted = signature(SECRET, &delivery.id, &delivery.timestamp, &delivery.body);
        assert!(delivery.signatures.contains(&wanted), "{delivery:?}");
        assert_eq!(came["batch"], json!(delivery.id));
        let kept = app.get(&format!("/v1/feeds/{feed}/webhooks/game/attempts")).await.json();
        assert_eq!(kept["attempts"], json!([came]));
    }
    let ledger = app.get("/v1/feeds/show/ledger").await.json();
    assert_eq!(ledger["entries"], json!([]), "a test is in no ledger");
    receiver.answers(|_| Reply::Close);
    let came = app.call("POST", "/v1/feeds/show/webhooks/game/test", None).await.json();
    assert!(came.get("status").is_none() && !came["error"].as_str().unwrap().is_empty(), "{came}");
}

async fn a_webhook_that_waits_or_is_disabled_sends_at_once_when_it_is_asked_to() {
    let app = gateway().await;
    app.call("POST", "/v1/feeds/show/webhooks/game/retry", None).await.problem(404);
    for feed in ["show", "*"] {
        let receiver = Receiver::start().await;
        hook(&app, feed, &receiver).await;
        let path = format!("/v1/feeds/{feed}/webhooks/game");
        for (n, (answer, state)) in
            [(Reply::Status(503, "retry-after: 3600"), "active"), (Reply::Status(410, ""), "disabled")]
                .into_iter()
                .enumerate()
        {
            receiver.answers(move |_| answer.clone());
            app.give("show", &gift(&format!("{}{n}", feed.len()))).await;
            until(&app, &path, |hook| hook["state"] == state && hook["last_error"].is_string()).await;
            receiver.answers(|_| OK);
            let hook = app.call("POST", &format!("{path}/retry"), None).await;
            assert_eq!((hook.status, &hook.json()["state"]), (200, &json!("active")), "{}", hook.text);
            assert!(hook.json()["last_error"].is_null() && !hook.text.contains(SECRET), "{}", hook.text);
            let waited = [format!("{}{n}", feed.len())];
            receiver
                .wait_for("the gift that had waited", |got| {
                    got.iter().any(|it| it.accepted && it.gifts() == waited)
                })
                .await;
        }
        app.call("DELETE", &path, None).await;
    }
}
