//! Webhooks' work: which of them has something to send (an index like that of due feeds, `lua/due_register.lua`),
//! and what that is (`lua/report_job.lua`).
//!
//! A webhook that rests is named in its feed's `reports`, with a stamp. Who appends registers it here first and
//! gives the stamp back; a look that found nothing in between has changed it, and the script refuses. So no
//! registration is used up before its entry is there.

use super::super::due::number;
use super::super::store::Store;
use super::super::wire::Garbled;
use super::super::{EngineError, random, scripts};
use super::entry;
use super::groups::padded;
use crate::domain::{FeedId, Job, Millis, Reader};
use crate::engine::{JobDone, JobLease, JobTurn, Save, Want, Work};

/// A job as the index names it.
fn member(job: &Job) -> String {
    format!("{} {}", job.reader, job.feed)
}

fn read_member(text: &[u8]) -> Option<Job> {
    let (reader, feed) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some(Job { feed: feed.parse().ok()?, reader: reader.parse().ok()? })
}

impl Store {
    /// Makes it a job, to be looked at in so many milliseconds.
    pub(super) async fn register_job(
        &self,
        job: &Job,
        in_ms: u64,
        now: Option<Millis>,
    ) -> Result<(), EngineError> {
        let mut cmd = self.timed(&scripts::DUE_REGISTER, &self.keys.jobs(), now);
        cmd.arg("").arg(in_ms).arg(member(job)).arg(random()).arg(self.keys.job_wake());
        let reply = self.ask(&scripts::DUE_REGISTER, &cmd, 0).await?;
        if let Some(in_ms) = number(reply.get(1)) {
            // Nobody waiting for it is no failure.
            let _ = self.reports.wakes.send(in_ms);
        }
        Ok(())
    }

    /// Takes a webhook that is no more out of the index.
    pub(super) async fn drop_job(&self, job: &Job) -> Result<(), EngineError> {
        self.drop_members(&[member(job)]).await
    }

    /// The same for one of all feeds, wherever it had something to send.
    pub(super) async fn drop_jobs_of(&self, reader: &Reader) -> Result<(), EngineError> {
        let [feeds, _] = self.keys.jobs();
        // No name holds a character that means something in a pattern.
        let pattern = format!("{} *", reader.to_string().replace('*', "[*]"));
        let mut cursor = 0_u64;
        loop {
            let mut cmd = redis::cmd("ZSCAN");
            cmd.arg(&feeds).arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1_000);
            let (next, found): (u64, Vec<String>) = self.get(&cmd).await?;
            let members: Vec<String> = found.into_iter().step_by(2).collect();
            if !members.is_empty() {
                self.drop_members(&members).await?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn drop_members(&self, members: &[String]) -> Result<(), EngineError> {
        let [feeds, marks] = self.keys.jobs();
        let _: u64 = self.get(redis::cmd("HDEL").arg(marks).arg(members)).await?;
        let _: u64 = self.get(redis::cmd("ZREM").arg(feeds).arg(members)).await?;
        Ok(())
    }

    pub(super) async fn claim_jobs(
        &self,
        over: Vec<JobDone>,
        max: usize,
        lease_ms: u64,
        now: Millis,
    ) -> Result<JobTurn, EngineError> {
        self.refresh_hooks(now).await?;
        let keys = self.keys.jobs();
        let mut cmd = self.timed(&scripts::DUE_TURNS, &keys, Some(now));
        cmd.arg(lease_ms).arg(max);
        for done in &over {
            let next = done.next_in_ms.map(|ms| format!("+{ms}")).unwrap_or_default();
            cmd.arg(member(&done.job)).arg(&done.token).arg(next);
        }
        let reply = self.ask(&scripts::DUE_TURNS, &cmd, over.len()).await?;
        let mut turn = JobTurn {
            jobs: Vec::new(),
            next_in_ms: number(reply.first()),
            waiting: number(reply.get(1)).unwrap_or(0),
        };
        for taken in reply.get(2..).unwrap_or_default().chunks_exact(3) {
            match read_member(&taken[0]) {
                Some(job) => {
                    let token = String::from_utf8_lossy(&taken[1]).into_owned();
                    turn.jobs.push(JobLease { job, token });
                }
                None => {
                    let name = String::from_utf8_lossy(&taken[0]);
                    tracing::warn!(%name, "no webhook's work in the index of jobs; it is removed");
                    let mut cmd = redis::cmd("ZREM");
                    cmd.arg(&keys[0]).arg(&taken[0]);
                    self.lane().command(&cmd, self.options.call_timeout).await?;
                }
            }
        }
        Ok(turn)
    }

    /// Runs `report_job`; keeps what was done, if anything.
    pub(super) async fn job(
        &self,
        job: &Job,
        save: Option<Save>,
        want: Want,
        now: Millis,
    ) -> Result<Option<Work>, EngineError> {
        let (how, save) = match save {
            Some(save) => ("save", save),
            None => ("open", Save::default()),
        };
        if let (Reader::HookOfAll(name), false) = (&job.reader, save.dead.is_empty()) {
            self.note(&self.keys.letter_feeds(name), job.feed.as_str()).await?;
        }
        let mut reply = self.try_job(job, how, &save, want, now).await?;
        if reply.first().is_some_and(|what| what == b"hooks") {
            self.attach(&job.feed, "", self.clock(Some(now))).await?;
            reply = self.try_job(job, how, &save, want, now).await?;
        }
        if reply.is_empty() && how == "open" && self.read_again(job, now).await? {
            reply = self.try_job(job, how, &save, want, now).await?;
        }
        if reply.is_empty() {
            return Ok(None);
        }
        Ok(Some(work(&job.feed, &reply).ok_or(Garbled("what a webhook has to send"))?))
    }

    async fn try_job(
        &self,
        job: &Job,
        how: &str,
        save: &Save,
        want: Want,
        now: Millis,
    ) -> Result<Vec<Vec<u8>>, EngineError> {
        let mut cmd = self.timed(&scripts::REPORT_JOB, &self.keys.reader(&job.feed, &job.reader), Some(now));
        cmd.arg(job.reader.to_string()).arg(want.most.max(1)).arg(want.batch_ms).arg(random());
        cmd.arg(how).arg(&save.was).arg(&save.progress);
        cmd.arg(save.through.map(|through| through.to_string()).unwrap_or_default());
        cmd.arg(self.options.reports.dead_max);
        let of_all = matches!(job.reader, Reader::HookOfAll(_));
        cmd.arg(if of_all { self.reports.version() } else { 0 });
        // Dead letters first: their texts are taken from what is sent again.
        for death in &save.dead {
            let reason: String = death.reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            cmd.arg("d").arg(padded(&death.cursor)).arg(death.attempts).arg(reason);
        }
        for cursor in &save.again {
            cmd.arg("a").arg(padded(cursor)).arg(0).arg("");
        }
        let many = save.dead.len() + save.again.len();
        Ok(self.ask(&scripts::REPORT_JOB, &cmd, many).await?)
    }
}

/// Reads what `report_job` answered.
fn work(feed: &FeedId, reply: &[Vec<u8>]) -> Option<Work> {
    let first: u64 = number(reply.get(3))?;
    let progress = String::from_utf8(reply.get(4)?.clone()).ok()?;
    let (entries, again) = reply.get(6..)?.split_at_checked(number(reply.get(5))?)?;
    let entries = entries.iter().zip(first..).map(|(text, number)| entry(feed, number, text));
    let again = again.chunks_exact(2).map(|pair| entry(feed, number(Some(&pair[0]))?, &pair[1]));
    Some(Work {
        progress,
        entries: entries.collect::<Option<_>>()?,
        backlog: number(reply.get(2))?,
        again: again.collect::<Option<_>>()?,
        now: Millis(number(reply.first())?),
        look_ms: number(reply.get(1)),
    })
}
