//! Takes rows of users who were blocked in all feeds back in all of them, in a store that keeps no list of its feeds: one
//! loop per node around [`Store::continue_walk`]. One node at a time goes on with what was begun.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::trouble::StoreTrouble;
use crate::domain::Millis;
use crate::engine::Store;
use crate::supervise::{Beat, Part, Parts, faults};

/// How often it is looked whether there is something to do.
const POLL_INTERVAL: Duration = Duration::from_secs(4);

/// After a step the store has this many times as long for all other calls, and at least [`MIN_PAUSE`].
const STORE_SHARE: u32 = 4;
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// The loop, running.
pub struct WalkLoop {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl WalkLoop {
    /// Starts it, as one of `parts`.
    pub fn start(store: Store, parts: &Arc<Parts>) -> WalkLoop {
        let (stop, stopped) = watch::channel(false);
        let node = uuid::Uuid::now_v7().simple().to_string();
        let run = move |beat| walk(store.clone(), node.clone(), stopped.clone(), beat);
        WalkLoop { stop, task: tokio::spawn(parts.clone().keep(Part::Walks, run)) }
    }

    /// Finishes the step that is under way. Another node goes on when this one's lease has run out.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        let _ = (&mut self.task).await;
    }
}

impl Drop for WalkLoop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn walk(store: Store, node: String, mut stop: watch::Receiver<bool>, beat: Beat) {
    let mut trouble =
        StoreTrouble::new("rows of blocked users stay", "rows of blocked users are taken back again");
    // Of the walk that this node is on.
    let (mut feeds, mut rows) = (0, 0);
    while !*stop.borrow() {
        beat.works();
        faults::pass("walks").await;
        let began = Instant::now();
        let rest = match store.continue_walk(&node, Millis::now()).await {
            Ok(step) => {
                trouble.over();
                feeds += step.feeds;
                rows += step.rows;
                if step.is_over {
                    tracing::info!(feeds, rows, "rows of a user who is blocked in all feeds were taken back");
                    (feeds, rows) = (0, 0);
                }
                match step.user {
                    Some(_) => (began.elapsed() * STORE_SHARE).max(MIN_PAUSE),
                    None => POLL_INTERVAL,
                }
            }
            Err(error) => {
                trouble.met(&error);
                trouble.pause().max(POLL_INTERVAL)
            }
        };
        beat.rests();
        tokio::select! {
            () = sleep(rest) => {}
            // Gone without a word is stopped as well.
            changed = stop.changed() => if changed.is_err() { return },
        }
    }
}
