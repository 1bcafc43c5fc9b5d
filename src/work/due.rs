//! Sees to it that what is due is done: one loop per node around [`DueWork::step`].
//!
//! Nobody polls an idle queue. The loop sleeps until the store's next time, and is woken when something
//! earlier comes; a wake-up can get lost, so it never sleeps longer than [`DueOptions::longest_sleep`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::trouble::StoreTrouble;
use crate::domain::Millis;
use crate::engine::{DueDone, DueFeed, Store, StoreError};
use crate::supervise::{Beat, Part, Parts, faults};

/// Feeds whose turn is taken at once.
const FEEDS_PER_ROUND: usize = 64;

/// How the loop works.
#[derive(Clone, Copy, Debug)]
pub struct DueOptions {
    /// How long it sleeps at most when nothing is due.
    pub longest_sleep: Duration,
}

impl Default for DueOptions {
    fn default() -> DueOptions {
        DueOptions { longest_sleep: Duration::from_secs(10) }
    }
}

/// When to step again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// At once: there was something, and there may be more.
    No,
    /// After this, unless woken.
    For(Duration),
}

/// How often a sleeping loop looks whether the clock was set, which may make something due at once.
const CLOCK_WATCH: Duration = Duration::from_millis(500);

/// Both clocks at one moment.
struct ClockWatch(Millis, Instant);

impl ClockWatch {
    fn start() -> ClockWatch {
        ClockWatch(Millis::now(), Instant::now())
    }

    /// By how many milliseconds the wall clock was set since the start: it has not passed as the monotonic one has. 0 when it was not.
    fn set_by(&self) -> i64 {
        let expected = self.0.0.saturating_add(self.1.elapsed().as_millis() as i64);
        let by = Millis::now().0.saturating_sub(expected);
        if by.abs() > 100 { by } else { 0 }
    }
}

/// What the loop keeps between two steps.
pub struct DueWork {
    store: Store,
    options: DueOptions,
    /// Turns to give back with the next step.
    over: Vec<DueDone>,
    trouble: StoreTrouble,
    /// Steps that took turns and in which nothing was done, one after the other.
    fruitless: u32,
}

impl DueWork {
    /// Nothing happens until it is stepped.
    pub fn new(store: Store, options: DueOptions) -> DueWork {
        let trouble = StoreTrouble::new("what is due waits", "what is due is done again");
        DueWork { store, options, over: Vec::new(), trouble, fruitless: 0 }
    }

    /// Gives back the turns of the step before, takes the feeds whose time has come, and runs each once.
    /// `now` is this node's clock, which counts only for stores without one of their own.
    ///
    /// An error is the store's; the turns that were taken end by themselves. A feed that fails alone is
    /// left to that as well, and holds up no other.
    pub async fn step(&mut self, now: Millis) -> Result<NextStep, StoreError> {
        let turn = self.store.claim_due(std::mem::take(&mut self.over), FEEDS_PER_ROUND, now).await?;
        let longest = self.options.longest_sleep;
        // A millisecond more: waking just before the time would only cost another look.
        let next = turn.next_in_ms.map_or(longest, |ms| Duration::from_millis(ms.saturating_add(1)));
        let rest = NextStep::For(next.min(longest));
        if turn.feeds.is_empty() {
            self.trouble.over();
            return Ok(rest);
        }
        let (store, at_once) = (&self.store, self.store.due_at_once());
        let run = async |DueFeed { feed, token, .. }: DueFeed| {
            let run = store.run_due(&feed, now).await?;
            Ok::<_, StoreError>((run.handled.len(), DueDone { feed, token, next: run.next }))
        };
        let results: Vec<_> = stream::iter(turn.feeds).map(run).buffer_unordered(at_once).collect().await;
        let (mut failed, mut handled) = (None, 0);
        for result in results {
            match result {
                Ok((count, done)) => {
                    handled += count;
                    self.over.push(done);
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None => self.trouble.over(),
            Some(error) => {
                self.trouble.met(&error);
                if self.over.is_empty() {
                    let pause = self.trouble.pause();
                    return Ok(NextStep::For(pause.min(next)));
                }
            }
        }
        // Once or twice is another node that was faster, or a look a moment too early. More is a store that
        // says something is due and does not hand it out: no reason to spin.
        self.fruitless = if handled > 0 { 0 } else { self.fruitless.saturating_add(1) };
        Ok(match self.fruitless {
            0..3 => NextStep::No,
            n => NextStep::For(Duration::from_millis(1 << n.min(10)).min(next)),
        })
    }

    /// Puts right what was made while the clock was ahead.
    async fn rewind(&self) -> Result<(), StoreError> {
        let entries = self.store.rewind(Millis::now()).await?;
        if entries > 0 {
            tracing::warn!(
                entries,
                "what was made while the clock was ahead is due as long from now as it was from then"
            );
        }
        Ok(())
    }

    /// Gives back the turns that are still held.
    async fn give_back(&mut self, now: Millis) {
        if !self.over.is_empty() {
            // When it fails they end by themselves.
            let _ = self.store.claim_due(std::mem::take(&mut self.over), 0, now).await;
        }
    }

    async fn run(mut self, mut stop: watch::Receiver<bool>, beat: Beat) {
        // Listened to before the first look, so that nothing falls between the two.
        let mut wakes = self.store.due_wakes();
        let mut clock = ClockWatch::start();
        // What was made before the start may be of a time that is still to come.
        let mut is_rewound = false;
        while !*stop.borrow() {
            beat.works();
            faults::pass("due").await;
            let set_by = clock.set_by();
            if set_by != 0 {
                (clock, is_rewound) = (ClockWatch::start(), is_rewound && set_by > 0);
            }
            if !is_rewound {
                match self.rewind().await {
                    Ok(()) => is_rewound = true,
                    // It is tried again with the next step, and holds nothing else up.
                    Err(error) => self.trouble.met(&error),
                }
            }
            let rest = match self.step(Millis::now()).await {
                Ok(rest) => rest,
                Err(error) => {
                    self.trouble.met(&error);
                    NextStep::For(self.trouble.pause())
                }
            };
            let NextStep::For(rest) = rest else { continue };
            beat.rests();
            let mut until = Instant::now() + rest;
            while !*stop.borrow() {
                tokio::select! {
                    () = sleep_until(until.min(Instant::now() + CLOCK_WATCH)) => {
                        if Instant::now() >= until || clock.set_by() != 0 {
                            break;
                        }
                    }
                    in_ms = wakes.next() => {
                        until = until.min(Instant::now() + Duration::from_millis(in_ms.saturating_add(1)));
                    }
                    // Gone without a word is stopped as well.
                    changed = stop.changed() => if changed.is_err() { return },
                }
            }
        }
        self.give_back(Millis::now()).await;
    }
}

/// The loop, running.
pub struct DueLoop {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl DueLoop {
    /// Starts it, as one of `parts`. When it panics, the turns that it had end by themselves.
    pub fn start(store: Store, options: DueOptions, parts: &Arc<Parts>) -> DueLoop {
        let (stop, stopped) = watch::channel(false);
        let run = move |beat| DueWork::new(store.clone(), options).run(stopped.clone(), beat);
        DueLoop { stop, task: tokio::spawn(parts.clone().keep(Part::Due, run)) }
    }

    /// Finishes the step that is under way, and gives back what this node has taken.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        let _ = (&mut self.task).await;
    }
}

impl Drop for DueLoop {
    fn drop(&mut self) {
        self.task.abort();
    }
}
