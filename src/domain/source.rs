//! A source as a store keeps it: where a feed's tips come from (contract section 11). What its settings mean
//! is read elsewhere; here they are text.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::ids::BadName;
use super::{FeedId, Millis};

/// Hexadecimal digits of a path's secret: 128 random bits.
const SECRET_DIGITS: usize = 32;

/// Characters of a kept error at most.
const ERROR_MAX: usize = 300;

/// Where a source is posted to: `SECRET.FEED`. The feed's name, which is no secret, says where its sources are
/// kept, so a path leads to one feed and no list of all paths has to be anywhere.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SourcePath {
    secret: String,
    feed: FeedId,
}

impl SourcePath {
    /// The path of a source of `feed` with these random bits.
    pub fn of(feed: &FeedId, random: u128) -> SourcePath {
        SourcePath { secret: format!("{random:032x}"), feed: feed.clone() }
    }

    /// Whose source it is.
    pub fn feed(&self) -> &FeedId {
        &self.feed
    }

    /// Whether `tried` is this path; takes as long whatever differs.
    pub fn is(&self, tried: &SourcePath) -> bool {
        self.feed == tried.feed && bool::from(self.secret.as_bytes().ct_eq(tried.secret.as_bytes()))
    }

    /// The path itself, which only those may see who may set the source.
    pub fn reveal(&self) -> String {
        format!("{}.{}", self.secret, self.feed)
    }
}

impl fmt::Debug for SourcePath {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourcePath(….{})", self.feed)
    }
}

impl FromStr for SourcePath {
    type Err = BadName;
    fn from_str(text: &str) -> Result<SourcePath, BadName> {
        const RULE: BadName = BadName("must be 32 hexadecimal digits, a dot and a feed's name");
        let (secret, feed) = text.split_at_checked(SECRET_DIGITS).ok_or(RULE)?;
        let legal = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        let feed = feed.strip_prefix('.').filter(|_| secret.bytes().all(legal)).ok_or(RULE)?;
        Ok(SourcePath { secret: secret.to_owned(), feed: feed.parse().map_err(|_| RULE)? })
    }
}

impl TryFrom<String> for SourcePath {
    type Error = String;
    fn try_from(text: String) -> Result<SourcePath, String> {
        text.parse().map_err(|rule: BadName| rule.to_string())
    }
}

impl From<SourcePath> for String {
    fn from(path: SourcePath) -> String {
        path.reveal()
    }
}

/// A source as it was set.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Where it is posted to; stays when it is set again.
    pub path: SourcePath,
    /// Random text with which what identifies a person is hashed; stays when it is set again.
    pub salt: String,
    /// The body of its PUT. Holds the secret.
    pub settings: String,
    /// When it was made, in milliseconds since 1970.
    pub since: i64,
    /// Another one with every change, by which two that change it at the same time find out.
    pub version: u64,
}

impl fmt::Debug for Source {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("path", &self.path)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Source {
    /// A new one, with random bits for its path and for its salt.
    pub fn new(feed: &FeedId, settings: String, random: [u128; 2], now: Millis) -> Source {
        let [path, salt] = random;
        let (path, salt) = (SourcePath::of(feed, path), format!("{salt:032x}"));
        Source { path, salt, settings, since: now.0, version: 1 }
    }

    /// The same with other settings.
    pub fn set(&self, settings: String) -> Source {
        Source { settings, version: self.version + 1, ..self.clone() }
    }
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceOutcome {
    /// It is a new row.
    Accepted,
    /// It joined a row.
    Merged,
    /// The feed's dedup lock kept it from being shown.
    Suppressed,
    /// It is shown later.
    Scheduled,
    /// It waits for the host's review.
    InReview,
    /// It came before.
    Duplicate,
    /// A gift was taken back.
    Retracted,
    /// It is an event that is not shown.
    Ignored,
    /// It could not become a gift.
    Refused,
    /// It did not show that it comes from the platform.
    Unverified,
}

impl SourceOutcome {
    /// All of them, in the order in which they are listed.
    pub const ALL: [SourceOutcome; 10] = [
        SourceOutcome::Accepted,
        SourceOutcome::Merged,
        SourceOutcome::Suppressed,
        SourceOutcome::Scheduled,
        SourceOutcome::InReview,
        SourceOutcome::Duplicate,
        SourceOutcome::Retracted,
        SourceOutcome::Ignored,
        SourceOutcome::Refused,
        SourceOutcome::Unverified,
    ];

    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            SourceOutcome::Accepted => "accepted",
            SourceOutcome::Merged => "merged",
            SourceOutcome::Suppressed => "suppressed",
            SourceOutcome::Scheduled => "scheduled",
            SourceOutcome::InReview => "in_review",
            SourceOutcome::Duplicate => "duplicate",
            SourceOutcome::Retracted => "retracted",
            SourceOutcome::Ignored => "ignored",
            SourceOutcome::Refused => "refused",
            SourceOutcome::Unverified => "unverified",
        }
    }

    /// The outcome of this word.
    pub fn named(word: &str) -> Option<SourceOutcome> {
        SourceOutcome::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

/// What is remembered of one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceNote {
    /// What became of it.
    pub outcome: SourceOutcome,
    /// What was wrong with it, in a sentence; at most 300 characters.
    pub error: Option<String>,
}

impl SourceNote {
    /// A delivery with which something was wrong; a long sentence is cut.
    pub fn wrong(outcome: SourceOutcome, why: &str) -> SourceNote {
        SourceNote { outcome, error: Some(why.chars().take(ERROR_MAX).collect()) }
    }
}

impl From<SourceOutcome> for SourceNote {
    fn from(outcome: SourceOutcome) -> SourceNote {
        SourceNote { outcome, error: None }
    }
}

/// What came to a source so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceTally {
    /// Deliveries by what became of them; outcomes that never were are absent.
    pub counts: BTreeMap<SourceOutcome, u64>,
    /// When the last one came, whatever became of it.
    pub last_at: Option<Millis>,
    /// What was wrong with the last one with which something was, and when.
    pub last_error: Option<(Millis, String)>,
}

impl SourceTally {
    /// Of named texts. What is not known, or no number, is left out: these are counts for people to look at.
    pub fn of_fields<'a>(fields: impl Iterator<Item = (&'a str, &'a str)>) -> SourceTally {
        let (mut tally, mut error, mut error_at) = (SourceTally::default(), None, None);
        let time = |text: &str| text.parse().ok().map(Millis);
        for (name, text) in fields {
            match name {
                "last_at" => tally.last_at = time(text),
                "error_at" => error_at = time(text),
                "error" => error = Some(text.to_owned()),
                _ => {
                    let counted = SourceOutcome::named(name).zip(text.parse().ok());
                    tally.counts.extend(counted);
                }
            }
        }
        tally.last_error = error_at.zip(error);
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_back_and_nothing_else_is_one() {
        let feed: FeedId = "a.b-c_d".parse().unwrap();
        let path = SourcePath::of(&feed, 0xabc);
        let again: SourcePath = path.reveal().parse().unwrap();
        assert!(again.is(&path) && again.feed() == &feed);
        assert!(!SourcePath::of(&feed, 0xabd).is(&path));
        assert!(!SourcePath::of(&"other".parse().unwrap(), 0xabc).is(&path));
        assert!(!format!("{path:?}").contains("abc"));
        let secret = "0".repeat(32);
        for bad in [
            "",
            ".",
            &secret,
            &format!("{secret}."),
            &format!("{secret}x"),
            &format!("{}G.a", &secret[1..]),
            &format!("{secret}.a/b"),
            "é".repeat(20).as_str(),
        ] {
            assert!(bad.parse::<SourcePath>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_source_is_stored_whole_and_told_without_secrets() {
        let feed = "show".parse().unwrap();
        let source =
            Source::new(&feed, "{\"secret\":\"hunter2\"}".into(), [1, 2], Millis(3)).set("{}".into());
        let stored = serde_json::to_string(&source).unwrap();
        assert_eq!(serde_json::from_str::<Source>(&stored).unwrap(), source);
        assert_eq!((source.version, source.since), (2, 3));
        assert!(!format!("{source:?}").contains("0001") && !format!("{source:?}").contains("0002"));
    }

    #[test]
    fn every_outcome_has_its_own_word() {
        for outcome in SourceOutcome::ALL {
            assert_eq!(SourceOutcome::named(outcome.as_str()), Some(outcome));
        }
        assert_eq!(SourceOutcome::named("lost"), None);
    }
}
