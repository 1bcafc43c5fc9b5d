//! Signatures of Standard Webhooks (standardwebhooks.com, version 1): `v1,` and base64 of the HMAC-SHA256 of
//! `ID.TIMESTAMP.BODY`, one for each secret that holds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Millis;
use super::hook_spec::secret_key;

/// The headers of a delivery that is sent `now`, signed with each of `secrets`. `id` is the same for every attempt.
pub fn headers(secrets: &[&str], id: &str, now: Millis, body: &[u8]) -> [(&'static str, String); 3] {
    let timestamp = now.0.div_euclid(1_000);
    [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", timestamp.to_string()),
        ("webhook-signature", sign(secrets, id, timestamp, body)),
    ]
}

/// A new name for a batch, for `webhook-id`.
pub fn batch_name() -> String {
    format!("msg_{}", uuid::Uuid::now_v7().simple())
}

/// The value of `webhook-signature`: one signature for each of `secrets`. A secret that cannot be read signs
/// nothing; when none can, the value is empty.
fn sign(secrets: &[&str], id: &str, timestamp: i64, body: &[u8]) -> String {
    let signed = secrets.iter().filter_map(|secret| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret_key(secret)?).ok()?;
        mac.update(id.as_bytes());
        mac.update(format!(".{timestamp}.").as_bytes());
        mac.update(body);
        Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
    });
    signed.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification's reference libraries.
    #[test]
    fn the_known_example_is_signed_as_everywhere() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = br#"{"test": 2432232314}"#;
        let signed = sign(&[secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn two_secrets_give_two_signatures_and_a_broken_one_none() {
        let both = sign(
            &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],
            "a",
            1,
            b"{}",
        );
        assert_eq!(both.split(' ').filter(|one| one.starts_with("v1,")).count(), 2);
        assert_eq!(sign(&["hunter2", "whsec_%"], "a", 1, b"{}"), "");
    }
}
