//! What a command answers.

/// An answer, in the shapes that RESP2 has. `Eq` is by content, so that a test can compare it with a server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing is there.
    Nil,
    /// A number.
    Int(i64),
    /// A text, or any bytes.
    Bulk(Vec<u8>),
    /// `OK` and the like.
    Status(&'static str),
    /// Several answers, in order.
    Array(Vec<Reply>),
    /// A refusal. The first word is its code: `ERR`, `WRONGTYPE`. The command has changed nothing.
    Error(String),
}

/// The key holds a value of another type.
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// An argument that must be an integer is none, or out of range.
pub const NO_INTEGER: &str = "ERR value is not an integer or out of range";
/// An argument that must be a float is none.
pub const NO_FLOAT: &str = "ERR value is not a valid float";
/// A keyword or the number of arguments is wrong.
pub const SYNTAX: &str = "ERR syntax error";

impl Reply {
    /// A refusal with these words.
    pub fn error(words: &str) -> Reply {
        Reply::Error(words.to_owned())
    }

    /// What is there, or nil.
    pub fn optional(value: Option<Vec<u8>>) -> Reply {
        value.map_or(Reply::Nil, Reply::Bulk)
    }

    /// A list of texts.
    pub fn texts(values: impl IntoIterator<Item = Vec<u8>>) -> Reply {
        Reply::Array(values.into_iter().map(Reply::Bulk).collect())
    }
}
