//! Every preset with its samples: what arrives, and what must not.

use proptest::prelude::*;
use serde_json::json;

use super::samples::*;
use super::*;
use crate::domain::Value;

const SECRET: &str = "correct horse battery";

fn kofi(body: &str) -> Result<Event, Refusal> {
    deliver(&preset("kofi", "kofi-token-1"), &Sent::default(), &kofi_form(body))
}

fn stripe(body: &str) -> Result<Event, Refusal> {
    deliver(&preset("stripe", SECRET), &stripe_headers(SECRET, body, NOW), body)
}

fn coffee(body: &str) -> Result<Event, Refusal> {
    deliver(&preset("buymeacoffee", SECRET), &coffee_headers(SECRET, body), body)
}

fn github(body: &str) -> Result<Event, Refusal> {
    deliver(&preset("github-sponsors", SECRET), &github_headers(SECRET, "d-1", body), body)
}

fn twitch(body: &str) -> Result<Event, Refusal> {
    deliver(&preset("twitch", SECRET), &twitch_headers(SECRET, "m-1", "notification", body, NOW), body)
}

fn value(amount: u64, currency: &str) -> Option<Value> {
    Some(Value { amount, currency: currency.into() })
}

fn unmapped(read: Result<Event, Refusal>) -> String {
    match read {
        Err(Refusal::Unmapped(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn unverified(read: Result<Event, Refusal>) -> String {
    match read {
        Err(Refusal::Unverified(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_sample_is_the_gift_that_the_platform_means() {
    let tip = gift(kofi(KOFI));
    assert_eq!(tip.id.as_str(), "shop:5f0d1c52-77aa-4f0b-9f0e-0a61bd3f0001");
    assert_eq!((tip.user.name.as_str(), tip.value), ("Mira", value(300, "USD")));
    assert_eq!(tip.message.as_deref(), Some("For the next boss fight!"));

    let tip = gift(stripe(STRIPE));
    assert_eq!(tip.id.as_str(), "shop:pi_sample_1");
    assert_eq!((tip.user.name.as_str(), tip.value), ("Jo Lindqvist", value(1_500, "EUR")));
    assert_eq!(tip.message.as_deref(), Some("Great stream"));

    let tip = gift(coffee(COFFEE));
    assert_eq!((tip.id.as_str(), tip.user.id.as_str()), ("shop:pi_coffee_71", "buymeacoffee:9001"));
    assert_eq!((tip.user.name.as_str(), tip.value), ("Sana", value(500, "USD")));
    assert_eq!(tip.message.as_deref(), Some("More of this, please"));

    let tip = gift(github(GITHUB));
    assert!(tip.id.as_str().starts_with(':') && tip.user.id.as_str() == "github:583231", "{tip:?}");
    assert_eq!((tip.user.name.as_str(), tip.value), ("octo-fan", value(500, "USD")));

    let tip = gift(twitch(CHEER));
    assert_eq!((tip.id.as_str(), tip.user.id.as_str()), ("shop:m-1", "twitch:1234"));
    assert_eq!((tip.user.name.as_str(), tip.value), ("Cool_User", value(1_000, "bits")));
    assert_eq!(tip.message.as_deref(), Some("pogchamp 1000"));

    let tip = gift(twitch(BITS));
    assert_eq!((tip.id.as_str(), tip.user.id.as_str()), ("shop:m-1", "twitch:1234"));
    assert_eq!((tip.user.name.as_str(), tip.value), ("Cool_User", value(300, "bits")));
    assert_eq!(tip.message.as_deref(), Some("party"));
    assert_eq!(gift(twitch(&with(BITS, "/event/message", json!(null)))).message, None);
}

#[test]
fn nothing_of_a_delivery_but_what_is_mapped_gets_into_a_gift() {
    for read in [kofi(KOFI), stripe(STRIPE), coffee(COFFEE), github(GITHUB), twitch(CHEER), twitch(BITS)] {
        let Ok(Event::Gift { gift, post }) = read else { panic!("{read:?}") };
        for secret in ["mail.example", "@", "Harbour", "Mill Road", "4000-001", "75320", "token", SECRET] {
            assert!(!post.contains(secret) && !format!("{gift:?}").contains(secret), "{secret} in {post}");
        }
    }
}

#[test]
fn a_wrong_signature_is_refused_whatever_else_is_right() {
    let other = |settings: &Settings, sent: Sent, body: &str| unverified(deliver(settings, &sent, body));
    other(&preset("kofi", "another token"), Sent::default(), &kofi_form(KOFI));
    other(&preset("stripe", "another"), stripe_headers(SECRET, STRIPE, NOW), STRIPE);
    other(&preset("buymeacoffee", "another"), coffee_headers(SECRET, COFFEE), COFFEE);
    other(&preset("github-sponsors", "another"), github_headers(SECRET, "d", GITHUB), GITHUB);
    other(&preset("twitch", "another"), twitch_headers(SECRET, "m", "notification", CHEER, NOW), CHEER);
    // The body is another than the one that was signed.
    let changed = with(STRIPE, "/data/object/amount_total", json!(999_999));
    other(&preset("stripe", SECRET), stripe_headers(SECRET, STRIPE, NOW), &changed);
    // Of Twitch, the id is signed too: nobody makes a second gift of the first.
    let sent = twitch_headers(SECRET, "m", "notification", CHEER, NOW);
    other(&preset("twitch", SECRET), sent.header("twitch-eventsub-message-id", "m-2"), CHEER);
    for name in ["stripe", "buymeacoffee", "github-sponsors", "twitch", "standard-webhooks"] {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let why = other(&preset(name, secret), Sent::default(), "{}");
        assert!(why.contains("missing") && !why.contains(secret), "{why}");
    }
}

#[test]
fn signatures_that_make_no_sense_are_refused_without_a_panic() {
    for bad in
        ["", "t=", "t=x,v1=00", "v1=00", "t=1795177783", "t=1795177783,v1=é", "t=1795177783,v1=abc", ",,=,"]
    {
        unverified(deliver(
            &preset("stripe", SECRET),
            &Sent::default().header("stripe-signature", bad),
            "{}",
        ));
    }
    for bad in ["", "sha256=", "sha256=zz", "sha1=00", "éé"] {
        let sent = Sent::default().header("x-hub-signature-256", bad);
        unverified(deliver(&preset("github-sponsors", SECRET), &sent, "{}"));
    }
}

#[test]
fn an_old_or_future_time_is_refused() {
    for (ms, good) in [(300_000, true), (301_000, false), (-300_000, true), (-301_000, false)] {
        let sent = stripe_headers(SECRET, STRIPE, Millis(NOW.0 + ms));
        assert_eq!(deliver(&preset("stripe", SECRET), &sent, STRIPE).is_ok(), good, "{ms}");
    }
    for (ms, good) in [(600_000, true), (600_001, false), (-600_001, false)] {
        let sent = twitch_headers(SECRET, "m", "notification", CHEER, Millis(NOW.0 + ms));
        assert_eq!(deliver(&preset("twitch", SECRET), &sent, CHEER).is_ok(), good, "{ms}");
    }
}

/// The example of the specification's reference libraries.
#[test]
fn standard_webhooks_are_judged_by_the_known_example() {
    let settings = preset("standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let sent = Sent::default()
        .header("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
        .header("webhook-timestamp", "1614265330")
        .header("webhook-signature", "v2,xx v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    let source = "shop".parse().unwrap();
    let owner = Owner { source: &source, salt: "pepper" };
    let at =
        |seconds: i64| receive(&settings, owner, &sent, br#"{"test": 2432232314}"#, Millis(seconds * 1_000));
    let tip = gift(at(1_614_265_330));
    assert_eq!(tip.id.as_str(), "shop:msg_p5jXN8AQM9LWM0D4loKWxJek");
    assert_eq!((tip.user.name.as_str(), tip.value), (map::ANONYMOUS_NAME, None));
    unverified(at(1_614_265_631));
}

#[test]
fn a_repeat_is_the_same_gift_and_a_refund_names_it() {
    let (first, again) = (gift(stripe(STRIPE)), gift(stripe(STRIPE)));
    assert_eq!((&first.id, first.fingerprint), (&again.id, again.fingerprint));
    // Paid by bank: unpaid first, then paid by another event of the same payment.
    let unpaid = with(STRIPE, "/data/object/payment_status", json!("unpaid"));
    assert!(matches!(stripe(&unpaid), Ok(Event::Ignored(_))));
    let later = with(STRIPE, "/type", json!("checkout.session.async_payment_succeeded"));
    assert_eq!(gift(stripe(&later)).id, first.id);
    assert_eq!(stripe(STRIPE_REFUND), Ok(Event::Refund { ids: vec![first.id.clone()], refunded: None }));
    let part = with(STRIPE_REFUND, "/data/object/refunded", json!(false));
    let part = with(&part, "/data/object/amount_refunded", json!(400));
    assert_eq!(stripe(&part), Ok(Event::Refund { ids: vec![first.id.clone()], refunded: Some(400) }));
    let text = stripe(&part).unwrap().to_json();
    assert_eq!(text, format!("{{\"outcome\":\"refund\",\"id\":\"{}\",\"refunded\":400}}", first.id));
    let back = with(&with(COFFEE, "/type", json!("donation.refunded")), "/data/refunded", json!("true"));
    assert_eq!(coffee(&back), Ok(Event::Refund { ids: vec![gift(coffee(COFFEE)).id], refunded: None }));
    // A subscription's first payment has no payment intent of its own.
    let recurring = with(STRIPE, "/data/object/payment_intent", json!(null));
    assert_eq!(gift(stripe(&recurring)).id.as_str(), "shop:cs_sample_1");
}

#[test]
fn hidden_messages_and_private_supporters_stay_hidden() {
    for (read, name) in [
        (kofi(&with(KOFI, "/is_public", json!(false))), "Mira"),
        (kofi(&with(KOFI, "/is_public", json!(null))), "Mira"),
        (github(&with(GITHUB, "/sponsorship/privacy_level", json!("private"))), "octo-fan"),
        (twitch(&with(CHEER, "/event/is_anonymous", json!(true))), "Cool_User"),
    ] {
        let Ok(Event::Gift { gift, post }) = read else { panic!("{read:?}") };
        assert_eq!((gift.user.name.as_str(), &gift.message), (map::ANONYMOUS_NAME, &None));
        assert!(!post.contains(name) && gift.user.id.starts_with("anonymous:"), "{post}");
    }
    // Two who stay unnamed are two.
    let hidden = with(KOFI, "/is_public", json!(false));
    let another = with(&hidden, "/message_id", json!("another"));
    assert_ne!(gift(kofi(&hidden)).user.id, gift(kofi(&another)).user.id);
    for flag in [json!("true"), json!(true)] {
        let tip = gift(coffee(&with(COFFEE, "/data/note_hidden", flag)));
        assert_eq!((tip.user.name.as_str(), tip.message), ("Sana", None));
    }
    let nobody = with(&with(CHEER, "/event/user_id", json!(null)), "/event/user_name", json!(null));
    assert_eq!(gift(twitch(&nobody)).user.name, map::ANONYMOUS_NAME);
}

#[test]
fn the_same_supporter_has_the_same_id_and_it_says_nothing() {
    let first = gift(kofi(KOFI)).user.id;
    let renamed = with(&with(KOFI, "/from_name", json!("M.")), "/email", json!("Mira@Mail.example "));
    assert_eq!(gift(kofi(&renamed)).user.id, first);
    assert_ne!(gift(kofi(&with(KOFI, "/email", json!("m@mail.example")))).user.id, first);
    let source = "shop".parse().unwrap();
    let salted = |salt| {
        let (settings, body) = (preset("kofi", "kofi-token-1"), kofi_form(KOFI));
        gift(receive(&settings, Owner { source: &source, salt }, &Sent::default(), body.as_bytes(), NOW))
            .user
            .id
    };
    assert_ne!(salted("a"), salted("b"));
}

#[test]
fn an_address_in_the_place_of_a_name_or_an_id_is_not_kept() {
    let tip = gift(kofi(&with(KOFI, "/from_name", json!("mira@mail.example"))));
    assert_eq!(tip.user.name, map::ANONYMOUS_NAME);
    let own = settings(json!({
        "preset": "custom", "secret": SECRET, "default_gift": {"id": "t", "name": "T"},
        "verify": {"scheme": "hmac-sha256", "header": "X-Sig"}, "map": {"id": "/mail", "user_id": "/mail"},
    }));
    let body = r#"{"mail":"a@b.example"}"#;
    let sent = Sent::default().header("x-sig", hex_hmac(SECRET.as_bytes(), &[body.as_bytes()]));
    let tip = gift(deliver(&own, &sent, body));
    assert!(!format!("{tip:?}").contains("b.example"), "{tip:?}");
    // A handle is a name.
    assert_eq!(gift(kofi(&with(KOFI, "/from_name", json!("@mira")))).user.name, "@mira");
}

#[test]
fn money_is_exact_or_refused() {
    let of =
        |amount, currency: &str| kofi(&with(&with(KOFI, "/amount", amount), "/currency", json!(currency)));
    for (amount, currency, expected) in [
        (json!("3.00"), "usd", value(300, "USD")),
        (json!("500"), "JPY", value(500, "JPY")),
        (json!("500.00"), "JPY", value(500, "JPY")),
        (json!("1.234"), "KWD", value(1_234, "KWD")),
        (json!("0.07"), "EUR", value(7, "EUR")),
        (json!(4), "EUR", value(400, "EUR")),
    ] {
        assert_eq!(gift(of(amount.clone(), currency)).value, expected, "{amount} {currency}");
    }
    for (amount, currency) in [
        (json!("3.005"), "USD"),
        (json!("500.5"), "JPY"),
        (json!("1.2345"), "KWD"),
        (json!("1,000.00"), "USD"),
        (json!("-3.00"), "USD"),
        (json!("3.00"), "dollars and cents"),
        (json!(null), "USD"),
        (json!(true), "USD"),
        (json!("99999999999999999"), "USD"),
        (json!("3.50"), "XYZ"),
    ] {
        let why = unmapped(of(amount.clone(), currency));
        assert!(why.contains("/amount") || why.contains("/currency"), "{amount}: {why}");
    }
    // The number is the text in the JSON: this one, as a float, is 0.30000000000000004 of something.
    let body = KOFI.replace("\"3.00\"", "0.1000000000000000000000000000000001");
    unmapped(kofi(&body));
    assert_eq!(gift(kofi(&KOFI.replace("\"3.00\"", "1.10000000000000000000000"))).value, value(110, "USD"));
}

#[test]
fn stripe_counts_some_currencies_its_own_way() {
    let of = |amount: u64, currency: &str| {
        stripe(&with(
            &with(STRIPE, "/data/object/amount_total", json!(amount)),
            "/data/object/currency",
            json!(currency),
        ))
    };
    for (amount, currency, expected) in [
        (500, "jpy", value(500, "JPY")),
        (500, "ugx", value(5, "UGX")),
        (12_300, "isk", value(123, "ISK")),
        (5_120, "kwd", value(5_120, "KWD")),
        (5, "mga", value(500, "MGA")),
        (1_500, "eur", value(1_500, "EUR")),
    ] {
        assert_eq!(gift(of(amount, currency)).value, expected, "{amount} {currency}");
    }
    unmapped(of(550, "ugx"));
    for whole in ["bif", "clp", "djf", "gnf", "kmf", "krw", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf"] {
        assert_eq!(gift(of(7, whole)).value, value(7, &whole.to_uppercase()));
    }
    for thousandths in ["bhd", "jod", "omr", "tnd"] {
        assert_eq!(gift(of(7, thousandths)).value, value(7, &thousandths.to_uppercase()));
    }
}

#[test]
fn twitch_asks_first_and_says_when_it_stops() {
    let settings = preset("twitch", SECRET);
    let ask =
        |kind: &str, body: &str| deliver(&settings, &twitch_headers(SECRET, "m", kind, body, NOW), body);
    let challenge =
        r#"{"challenge":"pogchamp-kappa-360noscope-vohiyo","subscription":{"type":"channel.cheer"}}"#;
    assert_eq!(
        ask("webhook_callback_verification", challenge),
        Ok(Event::Challenge("pogchamp-kappa-360noscope-vohiyo".into()))
    );
    assert!(matches!(ask("webhook_callback_verification", "{}"), Err(Refusal::Unreadable(_))));
    let revoked = r#"{"subscription":{"type":"channel.cheer","status":"authorization_revoked"}}"#;
    let Ok(Event::Revoked(why)) = ask("revocation", revoked) else { panic!() };
    assert!(why.contains("channel.cheer") && why.contains("authorization_revoked"), "{why}");
    // A stranger learns nothing.
    unverified(deliver(
        &preset("twitch", "x"),
        &twitch_headers(SECRET, "m", "webhook_callback_verification", challenge, NOW),
        challenge,
    ));
}

#[test]
fn the_type_of_a_message_of_twitch_is_decided_by_what_is_signed() {
    let settings = preset("twitch", SECRET);
    let say =
        |kind: &str, body: &str| deliver(&settings, &twitch_headers(SECRET, "m", kind, body, NOW), body);
    let notified = gift(say("notification", CHEER)).id;
    for kind in ["revocation", "webhook_callback_verification"] {
        assert_eq!(gift(say(kind, CHEER)).id, notified, "{kind}: a repeated notification stays one");
    }
    for kind in ["", "Notification", "drop", "notification, revocation"] {
        assert!(matches!(say(kind, CHEER), Ok(Event::Ignored(_))), "{kind}");
    }
    let without = twitch_headers(SECRET, "m", "notification", CHEER, NOW);
    let without = Sent(without.0.into_iter().filter(|(name, _)| !name.ends_with("type")).collect());
    assert!(matches!(deliver(&settings, &without, CHEER), Ok(Event::Ignored(_))));
    let empty = r#"{"subscription":{"type":"channel.cheer","status":"enabled"}}"#;
    assert!(matches!(say("revocation", empty), Ok(Event::Ignored(_))));
}

#[test]
fn a_sponsorship_of_github_is_known_by_its_body_whatever_the_delivery_is_called() {
    let of = |delivery: &str, body: &str| {
        gift(deliver(&preset("github-sponsors", SECRET), &github_headers(SECRET, delivery, body), body)).id
    };
    let first = of("d-1", GITHUB);
    assert_eq!(of("d-2", GITHUB), first);
    for (pointer, other) in [
        ("/sponsorship/node_id", json!("S_other")),
        ("/sponsorship/created_at", json!("2027-01-20T18:22:41+00:00")),
        ("/sponsorship/sponsor/id", json!(7)),
        ("/sponsorship/tier/node_id", json!("ST_other")),
        ("/sponsorship/tier/monthly_price_in_cents", json!(900)),
    ] {
        assert_ne!(of("d-1", &with(GITHUB, pointer, other)), first, "{pointer}");
    }
    let without = with(GITHUB, "/sponsorship/node_id", json!(null));
    assert_eq!(of("d-1", &without), of("d-2", &without));
}

#[test]
fn twenty_gift_subscriptions_are_one_gift_with_a_count() {
    let subs = gift(twitch(GIFT_SUBS));
    assert_eq!((subs.count, subs.user.name.as_str(), subs.value), (20, "Cool_User", None));
    let body = |gifted: bool| {
        json!({"subscription": {"type": "channel.subscribe"},
            "event": {"user_id": "9", "user_name": "New_Sub", "tier": "1000", "is_gift": gifted}})
        .to_string()
    };
    assert!(matches!(twitch(&body(true)), Ok(Event::Ignored(_))));
    assert_eq!(gift(twitch(&body(false))).user.name, "New_Sub");
    for total in [json!(0), json!(1.5), json!("many")] {
        unmapped(twitch(&with(GIFT_SUBS, "/event/total", total)));
    }
}

#[test]
fn hostile_text_is_cleaned_and_long_text_is_cut() {
    let hostile =
        with(&with(KOFI, "/from_name", json!("\u{202e}evil\u{0}\n")), "/message", json!("<script>\u{7}"));
    let tip = gift(kofi(&hostile));
    assert_eq!((tip.user.name.as_str(), tip.message.as_deref()), ("evil", Some("<script>")));
    let long = with(&with(KOFI, "/from_name", json!("n".repeat(500))), "/message", json!("😀".repeat(500)));
    let tip = gift(kofi(&long));
    assert_eq!((tip.user.name.chars().count(), tip.message.unwrap().chars().count()), (64, 200));
    let odd_id = with(KOFI, "/message_id", json!("../../etc\u{0}/passwd and a very long tail ".repeat(9)));
    let id = gift(kofi(&odd_id)).id;
    assert!(id.as_str().starts_with(':') && id.as_str().len() == 49, "{id}");
    let blank = with(KOFI, "/from_name", json!(" \u{200b}"));
    assert_eq!(gift(kofi(&blank)).user.name, map::ANONYMOUS_NAME);
    unmapped(kofi(&with(KOFI, "/message_id", json!(null))));
}

#[test]
fn unrequested_parts_are_left_out() {
    for body in
        [r#"{"zen":"Keep it logically awesome.","hook_id":1}"#, &with(GITHUB, "/action", json!("cancelled"))]
    {
        assert!(matches!(github(body), Ok(Event::Ignored(_))));
    }
    assert!(matches!(kofi(&with(KOFI, "/type", json!("Newsletter"))), Ok(Event::Ignored(_))));
    assert!(matches!(coffee(&with(COFFEE, "/type", json!("extra_purchase.created"))), Ok(Event::Ignored(_))));
}

#[test]
fn bodies_of_another_form_are_refused() {
    assert!(matches!(stripe("not json"), Err(Refusal::Unreadable(_))));
    assert!(matches!(deliver(&preset("kofi", "t"), &Sent::default(), KOFI), Err(Refusal::Unreadable(_))));
    assert!(matches!(stripe("[]"), Ok(Event::Ignored(_))));
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    assert!(stripe(&deep).is_ok());
}

#[test]
fn a_sample_needs_no_signature_and_no_form() {
    let source = "shop".parse().unwrap();
    let owner = Owner { source: &source, salt: "pepper" };
    for (name, body) in [
        ("kofi", KOFI.to_owned()),
        ("kofi", kofi_form(KOFI)),
        ("stripe", STRIPE.to_owned()),
        ("buymeacoffee", COFFEE.to_owned()),
        ("github-sponsors", GITHUB.to_owned()),
        ("twitch", CHEER.to_owned()),
        ("twitch", BITS.to_owned()),
    ] {
        let settings = Settings::of_preset(name).unwrap();
        assert!(matches!(sample(&settings, owner, body.as_bytes()), Ok(Event::Gift { .. })), "{name}");
    }
    assert!(Settings::of_preset("custom").is_none());
}

proptest! {
    #[test]
    fn no_body_makes_it_panic_and_every_gift_keeps_the_rules(
        name in ".{0,80}", message in ".{0,250}", amount in "[0-9.eE+-]{0,12}", currency in "[A-Za-z]{0,14}", id in ".{0,90}",
    ) {
        let body = json!({"verification_token": "kofi-token-1", "type": "Donation", "is_public": true, "message_id": id,
            "from_name": name, "message": message, "amount": amount, "currency": currency}).to_string();
        match kofi(&body) {
            Ok(Event::Gift { gift, .. }) => {
                prop_assert!(gift.message.as_ref().is_none_or(|m| m.chars().count() <= 200));
                prop_assert!(gift.value.is_some());
            }
            Err(Refusal::Unmapped(_)) => {}
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let source = "shop".parse().unwrap();
        for preset in preset::all() {
            if let Some(settings) = Settings::of_preset(&preset.name) {
                let _ = sample(&settings, Owner { source: &source, salt: "" }, &bytes);
            }
        }
    }
}
