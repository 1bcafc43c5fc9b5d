//! Key sets (JWKS, RFC 7517), from a file or fetched from an address by a loop of its own.
//!
//! Requests never wait for the loop: they find what it fetched last, or are answered to come back.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use tokio::sync::Notify;

use super::crypto::{fits, install};
use crate::domain::Millis;
use crate::outbound;
use crate::supervise::{Part, Parts, faults};

/// Bytes of a key set at most.
const MAX_KEY_SET_BYTES: usize = 256 << 10;

/// Keys of a set that are kept, of those that can be used here.
const KEYS_MOST: usize = 64;

/// How often a set is fetched.
const FETCH_INTERVAL: Duration = Duration::from_secs(600);

/// How soon it is fetched again for a key that is not known, and while there is none at all.
const AT_MOST_EVERY: Duration = Duration::from_secs(10);

/// How soon the first tries follow each other, doubled each time up to [`AT_MOST_EVERY`].
const FIRST_TRIES: Duration = Duration::from_secs(1);

/// How long a fetch may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a set that was good is used while no newer one can be had, in milliseconds.
const GOOD_FOR_MS: u64 = 86_400_000;

/// When a client is to come back that came before there were keys, in seconds.
const RETRY_S: u32 = 2;

/// Public keys with their names.
pub struct KeySet(Vec<Named>);

struct Named {
    kid: Option<String>,
    algorithm: Option<Algorithm>,
    key: Arc<DecodingKey>,
}

/// What was found.
pub enum Lookup {
    /// The key to check with.
    Key(Arc<DecodingKey>),
    /// There is no such key.
    Unknown,
    /// There are no keys; holds after how many seconds to try again.
    Unavailable(u32),
}

impl KeySet {
    /// Reads a JWKS. Keys that are not for signatures of tokens are left out; the error is that none is left.
    pub fn parse(text: &[u8]) -> Result<KeySet, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<serde_json::Value>,
        }
        install();
        let set: Set = serde_json::from_slice(text)
            .map_err(|_| "it is no JSON Web Key Set: {\"keys\": [...]}".to_owned())?;
        let read = |value| read_key(serde_json::from_value::<Jwk>(value).ok()?);
        let keys: Vec<Named> = set.keys.into_iter().filter_map(read).take(KEYS_MOST).collect();
        match keys.is_empty() {
            true => Err("it holds no public key for signatures by RS256, PS256, ES256 or EdDSA".to_owned()),
            false => Ok(KeySet(keys)),
        }
    }

    /// The key that a token names, by its name and its algorithm: several keys may have one name. A token need not name the only key.
    pub fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Lookup {
        let named = kid.filter(|_| self.0.iter().any(|key| key.kid.is_some()));
        let mut found = self.0.iter().filter(|key| {
            named.is_none_or(|kid| key.kid.as_deref() == Some(kid))
                && key.algorithm.is_none_or(|its| its == algorithm)
                && fits(algorithm, key.key.family())
        });
        match found.next() {
            Some(key) if named.is_some() || self.0.len() == 1 => Lookup::Key(key.key.clone()),
            _ => Lookup::Unknown,
        }
    }
}

fn read_key(jwk: Jwk) -> Option<Named> {
    let common = &jwk.common;
    let for_signatures = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
    let verifies = common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
    // Secrets (oct) do not belong into a set: HS256 is only for those of the configuration.
    let curve = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => true,
        AlgorithmParameters::EllipticCurve(key) => key.curve == EllipticCurve::P256,
        AlgorithmParameters::OctetKeyPair(key) => key.curve == EllipticCurve::Ed25519,
        _ => false,
    };
    if !(for_signatures && verifies && curve) {
        return None;
    }
    let algorithm = match common.key_algorithm {
        None => None,
        Some(its) => match Algorithm::try_from(its).ok()? {
            its @ (Algorithm::RS256 | Algorithm::PS256 | Algorithm::ES256 | Algorithm::EdDSA) => Some(its),
            _ => return None,
        },
    };
    let key = Arc::new(DecodingKey::from_jwk(&jwk).ok()?);
    Some(Named { kid: common.key_id.clone(), algorithm, key })
}

/// A key set that a loop keeps fetching until this is dropped.
pub struct Fetched {
    url: String,
    state: Arc<KeySetState>,
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

#[derive(Default)]
struct KeySetState {
    keys: ArcSwapOption<KeySet>,
    /// When it was fetched, in milliseconds since 1970.
    fetched_at: AtomicI64,
    /// A token named a key that is not there.
    wanted: Notify,
}

impl Fetched {
    /// Starts the loop, which is one of `parts`. Needs a tokio runtime.
    pub fn start(url: &str, parts: &Arc<Parts>) -> Result<Arc<Fetched>, String> {
        let client =
            outbound::client(|builder| builder.timeout(FETCH_TIMEOUT)).map_err(|error| error.to_string())?;
        let state = Arc::new(KeySetState::default());
        let (from, to) = (url.to_owned(), state.clone());
        let run = move |_| keep_fetching(client.clone(), from.clone(), to.clone());
        let task = tokio::spawn(parts.clone().keep(Part::KeySet, run));
        Ok(Arc::new(Fetched { url: url.to_owned(), state, task: Mutex::new(Some(task)) }))
    }

    /// Where it comes from.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The key that a token names. One that is not known is asked for, for those who come later.
    pub fn find(&self, kid: Option<&str>, algorithm: Algorithm, now: Millis) -> Lookup {
        let Some(keys) = &*self.state.keys.load() else { return Lookup::Unavailable(RETRY_S) };
        if now.since(Millis(self.state.fetched_at.load(Ordering::Relaxed))) > GOOD_FOR_MS {
            return Lookup::Unavailable(RETRY_S);
        }
        let found = keys.find(kid, algorithm);
        if matches!(found, Lookup::Unknown) {
            self.state.wanted.notify_one();
        }
        found
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

async fn keep_fetching(client: reqwest::Client, url: String, state: Arc<KeySetState>) {
    let mut pause = FIRST_TRIES;
    let mut failing = false;
    loop {
        let begun = tokio::time::Instant::now();
        faults::pass("key_set").await;
        match fetch(&client, &url).await {
            Ok(keys) => {
                if failing || state.keys.load().is_none() {
                    tracing::info!(keys = keys.0.len(), "the key set for tokens is here");
                }
                state.keys.store(Some(Arc::new(keys)));
                state.fetched_at.store(Millis::now().0, Ordering::Relaxed);
                failing = false;
                tokio::time::sleep(AT_MOST_EVERY).await;
                // Requests that came meanwhile for an unknown key are answered now; else in some minutes.
                let _ = tokio::time::timeout(FETCH_INTERVAL - AT_MOST_EVERY, state.wanted.notified()).await;
                pause = FIRST_TRIES;
            }
            Err(why) => {
                if !failing {
                    let kept = if state.keys.load().is_some() {
                        "the last one stays in use for a day"
                    } else {
                        "tokens are answered 503"
                    };
                    tracing::warn!(%why, "the key set for tokens ([auth.tokens] jwks_url) cannot be had; {kept}");
                }
                failing = true;
                // From one try to the next, however long it took to fail.
                let earliest = tokio::time::Instant::now() + FIRST_TRIES;
                tokio::time::sleep_until(earliest.max(begun + pause)).await;
                pause = (pause * 2).min(AT_MOST_EVERY);
            }
        }
    }
}

async fn fetch(client: &reqwest::Client, url: &str) -> Result<KeySet, String> {
    let read = async {
        let answer = client.get(url).header("accept", "application/json").send().await?;
        let (mut body, mut answer) = (Vec::new(), answer.error_for_status()?);
        while let Some(chunk) = answer.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_KEY_SET_BYTES {
                break;
            }
        }
        Ok::<_, reqwest::Error>(body)
    };
    let body =
        tokio::time::timeout(FETCH_TIMEOUT, read).await.map_err(|_| "it did not come in time".to_owned())?;
    let body = body.map_err(|error| error.without_url().to_string())?;
    if body.len() > MAX_KEY_SET_BYTES {
        return Err(format!("it is longer than {MAX_KEY_SET_BYTES} bytes"));
    }
    KeySet::parse(&body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_chosen_by_its_name_and_its_algorithm() {
        let set: serde_json::Value =
            serde_json::from_slice(include_bytes!("token/testdata/jwks.json")).unwrap();
        let of_kind = |kind: &str| {
            set["keys"].as_array().unwrap().iter().find(|key| key["kty"] == kind).unwrap().clone()
        };
        let named = |kind: &str, algorithm: &str, kid: &str| {
            let mut key = of_kind(kind);
            (key["alg"], key["kid"]) = (algorithm.into(), kid.into());
            key
        };
        let find = |keys: Vec<serde_json::Value>, kid: Option<&str>, algorithm| {
            let set = KeySet::parse(serde_json::json!({ "keys": keys }).to_string().as_bytes()).unwrap();
            matches!(set.find(kid, algorithm), Lookup::Key(_))
        };
        let both = vec![named("RSA", "RS256", "a"), named("RSA", "PS256", "a"), named("OKP", "EdDSA", "a")];
        for algorithm in [Algorithm::RS256, Algorithm::PS256, Algorithm::EdDSA] {
            assert!(find(both.clone(), Some("a"), algorithm), "{algorithm:?}");
            assert!(!find(both.clone(), None, algorithm), "{algorithm:?}: none is named");
            assert!(!find(both.clone(), Some("b"), algorithm), "{algorithm:?}");
        }
        assert!(!find(both, Some("a"), Algorithm::ES256));
        // What cannot be used here takes no place.
        let mut long: Vec<_> = (0..KEYS_MOST)
            .map(|n| serde_json::json!({"kty": "oct", "k": "c2VjcmV0", "kid": n.to_string()}))
            .collect();
        long.push(named("OKP", "EdDSA", "last"));
        assert!(find(long, Some("last"), Algorithm::EdDSA));
    }

    #[test]
    fn a_set_that_cannot_be_fetched_again_is_used_for_a_day() {
        let keys = KeySet::parse(include_bytes!("token/testdata/jwks.json")).unwrap();
        let state = Arc::new(KeySetState::default());
        let fetched = Fetched { url: String::new(), state: state.clone(), task: Mutex::default() };
        let at = Millis(1_800_000_000_000);
        let find = |ms| fetched.find(Some("ed"), Algorithm::EdDSA, at.plus(ms));
        assert!(matches!(find(0), Lookup::Unavailable(_)), "there was none yet");
        state.keys.store(Some(Arc::new(keys)));
        state.fetched_at.store(at.0, Ordering::Relaxed);
        assert!(matches!(find(GOOD_FOR_MS), Lookup::Key(_)));
        assert!(matches!(find(GOOD_FOR_MS + 1), Lookup::Unavailable(_)));
        assert!(matches!(fetched.find(Some("ed"), Algorithm::RS256, at), Lookup::Unknown), "of another kind");
    }
}
