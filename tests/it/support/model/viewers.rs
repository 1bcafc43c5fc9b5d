//! The oracle's revoked viewers: the contract's section 7 as far as a store has part in it.

use tipcast::domain::Millis;
use tipcast::engine::{Revocation, RevokedAt, RevokedPage};

use super::Model;

impl Model {
    pub(crate) fn revoke(&self, mut what: Revocation, _: Millis) -> Millis {
        let mut all = self.revoked.lock().unwrap();
        let known = all.iter().position(|(_, one)| one.sub == what.sub);
        let last = all.iter().map(|(no, _)| *no).max().unwrap_or(0);

        match known.map(|at| (at, all[at].1.clone())) {
            Some((_, old)) if old.before >= what.before => old.before,
            old => {
                if let Some((at, old)) = old {
                    what.until = what.until.max(old.until);
                    all.remove(at);
                }
                let before = what.before;
                all.push((last + 1, what));
                before
            }
        }
    }

    pub(crate) fn revoked(&self, after: &RevokedAt, max: usize) -> RevokedPage {
        let all = self.revoked.lock().unwrap();
        let next: Vec<_> = all.iter().filter(|(no, _)| *no > after.seq).take(max).cloned().collect();
        let seq = next.last().map_or(after.seq, |(no, _)| *no);
        let at = RevokedAt { life: String::new(), seq };

        RevokedPage { revoked: next.into_iter().map(|(_, one)| one).collect(), at }
    }
}
