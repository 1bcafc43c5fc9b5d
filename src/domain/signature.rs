//! Signatures of Standard Webhooks (standardwebhooks.com, version 1), each over `ID.TIMESTAMP.BODY` and in base64: `v1,`
//! and an HMAC-SHA256 for each secret that holds, `v1a,` and an Ed25519 signature of the installation's key.

use std::fmt;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::Millis;
use super::hashing::{hmac_sha256, sha256};
use super::hook_spec::secret_key;

/// Bytes of which an Ed25519 key is made.
const SEED_BYTES: usize = 32;

/// The key of an installation. Its public half is at `/.well-known/jwks.json`.
pub struct SigningKey(Ed25519KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.id())
    }
}

impl SigningKey {
    /// A new one as it is stored: base64 of `random` bytes.
    pub fn spell(random: &[u8; SEED_BYTES]) -> String {
        BASE64.encode(random)
    }

    /// Reads what [`SigningKey::spell`] wrote.
    pub fn read(stored: &str) -> Option<SigningKey> {
        let seed = BASE64.decode(stored.as_bytes()).ok()?;
        Ed25519KeyPair::from_seed_unchecked(&seed).ok().map(SigningKey)
    }

    /// The public half, in URL-safe base64 without padding.
    fn public(&self) -> String {
        BASE64URL_NOPAD.encode(self.0.public_key().as_ref())
    }

    /// The thumbprint of RFC 7638, which every program computes alike.
    fn id(&self) -> String {
        let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, self.public());
        BASE64URL_NOPAD.encode(&sha256(members))
    }

    /// The public half as a set of one key, as RFC 7517 and RFC 8037 spell it.
    pub fn key_set(&self) -> String {
        let (id, public) = (self.id(), self.public());
        format!(
            r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","use":"sig","alg":"EdDSA","kid":"{id}","x":"{public}"}}]}}"#
        )
    }
}

/// What a webhook's deliveries are signed with.
#[derive(Clone, Copy, Debug)]
pub struct Signers<'a> {
    /// The webhook's own secrets. One that cannot be read signs nothing.
    pub secrets: &'a [&'a str],
    /// The installation's, where there is one.
    pub key: Option<&'a SigningKey>,
}

impl Signers<'_> {
    /// The headers of a delivery that is sent `now`. `id` is the same for every attempt.
    pub fn headers(&self, id: &str, now: Millis, body: &[u8]) -> [(&'static str, String); 3] {
        let timestamp = now.0.div_euclid(1_000);
        [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", self.sign(id, timestamp, body)),
        ]
    }

    /// The value of `webhook-signature`.
    fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let signed = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
        let keys = self.secrets.iter().filter_map(|secret| secret_key(secret));
        let by_secret = keys.map(|key| ("v1", BASE64.encode(&hmac_sha256(&key, &[&signed]))));
        let by_key = self.key.map(|SigningKey(pair)| ("v1a", BASE64.encode(pair.sign(&signed).as_ref())));
        let signatures = by_secret.chain(by_key).map(|(version, signature)| format!("{version},{signature}"));
        signatures.collect::<Vec<_>>().join(" ")
    }
}

/// A new name for a batch, for `webhook-id`.
pub fn batch_name() -> String {
    format!("msg_{}", uuid::Uuid::now_v7().simple())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ED25519, UnparsedPublicKey};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The secret key of the first test of RFC 8032, section 7.1; RFC 8037, appendix A has it as a JWK.
    fn key() -> SigningKey {
        SigningKey::read("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=").unwrap()
    }

    fn sign(secrets: &[&str], id: &str, timestamp: i64, body: &[u8]) -> String {
        Signers { secrets, key: Some(&key()) }.sign(id, timestamp, body)
    }

    /// The example of the specification's reference libraries.
    #[test]
    fn the_known_example_is_signed_as_everywhere() {
        let body = br#"{"test": 2432232314}"#;
        let signed = sign(&[SECRET], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        let (by_secret, by_key) = signed.split_once(' ').unwrap();
        assert_eq!(by_secret, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let signature = BASE64.decode(by_key.strip_prefix("v1a,").unwrap().as_bytes()).unwrap();
        let signed = [b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.", &body[..]].concat();
        let public = BASE64URL_NOPAD.decode(key().public().as_bytes()).unwrap();
        assert_eq!(UnparsedPublicKey::new(&ED25519, public).verify(&signed, &signature), Ok(()));
    }

    #[test]
    fn a_key_is_published_and_named_as_the_standards_have_it() {
        let key = key();
        assert_eq!(key.public(), "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
        assert_eq!(key.id(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        let set: jsonwebtoken::jwk::JwkSet = serde_json::from_str(&key.key_set()).unwrap();
        assert!(set.find("kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k").is_some());
        assert_eq!(format!("{key:?}"), format!("SigningKey({})", key.id()));
        for bad in ["", "AAAA", "no base64"] {
            assert!(SigningKey::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn every_secret_gives_a_signature_and_a_broken_one_none() {
        let versions = |secrets: &[&str]| {
            let signed = sign(secrets, "a", 1, b"{}");
            signed.split(' ').map(|one| one.split_once(',').unwrap().0.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(versions(&[SECRET, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]), ["v1", "v1", "v1a"]);
        assert_eq!(versions(&["hunter2", "whsec_%"]), ["v1a"]);
    }
}
