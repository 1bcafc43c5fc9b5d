//! What strangers may cost: how much one address, and all of them together, can make a node follow, and how
//! fast one connection may ask. Honest viewers meet none of these.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::moment::MonoTime;
use crate::metrics::Metrics;
use crate::metrics::labels::Bound;

/// The bounds; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchLimits {
    /// Feeds that the node follows at the same time.
    pub followed_feeds: usize,
    /// Feeds watched from one address, each connection's counted.
    pub subscriptions_per_address: usize,
    /// Feeds that one address may make the node begin to follow: in a second, and at once after a pause.
    pub new_feeds: Rate,
    /// Commands on one connection: in a second, and at once after a pause.
    pub commands: Rate,
    /// Bytes of what is sent before a watcher is where the feed is: in a second, and at once after a pause.
    pub replay_bytes: Rate,
    /// Bytes of missed changes read from the store for the watchers of one address: in a second, and at once after a
    /// pause.
    pub history_bytes: Rate,
    /// The same for all watchers of the node.
    pub history_bytes_of_node: Rate,
}

/// How many in a second, and how many at once after a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// In the long run; 0 is no limit.
    pub per_second: u32,
    /// At once, at least one.
    pub burst: u32,
}

/// Why a feed cannot be watched now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The node follows as many feeds as it may.
    Followed,
    /// The address watches as many as it may.
    Subscriptions,
    /// The address has asked for too many feeds that nobody else watches.
    NewFeeds,
}

impl Refused {
    /// For the client: a code, and what to do.
    pub fn explained(self) -> (&'static str, &'static str) {
        match self {
            Refused::Followed => {
                ("no_place", "this server follows as many feeds as it may; come back in a while")
            }
            Refused::Subscriptions => (
                "too_many_subscriptions",
                "as many feeds as may be are watched from this address; unsubscribe some first",
            ),
            Refused::NewFeeds => (
                "too_many_new_feeds",
                "feeds that nobody else watches are asked for too fast from this address; wait a second",
            ),
        }
    }

    /// The bound that was met.
    pub fn bound(self) -> Bound {
        match self {
            Refused::Followed => Bound::FollowedFeeds,
            Refused::Subscriptions => Bound::SubscriptionsPerAddress,
            Refused::NewFeeds => Bound::NewFeeds,
        }
    }
}

/// How far a rate is used up: the moment at which it is free again. Never more than the burst ahead, and
/// whatever is charged is charged whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used(MonoTime);

impl Used {
    pub(super) fn nothing(now: MonoTime) -> Used {
        Used(now)
    }

    /// Until when there is nothing left; none while there is.
    #[inline]
    pub(super) fn up_until(self, rate: Rate, now: MonoTime) -> Option<MonoTime> {
        // Mostly nothing is used, and each watcher asks with each gift.
        if rate.per_second == 0 || self.0 <= now {
            return None;
        }
        let ahead = Duration::from_secs_f64(f64::from(rate.burst.max(1)) / f64::from(rate.per_second));
        // The last of a burst leaves exactly all of it used.
        let free = self.0;
        (free.since(now) >= ahead).then(|| free - ahead)
    }

    pub(super) fn charge(&mut self, rate: Rate, count: usize, now: MonoTime) {
        if rate.per_second > 0 {
            let more = Duration::from_secs_f64(count as f64 / f64::from(rate.per_second));
            self.0 = self.0.max(now) + more;
        }
    }

    /// Less was needed than was charged.
    fn refund(&mut self, rate: Rate, count: usize) {
        if rate.per_second > 0 {
            self.0 = self.0 - Duration::from_secs_f64(count as f64 / f64::from(rate.per_second));
        }
    }
}

/// What a page of history is charged while it is read, in bytes: a page may be half or twice this. So watchers that ask
/// at the same time do not all find the budget unused.
const PAGE_RESERVED: usize = 256 << 10;

/// The least that a page of history is charged, in bytes: each is a call to the store.
const PAGE_LEAST: usize = 4 << 10;

/// Rankings that one address may make a node read from the store. Most are in memory: these are of users, periods and
/// measures that nobody else asks for.
const RANKINGS: Rate = Rate { per_second: 20, burst: 60 };

/// The limits and what each address has of them.
pub(super) struct Bounds {
    limits: ArcSwap<WatchLimits>,
    shares: Mutex<HashMap<IpAddr, Share>>,
    /// Bytes of history read for all watchers, of what may.
    history: Mutex<Used>,
    metrics: Arc<Metrics>,
}

struct Share {
    subscriptions: usize,
    new_feeds: Used,
    history: Used,
    rankings: Used,
}

impl Share {
    fn unused(now: MonoTime) -> Share {
        let nothing = Used::nothing(now);
        Share { subscriptions: 0, new_feeds: nothing, history: nothing, rankings: nothing }
    }
}

impl Bounds {
    pub(super) fn new(metrics: Arc<Metrics>) -> Arc<Bounds> {
        let history = Mutex::new(Used::nothing(MonoTime::now()));
        Arc::new(Bounds { limits: ArcSwap::default(), shares: Mutex::default(), history, metrics })
    }

    pub(super) fn change(&self, limits: WatchLimits) {
        self.limits.store(Arc::new(limits));
    }

    pub(super) fn limits(&self) -> WatchLimits {
        **self.limits.load()
    }

    /// Counts what a bound kept from happening.
    pub(super) fn met(&self, bound: Bound) {
        self.metrics.bounds_met[bound].inc();
    }

    /// Room for one more watched feed of an address; none is not limited. `watched`: by how many on this node, none
    /// when it does not follow the feed yet; it follows `followed` feeds.
    pub(super) fn admit(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        watched: Option<usize>,
        followed: usize,
        now: MonoTime,
    ) -> Result<Admission, Refused> {
        let new = watched.is_none();
        let limits = self.limits();
        let beyond = |most: usize, count: usize| most > 0 && count >= most;
        let judge = || {
            if new && beyond(limits.followed_feeds, followed) {
                return Err(Refused::Followed);
            }
            let Some(address) = address else { return Ok(()) };
            let mut shares = self.locked();
            let share = shares.entry(address).or_insert_with(|| Share::unused(now));
            if beyond(limits.subscriptions_per_address, share.subscriptions) {
                return Err(Refused::Subscriptions);
            }
            if new {
                if share.new_feeds.up_until(limits.new_feeds, now).is_some() {
                    return Err(Refused::NewFeeds);
                }
                share.new_feeds.charge(limits.new_feeds, 1, now);
            }
            share.subscriptions += 1;
            Ok(())
        };
        judge()?;
        Ok(Admission { bounds: self.clone(), address, watched: watched.unwrap_or(0) })
    }

    /// Reserves a page of history for a watcher from `address`. False when the address, or the node, has read as much
    /// as it may: the watcher then gets a snapshot, which costs the store nothing.
    pub(super) fn reserve_history(&self, address: Option<IpAddr>, now: MonoTime) -> bool {
        let limits = self.limits();
        let mut node = self.history();
        let mut shares = self.locked();
        let mut share = address.map(|address| shares.entry(address).or_insert_with(|| Share::unused(now)));
        let address_is_used_up =
            share.as_ref().is_some_and(|share| share.history.up_until(limits.history_bytes, now).is_some());
        if address_is_used_up || node.up_until(limits.history_bytes_of_node, now).is_some() {
            self.met(Bound::HistoryBytes);
            return false;
        }
        node.charge(limits.history_bytes_of_node, PAGE_RESERVED, now);
        if let Some(share) = &mut share {
            share.history.charge(limits.history_bytes, PAGE_RESERVED, now);
        }
        true
    }

    /// A page that was reserved came, and has this many bytes.
    pub(super) fn settle_history(&self, address: Option<IpAddr>, bytes: usize, now: MonoTime) {
        self.metrics.history_bytes.inc_by(bytes as u64);
        let limits = self.limits();
        let bytes = bytes.max(PAGE_LEAST);
        let settle = |used: &mut Used, rate: Rate| match bytes.checked_sub(PAGE_RESERVED) {
            Some(more) => used.charge(rate, more, now),
            None => used.refund(rate, PAGE_RESERVED - bytes),
        };
        settle(&mut self.history(), limits.history_bytes_of_node);
        if let Some(address) = address
            && let Some(share) = self.locked().get_mut(&address)
        {
            settle(&mut share.history, limits.history_bytes);
        }
    }

    /// Whether a ranking may be read from the store for `address`, which is charged for it.
    pub(super) fn admit_ranking(&self, address: IpAddr, now: MonoTime) -> bool {
        let mut shares = self.locked();
        let share = shares.entry(address).or_insert_with(|| Share::unused(now));
        let may = share.rankings.up_until(RANKINGS, now).is_none();
        if may {
            share.rankings.charge(RANKINGS, 1, now);
        }
        may
    }

    /// An address watches one feed less.
    pub(super) fn give_back(&self, address: Option<IpAddr>) {
        let Some(address) = address else { return };
        if let Some(share) = self.locked().get_mut(&address) {
            share.subscriptions -= 1;
        }
    }

    /// Forgets addresses that have nothing.
    pub(super) fn tidy(&self, now: MonoTime) {
        let is_used = |used: &Used| used.0 > now;
        self.locked().retain(|_, share| {
            share.subscriptions > 0
                || [&share.new_feeds, &share.history, &share.rankings].into_iter().any(is_used)
        });
    }

    /// Locked before [`Bounds::locked`] where both are.
    fn history(&self) -> MutexGuard<'_, Used> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<IpAddr, Share>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to watch one feed, for as long as it lives, or until the session that took it over gives it back.
pub struct Admission {
    bounds: Arc<Bounds>,
    address: Option<IpAddr>,
    /// How many watched the feed on this node when it was given.
    pub watched: usize,
}

impl Admission {
    /// Lives on as one of its address until [`Bounds::give_back`]: a watcher of an idle feed need not remember
    /// for each feed what it knows already.
    pub(super) fn take_over(mut self) {
        self.address = None;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.bounds.give_back(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(limits: WatchLimits) -> Arc<Bounds> {
        let bounds = Bounds::new(Arc::default());
        bounds.change(limits);
        bounds
    }

    #[test]
    fn an_address_watches_so_many_feeds_and_others_are_not_touched() {
        let bounds = bounds(WatchLimits { subscriptions_per_address: 2, ..WatchLimits::default() });
        let (one, two, now) = ("1.1.1.1".parse().ok(), "2.2.2.2".parse().ok(), MonoTime::now());
        let mut held: Vec<_> = (0..2).map(|_| bounds.admit(one, Some(1), 0, now).ok().unwrap()).collect();
        assert_eq!(bounds.admit(one, Some(1), 0, now).err(), Some(Refused::Subscriptions));
        assert!(bounds.admit(two, Some(1), 0, now).is_ok() && bounds.admit(None, Some(1), 0, now).is_ok());
        held.pop();
        assert!(bounds.admit(one, Some(1), 0, now).is_ok());
        drop(held);
        bounds.tidy(now + Duration::from_secs(1));
        assert!(bounds.locked().is_empty(), "an address that left is forgotten");
    }

    #[test]
    fn new_feeds_are_limited_for_each_address_and_for_the_node_and_known_ones_are_not() {
        let new_feeds = Rate { per_second: 10, burst: 3 };
        let bounds = bounds(WatchLimits { followed_feeds: 100, new_feeds, ..WatchLimits::default() });
        let (one, now) = ("1.1.1.1".parse().ok(), MonoTime::now());
        let held: Vec<_> = (0..3).map(|_| bounds.admit(one, None, 0, now).ok().unwrap()).collect();
        assert_eq!(bounds.admit(one, None, 0, now).err(), Some(Refused::NewFeeds));
        assert!(bounds.admit(one, Some(1), 0, now).is_ok(), "somebody else watches it");
        assert!(
            bounds.admit(one, None, 0, now + Duration::from_millis(101)).is_ok(),
            "a tenth of a second later"
        );
        assert_eq!(bounds.admit(None, None, 100, now).err(), Some(Refused::Followed));
        assert!(bounds.admit(None, Some(1), 100, now).is_ok());
        drop(held);
    }

    #[test]
    fn history_is_read_up_to_its_budget_by_each_address_and_by_all_and_again_after_a_while() {
        let one_page = Rate { per_second: 1 << 20, burst: 1 << 20 };
        let three_pages = Rate { per_second: 1 << 20, burst: 3 << 20 };
        let limits = WatchLimits {
            history_bytes: one_page,
            history_bytes_of_node: three_pages,
            ..WatchLimits::default()
        };
        let (bounds, now) = (bounds(limits), MonoTime::now());
        let address = |n: u8| Some(IpAddr::from([9, 9, 9, n]));
        let read = |address, bytes, now| {
            let may = bounds.reserve_history(address, now);
            if may {
                bounds.settle_history(address, bytes, now);
            }
            may
        };
        assert!(read(address(1), 1 << 20, now) && !read(address(1), 1, now));
        assert!(read(address(2), 1 << 20, now) && read(None, 1 << 20, now));
        assert!(!read(address(3), 1, now), "the node has read as much as it may");
        assert_eq!(bounds.metrics.history_bytes.get(), 3 << 20);
        assert_eq!(bounds.metrics.bounds_met[Bound::HistoryBytes].get(), 2);
        assert!(read(address(1), 1, now + Duration::from_millis(1_001)));
    }

    #[test]
    fn pages_of_history_that_are_being_read_count_until_they_came_and_short_ones_as_a_call() {
        let rate = Rate { per_second: 1 << 20, burst: 1 << 20 };
        let bounds = bounds(WatchLimits { history_bytes: rate, ..WatchLimits::default() });
        let (address, now) = ("9.9.9.9".parse().ok(), MonoTime::now());
        let most = (1 << 20) / PAGE_RESERVED;
        assert_eq!((0..60).filter(|_| bounds.reserve_history(address, now)).count(), most);
        (0..most).for_each(|_| bounds.settle_history(address, 10, now));
        let mut calls = most;
        while bounds.reserve_history(address, now) {
            bounds.settle_history(address, 10, now);
            calls += 1;
        }
        assert!((200..=256).contains(&calls), "{calls}");
        bounds.tidy(now + Duration::from_secs(2));
        assert!(bounds.locked().is_empty());
    }

    #[test]
    fn a_rate_gives_its_burst_and_then_says_until_when_it_is_used_up() {
        let (rate, now) = (Rate { per_second: 100, burst: 200 }, MonoTime::now());
        let mut used = Used::nothing(now);
        used.charge(rate, 199, now);
        assert_eq!(used.up_until(rate, now), None);
        used.charge(rate, 301, now);
        assert_eq!(used.up_until(rate, now), Some(now + Duration::from_secs(3)));
        assert_eq!(used.up_until(rate, now + Duration::from_millis(3_001)), None);
        assert_eq!(used.up_until(Rate::default(), now), None);
    }
}
