//! Lists of feeds: publishing, reading, comparing, listening.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::domain::{FeedId, Gift, Outcome};
use crate::engine::protocol::faults::{CLOSED, Fault};
use crate::engine::protocol::topics::Topics;
use crate::engine::store::feed::batcher::Batcher;
use crate::engine::store::review::blocks::BlockBook;
use crate::engine::store::runner::Runner;
use crate::engine::store::writer::FeedWriter;

/// The lists of all feeds.
pub(crate) struct Feeds {
    pub runner: Arc<Runner>,
    pub writer: Arc<FeedWriter>,
    pub topics: Arc<Topics>,
    pub blocks: Arc<BlockBook>,
    pub gifts: Batcher<FeedId, Gift, Outcome>,
}

impl Feeds {
    pub fn new(writer: Arc<FeedWriter>, topics: Arc<Topics>, blocks: Arc<BlockBook>) -> Feeds {
        let runner = writer.runner.clone();
        Feeds { runner, writer, topics, blocks, gifts: Batcher::default() }
    }

    /// Ends every subscription.
    pub fn close(&self) {
        self.topics.close();
    }
}

/// The answer to what was submitted: behind one batch at most, unless Redis is slow and many wait.
pub(crate) async fn in_turn<A>(
    runner: &Runner,
    answer: oneshot::Receiver<Result<Vec<A>, Fault>>,
) -> Result<Vec<A>, Fault> {
    match timeout(runner.batch_timeout(), answer).await {
        Ok(answer) => answer.unwrap_or_else(|_| Err(Fault::stay(CLOSED))),
        Err(_) => Err(Fault::stay("Redis is slow, and too many gifts or claims of one feed wait for it")),
    }
}
