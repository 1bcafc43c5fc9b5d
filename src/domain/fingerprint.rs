//! What tells a gift that is sent again from another gift of the same id.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest, Sha256};

/// SHA-256 of the normalised payload, cut to 128 bits: equal for the same gift sent again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// Of a payload that is spelled so.
    pub(super) fn of(spelled: &str) -> Fingerprint {
        let hash = Sha256::digest(spelled);
        let mut cut = [0; 16];
        cut.copy_from_slice(&hash[..16]);
        Fingerprint(cut)
    }

    /// Reads what [`fmt::Display`] writes: 32 hexadecimal digits.
    pub fn from_hex(hex: &str) -> Option<Fingerprint> {
        let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?;
        bytes.try_into().ok().map(Fingerprint)
    }
}

impl Fingerprint {
    /// Appends what [`fmt::Display`] writes.
    pub fn push(&self, out: &mut String) {
        let mut hex = [0; 32];
        HEXLOWER.encode_mut(&self.0, &mut hex);
        out.push_str(str::from_utf8(&hex).unwrap_or_default());
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = String::with_capacity(32);
        self.push(&mut hex);
        f.write_str(&hex)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
