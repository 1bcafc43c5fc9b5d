//! The thread that owns the file: takes what waits, applies it, commits once, then answers.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::store::Store;
use super::{Call, EmbeddedOptions, Reply, Topics};
use crate::domain::answer::Remembered;
use crate::domain::feed::Effects;
use crate::domain::{Change, FeedId, FeedState, Gift, Millis, Outcome, Policy, Position};
use crate::engine::{EngineError, Head, Missed, Notice, PolicyChange, Snapshot};

/// Gifts in one commit: past this the answers of the first would wait too long for the last.
const GROUP: usize = 4096;

/// Changes after which a feed is written whole, so that start-up folds no more than these.
const CHECKPOINT_EVERY: u64 = 256;

/// Feeds kept in memory when idle; the rest is read back when asked for.
const FEEDS_IN_MEMORY: usize = 20_000;

/// How often the idle writer looks for ids to forget.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// A feed in memory with what the next commit will write of it.
struct Feed {
    no: Option<i64>,
    state: FeedState,
    /// What its rows are cut to.
    capacity: u64,
    checkpoint: u64,
    pending: Vec<Change>,
    touched_locks: Vec<String>,
    /// True when the next commit must write the feed whole.
    whole: bool,
    /// Locks in memory past which the dead ones are dropped: twice what was alive the last time.
    purge_locks_at: usize,
    new_policy: Option<Policy>,
}

type Answered = Box<dyn FnOnce(Option<&EngineError>) + Send>;
type Step<T> = rusqlite::Result<T>;

/// Everything the thread owns.
pub(super) struct Writer {
    store: Store,
    defaults: Policy,
    feeds: HashMap<FeedId, Feed>,
    /// Feeds with something to write in this group, in the order they will be told of.
    dirty: BTreeMap<FeedId, ()>,
    answers: Vec<Answered>,
    topics: Arc<Topics>,
    /// The latest `now` of any caller: decides which ids are forgotten.
    now: Millis,
    /// Ids written since the last tidying: twice as many are looked at, so the table can't outgrow it.
    ids_written: usize,
    /// Held for as long as the folder is ours.
    _lock: File,
}

impl Writer {
    pub(super) fn open(options: EmbeddedOptions, topics: Arc<Topics>) -> Result<Writer, String> {
        let dir = &options.data_dir;
        std::fs::create_dir_all(dir)
            .map_err(|e| format!("the data folder {} cannot be made: {e}", dir.display()))?;
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(dir.join("tipcast.lock"))
            .map_err(|e| format!("the data folder {} cannot be written: {e}", dir.display()))?;
        lock.try_lock().map_err(|e| match e {
            std::fs::TryLockError::WouldBlock => format!(
                "another tipcast process uses the data folder {}; stop it, or give this one its own with \
                 --data-dir",
                dir.display()
            ),
            std::fs::TryLockError::Error(e) => format!("{} cannot be locked: {e}", dir.display()),
        })?;
        Ok(Writer {
            store: Store::open(&dir.join("tipcast.db"))?,
            defaults: options.defaults,
            feeds: HashMap::new(),
            dirty: BTreeMap::new(),
            answers: Vec::new(),
            topics,
            now: Millis(0),
            ids_written: 0,
            _lock: lock,
        })
    }

    /// Until every caller is gone or one says close.
    pub(super) fn run(mut self, calls: &Receiver<Call>) {
        loop {
            let first = match calls.recv_timeout(TIDY_EVERY) {
                Ok(call) => call,
                Err(RecvTimeoutError::Timeout) => {
                    self.tidy();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let (mut next, mut gifts, mut closing) = (Some(first), 0, None);
            let mut outcome = Ok(());
            while let Some(call) = next {
                match call {
                    Call::Close(reply) => closing = Some(reply),
                    call => {
                        gifts += if let Call::Publish(_, gifts, ..) = &call { gifts.len() } else { 1 };
                        // After a failure the rest of the group is only answered: nothing more is applied.
                        match &outcome {
                            Ok(()) => outcome = self.apply(call),
                            Err(_) => self.refuse(call),
                        }
                    }
                }
                let more = gifts < GROUP && closing.is_none();
                next = if more { calls.try_recv().ok() } else { None };
            }
            self.finish(outcome);
            if self.ids_written > GROUP {
                self.tidy();
            }
            if let Some(reply) = closing {
                let _ = reply.send(Ok(()));
                return;
            }
        }
    }

    /// Commits the group, then tells watchers, then answers callers: in this order.
    fn finish(&mut self, applied: Step<()>) {
        let done = applied.and_then(|()| self.write()).and_then(|()| self.store.commit());
        let error = done.err().map(|e| EngineError::Unavailable(sentence(&e)));
        match &error {
            None => self.tell(),
            Some(error) => {
                tracing::error!(%error, "a commit failed; what it held is refused and was not shown");
                self.store.rollback();
                for feed in std::mem::take(&mut self.dirty).into_keys() {
                    // Memory is ahead of the disk: the disk is right.
                    self.feeds.remove(&feed);
                }
            }
        }
        self.answers.drain(..).for_each(|answer| answer(error.as_ref()));
        if self.feeds.len() > FEEDS_IN_MEMORY {
            self.feeds.clear();
        }
    }

    fn write(&mut self) -> Step<()> {
        for name in self.dirty.keys() {
            let Some(feed) = self.feeds.get_mut(name) else { continue };
            self.store.begin()?;
            let state = &mut feed.state;
            let whole = feed.whole || state.seq - feed.checkpoint >= CHECKPOINT_EVERY;
            let no = match feed.no {
                Some(no) if !whole => no,
                _ => self.store.checkpoint(name.as_str(), state, feed.capacity)?,
            };
            self.store.append(no, &feed.pending)?;
            if whole {
                feed.checkpoint = state.seq;
                self.store.forget_changes(no, state.covered_from.min(state.seq))?;
            }
            feed.touched_locks.sort_unstable();
            feed.touched_locks.dedup();
            for key in feed.touched_locks.drain(..) {
                self.store.lock(no, &key, state.locks.get(&key))?;
            }
            if state.locks.len() > feed.purge_locks_at {
                let now = self.now;
                for (key, _) in state.locks.extract_if(|_, lock| lock.until <= now) {
                    self.store.lock(no, &key, None)?;
                }
                feed.purge_locks_at = 2 * state.locks.len() + 64;
            }
            feed.no = Some(no);
            feed.whole = false;
        }
        Ok(())
    }

    fn tell(&mut self) {
        for name in std::mem::take(&mut self.dirty).into_keys() {
            let Some(feed) = self.feeds.get_mut(&name) else { continue };
            if !feed.pending.is_empty() {
                let changes = std::mem::take(&mut feed.pending);
                self.topics.tell(&name, Notice::Changes(changes.into()));
            }
            if let Some(policy) = feed.new_policy.take() {
                self.topics.tell(&name, Notice::Policy(policy.into()));
            }
        }
    }

    fn apply(&mut self, call: Call) -> Step<()> {
        match call {
            Call::Publish(feed, gifts, now, reply) => {
                let done = self.publish(&feed, gifts, now);
                self.answer(reply, done)
            }
            Call::Retract(feed, row, now, reply) => {
                let done = self.change(&feed, now, |state, policy, effects| {
                    state.retract(&row, policy, now, effects).then(|| state.position())
                });
                self.answer(reply, done)
            }
            Call::Policy(feed, reply) => {
                let done = self.look(&feed, |feed, defaults| defaults.with(&feed.state.overrides));
                self.answer(reply, done)
            }
            Call::SetPolicy(feed, change, now, reply) => {
                let done = self.set_policy(&feed, change, now);
                self.answer(reply, done)
            }
            Call::Snapshot(feed, now, reply) => {
                let swept =
                    self.change(&feed, now, |state, policy, effects| state.sweep(policy, now, effects));
                let done = swept.and_then(|()| {
                    self.look(&feed, |feed, defaults| Snapshot {
                        at: feed.state.position(),
                        tag: 0,
                        policy: defaults.with(&feed.state.overrides),
                        rows: feed.state.rows.iter().cloned().collect(),
                        now,
                    })
                });
                self.answer(reply, done)
            }
            Call::Changes(feed, since, max, reply) => {
                let done = self.changes(&feed, &since, max);
                self.answer(reply, done)
            }
            Call::Heads(feeds, reply) => {
                let head = |feed: &Feed, _: &Policy| Head { at: feed.state.position(), tag: 0 };
                let done = feeds.iter().map(|feed| self.look(feed, head)).collect();
                self.answer(reply, done)
            }
            Call::Probe(reply) => self.answer(reply, Ok(())),
            // The loop keeps this one for after the commit.
            Call::Close(_) => Ok(()),
        }
    }

    /// Answers a call that came after the group had failed.
    fn refuse(&mut self, call: Call) {
        let answer: Answered = match call {
            Call::Publish(_, _, _, reply) => later(reply, None),
            Call::Retract(_, _, _, reply) => later(reply, None),
            Call::Policy(_, reply) | Call::SetPolicy(_, _, _, reply) => later(reply, None),
            Call::Snapshot(_, _, reply) => later(reply, None),
            Call::Changes(_, _, _, reply) => later(reply, None),
            Call::Heads(_, reply) => later(reply, None),
            Call::Probe(reply) | Call::Close(reply) => later(reply, None),
        };
        self.answers.push(answer);
    }

    /// Keeps the answer until the group is durable; passes a failure on.
    fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, done: Step<T>) -> Step<()> {
        let (value, outcome) = match done {
            Ok(value) => (Some(value), Ok(())),
            Err(e) => (None, Err(e)),
        };
        self.answers.push(later(reply, value));
        outcome
    }

    fn publish(&mut self, name: &FeedId, gifts: Vec<Gift>, now: Millis) -> Step<Vec<Outcome>> {
        self.load(name, now)?;
        let mut outcomes = Vec::with_capacity(gifts.len());
        for gift in gifts {
            let no = self.feeds.get(name).and_then(|feed| feed.no);
            let remembered = match no {
                Some(no) => self.store.remembered(no, &gift.id, now)?,
                None => None,
            };
            if let Some(remembered) = remembered {
                outcomes.push(remembered.again(gift.fingerprint));
                continue;
            }
            let outcome =
                self.change(name, now, |state, policy, effects| state.publish(&gift, policy, now, effects))?;
            if let Outcome::New(answer) = &outcome {
                let no = self.number(name)?;
                let window = self.look(name, |feed, defaults| defaults.with(&feed.state.overrides))?;
                let it = Remembered { fingerprint: gift.fingerprint, answer: answer.clone() };
                self.store.begin()?;
                self.store.remember(no, &it, now.plus(window.idempotency_window_ms))?;
                self.ids_written += 1;
            }
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    fn set_policy(&mut self, name: &FeedId, change: PolicyChange, now: Millis) -> Step<Policy> {
        self.load(name, now)?;
        let defaults = self.defaults.clone();
        let policy = self.change(name, now, |state, _, effects| {
            let overrides = match &change {
                PolicyChange::Replace(patch) => patch.clone(),
                PolicyChange::Merge(patch) => state.overrides.merged(patch),
            };
            state.set_policy(overrides, &defaults, now, effects)
        })?;
        self.dirty.insert(name.clone(), ());
        // Written even when nothing else changed: a policy alone is worth keeping.
        self.number(name)?;
        if let Some(feed) = self.feeds.get_mut(name) {
            feed.capacity = policy.capacity;
            feed.whole = true;
            feed.new_policy = Some(policy.clone());
        }
        Ok(policy)
    }

    fn changes(&mut self, name: &FeedId, since: &Position, max: usize) -> Step<Missed> {
        if !self.look(name, |feed, _| feed.state.covers(since))? {
            return Ok(Missed::NotCovered);
        }
        let Some(feed) = self.feeds.get(name) else {
            return Ok(Missed::Changes(Vec::new()));
        };
        let mut changes = match feed.no {
            Some(no) => self.store.changes(no, &since.epoch, since.seq, max)?,
            None => Vec::new(),
        };
        let unwritten = feed.pending.iter().filter(|change| change.seq > since.seq);
        changes.extend(unwritten.take(max - changes.len()).cloned());
        Ok(Missed::Changes(changes))
    }

    /// Runs a transition on a feed and keeps its effects for the commit. A feed that nobody wrote
    /// to is kept only when something came of it.
    fn change<T>(
        &mut self,
        name: &FeedId,
        now: Millis,
        transition: impl FnOnce(&mut FeedState, &Policy, &mut Effects) -> T,
    ) -> Step<T> {
        self.now = self.now.max(now);
        self.load(name, now)?;
        let mut nobody = Feed::new(&self.defaults);
        let known = self.feeds.get_mut(name);
        let is_known = known.is_some();
        let feed = known.unwrap_or(&mut nobody);
        let policy = self.defaults.with(&feed.state.overrides);
        let mut effects = Effects::default();
        let result = transition(&mut feed.state, &policy, &mut effects);
        let nothing = effects.changes.is_empty() && effects.locks.is_empty();
        if !nothing {
            feed.pending.append(&mut effects.changes);
            feed.touched_locks.append(&mut effects.locks);
            self.dirty.insert(name.clone(), ());
        }
        if !is_known && (!nothing || nobody.state.overrides != Default::default()) {
            self.feeds.insert(name.clone(), nobody);
        }
        Ok(result)
    }

    fn look<T>(&mut self, name: &FeedId, read: impl Fn(&Feed, &Policy) -> T) -> Step<T> {
        self.load(name, self.now)?;
        Ok(match self.feeds.get(name) {
            Some(feed) => read(feed, &self.defaults),
            None => read(&Feed::new(&self.defaults), &self.defaults),
        })
    }

    /// The feed's number in the tables; writes the feed when it has none.
    fn number(&mut self, name: &FeedId) -> Step<i64> {
        let feed = self.feeds.entry(name.clone()).or_insert_with(|| Feed::new(&self.defaults));
        if let Some(no) = feed.no {
            return Ok(no);
        }
        self.store.begin()?;
        // An empty checkpoint: the changes that led here are written beside it by this commit.
        let no = self.store.checkpoint(
            name.as_str(),
            &FeedState { epoch: feed.state.epoch.clone(), ..FeedState::default() },
            feed.capacity,
        )?;
        feed.no = Some(no);
        self.dirty.insert(name.clone(), ());
        Ok(no)
    }

    fn load(&mut self, name: &FeedId, now: Millis) -> Step<()> {
        if self.feeds.contains_key(name) {
            return Ok(());
        }
        let Some(stored) = self.store.feed(name.as_str(), &self.defaults, now)? else {
            return Ok(());
        };
        let policy = self.defaults.with(&stored.state.overrides);
        let mut feed = Feed {
            no: Some(stored.no),
            purge_locks_at: 2 * stored.state.locks.len() + 64,
            state: stored.state,
            capacity: policy.capacity,
            checkpoint: stored.checkpoint,
            ..Feed::new(&self.defaults)
        };
        if stored.capacity != policy.capacity {
            // The server's default changed while we were away: a change of the list like any other.
            let mut effects = Effects::default();
            feed.state.resize(&policy, &mut effects);
            feed.pending = effects.changes;
            feed.whole = true;
            self.dirty.insert(name.clone(), ());
        }
        self.feeds.insert(name.clone(), feed);
        Ok(())
    }

    /// Forgets ids whose window is over, in a commit of its own.
    fn tidy(&mut self) {
        let most = 2 * std::mem::take(&mut self.ids_written) + 256;
        let done = self.store.begin().and_then(|()| self.store.forget_ids(self.now, most));
        if let Err(error) = done.and_then(|_| self.store.commit()) {
            tracing::warn!(%error, "old ids could not be forgotten; trying again later");
            self.store.rollback();
        }
    }
}

impl Feed {
    fn new(defaults: &Policy) -> Feed {
        Feed {
            no: None,
            state: FeedState::default(),
            capacity: defaults.capacity,
            checkpoint: 0,
            pending: Vec::new(),
            touched_locks: Vec::new(),
            whole: false,
            purge_locks_at: 64,
            new_policy: None,
        }
    }
}

/// Sends `value` when the group is durable, the group's failure otherwise.
fn later<T: Send + 'static>(reply: Reply<T>, value: Option<T>) -> Answered {
    Box::new(move |error| {
        let failed = || EngineError::Unavailable("the call before it failed; try again".into());
        let answer = match (error, value) {
            (None, Some(value)) => Ok(value),
            (error, _) => Err(error.cloned().unwrap_or_else(failed)),
        };
        // A caller that stopped waiting needs no answer.
        let _ = reply.send(answer);
    })
}

fn sentence(error: &rusqlite::Error) -> String {
    use rusqlite::ErrorCode::{
        DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure,
    };
    let advice = match error.sqlite_error_code() {
        Some(DiskFull) => "the disk of the data folder is full; free some room",
        Some(ReadOnly) => "the data folder is read-only; make it writable",
        Some(DatabaseBusy) => "another program holds the database; close it",
        Some(DatabaseCorrupt | NotADatabase) => "the database is damaged; stop, and restore it from a backup",
        Some(SystemIoFailure) => "the disk of the data folder fails; look at the system's log",
        _ => "the database refused",
    };
    format!("{advice} ({error})")
}
