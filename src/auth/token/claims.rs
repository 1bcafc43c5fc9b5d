//! What a token says, read strictly: a claim of a wrong type, or one that is there twice, makes it bad.

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::Algorithm;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::BadToken;
use crate::domain::Millis;

/// The head of a token, as far as it matters. `jku`, `x5u` and `jwk`, which name keys, are not looked at: which
/// keys hold is the operator's to say.
#[derive(Debug, Deserialize)]
pub(super) struct TokenHeader {
    alg: String,
    #[serde(default, deserialize_with = "present")]
    pub kid: Option<String>,
    #[serde(default, deserialize_with = "present")]
    typ: Option<String>,
    #[serde(default)]
    crit: Option<serde::de::IgnoredAny>,
}

/// The claims of a token.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    #[serde(default, deserialize_with = "present")]
    pub exp: Option<NumericDate>,
    #[serde(default, deserialize_with = "present")]
    pub iat: Option<NumericDate>,
    #[serde(default, deserialize_with = "present")]
    pub nbf: Option<NumericDate>,
    #[serde(default, deserialize_with = "present")]
    pub sub: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[allow(dead_code, reason = "its type is checked, and nothing else of it")]
    jti: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub iss: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub aud: Option<Audience>,
    #[serde(default, deserialize_with = "present")]
    pub feeds: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    pub may: Option<Vec<String>>,
}

/// One recipient, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    pub fn names(&self, audience: &str) -> bool {
        match self {
            Audience::One(one) => one == audience,
            Audience::Many(many) => many.iter().any(|one| one == audience),
        }
    }
}

/// A NumericDate (RFC 7519): seconds since 1970, perhaps with a fraction.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumericDate(pub Millis);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !seconds.is_finite() {
            return Err(D::Error::custom("no time"));
        }
        // What is beyond all time ends there; a token that lives so long is refused for it.
        Ok(NumericDate(Millis((seconds * 1_000.0) as i64)))
    }
}

/// A claim that is there is of its type: null is none.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl TokenHeader {
    /// The algorithm, if tokens may have it.
    pub fn algorithm(&self) -> Result<Algorithm, BadToken> {
        // Extensions that must be understood: none is here.
        if self.crit.is_some() {
            return Err(BadToken::Head);
        }
        let typ = self.typ.as_deref().unwrap_or("JWT").to_ascii_lowercase();
        if !matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt") {
            return Err(BadToken::Head);
        }
        match &*self.alg {
            "HS256" => Ok(Algorithm::HS256),
            "RS256" => Ok(Algorithm::RS256),
            "PS256" => Ok(Algorithm::PS256),
            "ES256" => Ok(Algorithm::ES256),
            "EdDSA" => Ok(Algorithm::EdDSA),
            _ => Err(BadToken::Algorithm),
        }
    }
}

/// One part of a token.
pub(super) fn read<T: DeserializeOwned>(part: &str) -> Option<T> {
    serde_json::from_slice(&BASE64URL_NOPAD.decode(part.as_bytes()).ok()?).ok()
}
