//! Dead letters, and `lua/ledger/replay.lua`.

use crate::domain::{DeadLetter, FeedId, Job, Millis, Reader, Replay};
use crate::engine::StoreResult;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::reports::stored::entry;
use crate::metrics::labels::Operation;

/// Dead letters that one call of the script sends again, where all are to be.
const REPLAYED: u64 = 1_000;

/// Dead letters read in one trip.
const DEAD_LETTERS_PER_TRIP: usize = 500;

impl Store {
    /// Lists a reader's dead letters, the oldest first, without the first `skip`, at most `max`.
    pub async fn list_dead_letters(
        &self,
        feed: &FeedId,
        reader: &Reader,
        skip: usize,
        max: usize,
    ) -> StoreResult<Vec<DeadLetter>> {
        self.measured(Operation::Letters, Some(feed), async {
            if max == 0 {
                return Ok(Vec::new());
            }
            let [dead, deaths] =
                ["dead", "deaths"].map(|what| self.parts.runner.keys.of_reader(feed, what, reader));
            let members: Vec<String> = self
                .parts
                .runner
                .get(&deaths, redis::cmd("ZRANGE").arg(&deaths).arg(skip).arg(skip + max - 1))
                .await?;
            let mut letters = Vec::with_capacity(members.len());
            for part in members.chunks(DEAD_LETTERS_PER_TRIP) {
                let texts: Vec<Option<Vec<u8>>> =
                    self.parts.runner.get(&dead, redis::cmd("HMGET").arg(&dead).arg(part)).await?;
                for (member, text) in part.iter().zip(texts) {
                    // One that has gone meanwhile was sent again, or made room.
                    let Some(text) = text else { continue };
                    letters.push(letter(member, &text).ok_or(Corrupt("a dead letter"))?);
                }
            }
            Ok(letters)
        })
        .await
    }

    /// Sends dead letters again: a group's next claimers get them, a webhook sends them before anything else.
    /// Takes them off the list. How many there were.
    pub async fn replay_dead_letters(
        &self,
        feed: &FeedId,
        reader: &Reader,
        which: &Replay,
        now: Millis,
    ) -> StoreResult<u64> {
        self.measured(Operation::Letters, Some(feed), async {
            let (which, cursors) = match which {
                Replay::All => ("all", &[][..]),
                Replay::Only(cursors) => ("only", cursors.as_slice()),
            };
            let job = Job { feed: feed.clone(), reader: reader.clone() };
            let (is_hook, clock) = (!matches!(reader, Reader::Group(_)), self.parts.runner.clock(Some(now)));
            // Before as well as after: a look between the two would find nothing, and a node that dies between them
            // would leave it to the feed's next entry. What is registered stays in the index for some seconds.
            if is_hook {
                self.parts.groups.jobs.register(&job, 0, clock).await?;
            }
            let mut moved = 0;
            loop {
                let mut call = self.parts.groups.call(&scripts::REPORT_REPLAY, feed, reader, now);
                call.arg("live_channel", self.parts.runner.keys.live(feed)).arg("which", which);
                let step = self.parts.groups.about(feed, call, cursors).await?.unwrap_or(0);
                moved += step;
                if which == "only" || step < REPLAYED {
                    break;
                }
            }
            if moved > 0 && is_hook {
                self.parts.groups.jobs.register(&job, 0, clock).await?;
            }
            Ok(moved)
        })
        .await
    }
}

/// "DIED_AT ATTEMPTS REASON", and the entry.
fn letter(member: &str, text: &[u8]) -> Option<DeadLetter> {
    let text = std::str::from_utf8(text).ok()?;
    let (head, text) = text.split_once('\n')?;
    let mut head = head.splitn(3, ' ');
    let (died_at, attempts) = (Millis(head.next()?.parse().ok()?), head.next()?.parse().ok()?);
    let reason = head.next()?.to_owned();
    let entry = entry(member.parse().ok()?, text.as_bytes()).ok()?;
    Some(DeadLetter { died_at, reason, attempts, entry })
}
