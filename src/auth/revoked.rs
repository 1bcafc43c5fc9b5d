//! Viewers whose tokens were revoked: known on every node, judged without I/O.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, PoisonError, RwLock};

use crate::domain::Millis;

/// What stands for a viewer where only its equality matters. Never 0. Other in each process, so that nobody can
/// make two viewers that are taken for each other.
pub fn viewer_mark(sub: &str) -> u64 {
    static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    STATE.hash_one(sub).max(1)
}

/// What a node knows of revocations.
#[derive(Debug, Default)]
pub struct Revoked {
    by_viewer: RwLock<HashMap<u64, Entry>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
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

    /// Refuses what the viewer of this mark was issued before then. What was refused stays so. True when that is
    /// news.
    pub fn refuse(&self, mark: u64, before: Millis, until: Millis) -> bool {
        let mut known = self.by_viewer.write().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(mark).or_insert(Entry { before: Millis(i64::MIN), until });
        let news = entry.before < before;
        entry.before = entry.before.max(before);
        entry.until = entry.until.max(until);
        news
    }

    /// Lets go of what concerns no token any more.
    pub fn tidy(&self, now: Millis) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_never_taken_again_until_no_such_token_lives() {
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
