//! Tokens that are good, and every known way to make a bad one look good.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

use super::mint::Minter;
use super::*;

const NOW: Millis = Millis(1_800_000_000_000);
const SECRET: &str = "a secret of the tests, longer than it must be";

const RSA: (&str, &str) = (include_str!("testdata/rsa.pem"), include_str!("testdata/rsa.pub.pem"));
const EC: (&str, &str) = (include_str!("testdata/ec.pem"), include_str!("testdata/ec.pub.pem"));
const ED: (&str, &str) = (include_str!("testdata/ed.pem"), include_str!("testdata/ed.pub.pem"));
const JWKS: &str = include_str!("testdata/jwks.json");

fn rules() -> TokenRules {
    TokenRules { leeway_ms: 5_000, max_age_ms: 86_400_000, ..TokenRules::default() }
}

fn by_secret() -> Verifier {
    let mut verifier = Verifier::new(rules());
    verifier.add_secret(SECRET).unwrap();
    verifier
}

/// Claims that are good, with these in addition or in their place; null takes one away.
fn claims(changed: Value) -> Value {
    let mut all = json!({"sub": "ann", "iat": 1_800_000_000, "exp": 1_800_000_600, "feeds": ["show-*"]});
    for (name, value) in changed.as_object().unwrap() {
        match value {
            Value::Null => drop(all.as_object_mut().unwrap().remove(name)),
            value => all[name] = value.clone(),
        }
    }
    all
}

fn signed(changed: Value) -> String {
    Minter::secret(SECRET).sign(&claims(changed), None).unwrap()
}

fn part(text: &str) -> String {
    BASE64URL_NOPAD.encode(text.as_ref())
}

#[test]
fn a_good_token_says_who_and_what() {
    let viewer = by_secret().check(&signed(json!({})), NOW).unwrap();
    assert_eq!(viewer.sub.as_deref(), Some("ann"));
    assert!(viewer.may_see("show-1") && !viewer.may_see("other") && !viewer.may_hold_in("show-1"));
    assert_eq!((viewer.issued_at, viewer.ends_at), (NOW, Millis(NOW.0 + 600_000)));
    let holder = by_secret().check(&signed(json!({"may": ["hold", "dance"]})), NOW).unwrap();
    assert!(holder.may_see("show-1") && holder.may_hold_in("show-1") && !holder.may_hold_in("other"));
    let nobody = by_secret().check(&signed(json!({"may": [], "sub": null})), NOW).unwrap();
    assert!(!nobody.may_see("show-1") && nobody.sub.is_none());
    let nowhere = by_secret().check(&signed(json!({"feeds": null})), NOW).unwrap();
    assert!(!nowhere.may_see("show-1"));
}

#[test]
fn every_algorithm_is_checked_with_a_key_of_its_kind() {
    let minters = [
        ("RS256", Minter::private_pem(RSA.0.as_bytes()).unwrap()),
        ("PS256", Minter::private_pem(RSA.0.as_bytes()).unwrap().pss()),
        ("ES256", Minter::private_pem(EC.0.as_bytes()).unwrap()),
        ("EdDSA", Minter::private_pem(ED.0.as_bytes()).unwrap()),
    ];
    let mut by_files = Verifier::new(rules());
    for (_, public) in [RSA, EC, ED] {
        by_files.add_public_pem(public.as_bytes()).unwrap();
    }
    let mut by_set = Verifier::new(rules());
    by_set.set_local(Some(KeySet::parse(JWKS.as_bytes()).unwrap()));
    for ((name, minter), kid) in minters.iter().zip(["rsa", "rsa", "ec", "ed"]) {
        let token = minter.sign(&claims(json!({})), None).unwrap();
        assert!(by_files.check(&token, NOW).is_ok(), "{name}");
        assert_eq!(
            by_set.check(&token, NOW),
            Err(BadToken::Signature),
            "{name}: of several keys, none is named"
        );
        let token = minter.sign(&claims(json!({})), Some(kid)).unwrap();
        assert!(by_set.check(&token, NOW).is_ok(), "{name}");
        for wrong in ["rsa", "ec", "ed", "", "../ec", "ec\u{0}", "' OR 1=1"] {
            let fine = wrong == kid;
            let token = minter.sign(&claims(json!({})), Some(wrong)).unwrap();
            assert_eq!(by_set.check(&token, NOW).is_ok(), fine, "{name} {wrong}");
        }
        assert_eq!(by_secret().check(&token, NOW), Err(BadToken::Signature), "{name}");
        let mut damaged = token.into_bytes();
        let end = damaged.len() - 10;
        damaged[end] = if damaged[end] == b'A' { b'B' } else { b'A' };
        assert!(by_set.check(&String::from_utf8(damaged).unwrap(), NOW).is_err(), "{name}");
    }
    for pem in ["", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", RSA.0] {
        let mut verifier = Verifier::new(rules());
        // A private key in the place of a public one is a slip that must not pass unseen.
        assert!(pem == RSA.0 || verifier.add_public_pem(pem.as_bytes()).is_err(), "{pem}");
    }
}

#[test]
fn a_set_holds_only_keys_for_signatures_and_secrets_do_not_belong_into_it() {
    let set: Value = serde_json::from_str(JWKS).unwrap();
    let of = |change: fn(&mut Value)| {
        let mut key = set["keys"][1].clone();
        change(&mut key);
        KeySet::parse(json!({"keys": [key]}).to_string().as_bytes())
    };
    assert!(of(|_| ()).is_ok());
    let changes: [fn(&mut Value); 5] = [
        |key| key["use"] = "enc".into(),
        |key| key["key_ops"] = json!(["encrypt"]),
        |key| key["alg"] = "ES384".into(),
        |key| key["kty"] = "EC2".into(),
        |key| key["crv"] = "P-384".into(),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        assert!(of(change).is_err(), "{n}");
    }
    let secret = json!({"keys": [{"kty": "oct", "k": part(SECRET), "kid": "ec", "alg": "HS256"}]});
    assert!(KeySet::parse(secret.to_string().as_bytes()).is_err());
    for text in ["", "[]", "{}", "{\"keys\":[]}", "{\"keys\":{}}", "<html>"] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
    // One key alone need not be named, and is found by any name if it has none itself.
    let alone = of(|key| drop(key.as_object_mut().unwrap().remove("kid"))).unwrap();
    assert!(matches!(alone.find(Some("x"), Algorithm::ES256), Lookup::Key(_)));
    assert!(matches!(of(|_| ()).unwrap().find(None, Algorithm::ES256), Lookup::Key(_)));
    assert!(matches!(of(|_| ()).unwrap().find(Some("x"), Algorithm::ES256), Lookup::Unknown));
    let bound = of(|key| key["alg"] = "ES256".into()).unwrap();
    assert!(matches!(bound.find(None, Algorithm::ES256), Lookup::Key(_)));
    assert!(matches!(bound.find(None, Algorithm::RS256), Lookup::Unknown));
}

#[test]
fn nothing_but_a_signature_makes_a_token_good() {
    let verifier = by_secret();
    let body = claims(json!({})).to_string();
    let right = signed(json!({}));
    let (head, rest) = right.split_once('.').unwrap();
    let signature = rest.split_once('.').unwrap().1;
    for alg in
        ["none", "None", "NONE", "nOnE", "", "HS384", "HS512", "ES384", "RS512", "hs256", "ES256K", "dir"]
    {
        let none = part(&json!({"alg": alg, "typ": "JWT"}).to_string());
        for signature in ["", signature] {
            let token = format!("{none}.{}.{signature}", part(&body));
            assert_eq!(verifier.check(&token, NOW), Err(BadToken::Algorithm), "{alg}");
        }
    }
    // A sender that names a key of its own signs with it; the names are not looked at.
    let own = Minter::private_pem(EC.0.as_bytes()).unwrap();
    let set: Value = serde_json::from_str(JWKS).unwrap();
    let mut strangers = Verifier::new(rules());
    strangers.add_public_pem(ED.1.as_bytes()).unwrap();
    for extra in [
        json!({"jwk": set["keys"][1]}),
        json!({"jku": "https://evil.example/jwks.json"}),
        json!({"x5u": "https://evil.example/x"}),
        json!({"x5c": ["MII"]}),
        json!({"jwk": 5}),
    ] {
        let mut head = json!({"alg": "ES256", "typ": "JWT"});
        head.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let token = own.sign_with_head(&head, &claims(json!({}))).unwrap();
        assert_eq!(strangers.check(&token, NOW), Err(BadToken::Signature), "{head}");
        // And where the key is a good one, they do no harm.
        head["alg"] = "HS256".into();
        let token = Minter::secret(SECRET).sign_with_head(&head, &claims(json!({}))).unwrap();
        assert!(verifier.check(&token, NOW).is_ok(), "{head}");
    }
    // A public key is no secret, however it is spelled.
    let mut mixed = by_secret();
    mixed.add_public_pem(RSA.1.as_bytes()).unwrap();
    mixed.set_local(Some(KeySet::parse(JWKS.as_bytes()).unwrap()));
    let n = set["keys"][0]["n"].as_str().unwrap();
    for public in [RSA.1, RSA.1.trim(), n, EC.1, JWKS] {
        let token = Minter::secret(public).sign(&claims(json!({})), Some("rsa")).unwrap();
        assert_eq!(mixed.check(&token, NOW), Err(BadToken::Signature));
    }
    let mut public_only = Verifier::new(rules());
    public_only.add_public_pem(RSA.1.as_bytes()).unwrap();
    let token = Minter::secret(RSA.1).sign(&claims(json!({})), None).unwrap();
    assert_eq!(public_only.check(&token, NOW), Err(BadToken::Algorithm));
    // Parts exchanged, left out, doubled, of another alphabet.
    let other = part(&claims(json!({"feeds": ["*"]})).to_string());
    for token in [
        format!("{head}.{other}.{signature}"),
        format!("{head}.{}.", part(&body)),
        format!("{head}.{}", part(&body)),
        format!("{right}."),
        format!(".{right}"),
        format!("{right}.{signature}"),
        format!("{right}="),
        format!(" {right}"),
        right.replace('.', ".."),
        String::new(),
        "..".into(),
        "tck_".into(),
    ] {
        assert!(verifier.check(&token, NOW).is_err(), "{token}");
    }
    assert_eq!(Verifier::default().check(&right, NOW), Err(BadToken::NotConfigured));
}

#[test]
fn the_head_is_that_of_a_jwt_and_asks_for_nothing_else() {
    let with = |head: Value| {
        let token = Minter::secret(SECRET).sign_with_head(&head, &claims(json!({}))).unwrap();
        by_secret().check(&token, NOW).map(|_| ())
    };
    for typ in ["JWT", "jwt", "at+jwt", "application/jwt"] {
        assert_eq!(with(json!({"alg": "HS256", "typ": typ})), Ok(()), "{typ}");
    }
    assert_eq!(with(json!({"alg": "HS256"})), Ok(()));
    for typ in ["logout+jwt", "dpop+jwt", "JWE", ""] {
        assert_eq!(with(json!({"alg": "HS256", "typ": typ})), Err(BadToken::Head), "{typ}");
    }
    assert_eq!(with(json!({"alg": "HS256", "crit": ["b64"], "b64": false})), Err(BadToken::Head));
    for head in [
        json!({"alg": 5}),
        json!({}),
        json!([]),
        json!({"alg": "HS256", "kid": 5}),
        json!({"alg": ["HS256"]}),
    ] {
        assert_eq!(with(head.clone()), Err(BadToken::Malformed), "{head}");
    }
    let twice = r#"{"alg":"HS256","alg":"HS256"}"#;
    let token = Minter::secret(SECRET).sign_parts(twice, &claims(json!({})).to_string()).unwrap();
    assert_eq!(by_secret().check(&token, NOW), Err(BadToken::Malformed));
}

#[test]
fn claims_of_a_wrong_type_or_there_twice_make_a_token_bad() {
    for (changed, bad) in [
        (json!({"exp": null}), BadToken::NoTimes),
        (json!({"iat": null}), BadToken::NoTimes),
        (json!({"exp": "1800000600"}), BadToken::Malformed),
        (json!({"exp": true}), BadToken::Malformed),
        (json!({"iat": [1]}), BadToken::Malformed),
        (json!({"nbf": "soon"}), BadToken::Malformed),
        (json!({"jti": 5}), BadToken::Malformed),
        (json!({"sub": 5}), BadToken::Malformed),
        (json!({"sub": ["ann"]}), BadToken::Malformed),
        (json!({"iss": 5}), BadToken::Malformed),
        (json!({"aud": {"a": 1}}), BadToken::Malformed),
        (json!({"aud": [5]}), BadToken::Malformed),
        (json!({"feeds": "show-*"}), BadToken::Malformed),
        (json!({"feeds": [5]}), BadToken::Malformed),
        (json!({"may": "watch"}), BadToken::Malformed),
        (json!({"may": {"watch": true}}), BadToken::Malformed),
        (json!({"exp": 1e300}), BadToken::TooLongLived),
        (json!({"exp": 1_800_086_401}), BadToken::TooLongLived),
        (json!({"exp": 1e300, "iat": 1e300}), BadToken::NotYet),
        (json!({"iat": -1e300}), BadToken::TooLongLived),
        (json!({"iat": 1_800_000_006}), BadToken::NotYet),
        (json!({"nbf": 1_800_000_006}), BadToken::NotYet),
        (json!({"iat": 1_799_999_000, "exp": 1_799_999_995}), BadToken::Expired),
        (json!({"sub": ""}), BadToken::Subject),
        (json!({"sub": "é".repeat(33)}), BadToken::Subject),
        (json!({"sub": null, "may": ["hold"]}), BadToken::Subject),
        (json!({"feeds": ["a*b"]}), BadToken::Feeds),
        (json!({"feeds": ["**"]}), BadToken::Feeds),
        (json!({"feeds": vec!["a"; 257]}), BadToken::Feeds),
    ] {
        assert_eq!(by_secret().check(&signed(changed.clone()), NOW), Err(bad), "{changed}");
    }
    let text = claims(json!({})).to_string();
    for (one, two) in
        [("exp", "9e99"), ("feeds", "[\"*\"]"), ("sub", "\"root\""), ("sub", "null"), ("exp", "null")]
    {
        for twice in [
            text.replacen('{', &format!("{{\"{one}\":{two},"), 1),
            format!("{},\"{one}\":{two}}}", &text[..text.len() - 1]),
        ] {
            let token = Minter::secret(SECRET).sign_parts(r#"{"alg":"HS256"}"#, &twice).unwrap();
            assert_eq!(by_secret().check(&token, NOW), Err(BadToken::Malformed), "{twice}");
        }
    }
    for fine in [
        json!({"sub": "アンナ-🎁"}),
        json!({"exp": 1_800_000_600.5}),
        json!({"iat": 1_800_000_004, "nbf": 1_800_000_004}),
        json!({"aud": ["a", "b"], "iss": "x", "jti": "1", "roles": {"deep": [1, {"deeper": null}]}}),
    ] {
        assert!(by_secret().check(&signed(fine.clone()), NOW).is_ok(), "{fine}");
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let deep = |claim: &str| {
        let value = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let text = claims(json!({"feeds": null})).to_string();
        let text = text.replacen('{', &format!("{{\"{claim}\":{value},"), 1);
        let token = Minter::secret(SECRET).sign_parts(r#"{"alg":"HS256"}"#, &text).unwrap();
        by_secret().check(&token, NOW).map(|_| ())
    };
    assert_eq!(deep("feeds"), Err(BadToken::Malformed));
    // What nobody asked for is skipped without going into it.
    assert_eq!(deep("other"), Ok(()));
    let long = signed(json!({"pad": "x".repeat(3_500)}));
    assert_eq!(by_secret().check(&long, NOW), Err(BadToken::TooLong));
    let token = signed(json!({"pad": "x".repeat(2_000)}));
    assert!(token.len() < MAX_TOKEN_BYTES && by_secret().check(&token, NOW).is_ok());
}

#[test]
fn issuer_and_audience_are_checked_where_they_are_configured() {
    let mut verifier = Verifier::new(TokenRules {
        issuer: Some("login".into()),
        audience: Some("tipcast".into()),
        ..rules()
    });
    verifier.add_secret(SECRET).unwrap();
    for (changed, said) in [
        (json!({"iss": "login", "aud": "tipcast"}), None),
        (json!({"iss": "login", "aud": ["x", "tipcast"]}), None),
        (json!({"aud": "tipcast"}), Some(BadToken::Issuer)),
        (json!({"iss": "Login", "aud": "tipcast"}), Some(BadToken::Issuer)),
        (json!({"iss": "login"}), Some(BadToken::Audience)),
        (json!({"iss": "login", "aud": []}), Some(BadToken::Audience)),
        (json!({"iss": "login", "aud": "tipcast2"}), Some(BadToken::Audience)),
    ] {
        assert_eq!(verifier.check(&signed(changed.clone()), NOW).err(), said, "{changed}");
    }
}

#[test]
fn a_token_ends_at_exp_and_the_clocks_may_differ_by_the_leeway() {
    let verifier = by_secret();
    let token = signed(json!({"exp": 1_800_000_010}));
    let at = |ms: i64| verifier.check(&token, Millis(NOW.0 + ms)).map(|viewer| viewer.ends_at.0 - NOW.0);
    assert_eq!((at(0), at(9_999)), (Ok(10_000), Ok(10_000)));
    assert_eq!((at(10_000), at(14_999)), (Ok(15_000), Ok(15_000)), "it is over, and accepted for a moment");
    assert_eq!(at(15_000), Err(BadToken::Expired));
    assert_eq!((at(-5_000), at(-5_001)), (Ok(10_000), Err(BadToken::NotYet)));
}
