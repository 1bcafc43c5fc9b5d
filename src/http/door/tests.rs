//! The order of what the door asks, without a server.

use actix_web::test::TestRequest;

use super::*;
use crate::auth::keys::KeySpec;
use crate::auth::{Key, KeyHash, Rights, fresh_key};
use crate::http::access::{MethodRow, entries};

const CLOCK: Millis = Millis(1_800_000_000_000);

fn list(keys: &[&str], may: Rights, mut all: Keys) -> Keys {
    let name = if may == Rights::ALL { "admin_keys" } else { "producer_keys" };
    all.add_list(name, may, keys.iter().copied()).unwrap();
    all
}

fn rules(keys: &[&str], origins: &[&str]) -> AccessRules {
    AccessRules {
        keys: list(keys, Rights::PRODUCER, Keys::default()),
        origins: Origins::parse(origins.iter().copied()).unwrap(),
        ..AccessRules::default()
    }
}

const KEY: &str = "tck_0123456789abcdef";

/// What the door says: "in", "preflight" or the problem's name.
fn says(door: &Door, line: &str, headers: &[(&str, &str)]) -> &'static str {
    let (method, path) = line.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    let peer = "127.0.0.1:9".parse().unwrap();
    let mut req = TestRequest::with_uri(path).method(method).peer_addr(peer);
    if !headers.iter().any(|(name, _)| *name == "Host") {
        req = req.insert_header(("Host", "127.0.0.1:8080"));
    }
    for (name, value) in headers {
        req = req.append_header((*name, *value));
    }
    match door.admit(&RequestHead::of(&req.to_http_request()), CLOCK) {
        AccessVerdict::Enter(..) => "in",
        AccessVerdict::Preflight => "preflight",
        AccessVerdict::Refuse { why, .. } => why.kind().name,
    }
}

const OPEN: [&str; 9] = [
    "GET /",
    "GET /metrics",
    "GET /static/tipcast.js",
    "GET /v1/feeds/a",
    "HEAD /v1/feeds/a",
    "GET /v1/feeds/a/ws",
    "GET /v1/feeds/a/sse",
    "GET /v1/ws",
    "GET /v1/feeds/a/drops/d",
];

const CLOSED: [&str; 13] = [
    "POST /v1/feeds/a/gifts",
    "POST /v1/feeds/a/gifts/batch",
    "DELETE /v1/feeds/a/rows/r",
    "GET /v1/feeds/a/policy",
    "PUT /v1/feeds/a/policy",
    "GET /v1/feeds/a/scheduled",
    "DELETE /v1/feeds/a/scheduled/x",
    "GET /v1/feeds/a/due/dead",
    "PUT /v1/feeds/a/drops/d",
    "POST /v1/feeds/a/drops/d/claims",
    "GET /v1/feeds/a/users/u/holds",
    "GET /v1/feeds/a/groups/g",
    "GET /v1/feeds/a/webhooks/w",
];

/// What is not there, below /v1: a secret to those without a key.
const NOWHERE: [&str; 3] = ["GET /v1/what/will/come", "GET /v1/feeds/a/ws/", "POST /v1/feeds/a/policy"];

#[test]
fn paths_not_listed_as_open_need_a_key() {
    let open = Door::new(rules(&[], &["*"]));
    let keyed = Door::new(rules(&[KEY], &["*"]));
    let bearer = format!("Bearer {KEY}");
    for line in OPEN {
        assert_eq!((says(&open, line, &[]), says(&keyed, line, &[])), ("in", "in"), "{line}");
    }
    for line in CLOSED {
        assert_eq!((says(&open, line, &[]), says(&keyed, line, &[])), ("in", "unauthenticated"), "{line}");
        assert_eq!(says(&keyed, line, &[("Authorization", &bearer)]), "in", "{line}");
    }
    for line in NOWHERE {
        let answer = says(&keyed, line, &[("Authorization", &bearer)]);
        assert!(matches!(answer, "not-found" | "method-not-allowed"), "{line} {answer}");
        assert_eq!(says(&keyed, line, &[]), "unauthenticated", "{line}");
    }
    let hash = KeyHash::of(KEY).to_string();
    for wrong in
        [KEY, "Bearer", "Bearer ", "Basic dGNr", &format!("Bearer {KEY}x"), &format!("Bearer {hash}")]
    {
        assert_eq!(says(&keyed, CLOSED[0], &[("Authorization", wrong)]), "unauthenticated", "{wrong}");
    }
    assert_eq!(says(&keyed, CLOSED[0], &[("Authorization", &format!("bearer  {KEY} "))]), "in");
    let twice = [("Authorization", &*bearer), ("Authorization", &*bearer)];
    assert_eq!(says(&keyed, CLOSED[0], &twice), "unauthenticated");
}

/// What the door says to who comes from this peer.
fn says_to(door: &Door, peer: &str, line: &str, headers: &[(&str, &str)]) -> &'static str {
    let (method, path) = line.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    let mut req = TestRequest::with_uri(path).method(method).peer_addr(peer.parse().unwrap());
    for (name, value) in headers {
        req = req.insert_header((*name, *value));
    }
    match door.admit(&RequestHead::of(&req.to_http_request()), CLOCK) {
        AccessVerdict::Enter(..) => "in",
        AccessVerdict::Preflight => "preflight",
        AccessVerdict::Refuse { why, .. } => why.kind().name,
    }
}

const ADMIN: &str = "GET /v1/admin/overview";
const HERE: (&str, &str) = ("Host", "localhost:8080");

#[test]
fn without_keys_only_programs_of_this_machine_do_what_is_not_open_to_viewers() {
    let open = Door::new(rules(&[], &["*"]));
    let insecure = Door::new(AccessRules { insecure: true, ..rules(&[], &["*"]) });
    for line in CLOSED.into_iter().chain([ADMIN]) {
        for peer in ["127.0.0.1:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            for host in ["localhost:8080", "127.0.0.1", "[::1]:8080"] {
                assert_eq!(says_to(&open, peer, line, &[("Host", host)]), "in", "{line} {peer} {host}");
            }
        }
        assert_eq!(says_to(&open, "10.0.0.1:9", line, &[HERE]), "keys-needed", "{line}");
        for host in ["gifts.example", "localhost.evil.example", "localhost, evil", "127.0.0.1.evil:8080"] {
            let answer = says_to(&open, "127.0.0.1:9", line, &[("Host", host)]);
            assert_eq!(answer, "keys-needed", "{line} {host}");
        }
        for name in [
            "Forwarded",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Proto",
            "X-Forwarded",
            "X-Forwarded-Prefix",
            "X-Original-Forwarded-For",
            "X-Original-URL",
            "X-Real-IP",
            "Via",
            "CF-Connecting-IP",
            "cf-ray",
            "True-Client-IP",
            "X-Cluster-Client-IP",
            "Client-IP",
            "Fastly-FF",
            "Tailscale-User-Login",
        ] {
            let headers = [HERE, (name, "127.0.0.1")];
            assert_eq!(says_to(&open, "127.0.0.1:9", line, &headers), "keys-needed", "{line} {name}");
        }
        for name in ["X-Request-Id", "Traceparent", "X-Forward", "X-Originally", "CFO", "Client-IPs"] {
            assert_eq!(says_to(&open, "127.0.0.1:9", line, &[HERE, (name, "1")]), "in", "{line} {name}");
        }
        let rebound = [("Host", "evil.example:8080"), ("Origin", "http://evil.example:8080")];
        assert_eq!(says_to(&open, "127.0.0.1:9", line, &rebound), "keys-needed", "{line}");
        let answer = if line == ADMIN { "keys-needed" } else { "in" };
        assert_eq!(says_to(&insecure, "10.0.0.1:9", line, &[("Host", "gifts.example")]), answer, "{line}");
    }
    for line in OPEN {
        let headers = [("Host", "gifts.example"), ("X-Forwarded-For", "1.2.3.4")];
        assert_eq!(says_to(&open, "10.0.0.1:9", line, &headers), "in", "{line}");
    }
    for origin in ["https://evil.example", "null"] {
        assert_eq!(says_to(&open, "127.0.0.1:9", ADMIN, &[HERE, ("Origin", origin)]), "foreign-origin");
    }
    assert_eq!(says_to(&open, "127.0.0.1:9", ADMIN, &[HERE, ("Origin", "http://localhost:8080")]), "in");
}

#[test]
fn an_unlisted_host_name_is_misdirected() {
    let hosts = Hosts::parse(["gifts.example", "127.0.0.1:8080"]).unwrap();
    let door = Door::new(AccessRules { hosts, ..rules(&[KEY], &["*"]) });
    let bearer = format!("Bearer {KEY}");
    for line in OPEN.into_iter().chain(CLOSED).chain([ADMIN]) {
        for host in ["evil.example", "127.0.0.1", "127.0.0.1:8081", ""] {
            let headers = [("Host", host), ("Authorization", &*bearer)];
            assert_eq!(says_to(&door, "127.0.0.1:9", line, &headers), "misdirected", "{line} {host}");
        }
    }
    for host in ["gifts.example", "Gifts.Example:443", "127.0.0.1:8080"] {
        assert_eq!(says_to(&door, "10.0.0.1:9", "GET /v1/feeds/a", &[("Host", host)]), "in", "{host}");
    }
}

#[test]
fn an_admin_key_opens_everything_and_a_producers_key_all_but_the_overview() {
    let other = "tck_fedcba9876543210";
    let producer = rules(&[KEY], &["*"]);
    let door =
        Door::new(AccessRules { keys: list(&[other], Rights::ALL, producer.keys.clone()), ..producer });
    let (producer, admin) = (format!("Bearer {KEY}"), format!("Bearer {other}"));
    let (producer, admin) = ([("Authorization", &*producer)], [("Authorization", &*admin)]);
    let ask = |line: &str, headers: &[(&str, &str)]| says_to(&door, "10.0.0.1:9", line, headers);
    assert_eq!(
        (ask(ADMIN, &[]), ask(ADMIN, &producer), ask(ADMIN, &admin)),
        ("unauthenticated", "not-allowed", "in")
    );
    for line in CLOSED {
        let answer = (ask(line, &[]), ask(line, &producer), ask(line, &admin));
        assert_eq!(answer, ("unauthenticated", "in", "in"), "{line}");
    }
    // The only keys there are: whatever is not open to viewers needs one.
    let alone =
        Door::new(AccessRules { keys: list(&[other], Rights::ALL, Keys::default()), ..rules(&[], &["*"]) });
    for line in CLOSED {
        assert_eq!(says_to(&alone, "127.0.0.1:9", line, &[HERE]), "unauthenticated", "{line}");
        assert_eq!(says_to(&alone, "127.0.0.1:9", line, &admin), "in", "{line}");
    }
    assert_eq!(says_to(&alone, "127.0.0.1:9", ADMIN, &[HERE]), "unauthenticated");
}

#[test]
fn wrong_keys_slow_their_address_down_and_lock_nobody_out() {
    let door = Door::new(rules(&[KEY], &["*"]));
    let bearer = format!("Bearer {KEY}");
    let wrong = [("Authorization", "Bearer tck_wrong")];
    for n in 0..128 {
        assert_eq!(says_to(&door, "10.0.0.1:9", CLOSED[0], &wrong), "unauthenticated", "{n}");
    }
    assert_eq!(says_to(&door, "10.0.0.1:9", CLOSED[0], &wrong), "rate-limited");
    assert_eq!(says_to(&door, "10.0.0.1:9", ADMIN, &wrong), "rate-limited");
    assert_eq!(says_to(&door, "10.0.0.2:9", CLOSED[0], &wrong), "unauthenticated", "another address");
    assert_eq!(says_to(&door, "10.0.0.1:9", CLOSED[0], &[]), "unauthenticated", "nothing was tried");
    assert_eq!(says_to(&door, "10.0.0.1:9", CLOSED[0], &[("Authorization", &*bearer)]), "in");
}

#[test]
fn without_keys_a_foreign_page_may_watch_but_not_write_unless_it_is_listed() {
    let page = |origin| [("Origin", origin)];
    let evil = page("https://evil.example");
    let door = Door::new(rules(&[], &["*", "https://show.example"]));
    for line in OPEN {
        assert_eq!(says(&door, line, &evil), "in", "{line}");
    }
    for line in CLOSED {
        assert_eq!(says(&door, line, &evil), "foreign-origin", "{line}");
        assert_eq!(says(&door, line, &page("https://show.example")), "in", "{line}");
        assert_eq!(says(&door, line, &page("http://127.0.0.1:8080")), "in", "{line}");
    }
    // A name that somebody lets point here is "own" by its Host header, and still a stranger's.
    let rebound = [("Origin", "http://evil.example:8080"), ("Host", "evil.example:8080")];
    assert_eq!(says(&door, "POST /v1/feeds/a/gifts", &rebound), "keys-needed");
    let insecure = Door::new(AccessRules { insecure: true, ..rules(&[], &[]) });
    assert_eq!(says(&insecure, "POST /v1/feeds/a/gifts", &rebound), "in");
    assert_eq!(says(&insecure, "GET /v1/feeds/a/ws", &rebound), "in");
}

#[test]
fn a_list_of_origins_keeps_other_pages_from_watching() {
    let door = Door::new(rules(&[KEY], &["https://show.example"]));
    let page = |origin| [("Origin", origin)];
    for line in ["GET /v1/feeds/a/ws", "GET /v1/feeds/a/sse", "GET /v1/ws"] {
        assert_eq!(says(&door, line, &page("https://evil.example")), "foreign-origin", "{line}");
        assert_eq!(says(&door, line, &page("null")), "foreign-origin", "{line}");
        assert_eq!(says(&door, line, &page("https://show.example")), "in", "{line}");
        assert_eq!(says(&door, line, &page("http://127.0.0.1:8080")), "in", "{line}");
        assert_eq!(says(&door, line, &[]), "in", "{line}");
    }
    assert_eq!(
        says(&door, "GET /v1/feeds/a", &page("https://evil.example")),
        "in",
        "but without CORS headers"
    );
    let twice = [("Origin", "https://show.example"), ("Origin", "https://show.example")];
    assert_eq!(says(&door, "GET /v1/ws", &twice), "foreign-origin");
}

#[test]
fn a_preflight_is_judged_by_what_it_asks_for() {
    let asks = |origin, method| [("Origin", origin), ("Access-Control-Request-Method", method)];
    let path = "OPTIONS /v1/feeds/a/gifts";
    let open = Door::new(rules(&[], &["*"]));
    assert_eq!(says(&open, path, &asks("https://evil.example", "POST")), "foreign-origin");
    assert_eq!(says(&open, "OPTIONS /v1/feeds/a", &asks("https://evil.example", "GET")), "preflight");
    let keyed = Door::new(rules(&[KEY], &["*"]));
    assert_eq!(says(&keyed, path, &asks("https://evil.example", "POST")), "preflight");
    assert_eq!(says(&keyed, path, &[("Origin", "https://evil.example")]), "unauthenticated");
    let listed = Door::new(rules(&[KEY], &["https://show.example"]));
    assert_eq!(says(&listed, path, &asks("https://show.example", "POST")), "preflight");
    assert_eq!(says(&listed, "OPTIONS /v1/feeds/a", &asks("https://evil.example", "GET")), "foreign-origin");
}

#[test]
fn keys_have_buckets_of_their_own_and_strangers_share_their_address() {
    let other = "tck_fedcba9876543210";
    let mut all = rules(&[KEY, other], &["*"]);
    all.rate = Rate::new(1, 0);
    let door = Door::new(all.clone());
    let (mine, others) = (format!("Bearer {KEY}"), format!("Bearer {other}"));
    let ask = |key: &str| says(&door, CLOSED[0], &[("Authorization", key)]);
    for _ in 0..128 {
        assert_eq!(ask(&mine), "in");
        assert_eq!(ask("Bearer wrong"), "unauthenticated");
    }
    assert_eq!((ask(&mine), ask("Bearer wrong"), ask(&others)), ("rate-limited", "rate-limited", "in"));
    assert_eq!(says(&door, "GET /v1/feeds/a", &[]), "in", "reading is not counted");
    all.keys = list(&[KEY], Rights::PRODUCER, Keys::default());
    door.change(all.clone());
    assert_eq!((ask(&mine), ask(&others)), ("rate-limited", "rate-limited"), "buckets outlive a change");
    all.rate = Rate::new(2, 0);
    door.change(all);
    assert_eq!(ask(&mine), "in");
}

/// A path of the table with its parts filled in.
fn example(path: &str, feed: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{feed}" => feed,
        part if part.starts_with('{') => "x",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn every_right_opens_its_paths_and_no_others_and_only_for_its_feeds() {
    let sent: Vec<(Right, String)> = Right::ALL.into_iter().map(|right| (right, fresh_key())).collect();
    let mut keys = Keys::default();
    for (right, key) in &sent {
        let (hash, may) = (KeyHash::of(key).to_string(), [right.as_str().to_owned()]);
        let feeds = [if *right == Right::Admin { "*" } else { "show-*" }.to_owned()];
        let spec = KeySpec {
            name: right.as_str(),
            hash: Some(&hash),
            feeds: Some(&feeds),
            may: &may,
            ..KeySpec::default()
        };
        keys.add(Key::parse(spec).unwrap()).unwrap();
    }
    let door = Door::new(AccessRules { keys, ..rules(&[], &["*"]) });
    let mut asked = 0;
    for entry in entries() {
        for MethodRow { name: method, access, .. } in &entry.methods {
            for (right, key) in &sent {
                let bearer = format!("Bearer {key}");
                let ask = |feed: &str, headers: &[(&str, &str)]| {
                    says_to(&door, "10.0.0.1:9", &format!("{method} {}", example(entry.path, feed)), headers)
                };
                let with = [("Authorization", &*bearer)];
                let opens = match access {
                    Access::Page
                    | Access::Open
                    | Access::Feed
                    | Access::List
                    | Access::Watch
                    | Access::AnyKey => true,
                    _ if *method == "GET" && *right == Right::Observe => true,
                    // What these include.
                    Access::Key(Right::Read) => {
                        matches!(right, Right::Read | Right::Moderate | Right::Observe | Right::Admin)
                    }
                    Access::Key(needed) => right == needed || *right == Right::Admin,
                    Access::Claim => matches!(right, Right::Reports | Right::Claims | Right::Admin),
                    Access::Hold => matches!(right, Right::Claims | Right::Admin),
                };
                let said = if opens { "in" } else { "not-allowed" };
                assert_eq!(ask("show-1", &with), said, "{right}: {method} {}", entry.path);
                let closed = matches!(access, Access::AnyKey | Access::Key(_) | Access::Hold | Access::Claim);
                let of_feeds = entry.path.contains("{feed}");
                if closed && of_feeds {
                    let said = if *right == Right::Admin { "in" } else { "not-allowed" };
                    assert_eq!(ask("other", &with), said, "{right}: {method} {}", entry.path);
                    assert_eq!(ask("*", &with), said, "{right}: {method} {}", entry.path);
                }
                assert_eq!(ask("show-1", &[]), if closed { "unauthenticated" } else { "in" });
                asked += 1;
            }
        }
    }
    assert!(asked > 300, "{asked}");
}

#[test]
fn a_key_is_of_no_use_from_its_end_on_and_a_signed_one_never_travels() {
    let key = fresh_key();
    let (hash, may) = (KeyHash::of(&key).to_string(), ["gifts".to_owned()]);
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let mut keys = Keys::default();
    for expires_at in [Some("2027-01-15T08:00:00Z"), Some("2027-01-15T08:00:01Z")] {
        let name = if keys.is_empty() { "over" } else { "soon" };
        let other = KeyHash::of(name).to_string();
        let hash = if name == "over" { &hash } else { &other };
        keys.add(
            Key::parse(KeySpec { name, hash: Some(hash), may: &may, expires_at, ..KeySpec::default() })
                .unwrap(),
        )
        .unwrap();
    }
    let signed =
        KeySpec { name: "signs", secret: Some(secret), may: &may, signed: true, ..KeySpec::default() };
    keys.add(Key::parse(signed).unwrap()).unwrap();
    let door = Door::new(AccessRules { keys, ..rules(&[], &["*"]) });
    let ask = |headers: &[(&str, &str)]| says_to(&door, "10.0.0.1:9", CLOSED[0], headers);
    assert_eq!(ask(&[("Authorization", &format!("Bearer {key}"))]), "unauthenticated");
    assert_eq!(ask(&[("Authorization", "Bearer soon")]), "in");
    assert_eq!(ask(&[("Authorization", &format!("Bearer {secret}"))]), "unauthenticated");
    let all = [
        ("Tipcast-Key", "signs"),
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", "1800000000"),
        ("webhook-signature", "v1,AAAA"),
    ];
    // The body is not here yet: what is signed is judged before the handler.
    assert_eq!(ask(&all), "in");
    for missing in 1..4 {
        let some: Vec<_> =
            all.iter().enumerate().filter(|(n, _)| *n != missing).map(|(_, header)| *header).collect();
        assert_eq!(ask(&some), "bad-signature", "{missing}");
    }
    // Nothing shows yet whether there is such a key: `soon` is no signing one, and `none` is no key at all.
    for name in ["soon", "none"] {
        assert_eq!(ask(&[("Tipcast-Key", name), all[1], all[2], all[3]]), "in", "{name}");
        assert_eq!(ask(&[("Tipcast-Key", name), all[1], all[2]]), "bad-signature", "{name}");
    }
    assert_eq!(ask(&[all[0], all[1], ("webhook-timestamp", "1799999699"), all[3]]), "bad-signature");
    assert_eq!(says_to(&door, "10.0.0.1:9", CLOSED[4], &all), "not-allowed", "gifts only");
}
