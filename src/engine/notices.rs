//! How what happens to a feed reaches those who follow it: a queue for each of them, which costs next to nothing while
//! nothing happens, since most feeds that somebody watches are quiet.
//!
//! A queue is bounded. One that is full forgets what waits and tells [`Notice::Lost`] instead: notices are a hint, and
//! whoever has missed some compares positions with the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Notice;

/// Notices that wait for one follower at most.
pub const NOTICES: usize = 512;

/// A queue that was longer than this gives its memory back once it is empty.
const KEPT: usize = 8;

/// Tells the notices of one feed to whoever listens at the time.
#[derive(Debug, Default)]
pub struct Notices {
    queues: Mutex<Vec<Arc<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Told when something waits, or when nothing will come any more.
    more: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Notice>,
    /// The listener is gone.
    left: bool,
    /// Nobody tells any more.
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

    /// Tells it to everybody who listens; nobody listening is no failure.
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
    /// False when nobody listens any more.
    fn push(&self, notice: &Notice) -> bool {
        let mut state = locked(&self.state);
        if state.left {
            return false;
        }
        if state.waiting.len() >= NOTICES {
            state.waiting.clear();
            state.waiting.push_back(Notice::Lost);
        }
        state.waiting.push_back(notice.clone());
        drop(state);
        self.more.notify_one();
        true
    }
}

impl Subscription {
    /// The next notice; none when the engine is closed. Cancel safe.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            if let Some(notice) = self.try_next() {
                return Some(notice);
            }
            if locked(&self.queue.state).closed {
                // What was told before the end is not lost.
                return self.try_next();
            }
            // A notice that came since then has left its permit.
            self.queue.more.notified().await;
        }
    }

    /// A notice that is there already, without waiting.
    pub fn try_next(&mut self) -> Option<Notice> {
        let mut state = locked(&self.queue.state);
        let notice = state.waiting.pop_front();
        if state.waiting.is_empty() && state.waiting.capacity() > KEPT {
            state.waiting = VecDeque::new();
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
    async fn who_does_not_keep_up_is_told_that_something_was_missed_and_then_the_newest() {
        let notices = Notices::default();
        let mut slow = notices.subscribe();
        for _ in 0..=NOTICES {
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
