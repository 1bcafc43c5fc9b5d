//! Requests signed as Standard Webhooks (standardwebhooks.com): the key never travels, only a signature over
//! the request's id, its time and its body does. Deliveries to webhooks are signed in the same way.
//!
//! A sender names a key, and anybody may know the name. So until the signature is checked nothing depends on
//! whether there is such a key: its body is read and its HMAC is computed all the same, once.

use std::sync::Arc;

use data_encoding::{BASE64, HEXLOWER};
use subtle::ConstantTimeEq;

use super::Key;
use crate::domain::hashing::{hmac_sha256, sha256};
use crate::domain::{GiftId, Millis};

/// How far a request's time may be from ours, in milliseconds.
pub const TOLERANCE_MS: u64 = 300_000;

/// Signatures of one request that are read. A sender needs two while it changes its secret.
const SIGNATURES_MAX: usize = 8;

/// A request that says to be signed with the key of a name.
#[derive(Clone)]
pub struct SignedRequest {
    /// `webhook-id`
    pub id: String,
    /// `webhook-timestamp`, as it was sent, since it is part of what is signed.
    timestamp: String,
    /// What could be read of `webhook-signature`, one or several of `v1,BASE64`.
    signatures: Vec<[u8; 32]>,
    /// `None` if there is no such key.
    key: Option<Arc<Key>>,
}

/// Why a signed request is refused. A sentence for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsigned {
    /// A header is missing or makes no sense.
    Malformed,
    /// Its time is too far from ours.
    Stale,
    /// No signature is right.
    Wrong,
}

impl Unsigned {
    /// What is said to the sender.
    pub fn detail(self) -> &'static str {
        match self {
            Unsigned::Malformed => {
                "a signed request carries Tipcast-Key, webhook-id, webhook-timestamp (seconds) and webhook-signature \
                 (v1,BASE64), once each"
            }
            Unsigned::Stale => {
                "webhook-timestamp is more than 5 minutes from the server's clock; sign it again"
            }
            Unsigned::Wrong => {
                "no signature of webhook-signature is right, or there is no key of this name; sign id.timestamp.body with \
                 the key's secret, byte for byte as it is sent (8 signatures are read)"
            }
        }
    }
}

impl SignedRequest {
    /// From the headers' values, if its time is near enough to `now`. `key` is the key that it names, if there is one.
    pub fn read(
        key: Option<Arc<Key>>,
        id: &str,
        timestamp: &str,
        signatures: &str,
        now: Millis,
    ) -> Result<SignedRequest, Unsigned> {
        let fits = (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic() && b != b'.');
        // Digits only: "+5" and " 5" are other texts with the same number.
        let digits = !timestamp.is_empty() && timestamp.bytes().all(|b| b.is_ascii_digit());
        let at = timestamp.parse::<i64>().ok().filter(|_| fits && digits).ok_or(Unsigned::Malformed)?;
        let at = Millis(at.saturating_mul(1_000));
        if now.since(at).max(at.since(now)) > TOLERANCE_MS {
            return Err(Unsigned::Stale);
        }
        let signatures = signatures.split(' ').take(SIGNATURES_MAX);
        let read = |one: &str| BASE64.decode(one.strip_prefix("v1,")?.as_bytes()).ok()?.try_into().ok();
        let signatures = signatures.filter_map(read).collect();
        Ok(SignedRequest { id: id.to_owned(), timestamp: timestamp.to_owned(), signatures, key })
    }

    /// The key that it is signed with, if one of the signatures is right for `body`.
    pub fn verify(&self, body: &[u8]) -> Result<&Arc<Key>, Unsigned> {
        // A request that names no key takes as long.
        let secret = self.key.as_deref().and_then(Key::secret).unwrap_or(&[0; 32]);
        let parts = [self.id.as_bytes(), b".", self.timestamp.as_bytes(), b".", body];
        let wanted = hmac_sha256(secret, &parts);
        let right = self.signatures.iter().fold(false, |right, one| right | bool::from(one.ct_eq(&wanted)));
        self.key.as_ref().filter(|_| right).ok_or(Unsigned::Wrong)
    }

    /// What names this request among those of all keys: 32 hexadecimal digits, the same whenever it is sent again.
    pub fn identity(&self, key: &Key) -> String {
        // Neither part holds a space.
        HEXLOWER.encode(&sha256(format!("{} {}", key.name, self.id))[..16])
    }
}

/// The id of the gift at this place in a signed batch, where the batch names none: the same when it is sent again.
pub fn item_id(identity: &str, index: usize) -> Option<GiftId> {
    format!("{identity}-{index}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::keys::KeySpec;

    const NOW: Millis = Millis(1_614_265_330_000);
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    fn key(name: &str, secret: &str) -> Arc<Key> {
        let may = ["gifts".to_owned()];
        let spec = KeySpec { name, secret: Some(secret), may: &may, signed: true, ..KeySpec::default() };
        Arc::new(Key::parse(spec).unwrap())
    }

    fn ours() -> Option<Arc<Key>> {
        Some(key("game", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
    }

    /// Whether a request that was read is right.
    fn verify(request: &SignedRequest, body: &[u8]) -> Result<(), Unsigned> {
        request.verify(body).map(drop)
    }

    /// The example of the specification's reference libraries.
    #[test]
    fn the_known_example_is_right_and_anything_changed_in_it_is_wrong() {
        for signatures in [SIGNATURE.to_owned(), format!("v1,AAAA {SIGNATURE}"), format!("v1a,x {SIGNATURE}")]
        {
            let read = SignedRequest::read(ours(), ID, "1614265330", &signatures, NOW).unwrap();
            assert_eq!(*read.verify(BODY).unwrap().name, *"game", "{signatures}");
        }
        let read = SignedRequest::read(ours(), ID, "1614265330", SIGNATURE, NOW).unwrap();
        assert_eq!(verify(&read, b"{}"), Err(Unsigned::Wrong));
        let other = Some(key("other", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
        for key in [other, None] {
            let read = SignedRequest::read(key, ID, "1614265330", SIGNATURE, NOW).unwrap();
            assert_eq!(verify(&read, BODY), Err(Unsigned::Wrong));
        }
        for (id, time, signatures) in [
            ("msg_other", "1614265330", SIGNATURE),
            (ID, "1614265331", SIGNATURE),
            (ID, "1614265330", ""),
            (ID, "1614265330", &SIGNATURE[3..]),
            (ID, "1614265330", &SIGNATURE[..SIGNATURE.len() - 1]),
        ] {
            let read = SignedRequest::read(ours(), id, time, signatures, NOW).unwrap();
            assert_eq!(verify(&read, BODY), Err(Unsigned::Wrong), "{id} {time} {signatures}");
        }
    }

    #[test]
    fn eight_signatures_are_read_and_no_more() {
        let wrong = format!("v1,{} ", BASE64.encode(&[7; 32]));
        let eighth =
            SignedRequest::read(ours(), ID, "1614265330", &(wrong.repeat(7) + SIGNATURE), NOW).unwrap();
        assert_eq!((eighth.signatures.len(), verify(&eighth, BODY)), (8, Ok(())));
        let many =
            SignedRequest::read(ours(), ID, "1614265330", &(wrong.repeat(9_000) + SIGNATURE), NOW).unwrap();
        assert_eq!((many.signatures.len(), verify(&many, BODY)), (8, Err(Unsigned::Wrong)));
    }

    /// Knowing the secret of "no key" must prove nothing.
    #[test]
    fn a_request_that_names_no_key_is_wrong_however_it_is_signed() {
        let signed = format!("{ID}.1614265330.{{}}");
        let signature = format!("v1,{}", BASE64.encode(&hmac_sha256(&[0; 32], &[signed.as_bytes()])));
        let read = SignedRequest::read(None, ID, "1614265330", &signature, NOW).unwrap();
        assert_eq!(verify(&read, b"{}"), Err(Unsigned::Wrong));
    }

    #[test]
    fn a_request_has_its_own_identity_under_each_key_and_its_items_have_ids() {
        let read = |id: &str| SignedRequest::read(None, id, "1614265330", "", NOW).unwrap();
        let (game, other) = (ours().unwrap(), key("other", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
        let one = read("msg_1").identity(&game);
        assert!(one.len() == 32 && one.bytes().all(|b| b.is_ascii_hexdigit()), "{one}");
        assert_eq!(one, read("msg_1").identity(&game));
        assert_ne!(one, read("msg_1").identity(&other));
        assert_ne!(one, read("msg_2").identity(&game));
        assert_eq!(item_id(&one, 127).unwrap().as_str(), format!("{one}-127"));
    }

    #[test]
    fn a_request_is_good_for_five_minutes_on_either_side() {
        let read =
            |id: &str, time: &str, now: Millis| SignedRequest::read(None, id, time, SIGNATURE, now).map(drop);
        let at = |ms: i64| read(ID, "1614265330", Millis(NOW.0 + ms));
        for near in [0, 300_000, -300_000] {
            assert_eq!(at(near), Ok(()), "{near}");
        }
        for far in [300_001, -300_001, i64::MAX - NOW.0] {
            assert_eq!(at(far), Err(Unsigned::Stale), "{far}");
        }
        for (id, time) in [
            ("", "1"),
            ("a.b", "1"),
            ("a b", "1"),
            (ID, ""),
            (ID, "+1614265330"),
            (ID, "1614265330.5"),
            (ID, "-1"),
        ] {
            assert_eq!(read(id, time, NOW), Err(Unsigned::Malformed), "{id} {time}");
        }
    }
}
