//! One replica alone over a store that does what the test says. Its runtime has one thread, on which nothing runs
//! while the test does: what the test brings about before it lets the replica run is all there when the replica looks.

use std::sync::Mutex;

use super::*;
use crate::domain::{Epoch, Gift, Omit, Row, RowId};
use crate::engine::Notices;
use crate::live::board::{Cursor, CursorDue, Start};
use crate::supervise::{Part, Parts};

/// `select!` looks at what is ready in a random order: after this number of rounds it has tried all of them.
const ROUNDS: usize = 64;

/// A store of one feed.
struct Store {
    notices: Notices,
    state: Mutex<State>,
}

struct State {
    list: FeedList,
    policy: Policy,
    history: Vec<Change>,
    /// Lists that were read.
    reads: usize,
    /// Calls that fail from now on.
    failing: usize,
}

impl Store {
    /// The next change, without a notice.
    fn gift(&self) -> Change {
        let mut state = self.state.lock().unwrap();
        let raw = r#"{"user":{"id":"u","name":"u"},"gift":{"id":"g","name":"g"}}"#;
        let gift = Gift::parse(serde_json::from_str(raw).unwrap(), None).unwrap();
        let (epoch, seq): (Epoch, u64) = ("e".parse().unwrap(), state.list.at.seq + 1);
        let row = Row::start(RowId::of(&epoch, seq), seq, &gift);
        let change = Change { epoch, seq, prev: seq - 1, tag: seq, op: Op::Add(Arc::new(row)) };
        let capacity = state.policy.capacity;
        state.list.fold(&change, capacity).unwrap();
        state.history.push(change.clone());
        change
    }

    fn tell(&self, changes: &[Change]) {
        self.notices.tell(&Notice::Changes(changes.into()));
    }

    fn head(&self) -> FeedHead {
        let at = self.state.lock().unwrap().list.at.clone();
        FeedHead { tag: at.seq, at }
    }

    fn reads(&self) -> usize {
        self.state.lock().unwrap().reads
    }

    /// The state, unless this call is to fail.
    fn unless_failing<T>(&self, answer: impl FnOnce(&mut State) -> T) -> Result<T, StoreError> {
        let mut state = self.state.lock().unwrap();
        if state.failing > 0 {
            state.failing -= 1;
            return Err(StoreError::Unavailable("the test says so".into()));
        }
        Ok(answer(&mut state))
    }
}

impl FeedSource for Arc<Store> {
    async fn subscribe(&self, _: &FeedId) -> Result<Subscription, StoreError> {
        self.unless_failing(|_| self.notices.subscribe())
    }

    async fn read_changes(&self, _: &FeedId, since: &Position, max: usize) -> Result<Missed, StoreError> {
        self.unless_failing(|state| {
            let after = state.history.iter().filter(|it| it.seq > since.seq);
            Missed::Changes(after.take(max).cloned().collect())
        })
    }

    async fn read_snapshot(&self, _: &FeedId, now: Millis) -> Result<Snapshot, StoreError> {
        self.unless_failing(|state| {
            state.reads += 1;
            let FeedList { at, rows, drops, controls, totals, goals } = state.list.clone();
            let (tag, policy, rows) = (at.seq, state.policy.clone(), rows.into());
            Snapshot { at, tag, policy, rows, drops, controls, totals, goals, now }
        })
    }
}

/// A replica that runs, and one watcher of its board.
struct Scene {
    store: Arc<Store>,
    board: Arc<Board>,
    comparisons: watch::Sender<Option<FeedHead>>,
    metrics: Arc<Metrics>,
    cursor: Cursor,
}

impl Scene {
    /// Of a feed with one gift, which is shown.
    async fn new(flush_ms: u64) -> Scene {
        let policy = Policy { flush_ms, ..Policy::default() };
        let state = State { list: FeedList::default(), policy, history: vec![], reads: 0, failing: 0 };
        let store = Arc::new(Store { notices: Notices::default(), state: Mutex::new(state) });
        store.gift();
        let metrics = Arc::<Metrics>::default();
        let board = Arc::new(Board::new("f".parse().unwrap(), metrics.clone()));
        let (comparisons, compared) = watch::channel(None);
        let followed = (store.clone(), board.clone(), metrics.clone());
        let follow = move |beat| {
            let (store, board, metrics) = followed.clone();
            Replica::new(store, board, compared.clone(), metrics, beat).run()
        };
        tokio::spawn(Parts::new(metrics.clone()).keep(Part::Replica, follow));
        settled().await;
        let Start::At(cursor, _) = board.start(None, Omit::Nothing) else { panic!("the list is there") };
        Scene { store, board, comparisons, metrics, cursor }
    }

    /// What a comparison of all feeds with the store finds.
    fn compare(&self, head: FeedHead) {
        self.comparisons.send_replace(Some(head));
    }

    /// How many changes the watcher is given, one after the other.
    fn take(&mut self) -> u64 {
        let before = self.cursor.at.seq;
        match self.board.take(&mut self.cursor, false, Omit::Nothing) {
            CursorDue::Nothing => 0,
            CursorDue::Frames(_) => self.cursor.at.seq - before,
            CursorDue::Snapshot(_) => panic!("a list instead of changes, at {:?}", self.cursor.at),
        }
    }

    fn repaired(&self) -> u64 {
        self.metrics.gaps_repaired[RepairedBy::History].get()
    }
}

/// Until the replica has done what there is to do: the store answers at once, so nothing but its next turn is waited for.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_change_that_comes_together_with_a_comparison_is_shown_at_once() {
    let mut scene = Scene::new(0).await;
    for round in 0..ROUNDS {
        scene.store.tell(&[scene.store.gift()]);
        scene.compare(scene.store.head());
        settled().await;
        assert_eq!(scene.take(), 1, "round {round}");
    }
    assert_eq!((scene.store.reads(), scene.repaired()), (1, 0), "nothing was amiss");
}

#[tokio::test]
async fn a_change_that_the_comparison_did_not_see_yet_is_shown_and_nothing_is_read_again() {
    let mut scene = Scene::new(0).await;
    for round in 0..ROUNDS {
        let head = scene.store.head();
        scene.store.tell(&[scene.store.gift()]);
        scene.compare(head);
        settled().await;
        assert_eq!(scene.take(), 1, "round {round}");
    }
    assert_eq!(scene.store.reads(), 1);
}

#[tokio::test]
async fn a_hole_that_a_notice_and_a_comparison_find_together_is_refilled_once() {
    let mut scene = Scene::new(0).await;
    for round in 0..ROUNDS {
        // Of three changes the first two have no notice.
        let changes = [(); 3].map(|()| scene.store.gift());
        match round % 2 {
            0 => scene.store.tell(&changes[2..]),
            _ => scene.store.notices.tell(&Notice::Lost),
        }
        scene.compare(scene.store.head());
        settled().await;
        assert_eq!(scene.take(), 3, "round {round}");
        assert_eq!((scene.store.reads(), scene.repaired()), (round + 2, round as u64 + 1), "round {round}");
    }
}

#[tokio::test]
async fn a_change_published_before_a_refill_is_shown_once() {
    let mut scene = Scene::new(0).await;
    for round in 0..ROUNDS {
        let changes = [(); 3].map(|()| scene.store.gift());
        scene.compare(scene.store.head());
        settled().await;
        assert_eq!(scene.take(), 3, "round {round}");
        let reads = scene.store.reads();
        changes.chunks(1).for_each(|change| scene.store.tell(change));
        scene.compare(scene.store.head());
        settled().await;
        assert_eq!((scene.take(), scene.store.reads()), (0, reads), "round {round}");
    }
}

#[tokio::test]
async fn collected_changes_are_shown_when_a_comparison_fails() {
    let mut scene = Scene::new(60_000).await;
    scene.store.tell(&[scene.store.gift()]);
    settled().await;
    assert_eq!(scene.take(), 1, "the first of many is not gathered");
    scene.store.tell(&[scene.store.gift()]);
    scene.store.gift();
    scene.store.state.lock().unwrap().failing = 2;
    scene.compare(scene.store.head());
    settled().await;
    assert_eq!(scene.take(), 0, "the store does not answer");
    // Nobody listens meanwhile.
    scene.store.tell(&[scene.store.gift()]);
    let all = scene.store.head().at;
    let mut moves = scene.board.moves();
    let shown = moves.wait_for(|_| scene.board.position() == Some(all.clone()));
    drop(tokio::time::timeout(Duration::from_secs(60), shown).await);
    assert_eq!(scene.take(), 3);
    assert_eq!(scene.store.reads(), 2);
}
