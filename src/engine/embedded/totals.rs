//! Counting: what a gift adds, what is taken back, what watchers are told, and what the feed's clock does.

use super::due;
use super::entries;
use super::fault::Step;
use super::tallies::{self, Tally};
use super::txn::FeedTxn;
use crate::domain::answer::CountedGift;
use crate::domain::tally::board::Move;
use crate::domain::tally::state::Goal;
use crate::domain::tally::{
    Counted, GoalSpec, GoalView, Instance, KEEP_MS, LeadersAsk, LeadersView, MAX_GOALS, Period, PeriodView,
    Segments, Session, TOLD_LEADERS, TotalsView,
};
use crate::domain::{Added, Answer, DueKind, Gift, GoalId, Millis, Op, RowId, Status, Value};
use crate::engine::GoalPut;
use crate::engine::record::push_goal_entry;

/// Who gave, and what.
pub(super) struct Given<'a> {
    /// The user's id.
    pub(super) user: &'a str,
    /// The user as JSON.
    pub(super) person: &'a str,
    /// The row that shows it; none when none does.
    pub(super) row: Option<&'a RowId>,
}

/// The feed's tally, settled: as the policy and the calendar say. None when nothing is counted, which costs nothing.
fn settled<'t>(txn: &'t mut FeedTxn<'_>) -> Option<&'t mut Tally> {
    if txn.feed.tally.is_none() && txn.policy.totals.is_empty() {
        return None;
    }
    let rules = txn.policy.rules();
    let tally = txn.feed.tally.get_or_insert_default();
    if tally.state.settle(&rules, txn.now) {
        tally.changed = true;
        if let Some(board) = &mut tally.board {
            tally.gone.append(&mut board.sweep(&tally.state));
        }
    }
    Some(tally)
}

/// What a gift counts that no row shows, because its giver is blocked or it was denied: it was paid, and is not ranked.
pub(super) fn of_kept_back(txn: &mut FeedTxn<'_>, gift: &Gift) -> Option<CountedGift> {
    if gift.test {
        return None;
    }
    let (now, policy) = (txn.now, txn.policy.clone());
    let instances = settled(txn)?.state.instances()?;
    let units = gift.combo.as_ref().map_or(gift.count, |combo| combo.count.into());
    let counted = Counted::gift(instances, units, gift.value.as_ref(), &policy.points, false);
    let window = now.plus(policy.idempotency_window_ms);
    Some(CountedGift { counted, user: gift.user.id.clone(), window })
}

/// What a gift counts, that was taken with this answer; none when nothing is counted, or it grew nothing.
pub(super) fn of_gift(
    txn: &mut FeedTxn<'_>,
    gift: &Gift,
    (answer, ranked): (&Answer, bool),
    part: &Added,
) -> Option<CountedGift> {
    if gift.test {
        return None;
    }
    let (now, policy) = (txn.now, txn.policy.clone());
    let tally = settled(txn)?;
    // A frame says the whole of its run: it counts by what it grew.
    let own = gift.combo.is_none() || answer.status == Status::Accepted;
    let (units, value): (u64, Option<Value>) = match (gift.combo.is_none(), own) {
        (true, _) => (gift.count, gift.value.clone()),
        (false, _) => (part.units, part.value.clone()),
    };
    let grew = own || units > 0 || value.as_ref().is_some_and(|value| value.amount > 0);
    if !grew {
        return None;
    }
    let instances = tally.state.instances()?;
    let counted =
        Counted::gift(instances, units, value.as_ref(), &policy.points, ranked && !gift.user.anonymous);
    let window = now.plus(policy.idempotency_window_ms);
    Some(CountedGift { counted, user: gift.user.id.clone(), window })
}

/// Until when a gift that counted is remembered.
pub(super) fn keep_until(txn: &FeedTxn<'_>) -> Millis {
    let window = txn.now.plus(txn.policy.idempotency_window_ms);
    txn.feed.tally.as_ref().map_or(window, |tally| tally.state.keep_until(txn.now).max(window))
}

/// A sale counts its units.
pub(super) fn count_sale(txn: &mut FeedTxn<'_>, person: &str, units: u64, row: &RowId) -> Step<()> {
    let Some(tally) = settled(txn) else { return Ok(()) };
    let Some(instances) = tally.state.instances() else { return Ok(()) };
    #[derive(serde::Deserialize)]
    struct Named {
        id: String,
        #[serde(default)]
        anonymous: bool,
    }
    let Ok(Named { id, anonymous }) = serde_json::from_str(person) else { return Ok(()) };
    let counted = Counted::gift(instances, units, None, &Default::default(), !anonymous);
    add(txn, &counted, Given { user: &id, person, row: Some(row) })
}

/// Adds what was counted, in the step in which it came. Goals that it reaches are told, and entered in the ledger.
pub(super) fn add(txn: &mut FeedTxn<'_>, counted: &Counted, given: Given<'_>) -> Step<()> {
    txn.touch()?;
    let (db, no, now) = (txn.db, txn.feed.no, txn.now);
    let Some(tally) = &mut txn.feed.tally else { return Ok(()) };
    tally.state.add(counted);
    let order = tally.state.order;
    tallies::board(db, no, tally)?;
    let Tally { state, board, touched, segments, changed, .. } = tally;
    let change = Move { user: given.user, person: given.person, back: false, order, at: now };
    board.get_or_insert_default().apply(counted, change, state);
    touched.insert(given.user.into());
    *changed = true;
    if let Some(row) = given.row {
        segments.entry(row.clone()).or_insert_with(|| Segments::of(given.user)).add(counted);
    }
    reach(txn)?;
    wind(txn)
}

fn reach(txn: &mut FeedTxn<'_>) -> Step<()> {
    let Some(tally) = &mut txn.feed.tally else { return Ok(()) };
    for goal in tally.state.reach(txn.now) {
        tell_goal(txn, &goal)?;
        let view = txn.feed.tally.as_ref().and_then(|tally| tally.state.goal(&goal));
        let (seq, now) = (txn.feed.state.list.at.seq, txn.now);
        if let Some(view) = view {
            entries::enter(txn, |out| push_goal_entry(out, &view, seq, now))?;
        }
    }
    Ok(())
}

/// Takes back what was counted.
fn take(txn: &mut FeedTxn<'_>, counted: &Counted, user: &str) -> Step<()> {
    txn.touch()?;
    let (db, no, now) = (txn.db, txn.feed.no, txn.now);
    let Some(tally) = &mut txn.feed.tally else { return Ok(()) };
    tally.state.take(counted);
    let order = tally.state.order;
    tallies::board(db, no, tally)?;
    let Tally { state, board, touched, changed, .. } = tally;
    let change = Move { user, person: "", back: true, order, at: now };
    board.get_or_insert_default().apply(counted, change, state);
    touched.insert(user.into());
    *changed = true;
    wind(txn)
}

/// A row was taken back whole: its gifts' part leaves the totals.
pub(super) fn undo_row(txn: &mut FeedTxn<'_>, row: &RowId) -> Step<()> {
    if settled(txn).is_none() {
        return Ok(());
    }
    let no = txn.number()?;
    tallies::undo(txn.db, no, row, txn.now.plus(KEEP_MS), txn.now)?;
    let segments = txn.feed.tally.as_mut().and_then(|tally| tally.segments.remove(row));
    let Some(Segments { user, parts }) = segments else { return Ok(()) };
    parts.iter().try_for_each(|part| take(txn, part, &user))
}

/// A gift was taken back by its id: its part leaves the totals, unless it left with its row.
pub(super) fn undo_gift(txn: &mut FeedTxn<'_>, gift: &CountedGift, answer: &Answer) -> Step<()> {
    let Some(no) = txn.feed.no.filter(|_| txn.feed.tally.is_some()) else { return Ok(()) };
    let row = answer.row.as_ref().filter(|_| !matches!(answer.status, Status::Suppressed | Status::Denied));
    if let Some(row) = row
        && tallies::is_undone(txn.db, no, row)?
    {
        return Ok(());
    }
    settled(txn);
    let tally = txn.feed.tally.as_mut();
    if let Some(segments) = tally.zip(row).and_then(|(tally, row)| tally.segments.get_mut(row)) {
        segments.take(&gift.counted);
    }
    take(txn, &gift.counted, &gift.user)
}

/// Does what the feed's clock struck for: turns periods over, tells watchers, lets go of what is kept for nothing.
pub(super) fn tick(txn: &mut FeedTxn<'_>) -> Step<()> {
    if settled(txn).is_none() {
        return Ok(());
    }
    if let Some(no) = txn.feed.no {
        txn.touch()?;
        if let Some(tally) = &mut txn.feed.tally {
            tally.clock = due::find(txn.db, no, DueKind::Totals.letter(), CLOCK)?.map(|entry| entry.place.at);
            tallies::let_go(txn.db, no, tally)?;
        }
    }
    if waits(txn) && txn.feed.tally.as_ref().is_some_and(|tally| tally.state.may_tell(txn.now)) {
        tell(txn)?;
    }
    wind(txn)
}

/// True when there is something that watchers were not told. Of a feed that nobody wrote to there are none.
fn waits(txn: &FeedTxn<'_>) -> bool {
    let Some(tally) = txn.feed.tally.as_ref().filter(|_| !txn.feed.state.list.at.epoch.is_none()) else {
        return false;
    };
    let told = &txn.feed.state.list.goals;
    !tally.state.stale.is_empty()
        || tally
            .state
            .goals
            .keys()
            .any(|goal| told.get(goal).map(|view| &**view) != tally.state.goal(goal).as_ref())
}

fn tell(txn: &mut FeedTxn<'_>) -> Step<()> {
    let (db, no, now) = (txn.db, txn.feed.no, txn.now);
    let Some(tally) = &mut txn.feed.tally else { return Ok(()) };
    tallies::board(db, no, tally)?.rank_all();
    tally.state.told = now;
    (tally.changed, tally.retold) = (true, true);
    let stale = std::mem::take(&mut tally.state.stale);
    let told = &txn.feed.state.list.totals;
    let view = |period: Period| match tally.state.of(period) {
        Some(instance) => Some((period, Some(view(tally, instance, true).into()))),
        None => told.contains_key(&period).then_some((period, None)),
    };
    let periods: Vec<_> = stale.into_iter().filter_map(view).collect();
    let told = &txn.feed.state.list.goals;
    let moved = |goal: &&GoalId| told.get(goal).map(|view| &**view) != tally.state.goal(goal).as_ref();
    let goals: Vec<GoalId> = tally.state.goals.keys().filter(moved).cloned().collect();
    if !periods.is_empty() {
        txn.change(|state, policy, _, effects| state.tell(Op::Totals(periods), policy, effects))?;
    }
    goals.iter().try_for_each(|goal| tell_goal(txn, goal))
}

/// Tells watchers how a goal stands, or that it is gone.
fn tell_goal(txn: &mut FeedTxn<'_>, goal: &GoalId) -> Step<()> {
    let Some(tally) = &mut txn.feed.tally else { return Ok(()) };
    tally.retold = true;
    let op = Op::Goal(goal.clone(), tally.state.goal(goal).map(Into::into));
    txn.change(|state, policy, _, effects| state.tell(op, policy, effects))
}

fn view(tally: &Tally, instance: &Instance, leaders: bool) -> PeriodView {
    let measures = if leaders { tally.state.told_measures(instance) } else { Vec::new() };
    let first = |by| {
        let board = tally.board.as_ref();
        let leaders = board.map(|board| board.leaders(instance.id, &by, TOLD_LEADERS)).unwrap_or_default();
        (by, leaders)
    };
    PeriodView {
        since: instance.since,
        gifts: instance.gifts,
        units: instance.units.shown(),
        gifters: instance.gifters,
        points: instance.points.shown(),
        values: instance.amounts(),
        leaders: measures.into_iter().map(first).collect(),
    }
}

/// The id of the clock's entry in the due queue.
const CLOCK: &str = "totals";

/// Sees to it that the feed's clock strikes when there is something to do.
fn wind(txn: &mut FeedTxn<'_>) -> Step<()> {
    let waits = waits(txn);
    let Some(tally) = &txn.feed.tally else { return Ok(()) };
    let mut at = tally.state.next(txn.now, waits);
    if !tally.gone.is_empty() {
        let soon = txn.now.plus(crate::domain::tally::TELL_EVERY_MS);
        at = Some(at.map_or(soon, |at| at.min(soon)));
    }
    // What is wound for earlier strikes, and winds anew.
    if tally.clock.is_some_and(|clock| at.is_none_or(|at| clock <= at)) {
        return Ok(());
    }
    let Some(at) = at else { return Ok(()) };
    let (no, kind) = (txn.number()?, DueKind::Totals.letter());
    if let Some(entry) = due::find(txn.db, no, kind, CLOCK)? {
        due::remove(txn.db, no, entry.place)?;
        txn.common.agenda.set(txn.name, due::next(txn.db, no)?, txn.now);
    }
    let entry = (kind, CLOCK, String::new());
    txn.common.agenda.add(txn.db, (txn.name, no), entry, (at, txn.now))?;
    if let Some(tally) = &mut txn.feed.tally {
        tally.clock = Some(at);
    }
    Ok(())
}

/// The clock as it stands for a reader: what time did is done first, where that can be written.
fn read<'t>(txn: &'t mut FeedTxn<'_>) -> Step<Option<&'t mut Tally>> {
    if !txn.db.is_refusing() && settled(txn).is_some_and(|tally| tally.changed) {
        txn.number()?;
        wind(txn)?;
    }
    let (db, no) = (txn.db, txn.feed.no);
    let Some(tally) = txn.feed.tally.as_mut() else { return Ok(None) };
    tallies::board(db, no, tally)?.rank_all();
    Ok(Some(tally))
}

/// See [`crate::engine::ReadTotals`].
pub(super) fn totals(txn: &mut FeedTxn<'_>, back: bool) -> Step<Option<TotalsView>> {
    let Some(tally) = read(txn)? else { return Ok(None) };
    if tally.state.open.is_empty() {
        return Ok(None);
    }
    let instances = if back { &tally.state.ended } else { &tally.state.open };
    Ok(Some(instances.iter().map(|it| (it.period, view(tally, it, false).into())).collect()))
}

/// See [`crate::engine::ReadLeaders`].
pub(super) fn leaders(txn: &mut FeedTxn<'_>, ask: &LeadersAsk) -> Step<Option<LeadersView>> {
    let Some(tally) = read(txn)? else { return Ok(None) };
    let state = &tally.state;
    let instance = if ask.back { state.back(ask.period) } else { state.of(ask.period) };
    let (Some(instance), Some(board)) = (instance, &tally.board) else { return Ok(None) };
    Ok(Some(LeadersView {
        since: instance.since,
        leaders: board.leaders(instance.id, &ask.by, ask.limit),
        user: ask.user.as_deref().and_then(|user| board.rank(instance.id, &ask.by, user)),
    }))
}

/// See [`crate::engine::BeginSession`].
pub(super) fn begin_session(txn: &mut FeedTxn<'_>, id: &str) -> Step<(Session, bool)> {
    txn.number()?;
    settled(txn);
    let now = txn.now;
    let tally = txn.feed.tally.get_or_insert_default();
    let new = tally.state.begin_session(id, now);
    tally.changed |= new;
    if let Some(board) = tally.board.as_mut().filter(|_| new) {
        tally.gone.append(&mut board.sweep(&tally.state));
    }
    let session = tally.state.session.clone().unwrap_or(Session { id: id.to_owned(), since: now });
    tick(txn)?;
    Ok((session, new))
}

/// See [`crate::engine::ListGoals`].
pub(super) fn goals(txn: &mut FeedTxn<'_>) -> Step<Vec<GoalView>> {
    let Some(tally) = read(txn)? else { return Ok(Vec::new()) };
    Ok(tally.state.goals.keys().filter_map(|goal| tally.state.goal(goal)).collect())
}

/// See [`crate::engine::PutGoal`].
pub(super) fn put_goal(txn: &mut FeedTxn<'_>, goal: &GoalId, spec: &GoalSpec) -> Step<GoalPut> {
    let Some(tally) = settled(txn).filter(|tally| tally.state.of(spec.period).is_some()) else {
        return Ok(GoalPut::NotCounted);
    };
    let before = tally.state.goals.get(goal).cloned();
    if before.is_none() && tally.state.goals.len() >= MAX_GOALS {
        return Ok(GoalPut::TooMany);
    }
    let reached = before.as_ref().and_then(|goal| goal.reached_at);
    tally.state.goals.insert(goal.clone(), Goal { spec: spec.clone(), reached_at: reached });
    let view = tally.state.goal(goal);
    if let (Some(view), Some(kept)) = (view, tally.state.goals.get_mut(goal)) {
        kept.reached_at = reached.filter(|_| view.value >= spec.target);
    }
    tally.changed = true;
    txn.number()?;
    txn.change(|state, _, _, _| state.begin())?;
    reach(txn)?;
    let moved = txn.feed.state.list.goals.get(goal).map(|view| (**view).clone())
        != txn.feed.tally.as_ref().and_then(|tally| tally.state.goal(goal));
    if moved {
        tell_goal(txn, goal)?;
    }
    wind(txn)?;
    let view = txn.feed.tally.as_ref().and_then(|tally| tally.state.goal(goal));
    Ok(match (view, before) {
        (Some(view), None) => GoalPut::New(view),
        (Some(view), Some(_)) => GoalPut::Changed(view),
        (None, _) => GoalPut::NotCounted,
    })
}

/// See [`crate::engine::DeleteGoal`].
pub(super) fn delete_goal(txn: &mut FeedTxn<'_>, goal: &GoalId) -> Step<bool> {
    let Some(tally) = &mut txn.feed.tally else { return Ok(false) };
    if tally.state.goals.remove(goal).is_none() {
        return Ok(false);
    }
    tally.changed = true;
    txn.number()?;
    tell_goal(txn, goal)?;
    Ok(true)
}
