//! The oracle as the engines' contract has it.

use std::collections::BTreeSet;

use tipcast::domain::{
    Ask, Cursor, DeadLetter, FeedId, GroupId, GroupView, Hook, HookId, HookKey, HookScope, Job, Millis,
    Reader, Replay, Taken,
};
use tipcast::engine::{
    HOOKS_OF_ALL_MAX, JobDone, JobLease, JobStore, JobTurn, LedgerStore, READERS_MAX, Save, Swapped, Wait,
    Wakes, Want, WebhookStore, Work,
};

use super::super::{Feed, Model, done};
use super::{Ledger, Reading};

impl Model {
    /// Does something with a reader, if it is there.
    fn with<T>(
        &self,
        feed: &FeedId,
        reader: &Reader,
        f: impl FnOnce(&mut Feed, Reading) -> (T, Reading),
    ) -> Option<T> {
        self.on(feed, |feed, _| {
            let reading = feed.ledger.readers.get(reader)?.clone();
            let (result, reading) = f(feed, reading);
            feed.ledger.readers.insert(reader.clone(), reading);
            Some(result)
        })
    }

    fn feeds(&self) -> Vec<FeedId> {
        let mut feeds: Vec<FeedId> = self.feeds.lock().unwrap().keys().cloned().collect();
        feeds.sort();
        feeds
    }

    /// Every job, when it is looked at, and the token of its turn.
    fn jobs(&self) -> Vec<(Millis, Job, String)> {
        let mut jobs = vec![];
        for feed in self.feeds() {
            self.on(&feed, |f, _| {
                for (reader, reading) in &f.ledger.readers {
                    let Some((at, token)) = reading.job.clone() else { continue };
                    jobs.push((at, Job { feed: feed.clone(), reader: reader.clone() }, token));
                }
            });
        }
        jobs.sort();
        jobs
    }

    fn set_job(&self, job: &Job, to: Option<(Millis, String)>) {
        self.with(&job.feed, &job.reader, |_, reading| ((), Reading { job: to, ..reading }));
    }
}

impl LedgerStore for Model {
    fn take<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        ask: Ask,
        now: Millis,
    ) -> Wait<'a, Option<Taken>> {
        let limits = self.limits();
        done(self.on(feed, |f, _| f.ledger.take(group, ask, now, &limits)))
    }

    fn ack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        _: Millis,
    ) -> Wait<'a, Option<u64>> {
        done(self.with(feed, &Reader::Group(group.clone()), |_, mut reading| {
            let acked = cursors.iter().filter(|cursor| reading.held.remove(&cursor.0).is_some()).count();
            (acked as u64, reading)
        }))
    }

    fn nack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        _: Millis,
    ) -> Wait<'a, Option<u64>> {
        done(self.with(feed, &Reader::Group(group.clone()), |f, mut reading| {
            let mut nacked = 0;
            let cursors: BTreeSet<&Cursor> = cursors.iter().collect();
            for cursor in cursors {
                if let Some(held) = reading.held.get_mut(&cursor.0) {
                    (held.until, nacked) = (Millis(0), nacked + 1);
                }
            }
            f.ledger.stirred |= nacked > 0;
            (nacked, reading)
        }))
    }

    fn group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId, now: Millis) -> Wait<'a, Option<GroupView>> {
        let reader = Reader::Group(group.clone());
        done(self.with(feed, &reader, |f, reading| (f.ledger.view(&reading, now), reading)))
    }

    fn delete_group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId) -> Wait<'a, bool> {
        let reader = Reader::Group(group.clone());
        done(self.on(feed, |f, _| f.ledger.readers.remove(&reader).is_some()))
    }

    fn readers<'a>(&'a self, feed: Option<&'a FeedId>) -> Wait<'a, Vec<(FeedId, Reader)>> {
        let mut all = vec![];
        for name in feed.map_or_else(|| self.feeds(), |feed| vec![feed.clone()]) {
            self.on(&name, |f, _| {
                let readers = f.ledger.readers.keys();
                let wanted = readers.filter(|it| feed.is_some() || matches!(it, Reader::Group(_)));
                all.extend(wanted.map(|reader| (name.clone(), reader.clone())));
            });
        }
        done(all)
    }

    fn letters<'a>(&'a self, feed: &'a FeedId, reader: &'a Reader) -> Wait<'a, Vec<DeadLetter>> {
        done(self.with(feed, reader, |_, reading| (reading.letters.clone(), reading)).unwrap_or_default())
    }

    fn replay<'a>(
        &'a self,
        feed: &'a FeedId,
        reader: &'a Reader,
        which: &'a Replay,
        now: Millis,
    ) -> Wait<'a, u64> {
        let replayed = self.with(feed, reader, |f, mut reading| {
            let replayed = reading.replay(reader, which, now);
            f.ledger.stirred |= replayed > 0;
            (replayed, reading)
        });
        done(replayed.unwrap_or_default())
    }

    fn letter_feeds<'a>(&'a self, hook: &'a HookId) -> Wait<'a, Vec<FeedId>> {
        let reader = Reader::HookOfAll(hook.clone());
        let has = |feed: &FeedId| {
            self.with(feed, &reader, |_, reading| (!reading.letters.is_empty(), reading)).unwrap_or(false)
        };
        done(self.feeds().into_iter().filter(has).collect())
    }
}

impl WebhookStore for Model {
    fn hook<'a>(&'a self, key: &'a HookKey) -> Wait<'a, Option<Hook>> {
        done(self.hooks.lock().unwrap().get(key).cloned())
    }

    fn hooks(&self) -> Wait<'_, Vec<(HookKey, Hook)>> {
        let hooks = self.hooks.lock().unwrap();
        let mut all: Vec<_> = hooks.iter().map(|(key, hook)| (key.clone(), hook.clone())).collect();
        all.sort_by_key(|(key, _)| key.clone());
        done(all)
    }

    fn swap_hook<'a>(
        &'a self,
        key: &'a HookKey,
        was: Option<u64>,
        to: Option<Hook>,
        _: Millis,
    ) -> Wait<'a, Swapped> {
        let known = self.hooks.lock().unwrap().get(key).cloned();
        if known.as_ref().map(|hook| hook.version) != was {
            return done(Swapped::Stale);
        }
        let of_all = |key: &HookKey| key.scope == HookScope::All;
        let full = match &key.scope {
            HookScope::All => {
                self.hooks.lock().unwrap().keys().filter(|key| of_all(key)).count() >= HOOKS_OF_ALL_MAX
            }
            HookScope::Feed(feed) => self.on(feed, |f, _| f.ledger.own_readers() >= READERS_MAX),
        };
        let Some(hook) = to else {
            self.hooks.lock().unwrap().remove(key);
            for feed in self.feeds() {
                let here = matches!(&key.scope, HookScope::Feed(own) if *own == feed);
                if of_all(key) || here {
                    self.on(&feed, |f, _| f.ledger.readers.remove(&key.reader()));
                }
            }
            return done(Swapped::Done);
        };
        if known.is_none() && full {
            return done(Swapped::Full);
        }
        self.hooks.lock().unwrap().insert(key.clone(), hook.clone());
        match &key.scope {
            HookScope::Feed(feed) => self.on(feed, |f, _| {
                let handed = f.ledger.next.saturating_sub(1);
                let new = Reading { handed, ..Reading::default() };
                let reading = f.ledger.readers.entry(key.reader()).or_insert(new);
                reading.batch_ms = hook.spec.batch_ms;
            }),
            // Looking at a feed makes it join.
            HookScope::All => drop(self.jobs()),
        }
        done(Swapped::Done)
    }
}

impl JobStore for Model {
    fn claim_jobs(&self, over: Vec<JobDone>, max: usize, lease_ms: u64, now: Millis) -> Wait<'_, JobTurn> {
        for JobDone { job, token, next_in_ms } in over {
            if self.jobs().iter().any(|(_, known, turn)| *known == job && *turn == token) {
                self.set_job(&job, next_in_ms.map(|ms| (now.plus(ms), String::new())));
            }
        }
        let mut jobs = vec![];
        for (_, job, _) in self.jobs().into_iter().filter(|(at, ..)| *at <= now).take(max) {
            let token = tipcast::domain::Epoch::mint().to_string();
            self.set_job(&job, Some((now.plus(lease_ms), token.clone())));
            jobs.push(JobLease { job, token });
        }
        let all = self.jobs();
        let next_in_ms = all.first().map(|(at, ..)| at.since(now));
        done(JobTurn { jobs, next_in_ms, waiting: all.len() as u64 })
    }

    fn open_job<'a>(&'a self, job: &'a Job, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        done(self.on(&job.feed, |f, _| {
            f.ledger.readers.get(&job.reader)?;
            Some(f.ledger.work(&job.reader, want, now))
        }))
    }

    fn save_job<'a>(&'a self, job: &'a Job, save: Save, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        let limits = self.limits();
        done(self.on(&job.feed, |f, _| {
            let Ledger { entries, readers, .. } = &mut f.ledger;
            let reading = readers.get_mut(&job.reader).filter(|reading| reading.progress == save.was)?;
            reading.save(entries, save, now, &limits);
            Some(f.ledger.work(&job.reader, want, now))
        }))
    }

    fn job_wakes(&self) -> Wakes {
        Wakes::new(self.wakes.subscribe())
    }
}
