//! Producer keys: who may write.

use std::fmt::{self, Write};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a key begins with, so that people and secret scanners know one when they see it.
const PREFIX: &str = "tck_";

/// What a stored hash begins with.
const HASHED: &str = "sha256:";

/// The least characters of a key that is not one of ours.
const PLAIN_LEAST: usize = 16;

/// The hash of a key. Plain SHA-256 is enough: a key has 256 random bits, so there is nothing to guess
/// that a slow, salted hash would protect.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// Of a key as a producer sends it.
    pub fn of(key: &str) -> KeyHash {
        KeyHash(Sha256::digest(key.as_bytes()).into())
    }
}

/// As it stands in the configuration.
impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HASHED)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The keys that are let in; none means that everybody is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys(Vec<KeyHash>);

impl Keys {
    /// Reads the entries of the configuration; the error says which entry and what would be right,
    /// and never what stands there.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Keys, String> {
        let mut keys: Vec<KeyHash> = Vec::new();
        for (n, entry) in entries.into_iter().enumerate() {
            let n = n + 1;
            let hash = match entry.strip_prefix(HASHED) {
                Some(hex) => unhex(hex).ok_or_else(|| {
                    format!(
                        "entry {n} is not \"sha256:\" and 64 hexadecimal digits; `tipcast key new` prints one"
                    )
                })?,
                None => plain(entry).ok_or_else(|| {
                    format!(
                        "entry {n} is neither \"sha256:…\" nor a key of {PLAIN_LEAST} or more visible ASCII \
                         characters; `tipcast key new` prints one"
                    )
                })?,
            };
            if keys.contains(&hash) {
                return Err(format!("entry {n} is the same key as one before it; remove it"));
            }
            keys.push(hash);
        }
        Ok(Keys(keys))
    }

    /// True when nobody is asked for a key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The stored hash of this key. Takes the same time whichever entry matches, or none.
    pub fn find(&self, key: &str) -> Option<KeyHash> {
        let hash = KeyHash::of(key);
        let found = self.0.iter().fold(false, |found, known| found | bool::from(known.0.ct_eq(&hash.0)));
        found.then_some(hash)
    }
}

fn plain(entry: &str) -> Option<KeyHash> {
    let fits = entry.len() >= PLAIN_LEAST && entry.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| KeyHash::of(entry))
}

fn unhex(text: &str) -> Option<KeyHash> {
    let digits = text.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|d| char::from(d).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(KeyHash(hash))
}

/// A key that nobody has yet, from the operating system's randomness.
pub fn fresh() -> std::io::Result<String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| std::io::Error::other(error.to_string()))?;
    let mut key = String::from(PREFIX);
    for byte in random {
        let _ = write!(key, "{byte:02x}");
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_key_is_found_by_its_hash_and_by_itself() {
        let (one, two) = (fresh().unwrap(), fresh().unwrap());
        assert!(one.starts_with("tck_") && one.len() == 68 && one != two, "{one} {two}");
        let hash = KeyHash::of(&one).to_string();
        for entry in [&hash, &format!("sha256:{}", hash[7..].to_uppercase()), &one] {
            let keys = Keys::parse([entry.as_str()]).unwrap();
            assert!(keys.find(&one) == Some(KeyHash::of(&one)) && keys.find(&two).is_none());
            assert!(keys.find(&hash).is_none(), "the hash opens nothing");
        }
        let both = Keys::parse([hash.as_str(), two.as_str()]).unwrap();
        assert!(both.find(&one).is_some() && both.find(&two).is_some() && both.len() == 2);
        assert!(Keys::default().find(&one).is_none());
    }

    #[test]
    fn what_is_no_key_is_refused_by_its_place_and_not_shown() {
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
            let refused = Keys::parse([hash.as_str(), bad]).map(|_| ()).unwrap_err();
            assert!(refused.contains("entry 2") && refused.contains("key new"), "{bad}: {refused}");
            assert!(bad.len() < 8 || !refused.contains(bad), "{refused}");
        }
        assert!(Keys::parse([hash.as_str(), &hash.to_uppercase().replacen("SHA", "sha", 1)]).is_err());
    }
}
