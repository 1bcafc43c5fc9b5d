//! What anybody may ask for is read once for all who ask at the same time, and kept for a second.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::Gate;
use super::problem::ApiError;
use crate::domain::FeedId;

/// For how long an answer is given that may have changed on another node.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// Answers of one kind that are kept.
const MAX_ANSWERS: usize = 256;

/// Those of one kind that are read from the store at the same time.
const READ_AT_ONCE: usize = 4;

/// Answers of one kind, by the feed and what was asked of it.
pub(super) struct SharedReads<A, T> {
    slots: Mutex<HashMap<(FeedId, A), Slot<T>>>,
    reads: Semaphore,
}

impl<A, T> Default for SharedReads<A, T> {
    fn default() -> Self {
        SharedReads { slots: Mutex::default(), reads: Semaphore::new(READ_AT_ONCE) }
    }
}

/// Locked by the one that reads it; all others wait for that one.
type Slot<T> = Arc<tokio::sync::Mutex<Option<Read<T>>>>;

struct Read<T> {
    began: Instant,
    /// [`crate::engine::Store::writes`] when it began.
    writes: u64,
    answer: T,
}

impl<A: Clone + Eq + Hash, T: Clone> SharedReads<A, T> {
    /// What `fetch` gives, at most [`CACHE_TIME`] old, and never older than what this node wrote. Nothing is kept of an error.
    pub(super) async fn read(
        &self,
        gate: &Gate,
        feed: &FeedId,
        ask: &A,
        fetch: impl AsyncFnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let asked = Instant::now();
        let slot = self.slot(feed, ask);
        let mut kept = slot.lock().await;
        let is_fresh = |read: &&Read<T>| {
            // Read for somebody else while this caller waited, or nothing was written since.
            read.began >= asked || read.began.elapsed() < CACHE_TIME && read.writes == gate.store.writes(feed)
        };
        if let Some(read) = kept.as_ref().filter(is_fresh) {
            return Ok(read.answer.clone());
        }
        let _turn = self.reads.acquire().await;
        let (began, writes) = (Instant::now(), gate.store.writes(feed));
        let answer = fetch().await?;
        *kept = Some(Read { began, writes, answer: answer.clone() });
        Ok(answer)
    }

    fn slot(&self, feed: &FeedId, ask: &A) -> Slot<T> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&(feed.clone(), ask.clone())) {
            return slot.clone();
        }
        if slots.len() >= MAX_ANSWERS {
            slots.retain(|_, slot| {
                Arc::strong_count(slot) > 1
                    || slot
                        .try_lock()
                        .is_ok_and(|read| read.as_ref().is_some_and(|it| it.began.elapsed() < CACHE_TIME))
            });
        }
        // One that finds no room is read for its caller alone.
        let slot = Slot::<T>::default();
        if slots.len() < MAX_ANSWERS {
            slots.insert((feed.clone(), ask.clone()), slot.clone());
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::future::join_all;

    use super::*;
    use crate::domain::Millis;
    use crate::domain::tally::{LeadersAsk, Measure, Period};
    use crate::engine::Store;
    use crate::engine::test_store::{Interception, Interceptor};
    use crate::http::totals::read_leaders;
    use crate::http::{Limits, Readiness};
    use crate::live::Live;
    use crate::metrics::labels::Operation;

    /// Counts how often rankings are read.
    #[derive(Default)]
    struct Reads {
        leaders: AtomicU64,
    }

    impl Interceptor for Reads {
        fn before(&self, operation: Operation) -> Interception<'_> {
            self.leaders.fetch_add(u64::from(operation == Operation::Leaders), Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn ask(user: &str) -> LeadersAsk {
        LeadersAsk {
            period: Period::All,
            back: false,
            by: Measure::Units,
            limit: 10,
            user: Some(user.to_owned()),
        }
    }

    async fn gate() -> (Arc<Reads>, Gate, tempfile::TempDir) {
        let reads = Arc::<Reads>::default();
        let (store, folder) = Store::in_temporary_folder(1).await;
        let store = store.intercepted(reads.clone());
        let live = Live::start(store.clone(), Arc::default(), Arc::default());
        (reads, Gate::new(store, live, Arc::new(Readiness::default()), Limits::default()), folder)
    }

    #[actix_web::test]
    async fn an_answer_is_read_once_for_all_who_ask_at_the_same_time_and_again_after_a_write() {
        let (reads, gate, _folder) = gate().await;
        let feed: FeedId = "ranked".parse().unwrap();
        let asks = [ask("a"), ask("b")];
        let all = (0..50).map(|n| read_leaders(&gate, &feed, &asks[n % 2], None));
        assert!(join_all(all).await.into_iter().all(|read| read.is_ok()));
        assert_eq!(reads.leaders.load(Ordering::Relaxed), 2);
        // Each write of this node is in what is answered after it.
        for written in 1..=3 {
            gate.store.begin_session(&feed, format!("s{written}"), Millis::now()).await.unwrap();
            let all = (0..50).map(|_| read_leaders(&gate, &feed, &asks[0], None));
            for read in join_all(all).await {
                assert_eq!(read.unwrap(), None, "nothing is counted here");
            }
            assert_eq!(reads.leaders.load(Ordering::Relaxed), 2 + written);
        }
    }

    #[actix_web::test]
    async fn a_stranger_makes_the_store_rank_up_to_a_rate_and_others_are_not_touched() {
        let (reads, gate, _folder) = gate().await;
        let feed: FeedId = "ranked".parse().unwrap();
        let (one, two) = ("192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
        let mut read = 0;
        for n in 0..2_000 {
            read += u64::from(read_leaders(&gate, &feed, &ask(&format!("u{n}")), one).await.is_ok());
        }
        assert!(read < 1_000, "{read}");
        assert_eq!(reads.leaders.load(Ordering::Relaxed), read);
        assert!(gate.leaders.slots.lock().unwrap().len() <= MAX_ANSWERS);
        for other in [two, None] {
            assert!(read_leaders(&gate, &feed, &ask("v"), other).await.is_ok());
        }
    }
}
