//! The small messages of a connection itself, as JSON texts. Those about a feed's list are `live`'s frames.

use serde::Serialize;

use crate::domain::FeedId;

/// What a connection sends its client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SocketMessage<'a> {
    /// A planned close is near.
    Goodbye {
        /// One word.
        reason: &'a str,
        /// How long the client should wait before it connects again, in milliseconds.
        reconnect_in_ms: u64,
    },
    /// The client did something wrong, or something ended.
    Error {
        /// One word, for programs.
        code: &'a str,
        /// A sentence, for people.
        message: &'a str,
        /// The feed it is about, where it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        feed: Option<&'a FeedId>,
    },
    /// The token or key that came is good.
    Auth {
        /// How long it is, in milliseconds; absent where it has no end.
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_in_ms: Option<u64>,
    },
    /// The token expires soon: the client should send a new one.
    Token {
        /// In how many milliseconds.
        expires_in_ms: u64,
    },
    /// The feed is no longer watched on this connection: none of its frames follow.
    Unsubscribed {
        /// Its name.
        feed: &'a FeedId,
    },
}

impl SocketMessage<'_> {
    /// Its JSON text, without a line break.
    pub fn json(&self) -> String {
        // Cannot fail: it holds only texts and numbers.
        serde_json::to_string(self).unwrap_or_default()
    }
}
