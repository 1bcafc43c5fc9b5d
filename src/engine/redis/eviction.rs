//! What a server does when its memory is full: refuse, or let go of keys that gifts are lost with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::protocol::address::Endpoint;
use crate::metrics::Metrics;

/// What is known of the servers, each said once and again when it is another.
#[derive(Clone)]
pub struct Eviction {
    metrics: Arc<Metrics>,
    /// Whether feeds expire when they are not written to: then their keys have a time to live.
    feeds_expire: bool,
    /// What each server may let go of; nothing of those that refuse.
    known: Arc<Mutex<HashMap<Endpoint, Option<String>>>>,
}

impl Eviction {
    pub fn new(metrics: Arc<Metrics>, feeds_expire: bool) -> Eviction {
        Eviction { metrics, feeds_expire, known: Arc::default() }
    }

    /// Reads what INFO says of the server's memory. A server that does not say counts as one that refuses.
    pub fn heard(&self, of: &Endpoint, info: &redis::InfoDict) {
        let policy = info.get::<String>("maxmemory_policy");
        let bounded = info.get::<u64>("maxmemory").is_some_and(|bytes| bytes > 0);
        let evicted = policy.filter(|_| bounded).and_then(|policy| {
            let what = self.what(&policy)?;
            Some(format!("{what} (maxmemory-policy {policy})"))
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert(of.clone(), evicted.clone());
        self.metrics.redis_may_evict.set(known.values().flatten().count() as i64);
        drop(known);
        match evicted {
            Some(evicted) if before.as_ref() != Some(&Some(evicted.clone())) => tracing::warn!(
                addr = %of,
                "when its memory is full, this Redis lets go of {evicted}; set maxmemory-policy noeviction, then it \
                 refuses instead and producers try again"
            ),
            None if before.flatten().is_some() => {
                tracing::info!(addr = %of, "this Redis lets go of nothing any more when its memory is full");
            }
            _ => {}
        }
    }

    /// What servers may let go of, and what to do; `None` when all of them refuse.
    pub fn warning(&self) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut evicted = known.iter().filter_map(|(of, evicted)| Some((of, evicted.as_ref()?)));
        let (of, what) = evicted.next()?;
        let others = match evicted.count() {
            0 => String::new(),
            others => format!("; so do {others} others"),
        };
        Some(format!(
            "when its memory is full, Redis at {of} lets go of {what}{others}; set maxmemory-policy noeviction"
        ))
    }

    /// Nothing of this server counts any more: it is not used.
    pub fn forget(&self, of: &Endpoint) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(of);
        self.metrics.redis_may_evict.set(known.values().flatten().count() as i64);
    }

    /// What a policy may let go of; none for one that refuses.
    fn what(&self, policy: &str) -> Option<&'static str> {
        match policy.split_once('-') {
            Some(("allkeys", _)) => Some(
                "whatever it holds: lists, ids, ledgers that nobody has read, scheduled gifts, drops with their stock",
            ),
            Some(("volatile", _)) if self.feeds_expire => Some(
                "ids, so that a retry counts twice, locks, and lists of feeds, which [redis] feed_idle_ttl_ms gives an end",
            ),
            Some(("volatile", _)) => Some("ids, so that a retry counts twice, and locks"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(maxmemory: u64, policy: &str) -> redis::InfoDict {
        let text = format!("# Memory\r\nmaxmemory:{maxmemory}\r\nmaxmemory_policy:{policy}\r\n");
        redis::InfoDict::new(&text)
    }

    #[test]
    fn servers_that_may_let_go_of_keys_are_counted() {
        let metrics = Arc::<Metrics>::default();
        let eviction = Eviction::new(metrics.clone(), false);
        let server = |port| Endpoint::Tcp("h".into(), port);
        let counted = |of, maxmemory, policy: &str| {
            eviction.heard(&server(of), &info(maxmemory, policy));
            metrics.redis_may_evict.get()
        };
        assert_eq!(counted(1, 1 << 20, "noeviction"), 0);
        assert_eq!(counted(2, 1 << 20, "allkeys-lru"), 1);
        assert_eq!(counted(3, 1 << 20, "volatile-ttl"), 2);
        assert_eq!(counted(3, 0, "volatile-ttl"), 1, "without a bound it is never full");
        assert_eq!(counted(2, 1 << 20, "noeviction"), 0, "it was set right");
        assert_eq!(counted(3, 1 << 20, "volatile-ttl"), 1);
        eviction.forget(&server(3));
        eviction.heard(&server(4), &redis::InfoDict::new(""));
        assert_eq!(metrics.redis_may_evict.get(), 0, "it does not say");
    }

    #[test]
    fn lists_go_by_the_policies_of_keys_that_expire_only_where_feeds_do() {
        let evicted =
            |feeds_expire| Eviction::new(Arc::default(), feeds_expire).what("volatile-lru").unwrap();
        assert!(evicted(true).contains("lists") && !evicted(false).contains("lists"));
    }
}
