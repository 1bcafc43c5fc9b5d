//! Viewers whose tokens were revoked, all in one slot: they are of no feed.

use crate::domain::Millis;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts::{self, Call};
use crate::engine::protocol::tags::random;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::runner::Runner;
use crate::engine::{REVOKED_MAX, Revocation, RevokedAt, RevokedPage, StoreResult};
use crate::metrics::labels::Operation;

impl Store {
    /// Has tokens of a viewer refused that were issued before a time; gives the time that holds, which never moves
    /// back.
    pub async fn revoke_viewer(&self, revocation: &Revocation, now: Millis) -> StoreResult<Millis> {
        self.measured(Operation::Revoke, None, async {
            let runner = &self.parts.runner;
            let mut call = with_keys(&self.parts.runner, runner.timed(&scripts::VIEWERS_REVOKE, Some(now)));
            call.arg("sub", &*revocation.sub).arg("before", revocation.before.0);
            call.arg("ends_at", revocation.until.0).arg("life", random()).arg("viewers_at_most", REVOKED_MAX);
            call.arg("wake_channel", runner.keys.revoked_wake());
            let reply: String = runner.run(&call).await?;
            match &*reply {
                "full" => Err(Fault::overloaded("list of revoked viewers")),
                before => Ok(Millis(before.parse().map_err(|_| Corrupt("a reply"))?)),
            }
        })
        .await
    }

    /// Lists revocations after those that were read, at most `max`. A reader that read in another life of the
    /// store begins anew. A viewer who is revoked again comes again, after the others.
    pub async fn list_revocations(&self, after: &RevokedAt, max: usize) -> StoreResult<RevokedPage> {
        self.measured(Operation::Revoked, None, async {
            // Mostly there is nothing new, which one command says.
            let [.., head] = self.parts.runner.keys.revoked();
            let ask = redis::cmd("HMGET").arg(&head).arg("life").arg("seq").take();
            let known: (Option<String>, Option<u64>) = self.parts.runner.get(&head, &ask).await?;
            if known == (Some(after.life.clone()), Some(after.seq))
                || known == (None, None) && after.life.is_empty()
            {
                return Ok(RevokedPage { revoked: Vec::new(), at: after.clone() });
            }
            let mut call = with_keys(&self.parts.runner, Call::of(&scripts::VIEWERS_REVOKED));
            call.arg("life", &after.life).arg("after", after.seq).arg("at_most", max);
            let texts: Vec<String> = self.parts.runner.run(&call).await?;
            let [life, seq, revoked @ ..] = &texts[..] else { return Err(Corrupt("a reply").into()) };
            let seq = seq.parse().map_err(|_| Corrupt("a reply"))?;
            let read = |pair: &[String]| {
                let [sub, times] = pair else { return None };
                let (before, until) = times.split_once(' ')?;
                let [before, until] = [before, until].map(|ms| ms.parse().ok().map(Millis));
                Some(Revocation { sub: sub.as_str().into(), before: before?, until: until? })
            };
            let revoked =
                revoked.chunks(2).map(read).collect::<Option<_>>().ok_or(Corrupt("a revocation"))?;
            Ok(RevokedPage { revoked, at: RevokedAt { life: life.clone(), seq } })
        })
        .await
    }
}

/// Adds the keys that both scripts have.
fn with_keys(runner: &Runner, mut call: Call) -> Call {
    for (name, key) in ["revoked", "order", "ends", "head"].into_iter().zip(runner.keys.revoked()) {
        call.key(name, key);
    }
    call
}
