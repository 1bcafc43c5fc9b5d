//! Viewer tokens (JWT): judged without I/O, by keys that are there already.
//!
//! Signatures are checked by `jsonwebtoken` over `ring` (`super::crypto`); claims are read and judged here (`claims`),
//! since the time to judge by is an argument and what is required is more than the crate knows.

use std::sync::Arc;

use jsonwebtoken::{Algorithm, DecodingKey};

use super::hash::KeyHash;
use super::keyset::{Fetched, KeySet, Lookup};
use super::rights::Scope;
use crate::domain::Millis;

mod claims;
pub mod mint;
#[cfg(test)]
mod tests;

use super::crypto::{self, fits, install};
use claims::{Claims, TokenHeader};

/// Bytes of a token at most. It travels in headers and addresses, which proxies bound at 4 to 8 KiB.
pub const MAX_TOKEN_BYTES: usize = 3_500;

/// The least bytes of a secret for HS256 (RFC 7518, 3.2).
const SECRET_LEAST: usize = 32;

/// Feeds that one token may list.
const FEEDS_MOST: usize = 256;

/// Why a token is refused. The sender gets the reason, which says nothing of keys or other viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadToken {
    /// Tokens are not set up.
    NotConfigured,
    /// Longer than [`MAX_TOKEN_BYTES`].
    TooLong,
    /// Not three parts of base64 with JSON in the first two, or a claim of a wrong type.
    Malformed,
    /// A `typ` that is no JWT, or extensions that must be understood.
    Head,
    /// An algorithm that tokens may not have, or for which there is no key.
    Algorithm,
    /// No key of that name, or no signature that is right.
    Signature,
    /// There has been no key set yet, or none for too long; holds after how many seconds to try again.
    KeysUnavailable(u32),
    /// `exp` or `iat` is missing.
    NoTimes,
    /// It has expired.
    Expired,
    /// `nbf` or `iat` is in the future.
    NotYet,
    /// It would live for longer than tokens may.
    TooLongLived,
    /// Another issuer.
    Issuer,
    /// For somebody else.
    Audience,
    /// `sub` is empty or too long, or missing where it is needed.
    Subject,
    /// `feeds` holds what is no feed, or too many.
    Feeds,
    /// Tokens of this viewer were revoked.
    Revoked,
    /// Nobody has said yet whose tokens are revoked.
    RevocationsUnknown,
}

impl BadToken {
    /// What its sender should know.
    pub fn detail(self) -> &'static str {
        match self {
            BadToken::NotConfigured => "this server takes no tokens; the operator sets [auth.tokens]",
            BadToken::TooLong => {
                "the token is longer than 3500 bytes; name feeds by their beginning (\"show-*\")"
            }
            BadToken::Malformed => "the token is no JWT, or a claim has a wrong type or stands there twice",
            BadToken::Head => "the token's head is not that of a JWT (typ, crit)",
            BadToken::Algorithm => {
                "the token's algorithm is not accepted; sign with HS256, RS256, PS256, ES256 or EdDSA, with a key that \
                 the server has"
            }
            BadToken::Signature => "the token's signature is not of a key that the server has",
            BadToken::KeysUnavailable(_) => "the keys for tokens are not there yet; try again",
            BadToken::NoTimes => "the token needs exp and iat",
            BadToken::Expired => "the token has expired; get a new one",
            BadToken::NotYet => "the token is not valid yet (nbf, iat); are the clocks right?",
            BadToken::TooLongLived => "the token would live longer than the server allows; make exp earlier",
            BadToken::Issuer => "the token is of another issuer (iss)",
            BadToken::Audience => "the token is for somebody else (aud)",
            BadToken::Subject => "the token's sub must be 1 to 64 bytes, and be there when it may hold",
            BadToken::Feeds => {
                "the token's feeds must be at most 256 names or beginnings of names, as in \"show-*\""
            }
            BadToken::Revoked => "the token was revoked; sign in again",
            BadToken::RevocationsUnknown => "which tokens are revoked is not known yet; try again",
        }
    }
}

/// What a good token says about its bearer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Viewer {
    /// Who it is.
    pub sub: Option<Box<str>>,
    /// The feeds that it is for.
    pub feeds: Scope,
    /// Whether it may read and watch them.
    pub may_watch: bool,
    /// Whether it may hold drops for itself.
    pub may_hold: bool,
    /// When it was issued: what was revoked is older.
    pub issued_at: Millis,
    /// When it expires. Of one that was accepted by the clocks' leeway, the end of that.
    pub ends_at: Millis,
}

impl Viewer {
    /// What its requests are counted as.
    pub fn id(&self) -> KeyHash {
        KeyHash::of(self.sub.as_deref().unwrap_or_default())
    }

    /// Whether it may read and watch this feed.
    pub fn may_see(&self, feed: &str) -> bool {
        self.may_watch && self.feeds.covers(feed)
    }

    /// Whether it may hold drops of this feed.
    pub fn may_hold_in(&self, feed: &str) -> bool {
        self.may_hold && self.feeds.covers(feed)
    }
}

/// `[auth.tokens]`, but for where keys come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRules {
    /// What `iss` must be.
    pub issuer: Option<Box<str>>,
    /// What `aud` must name.
    pub audience: Option<Box<str>>,
    /// How far clocks may differ, in milliseconds.
    pub leeway_ms: u64,
    /// How long a token may live, in milliseconds.
    pub max_age_ms: u64,
}

/// Judges tokens. Without any keys it knows none.
#[derive(Clone, Default)]
pub struct Verifier {
    rules: TokenRules,
    secrets: Vec<DecodingKey>,
    public: Vec<DecodingKey>,
    /// Keys of a file.
    local: Option<Arc<KeySet>>,
    /// Keys that a loop of its own fetches.
    fetched: Option<Arc<Fetched>>,
}

impl Verifier {
    /// One that takes no token yet.
    pub fn new(rules: TokenRules) -> Verifier {
        install();
        Verifier { rules, ..Verifier::default() }
    }

    /// Takes tokens signed by HS256 with this secret. The error says what would be right.
    pub fn add_secret(&mut self, secret: &str) -> Result<(), String> {
        if secret.len() < SECRET_LEAST {
            return Err(format!(
                "is shorter than {SECRET_LEAST} characters; `openssl rand -hex 32` prints a good one"
            ));
        }
        self.secrets.push(DecodingKey::from_secret(secret.as_bytes()));
        Ok(())
    }

    /// Takes tokens signed with the private half of this key, a PEM file's content.
    pub fn add_public_pem(&mut self, pem: &[u8]) -> Result<(), String> {
        let key = crypto::public_pem(pem);
        self.public
            .push(key.map_err(|_| "is no public key of RSA, P-256 or Ed25519 in PEM (BEGIN PUBLIC KEY)")?);
        Ok(())
    }

    /// Takes tokens signed with the keys of a file.
    pub fn set_local(&mut self, set: Option<KeySet>) {
        self.local = set.map(Arc::new);
    }

    /// Takes tokens signed with keys that are fetched.
    pub fn set_fetched(&mut self, fetched: Option<Arc<Fetched>>) {
        self.fetched = fetched;
    }

    /// How long a token may live at most, clocks' leeway included, in milliseconds.
    pub fn tokens_live_ms(&self) -> u64 {
        self.rules.max_age_ms.saturating_add(self.rules.leeway_ms)
    }

    /// Whether any token can be good.
    pub fn is_on(&self) -> bool {
        !(self.secrets.is_empty() && self.public.is_empty()) || self.local.is_some() || self.fetched.is_some()
    }

    /// Judges a token at `now`. Revocations are not looked at.
    pub fn check(&self, token: &str, now: Millis) -> Result<Viewer, BadToken> {
        if !self.is_on() {
            return Err(BadToken::NotConfigured);
        }
        if token.len() > MAX_TOKEN_BYTES {
            return Err(BadToken::TooLong);
        }
        let mut parts = token.split('.');
        let (Some(head), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(BadToken::Malformed);
        };
        let head: TokenHeader = claims::read(head).ok_or(BadToken::Malformed)?;
        let signed = &token.as_bytes()[..token.len() - signature.len() - 1];
        self.check_signature(&head, signature, signed, now)?;
        self.judge(claims::read(claims).ok_or(BadToken::Malformed)?, now)
    }

    fn check_signature(
        &self,
        head: &TokenHeader,
        signature: &str,
        signed: &[u8],
        now: Millis,
    ) -> Result<(), BadToken> {
        let algorithm = head.algorithm()?;
        let right = |key: &DecodingKey| {
            fits(algorithm, key.family())
                && jsonwebtoken::crypto::verify(signature, signed, key, algorithm).unwrap_or(false)
        };
        if algorithm == Algorithm::HS256 {
            return match self.secrets.iter().any(right) {
                true => Ok(()),
                false if self.secrets.is_empty() => Err(BadToken::Algorithm),
                false => Err(BadToken::Signature),
            };
        }
        if self.public.iter().any(right) {
            return Ok(());
        }
        let kid = head.kid.as_deref();
        if let Some(Lookup::Key(key)) = self.local.as_ref().map(|set| set.find(kid, algorithm))
            && right(&key)
        {
            return Ok(());
        }
        match self.fetched.as_ref().map(|fetched| fetched.find(kid, algorithm, now)) {
            Some(Lookup::Key(key)) if right(&key) => Ok(()),
            Some(Lookup::Unavailable(seconds)) => Err(BadToken::KeysUnavailable(seconds)),
            _ => Err(BadToken::Signature),
        }
    }

    fn judge(&self, claims: Claims, now: Millis) -> Result<Viewer, BadToken> {
        let Claims { exp, iat, nbf, sub, iss, aud, feeds, may, .. } = claims;
        let (Some(exp), Some(iat)) = (exp, iat) else { return Err(BadToken::NoTimes) };
        let (exp, iat) = (exp.0, iat.0);
        let TokenRules { issuer, audience, leeway_ms, max_age_ms } = &self.rules;
        let late = now.plus(*leeway_ms);
        if exp.0.saturating_sub(iat.0) > i64::try_from(*max_age_ms).unwrap_or(i64::MAX) {
            return Err(BadToken::TooLongLived);
        }
        if iat > late || nbf.is_some_and(|nbf| nbf.0 > late) {
            return Err(BadToken::NotYet);
        }
        let ends_at = if exp > now { exp } else { exp.plus(*leeway_ms) };
        if ends_at <= now {
            return Err(BadToken::Expired);
        }
        if issuer.is_some() && iss.as_deref() != issuer.as_deref() {
            return Err(BadToken::Issuer);
        }
        if audience.as_deref().is_some_and(|wanted| !aud.is_some_and(|aud| aud.names(wanted))) {
            return Err(BadToken::Audience);
        }
        if sub.as_ref().is_some_and(|sub| !(1..=64).contains(&sub.len())) {
            return Err(BadToken::Subject);
        }
        let has = |word: &str| may.as_ref().is_some_and(|may| may.iter().any(|one| one == word));
        let may_hold = has("hold");
        if may_hold && sub.is_none() {
            return Err(BadToken::Subject);
        }
        let feeds = feeds.unwrap_or_default();
        let scope = Scope::parse(feeds.iter().map(String::as_str)).map_err(|_| BadToken::Feeds)?;
        if feeds.len() > FEEDS_MOST {
            return Err(BadToken::Feeds);
        }
        Ok(Viewer {
            sub: sub.map(String::into_boxed_str),
            feeds: scope,
            may_watch: may.is_none() || may_hold || has("watch"),
            may_hold,
            issued_at: iat,
            ends_at,
        })
    }
}
