//! What it costs to judge a viewer's token, by algorithm: `cargo bench --bench tokens`.
//!
//! Processor time of this thread, of checks one after the other, the best of several rounds: what a handshake pays
//! beside the connection itself. Linux only.

#![allow(clippy::expect_used)]

use tipcast::auth::revoked::viewer_mark;
use tipcast::auth::token::mint::Minter;
use tipcast::auth::{KeyHash, Revoked, TokenRules, Verifier};
use tipcast::domain::Millis;

const SECRET: &str = "a secret of the bench, longer than it must be";
const NOW: Millis = Millis(1_800_000_000_000);
const ROUNDS: usize = 3;
const ROUND_NS: u64 = 200_000_000;
const CALLS: u32 = 500;

const RSA: (&str, &str) = (
    include_str!("../src/auth/token/testdata/rsa.pem"),
    include_str!("../src/auth/token/testdata/rsa.pub.pem"),
);
const EC: (&str, &str) = (
    include_str!("../src/auth/token/testdata/ec.pem"),
    include_str!("../src/auth/token/testdata/ec.pub.pem"),
);
const ED: (&str, &str) = (
    include_str!("../src/auth/token/testdata/ed.pem"),
    include_str!("../src/auth/token/testdata/ed.pub.pem"),
);

/// Nanoseconds for which this thread had a processor.
fn spent() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

/// Microseconds of one call, the best of some rounds. The system counts in ticks of some milliseconds, so a round
/// lasts for many of them.
fn cost(mut call: impl FnMut()) -> f64 {
    let mut round = || {
        let (begun, mut calls) = (spent(), 0_u32);
        while spent() - begun < ROUND_NS {
            (0..CALLS).for_each(|_| call());
            calls += CALLS;
        }
        (spent() - begun) as f64 / 1e3 / f64::from(calls)
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let private = |pem: &str| Minter::private_pem(pem.as_bytes()).expect("a key");
    let public = |pem: &str| {
        let mut verifier =
            Verifier::new(TokenRules { leeway_ms: 5_000, max_age_ms: 86_400_000, ..TokenRules::default() });
        match pem {
            "" => verifier.add_secret(SECRET).expect("a secret"),
            pem => verifier.add_public_pem(pem.as_bytes()).expect("a key"),
        }
        verifier
    };
    let claims = serde_json::json!({"sub": "viewer-4711", "iat": 1_800_000_000, "exp": 1_800_000_900,
        "feeds": ["show-*", "lobby"], "may": ["hold"]});
    println!("microseconds of CPU for one check");
    for (name, minter, verifier) in [
        ("HS256", Minter::secret(SECRET), public("")),
        ("RS256", private(RSA.0), public(RSA.1)),
        ("PS256", private(RSA.0).pss(), public(RSA.1)),
        ("ES256", private(EC.0), public(EC.1)),
        ("EdDSA", private(ED.0), public(ED.1)),
    ] {
        let token = minter.sign(&claims, None).expect("it signs");
        println!("  {name:<8} {:7.2}", cost(|| assert!(verifier.check(&token, NOW).is_ok())));
        let wrong = format!("{}AAAA", &token[..token.len() - 4]);
        println!("  {:<8} {:7.2}", "  wrong", cost(|| assert!(verifier.check(&wrong, NOW).is_err())));
    }
    let revoked = Revoked::default();
    for n in 0..100_000 {
        revoked.refuse(viewer_mark(&format!("viewer {n}")), NOW, NOW.plus(1));
    }
    let mark = || revoked.is_revoked(viewer_mark("viewer-4711"), NOW);
    println!("  {:<8} {:7.2}", "revoked?", cost(|| assert!(!mark())));
    println!(
        "  {:<8} {:7.2}",
        "a key",
        cost(|| {
            let _ = std::hint::black_box(KeyHash::of("tck_0123456789abcdef"));
        })
    );
}
