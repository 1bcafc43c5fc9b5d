//! The way down, up to the store.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::serve::Serving;
use crate::live::Live;

/// Goodbyes in a second while they fit into the time for them: what comes back at the others
/// then is no more than they take anyway.
const GOODBYES_PER_SECOND: usize = 1_000;

/// Leaves: unready for a while, so that nobody new is sent here; then no new connections, goodbye to
/// watchers one after the other, and until `deadline` what is running may finish. `/readyz` says no already.
pub(super) async fn leave(
    serving: &Serving,
    live: &Live,
    (unready_ms, drain_ms): (u64, u64),
    deadline: Instant,
) {
    tracing::info!(watchers = live.watchers(), "shutting down");
    sleep(Duration::from_millis(unready_ms)).await;
    serving.sockets.stop_accepting();
    let all = async {
        live.close_over(drain_time(live.watchers(), Duration::from_millis(drain_ms)));
        serving.workers.stop().await;
        live.all_left().await;
    };
    if timeout_at(deadline, all).await.is_err() {
        tracing::warn!("some requests did not finish in time and are cut");
    }
}

/// How long the goodbyes take: at [`GOODBYES_PER_SECOND`], at most `most`.
fn drain_time(watchers: usize, most: Duration) -> Duration {
    let wished = watchers as u64 * 1_000 / GOODBYES_PER_SECOND as u64;
    Duration::from_millis(wished).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_watchers_do_not_hold_up_the_end() {
        let most = Duration::from_secs(3);
        assert_eq!(drain_time(0, most), Duration::ZERO);
        assert_eq!(drain_time(200, most), Duration::from_millis(200));
        assert_eq!(drain_time(100_000, most), most);
    }
}
