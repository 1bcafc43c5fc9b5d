//! What appending to a feed's ledger asks of a node: webhooks that rest are registered in the index of jobs before
//! the entries that wake them, and webhooks of all feeds are brought to the feed first (`lua/feed_ledger.lua`).

use super::super::EngineError;
use super::super::store::Store;
use super::super::wire::Garbled;
use crate::domain::{FeedId, Job, Millis, Reader};

/// How often a script that appends is called before it is given up: each time something has to be made ready that
/// it did not know of the time before.
pub(in super::super) const APPEND_ROUNDS: usize = 8;

impl Store {
    /// ARGV 10 to 12 of a script that appends; `rested` is what [`Store::before_entries`] gave.
    pub(in super::super) fn append_args(&self, rested: &str) -> [String; 3] {
        let limits = &self.options.reports;
        let bounds = format!("{} {} {}", limits.ledger_max, limits.backlog_max, limits.max_age_ms);
        [self.reports.version().to_string(), rested.to_owned(), bounds]
    }

    /// Does what a script that appends has refused to go on without. What it is to be told when it is called
    /// again; none when it is about something else.
    pub(in super::super) async fn before_entries(
        &self,
        feed: &FeedId,
        texts: &[String],
        now: Option<Millis>,
    ) -> Result<Option<String>, EngineError> {
        match texts.get(1).map(String::as_str) {
            Some("hooks") => {
                self.attach(feed, now).await?;
                Ok(Some(String::new()))
            }
            Some("reports") => {
                let idle = texts.get(2).ok_or(Garbled("a reply"))?;
                for one in idle.split(';') {
                    let [reader, batch_ms, _] = one.split(',').collect::<Vec<_>>()[..] else {
                        return Err(Garbled("a webhook that rests").into());
                    };
                    let reader: Reader = reader.parse().map_err(|_| Garbled("a reader's name"))?;
                    let batch_ms = batch_ms.parse().map_err(|_| Garbled("a webhook that rests"))?;
                    self.register_job(&Job { feed: feed.clone(), reader }, batch_ms, now).await?;
                }
                Ok(Some(idle.clone()))
            }
            _ => Ok(None),
        }
    }

    /// Counts and logs what readers lost.
    pub(in super::super) fn tell_cut(&self, feed: &FeedId, unread: u64) {
        if unread > 0 {
            self.options.metrics.report_lost.inc_by(unread);
            tracing::warn!(
                %feed, unread,
                "entries were cut from a ledger that a reader had not acknowledged: see its groups and webhooks"
            );
        }
    }
}
