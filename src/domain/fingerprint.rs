//! Whether a gift is sent again, or another gift has the same id.

use std::fmt;

use data_encoding::HEXLOWER_PERMISSIVE;

use super::hashing::sha256;

/// The two hexadecimal digits of each byte.
const PAIRS: [[u8; 2]; 256] = {
    let (digits, mut pairs, mut n) = (b"0123456789abcdef", [[0; 2]; 256], 0);
    while n < pairs.len() {
        pairs[n] = [digits[n >> 4], digits[n & 15]];
        n += 1;
    }
    pairs
};

/// SHA-256 of the normalised payload, cut to 128 bits: equal for the same gift sent again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// Of a payload that is spelled so.
    pub(super) fn of(spelled: &str) -> Fingerprint {
        let mut cut = [0; 16];
        cut.copy_from_slice(&sha256(spelled)[..16]);
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
        let mut hex = [[0; 2]; 16];
        hex.iter_mut().zip(self.0).for_each(|(pair, byte)| *pair = PAIRS[usize::from(byte)]);
        let hex = hex.as_flattened();
        out.push_str(str::from_utf8(hex).unwrap_or_default());
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = String::with_capacity(32);
        self.push(&mut hex);
        f.write_str(&hex)
    }
}

impl serde::Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let hex = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Fingerprint::from_hex(&hex).ok_or_else(|| serde::de::Error::custom("no fingerprint"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_as_it_was_written() {
        let all = std::array::from_fn(|n| (n * 17) as u8);
        assert_eq!(Fingerprint(all).to_string(), "00112233445566778899aabbccddeeff");
        for first in 0..=255 {
            let it = Fingerprint([first, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, !first]);
            assert_eq!(Fingerprint::from_hex(&it.to_string()), Some(it));
        }
    }
}
