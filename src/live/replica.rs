//! Follows one feed: folds the store's notices into the list, refills holes, gathers changes for
//! `flush_ms`, and writes the board.
//!
//! Notices are a hint, seq is the truth: a change is applied only when it is the next one and names
//! the mark of the one before it. Whatever else happens ends in a refill or a fresh snapshot.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::board::Board;
use crate::domain::{
    Change, FeedId, FeedList, Millis, Op, Policy, Position, RemoveReason, Tag, TellPresence, Visibility,
};
use crate::engine::{FeedHead, Missed, Notice, Snapshot, Store, StoreError, Subscription};
use crate::metrics::Metrics;
use crate::metrics::labels::RepairedBy;
use crate::supervise::{Beat, faults};

/// Changes read from history at once when a hole is refilled.
const REFILL_CHANGES: usize = 512;

/// How many changes in front of the ring are read when somebody wants to resume over them. Smaller numbers are tried if the store
/// does not cover the larger ones.
const RESUME_CHANGES: [u64; 3] = [2_048, 512, 64];

/// Changes gathered before they are flushed whatever the clock says.
const GATHER_MOST: usize = 1024;

/// Notices that wait before they are looked at while changes are gathered.
const MAX_GATHERED_NOTICES: usize = 64;

/// Waits between attempts while the store does not answer.
const RETRY_PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(600),
    Duration::from_millis(1000),
];

/// How soon an expiry is asked for again when the store did not find it due yet.
const EXPIRY_AGAIN: Duration = Duration::from_millis(100);

/// What a replica asks of the store.
pub(super) trait FeedSource: Send + Sync + 'static {
    /// [`Store::subscribe`].
    fn subscribe(&self, feed: &FeedId) -> impl Future<Output = Result<Subscription, StoreError>> + Send;

    /// [`Store::read_changes`].
    fn read_changes(
        &self,
        feed: &FeedId,
        since: &Position,
        max: usize,
    ) -> impl Future<Output = Result<Missed, StoreError>> + Send;

    /// [`Store::read_snapshot`].
    fn read_snapshot(
        &self,
        feed: &FeedId,
        now: Millis,
    ) -> impl Future<Output = Result<Snapshot, StoreError>> + Send;
}

impl FeedSource for Store {
    async fn subscribe(&self, feed: &FeedId) -> Result<Subscription, StoreError> {
        self.subscribe(feed).await
    }

    async fn read_changes(&self, feed: &FeedId, since: &Position, max: usize) -> Result<Missed, StoreError> {
        self.read_changes(feed, since, max).await
    }

    async fn read_snapshot(&self, feed: &FeedId, now: Millis) -> Result<Snapshot, StoreError> {
        self.read_snapshot(feed, now).await
    }
}

pub(super) struct Replica<S> {
    store: S,
    board: Arc<Board>,
    comparisons: watch::Receiver<Option<FeedHead>>,
    beat: Beat,
    list: FeedList,
    /// The mark of the newest change in `list`.
    tag: Tag,
    policy: Policy,
    /// Folded into `list`, not on the board yet.
    pending: Vec<Change>,
    /// While set, changes are gathered until then.
    gathering: Option<Instant>,
    /// The store's clock minus ours, in milliseconds.
    skew_ms: i64,
    /// When the store is next asked to remove expired rows.
    expiry: Option<Instant>,
    /// A head behind ours that the last comparison met.
    suspect: Option<Position>,
    metrics: Arc<Metrics>,
}

/// Why following stopped.
enum Stop {
    /// The store failed; follow again after a while.
    Again(StoreError),
    /// The store was closed, or what carries its notices has ended; follow again after a while.
    Closed,
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Stop::Again(error)
    }
}

impl<S: FeedSource> Replica<S> {
    pub(super) fn new(
        store: S,
        board: Arc<Board>,
        comparisons: watch::Receiver<Option<FeedHead>>,
        metrics: Arc<Metrics>,
        beat: Beat,
    ) -> Self {
        Replica {
            store,
            board,
            comparisons,
            list: FeedList::default(),
            beat,
            tag: 0,
            policy: Policy::default(),
            pending: Vec::new(),
            gathering: None,
            skew_ms: 0,
            expiry: None,
            suspect: None,
            metrics,
        }
    }

    /// Until the feed is let go: the task is aborted.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        loop {
            self.beat.works();
            let stop = self.follow(&mut failures).await;
            self.board.set_unread(true);
            if let Stop::Again(error) = stop
                && failures == 0
            {
                tracing::warn!(feed = %self.board.feed(), %error, "a watched feed cannot be followed; trying again");
            }
            self.beat.rests();
            sleep(RETRY_PAUSES[failures.min(RETRY_PAUSES.len() - 1)]).await;
            failures += 1;
        }
    }

    async fn follow(&mut self, failures: &mut usize) -> Stop {
        // Subscribed before anything is read: what changes after the read is noticed.
        let mut notices = match self.store.subscribe(self.board.feed()).await {
            Ok(notices) => notices,
            Err(error) => return Stop::Again(error),
        };
        if let Err(stop) = self.repair().await {
            return stop;
        }
        *failures = 0;
        self.board.set_unread(false);
        loop {
            if let Err(stop) = self.step(&mut notices).await {
                return stop;
            }
        }
    }

    async fn step(&mut self, notices: &mut Subscription) -> Result<(), Stop> {
        self.beat.rests();
        let patience = if self.gathering.is_some() { MAX_GATHERED_NOTICES } else { 1 };
        tokio::select! {
            notice = notices.next_of(patience) => {
                self.beat.works();
                faults::pass("replica").await;
                self.heed(notice.ok_or(Stop::Closed)?).await?;
                self.heed_waiting(notices).await?;
            }
            () = until(self.gathering) => {
                self.gathering = None;
                self.heed_waiting(notices).await?;
            }
            () = self.board.hurried() => {
                self.heed_waiting(notices).await?;
                self.flush();
            }
            () = self.board.resume_wanted() => {
                self.beat.works();
                self.fill().await;
            }
            () = until(self.expiry) => {
                self.beat.works();
                self.expire().await?;
            }
            changed = self.comparisons.changed() => {
                changed.map_err(|_| Stop::Closed)?;
                self.beat.works();
                // Before it is read: the changes up to this head may be waiting here.
                self.heed_waiting(notices).await?;
                let head = self.comparisons.borrow_and_update().clone();
                if let Some(head) = head {
                    self.compare(head).await?;
                }
            }
        }
        Ok(())
    }

    /// Handles what waits, and flushes when nothing is to be gathered, or enough is: after a notice was taken, its change must
    /// not stay behind until the next one.
    async fn heed_waiting(&mut self, notices: &mut Subscription) -> Result<(), Stop> {
        while self.pending.len() < GATHER_MOST
            && let Some(notice) = notices.try_next()
        {
            self.heed(notice).await?;
        }
        if self.gathering.is_none() || self.pending.len() >= GATHER_MOST {
            self.flush();
        }
        Ok(())
    }

    async fn heed(&mut self, notice: Notice) -> Result<(), Stop> {
        match notice {
            Notice::Changes(changes) => {
                for change in changes.iter() {
                    if !self.apply(change) {
                        // A feed's first change and a reset have no delta; that is no gap.
                        if self.list.at.epoch.is_none() || matches!(change.op, Op::Reset) {
                            return self.catch_up().await.map(drop);
                        }
                        return self.repair().await;
                    }
                }
                self.plan_expiry();
            }
            // Notices may be older than the snapshot we stand on: the store says what is in force.
            Notice::Policy => drop(self.catch_up().await?),
            Notice::Lost => self.repair().await?,
        }
        Ok(())
    }

    /// Folds the next change. False when something else is needed.
    fn apply(&mut self, change: &Change) -> bool {
        let at = &self.list.at;
        let same_epoch = change.epoch == at.epoch && !at.epoch.is_none();
        if same_epoch && change.seq < at.seq {
            // Seen before: notices may repeat what a refill brought.
            return true;
        }
        if same_epoch && change.seq == at.seq {
            return change.tag == self.tag;
        }
        // Watchers get a feed's first change and a reset as a snapshot.
        if !same_epoch || change.prev != self.tag || matches!(change.op, Op::Reset) {
            return false;
        }
        if self.list.fold(change, self.policy.capacity).is_err() {
            return false;
        }
        self.tag = change.tag;
        self.pending.push(change.clone());
        true
    }

    /// Brings the replica to where the store is: by history where it leads on, else by a snapshot.
    /// Only the store's snapshot says that the list is right, and asking for it makes a store that
    /// went back or forked begin a new epoch.
    ///
    /// True when history led on.
    async fn catch_up(&mut self) -> Result<bool, Stop> {
        self.suspect = None;
        let snapshot = self.snapshot().await?;
        // Before anything newer is shown: the policy may have changed with it.
        self.board.set_private(snapshot.policy.visibility == Visibility::Private);
        self.skew_ms = snapshot.now.0 - Millis::now().0;
        self.board.skewed(self.skew_ms);
        let led = self.board.position().is_some() && self.refill(&snapshot).await?;
        self.policy = snapshot.policy.clone();
        self.board.limit(self.policy.history);
        self.board.presence().want(self.policy.presence == TellPresence::Count);
        if led {
            self.flush();
        } else {
            self.pending.clear();
            self.gathering = None;
            self.tag = snapshot.tag;
            self.list = snapshot.into_list();
            self.board.replace(&self.list, self.policy.capacity);
        }
        self.plan_expiry();
        Ok(led)
    }

    /// Reads what is in front of the ring, once for everybody who wants to resume over it.
    async fn fill(&mut self) {
        let Some(to) = self.board.fill_to() else { return };
        let mut found = Vec::new();
        for most in RESUME_CHANGES {
            let count = most.min(to.seq).min(self.policy.history);
            if count == 0 {
                break;
            }
            let since = Position { seq: to.seq - count, ..to.clone() };
            self.beat.rests();
            let read = self.store.read_changes(self.board.feed(), &since, count as usize).await;
            self.beat.works();
            match read {
                // The history is shorter.
                Ok(Missed::NotCovered) => {}
                Ok(Missed::Changes(changes)) => {
                    found = changes;
                    break;
                }
                // Each watcher asks for itself, and hears why not.
                Err(_) => break,
            }
        }
        // What comes before a change of capacity is no delta.
        let from = found.iter().rposition(|it| matches!(it.op, Op::Reset)).map_or(0, |at| at + 1);
        self.board.fill(&found[from..]);
    }

    /// The store's list. Waiting for it is no work of this part: the store has a time-out, and a disk may take long.
    async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        self.beat.rests();
        let read = self.store.read_snapshot(self.board.feed(), Millis::now()).await;
        self.beat.works();
        read
    }

    /// Catches up where something was missed, and counts it if so.
    async fn repair(&mut self) -> Result<(), Stop> {
        let (listed, seq) = (self.board.position().is_some(), self.list.at.seq);
        let led = self.catch_up().await?;
        if listed && !(led && self.list.at.seq == seq) {
            let by = if led { RepairedBy::History } else { RepairedBy::Snapshot };
            self.metrics.gaps_repaired[by].inc();
        }
        Ok(())
    }

    /// Folds history up to `snapshot`. True when that made the snapshot's very list.
    async fn refill(&mut self, snapshot: &Snapshot) -> Result<bool, Stop> {
        let leads_on = snapshot.at.epoch == self.list.at.epoch
            && snapshot.at.seq >= self.list.at.seq
            && snapshot.policy.capacity == self.policy.capacity;
        while leads_on && self.list.at.seq < snapshot.at.seq {
            let most = REFILL_CHANGES.min((snapshot.at.seq - self.list.at.seq) as usize);
            self.beat.rests();
            let missed = self.store.read_changes(self.board.feed(), &self.list.at, most).await;
            self.beat.works();
            let Missed::Changes(changes) = missed? else { return Ok(false) };
            if changes.is_empty() || !changes.iter().all(|change| self.apply(change)) {
                return Ok(false);
            }
            self.flush();
        }
        let same = self.list.rows.iter().eq(&snapshot.rows)
            && self.list.drops == snapshot.drops
            && self.list.controls == snapshot.controls
            && self.list.totals == snapshot.totals
            && self.list.goals == snapshot.goals;
        Ok(leads_on && snapshot.tag == self.tag && same)
    }

    /// A head that is behind may only have been read a moment ago; one that stays behind is a store
    /// that went back.
    async fn compare(&mut self, head: FeedHead) -> Result<(), Stop> {
        let at = &self.list.at;
        let behind = head.at.epoch == at.epoch && head.at.seq < at.seq;
        if behind && self.suspect.as_ref() != Some(&head.at) {
            self.suspect = Some(head.at);
            return Ok(());
        }
        self.suspect = None;
        if head.at != *at || head.tag != self.tag {
            self.repair().await?;
        }
        Ok(())
    }

    /// Puts what was gathered on the board. What follows within `flush_ms` is gathered again.
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.board.append(&self.pending, &self.list);
        self.count_pending();
        self.pending.clear();
        let window = Duration::from_millis(self.policy.flush_ms);
        self.gathering = (!window.is_zero()).then(|| Instant::now() + window);
    }

    /// How late the board is, by the store's clock.
    fn count_pending(&self) {
        let now = Millis(Millis::now().0 + self.skew_ms);
        for change in &self.pending {
            match &change.op {
                Op::Add(row) | Op::Update(row) => {
                    let late = Duration::from_millis(now.since(row.updated_at));
                    self.metrics.publish_to_watch.observe(late.as_secs_f64());
                }
                Op::Remove { reason: RemoveReason::Expired, .. } => drop(self.metrics.rows_expired.inc()),
                Op::Remove { .. }
                | Op::Drop(_)
                | Op::Control(_)
                | Op::Totals(_)
                | Op::Goal(..)
                | Op::Reset => {}
            }
        }
    }

    /// The store removes expired rows when it is asked for the list; the removals come as notices.
    async fn expire(&mut self) -> Result<(), Stop> {
        self.expiry = None;
        let snapshot = self.snapshot().await?;
        self.skew_ms = snapshot.now.0 - Millis::now().0;
        self.board.skewed(self.skew_ms);
        self.plan_expiry();
        let again = Instant::now() + EXPIRY_AGAIN;
        self.expiry = self.expiry.map(|at| at.max(again));
        Ok(())
    }

    fn plan_expiry(&mut self) {
        let soonest = self.list.rows.iter().filter_map(|row| row.expires_at).min();
        self.expiry = soonest.map(|at| {
            let wait = Millis(at.0 - self.skew_ms).since(Millis::now());
            Instant::now() + Duration::from_millis(wait)
        });
    }
}

/// Waits for ever when there is no deadline.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
