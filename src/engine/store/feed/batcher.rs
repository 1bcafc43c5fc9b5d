//! Calls about one thing share trips – gifts of one feed, claims of one drop: what arrives while a script
//! runs goes into the next run, in order. One run with 16 gifts costs Redis about as much as five with one,
//! so a busy feed is several times as fast, and a quiet one does not wait.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::domain::Millis;
use crate::engine::protocol::faults::Fault;

/// Runs under way for one key: while one is on its way back, Redis works on another.
const MAX_BATCHES_PER_KEY: usize = 2;

/// Items in one run, as long as single calls bring no more.
const MAX_BATCH_ITEMS: usize = 128;

/// Where a submission's answers go.
type Reply<A> = oneshot::Sender<Result<Vec<A>, Fault>>;

/// One call's items, which stay together, and for each an answer.
pub(crate) struct Submission<T, A> {
    pub items: Vec<T>,
    /// The time to run at; submissions of one run agree on it. None for the store's clock.
    pub now: Option<Millis>,
    pub reply: Reply<A>,
}

/// Submissions that go together.
pub(crate) struct Batch<T, A> {
    /// What they bring, in order.
    pub items: Vec<T>,
    /// Their time.
    pub now: Option<Millis>,
    replies: Vec<(usize, Reply<A>)>,
}

impl<T, A> Batch<T, A> {
    pub(crate) fn of(group: Vec<Submission<T, A>>) -> Batch<T, A> {
        let now = group.first().and_then(|submission| submission.now);
        let mut batch = Batch { items: Vec::new(), now, replies: Vec::with_capacity(group.len()) };
        for submission in group {
            batch.replies.push((submission.items.len(), submission.reply));
            batch.items.extend(submission.items);
        }
        batch
    }

    /// Gives everybody their answers, one for each item; or the failure, which is given back.
    pub(crate) fn answer(self, result: Result<Vec<A>, Fault>) -> Option<Fault> {
        let failed = result.as_ref().err().cloned();
        let mut answers = result.unwrap_or_default().into_iter();
        for (count, reply) in self.replies {
            let own = match &failed {
                None => Ok(answers.by_ref().take(count).collect()),
                Some(error) => Err(error.clone()),
            };
            // Nobody waiting for it any more is no failure.
            let _ = reply.send(own);
        }
        failed
    }
}

/// Submissions by what they are about, which wait for the batch before theirs; a queue for each key.
pub(crate) struct Batcher<K, T, A> {
    queues: Mutex<HashMap<K, Queue<T, A>>>,
}

impl<K, T, A> Default for Batcher<K, T, A> {
    fn default() -> Self {
        Batcher { queues: Mutex::default() }
    }
}

struct Queue<T, A> {
    running: usize,
    waiting: VecDeque<Submission<T, A>>,
}

impl<T, A> Default for Queue<T, A> {
    fn default() -> Self {
        Queue { running: 0, waiting: VecDeque::new() }
    }
}

impl<T, A> Queue<T, A> {
    /// What goes next: from the front, no more than fits.
    fn next_batch(&mut self) -> Vec<Submission<T, A>> {
        let mut group: Vec<Submission<T, A>> = Vec::new();
        let mut items = 0;
        while let Some(submission) = self.waiting.front() {
            let fits = items + submission.items.len() <= MAX_BATCH_ITEMS
                && group.first().is_none_or(|p| p.now == submission.now);
            if !group.is_empty() && !fits {
                break;
            }
            items += submission.items.len();
            group.extend(self.waiting.pop_front());
        }
        group
    }
}

impl<K: Clone + Eq + Hash, T, A> Batcher<K, T, A> {
    fn locked(&self) -> MutexGuard<'_, HashMap<K, Queue<T, A>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a batch of these submissions, and what is submitted meanwhile, until nothing waits.
    pub(crate) async fn run_batches<R>(
        &self,
        key: &K,
        mut group: Vec<Submission<T, A>>,
        run: impl Fn(Vec<T>, Option<Millis>) -> R,
    ) where
        R: Future<Output = Result<Vec<A>, Fault>>,
    {
        loop {
            let mut batch = Batch::of(group);
            let result = run(std::mem::take(&mut batch.items), batch.now).await;
            match self.next(key, batch.answer(result).as_ref()) {
                Some(next) => group = next,
                None => return,
            }
        }
    }

    /// Puts it behind what waits. Returns the members of a run that is to be started now, for
    /// [`Batcher::run_batches`].
    pub(crate) fn submit(&self, key: &K, submission: Submission<T, A>) -> Option<Vec<Submission<T, A>>> {
        let mut queues = self.locked();
        let queue = queues.entry(key.clone()).or_default();
        queue.waiting.push_back(submission);
        if queue.running >= MAX_BATCHES_PER_KEY {
            return None;
        }
        queue.running += 1;
        Some(queue.next_batch())
    }

    /// After a run: who is in the next one. If the run failed, those that wait fail with it: the store
    /// would keep them waiting as long again.
    pub(crate) fn next(&self, key: &K, failed: Option<&Fault>) -> Option<Vec<Submission<T, A>>> {
        let mut queues = self.locked();
        let queue = queues.get_mut(key)?;
        if let Some(error) = failed {
            for submission in queue.waiting.drain(..) {
                let _ = submission.reply.send(Err(error.clone()));
            }
        }
        if !queue.waiting.is_empty() {
            return Some(queue.next_batch());
        }
        queue.running -= 1;
        if queue.running == 0 {
            queues.remove(key);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::FeedId;

    type Gifts = Batcher<FeedId, u8, ()>;

    fn submission(items: usize, now: Option<i64>) -> Submission<u8, ()> {
        Submission { items: vec![0; items], now: now.map(Millis), reply: oneshot::channel().0 }
    }

    fn sizes(group: Option<Vec<Submission<u8, ()>>>) -> Vec<usize> {
        group.unwrap_or_default().iter().map(|submission| submission.items.len()).collect()
    }

    #[test]
    fn waiting_calls_go_together_in_order() {
        let (batcher, feed): (Gifts, FeedId) = (Gifts::default(), "f".parse().unwrap());
        assert_eq!(sizes(batcher.submit(&feed, submission(1, None))), [1]);
        assert_eq!(sizes(batcher.submit(&feed, submission(2, None))), [2]);
        for gifts in [3, 100, 30, 128, 200, 4] {
            assert!(batcher.submit(&feed, submission(gifts, None)).is_none());
        }
        assert!(batcher.submit(&feed, submission(5, Some(7))).is_none());
        let mut runs = vec![];
        while let Some(group) = batcher.next(&feed, None) {
            runs.push(sizes(Some(group)));
        }
        assert_eq!(runs, [vec![3, 100], vec![30], vec![128], vec![200], vec![4], vec![5]]);
        assert!(batcher.next(&feed, None).is_none() && batcher.locked().is_empty());
    }

    #[test]
    fn waiters_of_a_failed_run_fail_with_it() {
        let (batcher, feed): (Gifts, FeedId) = (Gifts::default(), "f".parse().unwrap());
        batcher.submit(&feed, submission(1, None));
        batcher.submit(&feed, submission(1, None));
        let (reply, mut answer) = oneshot::channel();
        batcher.submit(&feed, Submission { reply, ..submission(1, None) });
        let error = Fault::stay("gone");
        assert!(batcher.next(&feed, Some(&error)).is_none());
        assert_eq!(answer.try_recv(), Ok(Err(error)));
    }
}
