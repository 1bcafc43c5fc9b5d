//! Requests signed as Standard Webhooks (standardwebhooks.com): the key never travels, only a signature over
//! the request's id, its time and its body does. Deliveries to webhooks are signed in the same way.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::domain::Millis;

/// How far a request's time may be from ours, in milliseconds.
pub const TOLERANCE_MS: u64 = 300_000;

/// What the headers of a signed request say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// `webhook-id`
    pub id: String,
    /// `webhook-timestamp`, as it stands there, since it is part of what is signed.
    timestamp: String,
    /// `webhook-signature`: one or several of `v1,BASE64`.
    signatures: String,
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
                "no signature of webhook-signature is right; sign id.timestamp.body with the key's secret, byte for \
                 byte as it is sent"
            }
        }
    }
}

impl Claimed {
    /// From the headers' values, if its time is near enough to `now`.
    pub fn read(id: &str, timestamp: &str, signatures: &str, now: Millis) -> Result<Claimed, Unsigned> {
        let fits = (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic() && b != b'.');
        // Digits only: "+5" and " 5" are other texts with the same number.
        let digits = !timestamp.is_empty() && timestamp.bytes().all(|b| b.is_ascii_digit());
        let at = timestamp.parse::<i64>().ok().filter(|_| fits && digits).ok_or(Unsigned::Malformed)?;
        let at = Millis(at.saturating_mul(1_000));
        if now.since(at).max(at.since(now)) > TOLERANCE_MS {
            return Err(Unsigned::Stale);
        }
        Ok(Claimed { id: id.to_owned(), timestamp: timestamp.to_owned(), signatures: signatures.to_owned() })
    }

    /// Whether one of the signatures is right for `body` under `secret`.
    pub fn verify(&self, secret: &[u8], body: &[u8]) -> Result<(), Unsigned> {
        let right = self.signatures.split(' ').any(|one| {
            let signature = one.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return false };
            mac.update(self.id.as_bytes());
            mac.update(b".");
            mac.update(self.timestamp.as_bytes());
            mac.update(b".");
            mac.update(body);
            // In constant time.
            signature.is_some_and(|signature| mac.verify_slice(&signature).is_ok())
        });
        if right { Ok(()) } else { Err(Unsigned::Wrong) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::hook_spec::secret_key;

    const NOW: Millis = Millis(1_614_265_330_000);
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    fn secret() -> Vec<u8> {
        secret_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()
    }

    /// The example of the specification's reference libraries.
    #[test]
    fn the_known_example_is_right_and_anything_changed_in_it_is_wrong() {
        for signatures in [SIGNATURE.to_owned(), format!("v1,AAAA {SIGNATURE}"), format!("v1a,x {SIGNATURE}")]
        {
            let read = Claimed::read(ID, "1614265330", &signatures, NOW).unwrap();
            assert_eq!(read.verify(&secret(), BODY), Ok(()), "{signatures}");
        }
        let read = Claimed::read(ID, "1614265330", SIGNATURE, NOW).unwrap();
        assert_eq!(read.verify(&secret(), b"{}"), Err(Unsigned::Wrong));
        assert_eq!(read.verify(&[0; 32], BODY), Err(Unsigned::Wrong));
        for (id, time, signatures) in [
            ("msg_other", "1614265330", SIGNATURE),
            (ID, "1614265331", SIGNATURE),
            (ID, "1614265330", ""),
            (ID, "1614265330", &SIGNATURE[3..]),
            (ID, "1614265330", &SIGNATURE[..SIGNATURE.len() - 1]),
        ] {
            let read = Claimed::read(id, time, signatures, NOW).unwrap();
            assert_eq!(read.verify(&secret(), BODY), Err(Unsigned::Wrong), "{id} {time} {signatures}");
        }
    }

    #[test]
    fn a_request_is_good_for_five_minutes_on_either_side() {
        let at = |ms: i64| Claimed::read(ID, "1614265330", SIGNATURE, Millis(NOW.0 + ms)).map(|_| ());
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
            assert_eq!(Claimed::read(id, time, SIGNATURE, NOW), Err(Unsigned::Malformed), "{id} {time}");
        }
    }
}
