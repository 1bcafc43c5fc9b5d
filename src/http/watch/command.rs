//! What a client may ask on `/v1/ws`.

use crate::domain::json::{self, Field, Object};
use crate::domain::{FeedId, Position, Refused};

/// A valid command.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Watch a feed. A `since` that makes no sense is none: the watcher gets a snapshot.
    Subscribe {
        /// Which feed.
        feed: FeedId,
        /// The position the client has.
        since: Option<Position>,
    },
    /// Stop watching a feed.
    Unsubscribe {
        /// Which feed.
        feed: FeedId,
    },
}

/// Reads a command; the error is a sentence for the client. Unknown fields are ignored, as clients
/// ignore ours.
pub fn parse(text: &str, many: bool) -> Result<Command, String> {
    if !many {
        return Err("this socket watches one feed and takes no commands; use /v1/ws".into());
    }
    let raw = json::syntax(text.as_bytes()).map_err(|refused| match refused {
        Refused::Syntax(why) => format!("a command is a JSON object: {why}"),
        Refused::Invalid(_) => "a command is a JSON object".into(),
    })?;
    let mut faults = Vec::new();
    let wanted = "send {\"type\":\"subscribe\",\"feed\":…} or {\"type\":\"unsubscribe\",\"feed\":…}";
    let mut body = Object::open(raw, &mut faults).ok_or(wanted)?;
    let word = |field: Option<Field<'_>>| field.and_then(|field| field.string(&mut Vec::new()));
    let kind = word(body.take("type"));
    let feed = word(body.take("feed")).ok_or(wanted)?;
    let feed: FeedId = feed.parse().map_err(|rule| format!("a feed {rule}"))?;
    let since = word(body.take("since")).and_then(|since| since.parse().ok());
    match kind.as_deref() {
        Some("subscribe") => Ok(Command::Subscribe { feed, since }),
        Some("unsubscribe") => Ok(Command::Unsubscribe { feed }),
        _ => Err(wanted.into()),
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
            parse(r#"{"type":"subscribe","feed":"a","since":"e:3","x":1}"#, true),
            Ok(Command::Subscribe { feed: feed.clone(), since })
        );
        assert_eq!(
            parse(r#"{"type":"subscribe","feed":"a","since":7}"#, true),
            Ok(Command::Subscribe { feed: feed.clone(), since: None })
        );
        assert_eq!(parse(r#"{"type":"unsubscribe","feed":"a"}"#, true), Ok(Command::Unsubscribe { feed }));
        for bad in [
            "",
            "x",
            "[]",
            "{}",
            r#"{"type":"subscribe"}"#,
            r#"{"type":"x","feed":"a"}"#,
            r#"{"type":"subscribe","feed":"a b"}"#,
        ] {
            assert!(parse(bad, true).is_err(), "{bad}");
        }
        assert!(parse(r#"{"type":"subscribe","feed":"a"}"#, false).is_err());
    }
}
