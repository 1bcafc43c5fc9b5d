//! Names: feeds, gifts, rows, epochs, and the position `epoch:seq`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $max:expr, $extra:expr, $rule:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// What is allowed, as said to a person whose value was refused.
            pub const RULE: &'static str = $rule;

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                const LEGAL: [bool; 256] = alphabet($extra);
                if text.is_empty() || text.len() > $max || !text.bytes().all(|b| LEGAL[usize::from(b)]) {
                    return Err(BadName(Self::RULE));
                }
                Ok($name(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(|BadName(rule)| serde::de::Error::custom(rule))
            }
        }
    };
}

/// Letters and digits of ASCII, and these.
const fn alphabet(extra: &[u8]) -> [bool; 256] {
    let (mut legal, mut n) = ([false; 256], 0);
    while n < legal.len() {
        legal[n] = (n as u8).is_ascii_alphanumeric();
        n += 1;
    }
    n = 0;
    while n < extra.len() {
        legal[extra[n] as usize] = true;
        n += 1;
    }
    legal
}

/// A name that breaks its rule; holds the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadName(pub &'static str);

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadName {}

name_type!(
    /// A feed: one room's, game's or show's ticker.
    FeedId, 64, b"_-.", "must be 1 to 64 of A-Z a-z 0-9 _ - ."
);
name_type!(
    /// A gift event's identity, unique per feed within the idempotency window.
    GiftId, 64, b"_-.:", "must be 1 to 64 of A-Z a-z 0-9 _ - . :"
);
name_type!(
    /// A drop of a feed.
    DropId, 64, b"_-.", "must be 1 to 64 of A-Z a-z 0-9 _ - ."
);
name_type!(
    /// A group that reads a feed's ledger.
    GroupId, 64, b"_-.", "must be 1 to 64 of A-Z a-z 0-9 _ - ."
);
name_type!(
    /// A webhook of a feed, or of all.
    HookId, 64, b"_-.", "must be 1 to 64 of A-Z a-z 0-9 _ - ."
);
name_type!(
    /// A source of a feed: where tips come from. Holds no colon, so that it can stand before an id.
    SourceId, 64, b"_-.", "must be 1 to 64 of A-Z a-z 0-9 _ - ."
);
name_type!(
    /// A goal of a feed.
    GoalId, 64, b"_-.", "must be 1 to 64 of A-Z a-z 0-9 _ - ."
);
name_type!(
    /// A row of the ticker. Made as `epoch-seq` of the change that added it, so it never names
    /// another row, not even in a later life of the feed.
    RowId, 128, b"_-", "must be 1 to 128 of A-Z a-z 0-9 _ -"
);
name_type!(
    /// One life of a feed's numbering. `"0"` is the life of a feed that nobody wrote to.
    Epoch, 32, b"_-", "must be 1 to 32 of A-Z a-z 0-9 _ -"
);

impl GiftId {
    /// A fresh id for a gift whose producer gave none: UUIDv7, so ids sort by time.
    pub fn mint() -> Self {
        GiftId(uuid::Uuid::now_v7().to_string().into())
    }
}

impl RowId {
    /// The id of the row that the change `seq` of `epoch` adds.
    pub fn of(epoch: &Epoch, seq: u64) -> Self {
        let mut id = String::with_capacity(epoch.as_str().len() + 21);
        id.push_str(epoch.as_str());
        id.push('-');
        super::json::push_number(&mut id, seq as i64);
        RowId(id.into())
    }
}

impl Epoch {
    /// The epoch of a feed that nobody wrote to.
    pub fn none() -> Self {
        Epoch("0".into())
    }

    /// True for [`Epoch::none`].
    pub fn is_none(&self) -> bool {
        &*self.0 == "0"
    }

    /// A name that no other life of any feed has: 13 characters of base 36 from a UUIDv7's
    /// 48 bits of milliseconds and 16 of its random bits.
    pub fn mint() -> Self {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let bits = uuid::Uuid::now_v7().as_u128();
        let mut n = ((bits >> 80) as u64) << 16 | (bits as u64 & 0xffff);
        let mut text = [b'0'; 13];
        for slot in text.iter_mut().rev() {
            *slot = DIGITS[(n % 36) as usize];
            n /= 36;
        }
        Epoch(String::from_utf8_lossy(&text).as_ref().into())
    }
}

/// A place in a feed's history: `epoch:seq`. Compared only within one epoch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The life of the numbering.
    pub epoch: Epoch,
    /// The number of the last change seen; 0 before the first.
    pub seq: u64,
}

impl Position {
    /// The position of a feed that was never written to.
    pub fn start() -> Self {
        Position { epoch: Epoch::none(), seq: 0 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch, self.seq)
    }
}

impl FromStr for Position {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        const RULE: BadName = BadName("must be epoch:seq");
        let (epoch, seq) = text.rsplit_once(':').ok_or(RULE)?;
        if seq.is_empty() || !seq.bytes().all(|b| b.is_ascii_digit()) {
            return Err(RULE);
        }
        Ok(Position { epoch: epoch.parse()?, seq: seq.parse().map_err(|_| RULE)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_their_alphabet_and_length() {
        assert!("room-1_a.B".parse::<FeedId>().is_ok());
        for bad in ["", "a:b", "a b", "ü", "a/b", &"x".repeat(65)] {
            assert!(bad.parse::<FeedId>().is_err(), "{bad}");
        }
        assert!("a:b".parse::<GiftId>().is_ok());
    }

    #[test]
    fn a_position_survives_being_written_and_read() {
        let at = Position { epoch: Epoch::mint(), seq: 7 };
        assert_eq!(at.to_string().parse(), Ok(at));
        for bad in ["", ":", "a:", ":1", "a:-1", "a:1x", "a", "a:99999999999999999999999"] {
            assert!(bad.parse::<Position>().is_err(), "{bad}");
        }
    }

    #[test]
    fn minted_epochs_differ_and_obey_the_rule() {
        let (a, b) = (Epoch::mint(), Epoch::mint());
        assert!(a.as_str().parse::<Epoch>().is_ok() && b.as_str().len() == 13);
        assert!(!a.is_none());
    }
}
