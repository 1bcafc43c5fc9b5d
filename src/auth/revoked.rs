//! Viewers whose tokens were revoked: known on every node, judged without I/O.
//!
//! A store remembers them ([`Store::revoke_viewer`]); [`follow`] brings to a node what it does not have yet. A
//! node that waits for the store to say so for the first time takes no token: one that was revoked before the node
//! started must not open anything.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::domain::Millis;
use crate::engine::{Revocation, RevokedAt, Store, StoreError};
use crate::supervise::{Beat, faults};

/// How often a node asks a store that does not answer for what is new. With the time that the answer takes
/// it keeps the promise of one second.
const POLL_INTERVAL: Duration = Duration::from_millis(400);

/// How often it asks although it was not woken, in case that was missed: after an interruption the store says so by itself.
const AT_LEAST: Duration = Duration::from_secs(5);

/// Revocations read at once.
const REVOCATIONS_PER_READ: usize = 1_000;

/// How often those that concern no token any more are let go, in rounds of [`POLL_INTERVAL`].
const TIDY_EVERY: u32 = 150;

/// A number in the place of a viewer where only its equality matters. Never 0. Other in each process, so that no one can
/// make two viewers that are taken for each other.
pub fn viewer_mark(sub: &str) -> u64 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    STATE.hash_one(sub).max(1)
}

/// What a node knows of revocations.
#[derive(Debug, Default)]
pub struct Revoked {
    by_viewer: RwLock<HashMap<u64, RevokedViewer>>,
    /// Tokens whose time of issue was still to come when they were shown.
    ahead: Mutex<HashMap<u64, Ahead>>,
    /// The store has not said yet what is revoked.
    awaited: AtomicBool,
}

/// A token of an issuer whose clock is ahead, within the leeway.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    issued_at: Millis,
    /// It existed then, so a revocation from after that concerns it whatever its `iat` says.
    shown_at: Millis,
}

/// Viewers whose tokens are ahead that are remembered; each is forgotten within the leeway.
const AHEAD_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
struct RevokedViewer {
    /// Tokens from before this are refused.
    before: Millis,
    /// No such token lives any more from then on.
    until: Millis,
}

impl Revoked {
    /// Whether a token of the viewer of this mark, issued then, is revoked.
    pub fn is_revoked(&self, mark: u64, issued_at: Millis) -> bool {
        let known = self.by_viewer.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&mark).is_some_and(|entry| issued_at < entry.before)
    }

    /// Whether the store has not said yet what is revoked.
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Acquire)
    }

    /// From here on nothing counts as known until the store has said what is revoked.
    pub fn await_store(&self) {
        self.awaited.store(true, Ordering::Release);
    }

    /// Remembers a good token of the viewer of this mark if it says that it is issued after `now`.
    pub fn note_shown(&self, mark: u64, issued_at: Millis, now: Millis) {
        if issued_at <= now {
            return;
        }
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if ahead.len() >= AHEAD_MAX {
            ahead.retain(|_, token| token.issued_at > now);
        }
        let is_newer = ahead.get(&mark).is_none_or(|known| known.issued_at < issued_at);
        if is_newer && (ahead.len() < AHEAD_MAX || ahead.contains_key(&mark)) {
            ahead.insert(mark, Ahead { issued_at, shown_at: now });
        }
    }

    /// `before`, moved on so far that a revocation covers the tokens of the viewer of this mark that were shown before it.
    pub fn covering(&self, mark: u64, before: Millis) -> Millis {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        match ahead.get(&mark) {
            Some(token) if token.shown_at <= before => before.max(token.issued_at.plus(1)),
            _ => before,
        }
    }

    /// Refuses what the viewer of this mark was issued before then. What was refused stays so. True when that is
    /// news.
    pub fn refuse(&self, mark: u64, before: Millis, until: Millis) -> bool {
        let before = self.covering(mark, before);
        let mut known = self.by_viewer.write().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(mark).or_insert(RevokedViewer { before: Millis(i64::MIN), until });
        let news = entry.before < before;
        entry.before = entry.before.max(before);
        entry.until = entry.until.max(until);
        news
    }

    /// Lets go of what concerns no token any more.
    fn tidy(&self, now: Millis) {
        let mut known = self.by_viewer.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, entry| now < entry.until);
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.by_viewer.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Keeps `revoked` as the store has it, whenever `is_needed` says so. `refuse` puts into it what is new.
pub async fn follow(
    store: Store,
    revoked: Arc<Revoked>,
    is_needed: impl Fn() -> bool,
    refuse: impl Fn(&Revocation),
    beat: Beat,
) {
    let (mut at, mut rounds, mut failing) = (RevokedAt::default(), 0_u32, false);
    let mut wakes = store.revocation_wakes();
    // When what there is was read without a failure, and whether the store has announced more since.
    let (mut read, mut woken) = (None::<Instant>, false);
    loop {
        beat.works();
        faults::pass("revocations").await;
        let is_known = !woken && read.is_some_and(|read| read.elapsed() < AT_LEAST);
        if !is_needed() {
            read = None;
        } else if !is_known {
            let asked = Instant::now();
            read = None;
            match read_new(&store, &revoked, &mut at, &refuse).await {
                Ok(()) => (failing, read) = (false, Some(asked)),
                Err(why) => {
                    if !failing {
                        tracing::warn!(%why, "what is revoked cannot be read; what this node knows stays in force");
                    }
                    failing = true;
                }
            }
        }
        rounds = rounds.wrapping_add(1);
        if rounds.is_multiple_of(TIDY_EVERY) {
            revoked.tidy(Millis::now());
        }
        beat.rests();
        woken = tokio::time::timeout(POLL_INTERVAL, wakes.next()).await.is_ok();
    }
}

/// Reads what is new since `at`, page by page.
pub async fn read_new(
    store: &Store,
    revoked: &Revoked,
    at: &mut RevokedAt,
    refuse: &impl Fn(&Revocation),
) -> Result<(), StoreError> {
    loop {
        let page = store.list_revocations(at, REVOCATIONS_PER_READ).await?;
        page.revoked.iter().for_each(refuse);
        // A page without any that can be read may still have moved on.
        let over = *at == page.at;
        *at = page.at;
        if over {
            revoked.awaited.store(false, Ordering::Release);
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_was_shown_before_a_revocation_is_covered_whatever_its_time_of_issue() {
        let revoked = Revoked::default();
        let mark = viewer_mark("ann");
        revoked.note_shown(mark, Millis(4_000), Millis(1_000));
        assert!(revoked.refuse(mark, Millis(500), Millis(90_000)), "from before it was shown");
        assert!(!revoked.is_revoked(mark, Millis(4_000)));
        assert!(revoked.refuse(mark, Millis(1_500), Millis(90_000)));
        assert!(revoked.is_revoked(mark, Millis(4_000)) && !revoked.is_revoked(mark, Millis(4_001)));
        let other = viewer_mark("eve");
        assert!(revoked.refuse(other, Millis(1_500), Millis(90_000)));
        assert!(!revoked.is_revoked(other, Millis(1_500)), "one that is issued from then on is good at once");
    }

    #[test]
    fn a_revoked_token_stays_refused_for_its_whole_life() {
        let revoked = Revoked::default();
        let mark = viewer_mark("ann");
        assert!(revoked.refuse(mark, Millis(1_000), Millis(5_000)));
        assert!(!revoked.refuse(mark, Millis(500), Millis(4_500)), "it never moves back");
        assert!(revoked.is_revoked(mark, Millis(999)) && !revoked.is_revoked(mark, Millis(1_000)));
        assert!(!revoked.is_revoked(viewer_mark("eve"), Millis(0)));
        revoked.tidy(Millis(4_999));
        assert!(revoked.is_revoked(mark, Millis(999)));
        revoked.tidy(Millis(5_000));
        assert!(revoked.is_empty());
    }
}
