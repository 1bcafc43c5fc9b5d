//! Rights, and the feeds for which somebody has them.

use std::fmt;
use std::str::FromStr;

/// What a key may do. Each name is a word of `[[auth.keys]] may`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Post, schedule, list and cancel gifts.
    Gifts,
    /// Retract, review, block, control. Includes [`Right::Read`].
    Moderate,
    /// Set the policy, goals, sessions, sources.
    Policy,
    /// Define drops.
    Drops,
    /// Claims and holds of every user.
    Claims,
    /// Groups, webhooks, dead letters.
    Reports,
    /// Read and watch private feeds.
    Read,
    /// Every GET of the API and the console, and no change. Includes [`Right::Read`].
    Observe,
    /// Revocation, and everything else.
    Admin,
}

impl Right {
    /// All of them.
    pub const ALL: [Right; 9] = [
        Right::Gifts,
        Right::Moderate,
        Right::Policy,
        Right::Drops,
        Right::Claims,
        Right::Reports,
        Right::Read,
        Right::Observe,
        Right::Admin,
    ];

    /// The word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Right::Gifts => "gifts",
            Right::Moderate => "moderate",
            Right::Policy => "policy",
            Right::Drops => "drops",
            Right::Claims => "claims",
            Right::Reports => "reports",
            Right::Read => "read",
            Right::Observe => "observe",
            Right::Admin => "admin",
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Right {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Right::ALL.into_iter().find(|right| right.as_str() == word).ok_or_else(|| {
            let all = Right::ALL.map(Right::as_str).join(", ");
            format!("{word:?} is no right; there are {all}")
        })
    }
}

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u16);

impl Rights {
    /// What [`Right::Admin`] gives.
    pub const ALL: Rights = Rights(u16::MAX);

    /// What one of `[auth] producer_keys` gives: all but [`Right::Admin`].
    pub const PRODUCER: Rights = Rights(!(1 << Right::Admin as u16));

    /// With what each of these includes.
    pub fn of(rights: impl IntoIterator<Item = Right>) -> Rights {
        let bits = rights.into_iter().map(|right| match right {
            Right::Admin => u16::MAX,
            right @ (Right::Moderate | Right::Observe) => 1 << right as u16 | 1 << Right::Read as u16,
            right => 1 << right as u16,
        });
        Rights(bits.fold(0, |all, bits| all | bits))
    }

    /// Whether this right is among them.
    pub fn has(self, right: Right) -> bool {
        self.0 & (1 << right as u16) != 0
    }
}

/// Feeds, by name or by the beginning of the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(Vec<Pattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Exactly(Box<str>),
    /// `name*`; of `*` alone this is empty.
    Begins(Box<str>),
}

impl Scope {
    /// Every feed, and what concerns all feeds together.
    pub fn everything() -> Scope {
        Scope(vec![Pattern::Begins("".into())])
    }

    /// Reads names and prefixes such as `show-*`. The error says which is wrong and what would be right.
    pub fn parse<'a>(feeds: impl IntoIterator<Item = &'a str>) -> Result<Scope, String> {
        let read = |feed: &str| {
            let (name, prefix) = match feed.strip_suffix('*') {
                Some(name) => (name, true),
                None => (feed, false),
            };
            let fits = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            if !fits || name.len() > 64 || feed.is_empty() {
                return Err(format!(
                    "{feed:?} is no feed; write a name, or the beginning of names with one * at its end, as in \
                     \"show-*\""
                ));
            }
            Ok(if prefix { Pattern::Begins(name.into()) } else { Pattern::Exactly(name.into()) })
        };
        feeds.into_iter().map(read).collect::<Result<_, _>>().map(Scope)
    }

    /// Its names, each with whether it is a whole name and not a beginning.
    pub fn names(&self) -> impl Iterator<Item = (&str, bool)> {
        self.0.iter().map(|pattern| match pattern {
            Pattern::Exactly(name) => (&**name, true),
            Pattern::Begins(name) => (&**name, false),
        })
    }

    /// Whether every feed is in it, and so what concerns all feeds together.
    pub fn is_everything(&self) -> bool {
        self.0.iter().any(|pattern| matches!(pattern, Pattern::Begins(prefix) if prefix.is_empty()))
    }

    /// Whether this feed is in it; `*` means all feeds together.
    pub fn covers(&self, feed: &str) -> bool {
        let covered = |pattern: &Pattern| match pattern {
            Pattern::Exactly(name) => **name == *feed && feed != "*",
            Pattern::Begins(prefix) => feed.starts_with(&**prefix) && (feed != "*" || prefix.is_empty()),
        };
        self.0.iter().any(covered)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (n, pattern) in self.0.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { ", " })?;
            match pattern {
                Pattern::Exactly(name) => f.write_str(name)?,
                Pattern::Begins(prefix) => write!(f, "{prefix}*")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_is_spelled_and_read_the_same_way() {
        for right in Right::ALL {
            assert_eq!(right.as_str().parse(), Ok(right));
        }
        assert!("write".parse::<Right>().unwrap_err().contains("moderate, policy"));
    }

    #[test]
    fn some_rights_include_others() {
        for right in Right::ALL {
            let alone = Rights::of([right]);
            let included: Vec<Right> = Right::ALL.into_iter().filter(|other| alone.has(*other)).collect();
            match right {
                Right::Admin => assert_eq!(included, Right::ALL),
                Right::Moderate => assert_eq!(included, [Right::Moderate, Right::Read]),
                Right::Observe => assert_eq!(included, [Right::Read, Right::Observe]),
                right => assert_eq!(included, [right]),
            }
            assert_eq!(Rights::PRODUCER.has(right), right != Right::Admin);
        }
    }

    #[test]
    fn a_scope_is_names_and_beginnings_of_names() {
        let scope = Scope::parse(["show-*", "lobby"]).unwrap();
        for feed in ["show-", "show-1", "lobby"] {
            assert!(scope.covers(feed), "{feed}");
        }
        for feed in ["show", "lobby2", "Lobby", "", "*", "other"] {
            assert!(!scope.covers(feed), "{feed}");
        }
        assert!(!scope.is_everything() && Scope::everything().is_everything());
        assert!(Scope::everything().covers("*") && Scope::everything().covers("any"));
        assert!(!Scope::default().covers("any"));
        for bad in ["", "a*b", "**", "a b", "show-\u{e9}*", &"x".repeat(65)] {
            assert!(Scope::parse([bad]).is_err(), "{bad}");
        }
    }
}
