//! What Redis says when it will not, in sentences that say what to do; and whether the connection
//! is of any use afterwards.

use redis::RedisError;

use super::super::EngineError;
use super::wire::Garbled;

/// A call that failed.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// For the log and `/readyz`.
    pub why: String,
    /// True when the connection is to be replaced: it is broken, or leads to a server that is not,
    /// or no longer, the primary.
    pub leave: bool,
    /// True when it is about what the call met in the store, and would be the same another time.
    pub data: bool,
}

impl Fault {
    pub(super) fn stay(why: impl Into<String>) -> Fault {
        Fault { why: why.into(), leave: false, data: false }
    }

    pub(super) fn leave(why: impl Into<String>) -> Fault {
        Fault { why: why.into(), leave: true, data: false }
    }

    fn data(why: impl Into<String>) -> Fault {
        Fault { why: why.into(), leave: false, data: true }
    }
}

impl From<Fault> for EngineError {
    fn from(fault: Fault) -> Self {
        EngineError::Unavailable(fault.why)
    }
}

impl From<Garbled> for Fault {
    fn from(Garbled(what): Garbled) -> Self {
        Fault::stay(format!(
            "Redis holds {what} that Tipcast did not write; give Tipcast a database or a key prefix of its own"
        ))
    }
}

impl From<Garbled> for EngineError {
    fn from(garbled: Garbled) -> Self {
        Fault::from(garbled).into()
    }
}

/// True when the script must be loaded again.
pub(super) fn is_no_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

/// Explains an error of the server at `addr`.
pub(super) fn explain(addr: &str, error: &RedisError) -> Fault {
    let said = error.to_string();
    let Some(code) = error.code() else {
        return match error.is_timeout() {
            true => Fault::leave(silent(addr)),
            false => Fault::leave(format!("the connection to Redis at {addr} failed: {said}")),
        };
    };
    match code {
        "READONLY" => Fault::leave(replica(addr)),
        "LOADING" => Fault::stay(format!(
            "Redis at {addr} is still loading its data (LOADING); it needs no help but time"
        )),
        "MISCONF" => Fault::stay(format!(
            "Redis at {addr} refuses writes because it cannot save them (MISCONF); free its disk and see its log"
        )),
        "OOM" => Fault::stay(format!(
            "Redis at {addr} is out of memory (OOM); raise its maxmemory, or free some of what it holds"
        )),
        "BUSY" => Fault::stay(format!(
            "Redis at {addr} is busy with a script of somebody (BUSY); wait, or end it with SCRIPT KILL"
        )),
        "MASTERDOWN" => Fault::leave(format!(
            "Redis at {addr} is a replica that lost its primary (MASTERDOWN); point the URL at the primary"
        )),
        "NOREPLICAS" => Fault::stay(format!(
            "Redis at {addr} has too few good replicas to take writes (NOREPLICAS); bring its replicas back"
        )),
        "NOAUTH" | "WRONGPASS" => Fault::leave(format!(
            "Redis at {addr} wants other credentials ({code}); put them into the URL: redis://user:password@host:port"
        )),
        "NOPERM" => Fault::stay(format!(
            "the Redis user may not do what Tipcast needs ({said}); allow it all commands on its key prefix and its channels"
        )),
        "MOVED" | "ASK" | "CLUSTERDOWN" | "CROSSSLOT" | "TRYAGAIN" => Fault::stay(format!(
            "Redis at {addr} is part of a cluster ({code}), which Tipcast does not speak; use a single primary"
        )),
        "WRONGTYPE" => Fault::data(
            "a key under Tipcast's prefix holds something that Tipcast did not write (WRONGTYPE); remove it, \
             or give Tipcast a database or a key prefix of its own",
        ),
        "ERR" => Fault::data(format!("Redis at {addr} answered: {said}")),
        _ => Fault::stay(format!("Redis at {addr} answered: {said}")),
    }
}

/// The server does not answer.
pub(super) fn silent(addr: &str) -> String {
    format!("Redis at {addr} does not answer in time; see whether it, or the way to it, is stuck")
}

/// The server does not take writes.
pub(super) fn replica(addr: &str) -> String {
    format!("Redis at {addr} is a read-only replica; point the URL at the primary")
}
