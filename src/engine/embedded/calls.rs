//! The engine's calls: each is a task for the writer that runs a rule.

use super::feeds::Feeds;
use super::{
    EmbeddedEngine, blocking, deliveries, drops, due, due_work, gifts, groups, hooks, moderation, publishing,
    readers, requests, reviews, sources, totals, viewers, webhooks,
};
use crate::domain::tally::{GoalSpec, GoalView, LeadersAsk, LeadersView, Session, TotalsView};
use crate::domain::{
    Ask, Block, BlockScope, Blocked, Cancelled, Claim, Claimed, Confirmed, Control, Cursor, DeadLetter,
    Decision, Defined, DropId, DropSpec, DropView, DuePlace, FeedId, Gift, GiftId, GiftTakenBack, GoalId,
    GroupId, GroupView, Hold, HoldId, Hook, HookId, HookKey, InReview, Job, Millis, Outcome, Policy,
    Position, Reader, Replay, Reviewing, RowId, Source, SourceId, SourceNote, Taken, Trace,
};
use crate::engine::{
    Count, DUE_BATCH, DeadDue, DropStore, DueDone, DueRun, DueStore, DueTurn, EngineError, FeedStore,
    FeedsShowing, GoalPut, Head, JobDone, JobStore, JobTurn, Kept, LISTED, LedgerStore, Missed,
    ModerationStore, PolicyChange, Presence, PresenceStore, RequestStore, RequestUse, ReviewStore,
    Revocation, RevokedAt, RevokedPage, Save, ScheduledPage, Snapshot, SourceStore, Subscription, Swapped,
    TotalsStore, Unscheduled, ViewerStore, Wait, Wakes, Want, WebhookStore, Work,
};

/// For calls that bring no clock, and judge nothing by it.
const NO_CLOCK: Millis = Millis(0);

impl FeedStore for EmbeddedEngine {
    fn publish<'a>(&'a self, feed: &'a FeedId, gifts: Vec<Gift>, now: Millis) -> Wait<'a, Vec<Outcome>> {
        let feed = feed.clone();
        let weight = gifts.len();
        self.task((weight, Some(now)), move |feeds| {
            feeds.on(&feed, now, |txn| publishing::publish(txn, &gifts))
        })
    }

    fn retract<'a>(&'a self, feed: &'a FeedId, row: &'a RowId, now: Millis) -> Wait<'a, Option<Position>> {
        let (feed, row) = (feed.clone(), row.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| moderation::retract(txn, &row)))
    }

    fn policy<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Policy> {
        let feed = feed.clone();
        self.clockless(move |feeds| feeds.on(&feed, NO_CLOCK, |txn| Ok(Policy::clone(&txn.policy))))
    }

    fn set_policy<'a>(&'a self, feed: &'a FeedId, change: PolicyChange, now: Millis) -> Wait<'a, Policy> {
        let feed = feed.clone();
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| gifts::set_policy(txn, &change)))
    }

    fn snapshot<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Snapshot> {
        let feed = feed.clone();
        self.at(now, move |feeds| feeds.on(&feed, now, gifts::snapshot))
    }

    fn changes<'a>(&'a self, feed: &'a FeedId, since: &'a Position, max: usize) -> Wait<'a, Missed> {
        let (feed, since) = (feed.clone(), since.clone());
        self.clockless(move |feeds| feeds.on(&feed, NO_CLOCK, |txn| txn.feed.changes(txn.db, &since, max)))
    }

    fn heads<'a>(&'a self, names: &'a [FeedId]) -> Wait<'a, Vec<Result<Head, EngineError>>> {
        let names = names.to_vec();
        let head = |feeds: &mut Feeds, name: &FeedId| {
            feeds.on(name, NO_CLOCK, |txn| Ok(Head { at: txn.feed.state.position(), tag: 0 }))
        };
        self.clockless(move |feeds| {
            Ok(names.iter().map(|name| head(feeds, name).map_err(EngineError::from)).collect())
        })
    }

    fn subscribe<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Subscription> {
        Box::pin(async move { Ok(self.topics.subscribe(feed)) })
    }

    fn known(&self, feed: &FeedId) -> Option<Position> {
        self.topics.known(feed)
    }
}

impl DueStore for EmbeddedEngine {
    fn scheduled<'a>(
        &'a self,
        feed: &'a FeedId,
        after: Option<DuePlace>,
        max: usize,
    ) -> Wait<'a, ScheduledPage> {
        let (feed, max) = (feed.clone(), max.max(1));
        self.clockless(move |feeds| feeds.on(&feed, NO_CLOCK, |txn| gifts::scheduled(txn, after, max)))
    }

    fn unschedule<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, Unscheduled> {
        let (feed, id) = (feed.clone(), id.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| gifts::unschedule(txn, &id)))
    }

    fn dead<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<DeadDue>> {
        let feed = feed.clone();
        self.clockless(move |feeds| {
            feeds.on(&feed, NO_CLOCK, |txn| txn.feed.no.map_or(Ok(Vec::new()), |no| due::dead(txn.db, no)))
        })
    }

    fn claim_due(&self, _: Vec<DueDone>, max: usize, now: Millis) -> Wait<'_, DueTurn> {
        self.at(now, move |feeds| Ok(feeds.claim_due(max, now)))
    }

    fn run_due<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, DueRun> {
        let feed = feed.clone();
        self.task((DUE_BATCH, Some(now)), move |feeds| feeds.on(&feed, now, due_work::run))
    }

    /// All of them: they share one commit.
    fn due_at_once(&self) -> usize {
        64
    }

    fn wakes(&self) -> Wakes {
        Wakes::new(self.topics.wakes.subscribe())
    }
}

impl DropStore for EmbeddedEngine {
    fn define_drop<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        spec: DropSpec,
        now: Millis,
    ) -> Wait<'a, Defined> {
        let (feed, drop) = (feed.clone(), drop.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| drops::define(txn, &drop, spec.clone())))
    }

    fn tick<'a>(&'a self, feed: &'a FeedId, drop: &'a DropId, now: Millis) -> Wait<'a, Option<DropView>> {
        let (feed, drop) = (feed.clone(), drop.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| drops::tick(txn, &drop)))
    }

    fn drops<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<DropView>> {
        let feed = feed.clone();
        self.at(now, move |feeds| feeds.on(&feed, now, drops::all))
    }

    fn claim<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        claim: Claim,
        now: Millis,
    ) -> Wait<'a, Claimed> {
        let (feed, drop) = (feed.clone(), drop.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| drops::claim(txn, &drop, &claim)))
    }

    fn confirm<'a>(
        &'a self,
        feed: &'a FeedId,
        hold: &'a HoldId,
        trace: Option<Trace>,
        now: Millis,
    ) -> Wait<'a, Confirmed> {
        let (feed, hold) = (feed.clone(), hold.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| drops::confirm(txn, &hold, trace.as_ref())))
    }

    fn cancel<'a>(&'a self, feed: &'a FeedId, hold: &'a HoldId, now: Millis) -> Wait<'a, Cancelled> {
        let (feed, hold) = (feed.clone(), hold.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| drops::cancel(txn, &hold)))
    }

    fn holds<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, Vec<Hold>> {
        let (feed, user) = (feed.clone(), user.to_owned());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| drops::holds(txn, &user)))
    }
}

impl ModerationStore for EmbeddedEngine {
    fn control<'a>(&'a self, feed: &'a FeedId, control: Control, now: Millis) -> Wait<'a, Option<Position>> {
        let feed = feed.clone();
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| moderation::control(txn, &control)))
    }

    fn retract_user<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, u64> {
        let (feed, user) = (feed.clone(), user.to_owned());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| moderation::retract_user(txn, &user)))
    }

    fn retract_gift<'a>(&'a self, feed: &'a FeedId, id: &'a GiftId, now: Millis) -> Wait<'a, GiftTakenBack> {
        let (feed, id) = (feed.clone(), id.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| moderation::retract_gift(txn, &id)))
    }

    fn feeds_showing<'a>(&'a self, user: &'a str, after: Option<FeedId>) -> Wait<'a, Option<FeedsShowing>> {
        let user = user.to_owned();
        self.clockless(move |feeds| moderation::feeds_showing(&feeds.db, &user, after.as_ref()).map(Some))
    }
}

impl ReviewStore for EmbeddedEngine {
    fn reviews<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<InReview>> {
        let feed = feed.clone();
        self.at(now, move |feeds| feeds.on(&feed, now, reviews::list))
    }

    fn review<'a>(
        &'a self,
        feed: &'a FeedId,
        id: &'a GiftId,
        decision: Decision,
        now: Millis,
    ) -> Wait<'a, Reviewing> {
        let (feed, id) = (feed.clone(), id.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| reviews::decide(txn, &id, decision)))
    }

    fn block<'a>(&'a self, scope: &'a BlockScope, block: Block) -> Wait<'a, Blocked> {
        let scope = scope.clone();
        self.at(block.at, move |feeds| blocking::put(feeds, &scope, &block))
    }

    fn unblock<'a>(&'a self, scope: &'a BlockScope, user: &'a str, now: Millis) -> Wait<'a, bool> {
        let (scope, user) = (scope.clone(), user.to_owned());
        self.at(now, move |feeds| blocking::remove(feeds, &scope, &user, now))
    }

    fn blocks<'a>(&'a self, scope: &'a BlockScope, now: Millis) -> Wait<'a, Vec<Block>> {
        let scope = scope.clone();
        self.at(now, move |feeds| blocking::list(feeds, &scope, now))
    }

    fn is_blocked<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, bool> {
        let (feed, user) = (feed.clone(), user.to_owned());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| blocking::is_blocked(txn, &user)))
    }
}

impl PresenceStore for EmbeddedEngine {
    fn attend<'a>(&'a self, node: &'a str, counts: &'a [(FeedId, Count)]) -> Wait<'a, bool> {
        self.attendance.attend(node, counts);
        Box::pin(std::future::ready(Ok(true)))
    }

    fn presence<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Presence>> {
        Box::pin(std::future::ready(Ok(self.attendance.presence(feeds))))
    }
}

impl TotalsStore for EmbeddedEngine {
    fn totals<'a>(&'a self, feed: &'a FeedId, back: bool, now: Millis) -> Wait<'a, Option<TotalsView>> {
        let feed = feed.clone();
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| totals::totals(txn, back)))
    }

    fn leaders<'a>(
        &'a self,
        feed: &'a FeedId,
        ask: LeadersAsk,
        now: Millis,
    ) -> Wait<'a, Option<LeadersView>> {
        let feed = feed.clone();
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| totals::leaders(txn, &ask)))
    }

    fn begin_session<'a>(&'a self, feed: &'a FeedId, id: String, now: Millis) -> Wait<'a, (Session, bool)> {
        let feed = feed.clone();
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| totals::begin_session(txn, &id)))
    }

    fn goals<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<GoalView>> {
        let feed = feed.clone();
        self.at(now, move |feeds| feeds.on(&feed, now, totals::goals))
    }

    fn put_goal<'a>(
        &'a self,
        feed: &'a FeedId,
        goal: &'a GoalId,
        spec: GoalSpec,
        now: Millis,
    ) -> Wait<'a, GoalPut> {
        let (feed, goal) = (feed.clone(), goal.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| totals::put_goal(txn, &goal, &spec)))
    }

    fn delete_goal<'a>(&'a self, feed: &'a FeedId, goal: &'a GoalId, now: Millis) -> Wait<'a, bool> {
        let (feed, goal) = (feed.clone(), goal.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| totals::delete_goal(txn, &goal)))
    }
}

impl ViewerStore for EmbeddedEngine {
    fn revoke(&self, what: Revocation, now: Millis) -> Wait<'_, Millis> {
        let revoked =
            self.at(now, move |feeds| viewers::revoke(&feeds.db, &what, now, feeds.common.may_forget));
        Box::pin(async move { revoked.await?.ok_or(EngineError::Overloaded("list of revoked viewers")) })
    }

    fn revoked<'a>(&'a self, after: &'a RevokedAt, max: usize) -> Wait<'a, RevokedPage> {
        let after = after.clone();
        self.clockless(move |feeds| viewers::revoked(&feeds.db, &after, max))
    }
}

impl RequestStore for EmbeddedEngine {
    fn claim_request<'a>(&'a self, request: &'a str, target: &'a str, now: Millis) -> Wait<'a, RequestUse> {
        let (request, target) = (request.to_owned(), target.to_owned());
        self.at(now, move |feeds| requests::claim(&feeds.db, &request, &target, now, feeds.common.may_forget))
    }
}

impl SourceStore for EmbeddedEngine {
    fn sources<'a>(&'a self, feed: &'a FeedId) -> Wait<'a, Vec<Kept>> {
        let feed = feed.clone();
        self.clockless(move |feeds| feeds.on(&feed, NO_CLOCK, |txn| sources::all(txn)))
    }

    fn swap_source<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        was: Option<u64>,
        to: Option<Source>,
    ) -> Wait<'a, Swapped> {
        let (feed, name) = (feed.clone(), name.clone());
        self.clockless(move |feeds| {
            feeds.on(&feed, NO_CLOCK, |txn| sources::swap(txn, &name, was, to.as_ref()))
        })
    }

    fn note_delivery<'a>(
        &'a self,
        feed: &'a FeedId,
        name: &'a SourceId,
        note: SourceNote,
        now: Millis,
    ) -> Wait<'a, ()> {
        let (feed, name) = (feed.clone(), name.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| sources::note(txn, &name, &note)))
    }

    fn note_refund<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId, now: Millis) -> Wait<'a, ()> {
        let (feed, gift) = (feed.clone(), gift.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| sources::note_refund(txn, &gift)))
    }

    fn is_refunded<'a>(&'a self, feed: &'a FeedId, gift: &'a GiftId) -> Wait<'a, bool> {
        let (feed, gift) = (feed.clone(), gift.clone());
        self.clockless(move |feeds| feeds.on(&feed, NO_CLOCK, |txn| sources::is_refunded(txn, &gift)))
    }
}

impl LedgerStore for EmbeddedEngine {
    fn take<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        ask: Ask,
        now: Millis,
    ) -> Wait<'a, Option<Taken>> {
        let (feed, group) = (feed.clone(), group.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| groups::take(txn, &group, ask)))
    }

    fn ack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        now: Millis,
    ) -> Wait<'a, Option<u64>> {
        let (feed, group, cursors) = (feed.clone(), group.clone(), cursors.to_vec());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| groups::ack(txn, &group, &cursors)))
    }

    fn nack<'a>(
        &'a self,
        feed: &'a FeedId,
        group: &'a GroupId,
        cursors: &'a [Cursor],
        now: Millis,
    ) -> Wait<'a, Option<u64>> {
        let (feed, group, cursors) = (feed.clone(), group.clone(), cursors.to_vec());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| groups::nack(txn, &group, &cursors)))
    }

    fn group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId, now: Millis) -> Wait<'a, Option<GroupView>> {
        let (feed, group) = (feed.clone(), group.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| groups::view(txn, &group)))
    }

    fn delete_group<'a>(&'a self, feed: &'a FeedId, group: &'a GroupId) -> Wait<'a, bool> {
        let (feed, group) = (feed.clone(), group.clone());
        self.clockless(move |feeds| feeds.on(&feed, NO_CLOCK, |txn| groups::delete(txn, &group)))
    }

    fn readers<'a>(&'a self, feed: Option<&'a FeedId>) -> Wait<'a, Vec<(FeedId, Reader)>> {
        let feed = feed.cloned();
        self.clockless(move |feeds| match &feed {
            Some(feed) => feeds.on(feed, NO_CLOCK, |txn| groups::readers_of(txn)),
            None => {
                let all = readers::all_groups(&feeds.db, LISTED)?;
                Ok(all.into_iter().filter(|(feed, _)| !feeds.is_damaged(feed)).collect())
            }
        })
    }

    fn letters<'a>(&'a self, feed: &'a FeedId, reader: &'a Reader) -> Wait<'a, Vec<DeadLetter>> {
        let (feed, reader) = (feed.clone(), reader.clone());
        self.clockless(move |feeds| feeds.on(&feed, NO_CLOCK, |txn| groups::letters(txn, &reader)))
    }

    fn replay<'a>(
        &'a self,
        feed: &'a FeedId,
        reader: &'a Reader,
        which: &'a Replay,
        now: Millis,
    ) -> Wait<'a, u64> {
        let (feed, reader, which) = (feed.clone(), reader.clone(), which.clone());
        self.at(now, move |feeds| feeds.on(&feed, now, |txn| groups::replay(txn, &reader, &which)))
    }

    fn letter_feeds<'a>(&'a self, hook: &'a HookId) -> Wait<'a, Vec<FeedId>> {
        let reader = Reader::HookOfAll(hook.clone());
        self.clockless(move |feeds| {
            let all = readers::letter_feeds(&feeds.db, &reader, LISTED)?;
            Ok(all.into_iter().filter(|feed| !feeds.is_damaged(feed)).collect())
        })
    }
}

impl WebhookStore for EmbeddedEngine {
    fn hook<'a>(&'a self, key: &'a HookKey) -> Wait<'a, Option<Hook>> {
        let key = key.clone();
        self.clockless(move |feeds| webhooks::get(feeds, &key, NO_CLOCK))
    }

    fn hooks(&self) -> Wait<'_, Vec<(HookKey, Hook)>> {
        self.clockless(move |feeds| hooks::all(&feeds.db, LISTED))
    }

    fn swap_hook<'a>(
        &'a self,
        key: &'a HookKey,
        was: Option<u64>,
        to: Option<Hook>,
        now: Millis,
    ) -> Wait<'a, Swapped> {
        let key = key.clone();
        self.at(now, move |feeds| webhooks::swap(feeds, &key, was, to.as_ref(), now))
    }
}

impl JobStore for EmbeddedEngine {
    fn claim_jobs(&self, over: Vec<JobDone>, max: usize, lease_ms: u64, now: Millis) -> Wait<'_, JobTurn> {
        // Turns are in memory alone, so this is done once, also when the group is run again.
        let (mut over, mut turn) = (over, None);
        self.at(now, move |feeds| {
            let jobs = &mut feeds.common.jobs;
            over.drain(..).for_each(|over| jobs.give_back(over, now));
            Ok(turn.get_or_insert_with(|| jobs.claim(max, lease_ms, now)).clone())
        })
    }

    fn open_job<'a>(&'a self, job: &'a Job, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        let job = job.clone();
        self.at(now, move |feeds| feeds.on(&job.feed, now, |txn| deliveries::open(txn, &job, want)))
    }

    fn save_job<'a>(&'a self, job: &'a Job, save: Save, want: Want, now: Millis) -> Wait<'a, Option<Work>> {
        let job = job.clone();
        self.at(now, move |feeds| feeds.on(&job.feed, now, |txn| deliveries::save(txn, &job, &save, want)))
    }

    fn job_wakes(&self) -> Wakes {
        Wakes::new(self.topics.job_wakes.subscribe())
    }
}
