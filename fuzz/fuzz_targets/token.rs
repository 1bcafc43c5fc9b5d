//! Viewers' tokens and the headers of signed requests: never panics; what nobody signed is never good, and what is good
//! keeps to the rules. The first line is a token as it comes; the second and third are a head and claims, which are
//! signed here; the fourth to sixth are the headers of a signed request.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use tipcast::auth::keys::KeySpec;
use tipcast::auth::signed::SignedRequest;
use tipcast::auth::token::mint::Minter;
use tipcast::auth::{Key, TokenRules, Verifier};
use tipcast::domain::Millis;

const NOW: Millis = Millis(1_800_000_000_000);
const SECRET: &str = "a secret of the fuzzer, longer than it must be";

static SIGNS: LazyLock<(Verifier, Minter)> = LazyLock::new(|| {
    let mut verifier =
        Verifier::new(TokenRules { leeway_ms: 5_000, max_age_ms: 86_400_000, ..TokenRules::default() });
    verifier.add_secret(SECRET).expect("it is long enough");
    (verifier, Minter::secret(SECRET))
});

static KEY: LazyLock<Arc<Key>> = LazyLock::new(|| {
    let (may, secret) = (["gifts".to_owned()], Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    let spec = KeySpec { name: "game", secret, may: &may, signed: true, ..KeySpec::default() };
    Arc::new(Key::parse(spec).expect("it is a key"))
});

fuzz_target!(|text: &str| {
    let (verifier, minter) = &*SIGNS;
    let mut lines = text.split('\n');
    let mut next = || lines.next().unwrap_or_default();
    let (raw, head, claims, id, time, signature) = (next(), next(), next(), next(), next(), next());
    assert!(verifier.check(raw, NOW).is_err(), "nobody signed it");
    if let Ok(viewer) = minter.sign_parts(head, claims).map_err(drop).and_then(|token| verifier.check(&token, NOW).map_err(drop)) {
        assert!(viewer.ends_at > NOW && viewer.issued_at <= NOW.plus(5_000));
        assert!(viewer.ends_at.since(viewer.issued_at) <= 86_400_000 + 5_000);
        assert!(viewer.sub.as_ref().is_none_or(|sub| (1..=64).contains(&sub.len())));
        assert!(!viewer.may_hold || (viewer.may_watch && viewer.sub.is_some()));
        assert!(!viewer.feeds.covers("*") || viewer.feeds.is_everything());
    }
    for key in [Some(KEY.clone()), None] {
        if let Ok(request) = SignedRequest::read(key, id, time, signature, NOW) {
            assert!(request.verify(raw.as_bytes()).is_err(), "nobody signed it");
        }
    }
});
