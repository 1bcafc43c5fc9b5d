//! Claims that wait for entries. Who waits holds no thread and no connection of the store: only a
//! subscription of the feed, which all of them share.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::Gate;
use crate::auth::{KeyHash, Right};
use crate::domain::{FeedId, GroupId, Millis, Pull, Taken};
use crate::http::door::Caller;
use crate::http::problem::ApiError;

/// One key's share of the places: a half.
const KEY_SHARE: usize = 2;

/// One group's share of the places: a sixteenth.
const GROUP_SHARE: usize = 16;

/// How soon a claimer looks again after another one was quicker: many may wait for the same entries.
const CLAIM_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The places of claims that wait on this node. One key, or one group, has at most its share of them.
#[derive(Clone)]
pub struct WaitingClaims(Arc<Mutex<Places>>);

struct Places {
    most: usize,
    taken: usize,
    of_key: HashMap<KeyHash, usize>,
    of_group: HashMap<Group, usize>,
}

type Group = (FeedId, GroupId);

impl WaitingClaims {
    /// With this many places.
    pub fn new(most: usize) -> WaitingClaims {
        let (of_key, of_group) = Default::default();
        WaitingClaims(Arc::new(Mutex::new(Places { most, taken: 0, of_key, of_group })))
    }

    /// A place for another claim. The error is what a claim that finds nothing to take is answered without one.
    fn enter(&self, key: Option<KeyHash>, group: &Group) -> Result<WaitingPlace, ApiError> {
        let mut places = self.places();
        let share = |part: usize| (places.most / part).max(1);
        let has = |count: Option<&usize>| count.copied().unwrap_or(0);
        if places.taken >= places.most {
            return Err(ApiError::Overloaded("list of claims that wait"));
        }
        if key.is_some_and(|key| has(places.of_key.get(&key)) >= share(KEY_SHARE)) {
            return Err(ApiError::TooManyWaitingClaims("this key"));
        }
        if has(places.of_group.get(group)) >= share(GROUP_SHARE) {
            return Err(ApiError::TooManyWaitingClaims("this group"));
        }
        places.taken += 1;
        if let Some(key) = key {
            *places.of_key.entry(key).or_default() += 1;
        }
        *places.of_group.entry(group.clone()).or_default() += 1;
        Ok(WaitingPlace { all: self.clone(), key, group: group.clone() })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one claim; free again when dropped.
struct WaitingPlace {
    all: WaitingClaims,
    key: Option<KeyHash>,
    group: Group,
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut places = self.all.places();
        places.taken -= 1;
        if let Some(key) = self.key {
            leave(&mut places.of_key, key);
        }
        leave(&mut places.of_group, self.group.clone());
    }
}

/// Counts one less; who has none takes no room.
fn leave<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// Takes what there is for a group, waiting for it as long as was asked. A claim for which there is no place to wait gets
/// what is there at once, and an error where nothing is: an empty answer would bring its client back immediately. A
/// client that went away meanwhile may still be handed entries: their lease gives them to somebody else. Whose key
/// loses the right is not handed any more.
pub(super) async fn take(
    gate: &Gate,
    caller: &Caller,
    feed: &FeedId,
    group: &GroupId,
    pull: &Pull,
) -> Result<Taken, ApiError> {
    let take = || async {
        let taken = gate.run(gate.store.claim_entries(feed, group, pull.ask, Millis::now())).await?;
        taken.ok_or(ApiError::TooManyReaders)
    };
    if pull.wait_ms == 0 {
        return take().await;
    }
    let until = Instant::now() + Duration::from_millis(pull.wait_ms);
    let key = caller.identity.key().map(|key| key.id());
    let _place = match gate.waiting.enter(key, &(feed.clone(), group.clone())) {
        Ok(place) => place,
        Err(full) => {
            let taken = take().await?;
            return if taken.entries.is_empty() { Err(full) } else { Ok(taken) };
        }
    };
    // Before the first look: notices come of what follows it.
    let mut notices = gate.run(gate.store.subscribe(feed)).await?;
    let mut rules = gate.door.changes();
    let leaving = gate.live.leaving();
    tokio::pin!(leaving);
    loop {
        while notices.try_next().is_some() {}
        let taken = take().await?;
        let now = Instant::now();
        if !taken.entries.is_empty() || now >= until {
            return Ok(taken);
        }
        let lease_ends = taken.next_in_ms.map(|ms| now + Duration::from_millis(ms));
        let look_again = lease_ends.map_or(until, |at| at.min(until));
        tokio::select! {
            biased;
            () = &mut leaving => return Ok(taken),
            Ok(()) = rules.changed() => gate.door.still(caller, Right::Reports, feed.as_str(), Millis::now())?,
            notice = notices.next() => if notice.is_none() { return Ok(taken) },
            () = sleep_until(look_again) => {}
        }
        // The first to wake should not wait, and nobody should spin.
        tokio::select! {
            biased;
            () = &mut leaving => return Ok(taken),
            () = sleep(if now + CLAIM_RETRY_INTERVAL < Instant::now() { Duration::ZERO } else { CLAIM_RETRY_INTERVAL }) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Option<KeyHash> {
        Some(KeyHash::of(&format!("key {n}")))
    }

    fn group(n: usize) -> Group {
        ("show".parse().unwrap(), format!("g{n}").parse().unwrap())
    }

    #[test]
    fn one_key_takes_half_of_the_places_and_another_key_still_waits() {
        let waiting = WaitingClaims::new(64);
        let mine: Vec<_> = (0..32).map(|n| waiting.enter(key(1), &group(n)).unwrap()).collect();
        let full = waiting.enter(key(1), &group(99)).err();
        assert_eq!(full, Some(ApiError::TooManyWaitingClaims("this key")));
        let _other = waiting.enter(key(2), &group(0)).unwrap();
        drop(mine);
        assert!(waiting.enter(key(1), &group(99)).is_ok());
    }

    #[test]
    fn one_group_takes_a_sixteenth_of_the_places_whatever_its_keys() {
        let waiting = WaitingClaims::new(64);
        let _places: Vec<_> = (0..4).map(|n| waiting.enter(key(n), &group(0)).unwrap()).collect();
        let full = waiting.enter(key(5), &group(0)).err();
        assert_eq!(full, Some(ApiError::TooManyWaitingClaims("this group")));
        assert!(waiting.enter(key(5), &group(1)).is_ok());
    }

    #[test]
    fn there_are_so_many_places_in_all_and_each_is_given_back() {
        let waiting = WaitingClaims::new(40);
        let enter = |n: usize| waiting.enter(key(n / 10), &group(n));
        let places: Vec<_> = (0..40).map(|n| enter(n).unwrap()).collect();
        assert_eq!(enter(77).err(), Some(ApiError::Overloaded("list of claims that wait")));
        drop(places);
        let left = waiting.places();
        assert!(left.taken == 0 && left.of_key.is_empty() && left.of_group.is_empty());
    }
}
