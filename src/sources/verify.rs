//! Who sent a delivery: signatures over the raw body and tokens inside it, compared in constant time.

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use serde::Deserialize;
use subtle::ConstantTimeEq;

use super::body::Node;
use super::{Event, Refusal};
use crate::domain::Millis;
use crate::domain::hashing::{hmac_sha256, sha256};
use crate::domain::hook_spec::secret_key;

/// How far a signed time may be from now, in milliseconds: Stripe and Standard Webhooks.
pub const TOLERANCE_MS: i64 = 300_000;

/// The same for Twitch, in milliseconds.
pub const TWITCH_TOLERANCE_MS: i64 = 600_000;

/// The headers of a request.
pub trait Headers {
    /// The value of the first header of this name (lower case), if it is text.
    fn get(&self, name: &str) -> Option<&str>;
}

/// How a signature is spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Hexadecimal, in either case.
    #[default]
    Hex,
    /// Base64 with the standard alphabet and padding.
    Base64,
}

/// How a platform shows that a delivery is its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "scheme", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Scheme {
    /// One header holds the HMAC-SHA256 of the body.
    #[serde(rename = "hmac-sha256")]
    Hmac {
        /// The header's name, in lower case.
        header: String,
        /// How it is spelled.
        #[serde(default)]
        encoding: Encoding,
        /// Its prefix, such as `sha256=`.
        #[serde(default)]
        prefix: String,
    },
    /// The body holds a secret as plain text.
    BodyToken {
        /// Where.
        pointer: String,
    },
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp`, `webhook-signature`.
    StandardWebhooks,
    /// `Stripe-Signature: t=…,v1=…[,v1=…]` over `t.body`, at most five minutes from now.
    Stripe,
    /// Twitch EventSub: `sha256=` over message id, timestamp and body, at most ten minutes from now; and its
    /// handshake, see [`twitch_handshake`].
    Twitch,
}

impl Scheme {
    /// The headers that the signature covers beside the body, in lower case.
    pub fn signed_headers(&self) -> &'static [&'static str] {
        match self {
            Scheme::Hmac { .. } | Scheme::BodyToken { .. } | Scheme::Stripe => &[],
            Scheme::StandardWebhooks => &["webhook-id", "webhook-timestamp"],
            Scheme::Twitch => &["twitch-eventsub-message-id", "twitch-eventsub-message-timestamp"],
        }
    }
}

/// Judges the signature of a delivery. A token inside the body is judged by [`check_token`].
pub fn check(
    scheme: &Scheme,
    credential: &str,
    headers: &dyn Headers,
    body: &[u8],
    now: Millis,
) -> Result<(), Refusal> {
    let header =
        |name: &str| headers.get(name).ok_or_else(|| refused(format!("the header {name} is missing")));
    match scheme {
        Scheme::BodyToken { .. } => Ok(()),
        Scheme::Hmac { header: name, encoding, prefix } => {
            let sent = header(name)?;
            let sent = sent.strip_prefix(prefix.as_str());
            let sent =
                sent.ok_or_else(|| refused(format!("the header {name} does not begin with {prefix}")))?;
            let decoded = match encoding {
                Encoding::Hex => unhex(sent),
                Encoding::Base64 => BASE64.decode(sent.as_bytes()).ok(),
            };
            fits(credential.as_bytes(), &[body], &[decoded])
        }
        Scheme::StandardWebhooks => {
            let (id, time, sent) =
                (header("webhook-id")?, header("webhook-timestamp")?, header("webhook-signature")?);
            let seconds =
                time.parse::<i64>().map_err(|_| refused("webhook-timestamp is no number of seconds"))?;
            near(now, seconds.saturating_mul(1_000), TOLERANCE_MS)?;
            let Some(key) = secret_key(credential) else {
                return Err(refused("the source's secret is not whsec_ and base64; set it again"));
            };
            let signatures = sent.split(' ').filter_map(|one| one.strip_prefix("v1,"));
            let signatures: Vec<_> = signatures.map(|one| BASE64.decode(one.as_bytes()).ok()).collect();
            fits(&key, &[id.as_bytes(), b".", time.as_bytes(), b".", body], &signatures)
        }
        Scheme::Stripe => {
            let parts: Vec<_> = header("stripe-signature")?
                .split(',')
                .filter_map(|part| part.trim().split_once('='))
                .collect();
            let Some((_, time)) = parts.iter().find(|(name, _)| *name == "t") else {
                return Err(refused("stripe-signature holds no t="));
            };
            let seconds = time.parse::<i64>().map_err(|_| refused("t= is no number of seconds"))?;
            near(now, seconds.saturating_mul(1_000), TOLERANCE_MS)?;
            // Several while a secret is being replaced: any of them is enough.
            let signatures: Vec<_> =
                parts.iter().filter(|(name, _)| *name == "v1").map(|(_, hex)| unhex(hex)).collect();
            fits(credential.as_bytes(), &[time.as_bytes(), b".", body], &signatures)
        }
        Scheme::Twitch => {
            let id = header("twitch-eventsub-message-id")?;
            let time = header("twitch-eventsub-message-timestamp")?;
            let sent = header("twitch-eventsub-message-signature")?;
            let at = Millis::parse(time);
            let at = at.ok_or_else(|| refused("twitch-eventsub-message-timestamp is no RFC 3339 time"))?;
            near(now, at.0, TWITCH_TOLERANCE_MS)?;
            let signature = sent.strip_prefix("sha256=").and_then(unhex);
            fits(credential.as_bytes(), &[id.as_bytes(), time.as_bytes(), body], &[signature])
        }
    }
}

/// Judges a token inside the body.
pub fn check_token(pointer: &str, credential: &str, root: Node<'_>) -> Result<(), Refusal> {
    let Some(sent) = root.at(pointer).and_then(Node::text) else {
        return Err(refused(format!("the body holds no token at {pointer}")));
    };
    // Hashes have one length, so the time shows nothing of the token's.
    let same = sha256(sent).ct_eq(&sha256(credential));
    match bool::from(same) {
        true => Ok(()),
        false => Err(refused("the token is not this source's; copy it from the platform again")),
    }
}

/// What Twitch asks before it sends anything, and says when it stops. `None` for a notification.
///
/// Twitch does not sign the header that names the type of a message, so the signed body decides: a notification with
/// another type in its header must not look like a revocation. A type that is not known is never a notification.
pub fn twitch_handshake(headers: &dyn Headers, root: Node<'_>) -> Result<Option<Event>, Refusal> {
    let kind = headers.get("twitch-eventsub-message-type");
    if !matches!(kind, Some("notification" | "webhook_callback_verification" | "revocation")) {
        return Ok(Some(Event::Ignored("a message of Twitch of a type that is not known".into())));
    }
    let text = |pointer: &str| root.at(pointer).and_then(Node::text);
    if root.at("/event").is_some() {
        return Ok(None);
    }
    if let Some(challenge) = text("/challenge") {
        return Ok(Some(Event::Challenge(challenge)));
    }
    match text("/subscription/status").filter(|status| status != "enabled") {
        Some(why) => {
            let what = text("/subscription/type").unwrap_or_else(|| "a subscription".into());
            Ok(Some(Event::Revoked(format!("Twitch revoked {what}: {why}; subscribe again"))))
        }
        None if kind == Some("webhook_callback_verification") => {
            Err(Refusal::Unreadable("the body holds no challenge".into()))
        }
        None => Ok(Some(Event::Ignored("a message of Twitch without an event".into()))),
    }
}

/// Whether any of `signatures` is the HMAC-SHA256 of `parts`, one after the other.
fn fits(key: &[u8], parts: &[&[u8]], signatures: &[Option<Vec<u8>>]) -> Result<(), Refusal> {
    let wanted = hmac_sha256(key, parts);
    let good = |signature: &Option<Vec<u8>>| {
        signature.as_ref().is_some_and(|signature| signature[..].ct_eq(&wanted).into())
    };
    // All of them are looked at, whichever fits.
    match signatures.iter().filter(|signature| good(signature)).count() {
        0 => {
            Err(refused("the signature does not fit the body; is the secret the one that the platform has?"))
        }
        _ => Ok(()),
    }
}

fn near(now: Millis, at: i64, tolerance: i64) -> Result<(), Refusal> {
    match now.0.saturating_sub(at).unsigned_abs() <= tolerance.unsigned_abs() {
        true => Ok(()),
        false => Err(refused(format!(
            "the signed time {} is more than {} s from now; a replayed delivery, or a clock that is wrong",
            Millis(at.clamp(0, Millis::MAX.0)),
            tolerance / 1_000
        ))),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

fn refused(why: impl Into<String>) -> Refusal {
    Refusal::Unverified(why.into())
}
