//! What a client may ask on `/v1/ws`.

use std::fmt;

use crate::domain::json::{self, Field, Object};
use crate::domain::{FeedId, Omit, Position, Refused};

/// A valid command.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientCommand {
    /// Watch a feed. A `since` that is malformed counts as none: the watcher gets a snapshot.
    Subscribe {
        /// Its name.
        feed: FeedId,
        /// The position the client has.
        since: Option<Position>,
        /// What it does not get.
        omit: Omit,
        /// It counts as an overlay.
        overlay: bool,
    },
    /// Show a token or a key.
    Auth {
        /// It.
        credential: Credential,
    },
    /// Stop watching a feed.
    Unsubscribe {
        /// Its name.
        feed: FeedId,
    },
}

/// A token or a key. `Debug` does not show it.
#[derive(PartialEq, Eq)]
pub struct Credential(pub String);

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// Why a text is no command.
#[derive(Debug, PartialEq, Eq)]
pub struct BadCommand {
    /// A sentence for the client.
    pub message: String,
    /// The feed that it names, where it names one.
    pub feed: Option<FeedId>,
}

/// Reads a command. Unknown fields are ignored, as clients ignore the server's.
pub fn parse(text: &str) -> Result<ClientCommand, BadCommand> {
    let bad = |message: String| BadCommand { message, feed: None };
    let raw = json::syntax(text.as_bytes()).map_err(|refused| match refused {
        Refused::Syntax(why) => bad(format!("a command is a JSON object: {why}")),
        Refused::Invalid(_) => bad("a command is a JSON object".into()),
    })?;
    let wanted = "send {\"type\":\"subscribe\",\"feed\":…} or {\"type\":\"unsubscribe\",\"feed\":…}";
    let mut faults = Vec::new();
    let mut body = Object::open(raw, &mut faults).ok_or_else(|| bad(wanted.into()))?;
    let word = |field: Option<Field<'_>>| field.and_then(|field| field.string(&mut Vec::new()));
    let kind = word(body.take("type"));
    if kind.as_deref() == Some("auth") {
        let credential = word(body.take("token")).or_else(|| word(body.take("key")));
        let credential =
            credential.ok_or_else(|| bad("send {\"type\":\"auth\",\"token\":…} or \"key\"".into()))?;
        return Ok(ClientCommand::Auth { credential: Credential(credential) });
    }
    let feed = word(body.take("feed")).ok_or_else(|| bad(wanted.into()))?;
    let feed: FeedId = feed.parse().map_err(|rule| bad(format!("a feed {rule}")))?;
    let since = word(body.take("since")).and_then(|since| since.parse().ok());
    match kind.as_deref() {
        Some("subscribe") => {
            // Ignored, it would bring the very thing that was not wanted.
            let without = body.take("without").map(|field| match word(Some(field)) {
                Some(word) => word.parse(),
                None => Err("must be a string"),
            });
            let omit = without.transpose().map_err(|rule| BadCommand {
                message: format!("without {rule}"),
                feed: Some(feed.clone()),
            })?;
            let overlay = word(body.take("as")).is_some_and(|word| word == "overlay");
            Ok(ClientCommand::Subscribe { feed, since, omit: omit.unwrap_or_default(), overlay })
        }
        Some("unsubscribe") => Ok(ClientCommand::Unsubscribe { feed }),
        _ => Err(BadCommand { message: wanted.into(), feed: Some(feed) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_commands_are_understood() {
        let feed: FeedId = "a".parse().unwrap();
        let since = "e:3".parse().ok();
        assert_eq!(
            parse(r#"{"type":"subscribe","feed":"a","since":"e:3","x":1}"#),
            Ok(ClientCommand::Subscribe { feed: feed.clone(), since, omit: Omit::Nothing, overlay: false })
        );
        assert_eq!(
            parse(r#"{"type":"subscribe","feed":"a","since":7}"#),
            Ok(ClientCommand::Subscribe {
                feed: feed.clone(),
                since: None,
                omit: Omit::Nothing,
                overlay: false
            })
        );
        assert_eq!(
            parse(r#"{"type":"subscribe","feed":"a","without":"totals","as":"overlay"}"#),
            Ok(ClientCommand::Subscribe {
                feed: feed.clone(),
                since: None,
                omit: Omit::Totals,
                overlay: true
            })
        );
        for wrong in [r#""drops""#, "\"\"", "true", r#"["totals"]"#] {
            let command = format!(r#"{{"type":"subscribe","feed":"a","without":{wrong}}}"#);
            let bad = parse(&command).unwrap_err();
            assert!(bad.message.starts_with("without must be"), "{bad:?}");
            assert_eq!(bad.feed.as_ref(), Some(&feed));
        }
        assert_eq!(parse(r#"{"type":"unsubscribe","feed":"a"}"#), Ok(ClientCommand::Unsubscribe { feed }));
        for auth in [r#"{"type":"auth","token":"t"}"#, r#"{"type":"auth","key":"t"}"#] {
            assert_eq!(parse(auth), Ok(ClientCommand::Auth { credential: Credential("t".into()) }));
            assert!(!format!("{:?}", parse(auth)).contains("\"t\""));
        }
        for bad in [
            r#"{"type":"auth"}"#,
            r#"{"type":"auth","token":5}"#,
            "",
            "x",
            "[]",
            "{}",
            r#"{"type":"subscribe"}"#,
            r#"{"type":"x","feed":"a"}"#,
            r#"{"type":"subscribe","feed":"a b"}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse(r#"{"type":"x","feed":"a"}"#).unwrap_err().feed, "a".parse().ok());
    }
}
