//! The oracle as the engines' contract has it.

use std::collections::BTreeSet;

use tipcast::domain::ledger::LedgerPart;
use tipcast::domain::pull::Seek;
use tipcast::domain::story::EntryState;
use tipcast::domain::{
    Ask, Cursor, DeadLetter, FeedId, GroupId, GroupView, Hook, HookId, HookKey, HookScope, Job, Millis,
    Reader, Replay, Taken,
};
use tipcast::engine::{
    HOOKS_OF_ALL_MAX, JobDone, JobLease, JobTurn, READERS_MAX, Save, Swapped, Wakes, Want, Work,
};

use super::super::{Feed, Model};
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

impl Model {
    pub(crate) fn take(&self, feed: &FeedId, group: &GroupId, ask: Ask, now: Millis) -> Option<Taken> {
        let limits = self.limits();
        self.on(feed, |f, _| f.ledger.take(group, ask, now, &limits))
    }

    pub(crate) fn ack(&self, feed: &FeedId, group: &GroupId, cursors: &[Cursor], now: Millis) -> Option<u64> {
        self.with(feed, &Reader::Group(group.clone()), |_, mut reading| {
            reading.tell_lost(true, now);
            let acked = cursors.iter().filter(|cursor| reading.held.remove(&cursor.0).is_some()).count();
            (acked as u64, reading)
        })
    }

    pub(crate) fn nack(
        &self,
        feed: &FeedId,
        group: &GroupId,
        cursors: &[Cursor],
        now: Millis,
    ) -> Option<u64> {
        let limits = self.limits();
        self.with(feed, &Reader::Group(group.clone()), |f, mut reading| {
            reading.tell_lost(true, now);
            let base = f.ledger.entries.first().map_or(f.ledger.next, |entry| entry.cursor.0);
            let mut nacked = 0;
            let cursors: BTreeSet<&Cursor> = cursors.iter().collect();
            for cursor in cursors {
                if let Some(held) =
                    reading.held.get(&cursor.0).filter(|it| it.attempts >= limits.max_attempts)
                {
                    let (attempts, reason) = (held.attempts, "it was handed out too often".into());
                    let letter = DeadLetter { died_at: now, reason, attempts, entry: held.entry.clone() };
                    reading.held.remove(&cursor.0);
                    reading.bury(letter, base, &limits);
                    nacked += 1;
                } else if let Some(held) = reading.held.get_mut(&cursor.0) {
                    let pause = 1_000 * 2_u64.saturating_pow(held.attempts.saturating_sub(1).min(16) as u32);
                    (held.until, nacked) = (now.plus(pause.min(60_000)), nacked + 1);
                }
            }
            f.ledger.stirred |= nacked > 0;
            (nacked, reading)
        })
    }

    pub(crate) fn group(&self, feed: &FeedId, group: &GroupId, now: Millis) -> Option<GroupView> {
        let reader = Reader::Group(group.clone());
        self.with(feed, &reader, |f, reading| (f.ledger.view(&reading, now), reading))
    }

    pub(crate) fn entry_state(&self, feed: &FeedId, reader: &Reader, cursor: Cursor) -> Option<EntryState> {
        self.with(feed, reader, |_, reading| (reading.state_of(cursor), reading)).flatten()
    }

    pub(crate) fn seek(&self, feed: &FeedId, group: &GroupId, to: Seek) -> Option<Cursor> {
        self.on(feed, |f, _| {
            let Ledger { entries, next, readers, .. } = &mut f.ledger;
            let reading = readers.get_mut(&Reader::Group(group.clone()))?;
            let base = entries.first().map_or(*next, |entry| entry.cursor.0);
            let number = match to {
                Seek::Start => base,
                Seek::Now => *next,
                Seek::To(cursor) => cursor.0.clamp(base, *next),
                Seek::At(at) => entries.iter().find(|it| it.at >= at).map_or(*next, |it| it.cursor.0),
            };
            (reading.untold, reading.gone) = (None, None);
            reading.held.clear();
            reading.handed = number.saturating_sub(1);
            reading.began = reading.began.min(number);
            Some(Cursor(number))
        })
    }

    pub(crate) fn read_ledger(&self, feed: &FeedId, from: Cursor, max: usize) -> LedgerPart {
        self.on(feed, |f, _| LedgerPart {
            entries: f
                .ledger
                .entries
                .iter()
                .filter(|entry| entry.cursor >= from)
                .take(max)
                .cloned()
                .collect(),
            behind: Cursor(f.ledger.next),
        })
    }

    pub(crate) fn delete_group(&self, feed: &FeedId, group: &GroupId) -> bool {
        let reader = Reader::Group(group.clone());
        self.on(feed, |f, _| f.ledger.readers.remove(&reader).is_some())
    }

    pub(crate) fn readers(&self, feed: Option<&FeedId>) -> Vec<(FeedId, Reader)> {
        let mut all = vec![];
        for name in feed.map_or_else(|| self.feeds(), |feed| vec![feed.clone()]) {
            self.on(&name, |f, _| {
                let readers = f.ledger.readers.keys();
                let wanted = readers.filter(|it| feed.is_some() || matches!(it, Reader::Group(_)));
                all.extend(wanted.map(|reader| (name.clone(), reader.clone())));
            });
        }
        all
    }

    pub(crate) fn letters(&self, feed: &FeedId, reader: &Reader) -> Vec<DeadLetter> {
        self.with(feed, reader, |_, reading| (reading.letters.clone(), reading)).unwrap_or_default()
    }

    pub(crate) fn replay(&self, feed: &FeedId, reader: &Reader, which: &Replay, now: Millis) -> u64 {
        let replayed = self.with(feed, reader, |f, mut reading| {
            let replayed = reading.replay(reader, which, now);
            f.ledger.stirred |= replayed > 0;
            (replayed, reading)
        });
        replayed.unwrap_or_default()
    }

    pub(crate) fn letter_feeds(&self, hook: &HookId) -> Vec<FeedId> {
        let reader = Reader::HookOfAll(hook.clone());
        let has = |feed: &FeedId| {
            self.with(feed, &reader, |_, reading| (!reading.letters.is_empty(), reading)).unwrap_or(false)
        };
        self.feeds().into_iter().filter(has).collect()
    }
}

impl Model {
    pub(crate) fn hook(&self, key: &HookKey) -> Option<Hook> {
        self.hooks.lock().unwrap().get(key).cloned()
    }

    pub(crate) fn hooks(&self) -> Vec<(HookKey, Hook)> {
        let hooks = self.hooks.lock().unwrap();
        let mut all: Vec<_> = hooks.iter().map(|(key, hook)| (key.clone(), hook.clone())).collect();
        all.sort_by_key(|(key, _)| key.clone());
        all
    }

    pub(crate) fn swap_hook(&self, key: &HookKey, was: Option<u64>, to: Option<Hook>, _: Millis) -> Swapped {
        let known = self.hooks.lock().unwrap().get(key).cloned();
        if known.as_ref().map(|hook| hook.version) != was {
            return Swapped::Stale;
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
            return Swapped::Done;
        };
        if known.is_none() && full {
            return Swapped::Full;
        }
        self.hooks.lock().unwrap().insert(key.clone(), hook.clone());
        match &key.scope {
            HookScope::Feed(feed) => self.on(feed, |f, _| {
                let handed = f.ledger.next.saturating_sub(1);
                let new = Reading { handed, began: f.ledger.next, ..Reading::default() };
                let reading = f.ledger.readers.entry(key.reader()).or_insert(new);
                reading.batch_ms = hook.spec.batch_ms;
            }),
            // Looking at a feed makes it join.
            HookScope::All => drop(self.jobs()),
        }
        Swapped::Done
    }
}

impl Model {
    pub(crate) fn claim_jobs(&self, over: Vec<JobDone>, max: usize, lease_ms: u64, now: Millis) -> JobTurn {
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
        JobTurn { jobs, next_in_ms, waiting: all.len() as u64 }
    }

    pub(crate) fn open_job(&self, job: &Job, want: Want, now: Millis) -> Option<Work> {
        self.on(&job.feed, |f, _| {
            f.ledger.readers.get(&job.reader)?;
            Some(f.ledger.work(&job.reader, want, now))
        })
    }

    pub(crate) fn save_job(&self, job: &Job, save: Save, want: Want, now: Millis) -> Option<Work> {
        let limits = self.limits();
        self.on(&job.feed, |f, _| {
            let Ledger { entries, readers, .. } = &mut f.ledger;
            let reading = readers.get_mut(&job.reader).filter(|reading| reading.progress == save.was)?;
            reading.save(entries, save, now, &limits);
            Some(f.ledger.work(&job.reader, want, now))
        })
    }

    pub(crate) fn job_wakes(&self) -> Wakes {
        Wakes::new(self.wakes.subscribe())
    }
}
