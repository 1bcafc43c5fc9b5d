//! What the cases of the contract are run on: a store, or the model.

use std::sync::Arc;

use tipcast::domain::ledger::LedgerPart;
use tipcast::domain::moderate::{GiftRefunded, TakingBack};
use tipcast::domain::pull::Seek;
use tipcast::domain::signature::SigningKey;
use tipcast::domain::story::EntryState;
use tipcast::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use tipcast::domain::{
    Ask, Block, BlockScope, Blocked, Cancelled, Claim, ClaimStory, Claimed, Confirmed, Control, Cursor,
    DeadLetter, Decision, Defined, DropId, DropSpec, DropView, DuePlace, FeedId, Gift, GiftId, GiftTakenBack,
    GoalId, GroupId, GroupView, Hold, HoldId, Hook, HookId, HookKey, InReview, Job, Millis, Outcome, Policy,
    Position, Reader, Replay, Reviewing, RowId, Source, SourceId, SourceNote, Taken, Trace,
};
use tipcast::engine::{
    Count, DeadDue, DueDone, DueRun, DueTurn, FeedHead, GoalPut, JobDone, JobTurn, Kept, Missed,
    PolicyChange, Presence, Refund, RequestUse, Revocation, RevokedAt, RevokedPage, Save, ScheduledPage,
    Shards, Snapshot, Store, StoreError, Subscription, Swapped, Unscheduled, Wakes, Walk, Want, Work,
};

use super::model::Model;

/// A store, or the model of one.
#[derive(Clone)]
pub enum Subject {
    /// Redis, a cluster, or a folder.
    Store(Store),
    /// The oracle.
    Model(Arc<Model>),
}

impl From<Store> for Subject {
    fn from(store: Store) -> Subject {
        Subject::Store(store)
    }
}

impl From<&Store> for Subject {
    fn from(store: &Store) -> Subject {
        Subject::Store(store.clone())
    }
}

impl From<&Subject> for Subject {
    fn from(subject: &Subject) -> Subject {
        subject.clone()
    }
}

/// Gives [`Subject`] each method of [`Store`], with what the model answers.
macro_rules! answers {
    ($($method:ident($($arg:ident: $type:ty),*) -> $reply:ty = |$model:pat_param| $answer:expr;)+) => {
        impl Subject {
            $(
                #[doc = concat!("See [`Store::", stringify!($method), "`].")]
                pub async fn $method(&self, $($arg: $type),*) -> Result<$reply, StoreError> {
                    match self {
                        Subject::Store(store) => store.$method($($arg),*).await,
                        #[allow(unused_variables)]
                        Subject::Model($model) => Ok($answer),
                    }
                }
            )+
        }
    };
}

answers! {
    publish(feed: &FeedId, gifts: Vec<Gift>, now: Millis) -> Vec<Outcome> = |model| model.publish(feed, gifts, now);
    retract_row(feed: &FeedId, row: &RowId, now: Millis) -> Option<Position> = |model| model.retract(feed, row, now);
    read_policy(feed: &FeedId) -> Policy = |model| model.policy(feed);
    set_policy(feed: &FeedId, change: &PolicyChange, now: Millis) -> Policy = |model| model.set_policy(feed, change.clone(), now);
    read_snapshot(feed: &FeedId, now: Millis) -> Snapshot = |model| model.snapshot(feed, now);
    read_changes(feed: &FeedId, since: &Position, max: usize) -> Missed = |model| model.changes(feed, since, max);
    read_heads(feeds: &[FeedId]) -> Vec<Result<FeedHead, StoreError>> = |model| model.heads(feeds);
    subscribe(feed: &FeedId) -> Subscription = |model| model.subscribe(feed);
    list_scheduled(feed: &FeedId, after: Option<DuePlace>, max: usize) -> ScheduledPage = |model| model.scheduled(feed, after, max);
    cancel_scheduled(feed: &FeedId, id: &GiftId, now: Millis) -> Unscheduled = |model| model.unschedule(feed, id, now);
    list_dead_due(feed: &FeedId) -> Vec<DeadDue> = |model| model.dead(feed);
    claim_due(over: Vec<DueDone>, max: usize, now: Millis) -> DueTurn = |model| model.claim_due(over, max, now);
    run_due(feed: &FeedId, now: Millis) -> DueRun = |model| model.run_due(feed, now);
    define_drop(feed: &FeedId, drop: &DropId, spec: &DropSpec, now: Millis) -> Defined = |model| model.define_drop(feed, drop, spec.clone(), now);
    tick_drop(feed: &FeedId, drop: &DropId, now: Millis) -> Option<DropView> = |model| model.tick(feed, drop, now);
    list_drops(feed: &FeedId, now: Millis) -> Vec<DropView> = |model| model.drops(feed, now);
    claim_drop(feed: &FeedId, drop: &DropId, claim: Claim, now: Millis) -> Claimed = |model| model.claim(feed, drop, claim, now);
    confirm_hold(feed: &FeedId, hold: &HoldId, trace: Option<&Trace>, now: Millis) -> Confirmed = |model| model.confirm(feed, hold, trace.cloned(), now);
    cancel_hold(feed: &FeedId, hold: &HoldId, now: Millis) -> Cancelled = |model| model.cancel(feed, hold, now);
    look_up_claim(feed: &FeedId, claim: &HoldId, now: Millis) -> Option<ClaimStory> = |model| model.look_up_claim(feed, claim, now);
    reverse_sale(feed: &FeedId, claim: &HoldId, what: &TakingBack, now: Millis) -> GiftRefunded = |model| model.reverse_sale(feed, claim, what, now);
    list_holds(feed: &FeedId, user: &str, now: Millis) -> Vec<Hold> = |model| model.holds(feed, user, now);
    send_control(feed: &FeedId, control: &Control, now: Millis) -> Option<Position> = |model| model.control(feed, control.clone(), now);
    retract_user(feed: &FeedId, user: &str, now: Millis) -> u64 = |model| model.retract_user(feed, user, now);
    retract_gift(feed: &FeedId, id: &GiftId, reason: Option<String>, now: Millis) -> GiftTakenBack = |model| model.retract_gift(feed, id, reason.as_deref(), now);
    refund_gift(feed: &FeedId, id: &GiftId, refunded: u64, reason: Option<String>, now: Millis) -> GiftRefunded = |model| model.refund_gift(feed, id, refunded, reason, now);
    begin_walk(user: &str, now: Millis) -> () = |_| ();
    continue_walk(node: &str, now: Millis) -> Walk = |_| Walk::default();
    list_reviews(feed: &FeedId, now: Millis) -> Vec<InReview> = |model| model.reviews(feed, now);
    decide_review(feed: &FeedId, id: &GiftId, decision: Decision, now: Millis) -> Reviewing = |model| model.review(feed, id, decision, now);
    block_user(scope: &BlockScope, block: &Block) -> Blocked = |model| model.block(scope, block.clone());
    unblock_user(scope: &BlockScope, user: &str, now: Millis) -> bool = |model| model.unblock(scope, user, now);
    list_blocks(scope: &BlockScope, now: Millis) -> Vec<Block> = |model| model.blocks(scope, now);
    is_blocked(feed: &FeedId, user: &str, now: Millis) -> bool = |model| model.is_blocked(feed, user, now);
    list_sources(feed: &FeedId) -> Vec<Kept> = |model| model.sources(feed);
    swap_source(feed: &FeedId, name: &SourceId, was: Option<u64>, to: Option<&Source>) -> Swapped = |model| model.swap_source(feed, name, was, to.cloned());
    record_delivery(feed: &FeedId, name: &SourceId, note: &SourceNote, now: Millis) -> () = |model| model.note_delivery(feed, name, note.clone(), now);
    record_refund(feed: &FeedId, gift: &GiftId, refund: Refund, now: Millis) -> () = |model| model.note_refund(feed, gift, refund, now);
    read_refund(feed: &FeedId, gift: &GiftId) -> Option<Refund> = |model| model.refund_of(feed, gift);
    read_totals(feed: &FeedId, back: bool, now: Millis) -> Option<TotalsView> = |model| model.totals(feed, back, now);
    read_leaders(feed: &FeedId, ask: LeadersAsk, now: Millis) -> Option<LeadersView> = |model| model.leaders(feed, ask, now);
    begin_session(feed: &FeedId, id: String, now: Millis) -> (Session, bool) = |model| model.begin_session(feed, id, now);
    list_goals(feed: &FeedId, now: Millis) -> Vec<GoalView> = |model| model.goals(feed, now);
    put_goal(feed: &FeedId, goal: &GoalId, spec: GoalSpec, now: Millis) -> GoalPut = |model| model.put_goal(feed, goal, spec, now);
    delete_goal(feed: &FeedId, goal: &GoalId, now: Millis) -> bool = |model| model.delete_goal(feed, goal, now);
    claim_entries(feed: &FeedId, group: &GroupId, ask: Ask, now: Millis) -> Option<Taken> = |model| model.take(feed, group, ask, now);
    ack_entries(feed: &FeedId, group: &GroupId, cursors: &[Cursor], now: Millis) -> Option<u64> = |model| model.ack(feed, group, cursors, now);
    nack_entries(feed: &FeedId, group: &GroupId, cursors: &[Cursor], now: Millis) -> Option<u64> = |model| model.nack(feed, group, cursors, now);
    read_ledger(feed: &FeedId, from: Cursor, max: usize, now: Millis) -> LedgerPart = |model| model.read_ledger(feed, from, max);
    seek_group(feed: &FeedId, group: &GroupId, to: Seek, now: Millis) -> Option<Cursor> = |model| model.seek(feed, group, to);
    read_group(feed: &FeedId, group: &GroupId, now: Millis) -> Option<GroupView> = |model| model.group(feed, group, now);
    read_entry_state(feed: &FeedId, reader: &Reader, cursor: Cursor, now: Millis) -> Option<EntryState> = |model| model.entry_state(feed, reader, cursor);
    delete_group(feed: &FeedId, group: &GroupId) -> bool = |model| model.delete_group(feed, group);
    list_readers(feed: Option<&FeedId>) -> Vec<(FeedId, Reader)> = |model| model.readers(feed);
    list_dead_letters(feed: &FeedId, reader: &Reader, skip: usize, max: usize) -> Vec<DeadLetter> = |model| model.letters(feed, reader).into_iter().skip(skip).take(max).collect();
    replay_dead_letters(feed: &FeedId, reader: &Reader, which: &Replay, now: Millis) -> u64 = |model| model.replay(feed, reader, which, now);
    list_dead_letter_feeds(hook: &HookId) -> Vec<FeedId> = |model| model.letter_feeds(hook);
    read_webhook(key: &HookKey) -> Option<Hook> = |model| model.hook(key);
    list_webhooks() -> Vec<(HookKey, Hook)> = |model| model.hooks();
    read_signing_key() -> Arc<SigningKey> = |_| signing_key();
    swap_webhook(key: &HookKey, was: Option<u64>, to: Option<Hook>, now: Millis) -> Swapped = |model| model.swap_hook(key, was, to, now);
    claim_jobs(over: Vec<JobDone>, max: usize, lease_ms: u64, now: Millis) -> JobTurn = |model| model.claim_jobs(over, max, lease_ms, now);
    open_job(job: &Job, want: Want, now: Millis) -> Option<Work> = |model| model.open_job(job, want, now);
    save_job(job: &Job, save: Save, want: Want, now: Millis) -> Option<Work> = |model| model.save_job(job, save, want, now);
    report_presence(node: &str, counts: &[(FeedId, Count)]) -> bool = |model| model.attend(node, counts);
    read_presence(feeds: &[FeedId]) -> Vec<Presence> = |model| model.presence(feeds);
    probe_store() -> Shards = |_| Shards::WHOLE;
    claim_request(request: &str, target: &str, now: Millis) -> RequestUse = |model| model.claim_request(request, target, now);
    revoke_viewer(revocation: &Revocation, now: Millis) -> Millis = |model| model.revoke(revocation.clone(), now);
    list_revocations(after: &RevokedAt, max: usize) -> RevokedPage = |model| model.revoked(after, max);
}

impl Subject {
    /// The store, for what a model does not have.
    pub fn store(&self) -> &Store {
        match self {
            Subject::Store(store) => store,
            Subject::Model(_) => panic!("a model is no store"),
        }
    }

    /// See [`Store::known`].
    pub fn known(&self, feed: &FeedId) -> Option<Position> {
        match self {
            Subject::Store(store) => store.known(feed),
            Subject::Model(model) => model.known(feed),
        }
    }

    /// See [`Store::job_wakes`].
    pub fn job_wakes(&self) -> Wakes {
        match self {
            Subject::Store(store) => store.job_wakes(),
            Subject::Model(model) => model.job_wakes(),
        }
    }

    /// See [`Store::close`].
    pub async fn close(&self) {
        if let Subject::Store(store) = self {
            store.close().await;
        }
    }
}

/// A model has no secrets: always the same key.
fn signing_key() -> Arc<SigningKey> {
    Arc::new(SigningKey::read(&SigningKey::spell(&[7; 32])).unwrap())
}
