//! One case of the engine contract: a fresh feed on some engine, a virtual clock, and a replica that
//! checks after every call that subscription, history, list and heads agree.

use std::time::Duration;

use tipcast::domain::{
    Answer, Change, Control, Epoch, FeedId, GiftId, GiftTakenBack, Millis, Op, Outcome, Policy, PolicyPatch,
    Position, RowId, Scheduled, Status,
};
use tipcast::engine::{
    DueFate, DueHandled, FeedHead, Missed, Notice, PolicyChange, ScheduledPage, Snapshot, StoreError,
    Subscription, Unscheduled,
};

use super::gifts::GiftSpec;
use super::replica::Replica;
use super::stores::Storage;
use super::subject::Subject;

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Runs each case, an `async fn(Case)`, on every engine that counts: all but the model, which does not.
macro_rules! on_engines_that_count {
    ($($case:ident),+ $(,)?) => {
        mod embedded {
            use $crate::support::{case::Case, stores::Storage};
            $(#[tokio::test] async fn $case() { super::$case(Case::on(Storage::embedded()).await).await })+
        }
        mod redis {
            use $crate::support::{case::Case, stores::Storage};
            $(#[tokio::test] async fn $case() { super::$case(Case::on(Storage::redis()).await).await })+
        }
        mod cluster {
            use $crate::support::{case::Case, stores::Storage};
            $(#[tokio::test] async fn $case() { super::$case(Case::on(Storage::cluster()).await).await })+
        }
        mod valkey {
            use $crate::support::{case::Case, stores::Storage};
            $(#[tokio::test] async fn $case() {
                let Some(store) = Storage::valkey() else { return };
                super::$case(Case::on(store).await).await
            })+
        }
        /// All of them, for who wants to see what they ask of a store.
        #[allow(dead_code)]
        pub fn cases() -> Vec<(&'static str, $crate::support::case::CaseFn)> {
            vec![$((stringify!($case), |case| Box::pin($case(case)))),+]
        }
    };
}

/// Runs each case, an `async fn(Case)`, on every engine.
macro_rules! on_every_engine {
    ($($case:ident),+ $(,)?) => {
        mod model {
            use $crate::support::{case::Case, stores::Storage};
            $(#[tokio::test] async fn $case() { super::$case(Case::on(Storage::model()).await).await })+
        }
        on_engines_that_count![$($case),+];
    };
}

pub struct Case {
    /// The store below, for cases that open it once more.
    pub store: Storage,
    /// What is tested.
    pub engine: Subject,
    /// Fresh.
    pub feed: FeedId,
    /// The virtual clock.
    pub now: Millis,
    /// What a subscriber has.
    pub replica: Replica,
    subscription: Subscription,
    /// What was read from history when the subscription had lost something: these changes may be on their way to it too,
    /// and then come once more.
    reread: Vec<Change>,
}

/// One case of a suite.
pub type CaseFn = fn(Case) -> std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// Where a feed stands.
pub async fn head_of(engine: impl Into<Subject>, feed: &FeedId) -> Result<FeedHead, StoreError> {
    engine.into().read_heads(std::slice::from_ref(feed)).await?.remove(0)
}

/// A feed name that nobody had before.
pub fn fresh_feed() -> FeedId {
    format!("feed-{}", Epoch::mint()).parse().unwrap()
}

impl Case {
    /// A case on a fresh feed.
    pub async fn on(store: Storage) -> Case {
        let engine = store.open().await;
        Case::with(store, engine, fresh_feed()).await
    }

    /// A case on this feed.
    pub async fn with(store: Storage, engine: impl Into<Subject>, feed: FeedId) -> Case {
        let engine = engine.into();
        let now = Millis(1_800_000_000_000);
        let subscription = engine.subscribe(&feed).await.unwrap();
        let replica = Replica::of(engine.read_snapshot(&feed, now).await.unwrap());
        Case { store, engine, feed, now, replica, subscription, reread: vec![] }
    }

    /// Subscribes on the engine as it is now, from where the replica stands.
    pub async fn listen_anew(&mut self) {
        self.subscription = self.engine.subscribe(&self.feed).await.unwrap();
        self.reread.clear();
    }

    /// Lets virtual time pass.
    pub fn pass(&mut self, ms: u64) {
        self.now = self.now.plus(ms);
    }

    /// Takes one gift.
    pub async fn post(&mut self, gift: GiftSpec) -> Outcome {
        self.post_all([gift]).await.remove(0)
    }

    /// Takes gifts in one step.
    pub async fn post_all(&mut self, gifts: impl IntoIterator<Item = GiftSpec>) -> Vec<Outcome> {
        let gifts: Vec<_> = gifts.into_iter().map(|g| g.parse()).collect();
        let asked: Vec<_> = gifts.iter().map(|g| g.id.clone()).collect();
        let outcomes = self.engine.publish(&self.feed, gifts, self.now).await.unwrap();
        let said: Vec<_> = outcomes.iter().map(|o| o.id().clone()).collect();
        assert_eq!(said, asked, "an outcome for each gift, in order");
        let list = self.settle().await;
        for outcome in &outcomes {
            let (Outcome::New(answer) | Outcome::Duplicate(answer)) = outcome else { continue };
            assert!(answer.at.seq <= list.at.seq, "{answer:?} is ahead of {}", list.at);
            assert_eq!(answer.count.is_some(), answer.status == Status::Merged, "{answer:?}");
        }
        outcomes
    }

    /// Posts a gift that must be new and of this status.
    async fn taken_as(&mut self, gift: GiftSpec, status: Status) -> Answer {
        match self.post(gift).await {
            Outcome::New(answer) if answer.status == status => answer,
            other => panic!("wanted {status:?}, got {other:#?}"),
        }
    }

    /// Posts a gift that must be a new row.
    pub async fn accepted(&mut self, gift: GiftSpec) -> Answer {
        let before = self.replica.at.seq;
        let answer = self.taken_as(gift, Status::Accepted).await;
        assert!(answer.at.seq > before);
        let list = self.list().await;
        assert_eq!(
            (Some(&list.rows[0].id), list.rows[0].seq),
            (answer.row.as_ref(), answer.at.seq),
            "the newest row"
        );
        assert_eq!(list.at, answer.at);
        answer
    }

    /// Posts a gift that must join a row.
    pub async fn merged(&mut self, gift: GiftSpec) -> Answer {
        let answer = self.taken_as(gift, Status::Merged).await;
        let list = self.list().await;
        let row =
            list.rows.iter().find(|row| Some(&row.id) == answer.row.as_ref()).expect("the row it joined");
        assert_eq!(Some(row.count), answer.count, "the row's count");
        answer
    }

    /// Posts a gift that must not be shown.
    pub async fn suppressed(&mut self, gift: GiftSpec) -> Answer {
        let before = self.replica.at.clone();
        let answer = self.taken_as(gift, Status::Suppressed).await;
        assert_eq!(self.replica.at, before, "nothing is shown");
        answer
    }

    /// Posts a gift whose id must have come before, with this first answer.
    pub async fn duplicate(&mut self, gift: GiftSpec, first: &Answer) {
        let before = self.list().await;
        assert_eq!(self.post(gift).await, Outcome::Duplicate(first.clone()));
        assert_eq!(self.list().await, before, "a duplicate changes nothing");
    }

    /// Posts a gift that must be kept for later.
    pub async fn scheduled(&mut self, gift: GiftSpec) -> Scheduled {
        let before = self.replica.at.clone();
        let outcome = self.post(gift).await;
        assert_eq!(self.replica.at, before, "nothing is shown yet");
        match outcome {
            Outcome::Scheduled(it) => it,
            other => panic!("wanted it scheduled, got {other:#?}"),
        }
    }

    /// Does what is due in the feed, as the loop does.
    pub async fn work(&mut self) -> Vec<DueHandled> {
        let mut handled = vec![];
        loop {
            let run = self.engine.run_due(&self.feed, self.now).await.unwrap();
            handled.extend(run.handled);
            if run.next.is_none_or(|next| next > self.now) {
                self.settle().await;
                return handled;
            }
        }
    }

    /// [`Case::work`], which must show every gift; the answers.
    pub async fn shown(&mut self) -> Vec<Answer> {
        let shown = |it: DueHandled| match it.fate {
            DueFate::Shown(answer) => answer,
            other => panic!("wanted it shown, got {other:?}"),
        };
        self.work().await.into_iter().map(shown).collect()
    }

    /// Every gift that waits.
    pub async fn waiting(&self) -> ScheduledPage {
        self.engine.list_scheduled(&self.feed, None, 100_000).await.unwrap()
    }

    /// Cancels a gift.
    pub async fn cancel(&mut self, id: &str) -> Unscheduled {
        let id: GiftId = id.parse().unwrap();
        let before = self.replica.at.clone();
        let done = self.engine.cancel_scheduled(&self.feed, &id, self.now).await.unwrap();
        self.settle().await;
        assert_eq!(self.replica.at, before, "cancelling changes nothing on screen");
        done
    }

    /// Takes a row back.
    pub async fn retract(&mut self, row: &RowId) -> Option<Position> {
        let at = self.engine.retract_row(&self.feed, row, self.now).await.unwrap();
        let list = self.settle().await;
        assert!(at.as_ref().is_none_or(|at| *at == list.at), "{at:?} is the position after it");
        at
    }

    /// Takes one gift back by its id; false when it is not remembered.
    pub async fn take_back(&mut self, id: &str) -> bool {
        let id: GiftId = id.parse().unwrap();
        let done = self.engine.retract_gift(&self.feed, &id, None, self.now).await.unwrap();
        self.settle().await;
        done == GiftTakenBack::Done
    }

    /// Takes all rows of a user back.
    pub async fn take_user_back(&mut self, user: &str) -> u64 {
        let removed = self.engine.retract_user(&self.feed, user, self.now).await.unwrap();
        self.settle().await;
        removed
    }

    /// Asks overlays what to do.
    pub async fn control(&mut self, control: Control) -> Option<Position> {
        let at = self.engine.send_control(&self.feed, &control, self.now).await.unwrap();
        let list = self.settle().await;
        assert!(at.as_ref().is_none_or(|at| *at == list.at), "{at:?} is where the feed stands");
        at
    }

    /// Closes the engine and opens another on the same store.
    pub async fn reopen(&mut self) {
        self.settle().await;
        if !matches!(self.store, Storage::Model(_)) {
            self.engine.close().await;
        }
        self.engine = self.store.open().await;
        self.listen_anew().await;
    }

    /// PATCH policy, given as JSON.
    pub async fn patch(&mut self, patch: serde_json::Value) -> Policy {
        self.set_policy(PolicyChange::Merge(patch_of(patch))).await
    }

    /// PUT policy, given as JSON.
    pub async fn put(&mut self, patch: serde_json::Value) -> Policy {
        self.set_policy(PolicyChange::Replace(patch_of(patch))).await
    }

    async fn set_policy(&mut self, change: PolicyChange) -> Policy {
        let policy = self.engine.set_policy(&self.feed, &change, self.now).await.unwrap();
        assert_eq!(self.engine.read_policy(&self.feed).await.unwrap(), policy, "what is in force");
        self.replica.capacity = policy.capacity;
        self.settle().await;
        policy
    }

    /// The list now.
    pub async fn list(&mut self) -> Snapshot {
        self.settle().await
    }

    /// Where the feed stands.
    pub async fn head(&self) -> FeedHead {
        head_of(&self.engine, &self.feed).await.unwrap()
    }

    /// The changes after `seq` of the feed's epoch.
    pub async fn after(&self, seq: u64) -> Missed {
        let since = Position { epoch: self.replica.at.epoch.clone(), seq };
        self.engine.read_changes(&self.feed, &since, 100_000).await.unwrap()
    }

    /// True when a watcher at `seq` could resume.
    pub async fn covers(&self, seq: u64) -> bool {
        matches!(self.after(seq).await, Missed::Changes(_))
    }

    /// The ids of the rows, newest first.
    pub async fn row_ids(&mut self) -> Vec<RowId> {
        self.list().await.rows.iter().map(|row| row.id.clone()).collect()
    }

    /// Folds what the subscription brings until it is where the list is, and compares everything that
    /// shows of the feed.
    async fn settle(&mut self) -> Snapshot {
        let list = self.engine.read_snapshot(&self.feed, self.now).await.unwrap();
        assert!(list.rows.len() as u64 <= list.policy.capacity, "the list is full: {list:?}");
        let before = self.replica.at.clone();
        let mut seen: Vec<Change> = vec![];
        while self.replica.at != list.at {
            let notice = tokio::time::timeout(PATIENCE, self.subscription.next()).await;
            let told = match notice
                .unwrap_or_else(|_| panic!("no notice between {} and {}", self.replica.at, list.at))
            {
                Some(Notice::Changes(changes)) => self.not_reread(&changes),
                Some(Notice::Lost) => {
                    let missed = self.refill().await;
                    self.reread.extend_from_slice(&missed);
                    missed
                }
                Some(Notice::Policy) => vec![],
                None => panic!("the subscription ended"),
            };
            for change in told {
                self.replica.fold(&change);
                seen.push(change);
            }
        }
        self.replica.assert_is(&list);
        let head = self.head().await;
        assert_eq!((&head.at, head.tag), (&list.at, list.tag), "heads and the list agree");
        if let Some(known) = self.engine.known(&self.feed) {
            assert!(known.epoch == list.at.epoch && known.seq >= list.at.seq, "{known} knows {}", list.at);
        }
        let begun = before.epoch.is_none() && !seen.is_empty();
        let reset = seen.iter().any(|change| change.op == Op::Reset);
        match self.engine.read_changes(&self.feed, &before, 100_000).await.unwrap() {
            Missed::Changes(changes) => assert_eq!(changes, seen, "history tells what the subscription told"),
            Missed::NotCovered => {
                assert!(begun || reset || list.policy.history < seen.len() as u64, "{before} must be covered")
            }
        }
        list
    }

    /// These changes, without those that were read from history before.
    fn not_reread(&self, changes: &[Change]) -> Vec<Change> {
        changes.iter().filter(|change| !self.reread.contains(change)).cloned().collect()
    }

    async fn refill(&self) -> Vec<Change> {
        match self.engine.read_changes(&self.feed, &self.replica.at, 100_000).await.unwrap() {
            Missed::Changes(changes) => changes,
            Missed::NotCovered => panic!("the subscription lost what history does not have"),
        }
    }
}

fn patch_of(json: serde_json::Value) -> PolicyPatch {
    let raw = serde_json::value::to_raw_value(&json).unwrap();
    PolicyPatch::parse(&raw).unwrap()
}
