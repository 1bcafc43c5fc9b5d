//! Rankings that were read a moment ago. Strangers may ask for them, and each costs the store more than a list does: so
//! one is read once for all who ask at the same time, and kept for a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::Gate;
use super::problem::ApiError;
use crate::domain::tally::{LeadersAsk, LeadersView};
use crate::domain::{FeedId, Millis};
use crate::engine::ReadLeaders;

/// For how long a ranking is answered that may have changed on another node.
const KEPT: Duration = Duration::from_secs(1);

/// Rankings that are kept; one is of at most a hundred users.
const MOST: usize = 256;

/// Rankings that are read from the store at the same time.
const READ_AT_ONCE: usize = 4;

/// Rankings by what was asked.
pub(super) struct Rankings {
    slots: Mutex<HashMap<(FeedId, LeadersAsk), Arc<Slot>>>,
    reads: Semaphore,
}

impl Default for Rankings {
    fn default() -> Self {
        Rankings { slots: Mutex::default(), reads: Semaphore::new(READ_AT_ONCE) }
    }
}

/// Locked by the one who reads it, for whom all others wait.
type Slot = tokio::sync::Mutex<Option<Read>>;

struct Read {
    began: Instant,
    /// [`crate::engine::Engine::writes`] when it began.
    writes: u64,
    view: Option<LeadersView>,
}

impl Rankings {
    /// The ranking as [`ReadLeaders`] gives it, at most [`KEPT`] old, and never older than what
    /// this node wrote. `None` if the store would have to be asked, and was asked too often for this `stranger`.
    pub(super) async fn read(
        &self,
        gate: &Gate,
        feed: &FeedId,
        ask: &LeadersAsk,
        stranger: Option<IpAddr>,
    ) -> Result<Option<Option<LeadersView>>, ApiError> {
        let asked = Instant::now();
        let slot = self.slot(feed, ask);
        let mut kept = slot.lock().await;
        let is_fresh = |read: &&Read| {
            // Read for somebody else while this caller waited, or nothing was written since.
            read.began >= asked || read.began.elapsed() < KEPT && read.writes == gate.engine.writes(feed)
        };
        if let Some(read) = kept.as_ref().filter(is_fresh) {
            return Ok(Some(read.view.clone()));
        }
        if stranger.is_some_and(|address| !gate.live.admit_ranking(address)) {
            return Ok(None);
        }
        let _turn = self.reads.acquire().await;
        let (began, writes) = (Instant::now(), gate.engine.writes(feed));
        let leaders = ReadLeaders { feed: feed.clone(), ask: ask.clone(), now: Millis::now() };
        let view = gate.read(leaders).await?;
        *kept = Some(Read { began, writes, view: view.clone() });
        Ok(Some(view))
    }

    fn slot(&self, feed: &FeedId, ask: &LeadersAsk) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&(feed.clone(), ask.clone())) {
            return slot.clone();
        }
        if slots.len() >= MOST {
            slots.retain(|_, slot| {
                Arc::strong_count(slot) > 1
                    || slot
                        .try_lock()
                        .is_ok_and(|read| read.as_ref().is_some_and(|it| it.began.elapsed() < KEPT))
            });
        }
        // One that finds no room is read for its caller alone.
        let slot = Arc::<Slot>::default();
        if slots.len() < MOST {
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
    use crate::domain::tally::{Measure, Period, Session};
    use crate::engine::test_store::{Asked, TestStore};
    use crate::engine::{BeginSession, Engine};
    use crate::http::{Limits, Readiness};
    use crate::live::Live;

    /// Counts how often rankings are read.
    #[derive(Default)]
    struct Store {
        read: AtomicU64,
    }

    impl TestStore for Store {
        fn answer(&self, asked: Asked) -> Asked {
            asked
                .on(|_: ReadLeaders| {
                    let since = Millis(self.read.fetch_add(1, Ordering::Relaxed) as i64 + 1);
                    Ok(Some(LeadersView { since, leaders: Vec::new(), user: None }))
                })
                .on(|begin: BeginSession| Ok((Session { id: begin.id, since: begin.now }, true)))
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

    fn gate() -> (Arc<Store>, Gate) {
        let store = Arc::new(Store::default());
        let engine = Engine::of_test(store.clone());
        let live = Live::start(engine.clone(), Arc::default(), Arc::default());
        (store, Gate::new(engine, live, Arc::new(Readiness::default()), Limits::default()))
    }

    #[actix_web::test]
    async fn a_ranking_is_read_once_for_all_who_ask_at_the_same_time_and_again_after_a_write() {
        let (store, gate) = gate();
        let feed: FeedId = "ranked".parse().unwrap();
        let asks = [ask("a"), ask("b")];
        let all = (0..50).map(|n| gate.rankings.read(&gate, &feed, &asks[n % 2], None));
        assert!(join_all(all).await.into_iter().all(|read| read.unwrap().is_some()));
        assert_eq!(store.read.load(Ordering::Relaxed), 2);
        // Each write of this node is in what is answered after it.
        for written in 1..=3_i64 {
            let begin = BeginSession { feed: FeedId::clone(&feed), id: "s".into(), now: Millis(0) };
            gate.engine.run(begin).await.unwrap();
            let all = (0..50).map(|_| gate.rankings.read(&gate, &feed, &asks[0], None));
            for read in join_all(all).await {
                assert_eq!(read.unwrap().unwrap().unwrap().since, Millis(2 + written));
            }
        }
    }

    #[actix_web::test]
    async fn a_stranger_makes_the_store_rank_up_to_a_rate_and_others_are_not_touched() {
        let (store, gate) = gate();
        let feed: FeedId = "ranked".parse().unwrap();
        let (one, two) = ("192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
        let mut read = 0;
        for n in 0..2_000 {
            read += u64::from(
                gate.rankings.read(&gate, &feed, &ask(&format!("u{n}")), one).await.unwrap().is_some(),
            );
        }
        assert!(read < 1_000, "{read}");
        assert_eq!(store.read.load(Ordering::Relaxed), read);
        assert!(gate.rankings.slots.lock().unwrap().len() <= MOST);
        for other in [two, None] {
            assert!(gate.rankings.read(&gate, &feed, &ask("v"), other).await.unwrap().is_some());
        }
    }
}
