//! Webhooks' work: what one of them has to send in a feed (`lua/ledger/job.lua`).
//!
//! A webhook that rests is named in its feed's `reports`, with a stamp. Who appends registers it first and
//! gives the stamp back; a look that found nothing in between has changed it, and the script refuses. So no
//! registration is used up before its entry is there.

use crate::domain::{Job, Millis, Reader};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::SharedIndex;
use crate::engine::protocol::scripts;
use crate::engine::protocol::tags::random;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::reports::groups::note;
use crate::engine::store::reports::stored::{entry, one_line, padded, reader_keys};
use crate::engine::store::runner::{needed, number};
use crate::engine::store::writer::{MAX_ATTEMPTS, unsettled};
use crate::engine::{JobDone, JobTurn, Save, StoreResult, Want, Work};
use crate::metrics::labels::Operation;

impl Store {
    /// Releases leases, and leases at most `max` jobs whose time has come, those that wait longest first. A
    /// lease that is not released ends after `lease_ms`.
    ///
    /// The first entry for an idle webhook makes a job, `batch_ms` later.
    pub async fn claim_jobs(
        &self,
        over: Vec<JobDone>,
        max: usize,
        lease_ms: u64,
        now: Millis,
    ) -> StoreResult<JobTurn> {
        self.measured(Operation::ClaimJobs, None, async {
            let attaching = &self.parts.webhooks.attaching;
            // Where it cannot be known which webhooks of all feeds there are, those that are known go on.
            if let Err(fault) = attaching.refresh(now).await {
                tracing::debug!(why = fault.why, "the webhooks of all feeds may be others by now");
            }
            attaching.jobs.claim(&over, max, lease_ms, now).await
        })
        .await
    }

    /// Saves what was done, if the job's progress is still `save.was`, and answers as [`Store::open_job`]
    /// does then. Returns `None` if another caller went on; then nothing was changed.
    pub async fn save_job(
        &self,
        job: &Job,
        save: Save,
        want: Want,
        now: Millis,
    ) -> StoreResult<Option<Work>> {
        self.measured(Operation::SaveJob, Some(&job.feed), self.job(job, Some(save), want, now)).await
    }

    /// Reads what a webhook has to send in a feed. Returns `None` if it does not read there, or is deleted.
    /// If there is nothing to send, the webhook is idle from then on, or soon ([`Work::look_ms`]): the next
    /// entry makes it a job again, `batch_ms` later.
    pub async fn open_job(&self, job: &Job, want: Want, now: Millis) -> StoreResult<Option<Work>> {
        self.measured(Operation::OpenJob, Some(&job.feed), self.job(job, None, want, now)).await
    }

    /// Runs `report_job`; keeps what was done, if anything.
    async fn job(
        &self,
        job: &Job,
        save: Option<Save>,
        want: Want,
        now: Millis,
    ) -> Result<Option<Work>, Fault> {
        let (how, save) = match save {
            Some(save) => ("save", save),
            None => ("open", Save::default()),
        };
        if let (Reader::HookOfAll(name), false) = (&job.reader, save.dead.is_empty()) {
            let part = self.parts.runner.part_of(SharedIndex::Hooks, &job.feed);
            note(
                &self.parts.runner,
                &self.parts.runner.keys.letter_feeds(part),
                &format!("{name} {}", job.feed),
            )
            .await?;
        }
        // A webhook that does not read in this feed may be one that should.
        let mut may_read_again = how == "open";
        for _ in 0..MAX_ATTEMPTS {
            let reply = self.try_job(job, how, &save, want, now).await?;
            match reply.first() {
                Some(what) if what == b"hooks" => {
                    self.parts
                        .webhooks
                        .attaching
                        .attach(&job.feed, "", self.parts.runner.clock(Some(now)))
                        .await?;
                }
                None if may_read_again => {
                    may_read_again = false;
                    self.parts.webhooks.read_again(job, now).await?;
                }
                None => return Ok(None),
                Some(_) => {
                    self.parts.runner.entries_lost(&job.feed, number(reply.get(5)).unwrap_or(0));
                    return Ok(Some(work(&reply)?));
                }
            }
        }
        Err(unsettled())
    }

    async fn try_job(
        &self,
        job: &Job,
        how: &str,
        save: &Save,
        want: Want,
        now: Millis,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let mut call = self.parts.runner.timed(&scripts::REPORT_JOB, Some(now));
        reader_keys(&mut call, &self.parts.runner.keys, &job.feed, &job.reader);
        call.arg("reader", &job.reader).arg("entries_at_most", want.most.max(1));
        call.arg("gathers", want.batch_ms).arg("stamp", random()).arg("how", how);
        call.arg("was", &save.was).arg("progress", &save.progress);
        call.arg("through", save.through.map(|through| through.to_string()).unwrap_or_default());
        call.arg("dead_letters", self.parts.runner.options.reports.dead_max);
        let of_all = matches!(job.reader, Reader::HookOfAll(_));
        call.arg("hooks_version", if of_all { self.parts.webhooks.attaching.version() } else { 0 });
        let mut done = |what: &str, cursor, tries: u64, reason: String| {
            let (what, tries) = (what.to_owned(), tries.to_string());
            call.item([], [("what", what), ("number", padded(cursor)), ("tries", tries), ("reason", reason)]);
        };
        // Dead letters first: their texts are taken from what is sent again.
        for death in &save.dead {
            done("d", &death.cursor, death.attempts, one_line(&death.reason));
        }
        for cursor in &save.again {
            done("a", cursor, 0, String::new());
        }
        self.parts.runner.run(&call).await
    }
}

/// Reads what `report_job` answered.
fn work(reply: &[Vec<u8>]) -> Result<Work, Corrupt> {
    const WHAT: Corrupt = Corrupt("what a webhook has to send");
    let first: u64 = needed(reply.get(3))?;
    let progress = reply.get(4).and_then(|text| String::from_utf8(text.clone()).ok()).ok_or(WHAT)?;
    let parts = reply.get(7..).and_then(|rest| rest.split_at_checked(number(reply.get(6))?));
    let (entries, again) = parts.ok_or(WHAT)?;
    let entries = entries.iter().zip(first..).map(|(text, number)| entry(number, text));
    let again = again.chunks_exact(2).map(|pair| entry(needed(Some(&pair[0]))?, &pair[1]));
    Ok(Work {
        progress,
        entries: entries.collect::<Result<_, _>>()?,
        backlog: needed(reply.get(2))?,
        again: again.collect::<Result<_, _>>()?,
        now: Millis(needed(reply.first())?),
        look_ms: number(reply.get(1)),
    })
}
