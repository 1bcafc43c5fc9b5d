//! Viewers whose tokens were revoked, all in one slot: they are of no feed.

use std::sync::Arc;

use crate::domain::Millis;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::tags::random;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::runner::Runner;
use crate::engine::{REVOKED_MAX, Revocation, RevokedAt, RevokedPage};

/// Revoked viewers.
pub(crate) struct Viewers {
    pub runner: Arc<Runner>,
}

impl Viewers {
    fn with_keys(&self, mut call: Call) -> Call {
        for (name, key) in ["revoked", "order", "ends", "head"].into_iter().zip(self.runner.keys.revoked()) {
            call.key(name, key);
        }
        call
    }

    /// None: there are as many as may be.
    pub async fn revoke(&self, what: &Revocation, now: Millis) -> Result<Option<Millis>, Fault> {
        let mut call = self.with_keys(self.runner.timed(&scripts::VIEWERS_REVOKE, Some(now)));
        call.arg("sub", &*what.sub).arg("before", what.before.0);
        call.arg("ends_at", what.until.0).arg("life", random()).arg("viewers_at_most", REVOKED_MAX);
        call.arg("wake_channel", self.runner.keys.revoked_wake());
        let reply: String = self.runner.run(&call).await?;
        match &*reply {
            "full" => Ok(None),
            before => Ok(Some(Millis(before.parse().map_err(|_| Corrupt("a reply"))?))),
        }
    }

    pub async fn revoked(&self, after: &RevokedAt, max: usize) -> Result<RevokedPage, Fault> {
        // Mostly there is nothing new, which one command says.
        let [.., head] = self.runner.keys.revoked();
        let ask = redis::cmd("HMGET").arg(&head).arg("life").arg("seq").take();
        let known: (Option<String>, Option<u64>) = self.runner.get(&head, &ask).await?;
        if known == (Some(after.life.clone()), Some(after.seq))
            || known == (None, None) && after.life.is_empty()
        {
            return Ok(RevokedPage { revoked: Vec::new(), at: after.clone() });
        }
        let mut call = self.with_keys(Call::of(&scripts::VIEWERS_REVOKED));
        call.arg("life", &after.life).arg("after", after.seq).arg("at_most", max);
        let texts: Vec<String> = self.runner.run(&call).await?;
        let [life, seq, revoked @ ..] = &texts[..] else { return Err(Corrupt("a reply").into()) };
        let seq = seq.parse().map_err(|_| Corrupt("a reply"))?;
        let read = |pair: &[String]| {
            let [sub, times] = pair else { return None };
            let (before, until) = times.split_once(' ')?;
            let [before, until] = [before, until].map(|ms| ms.parse().ok().map(Millis));
            Some(Revocation { sub: sub.as_str().into(), before: before?, until: until? })
        };
        let revoked = revoked.chunks(2).map(read).collect::<Option<_>>().ok_or(Corrupt("a revocation"))?;
        Ok(RevokedPage { revoked, at: RevokedAt { life: life.clone(), seq } })
    }
}
