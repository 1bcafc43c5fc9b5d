//! Which webhook has something to send in which feed: an index like that of due feeds (`lua/due_register.lua`), in
//! parts of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::sync::broadcast;

use super::super::keys::{PARTS_ALL, PARTS_MAX, Shared};
use super::super::net::faults::Fault;
use super::super::runner::{Runner, number};
use super::super::scripts;
use super::super::shares::shares;
use super::super::tags::random;
use crate::domain::{Job, Millis, Reader};
use crate::engine::{JobDone, JobLease, JobTurn};

/// See the module.
pub struct JobIndex {
    runner: Arc<Runner>,
    pub wakes: broadcast::Sender<u64>,
    /// Counts looks, so that parts take turns in being the first.
    round: AtomicUsize,
    /// Counts looks into parts that nobody here writes to.
    strays: AtomicUsize,
}

/// A job as the index names it.
fn member(job: &Job) -> String {
    format!("{} {}", job.reader, job.feed)
}

fn read_member(text: &[u8]) -> Option<Job> {
    let (reader, feed) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some(Job { feed: feed.parse().ok()?, reader: reader.parse().ok()? })
}

impl JobIndex {
    pub fn new(runner: Arc<Runner>, wakes: broadcast::Sender<u64>) -> JobIndex {
        JobIndex { runner, wakes, round: AtomicUsize::new(0), strays: AtomicUsize::new(0) }
    }

    /// Makes it a job, to be looked at in so many milliseconds.
    pub async fn register(&self, job: &Job, in_ms: u64, now: Option<Millis>) -> Result<(), Fault> {
        let keys = &self.runner.keys;
        let part = keys.part_of(Shared::Jobs, &job.feed);
        let [feeds, marks] = keys.index(Shared::Jobs, part);
        let mut call = self.runner.timed(&scripts::DUE_REGISTER, now);
        call.keys([("feeds", feeds), ("marks", marks)]).arg("at", "").arg("in", in_ms);
        call.arg("feed", member(job)).arg("mark", random());
        call.arg("wake channel", keys.wake(Shared::Jobs, part));
        let reply: Vec<Vec<u8>> = self.runner.run(&call).await.map_err(Fault::of_an_index)?;
        if let Some(in_ms) = number(reply.get(1)) {
            // Nobody waiting for it is no failure.
            let _ = self.wakes.send(in_ms);
        }
        Ok(())
    }

    /// Takes a webhook that is no more out of the index.
    pub async fn remove(&self, job: &Job) -> Result<(), Fault> {
        let part = self.runner.keys.part_of(Shared::Jobs, &job.feed);
        self.remove_members(part, &[member(job)]).await
    }

    /// The same for one of all feeds, wherever it had something to send.
    pub async fn remove_all_of(&self, reader: &Reader) -> Result<(), Fault> {
        // No name holds a character that means something in a pattern.
        let pattern = format!("{} *", reader.to_string().replace('*', "[*]"));
        for part in 0..self.runner.keys.parts(Shared::Jobs) {
            let [feeds, _] = self.runner.keys.index(Shared::Jobs, part);
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("ZSCAN");
                scan.arg(&feeds).arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
                let (next, found): (u64, Vec<String>) = self.runner.get(&feeds, &scan).await?;
                let members: Vec<String> = found.into_iter().step_by(2).collect();
                if !members.is_empty() {
                    self.remove_members(part, &members).await?;
                }
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        Ok(())
    }

    async fn remove_members(&self, part: usize, members: &[String]) -> Result<(), Fault> {
        let [feeds, marks] = self.runner.keys.index(Shared::Jobs, part);
        let _: u64 = self.runner.get(&marks, redis::cmd("HDEL").arg(&marks).arg(members)).await?;
        let _: u64 = self.runner.get(&feeds, redis::cmd("ZREM").arg(&feeds).arg(members)).await?;
        Ok(())
    }

    /// See [`crate::engine::JobStore::claim_jobs`]. Parts whose server is away are left out.
    pub async fn claim(
        &self,
        over: &[JobDone],
        max: usize,
        lease_ms: u64,
        now: Millis,
    ) -> Result<JobTurn, Fault> {
        let own = self.runner.keys.parts(Shared::Jobs);
        let shares = shares(max, own, self.round.fetch_add(1, Ordering::Relaxed));
        let looks = (0..PARTS_ALL).filter_map(|part| {
            let of_part = |done: &&JobDone| part_of(&done.token) == Some(part);
            let over: Vec<&JobDone> = over.iter().filter(of_part).collect();
            (part < own || !over.is_empty()).then_some((part, over, shares.get(part).copied().unwrap_or(0)))
        });
        let looks = looks
            .map(async |(part, over, most)| (part, self.take_turns(part, &over, most, lease_ms, now).await));
        let (mut turn, mut fault, mut any) = (JobTurn::default(), None, false);
        let mut more = Vec::new();
        for (part, look) in join_all(looks).await {
            match look {
                Ok(look) => {
                    any = true;
                    if look.next_in_ms == Some(0) && part < own {
                        more.push(part);
                    }
                    turn.next_in_ms = [turn.next_in_ms, look.next_in_ms].into_iter().flatten().min();
                    turn.waiting += look.waiting;
                    turn.jobs.extend(look.jobs);
                }
                Err(why) => fault = Some(why),
            }
        }
        // A part may have more than its share, while others have nothing.
        for part in more {
            let rest = max.saturating_sub(turn.jobs.len());
            if rest > 0
                && let Ok(look) = self.take_turns(part, &[], rest, lease_ms, now).await
            {
                turn.jobs.extend(look.jobs);
            }
        }
        match fault {
            Some(fault) if !any => return Err(fault),
            Some(fault) => tracing::debug!(why = fault.why, "parts of the index of jobs were left out"),
            None => {}
        }
        // What a store that was moved to a cluster, or from one, still has in its old parts.
        if turn.jobs.is_empty() && max > 0 {
            let part = PARTS_MAX + self.strays.fetch_add(1, Ordering::Relaxed) % PARTS_MAX;
            let look = self.take_turns(part, &[], max, lease_ms, now).await;
            turn.jobs.extend(look.map(|turn| turn.jobs).unwrap_or_default());
        }
        Ok(turn)
    }

    async fn take_turns(
        &self,
        part: usize,
        over: &[&JobDone],
        max: usize,
        lease_ms: u64,
        now: Millis,
    ) -> Result<JobTurn, Fault> {
        let [feeds, marks] = self.runner.keys.index(Shared::Jobs, part);
        let mut call = self.runner.timed(&scripts::DUE_TURNS, Some(now));
        call.keys([("feeds", feeds.clone()), ("marks", marks)]).arg("turn", lease_ms).arg("most", max);
        for done in over {
            let next = done.next_in_ms.map(|ms| format!("+{ms}")).unwrap_or_default();
            let mark = done.token.split_once(':').map_or("", |(_, mark)| mark).to_owned();
            call.item([], [("feed", member(&done.job)), ("mark", mark), ("next", next)]);
        }
        let reply: Vec<Vec<u8>> =
            self.runner.run_within(&call, self.runner.part_patience()).await.map_err(Fault::of_an_index)?;
        let mut turn = JobTurn {
            jobs: Vec::new(),
            next_in_ms: number(reply.first()),
            waiting: number(reply.get(1)).unwrap_or(0),
        };
        for taken in reply.get(2..).unwrap_or_default().chunks_exact(3) {
            match read_member(&taken[0]) {
                Some(job) => {
                    let token = format!("{part}:{}", String::from_utf8_lossy(&taken[1]));
                    turn.jobs.push(JobLease { job, token });
                }
                None => {
                    let name = String::from_utf8_lossy(&taken[0]);
                    tracing::warn!(%name, "no webhook's work in the index of jobs; it is removed");
                    let mut remove = redis::cmd("ZREM");
                    remove.arg(&feeds).arg(&taken[0]);
                    let _: u64 = self.runner.get(&feeds, &remove).await?;
                }
            }
        }
        Ok(turn)
    }
}

/// The part of the index that a token is of.
fn part_of(token: &str) -> Option<usize> {
    token.split_once(':')?.0.parse().ok()
}
