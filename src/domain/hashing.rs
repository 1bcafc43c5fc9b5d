//! SHA-256, and HMAC with it.

use ring::digest::{SHA256, digest};
use ring::hmac;

/// The SHA-256 of `bytes`.
pub fn sha256(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    first_32(digest(&SHA256, bytes.as_ref()).as_ref())
}

/// The HMAC-SHA256 of `parts`, one after the other. Compare it in constant time.
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    first_32(context.sign().as_ref())
}

fn first_32(bytes: &[u8]) -> [u8; 32] {
    let mut array = [0; 32];
    array.copy_from_slice(bytes);
    array
}
