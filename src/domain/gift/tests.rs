use super::*;

fn parsed(body: &str) -> Gift {
    Gift::parse(json::syntax(body.as_bytes()).unwrap(), None).unwrap()
}

/// What fingerprints are of, as a serializer writes it.
fn spelled(gift: &Gift, meta: Option<&str>) -> String {
    let Person { id, name, avatar, anonymous } = &gift.user;
    let person = match anonymous {
        false => serde_json::json!([id, name, avatar]),
        true => serde_json::json!([id, name, avatar, true]),
    };
    let parts = (
        person,
        (&gift.gift.id, &gift.gift.name, &gift.gift.icon),
        gift.count,
        gift.value.as_ref().map(|v| (v.amount, &v.currency)),
        gift.combo.as_ref().map(|c| (&c.id, c.count, c.end)),
        &gift.message,
        gift.tier,
        gift.occurred_at.map(|t| t.0),
        match gift.show {
            Show::ByPolicy => (0, 0),
            Show::After(ms) => (1, ms as i64),
            Show::At(at) => (2, at.0),
        },
        gift.test,
        meta,
    );
    serde_json::to_string(&parts).unwrap()
}

#[test]
fn a_fingerprint_is_of_the_text_that_it_always_was_of() {
    let bodies = [
        r#"{"id":"a","user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"}}"#,
        r#"{"user":{"id":"u\u0001\"\\é","name":"N\té","avatar":"https://a.example/b","anonymous":true},
            "gift":{"id":"\ud83d\ude00","name":"\"","icon":"https://a.example/i"},"count":1000000,
            "value":{"amount":9007199254740991,"currency":"EUR"},"combo":{"id":"c/1","count":4294967295,"end":true},
            "message":"hello\n \"you\"","tier":9,"occurred_at":"1969-12-31T23:59:59.000Z","delay_ms":604800000,
            "test":true,"meta":{"b":[1,2.5,"x"],"a":null}}"#,
        r#"{"user":{"id":"u","name":"U"},"gift":{"id":"g","name":"G"},"combo":{"id":"c","count":0},"tier":0,
            "deliver_at":"2030-01-01T00:00:00.000Z","value":{"amount":0,"currency":"coins"},"meta":{}}"#,
    ];
    for (body, meta) in bodies.into_iter().zip([None, Some(r#"{"a":null,"b":[1,2.5,"x"]}"#), Some("{}")]) {
        let gift = parsed(body);
        let mut out = String::new();
        gift.spell(&mut out, meta);
        assert_eq!(out, spelled(&gift, meta));
        assert_eq!(gift.fingerprint, Fingerprint::of(&out));
    }
}
