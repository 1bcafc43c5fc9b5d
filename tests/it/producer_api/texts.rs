//! Hostile and odd text: cleaned, kept as text, never a reason to refuse a gift.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::gifts::{GiftSpec, gift};

on_both_stores![
    markup_quotes_and_odd_scripts_stay_as_they_are,
    control_characters_and_overrides_are_stripped,
    stripped_characters_are_no_reason_to_refuse,
    a_name_with_nothing_to_see_shows_the_id,
    text_is_nfc,
    names_are_measured_in_characters_and_ids_in_bytes,
];

async fn shown(app: &TestApp, feed: &str, spec: &GiftSpec) -> Value {
    let said = app.post_gift(feed, spec).await;
    assert_eq!(said.status, 201, "{}\n{said:?}", spec.json());
    app.get_feed(feed).await["rows"][0].clone()
}

async fn markup_quotes_and_odd_scripts_stay_as_they_are() {
    let app = TestApp::start().await;
    for (n, text) in [
        "<script>alert(1)</script>",
        "\"quoted\" 'and' \\escaped\\ &amp;",
        "}{][,:\"",
        "مرحبا بالعالم",
        "שלום",
        "你好，世界",
        "👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️",
        "नमस्ते",
        "Ž̷͓a̵̝̍l̴̻̈g̶̱͂o̸̩̊",
        "a\u{200d}b\u{200c}c",
        "%s %n {0} ${x} '; DROP TABLE feeds; --",
        "\u{10FFFF}",
    ]
    .into_iter()
    .enumerate()
    {
        let feed = format!("f{n}");
        let spec = gift("g").with("user", json!({"id": text, "name": text})).with("message", json!(text));
        let row = shown(&app, &feed, &spec).await;
        assert_eq!(row["user"]["id"], text, "an id is opaque");
        let normal: String = unicode_normalization::UnicodeNormalization::nfc(text).collect();
        assert_eq!((&row["user"]["name"], &row["message"]), (&json!(normal), &json!(normal)));
    }
}

async fn control_characters_and_overrides_are_stripped() {
    let app = TestApp::start().await;
    let mut hazards: Vec<char> = (0..0x20u32).chain(0x7f..0xa0).filter_map(char::from_u32).collect();
    hazards.extend('\u{202A}'..='\u{202E}');
    hazards.extend('\u{2066}'..='\u{2069}');
    for (n, chunk) in hazards.chunks(30).enumerate() {
        let dirty: String = chunk.iter().flat_map(|c| ['a', *c]).collect();
        let clean = "a".repeat(chunk.len());
        let spec = gift("g")
            .with("user", json!({"id": "u", "name": dirty}))
            .with("gift", json!({"id": "g", "name": dirty}))
            .with("message", json!(dirty));
        let row = shown(&app, &format!("f{n}"), &spec).await;
        assert_eq!(row["user"]["name"], clean);
        assert_eq!((&row["gift"]["name"], &row["message"]), (&json!(clean), &json!(clean)));
    }
}

async fn stripped_characters_are_no_reason_to_refuse() {
    let app = TestApp::start().await;
    let name = format!("{}\u{202e}{}", "n".repeat(32), "n".repeat(32));
    let message = format!("\u{0}{}\n", "m".repeat(200));
    let spec = gift("g").with("user", json!({"id": "u", "name": name})).with("message", json!(message));
    let row = shown(&app, "show", &spec).await;
    assert_eq!((&row["user"]["name"], &row["message"]), (&json!("n".repeat(64)), &json!("m".repeat(200))));
    let only = gift("g").with("message", json!("\u{1}\u{202e}"));
    assert!(matches!(shown(&app, "only", &only).await.get("message"), None | Some(Value::String(_))));
}

async fn a_name_with_nothing_to_see_shows_the_id() {
    let app = TestApp::start().await;
    for (n, name) in ["\u{0}\u{202e}", "\u{200b}", "\u{feff}\u{2060}", "\u{2066}\u{2069}", "\u{7f}"]
        .into_iter()
        .enumerate()
    {
        let spec = gift("g")
            .with("user", json!({"id": "user-7", "name": name}))
            .with("gift", json!({"id": "gift-9", "name": name}));
        let row = shown(&app, &format!("f{n}"), &spec).await;
        assert_eq!(
            (&row["user"]["name"], &row["gift"]["name"]),
            (&json!("user-7"), &json!("gift-9")),
            "{name:?}"
        );
    }
}

async fn text_is_nfc() {
    let app = TestApp::start().await;
    let spec = gift("g")
        .with("user", json!({"id": "e\u{301}", "name": "e\u{301}A\u{30a}"}))
        .with("message", json!("n\u{303}"));
    let row = shown(&app, "show", &spec).await;
    assert_eq!((&row["user"]["name"], &row["message"]), (&json!("éÅ"), &json!("ñ")));
    assert_eq!(row["user"]["id"], "e\u{301}", "an id is opaque");
}

async fn names_are_measured_in_characters_and_ids_in_bytes() {
    let app = TestApp::start().await;
    for (n, name) in ["é".repeat(64), "\u{1F339}".repeat(64), "e\u{301}".repeat(32)].into_iter().enumerate()
    {
        let row =
            shown(&app, &format!("f{n}"), &gift("g").with("user", json!({"id": "u", "name": name}))).await;
        let normal: String = unicode_normalization::UnicodeNormalization::nfc(&*name).collect();
        assert_eq!(row["user"]["name"], normal);
    }
    for (id, status) in [
        ("é".repeat(32), 201),
        ("é".repeat(33), 422),
        ("\u{1F339}".repeat(16), 201),
        ("\u{1F339}".repeat(17), 422),
    ] {
        let said = app
            .post_gift(
                &format!("i{}-{}", id.len(), id.chars().count()),
                &gift("g").with("user", json!({"id": id, "name": "n"})),
            )
            .await;
        assert_eq!(said.status, status, "{} bytes", id.len());
    }
}
