//! What Redis says when it will not, in sentences that say what to do; whether the connection is of any use
//! afterwards; and whether the call may be made again.

use redis::RedisError;

use crate::engine::StoreError;
use crate::engine::protocol::address::Endpoint;

/// Why nothing goes once the store is closed.
pub const CLOSED: &str = "the engine is closed; the gateway is stopping";

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// For the log and `/readyz`.
    pub why: String,
    /// True when the connection is to be replaced: it is broken, or leads to a server that is not,
    /// or no longer, the primary.
    pub leave: bool,
    pub kind: FaultKind,
}

/// What a failed call means for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The call may have been made or not: only its caller knows whether it may be made again.
    Unclear,
    /// It is about what the call met in the store, and would be the same another time.
    Data,
    /// Nothing ran, and the same call may be made again in a moment.
    Again,
    /// Nothing ran: the slot has gone to this server.
    Moved(Endpoint),
    /// Nothing ran: the slot is going to this server, which is to be asked this once.
    Ask(Endpoint),
    /// Nothing happened: it would have written, and nothing can be written now. What only reads is answered.
    ReadOnly,
    /// Nothing happened: there is no room in memory for more.
    Full,
    /// Nothing ran: this is full.
    Overloaded(&'static str),
    /// The write is there, but not on as many replicas as it should.
    NotReplicated,
}

impl Fault {
    pub fn stay(why: impl Into<String>) -> Fault {
        Fault { why: why.into(), leave: false, kind: FaultKind::Unclear }
    }

    pub fn leave(why: impl Into<String>) -> Fault {
        Fault { why: why.into(), leave: true, kind: FaultKind::Unclear }
    }

    pub fn overloaded(what: &'static str) -> Fault {
        Fault {
            kind: FaultKind::Overloaded(what),
            ..Fault::stay(format!("the {what} is full; try again shortly"))
        }
    }

    pub fn data(why: impl Into<String>) -> Fault {
        Fault { why: why.into(), leave: false, kind: FaultKind::Data }
    }

    fn again(self) -> Fault {
        Fault { kind: FaultKind::Again, ..self }
    }

    /// What was met is not the feed's own: no feed is damaged by it.
    pub fn of_an_index(self) -> Fault {
        if self.is_data() { Fault { kind: FaultKind::Unclear, ..self } } else { self }
    }

    /// True when the server is a replica, and its connection of no use for that alone.
    pub fn is_of_a_replica(&self) -> bool {
        self.leave && self.kind == FaultKind::Again
    }

    /// True when it would be the same another time.
    pub fn is_data(&self) -> bool {
        self.kind == FaultKind::Data
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::Data => StoreError::FeedDamaged(fault.why),
            FaultKind::Overloaded(what) => StoreError::Overloaded(what),
            FaultKind::Full => StoreError::StoreFull(fault.why),
            FaultKind::NotReplicated => StoreError::NotReplicated(fault.why),
            _ => StoreError::Unavailable(fault.why),
        }
    }
}

/// True when the script must be loaded again.
pub fn is_no_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

/// Explains an error of the server at `addr`.
pub fn explain(addr: &Endpoint, error: &RedisError) -> Fault {
    let said = bounded(&error.to_string());
    if error.kind() == redis::ErrorKind::AuthenticationFailed {
        return Fault::leave(format!(
            "Redis at {addr} wants other credentials ({said}); put them into the URL: redis://user:password@host:port, \
             those of sentinels into [redis] sentinel_username and sentinel_password"
        ));
    }
    let Some(code) = error.code() else {
        return match error.is_timeout() {
            true => Fault::leave(silent(addr)),
            false => failed(addr, &said),
        };
    };
    match code {
        "MOVED" | "ASK" => redirected(addr, error, code),
        "TRYAGAIN" => Fault::stay(format!(
            "Redis at {addr} is moving the feed's slot to another node (TRYAGAIN); it needs no help but time"
        ))
        .again(),
        "CLUSTERDOWN" => Fault::stay(format!(
            "Redis at {addr} says that its cluster is down (CLUSTERDOWN); bring its nodes back, and set \
             cluster-require-full-coverage no, so that one shard does not stop the others"
        ))
        .again(),
        "READONLY" => replica(addr),
        "LOADING" => Fault::stay(format!(
            "Redis at {addr} is still loading its data (LOADING); it needs no help but time"
        ))
        .again(),
        "MASTERDOWN" => Fault::leave(format!(
            "Redis at {addr} is a replica that lost its primary (MASTERDOWN); point the URL at the primary"
        ))
        .again(),
        "MISCONF" => Fault::stay(format!(
            "Redis at {addr} refuses writes because it cannot save them (MISCONF); free its disk and see its log"
        )),
        "OOM" => Fault::stay(format!(
            "Redis at {addr} is out of memory (OOM); raise its maxmemory, or free some of what it holds"
        )),
        "BUSY" => Fault::stay(format!(
            "Redis at {addr} is busy with a script of somebody (BUSY); wait, or end it with SCRIPT KILL"
        )),
        "NOREPLICAS" => Fault::stay(format!(
            "Redis at {addr} has too few good replicas to take writes (NOREPLICAS); bring its replicas back"
        )),
        "NOAUTH" | "WRONGPASS" => Fault::leave(format!(
            "Redis at {addr} wants other credentials ({code}); put them into the URL: redis://user:password@host:port"
        )),
        "NOPERM" => Fault::stay(format!(
            "the Redis user may not do what Tipcast needs ({said}); docs/OPERATING.md has the ACL line"
        )),
        "CROSSSLOT" => Fault::stay(format!("Redis at {addr} answered: {said}")),
        "WRONGTYPE" => Fault::data(
            "a key under Tipcast's prefix holds something that Tipcast did not write (WRONGTYPE); remove it, \
             or give Tipcast a database or a key prefix of its own",
        ),
        "DAMAGED" => Fault::data(format!(
            "Redis holds {} that Tipcast did not write; restore the feed's keys, or remove them, and give Tipcast a \
             database or a key prefix of its own",
            error.detail().unwrap_or("something").split(" script:").next().unwrap_or_default()
        )),
        // Only a script of ours that stumbled over what it read says this. Any other ERR is the server's own, or a proxy's.
        "ERR" if error.detail().is_some_and(|it| it.starts_with("user_script:")) => Fault::data(format!(
            "a script stumbled over what Redis at {addr} holds ({said}); restore the feed's keys, or remove \
             them, and give Tipcast a database or a key prefix of its own"
        )),
        _ => Fault::stay(format!("Redis at {addr} answered: {said}")),
    }
}

fn redirected(addr: &Endpoint, error: &RedisError, code: &str) -> Fault {
    let why = format!(
        "Redis at {addr} says that another node has the feed ({code}); if it is part of a cluster, write \
         redis+cluster://{addr}"
    );
    let Some((text, _)) = error.redirect_node() else { return Fault::stay(why) };
    // Without a host it is another port of the same one.
    let to = match text.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port| Endpoint::Tcp(addr.host().to_owned(), port)),
        None => Endpoint::read(text),
    };
    let Some(to) = to else { return Fault::stay(why) };
    let kind = if code == "MOVED" { FaultKind::Moved(to) } else { FaultKind::Ask(to) };
    Fault { why, leave: false, kind }
}

/// There is no connection, and this is why.
pub fn failed(addr: &Endpoint, why: &str) -> Fault {
    let why = bounded(why);
    let advice = ADVICE.iter().find(|(sign, _)| why.contains(sign)).map_or("", |(_, advice)| advice);
    Fault::leave(format!("no connection to Redis at {addr}: {why}{advice}"))
}

/// What to do about what TLS says.
const ADVICE: [(&str, &str); 5] = [
    ("CertificateRequired", "; name a certificate that it trusts in [redis] client_cert and client_key"),
    ("UnknownCA", "; it does not trust the certificate in [redis] client_cert"),
    ("not valid for name", "; write the host into the URL by a name that its certificate has"),
    ("invalid peer certificate", "; name the authority of its certificate in [redis] ca_file"),
    ("InvalidContentType", "; it speaks no TLS there: write redis:// in place of rediss://"),
];

/// What others said, as much of it as anybody reads.
fn bounded(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

/// The server does not answer.
pub fn silent(addr: &Endpoint) -> String {
    format!("Redis at {addr} does not answer in time; see whether it, or the way to it, is stuck")
}

/// The server takes no writes, so nothing ran; where several servers are known, another one does.
pub fn replica(addr: &Endpoint) -> Fault {
    Fault::leave(format!("Redis at {addr} is a read-only replica; point the URL at the primary")).again()
}
