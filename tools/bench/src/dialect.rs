//! What the load must know of a server: how to open a watcher, what its frames mean, how to publish.
//!
//! The load itself knows sockets, WebSocket frames and counting. Every gift carries a **mark**, a `~`
//! and ten digits, and nothing else that is sent or received has a `~` in a frame's payload; so ops
//! are counted by looking for one byte.

use crate::BenchError;

/// The byte that marks begin with.
pub const MARK: u8 = b'~';

/// Digits of a mark.
pub const MARK_DIGITS: usize = 10;

/// How much of a frame is shown to [`Dialect::judge`].
pub const START: usize = 192;

/// What a frame from the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The list as of this seq.
    List(u64),
    /// The changes from the first to the second seq, each with a mark.
    Changes(u64, u64),
    /// Messages without numbers, each with a mark.
    Messages,
    /// Nothing that is counted.
    Nothing,
    /// Asks for this text frame.
    Reply(&'static [u8]),
    /// The server is about to close, and says why.
    Over(String),
}

/// What to do next while a watcher is being opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// It gets everything from here on.
    Ready,
    /// More frames must come first.
    Wait,
    /// Send this frame (opcode, payload) and see what comes.
    Send(u8, Vec<u8>),
}

/// What a producer's connection has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not all of it yet.
    Partial,
    /// This many bytes that answer nothing.
    Skip(usize),
    /// This many bytes answer one request: the gifts it took, and those it refused.
    Done {
        /// Length.
        bytes: usize,
        /// Gifts that watchers will see.
        taken: u32,
        /// Gifts that they will not.
        refused: u32,
    },
}

/// One kind of server.
pub trait Dialect {
    /// Gets the feeds ready; gives the seq at which each stands, in order.
    fn prepare(&self, feeds: usize) -> Result<Vec<u64>, BenchError>;

    /// Appends the request that opens a watcher of this feed.
    fn watch(&self, feed: usize, out: &mut Vec<u8>);

    /// `step` counts what was sent after the handshake. `frame` is the start of a frame's payload, none
    /// right after the handshake.
    fn greet(&self, _feed: usize, _step: u8, _frame: Option<&[u8]>) -> Greeting {
        Greeting::Ready
    }

    /// What a data frame means, by the first [`START`] bytes of its payload.
    fn judge(&self, start: &[u8]) -> Meaning;

    /// What a producer's connection begins with.
    fn hello(&self, _out: &mut Vec<u8>) {}

    /// What must have come before a producer's connection may publish: bytes to skip, or none while
    /// they are not all there.
    fn welcomed(&self, _bytes: &[u8]) -> Option<usize> {
        Some(0)
    }

    /// Where producers connect, when not where watchers do.
    fn producers_at(&self) -> Option<std::net::SocketAddr> {
        None
    }

    /// Whether a producer's connection takes more before it has answered.
    fn pipelines(&self) -> bool {
        false
    }

    /// Appends one request that publishes the gifts of these marks to this feed. Of a server that takes
    /// no batches, `marks` is one.
    fn publish(&self, feed: usize, marks: std::ops::RangeInclusive<u64>, out: &mut Vec<u8>);

    /// Reads an answer to [`Dialect::publish`].
    fn answer(&self, bytes: &[u8]) -> Answer;

    /// The position of each feed in the end, if the server can be asked; else it is counted from answers.
    fn stands_at(&self, _feed: usize) -> Option<Result<u64, BenchError>> {
        None
    }

    /// How often the server read a feed's list from its store so far, if it says so.
    fn store_reads(&self) -> Option<u64> {
        None
    }

    /// Looks into a data frame that a sampled watcher got whole; gives what is wrong with it.
    fn examine(&self, _sample: &mut Sample, _text: &[u8]) -> Option<String> {
        None
    }

    /// What is wrong with the list that a sampled watcher has in the end.
    fn compare(&self, _feed: usize, _sample: &Sample) -> Option<String> {
        None
    }

    /// Whether [`Dialect::examine`] does anything.
    fn samples(&self) -> bool {
        false
    }
}

/// A watcher whose frames are read in full.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The seq of its last op.
    pub seq: u64,
    /// The ids of its rows, newest first.
    pub rows: Vec<String>,
    /// Rows of the list.
    pub capacity: usize,
}

/// The mark of gift `n`.
pub fn mark(n: u64) -> String {
    format!("{}{n:010}", char::from(MARK))
}

/// The digits of a mark.
#[inline]
pub(crate) fn digits(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0u64, |n, byte| byte.is_ascii_digit().then(|| n * 10 + u64::from(byte - b'0')))
}

/// Headers of an answer at most.
const MAX_HEADERS: usize = 64;

/// How an HTTP/1.1 answer with a Content-Length reads: its status, where its body begins, and where it
/// ends. None while it is not all there.
pub fn http_answer(bytes: &[u8]) -> Option<(u16, usize, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let Ok(httparse::Status::Complete(body)) = head.parse(bytes) else { return None };
    let length = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length =
        length.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse::<usize>().ok());
    let end = body + length.unwrap_or(0);
    (bytes.len() >= end).then_some((head.code.unwrap_or(0), body, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let mark = mark(1_234_567);
        assert_eq!((mark.len(), mark.as_bytes()[0]), (1 + MARK_DIGITS, MARK));
        assert_eq!(digits(&mark.as_bytes()[1..]), Some(1_234_567));
        assert_eq!(digits(b"12345x"), None);
    }

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
        let text = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}HTTP";
        assert_eq!(http_answer(text), Some((201, 43, 45)));
        (0..45).for_each(|n| assert_eq!(http_answer(&text[..n]), None));
    }
}
