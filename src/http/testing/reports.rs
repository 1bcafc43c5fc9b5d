//! No reports and no sources: every call says that the store is not there.

use super::MemoryEngine;
use crate::domain::{
    Ask, Cursor, DeadLetter, FeedId, GiftId, GroupId, GroupView, Hook, HookId, HookKey, Job, Millis, Reader,
    Replay, Source, SourceId, SourceNote, Taken,
};
use crate::engine::{
    EngineError, JobDone, JobStore, JobTurn, Kept, LedgerStore, RequestStore, RequestUse, Revocation,
    RevokedAt, RevokedPage, Save, SourceStore, Swapped, ViewerStore, Wait, Wakes, Want, WebhookStore, Work,
};

fn away<'a, T: Send + 'a>() -> Wait<'a, T> {
    Box::pin(std::future::ready(Err(EngineError::Unavailable("no reports and no sources here".into()))))
}

impl LedgerStore for MemoryEngine {
    fn take<'a>(&'a self, _: &'a FeedId, _: &'a GroupId, _: Ask, _: Millis) -> Wait<'a, Option<Taken>> {
        away()
    }

    fn ack<'a>(&'a self, _: &'a FeedId, _: &'a GroupId, _: &'a [Cursor], _: Millis) -> Wait<'a, Option<u64>> {
        away()
    }

    fn nack<'a>(
        &'a self,
        _: &'a FeedId,
        _: &'a GroupId,
        _: &'a [Cursor],
        _: Millis,
    ) -> Wait<'a, Option<u64>> {
        away()
    }

    fn group<'a>(&'a self, _: &'a FeedId, _: &'a GroupId, _: Millis) -> Wait<'a, Option<GroupView>> {
        away()
    }

    fn delete_group<'a>(&'a self, _: &'a FeedId, _: &'a GroupId) -> Wait<'a, bool> {
        away()
    }

    fn readers<'a>(&'a self, _: Option<&'a FeedId>) -> Wait<'a, Vec<(FeedId, Reader)>> {
        away()
    }

    fn letters<'a>(&'a self, _: &'a FeedId, _: &'a Reader) -> Wait<'a, Vec<DeadLetter>> {
        away()
    }

    fn replay<'a>(&'a self, _: &'a FeedId, _: &'a Reader, _: &'a Replay, _: Millis) -> Wait<'a, u64> {
        away()
    }

    fn letter_feeds<'a>(&'a self, _: &'a HookId) -> Wait<'a, Vec<FeedId>> {
        away()
    }
}

impl WebhookStore for MemoryEngine {
    fn hook<'a>(&'a self, _: &'a HookKey) -> Wait<'a, Option<Hook>> {
        away()
    }

    fn hooks(&self) -> Wait<'_, Vec<(HookKey, Hook)>> {
        away()
    }

    fn swap_hook<'a>(
        &'a self,
        _: &'a HookKey,
        _: Option<u64>,
        _: Option<Hook>,
        _: Millis,
    ) -> Wait<'a, Swapped> {
        away()
    }
}

impl JobStore for MemoryEngine {
    fn claim_jobs(&self, _: Vec<JobDone>, _: usize, _: u64, _: Millis) -> Wait<'_, JobTurn> {
        away()
    }

    fn open_job<'a>(&'a self, _: &'a Job, _: Want, _: Millis) -> Wait<'a, Option<Work>> {
        away()
    }

    fn save_job<'a>(&'a self, _: &'a Job, _: Save, _: Want, _: Millis) -> Wait<'a, Option<Work>> {
        away()
    }

    fn job_wakes(&self) -> Wakes {
        Wakes::new(Wakes::sender().subscribe())
    }
}

impl ViewerStore for MemoryEngine {
    fn revoke(&self, _: Revocation, _: Millis) -> Wait<'_, Millis> {
        away()
    }

    fn revoked<'a>(&'a self, _: &'a RevokedAt, _: usize) -> Wait<'a, RevokedPage> {
        away()
    }
}

impl RequestStore for MemoryEngine {
    fn claim_request<'a>(&'a self, _: &'a str, _: &'a str, _: Millis) -> Wait<'a, RequestUse> {
        away()
    }
}

impl SourceStore for MemoryEngine {
    fn sources<'a>(&'a self, _: &'a FeedId) -> Wait<'a, Vec<Kept>> {
        away()
    }

    fn swap_source<'a>(
        &'a self,
        _: &'a FeedId,
        _: &'a SourceId,
        _: Option<u64>,
        _: Option<Source>,
    ) -> Wait<'a, Swapped> {
        away()
    }

    fn note_delivery<'a>(&'a self, _: &'a FeedId, _: &'a SourceId, _: SourceNote, _: Millis) -> Wait<'a, ()> {
        away()
    }

    fn note_refund<'a>(&'a self, _: &'a FeedId, _: &'a GiftId, _: Millis) -> Wait<'a, ()> {
        away()
    }

    fn is_refunded<'a>(&'a self, _: &'a FeedId, _: &'a GiftId) -> Wait<'a, bool> {
        away()
    }
}
