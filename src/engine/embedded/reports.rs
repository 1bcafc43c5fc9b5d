//! Reports: being built.

use super::EmbeddedEngine;
use crate::domain::{
    Ask, Cursor, DeadLetter, FeedId, GroupId, GroupView, Hook, HookId, HookKey, Job, Millis, Reader, Replay,
    Taken,
};
use crate::engine::{EngineError, JobDone, JobTurn, ReportStore, Save, Swapped, Wait, Wakes, Want, Work};

fn todo<'a, T: Send + 'a>() -> Wait<'a, T> {
    Box::pin(std::future::ready(Err(EngineError::Unavailable("reports are being built".into()))))
}

impl ReportStore for EmbeddedEngine {
    fn take<'a>(&'a self, _: &'a FeedId, _: &'a GroupId, _: Ask, _: Millis) -> Wait<'a, Option<Taken>> {
        todo()
    }

    fn ack<'a>(&'a self, _: &'a FeedId, _: &'a GroupId, _: &'a [Cursor], _: Millis) -> Wait<'a, Option<u64>> {
        todo()
    }

    fn nack<'a>(
        &'a self,
        _: &'a FeedId,
        _: &'a GroupId,
        _: &'a [Cursor],
        _: Millis,
    ) -> Wait<'a, Option<u64>> {
        todo()
    }

    fn group<'a>(&'a self, _: &'a FeedId, _: &'a GroupId, _: Millis) -> Wait<'a, Option<GroupView>> {
        todo()
    }

    fn delete_group<'a>(&'a self, _: &'a FeedId, _: &'a GroupId) -> Wait<'a, bool> {
        todo()
    }

    fn readers<'a>(&'a self, _: Option<&'a FeedId>) -> Wait<'a, Vec<(FeedId, Reader)>> {
        todo()
    }

    fn letters<'a>(&'a self, _: &'a FeedId, _: &'a Reader) -> Wait<'a, Vec<DeadLetter>> {
        todo()
    }

    fn replay<'a>(&'a self, _: &'a FeedId, _: &'a Reader, _: &'a Replay, _: Millis) -> Wait<'a, u64> {
        todo()
    }

    fn letter_feeds<'a>(&'a self, _: &'a HookId) -> Wait<'a, Vec<FeedId>> {
        todo()
    }

    fn hook<'a>(&'a self, _: &'a HookKey) -> Wait<'a, Option<Hook>> {
        todo()
    }

    fn hooks(&self) -> Wait<'_, Vec<(HookKey, Hook)>> {
        todo()
    }

    fn swap_hook<'a>(
        &'a self,
        _: &'a HookKey,
        _: Option<u64>,
        _: Option<Hook>,
        _: Millis,
    ) -> Wait<'a, Swapped> {
        todo()
    }

    fn claim_jobs(&self, _: Vec<JobDone>, _: usize, _: u64, _: Millis) -> Wait<'_, JobTurn> {
        todo()
    }

    fn open_job<'a>(&'a self, _: &'a Job, _: Want, _: Millis) -> Wait<'a, Option<Work>> {
        todo()
    }

    fn save_job<'a>(&'a self, _: &'a Job, _: Save, _: Want, _: Millis) -> Wait<'a, Option<Work>> {
        todo()
    }

    fn job_wakes(&self) -> Wakes {
        Wakes::new(Wakes::sender().subscribe())
    }
}
