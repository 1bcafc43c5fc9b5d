//! Who is the primary of which slots: asked of the cluster's nodes or of the sentinels.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Pipeline, Value};
use tokio::time::{Instant, timeout_at};

use super::dial::{Dial, DialError, Dialled};
use super::layout::Primary;
use crate::engine::protocol::address::{Endpoint, ServerKind};
use crate::engine::protocol::faults::{Fault, explain, silent};
use crate::engine::protocol::slots::SLOTS;

/// How long others may take once one has answered.
const OTHER_NODES_TIMEOUT: Duration = Duration::from_millis(300);

/// How long an answer may take.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// Nodes of a cluster that are asked at once: one may have a view that is old.
const NODES_ASKED_AT_ONCE: usize = 3;

/// Asks who has which slots. `known` are nodes that were primaries lately, those that answer first.
pub async fn discover(dial: &Dial, known: &[(Endpoint, bool)]) -> Result<Vec<Primary>, DialError> {
    let everything = || vec![0..=SLOTS - 1];
    match &dial.target.kind {
        ServerKind::Single(endpoint) => Ok(vec![Primary { endpoint: endpoint.clone(), slots: everything() }]),
        ServerKind::Sentinel(sentinels, master) => {
            let endpoint = elect(dial, sentinels, master, known.first()).await?;
            Ok(vec![Primary { endpoint, slots: everything() }])
        }
        ServerKind::Cluster(seeds) => {
            let up = known.iter().filter(|(_, up)| *up).map(|(endpoint, _)| endpoint.clone());
            let nearby: Vec<_> = up.take(NODES_ASKED_AT_ONCE).collect();
            if !nearby.is_empty()
                && let Ok(found) = newest_view(dial, &nearby).await
            {
                return Ok(found);
            }
            newest_view(dial, seeds).await
        }
    }
}

/// Asks several, each in its own time; once one has answered the others get a moment more.
async fn gather<T>(asks: impl Iterator<Item = impl Future<Output = T>>, good: impl Fn(&T) -> bool) -> Vec<T> {
    let mut asks: FuturesUnordered<_> = asks.collect();
    let mut until = Instant::now() + 2 * NODE_TIMEOUT;
    let mut answers = Vec::new();
    while let Ok(Some(answer)) = timeout_at(until, asks.next()).await {
        if good(&answer) {
            until = until.min(Instant::now() + OTHER_NODES_TIMEOUT);
        }
        answers.push(answer);
    }
    answers
}

async fn ask(
    to: &Endpoint,
    connected: Result<Dialled<impl Future<Output = ()> + Send + 'static>, Fault>,
    pipe: &Pipeline,
) -> Result<Vec<redis::RedisResult<Value>>, Fault> {
    let Dialled { connection, driver, cause } = connected?;
    let exchange = async {
        let mut connection: MultiplexedConnection = connection;
        connection.req_packed_commands(pipe, 0, pipe.cmd_iter().count()).await
    };
    tokio::select! {
        answer = tokio::time::timeout(NODE_TIMEOUT, exchange) => match answer {
            Ok(Ok(values)) => Ok(values.into_iter().map(Value::extract_error).collect()),
            Ok(Err(e)) => Err(cause.explain(to, explain(to, &e))),
            Err(_) => Err(Fault::leave(silent(to))),
        },
        () = driver => {
            Err(cause.explain(to, Fault::leave(format!("Redis at {to} closed the connection"))))
        }
    }
}

/// What one node says.
struct View {
    /// Whether it thinks that its cluster works, by which epoch, and the epoch of its own shard. The second grows
    /// everywhere before a replica is promoted, so it alone does not show which servers know of it already: the promoted node
    /// does, and the one that it replaced once that follows it, and theirs is the newest of the third.
    rank: (bool, u64, u64),
    primaries: Vec<Primary>,
}

async fn newest_view(dial: &Dial, nodes: &[Endpoint]) -> Result<Vec<Primary>, DialError> {
    let views = gather(nodes.iter().map(|node| view_of(dial, node)), Result::is_ok).await;
    let mut newest: Option<View> = None;
    let mut refusal = DialError::NotNow(Fault::stay("no node of the Redis cluster answers in time"));
    for view in views {
        match view {
            Ok(view) if newest.as_ref().is_none_or(|best| view.rank > best.rank) => {
                newest = Some(view);
            }
            Ok(_) => {}
            Err(why) => refusal = why,
        }
    }
    newest.map(|view| view.primaries).ok_or(refusal)
}

async fn view_of(dial: &Dial, node: &Endpoint) -> Result<View, DialError> {
    let mut pipe = redis::pipe();
    pipe.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let mut answers = ask(node, dial.commands(node).await, &pipe).await?;
    let (slots, info) = (answers.pop(), answers.pop());
    let slots = match slots {
        Some(Ok(slots)) => slots,
        Some(Err(e)) if e.to_string().contains("cluster support disabled") => {
            let scheme = if dial.target.tls { "rediss" } else { "redis" };
            return Err(DialError::Never(format!(
                "Redis at {node} is not part of a cluster; write {scheme}://{node}"
            )));
        }
        Some(Err(e)) => return Err(explain(node, &e).into()),
        None => return Err(Fault::leave(silent(node)).into()),
    };
    // Who may not ask for it is believed all the same.
    let info: String =
        info.and_then(Result::ok).and_then(|v| redis::from_redis_value(v).ok()).unwrap_or_default();
    let field = |name: &str| info.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_default();
    let primaries = read_slots(node, &slots).ok_or_else(|| {
        Fault::stay(format!("Redis at {node} answers CLUSTER SLOTS in a way that cannot be read"))
    })?;
    if primaries.is_empty() {
        return Err(Fault::stay(format!(
            "Redis at {node} knows of no node that has slots; is the cluster made?"
        ))
        .into());
    }
    let number = |name: &str| field(name).parse().unwrap_or(0);
    let rank =
        (field("cluster_state:") == "ok", number("cluster_current_epoch:"), number("cluster_my_epoch:"));
    Ok(View { rank, primaries })
}

/// Reads the answer of CLUSTER SLOTS: the first node of each range is its primary.
fn read_slots(asked: &Endpoint, answer: &Value) -> Option<Vec<Primary>> {
    let Value::Array(ranges) = answer else { return None };
    let mut found: HashMap<Endpoint, Vec<RangeInclusive<u16>>> = HashMap::new();
    for range in ranges {
        let Value::Array(parts) = range else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &parts[..] else {
            return None;
        };
        let [host, Value::Int(port), ..] = &primary[..] else { return None };
        let host = match host {
            Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
            Value::SimpleString(host) => host.clone(),
            _ => String::new(),
        };
        // A node that does not know its own address leaves it out.
        let host = if host.is_empty() || host == "?" { asked.host().to_owned() } else { host };
        let endpoint = Endpoint::Tcp(host, u16::try_from(*port).ok()?);
        let slots = u16::try_from(*first).ok()?..=u16::try_from(*last).ok().filter(|last| *last < SLOTS)?;
        found.entry(endpoint).or_default().push(slots);
    }
    let mut primaries: Vec<_> =
        found.into_iter().map(|(endpoint, slots)| Primary { endpoint, slots }).collect();
    primaries.iter_mut().for_each(|primary| primary.slots.sort_by_key(|range| *range.start()));
    primaries.sort_by_key(|primary| primary.slots.first().map_or(SLOTS, |range| *range.start()));
    Some(primaries)
}

/// The primary that the sentinels name. The present one is left only if most of all sentinels name another:
/// a few that answer may be those that were cut off.
async fn elect(
    dial: &Dial,
    sentinels: &[Endpoint],
    master: &str,
    current: Option<&(Endpoint, bool)>,
) -> Result<Endpoint, DialError> {
    let answers = gather(sentinels.iter().map(|it| named_by(dial, it, master)), Result::is_ok).await;
    let mut votes: HashMap<Endpoint, usize> = HashMap::new();
    let mut refusal = DialError::NotNow(Fault::stay("no sentinel answers in time; see whether they run"));
    for answer in answers {
        match answer {
            Ok(endpoint) => *votes.entry(endpoint).or_default() += 1,
            Err(why) => refusal = why,
        }
    }
    let most =
        votes.iter().max_by_key(|(endpoint, votes)| (**votes, current.is_some_and(|(c, _)| c == *endpoint)));
    match (most, current) {
        (Some((_, votes)), Some((current, true))) if *votes <= sentinels.len() / 2 => Ok(current.clone()),
        (Some((endpoint, _)), _) => Ok(endpoint.clone()),
        (None, Some((current, true))) => Ok(current.clone()),
        (None, _) => Err(refusal),
    }
}

async fn named_by(dial: &Dial, sentinel: &Endpoint, master: &str) -> Result<Endpoint, DialError> {
    let mut pipe = redis::pipe();
    pipe.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master);
    let answer = ask(sentinel, dial.sentinel(sentinel).await, &pipe).await?.pop();
    match answer.unwrap_or(Ok(Value::Nil)) {
        Ok(Value::Nil) => Err(Fault::stay(format!(
            "the sentinel at {sentinel} watches no primary named {master:?}; see SENTINEL MASTERS"
        ))
        .into()),
        Ok(value) => {
            let parts: (String, u16) = redis::from_redis_value(value)
                .map_err(|e| Fault::stay(format!("the sentinel at {sentinel} answered: {e}")))?;
            Ok(Endpoint::Tcp(parts.0, parts.1))
        }
        Err(e) if matches!(e.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM")) => Err(Fault::stay(format!(
            "the sentinel at {sentinel} wants other credentials ({e}); see [redis] sentinel_username and \
             sentinel_password"
        ))
        .into()),
        Err(e) if e.to_string().contains("unknown command") => Err(DialError::Never(format!(
            "the server at {sentinel} is no sentinel ({e}); write the sentinels' addresses, whose port is mostly 26379"
        ))),
        Err(e) => Err(explain(sentinel, &e).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_with_and_without_hosts() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let range = |first, last, host: Value, port| {
            Value::Array(vec![
                Value::Int(first),
                Value::Int(last),
                Value::Array(vec![host, Value::Int(port), text("id")]),
                Value::Array(vec![text("replica"), Value::Int(1), text("id")]),
            ])
        };
        let asked = Endpoint::Tcp("asked".into(), 1);
        let answer = Value::Array(vec![
            range(8_192, 16_383, text("b"), 2),
            range(0, 99, Value::Nil, 1),
            range(200, 8_191, text(""), 1),
        ]);
        let found = read_slots(&asked, &answer).unwrap();
        assert_eq!(found[0], Primary { endpoint: asked.clone(), slots: vec![0..=99, 200..=8_191] });
        assert_eq!(found[1].endpoint, Endpoint::Tcp("b".into(), 2));
        assert_eq!(read_slots(&asked, &Value::Array(vec![range(0, 16_384, text("b"), 2)])), None);
    }
}
