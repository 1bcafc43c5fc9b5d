//! Which webhook has something to send in which feed: an index like that of due feeds (`lua/due/register.lua`), in
//! parts of its own.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::domain::{Job, Millis, Reader};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::{Part, SharedIndex};
use crate::engine::protocol::topics::Topics;
use crate::engine::store::due::turns::{Claim, ClaimedTurn, Over, PagePlace, TurnIndex, TurnMember};
use crate::engine::store::runner::Runner;
use crate::engine::{JobDone, JobLease, JobTurn};

/// The index of webhooks' jobs.
pub struct JobIndex {
    pub turns: TurnIndex,
}

/// A job as the index names it.
fn member(job: &Job) -> String {
    format!("{} {}", job.reader, job.feed)
}

pub fn read_member(text: &[u8]) -> Option<Job> {
    let (reader, feed) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some(Job { feed: feed.parse().ok()?, reader: reader.parse().ok()? })
}

impl JobIndex {
    pub fn new(runner: Arc<Runner>, topics: Arc<Topics>, wakes: broadcast::Sender<u64>) -> JobIndex {
        JobIndex { turns: TurnIndex::new(runner, SharedIndex::Jobs, topics, wakes) }
    }

    /// Makes it a job, to be looked at in `in_ms` milliseconds.
    pub async fn register(&self, job: &Job, in_ms: u64, now: Option<Millis>) -> Result<(), Fault> {
        let member = TurnMember { feed: &job.feed, name: &member(job) };
        self.turns.register(member, None, Some(in_ms), now).await.map(drop)
    }

    /// Has every job looked at now that would be later.
    pub async fn look_at_all(&self, now: Millis) -> Result<(), Fault> {
        let mut place = Some(PagePlace::default());
        while let Some(at) = place {
            let (jobs, next) = self.turns.page(at, read_member).await?;
            for (job, _) in jobs.into_iter().filter(|(_, at)| *at > now) {
                self.register(&job, 0, Some(now)).await?;
            }
            place = next;
        }
        Ok(())
    }

    /// Takes a webhook that is no more out of the index.
    pub async fn remove(&self, job: &Job) -> Result<(), Fault> {
        let part = self.turns.runner.part_of(SharedIndex::Jobs, &job.feed);
        self.remove_members(part, &[member(job)]).await
    }

    /// The same for one of all feeds, in all feeds of one part.
    pub async fn remove_all_of(&self, reader: &Reader, part: Part) -> Result<(), Fault> {
        // No name holds a character that means something in a pattern.
        let pattern = format!("{} *", reader.to_string().replace('*', "[*]"));
        let [feeds, _] = self.turns.keys(part);
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("ZSCAN");
            scan.arg(&feeds).arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
            let (next, found): (u64, Vec<String>) = self.turns.runner.get(&feeds, &scan).await?;
            let members: Vec<String> = found.into_iter().step_by(2).collect();
            if !members.is_empty() {
                self.remove_members(part, &members).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn remove_members(&self, part: Part, members: &[String]) -> Result<(), Fault> {
        let [feeds, marks] = self.turns.keys(part);
        let _: u64 = self.turns.runner.get(&marks, redis::cmd("HDEL").arg(&marks).arg(members)).await?;
        let _: u64 = self.turns.runner.get(&feeds, redis::cmd("ZREM").arg(&feeds).arg(members)).await?;
        Ok(())
    }

    /// See [`crate::engine::Store::claim_jobs`].
    pub async fn claim(
        &self,
        over: &[JobDone],
        max: usize,
        lease_ms: u64,
        now: Millis,
    ) -> Result<JobTurn, Fault> {
        let over = over.iter().map(|done| Over {
            member: member(&done.job),
            feed: done.job.feed.clone(),
            token: done.token.clone(),
            next: done.next_in_ms.map(|ms| format!("+{ms}")).unwrap_or_default(),
        });
        let over: Vec<_> = over.collect();
        let how = Claim { max, turn_ms: lease_ms, read: read_member, now };
        let turns = self.turns.claim(&over, how).await?;
        let job = |ClaimedTurn { member, token, .. }| JobLease { job: member, token };
        Ok(JobTurn {
            jobs: turns.taken.into_iter().map(job).collect(),
            next_in_ms: turns.next_in_ms,
            waiting: turns.waiting,
        })
    }
}
