//! The oracle as a store: which rule answers which operation.

use std::sync::Arc;

use tipcast::domain::signature::SigningKey;
use tipcast::domain::{FeedId, Position};
use tipcast::engine::test_store::{Asked, TestStore};
use tipcast::engine::{
    AckEntries, BeginSession, BeginWalk, BlockUser, CancelHold, CancelScheduled, ClaimDrop, ClaimDue,
    ClaimEntries, ClaimJobs, ClaimRequest, ConfirmHold, ContinueWalk, DecideReview, DefineDrop, DeleteGoal,
    DeleteGroup, FindFeedsShowing, IsBlocked, ListBlocks, ListDeadDue, ListDeadLetterFeeds, ListDeadLetters,
    ListDrops, ListGoals, ListHolds, ListReaders, ListReviews, ListRevocations, ListScheduled, ListSources,
    ListWebhooks, LookUpClaim, NackEntries, OpenJob, ProbeFeed, ProbeStore, Publish, PutGoal, ReadChanges,
    ReadEntryState, ReadGroup, ReadHeads, ReadLeaders, ReadLedger, ReadPolicy, ReadPresence, ReadRefund,
    ReadSigningKey, ReadSnapshot, ReadTotals, ReadWebhook, RecordDelivery, RecordRefund, RefundGift,
    ReplayDeadLetters, ReportPresence, RetractGift, RetractRow, RetractUser, ReverseSale, RevokeViewer,
    RunDue, SaveJob, SeekGroup, SendControl, SetPolicy, Shards, Subscribe, SwapSource, SwapWebhook, TickDrop,
    UnblockUser, Wakes, Walk,
};

use super::Model;

impl TestStore for Model {
    fn answer(&self, asked: Asked) -> Asked {
        asked
            .on(|it: Publish| Ok(self.publish(&it.feed, it.gifts, it.now)))
            .on(|it: RetractRow| Ok(self.retract(&it.feed, &it.row, it.now)))
            .on(|it: ReadPolicy| Ok(self.policy(&it.feed)))
            .on(|it: SetPolicy| Ok(self.set_policy(&it.feed, it.change, it.now)))
            .on(|it: ReadSnapshot| Ok(self.snapshot(&it.feed, it.now)))
            .on(|it: ReadChanges| Ok(self.changes(&it.feed, &it.since, it.max)))
            .on(|it: ReadHeads| Ok(self.heads(&it.feeds)))
            .on(|it: Subscribe| Ok(self.subscribe(&it.feed)))
            .on(|it: ListScheduled| Ok(self.scheduled(&it.feed, it.after, it.max)))
            .on(|it: CancelScheduled| Ok(self.unschedule(&it.feed, &it.id, it.now)))
            .on(|it: ListDeadDue| Ok(self.dead(&it.feed)))
            .on(|it: ClaimDue| Ok(self.claim_due(it.over, it.max, it.now)))
            .on(|it: RunDue| Ok(self.run_due(&it.feed, it.now)))
            .on(|it: DefineDrop| Ok(self.define_drop(&it.feed, &it.drop, it.spec, it.now)))
            .on(|it: TickDrop| Ok(self.tick(&it.feed, &it.drop, it.now)))
            .on(|it: ListDrops| Ok(self.drops(&it.feed, it.now)))
            .on(|it: ClaimDrop| Ok(self.claim(&it.feed, &it.drop, it.claim, it.now)))
            .on(|it: ConfirmHold| Ok(self.confirm(&it.feed, &it.hold, it.trace, it.now)))
            .on(|it: CancelHold| Ok(self.cancel(&it.feed, &it.hold, it.now)))
            .on(|it: ListHolds| Ok(self.holds(&it.feed, &it.user, it.now)))
            .on(|it: LookUpClaim| Ok(self.look_up_claim(&it.feed, &it.claim, it.now)))
            .on(|it: ReverseSale| Ok(self.reverse_sale(&it)))
            .on(|it: SendControl| Ok(self.control(&it.feed, it.control, it.now)))
            .on(|it: RetractUser| Ok(self.retract_user(&it.feed, &it.user, it.now)))
            .on(|it: RetractGift| Ok(self.retract_gift(&it)))
            .on(|it: RefundGift| Ok(self.refund_gift(&it)))
            .on(|it: ListReviews| Ok(self.reviews(&it.feed, it.now)))
            .on(|it: DecideReview| Ok(self.review(&it.feed, &it.id, it.decision, it.now)))
            .on(|it: BlockUser| Ok(self.block(&it.scope, it.block)))
            .on(|it: UnblockUser| Ok(self.unblock(&it.scope, &it.user, it.now)))
            .on(|it: ListBlocks| Ok(self.blocks(&it.scope, it.now)))
            .on(|it: IsBlocked| Ok(self.is_blocked(&it.feed, &it.user, it.now)))
            .on(|it: ReportPresence| Ok(self.attend(&it.node, &it.counts)))
            .on(|it: ReadPresence| Ok(self.presence(&it.feeds)))
            .on(|it: ReadTotals| Ok(self.totals(&it.feed, it.back, it.now)))
            .on(|it: ReadLeaders| Ok(self.leaders(&it.feed, it.ask, it.now)))
            .on(|it: BeginSession| Ok(self.begin_session(&it.feed, it.id, it.now)))
            .on(|it: ListGoals| Ok(self.goals(&it.feed, it.now)))
            .on(|it: PutGoal| Ok(self.put_goal(&it.feed, &it.goal, it.spec, it.now)))
            .on(|it: DeleteGoal| Ok(self.delete_goal(&it.feed, &it.goal, it.now)))
            .on(|it: ClaimEntries| Ok(self.take(&it.feed, &it.group, it.ask, it.now)))
            .on(|it: AckEntries| Ok(self.ack(&it.feed, &it.group, &it.cursors, it.now)))
            .on(|it: NackEntries| Ok(self.nack(&it.feed, &it.group, &it.cursors, it.now)))
            .on(|it: SeekGroup| Ok(self.seek(&it.feed, &it.group, it.to)))
            .on(|it: ReadLedger| Ok(self.read_ledger(&it.feed, it.from, it.max)))
            .on(|it: ReadGroup| Ok(self.group(&it.feed, &it.group, it.now)))
            .on(|it: ReadEntryState| Ok(self.entry_state(&it.feed, &it.reader, it.cursor)))
            .on(|it: DeleteGroup| Ok(self.delete_group(&it.feed, &it.group)))
            .on(|it: ListReaders| Ok(self.readers(it.feed.as_ref())))
            .on(|it: ListDeadLetters| {
                let letters = self.letters(&it.feed, &it.reader).into_iter();
                Ok(letters.skip(it.skip).take(it.max).collect())
            })
            .on(|it: ReplayDeadLetters| Ok(self.replay(&it.feed, &it.reader, &it.which, it.now)))
            .on(|it: ListDeadLetterFeeds| Ok(self.letter_feeds(&it.hook)))
            .on(|it: ReadWebhook| Ok(self.hook(&it.key)))
            .on(|_: ListWebhooks| Ok(self.hooks()))
            .on(|_: ReadSigningKey| Ok(signing_key()))
            .on(|it: SwapWebhook| Ok(self.swap_hook(&it.key, it.was, it.to, it.now)))
            .on(|it: ClaimJobs| Ok(self.claim_jobs(it.over, it.max, it.lease_ms, it.now)))
            .on(|it: OpenJob| Ok(self.open_job(&it.job, it.want, it.now)))
            .on(|it: SaveJob| Ok(self.save_job(&it.job, it.save, it.want, it.now)))
            .on(|it: ListSources| Ok(self.sources(&it.feed)))
            .on(|it: SwapSource| Ok(self.swap_source(&it.feed, &it.name, it.was, it.to)))
            .on(|it: RecordDelivery| {
                self.note_delivery(&it.feed, &it.name, it.note, it.now);
                Ok(())
            })
            .on(|it: RecordRefund| {
                self.note_refund(&it.feed, &it.gift, it.refund, it.now);
                Ok(())
            })
            .on(|it: ReadRefund| Ok(self.refund_of(&it.feed, &it.gift)))
            .on(|it: RevokeViewer| Ok(self.revoke(it.revocation, it.now)))
            .on(|it: ListRevocations| Ok(self.revoked(&it.after, it.max)))
            .on(|it: ClaimRequest| Ok(self.claim_request(&it.request, &it.target, it.now)))
            .on(|_: ProbeStore| Ok(Shards::WHOLE))
            .on(|_: ProbeFeed| Ok(()))
            .on(|_: FindFeedsShowing| Ok(None))
            .on(|_: BeginWalk| Ok(false))
            .on(|_: ContinueWalk| Ok(Walk::default()))
    }

    fn name(&self) -> &'static str {
        "model"
    }

    fn known(&self, feed: &FeedId) -> Option<Position> {
        Model::known(self, feed)
    }

    fn due_wakes(&self) -> Wakes {
        self.wakes()
    }

    fn job_wakes(&self) -> Wakes {
        Model::job_wakes(self)
    }
}

/// A model has no secrets: always the same key.
fn signing_key() -> Arc<SigningKey> {
    Arc::new(SigningKey::read(&SigningKey::spell(&[7; 32])).unwrap())
}
