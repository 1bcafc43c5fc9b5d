//! What each fuzz target does with its input. The check that parsers take time in proportion to what they are given
//! (`linear`, and `tests/it/linear.rs`) runs the same.

use std::sync::{Arc, LazyLock};

use tipcast::auth::keys::KeySpec;
use tipcast::auth::keyset::KeySet;
use tipcast::auth::signed::SignedRequest;
use tipcast::auth::token::mint::Minter;
use tipcast::auth::{Key, TokenRules, Verifier};
use tipcast::domain::tally::GoalSpec;
use tipcast::domain::trace::{TraceParent, TraceState};
use tipcast::domain::{
    BlockWish, Claim, Control, Cursor, Cursors, Decision, DropSpec, FeedId, Gift, GiftId, HookSpec, Millis,
    PolicyPatch, Position, Pull, Refused, ReplayWish, RowId, json,
};
use tipcast::http::fuzzed;
use tipcast::http::watch::command::{self, ClientCommand};
use tipcast::http::watch::incoming::{FrameReader, FrameRules, Incoming};
use tipcast::sources::amount::Decimal;
use tipcast::sources::body::Form;
use tipcast::sources::verify::{Encoding, Scheme};
use tipcast::sources::{self, Event, Headers, Owner, Settings, preset};

/// Reads an input; panics if something does not hold.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const ALL: &[(&str, Target)] = &[
    ("amount", amount),
    ("batch", batch),
    ("bodies", bodies),
    ("command", command),
    ("forms", forms),
    ("forwarded", forwarded),
    ("framing", framing),
    ("gift", gift),
    ("handshake", handshake),
    ("incoming", incoming),
    ("jwks", jwks),
    ("names", names),
    ("path", path),
    ("query", query),
    ("signatures", signatures),
    ("source", source),
    ("token", token),
];

const NOW: Millis = Millis(1_800_000_000_000);

/// Amounts as texts: what is read is exactly what the digits say, or it is refused.
pub fn amount(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(decimal) = Decimal::parse(text) else { return };
    for places in -6..=6 {
        let Ok(amount) = decimal.times_ten_to(places) else { continue };
        // Back again, by moving the point of the integer's own digits.
        let back = Decimal::parse(&format!("{amount}e{}", -places)).expect("an amount");
        assert_eq!(back, decimal, "{text} {places}");
        assert!(amount < 1 << 53);
    }
}

/// Batches as producers may send them: a batch has 1 to 128 items, and no more gifts than items.
pub fn batch(data: &[u8]) {
    if let Some((items, gifts)) = fuzzed::batch(data) {
        assert!((1..=128).contains(&items) && gifts <= items);
        assert!(json::syntax(data).is_ok());
    }
}

/// Bodies of all other requests: what is refused says why, in a bounded number of words.
pub fn bodies(data: &[u8]) {
    let Ok(raw) = json::syntax(data) else { return };
    let judge = |refused: Option<Refused>| {
        let Some(Refused::Invalid(faults)) = refused else { return };
        let faults = json::first_faults(faults, 32);
        assert!((1..=33).contains(&faults.len()));
        assert!(faults.iter().all(|fault| fault.pointer.len() + fault.detail.len() < 2_000), "{faults:?}");
    };
    judge(Claim::parse(raw, None).err());
    judge(PolicyPatch::parse(raw).err());
    judge(DropSpec::parse(raw).err());
    judge(GoalSpec::parse(raw).err());
    judge(HookSpec::parse(raw).err());
    judge(Pull::parse(raw).err());
    judge(Cursors::parse(raw).err());
    judge(ReplayWish::parse(raw).err());
    judge(Decision::parse(raw).err());
    judge(BlockWish::parse(raw).err());
    judge(Control::parse(raw).err());
    judge(Settings::parse(raw).err());
}

/// Commands of a socket: never panics, and never shows a credential.
pub fn command(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match command::parse(text) {
        Ok(ClientCommand::Subscribe { feed, .. } | ClientCommand::Unsubscribe { feed }) => {
            assert!((1..=64).contains(&feed.to_string().len()));
            assert!(json::syntax(text.as_bytes()).is_ok());
        }
        Ok(told @ ClientCommand::Auth { .. }) => {
            assert_eq!(format!("{told:?}"), "Auth { credential: Credential(…) }");
        }
        Err(bad) => assert!(!bad.message.is_empty() && bad.message.len() < 1_000),
    }
}

/// Forms that hold JSON in one field.
pub fn forms(data: &[u8]) {
    if let Ok(text) = sources::body::open(&Form::Field("data".into()), data) {
        assert!(text.len() <= 3 * data.len());
    }
}

/// Headers by which proxies name the client.
pub fn forwarded(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(fuzzed::forwarded(text).iter().all(Option::is_some));
    }
}

/// Where requests begin and end: the same is understood whatever the pieces that a stream comes in.
pub fn framing(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let whole = fuzzed::framing(stream, stream.len());
    let pieces = fuzzed::framing(stream, usize::from(piece));
    assert_eq!(whole, pieces, "the pieces change what is understood");
}

/// Gifts as producers may send them: never panics, and what is taken keeps to the contract.
pub fn gift(data: &[u8]) {
    let Ok(raw) = json::syntax(data) else { return };
    let gift = match Gift::parse(raw, None) {
        Ok(gift) => gift,
        Err(refused) => {
            assert!(!format!("{refused:?}").is_empty());
            return;
        }
    };
    let shown = |text: &str| !text.trim().is_empty() && !text.chars().any(char::is_control);
    assert!((1..=64).contains(&gift.user.id.len()) && (1..=64).contains(&gift.gift.id.len()));
    // An empty name shows the id, which is any content.
    assert!(gift.user.name == gift.user.id || shown(&gift.user.name), "{:?}", gift.user.name);
    assert!(gift.gift.name == gift.gift.id || shown(&gift.gift.name), "{:?}", gift.gift.name);
    assert!(gift.message.as_deref().is_none_or(shown), "{:?}", gift.message);
    assert!((1..=1_000_000).contains(&gift.count) && gift.tier.is_none_or(|tier| tier <= 9));
    assert!(gift.value.as_ref().is_none_or(|value| value.amount < 1 << 53));
    // What watchers get is JSON in one line.
    for text in
        [Some(gift.user.to_json()), Some(gift.gift.to_json()), gift.meta.clone()].into_iter().flatten()
    {
        assert!(json::syntax(text.as_bytes()).is_ok(), "{text}");
        assert!(!text.contains(['\n', '\r']), "{text}");
    }
    // A retry is the same gift, whether its id is in the body or in the header.
    let again = Gift::parse(raw, Some(&gift.id)).expect("the same body with its own id");
    assert_eq!((again.fingerprint, again.id), (gift.fingerprint, gift.id));
}

/// Headers of a WebSocket handshake, one per line.
pub fn handshake(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(!fuzzed::handshake(text) || text.to_ascii_lowercase().contains("websocket"));
    }
}

/// The reader of client frames: never panics, keeps its bounds, and understands the same whatever the sizes of the pieces
/// that a stream comes in. Two bytes say how it is read: by which rules, in pieces of which size.
pub fn incoming(data: &[u8]) {
    let Some((&[rules, piece], stream)) = data.split_first_chunk() else { return };
    // Small, so that short inputs reach the limit.
    let rules = FrameRules { most: 300, binary: rules & 1 != 0, deflate: rules & 2 != 0 };
    let whole = read_frames(rules, stream, stream.len().max(1));
    let pieces = read_frames(rules, stream, usize::from(piece).max(1));
    assert_eq!(whole, pieces, "the pieces change what is understood");
}

fn read_frames(rules: FrameRules, stream: &[u8], piece: usize) -> Vec<String> {
    let mut reader = FrameReader::new(rules);
    let (mut said, mut refused) = (Vec::new(), false);
    for mut part in stream.chunks(piece) {
        while let Some(incoming) = reader.read(&mut part) {
            match &incoming {
                Ok(Incoming::Text(text)) => assert!(text.len() <= rules.most as usize && !refused),
                Ok(Incoming::Binary(bytes)) => {
                    assert!(rules.binary && bytes.len() <= rules.most as usize && !refused)
                }
                Ok(Incoming::Ping(payload)) => assert!(payload.len() <= 125 && !refused),
                Ok(Incoming::Pong) => assert!(!refused),
                Ok(Incoming::Close(_)) | Err(_) => {}
            }
            refused |= incoming.is_err();
            said.push(format!("{incoming:?}"));
            // Nothing that follows a close frame is read.
            if matches!(incoming, Ok(Incoming::Close(_))) {
                return said;
            }
        }
        assert!(part.is_empty(), "bytes are left although nothing is whole");
    }
    said
}

/// Key sets as somebody else's server may answer them.
pub fn jwks(data: &[u8]) {
    if let Err(why) = KeySet::parse(data) {
        assert!(!why.is_empty() && why.len() < 500);
    }
}

/// Short texts in paths, queries and headers: what is read is written as it was.
pub fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert!(text.parse::<FeedId>().is_ok_and(|id| id.as_str() == text) || text.parse::<FeedId>().is_err());
    assert!(text.parse::<GiftId>().is_ok_and(|id| id.as_str() == text) || text.parse::<GiftId>().is_err());
    assert!(
        text.parse::<Position>().is_ok_and(|it| it.to_string().len() <= text.len())
            || text.parse::<Position>().is_err()
    );
    let _ = (text.parse::<RowId>(), text.parse::<Cursor>(), Millis::parse(text));
    let _ = (text.parse::<TraceParent>(), TraceState::read([text].into_iter()));
}

/// Paths: parameters are decoded once.
pub fn path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for (name, value) in fuzzed::route(text).into_iter().flatten() {
        assert!(!name.is_empty() && value.len() <= text.len());
    }
}

/// Queries of watchers and readers.
pub fn query(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = fuzzed::queries(text);
    }
}

/// Lines `name: value`, as the headers of a delivery to a source and of a signed request.
struct Lines<'a>(&'a str);

impl Headers for Lines<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .split('\n')
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

/// Headers that hold signatures: never panics, and what nobody signed is refused.
pub fn signatures(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let headers = Lines(text);
    let hmac = |encoding, prefix: &str| Scheme::Hmac {
        header: "x-signature".into(),
        encoding,
        prefix: prefix.into(),
    };
    let schemes = [
        hmac(Encoding::Hex, "sha256="),
        hmac(Encoding::Base64, ""),
        Scheme::StandardWebhooks,
        Scheme::Stripe,
        Scheme::Twitch,
    ];
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    for scheme in schemes {
        assert!(sources::verify::check(&scheme, secret, &headers, b"{}", NOW).is_err(), "nobody signed it");
    }
    let get = |name| headers.get(name).unwrap_or_default();
    let (id, time, sent) = (get("webhook-id"), get("webhook-timestamp"), get("webhook-signature"));
    for key in [Some(KEY.clone()), None] {
        if let Ok(request) = SignedRequest::read(key, id, time, sent, NOW) {
            assert!(request.verify(b"{}").is_err(), "nobody signed it");
        }
    }
}

/// The key that signed requests name.
static KEY: LazyLock<Arc<Key>> = LazyLock::new(|| {
    let (may, secret) = (["gifts".to_owned()], Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    let spec = KeySpec { name: "game", secret, may: &may, signed: true, ..KeySpec::default() };
    Arc::new(Key::parse(spec).expect("it is a key"))
});

/// Deliveries of platforms as anybody may send them: never panics, and what is taken is a gift.
pub fn source(data: &[u8]) {
    let source = "fuzz".parse().expect("a name");
    let owner = Owner { source: &source, salt: "salt" };
    for preset in preset::all() {
        let Some(settings) = Settings::of_preset(&preset.name) else { continue };
        let Ok(Event::Gift { gift, post }) = sources::sample(&settings, owner, data) else { continue };
        assert!(gift.value.as_ref().is_none_or(|value| value.amount < 1 << 53));
        assert!((1..=64).contains(&gift.user.id.len()) && (1..=1_000_000).contains(&gift.count));
        let again = sources::map::parse(&post).expect("the post of a gift");
        assert_eq!((again.id, again.fingerprint), (gift.id, gift.fingerprint));
    }
}

const SECRET: &str = "a secret of the fuzzer, longer than it must be";

static SIGNS: LazyLock<(Verifier, Minter)> = LazyLock::new(|| {
    let mut verifier =
        Verifier::new(TokenRules { leeway_ms: 5_000, max_age_ms: 86_400_000, ..TokenRules::default() });
    verifier.add_secret(SECRET).expect("it is long enough");
    (verifier, Minter::secret(SECRET))
});

/// Viewers' tokens: what nobody signed is never good, and what is good keeps to the rules. The first line is a token as it
/// comes; the second and third are a head and claims, which are signed here.
pub fn token(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (verifier, minter) = &*SIGNS;
    let mut lines = text.split('\n');
    let mut next = || lines.next().unwrap_or_default();
    let (raw, head, claims) = (next(), next(), next());
    assert!(verifier.check(raw, NOW).is_err(), "nobody signed it");
    if let Ok(viewer) = minter
        .sign_parts(head, claims)
        .map_err(drop)
        .and_then(|token| verifier.check(&token, NOW).map_err(drop))
    {
        assert!(viewer.ends_at > NOW && viewer.issued_at <= NOW.plus(5_000));
        assert!(viewer.ends_at.since(viewer.issued_at) <= 86_400_000 + 5_000);
        assert!(viewer.sub.as_ref().is_none_or(|sub| (1..=64).contains(&sub.len())));
        assert!(!viewer.may_hold || (viewer.may_watch && viewer.sub.is_some()));
        assert!(!viewer.feeds.covers("*") || viewer.feeds.is_everything());
    }
}
