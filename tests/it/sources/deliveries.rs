//! What platforms post, as it comes and as it should not.

use super::*;

on_both_stores![
    every_platform_makes_its_gift_once_however_often_it_repeats_it,
    a_wrong_signature_shows_nothing_and_is_told_to_the_owner,
    an_old_delivery_is_refused,
    a_refund_takes_the_gift_back_whether_it_comes_after_or_before,
    the_refund_of_a_subscription_finds_its_gift,
    paid_by_bank_is_one_gift,
    nothing_private_reaches_rows_or_reports,
    money_that_does_not_fit_is_refused_and_told,
    twitch_asks_and_is_answered_in_plain_text,
    a_delivery_that_is_repeated_with_other_unsigned_headers_counts_once,
    no_browser_guesses_the_type_of_an_answer_of_a_source,
    gifts_not_shown_are_answered_and_counted,
    bodies_that_are_too_large_or_no_json_are_refused,
];

async fn every_platform_makes_its_gift_once_however_often_it_repeats_it() {
    let app = gateway().await;
    let (kofi_headers, kofi_body) = form(KOFI);
    for (preset, secret, headers, body, name, amount, currency) in [
        ("kofi", "kofi-token-1", kofi_headers, kofi_body.as_str(), "Mira", 300, "USD"),
        ("stripe", SECRET, stripe(STRIPE, now()), STRIPE, "Jo Lindqvist", 1_500, "EUR"),
        ("buymeacoffee", SECRET, coffee(COFFEE), COFFEE, "Sana", 500, "USD"),
        ("github-sponsors", SECRET, github("d-1", GITHUB), GITHUB, "octo-fan", 500, "USD"),
        ("twitch", SECRET, twitch("m-1", "notification", CHEER, now()), CHEER, "Cool_User", 1_000, "bits"),
    ] {
        let mut set_as = settings(preset, secret);
        set_as["tier"] = json!([{"from": 1, "tier": 1}, {"from": 1_000, "tier": 2}]);
        let path = set(&app, preset, "tips", &set_as).await;
        let first = deliver(&app, &path, headers.clone(), body).await;
        assert_eq!((first.status, &first.json()["status"]), (200, &json!("accepted")), "{preset} {first:?}");
        for _ in 0..3 {
            let again = deliver(&app, &path, headers.clone(), body).await;
            assert_eq!((again.status, &again.json()["status"]), (200, &json!("duplicate")), "{preset}");
        }
        let rows = rows(&app, preset).await;
        assert_eq!(rows.len(), 1, "{preset} {rows:?}");
        assert_eq!(rows[0]["user"]["name"], name);
        assert_eq!(rows[0]["value"], json!({"amount": amount, "currency": currency}), "{preset}");
        assert_eq!(rows[0]["gift"], json!({"id": "tip", "name": "Tip"}));
        assert_eq!(rows[0]["tier"], if amount >= 1_000 { 2 } else { 1 });
        let kept = get(&app, preset, "tips").await;
        assert_eq!(kept["counts"], json!({"accepted": 1, "duplicate": 3}), "{preset}");
        assert_eq!(kept["last_error"], Value::Null);
        assert!(kept["last_at"].is_string());
    }
    let metrics = app.get("/metrics").await.text;
    assert!(metrics.contains("tipcast_source_deliveries_total{fate=\"duplicate\"} 15"), "{metrics}");
}

async fn a_wrong_signature_shows_nothing_and_is_told_to_the_owner() {
    let app = gateway().await;
    let (kofi_headers, kofi_body) = form(KOFI);
    for (preset, headers, body) in [
        ("kofi", kofi_headers, kofi_body.as_str()),
        ("stripe", stripe(STRIPE, now()), STRIPE),
        ("buymeacoffee", coffee(COFFEE), COFFEE),
        ("github-sponsors", github("d-1", GITHUB), GITHUB),
        ("twitch", twitch("m-1", "notification", CHEER, now()), CHEER),
    ] {
        let path = set(&app, preset, "tips", &settings(preset, "another-secret")).await;
        let said = deliver(&app, &path, headers, body).await;
        assert_eq!(said.problem(401)["type"], "/problems/unverified");
        let feed = app.get_feed(preset).await;
        assert_eq!((&feed["epoch"], &feed["seq"]), (&json!("0"), &json!(0)), "nothing was written");
        let kept = get(&app, preset, "tips").await;
        assert_eq!(kept["counts"], json!({"unverified": 1}));
        let why = kept["last_error"].as_str().unwrap();
        assert!(why.contains("signature") || why.contains("token"), "{why}");
        for text in [said.text, kept.to_string()] {
            assert!(!text.contains("another-secret") && !text.contains(SECRET), "{text}");
        }
    }
}

async fn an_old_delivery_is_refused() {
    let app = gateway().await;
    let path = set(&app, "show", "stripe", &settings("stripe", SECRET)).await;
    deliver(&app, &path, stripe(STRIPE, now() - 400), STRIPE).await.problem(401);
    let path = set(&app, "show", "twitch", &settings("twitch", SECRET)).await;
    deliver(&app, &path, twitch("m", "notification", CHEER, now() - 700), CHEER).await.problem(401);
    assert!(get(&app, "show", "twitch").await["last_error"].as_str().unwrap().contains("600 s"));
    assert_eq!(rows(&app, "show").await.len(), 0);
    let said = deliver(&app, &path, twitch("m", "notification", CHEER, now() - 500), CHEER).await;
    assert_eq!(said.status, 200, "{said:?}");
}

async fn a_refund_takes_the_gift_back_whether_it_comes_after_or_before() {
    let app = gateway().await;
    let path = set(&app, "show", "stripe", &settings("stripe", SECRET)).await;
    let post = async |body: &str| {
        let said = deliver(&app, &path, stripe(body, now()), body).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(post(STRIPE).await, "accepted");
    let part = with(STRIPE_REFUND, "/data/object/refunded", json!(false));
    let part = with(&part, "/data/object/amount_refunded", json!(400));
    for _ in 0..2 {
        assert_eq!(post(&part).await, "refunded", "a part of it was given back");
        assert_eq!(rows(&app, "show").await[0]["value"], json!({"amount": 1_100, "currency": "EUR"}));
    }
    let stranger = with(&part, "/data/object/payment_intent", json!("pi_unknown"));
    assert_eq!(post(&stranger).await, "remembered");
    for _ in 0..2 {
        assert_eq!(post(STRIPE_REFUND).await, "retracted");
        assert_eq!(rows(&app, "show").await.len(), 0);
    }
    assert_eq!(post(STRIPE).await, "ignored", "the payment told again");
    assert_eq!(rows(&app, "show").await.len(), 0);

    let refund = with(STRIPE_REFUND, "/data/object/payment_intent", json!("pi_early"));
    assert_eq!(post(&refund).await, "remembered");
    let payment = with(STRIPE, "/data/object/payment_intent", json!("pi_early"));
    assert_eq!(post(&payment).await, "ignored");
    assert_eq!(rows(&app, "show").await.len(), 0);
    let other = with(STRIPE, "/data/object/payment_intent", json!("pi_other"));
    assert_eq!(post(&other).await, "accepted");

    // A part that is refunded before its payment comes.
    let early = with(&part, "/data/object/payment_intent", json!("pi_part"));
    assert_eq!(post(&early).await, "remembered");
    let late = with(STRIPE, "/data/object/payment_intent", json!("pi_part"));
    let late = with(&late, "/data/object/customer", json!("cus_part"));
    assert_eq!(post(&late).await, "accepted");
    assert_eq!(rows(&app, "show").await[0]["value"], json!({"amount": 1_100, "currency": "EUR"}));
    for body in [&late, &early] {
        post(body).await;
        assert_eq!(rows(&app, "show").await[0]["value"], json!({"amount": 1_100, "currency": "EUR"}));
    }
}

/// The checkout of a subscription has an invoice and no payment intent; the charge that is refunded names both.
async fn the_refund_of_a_subscription_finds_its_gift() {
    let app = gateway().await;
    let path = set(&app, "show", "stripe", &settings("stripe", SECRET)).await;
    let post = async |body: &str| {
        let said = deliver(&app, &path, stripe(body, now()), body).await;
        assert_eq!(said.status, 200, "{said:?}");
        said.json()["status"].as_str().unwrap().to_owned()
    };
    let payment = with(
        &with(STRIPE, "/data/object/payment_intent", json!(null)),
        "/data/object/invoice",
        json!("in_1"),
    );
    assert_eq!(post(&payment).await, "accepted");
    let refund = with(STRIPE_REFUND, "/data/object/payment_intent", json!("pi_of_in_1"));
    let refund = with(&refund, "/data/object/invoice", json!("in_1"));
    assert_eq!(post(&refund).await, "retracted");
    assert_eq!(rows(&app, "show").await.len(), 0);
    assert_eq!(post(&payment).await, "ignored");
}

async fn paid_by_bank_is_one_gift() {
    let app = gateway().await;
    let path = set(&app, "show", "stripe", &settings("stripe", SECRET)).await;
    let unpaid = with(STRIPE, "/data/object/payment_status", json!("unpaid"));
    let later = with(STRIPE, "/type", json!("checkout.session.async_payment_succeeded"));
    for (body, status) in [(unpaid.as_str(), "ignored"), (&later, "accepted"), (STRIPE, "duplicate")] {
        let said = deliver(&app, &path, stripe(body, now()), body).await;
        assert_eq!(said.json()["status"], status, "{said:?}");
    }
    // The same payment in other words is still counted once.
    let renamed = with(STRIPE, "/data/object/customer_details/name", json!("J. L."));
    let said = deliver(&app, &path, stripe(&renamed, now()), &renamed).await;
    assert_eq!((said.status, &said.json()["status"]), (200, &json!("duplicate")));
    assert_eq!(rows(&app, "show").await.len(), 1);
}

async fn nothing_private_reaches_rows_or_reports() {
    let app = gateway().await;
    let kofi = set(&app, "show", "kofi", &settings("kofi", "kofi-token-1")).await;
    let hidden = with(&with(KOFI, "/is_public", json!(false)), "/message_id", json!("hidden-1"));
    for body in [KOFI, &hidden] {
        let (headers, body) = form(body);
        assert_eq!(deliver(&app, &kofi, headers, &body).await.status, 200);
    }
    let stripe_path = set(&app, "show", "stripe", &settings("stripe", SECRET)).await;
    deliver(&app, &stripe_path, stripe(STRIPE, now()), STRIPE).await;
    let ask = json!({"consumer": "t"}).to_string();
    let ledger = app.call("POST", "/v1/feeds/show/groups/g/claim", Some(&ask)).await;
    assert_eq!(ledger.json()["entries"].as_array().unwrap().len(), 3);
    let list = app.get("/v1/feeds/show").await;
    let sources = app.get("/v1/feeds/show/sources").await;
    for text in [&ledger.text, &list.text, &sources.text] {
        for private in ["mail.example", "Harbour", "Mill Road", "Porto", "Uppsala", "kofi-token-1", SECRET] {
            assert!(!text.contains(private), "{private} in {text}");
        }
    }
    let anonymous =
        rows(&app, "show").await.into_iter().find(|row| row["user"]["name"] == "Anonymous").unwrap();
    assert_eq!(anonymous["message"], Value::Null, "{anonymous}");
}

async fn money_that_does_not_fit_is_refused_and_told() {
    let app = gateway().await;
    let path = set(&app, "show", "kofi", &settings("kofi", "kofi-token-1")).await;
    let (headers, body) = form(&with(KOFI, "/amount", json!("3.005")));
    let problem = deliver(&app, &path, headers, &body).await.problem(422);
    assert!(problem["detail"].as_str().unwrap().contains("/amount"), "{problem}");
    assert_eq!(rows(&app, "show").await.len(), 0);
    let kept = get(&app, "show", "kofi").await;
    assert_eq!(kept["counts"], json!({"refused": 1}));
    assert!(kept["last_error"].as_str().unwrap().contains("not rounded"), "{kept}");
    // Repaired, the same payment is taken.
    let (headers, body) = form(KOFI);
    assert_eq!(deliver(&app, &path, headers, &body).await.json()["status"], "accepted");
}

async fn twitch_asks_and_is_answered_in_plain_text() {
    let app = gateway().await;
    let path = set(&app, "show", "twitch", &settings("twitch", SECRET)).await;
    let body = r#"{"challenge":"pogchamp-kappa-360noscope-vohiyo","subscription":{"type":"channel.cheer"}}"#;
    let said = deliver(&app, &path, twitch("m", "webhook_callback_verification", body, now()), body).await;
    assert_eq!((said.status, said.text.as_str()), (200, "pogchamp-kappa-360noscope-vohiyo"));
    assert!(said.header("content-type").starts_with("text/plain"));
    let body = r#"{"subscription":{"type":"channel.cheer","status":"user_removed"}}"#;
    let said = deliver(&app, &path, twitch("m2", "revocation", body, now()), body).await;
    assert_eq!(said.status, 200);
    assert!(get(&app, "show", "twitch").await["last_error"].as_str().unwrap().contains("user_removed"));
}

async fn gifts_not_shown_are_answered_and_counted() {
    let app = gateway().await;
    let path = set(&app, "show", "github", &settings("github-sponsors", SECRET)).await;
    let ping = r#"{"zen":"Design for failure.","hook_id":1}"#;
    let said = deliver(&app, &path, github("d", ping), ping).await;
    assert_eq!((said.status, &said.json()["status"]), (200, &json!("ignored")));
    assert_eq!(get(&app, "show", "github").await["counts"], json!({"ignored": 1}));
}

async fn bodies_that_are_too_large_or_no_json_are_refused() {
    let app = gateway().await;
    let path = set(&app, "show", "bmac", &settings("buymeacoffee", SECRET)).await;
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(65_600));
    deliver(&app, &path, coffee(&large), &large).await.problem(413);
    let fits = format!("{{\"a\":\"{}\"}}", "x".repeat(60_000));
    assert_eq!(deliver(&app, &path, coffee(&fits), &fits).await.status, 200);
    deliver(&app, &path, coffee("{\"a\":"), "{\"a\":").await.problem(400);
    // Without a signature nobody learns whether it was JSON.
    deliver(&app, &path, vec![], "{\"a\":").await.problem(401);
}

async fn a_delivery_that_is_repeated_with_other_unsigned_headers_counts_once() {
    let app = gateway().await;
    let path = set(&app, "sponsors", "github", &settings("github-sponsors", SECRET)).await;
    for (delivery, told) in [("d-1", "accepted"), ("d-2", "duplicate"), ("d-3", "duplicate")] {
        let said = deliver(&app, &path, github(delivery, GITHUB), GITHUB).await;
        assert_eq!(said.json()["status"], told, "{delivery}");
    }
    assert_eq!(rows(&app, "sponsors").await.len(), 1);
    let path = set(&app, "cheers", "twitch", &settings("twitch", SECRET)).await;
    for (kind, told) in [
        ("drop.entitlement", "ignored"),
        ("notification", "accepted"),
        ("revocation", "duplicate"),
        ("webhook_callback_verification", "duplicate"),
    ] {
        let said = deliver(&app, &path, twitch("m-1", kind, CHEER, now()), CHEER).await;
        assert_eq!(said.json()["status"], told, "{kind}");
    }
    assert_eq!(rows(&app, "cheers").await.len(), 1);
    assert_eq!(get(&app, "cheers", "twitch").await["last_error"], Value::Null);
}

async fn no_browser_guesses_the_type_of_an_answer_of_a_source() {
    let app = gateway().await;
    let path = set(&app, "show", "twitch", &settings("twitch", SECRET)).await;
    let challenge = r#"{"challenge":"<script>alert(1)</script>","subscription":{"type":"channel.cheer"}}"#;
    let asked =
        deliver(&app, &path, twitch("m", "webhook_callback_verification", challenge, now()), challenge);
    let unsigned = deliver(&app, &path, vec![], CHEER);
    let unknown = deliver(&app, "/in/0123456789abcdef0123456789abcdef.show", vec![], "{}");
    for (said, status) in
        [(asked.await, 200), (unsigned.await, 401), (unknown.await, 404), (app.get(&path).await, 405)]
    {
        assert_eq!((said.status, said.header("x-content-type-options")), (status, "nosniff"), "{said:?}");
    }
}
