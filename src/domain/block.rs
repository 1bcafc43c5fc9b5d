//! Users whose gifts are not shown.

use std::fmt;
use std::str::FromStr;

use serde_json::value::RawValue;

use super::gift::read_time;
use super::ids::BadName;
use super::json::{Object, Refused};
use super::{FeedId, Millis};

/// Blocks of one feed, and of all feeds, that are kept at most: every gift of a feed is compared with them.
pub const BLOCKS_MAX: usize = 1_000;

/// Whose gifts are kept from being shown where.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockScope {
    /// In one feed.
    Feed(FeedId),
    /// In all of them.
    All,
}

impl fmt::Display for BlockScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockScope::Feed(feed) => feed.fmt(f),
            BlockScope::All => f.write_str("*"),
        }
    }
}

impl FromStr for BlockScope {
    type Err = BadName;

    fn from_str(text: &str) -> Result<BlockScope, BadName> {
        if text == "*" { Ok(BlockScope::All) } else { text.parse().map(BlockScope::Feed) }
    }
}

/// A user whose gifts are not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The user's id, 1–64 bytes.
    pub user: String,
    /// Since when.
    pub at: Millis,
    /// Until when; none for ever.
    pub until: Option<Millis>,
}

impl Block {
    /// Whether it holds at `now`.
    pub fn holds(&self, now: Millis) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The body of a PUT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockWish {
    /// Until when; none for ever.
    pub until: Option<Millis>,
    /// Whether rows that are shown are taken back.
    pub retract: bool,
}

impl BlockWish {
    /// Reads `{"until"?,"retract"?}`.
    pub fn parse(raw: &RawValue) -> Result<BlockWish, Refused> {
        let mut faults = Vec::new();
        let Some(mut body) = Object::open(raw, &mut faults) else {
            return Err(Refused::Invalid(faults));
        };
        let until = body.take("until").and_then(|field| read_time(&field, &mut faults));
        let retract = body.take("retract").and_then(|field| field.boolean(&mut faults)).unwrap_or(false);
        body.close(&mut faults);
        if faults.is_empty() { Ok(BlockWish { until, retract }) } else { Err(Refused::Invalid(faults)) }
    }
}

/// What became of the wish to block somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// There was no such block.
    New,
    /// There was one, which this one replaces.
    Replaced,
    /// [`BLOCKS_MAX`] others are blocked.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json;

    #[test]
    fn a_wish_is_read_and_a_scope_is_a_feed_or_all() {
        let read = |body: &str| BlockWish::parse(json::syntax(body.as_bytes()).unwrap());
        assert_eq!(read("{}"), Ok(BlockWish::default()));
        let wish = read(r#"{"until":"2026-01-31T12:00:00.000Z","retract":true}"#).unwrap();
        assert!(wish.retract && wish.until.is_some());
        for bad in ["[]", r#"{"until":5}"#, r#"{"retract":1}"#, r#"{"x":1}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
        for scope in ["*", "show"] {
            assert_eq!(scope.parse::<BlockScope>().unwrap().to_string(), scope);
        }
        assert!("a b".parse::<BlockScope>().is_err());
        let block = Block { user: "u".into(), at: Millis(1), until: Some(Millis(5)) };
        assert!(block.holds(Millis(4)) && !block.holds(Millis(5)));
    }
}
