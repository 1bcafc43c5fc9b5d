//! The feeds in memory, and what the next commit will write of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::EmbeddedOptions;
use super::reports::{HookOfAll, Jobs, Jots, Ledger};
use super::steady::Steady;
use super::store::{Store, push_lock};
use crate::domain::answer::{GiftFate, Remembered};
use crate::domain::feed::Effects;
use crate::domain::{
    Answer, Change, DropId, EntryStatus, FeedId, FeedList, FeedState, Gift, HookId, Millis, Outcome, Part,
    Policy, Position, Status, Stock, due_at,
};
use crate::engine::record::push_entry;
use crate::engine::{Missed, Notice, PolicyChange, ReportLimits};
use crate::metrics::Metrics;

mod due;

use due::Agenda;

/// Changes after which a feed is written whole, so that start-up folds no more than these.
const CHECKPOINT_EVERY: u64 = 256;

/// Feeds kept in memory when idle; the rest is read back when asked for.
const FEEDS_IN_MEMORY: usize = 20_000;

/// Ids written before the writer stops at once to forget old ones.
const UNTIDY: usize = 4096;

/// How often it does so otherwise, while it is called.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// The outcome of a step that reads or writes the file.
pub(super) type Step<T> = rusqlite::Result<T>;

/// A feed in memory with what the next commit will write of it.
pub(super) struct Feed {
    pub(super) no: Option<i64>,
    pub(super) state: FeedState,
    /// What its rows are cut to.
    capacity: u64,
    checkpoint: u64,
    /// True when the checkpoint has the feed's epoch: a policy alone is written without one.
    begun: bool,
    pending: Vec<Change>,
    touched_locks: Vec<String>,
    /// Locks that were touched since the checkpoint, and stand beside the changes on disk.
    later_locks: Vec<String>,
    /// True when the next commit must write the feed whole.
    whole: bool,
    /// Locks in memory past which the dead ones are dropped: twice what was alive the last time.
    purge_locks_at: usize,
    new_policy: Option<Policy>,
    /// The feed's drops as they stand; `state.list.drops` is what watchers were told.
    pub(super) drops: BTreeMap<DropId, Stock>,
    touched_drops: BTreeSet<DropId>,
    /// How many of its gifts wait, once somebody counted them.
    waiting: Option<u64>,
    pub(super) ledger: Ledger,
}

/// Every feed that was asked for lately, and the store behind.
pub(super) struct Feeds {
    pub(super) store: Store,
    defaults: Policy,
    pub(super) by_name: HashMap<FeedId, Feed>,
    /// Feeds with something to write in this group, in the order they will be told of.
    pub(super) dirty: BTreeSet<FeedId>,
    /// The caller's clock, of the call that is being served; the group is finished by that of its last one.
    pub(super) now: Millis,
    steady: Steady,
    tidied: Instant,
    /// Ids written since the last tidying: twice as many are looked at, so the table can't outgrow it.
    ids_written: usize,
    agenda: Agenda,
    /// Gifts of one feed that may wait.
    scheduled_max: u64,
    /// How long before it opens or closes watchers are reminded of a drop.
    pub(super) reminder_ms: u64,
    /// How much is kept of what happened.
    pub(super) limits: ReportLimits,
    /// Webhooks of all feeds: each feed makes them its readers when something comes to it.
    pub(super) hooks_of_all: BTreeMap<HookId, HookOfAll>,
    pub(super) jobs: Jobs,
    pub(super) jots: Jots,
    pub(super) metrics: Arc<Metrics>,
}

impl Feeds {
    pub(super) fn new(store: Store, options: EmbeddedOptions, metrics: Arc<Metrics>) -> Step<Feeds> {
        let agenda = Agenda::of(store.due_heads()?);
        let mut feeds = Feeds {
            store,
            defaults: options.defaults,
            by_name: HashMap::new(),
            dirty: BTreeSet::new(),
            now: Millis(0),
            steady: Steady::new(options.steady_for, Instant::now()),
            tidied: Instant::now(),
            ids_written: 0,
            agenda,
            scheduled_max: options.scheduled_max,
            reminder_ms: options.drop_reminder_ms,
            limits: options.reports,
            hooks_of_all: BTreeMap::new(),
            jobs: Jobs::default(),
            jots: Jots::default(),
            metrics,
        };
        feeds.gather_jots()?;
        feeds.reread_hooks()?;
        Ok(feeds)
    }

    pub(super) fn publish(&mut self, name: &FeedId, gifts: Vec<Gift>, now: Millis) -> Step<Vec<Outcome>> {
        self.load(name)?;
        let mut outcomes = Vec::with_capacity(gifts.len());
        for gift in gifts {
            let no = self.by_name.get(name).and_then(|feed| feed.no);
            let remembered = match no {
                Some(no) => self.store.remembered(no, &gift.id, now)?,
                None => None,
            };
            if let Some(remembered) = remembered {
                outcomes.push(remembered.again(gift.fingerprint));
                continue;
            }
            let policy = self.look(name, |feed, defaults| defaults.with(&feed.state.overrides))?;
            outcomes.push(match due_at(&gift, &policy, now) {
                Some(at) => self.schedule(name, &gift, at, now)?,
                None => Outcome::New(self.take_now(name, &gift, now)?),
            });
        }
        Ok(outcomes)
    }

    /// Takes a gift that is not for later, or no longer, and remembers the answer.
    fn take_now(&mut self, name: &FeedId, gift: &Gift, now: Millis) -> Step<Answer> {
        let (answer, part) = self.change(name, now, |state, policy, effects| {
            let answer = state.publish(gift, policy, now, effects);
            (answer, effects.part.take().map_or(Part::Unknown, Part::Added))
        })?;
        let it = Remembered { fingerprint: gift.fingerprint, fate: GiftFate::Taken(answer.clone()), part };
        self.remember(name, it, now)?;
        let Answer { status, at, row, .. } = &answer;
        let (status, seq) = match status {
            Status::Accepted => (EntryStatus::Accepted, Some(at.seq)),
            Status::Merged => (EntryStatus::Merged, Some(at.seq)),
            Status::Suppressed => (EntryStatus::Suppressed, None),
        };
        self.enter(name, now, |out| push_entry(out, gift, status, seq, Some(row), now));
        Ok(answer)
    }

    /// Remembers what became of a gift's id, for a window from now.
    fn remember(&mut self, name: &FeedId, it: Remembered, now: Millis) -> Step<()> {
        let no = self.number(name)?;
        let policy = self.look(name, |feed, defaults| defaults.with(&feed.state.overrides))?;
        self.store.begin()?;
        self.store.remember(no, &it, now.plus(policy.idempotency_window_ms))?;
        self.ids_written += 1;
        Ok(())
    }

    pub(super) fn set_policy(&mut self, name: &FeedId, change: PolicyChange, now: Millis) -> Step<Policy> {
        self.load(name)?;
        let defaults = self.defaults.clone();
        let policy = self.change(name, now, |state, _, effects| {
            let overrides = match &change {
                PolicyChange::Replace(patch) => state.overrides.replaced(patch),
                PolicyChange::Merge(patch) => state.overrides.merged(patch),
            };
            state.set_policy(overrides, &defaults, now, effects)
        })?;
        self.dirty.insert(name.clone());
        // Written even when nothing else changed: a policy alone is worth keeping.
        self.number(name)?;
        if let Some(feed) = self.by_name.get_mut(name) {
            feed.capacity = policy.capacity;
            feed.whole = true;
            feed.new_policy = Some(policy.clone());
        }
        Ok(policy)
    }

    pub(super) fn changes(&mut self, name: &FeedId, since: &Position, max: usize) -> Step<Missed> {
        if !self.look(name, |feed, _| feed.state.covers(since))? {
            return Ok(Missed::NotCovered);
        }
        let Some(feed) = self.by_name.get(name) else {
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
    pub(super) fn change<T>(
        &mut self,
        name: &FeedId,
        _: Millis,
        transition: impl FnOnce(&mut FeedState, &Policy, &mut Effects) -> T,
    ) -> Step<T> {
        self.load(name)?;
        let mut nobody = Feed::new(&self.defaults);
        let known = self.by_name.get_mut(name);
        let is_known = known.is_some();
        let feed = known.unwrap_or(&mut nobody);
        let policy = self.defaults.with(&feed.state.overrides);
        let mut effects = Effects::default();
        let result = transition(&mut feed.state, &policy, &mut effects);
        let nothing = effects.changes.is_empty() && effects.locks.is_empty();
        if !nothing {
            feed.pending.append(&mut effects.changes);
            feed.touched_locks.append(&mut effects.locks);
            self.dirty.insert(name.clone());
        }
        if !is_known && (!nothing || nobody.state.overrides != Default::default()) {
            self.by_name.insert(name.clone(), nobody);
        }
        Ok(result)
    }

    pub(super) fn look<T>(&mut self, name: &FeedId, read: impl Fn(&Feed, &Policy) -> T) -> Step<T> {
        self.load(name)?;
        Ok(match self.by_name.get(name) {
            Some(feed) => read(feed, &self.defaults),
            None => read(&Feed::new(&self.defaults), &self.defaults),
        })
    }

    /// Keeps a drop that changed, for the commit.
    pub(super) fn put_stock(&mut self, name: &FeedId, drop: &DropId, stock: Stock) -> Step<()> {
        self.number(name)?;
        if let Some(feed) = self.by_name.get_mut(name) {
            feed.drops.insert(drop.clone(), stock);
            feed.touched_drops.insert(drop.clone());
        }
        self.dirty.insert(name.clone());
        Ok(())
    }

    /// The feed's number in the tables; writes the feed when it has none.
    pub(super) fn number(&mut self, name: &FeedId) -> Step<i64> {
        let feed = self.by_name.entry(name.clone()).or_insert_with(|| Feed::new(&self.defaults));
        if let Some(no) = feed.no {
            return Ok(no);
        }
        self.store.begin()?;
        // An empty checkpoint: the changes that led here are written beside it by this commit.
        let no = self.store.checkpoint(
            name.as_str(),
            &FeedState {
                list: FeedList {
                    at: Position { epoch: feed.state.list.at.epoch.clone(), seq: 0 },
                    ..FeedList::default()
                },
                ..FeedState::default()
            },
            feed.capacity,
        )?;
        feed.no = Some(no);
        self.dirty.insert(name.clone());
        Ok(no)
    }

    fn load(&mut self, name: &FeedId) -> Step<()> {
        if self.by_name.contains_key(name) {
            return Ok(());
        }
        let Some(stored) = self.store.feed(name.as_str(), &self.defaults)? else {
            return Ok(());
        };
        let policy = self.defaults.with(&stored.state.overrides);
        let mut feed = Feed {
            no: Some(stored.no),
            begun: !stored.state.list.at.epoch.is_none(),
            state: stored.state,
            capacity: policy.capacity,
            checkpoint: stored.checkpoint,
            later_locks: stored.later_locks,
            ..Feed::new(&self.defaults)
        };
        for (stock, shown) in self.store.drops(stored.no)? {
            feed.drops.insert(shown.drop.clone(), stock);
            feed.state.list.drops.insert(shown.drop.clone(), shown.into());
        }
        if stored.capacity != policy.capacity {
            // The server's default changed while we were away: a change of the list like any other.
            let mut effects = Effects::default();
            feed.state.resize(&policy, &mut effects);
            feed.pending = effects.changes;
            feed.whole = true;
            self.dirty.insert(name.clone());
        }
        self.by_name.insert(name.clone(), feed);
        Ok(())
    }

    fn write(&mut self) -> Step<()> {
        for name in &self.dirty {
            let Some(feed) = self.by_name.get_mut(name) else { continue };
            self.store.begin()?;
            let state = &mut feed.state;
            let begins = !feed.begun && !state.list.at.epoch.is_none();
            feed.touched_locks.sort_unstable();
            feed.touched_locks.dedup();
            let nowhere_to_stand = feed.pending.is_empty() && !feed.touched_locks.is_empty();
            let due = state.list.at.seq - feed.checkpoint >= CHECKPOINT_EVERY;
            let whole = feed.whole || begins || due || nowhere_to_stand;
            let no = match feed.no {
                Some(no) if !whole => no,
                _ => self.store.checkpoint(name.as_str(), state, feed.capacity)?,
            };
            let mut locks = String::new();
            if !whole {
                for key in &feed.touched_locks {
                    state.locks.get(key).inspect(|lock| push_lock(&mut locks, key, lock));
                }
            }
            self.store.append(no, &feed.pending, &locks)?;
            feed.later_locks.append(&mut feed.touched_locks);
            let now = self.now;
            if whole {
                feed.checkpoint = state.list.at.seq;
                feed.begun = !state.list.at.epoch.is_none();
                self.store.forget_changes(no, state.covered_from.min(state.list.at.seq))?;
                feed.later_locks.sort_unstable();
                feed.later_locks.dedup();
                for key in feed.later_locks.drain(..) {
                    if let Some(lock) = state.locks.get(&key).filter(|lock| lock.until > now) {
                        self.store.lock(no, &key, lock)?;
                    }
                }
            }
            for name in std::mem::take(&mut feed.touched_drops) {
                if let (Some(stock), Some(shown)) = (feed.drops.get(&name), state.list.drops.get(&name)) {
                    self.store.put_drop(no, &name, stock, shown)?;
                }
            }
            if state.locks.len() > feed.purge_locks_at {
                state.locks.retain(|_, lock| lock.until > now);
                self.store.forget_locks(no, now)?;
                feed.purge_locks_at = 2 * state.locks.len() + 64;
            }
            feed.no = Some(no);
            feed.whole = false;
        }
        Ok(())
    }

    /// Makes the group durable; false when it wrote nothing.
    pub(super) fn commit(&mut self) -> Step<bool> {
        let mut dirty = std::mem::take(&mut self.dirty);
        let entered = dirty.iter().try_for_each(|name| self.keep_entries(name));
        self.dirty.append(&mut dirty);
        entered?;
        // What is left in memory is given up when there are too many feeds.
        self.settle_jots(self.by_name.len() > FEEDS_IN_MEMORY)?;
        self.write()?;
        self.store.commit()
    }

    /// What the durable group has to tell, feed by feed. Afterwards nothing is left to write.
    pub(super) fn told(&mut self, mut tell: impl FnMut(&FeedId, Notice)) {
        for name in std::mem::take(&mut self.dirty) {
            let Some(feed) = self.by_name.get_mut(&name) else { continue };
            let must_tell = feed.ledger.must_tell();
            if !feed.pending.is_empty() || must_tell {
                let changes = std::mem::take(&mut feed.pending);
                tell(&name, Notice::Changes(changes.into()));
            }
            if let Some(policy) = feed.new_policy.take() {
                tell(&name, Notice::Policy(policy.into()));
            }
        }
        if self.by_name.len() > FEEDS_IN_MEMORY {
            self.by_name.clear();
        }
    }

    /// Takes a failed group back: memory is ahead of the disk there, and the disk is right.
    pub(super) fn take_back(&mut self) {
        self.store.rollback();
        self.dirty.clear();
        self.by_name.clear();
        let gathered = self.gather_jots();
        if gathered.is_err() {
            self.store.rollback();
        }
        if let Err(error) = gathered.and_then(|()| self.reread_agenda()).and_then(|()| self.reread_hooks()) {
            // What is in memory may name a feed too early, or one too many; its step finds that out.
            tracing::warn!(%error, "the queues could not be read again");
        }
    }

    /// Serves a call whose clock says `now`.
    pub(super) fn at(&mut self, now: Millis) {
        self.now = now;
        if let Some(ms) = self.steady.heard(now, Instant::now()) {
            self.jobs.went_back(ms);
        }
    }

    /// True when what is over by age may be forgotten for good: the clock has been steady.
    pub(super) fn may_forget(&self) -> bool {
        self.steady.may_forget(Instant::now())
    }

    /// Forgets ids whose window is over by the last call's clock, in a commit of its own, if it is time for that.
    pub(super) fn tidy(&mut self) {
        if self.ids_written <= UNTIDY && self.tidied.elapsed() < TIDY_EVERY || !self.may_forget() {
            return;
        }
        self.tidied = Instant::now();
        let some = self.ids_written.min(2 * UNTIDY);
        self.ids_written -= some;
        let most = 2 * some + 256;
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
            begun: false,
            pending: Vec::new(),
            touched_locks: Vec::new(),
            later_locks: Vec::new(),
            whole: false,
            purge_locks_at: 64,
            new_policy: None,
            drops: BTreeMap::new(),
            touched_drops: BTreeSet::new(),
            waiting: None,
            ledger: Ledger::default(),
        }
    }
}
