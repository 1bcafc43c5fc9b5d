//! How what happens to a feed reaches those who follow it: a queue for each of them, which costs next to nothing while
//! nothing happens, since most feeds that somebody watches are quiet.
//!
//! A queue is bounded. One that is full drops what waits and holds [`Notice::Lost`] instead: notices are a hint, and a
//! listener that missed some compares positions with the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Notice;

/// Notices that wait for one follower at most.
pub const MAX_QUEUED_NOTICES: usize = 512;

/// A queue that was longer than this gives its memory back once it is empty.
const KEPT_CAPACITY: usize = 8;

/// Sends the notices of one feed to its present listeners.
#[derive(Debug, Default)]
pub struct Notices {
    queues: Mutex<Vec<Arc<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<QueueState>,
    /// Notified when something waits, or when nothing will come any more.
    more: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Notice>,
    /// Something else than changes is among them.
    urgent: bool,
    /// The listener sleeps until this number of notices waits, or an urgent one does.
    patience: usize,
    /// The listener is gone.
    left: bool,
    /// The sender is gone.
    closed: bool,
}

/// The changes of one feed as they become durable. A hint: seq is the truth.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notices {
    /// Listens from now on.
    pub fn subscribe(&self) -> Subscription {
        let queue = Arc::<Queue>::default();
        let mut queues = locked(&self.queues);
        queues.retain(|queue| !locked(&queue.state).left);
        queues.push(queue.clone());
        Subscription { queue }
    }

    /// True while somebody listens.
    pub fn are_heard(&self) -> bool {
        locked(&self.queues).iter().any(|queue| !locked(&queue.state).left)
    }

    /// Sends it to all listeners; having none is no failure.
    pub fn tell(&self, notice: &Notice) {
        locked(&self.queues).retain(|queue| queue.push(notice));
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        for queue in locked(&self.queues).iter() {
            locked(&queue.state).closed = true;
            queue.more.notify_one();
        }
    }
}

impl Queue {
    /// False after the last listener has gone.
    fn push(&self, notice: &Notice) -> bool {
        let mut state = locked(&self.state);
        if state.left {
            return false;
        }
        if state.waiting.len() >= MAX_QUEUED_NOTICES {
            state.waiting.clear();
            state.waiting.push_back(Notice::Lost);
            state.urgent = true;
        }
        state.urgent |= !matches!(notice, Notice::Changes(_));
        state.waiting.push_back(notice.clone());
        let heard = state.is_due();
        drop(state);
        if heard {
            self.more.notify_one();
        }
        true
    }
}

impl QueueState {
    /// Whether what waits is enough to wake the listener.
    fn is_due(&self) -> bool {
        self.urgent || self.waiting.len() >= self.patience.max(1)
    }
}

impl Subscription {
    /// The next notice, or `None` after the store was closed. Cancel safe.
    pub async fn next(&mut self) -> Option<Notice> {
        self.next_of(1).await
    }

    /// The next notice, once `patience` of them wait, or one that is not about changes does. Who gathers is not woken for
    /// each; what waits meanwhile is there for [`Subscription::try_next`]. `None` after the store was closed. Cancel safe.
    pub async fn next_of(&mut self, patience: usize) -> Option<Notice> {
        loop {
            let (due, closed) = {
                let mut state = locked(&self.queue.state);
                // In the same step as the look: what comes from here on is measured by it.
                state.patience = patience.min(MAX_QUEUED_NOTICES);
                (state.is_due(), state.closed)
            };
            if (due || closed)
                && let Some(notice) = self.try_next()
            {
                return Some(notice);
            }
            if closed {
                return None;
            }
            // A notice that came since then has left its permit.
            self.queue.more.notified().await;
        }
    }

    /// A notice that is there already, without waiting.
    pub fn try_next(&mut self) -> Option<Notice> {
        let mut state = locked(&self.queue.state);
        let notice = state.waiting.pop_front();
        if state.waiting.is_empty() {
            state.urgent = false;
            if state.waiting.capacity() > KEPT_CAPACITY {
                state.waiting = VecDeque::new();
            }
        }
        notice
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = locked(&self.queue.state);
        state.left = true;
        state.waiting = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everybody_who_listens_is_told_in_order_and_the_end_comes_last() {
        let notices = Notices::default();
        assert!(!notices.are_heard());
        let (mut one, two) = (notices.subscribe(), notices.subscribe());
        notices.tell(&Notice::Policy);
        notices.tell(&Notice::Lost);
        drop(two);
        assert!(notices.are_heard());
        assert!(matches!(one.next().await, Some(Notice::Policy)));
        assert!(matches!(one.try_next(), Some(Notice::Lost)));
        assert!(one.try_next().is_none());
        notices.tell(&Notice::Policy);
        assert_eq!(locked(&notices.queues).len(), 1, "who left is forgotten");
        drop(notices);
        assert!(matches!(one.next().await, Some(Notice::Policy)));
        assert!(one.next().await.is_none());
    }

    #[tokio::test]
    async fn a_slow_subscriber_gets_a_gap_and_then_the_newest() {
        let notices = Notices::default();
        let mut slow = notices.subscribe();
        for _ in 0..=MAX_QUEUED_NOTICES {
            notices.tell(&Notice::Changes(Arc::new([])));
        }
        assert!(matches!(slow.next().await, Some(Notice::Lost)));
        assert!(matches!(slow.next().await, Some(Notice::Changes(_))));
        assert!(slow.try_next().is_none());
    }

    #[tokio::test]
    async fn a_notice_wakes_who_waits_and_a_wait_that_was_given_up_loses_nothing() {
        let notices = Arc::new(Notices::default());
        let mut patient = notices.subscribe();
        assert!(tokio::time::timeout(std::time::Duration::ZERO, patient.next()).await.is_err());
        let waiting = tokio::spawn(async move { patient.next().await });
        tokio::task::yield_now().await;
        notices.tell(&Notice::Policy);
        assert!(matches!(waiting.await.unwrap(), Some(Notice::Policy)));
    }

    #[tokio::test]
    async fn a_collecting_watcher_wakes_at_enough_changes_and_finds_all() {
        let notices = Arc::new(Notices::default());
        let mut gathering = notices.subscribe();
        let changes = || Notice::Changes(Arc::new([]));
        let asleep = async |gathering: &mut Subscription| {
            tokio::time::timeout(std::time::Duration::ZERO, gathering.next_of(3)).await.is_err()
        };
        notices.tell(&changes());
        assert!(asleep(&mut gathering).await);
        notices.tell(&changes());
        assert!(asleep(&mut gathering).await);
        notices.tell(&changes());
        for _ in 0..3 {
            assert!(matches!(gathering.next_of(1).await, Some(Notice::Changes(_))));
        }
        notices.tell(&changes());
        assert!(asleep(&mut gathering).await);
        assert!(
            matches!(gathering.next().await, Some(Notice::Changes(_))),
            "who no longer gathers has it at once"
        );
        let waiting = tokio::spawn(async move {
            let first = gathering.next_of(MAX_QUEUED_NOTICES).await;
            (first, gathering.try_next(), gathering.next_of(MAX_QUEUED_NOTICES).await)
        });
        tokio::task::yield_now().await;
        notices.tell(&changes());
        notices.tell(&Notice::Policy);
        tokio::task::yield_now().await;
        drop(notices);
        let (first, second, end) = waiting.await.unwrap();
        assert!(matches!((first, second), (Some(Notice::Changes(_)), Some(Notice::Policy))));
        assert!(end.is_none());
    }

    #[test]
    fn a_feed_that_nothing_happens_to_costs_no_queue() {
        let notices = Notices::default();
        let mut quiet = notices.subscribe();
        for _ in 0..100 {
            notices.tell(&Notice::Policy);
        }
        while quiet.try_next().is_some() {}
        assert_eq!(locked(&quiet.queue.state).waiting.capacity(), 0);
    }
}
