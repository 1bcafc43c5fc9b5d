//! What is stored of a key: its hash.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use subtle::ConstantTimeEq;

use crate::domain::hashing::sha256;
use crate::random;

/// What a key begins with, so that people and secret scanners know one when they see it.
pub const PREFIX: &str = "tck_";

/// What a stored hash begins with.
const HASHED: &str = "sha256:";

/// The least characters of a key that is not one of ours.
const PLAIN_LEAST: usize = 16;

/// The hash of a key. Plain SHA-256 is enough: a key has 256 random bits, so there is nothing to guess
/// that a slow, salted hash would protect.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Of a key as its holder sends it.
    pub fn of(key: &str) -> KeyHash {
        KeyHash(sha256(key))
    }

    /// Whether two are the same, in a time that does not depend on where they differ.
    pub fn matches(&self, other: &KeyHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// As the configuration has it.
impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HASHED)?;
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// The hash that an entry of the configuration spells; the error says what would be right, and never what
/// is there.
pub fn read_entry(entry: &str) -> Result<KeyHash, String> {
    match entry.strip_prefix(HASHED) {
        Some(hex) => unhex(hex).ok_or_else(|| {
            "is not \"sha256:\" and 64 hexadecimal digits; `tipcast key new` prints one".to_owned()
        }),
        None => plain(entry).ok_or_else(|| {
            format!(
                "is neither \"sha256:…\" nor a key of {PLAIN_LEAST} or more visible ASCII characters; `tipcast key \
                 new` prints one"
            )
        }),
    }
}

/// Whether an entry is a hash, from which the key cannot be found.
pub fn is_hashed(entry: &str) -> bool {
    entry.starts_with(HASHED)
}

fn plain(entry: &str) -> Option<KeyHash> {
    let fits = entry.len() >= PLAIN_LEAST && entry.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| KeyHash::of(entry))
}

fn unhex(text: &str) -> Option<KeyHash> {
    let hash = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
    hash.try_into().ok().map(KeyHash)
}

/// A key that nobody has yet, from the operating system's randomness.
pub fn fresh() -> String {
    format!("{PREFIX}{}", HEXLOWER.encode(&random::bytes::<32>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_the_hash_of_a_key_or_the_key_itself() {
        let (one, two) = (fresh(), fresh());
        assert!(one.starts_with("tck_") && one.len() == 68 && one != two, "{one} {two}");
        let hash = KeyHash::of(&one);
        let spelled = hash.to_string();
        for entry in [&spelled, &format!("sha256:{}", spelled[7..].to_uppercase()), &one] {
            assert!(read_entry(entry).unwrap().matches(&hash), "{entry}");
        }
        assert!(!hash.matches(&KeyHash::of(&two)) && !hash.matches(&KeyHash::of(&spelled)));
    }

    #[test]
    fn invalid_keys_are_refused_and_not_shown() {
        let hash = KeyHash::of("x").to_string();
        for bad in [
            "",
            "short",
            "sixteen chars with a space",
            "sha256:",
            "sha256:zz",
            &hash[..70],
            "schlüssel-schlüssel",
        ] {
            let refused = read_entry(bad).map(|_| ()).unwrap_err();
            assert!(refused.contains("key new") && (bad.len() < 8 || !refused.contains(bad)), "{refused}");
        }
    }
}
