//! Webhooks as they are set, and the feeds they read.

use crate::domain::{FeedId, Hook, HookId, HookKey, HookScope, HookState, Job, Millis, Reader};
use crate::engine::embedded::feeds::{Feeds, Step};
use crate::engine::embedded::store::Standing;
use crate::engine::{HOOKS_OF_ALL_MAX, READERS_MAX, Swapped};

/// What every feed needs to know of a webhook of all feeds.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct HookOfAll {
    /// It reads what came since.
    pub(super) since: Millis,
    pub(super) batch_ms: u64,
}

impl From<&Hook> for HookOfAll {
    fn from(hook: &Hook) -> HookOfAll {
        HookOfAll { since: Millis(hook.since), batch_ms: hook.spec.batch_ms }
    }
}

impl Feeds {
    /// See [`crate::engine::ReportStore::swap_hook`].
    pub(super) fn swap_hook(
        &mut self,
        key: &HookKey,
        was: Option<u64>,
        to: Option<&Hook>,
        now: Millis,
    ) -> Step<Swapped> {
        let old = self.store.hook(key)?;
        if old.as_ref().map(|hook| hook.version) != was {
            return Ok(Swapped::Stale);
        }
        if old.is_none() && to.is_some() && self.has_enough_readers(key)? {
            return Ok(Swapped::Full);
        }
        self.store.begin()?;
        self.store.put_hook(key, to)?;
        if let HookScope::All = key.scope {
            match to {
                Some(hook) => drop(self.hooks_of_all.insert(key.name.clone(), hook.into())),
                None => drop(self.hooks_of_all.remove(&key.name)),
            }
        }
        match (&old, to) {
            (None, Some(hook)) => self.begin_hook(key, hook)?,
            (Some(_), None) => self.end_hook(key)?,
            (Some(old), Some(hook)) => {
                if let HookScope::Feed(feed) = &key.scope {
                    self.reread_ledger(feed);
                }
                if old.state == HookState::Disabled && hook.state == HookState::Active {
                    self.wake_hook(key, now)?;
                }
            }
            (None, None) => {}
        }
        Ok(Swapped::Done)
    }

    fn has_enough_readers(&mut self, key: &HookKey) -> Step<bool> {
        Ok(match &key.scope {
            HookScope::All => self.hooks_of_all.len() >= HOOKS_OF_ALL_MAX,
            HookScope::Feed(feed) => self.ledger(feed)?.is_some_and(|(_, known)| known.own >= READERS_MAX),
        })
    }

    /// A webhook of one feed begins at the ledger's end. One of all feeds joins the feeds to which something
    /// came since at once, and the others when something comes.
    fn begin_hook(&mut self, key: &HookKey, hook: &Hook) -> Step<()> {
        match &key.scope {
            HookScope::Feed(feed) => {
                let no = self.number(feed)?;
                let last = self.ledger(feed)?.map_or(0, |(_, known)| known.last());
                self.store.stand(no, &key.reader(), &Standing { handed: last, ..Standing::default() })?;
                self.reread_ledger(feed);
            }
            HookScope::All => {
                let since = Millis(hook.since);
                // What this group brought, and what is only jotted down, is not in the tables yet.
                self.settle_jots(true)?;
                for feed in self.dirty.clone() {
                    self.write_ledger(&feed)?;
                }
                for (no, feed) in self.store.entered_since(since)? {
                    self.ledger(&feed)?;
                    self.join_hooks(&feed, no)?;
                    self.wake_reader(&feed, no, &key.reader(), since.plus(hook.spec.batch_ms))?;
                }
            }
        }
        Ok(())
    }

    fn end_hook(&mut self, key: &HookKey) -> Step<()> {
        let reader = key.reader();
        for (no, feed) in self.readings(key)? {
            self.store.forget_reader(no, &reader)?;
            self.reread_ledger(&feed);
            self.jobs.remove(&Job { feed, reader: reader.clone() });
        }
        Ok(())
    }

    /// What waited while it was disabled is sent.
    fn wake_hook(&mut self, key: &HookKey, now: Millis) -> Step<()> {
        for (no, feed) in self.readings(key)? {
            self.wake_reader(&feed, no, &key.reader(), now)?;
        }
        Ok(())
    }

    /// Makes it a job of `at` at the latest if there is something to send.
    fn wake_reader(&mut self, feed: &FeedId, no: i64, reader: &Reader, at: Millis) -> Step<()> {
        let Some((_, known, standing)) = self.standing_of(feed, reader)? else { return Ok(()) };
        if known.handed(&standing) < known.last() || self.store.hands(no, reader)? > 0 {
            self.jobs.hurry(Job { feed: feed.clone(), reader: reader.clone() }, at);
        }
        Ok(())
    }

    /// Feeds that a webhook reads.
    fn readings(&mut self, key: &HookKey) -> Step<Vec<(i64, FeedId)>> {
        match &key.scope {
            HookScope::All => self.store.feeds_of(&key.reader()),
            HookScope::Feed(feed) => {
                let no = self.known_number(feed)?;
                Ok(no.map(|no| (no, feed.clone())).into_iter().collect())
            }
        }
    }

    /// See [`crate::engine::ReportStore::letter_feeds`].
    pub(super) fn letter_feeds(&self, hook: &HookId) -> Step<Vec<FeedId>> {
        self.store.letter_feeds(&Reader::HookOfAll(hook.clone()), crate::engine::LISTED)
    }

    /// Reads webhooks of all feeds, and what work there is, from the tables: at the start, and after a group
    /// that failed, when memory may be ahead of the disk. A job too many finds out that there is nothing.
    pub(in super::super) fn reread_hooks(&mut self) -> Step<()> {
        let hooks = self.store.hooks_of(&HookScope::All)?;
        self.hooks_of_all = hooks.into_iter().map(|(name, hook)| (name, (&hook).into())).collect();
        for job in self.store.jobs()? {
            self.jobs.note(job, self.now);
        }
        Ok(())
    }
}
