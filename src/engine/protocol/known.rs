//! The furthest position of each feed that this process has seen acknowledged: the floor under which
//! the store must not be. Scripts get it, and give the feed a new epoch when the store has gone back.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::{Change, FeedId, Millis, Position, Tag};

/// Feeds remembered, roughly; the ones not used lately go first.
const MAX_FEEDS: usize = 65_536;

/// A position and the mark of the change that led there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub at: Position,
    pub tag: Tag,
}

/// The furthest position of each feed that was acknowledged to this process.
#[derive(Default)]
pub struct SeenPositions {
    feeds: Mutex<Generations>,
}

/// Two halves: when the young one is full it becomes the old one, and the old one goes.
#[derive(Default)]
struct Generations {
    young: HashMap<FeedId, Mark>,
    old: HashMap<FeedId, Mark>,
}

impl Generations {
    fn get(&self, feed: &FeedId) -> Option<&Mark> {
        self.young.get(feed).or_else(|| self.old.get(feed))
    }

    fn put(&mut self, feed: &FeedId, mark: Mark) {
        if self.young.len() >= MAX_FEEDS / 2 && !self.young.contains_key(feed) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(feed.clone(), mark);
    }

    fn remove(&mut self, feed: &FeedId) {
        self.young.remove(feed);
        self.old.remove(feed);
    }
}

impl SeenPositions {
    fn locked(&self) -> MutexGuard<'_, Generations> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, feed: &FeedId) -> Option<Mark> {
        self.locked().get(feed).cloned()
    }

    /// Takes in the position of a reply to a call that carried `sent`: the script has checked that
    /// `sent` is its past.
    pub(crate) fn replied(&self, feed: &FeedId, sent: Option<&Mark>, mark: Mark) {
        let mut feeds = self.locked();
        let current = feeds.get(feed);
        if mark.at.epoch.is_none() {
            // The feed is gone; unless somebody saw it begin again while this reply was under way.
            if current == sent {
                feeds.remove(feed);
            }
            return;
        }
        let newer = current.is_none_or(|known| match known.at.epoch == mark.at.epoch {
            true => mark.at.seq > known.at.seq,
            false => mark.at.epoch.as_str() > known.at.epoch.as_str(),
        });
        if newer {
            feeds.put(feed, mark);
        }
    }

    /// Takes in a change that another node published. Nobody has checked it against what is known
    /// here, so it counts only when it follows: else a store that went back and moved on past us
    /// would never be found out.
    pub(crate) fn received(&self, feed: &FeedId, change: &Change) {
        let mut feeds = self.locked();
        let follows = match feeds.get(feed) {
            None => true,
            Some(known) if known.at.epoch == change.epoch => {
                change.seq == known.at.seq + 1 && change.prev == known.tag
            }
            Some(known) => change.epoch.as_str() > known.at.epoch.as_str(),
        };
        if follows {
            let at = Position { epoch: change.epoch.clone(), seq: change.seq };
            feeds.put(feed, Mark { at, tag: change.tag });
        }
    }
}

/// Digits of the time with which an epoch begins; behind them is the life of the server ([`ServerId::life`]).
///
/// A server that is started again may have come back from an older file, and the node that knew better may be gone: its
/// positions would be taken for others of the same numbers. So a feed that is met by another process of a server than the one
/// in which its epoch began gets a new epoch, unless that process was running before the feed's last change
/// (`lua/feed/doubt.lua`): a promoted replica, or where the slot went. What a failover loses is found by what is known here.
///
/// [`ServerId::life`]: crate::engine::redis::dial::ServerId::life
const TIME_LENGTH: usize = 9;

/// How a fresh epoch begins that sorts after `known`: epochs sort by the time they began, and the clock of the
/// node that began `known` may be ahead of ours.
pub(crate) fn epoch_after(known: Option<&Mark>) -> String {
    epoch_at(Millis::now(), known.map_or("", |mark| mark.at.epoch.as_str()))
}

/// How an epoch begins that begins now and sorts after `known`.
pub(crate) fn epoch_at(now: Millis, known: &str) -> String {
    let began = known.get(..TIME_LENGTH).and_then(|digits| u64::from_str_radix(digits, 36).ok());
    let mut n = (now.0 as u64).max(began.map_or(0, |began| began.saturating_add(1)));
    let mut digits = [b'0'; TIME_LENGTH];
    for slot in digits.iter_mut().rev() {
        *slot = char::from_digit((n % 36) as u32, 36).unwrap_or('0') as u8;
        n /= 36;
    }
    String::from_utf8_lossy(&digits).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Op;

    fn mark(epoch: &str, seq: u64, tag: Tag) -> Mark {
        Mark { at: Position { epoch: epoch.parse().unwrap(), seq }, tag }
    }

    #[test]
    fn known_positions_only_move_along_checked_ones() {
        let (known, feed) = (SeenPositions::default(), "f".parse().unwrap());
        known.replied(&feed, None, mark("e1", 5, 50));
        known.replied(&feed, None, mark("e1", 4, 40));
        assert_eq!(known.get(&feed), Some(mark("e1", 5, 50)));
        let change = |seq, prev, tag| Change { epoch: "e1".parse().unwrap(), seq, prev, tag, op: Op::Reset };
        known.received(&feed, &change(6, 49, 60));
        known.received(&feed, &change(8, 70, 80));
        assert_eq!(known.get(&feed), Some(mark("e1", 5, 50)), "a fork and a gap prove nothing");
        known.received(&feed, &change(6, 50, 60));
        assert_eq!(known.get(&feed), Some(mark("e1", 6, 60)));
        known.replied(&feed, None, mark("e0", 9, 90));
        assert_eq!(known.get(&feed), Some(mark("e1", 6, 60)), "an older life");
        known.replied(&feed, Some(&mark("e1", 5, 50)), mark("0", 0, 0));
        assert_eq!(known.get(&feed), Some(mark("e1", 6, 60)), "it has moved since");
        known.replied(&feed, Some(&mark("e1", 6, 60)), mark("0", 0, 0));
        assert_eq!(known.get(&feed), None);
    }

    #[test]
    fn a_candidate_sorts_after_what_is_known_even_with_a_clock_behind() {
        let ahead = mark("zzzz00000abcde", 1, 1);
        let next = epoch_after(Some(&ahead));
        assert_eq!(next, "zzzz00001");
        let now = epoch_after(None);
        assert!(
            now.len() == TIME_LENGTH
                && now.as_str() > epoch_after(Some(&mark("0000000000000", 1, 1))).get(..4).unwrap()
        );
    }
}
