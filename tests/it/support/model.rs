//! The oracle: the contract's sections 1–3 written down a second time, as plainly as possible and
//! without the project's own transitions. In memory, one lock, nothing forgotten but by rule.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tipcast::domain::list::Goals;
use tipcast::domain::tally::TotalsView;
use tipcast::domain::{
    Answer, Block, Change, Controls, Decision, Dedup, DropId, Drops, DuePlace, Epoch, FeedId, Gift, GiftId,
    Hook, HookKey, HookScope, MAX_SAFE, Millis, Op, Outcome, Policy, PolicyPatch, Position, RemoveReason,
    Row, RowCombo, RowId, Scheduled, Show, Status, Tag, Value,
};
use tipcast::engine::Revocation;
use tipcast::engine::{
    Count, DeadDue, DueDone, DueFate, DueFeed, DueHandled, DueRun, DueTurn, FeedHead, Missed, Notice,
    Notices, PolicyChange, ReportLimits, SCHEDULED_MAX, ScheduledGift, ScheduledPage, Snapshot, StoreError,
    Subscription, Unscheduled, Wakes,
};
use tokio::sync::broadcast;

mod drops;
mod moderation;
mod reports;
mod requests;
mod review;
mod sources;
mod totals;
mod viewers;

/// An engine that keeps the contract and nothing else.
pub struct Model {
    defaults: Policy,
    feeds: Mutex<HashMap<FeedId, Feed>>,
    scheduled_max: usize,
    wakes: broadcast::Sender<u64>,
    limits: Mutex<ReportLimits>,
    hooks: Mutex<HashMap<HookKey, Hook>>,
    told: Mutex<HashMap<(FeedId, String), Count>>,
    sources: Mutex<sources::OfFeeds>,
    /// Those of all feeds.
    blocks: Mutex<HashMap<String, Block>>,
    revoked: Mutex<Vec<(u64, Revocation)>>,
    /// What signed requests are for, and since when.
    requests: Mutex<HashMap<String, (String, Millis)>>,
}

/// What an id got last: an answer, or that it waits or waited.
#[derive(Clone)]
enum Known {
    Taken(Answer),
    Waits(Scheduled),
    Cancelled(Scheduled),
    InReview,
}

struct Feed {
    overrides: PolicyPatch,
    at: Position,
    tag: Tag,
    rows: Vec<Arc<Row>>,
    locks: HashMap<(String, String, bool), (RowId, Millis)>,
    ids: HashMap<GiftId, (Gift, Known, Millis)>,
    later: Vec<ScheduledGift>,
    arrivals: u64,
    combos: HashMap<RowId, (String, String, String, bool)>,
    drops: BTreeMap<DropId, drops::Drop>,
    shown: Drops,
    controls: Controls,
    totals: TotalsView,
    goals: Goals,
    brought: HashMap<GiftId, moderation::Brought>,
    grown: HashMap<String, moderation::Combo>,
    made: HashMap<RowId, Vec<moderation::Made>>,
    desk: review::Desk,
    decided: HashMap<GiftId, Decision>,
    log: Vec<Change>,
    floor: u64,
    told: usize,
    ledger: reports::Ledger,
    out: Notices,
}

impl Model {
    /// With these defaults.
    pub fn new(defaults: Policy) -> Arc<Model> {
        Model::holding(defaults, SCHEDULED_MAX)
    }

    /// `scheduled_max` is the number of gifts of a feed that may wait.
    pub fn holding(defaults: Policy, scheduled_max: u64) -> Arc<Model> {
        let (feeds, wakes) = (Mutex::default(), Wakes::sender());
        let (limits, hooks) = (Mutex::default(), Mutex::default());
        Arc::new(Model {
            defaults,
            feeds,
            scheduled_max: scheduled_max as usize,
            wakes,
            limits,
            hooks,
            told: Mutex::default(),
            sources: Mutex::default(),
            blocks: Mutex::default(),
            revoked: Mutex::default(),
            requests: Mutex::default(),
        })
    }

    /// Keeps so much of what happened from now on.
    pub fn keep(&self, limits: ReportLimits) {
        *self.limits.lock().unwrap() = limits;
    }

    fn limits(&self) -> ReportLimits {
        *self.limits.lock().unwrap()
    }

    fn on<T>(&self, feed: &FeedId, f: impl FnOnce(&mut Feed, Policy) -> T) -> T {
        let mut feeds = self.feeds.lock().unwrap();
        let feed = feeds.entry(feed.clone()).or_insert_with(Feed::new);
        for (key, hook) in self.hooks.lock().unwrap().iter() {
            if key.scope == HookScope::All {
                feed.ledger.join(&key.name, hook);
            }
        }
        feed.desk.everywhere = self.blocks.lock().unwrap().clone();
        let policy = self.defaults.with(&feed.overrides);
        let result = f(feed, policy);
        feed.ledger.trim(&self.limits());
        feed.tell();
        result
    }
}

impl Feed {
    fn new() -> Feed {
        Feed {
            overrides: PolicyPatch::default(),
            at: Position::start(),
            tag: 0,
            rows: vec![],
            locks: HashMap::new(),
            ids: HashMap::new(),
            later: vec![],
            arrivals: 0,
            combos: HashMap::new(),
            drops: BTreeMap::new(),
            shown: Drops::new(),
            controls: Controls::default(),
            totals: TotalsView::new(),
            goals: Goals::new(),
            brought: HashMap::new(),
            grown: HashMap::new(),
            made: HashMap::new(),
            desk: Default::default(),
            decided: HashMap::new(),
            log: vec![],
            floor: 0,
            told: 0,
            ledger: Default::default(),
            out: Notices::default(),
        }
    }

    fn tell(&mut self) {
        let stirred = std::mem::take(&mut self.ledger.stirred) && self.ledger.is_read();
        if self.told < self.log.len() || stirred {
            self.out.tell(&Notice::Changes(self.log[self.told..].into()));
            self.told = self.log.len();
        }
    }

    fn record(&mut self, op: Op, policy: &Policy) {
        self.at.seq += 1;
        let (epoch, seq, prev, tag) = (self.at.epoch.clone(), self.at.seq, self.tag, self.tag + 1);
        self.tag = tag;
        if op == Op::Reset {
            self.floor = seq;
        }
        self.floor = self.floor.max(seq.saturating_sub(policy.history));
        self.log.push(Change { epoch, seq, prev, tag, op });
    }

    fn sweep(&mut self, policy: &Policy, now: Millis) {
        while let Some(at) = self.rows.iter().rposition(|row| row.expires_at.is_some_and(|t| t <= now)) {
            let row = self.rows.remove(at).id.clone();
            self.record(Op::Remove { row, reason: RemoveReason::Expired }, policy);
        }
    }

    fn begin(&mut self) {
        if self.at.epoch.is_none() {
            self.at.epoch = Epoch::mint();
        }
    }

    fn add(&mut self, gift: &Gift, policy: &Policy, now: Millis) -> RowId {
        self.begin();
        let seq = self.at.seq + 1;
        let id = RowId::of(&self.at.epoch, seq);
        let quote = |text: &String| -> Arc<str> { serde_json::to_string(text).unwrap().into() };
        let row = Row {
            id: id.clone(),
            rev: 1,
            seq,
            at: now,
            updated_at: now,
            expires_at: expiry(policy, now),
            count: gift.combo.as_ref().map_or(gift.count, |c| u64::from(c.count.max(1))),
            value: gift.value.clone(),
            combo: gift.combo.as_ref().map(|c| RowCombo { key: "".into(), id: quote(&c.id), ended: c.end }),
            drop: None,
            test: gift.test,
            user: gift.user.to_json().into(),
            gift: gift.gift.to_json().into(),
            message: gift.message.as_ref().map(quote),
            tier: gift.tier,
            meta: gift.meta.clone().map(Into::into),
        };
        if let Some(key) = combo_of(gift) {
            self.combos.insert(id.clone(), key);
        }
        let row = Arc::new(row);
        self.rows.insert(0, row.clone());
        self.rows.truncate(policy.capacity as usize);
        self.record(Op::Add(row), policy);
        id
    }

    fn update(&mut self, at: usize, mut row: Row, policy: &Policy, now: Millis) {
        row.rev += 1;
        row.updated_at = now;
        row.expires_at = expiry(policy, now);
        self.rows[at] = Arc::new(row);
        self.record(Op::Update(self.rows[at].clone()), policy);
    }

    fn publish(&mut self, gift: &Gift, policy: &Policy, now: Millis, most: usize) -> Outcome {
        if let Some((first, known, until)) = self.ids.get(&gift.id)
            && now < *until
        {
            let same = Gift { fingerprint: gift.fingerprint, ..first.clone() } == *gift;
            return match known.clone() {
                _ if !same => Outcome::IdReused(gift.id.clone()),
                Known::Taken(answer) => Outcome::Duplicate(answer),
                Known::Waits(it) | Known::Cancelled(it) => Outcome::ScheduledBefore(it),
                Known::InReview => Outcome::InReviewBefore(gift.id.clone()),
            };
        }
        let at = match gift.show {
            Show::ByPolicy => Millis(now.0 + policy.delay_ms as i64),
            Show::After(ms) => Millis(now.0 + ms as i64),
            Show::At(at) => at,
        };
        if self.desk.is_blocked(&gift.user.id, now) {
            return Outcome::New(self.keep_back(gift, Status::Suppressed, policy, now));
        }
        if self.must_wait(gift, policy, now) {
            if let Some(retry_in_ms) = self.desk.is_full(now) {
                return Outcome::TooManyInReview { id: gift.id.clone(), retry_in_ms };
            }
            self.hold_for_review(gift, policy, now, at);
            return Outcome::InReview(gift.id.clone());
        }
        if at <= now {
            return Outcome::New(self.take(gift, policy, now));
        }
        let id = gift.id.clone();
        if self.later.len() >= most {
            let retry_in_ms = self.later[0].place.at.since(now);
            return Outcome::TooManyScheduled { id, retry_in_ms };
        }
        Outcome::Scheduled(self.wait(gift, at))
    }

    fn take(&mut self, gift: &Gift, policy: &Policy, now: Millis) -> Answer {
        self.sweep(policy, now);
        let before = self.rows.clone();
        let mut shown = gift.clone();
        if self.decided.get(&gift.id) == Some(&Decision::Mask) {
            (shown.message, shown.user.avatar, shown.user.name) = (None, None, "•••".into());
        }
        let (status, row) = match shown.combo {
            Some(_) => self.frame(&shown, policy, now),
            None => self.plain(&shown, policy, now),
        };
        let before = before.iter().find(|known| known.id == row);
        self.note(gift, (&row, status), before.map(|row| &**row), policy, now);
        let count = self.rows.iter().find(|r| r.id == row).map(|r| r.count);
        let count = count.filter(|_| status == Status::Merged);
        let answer = Answer { status, id: gift.id.clone(), at: self.at.clone(), row: Some(row), count };
        let until = now.plus(policy.idempotency_window_ms);
        self.ids.insert(gift.id.clone(), (gift.clone(), Known::Taken(answer.clone()), until));
        self.enter_gift(gift, &answer, now);
        answer
    }

    fn first(&self) -> Option<Millis> {
        let gift = self.later.first().map(|it| it.place.at);
        gift.into_iter().chain(self.desk.first().map(|(at, _)| at)).min()
    }

    fn run_due(&mut self, policy: &Policy, now: Millis) -> DueRun {
        let mut handled = vec![];
        while self.first().is_some_and(|at| at <= now) && handled.len() < 64 {
            let review = self.desk.first();
            let gift = self.later.first().map(|it| (it.place.at, it.place.order));
            if review.is_some_and(|review| gift.is_none_or(|gift| review < gift)) {
                handled.push(self.time_out(policy, now));
                continue;
            }
            let it = self.later.remove(0);
            let answer = match self.desk.is_blocked(&it.gift.user.id, now) {
                true => self.keep_back(&it.gift, Status::Suppressed, policy, now),
                false => self.take(&it.gift, policy, now),
            };
            let fate = DueFate::Shown(answer);
            handled.push(DueHandled { late_ms: now.since(it.place.at), fate });
        }
        DueRun { handled, next: self.first() }
    }

    fn unschedule(&mut self, id: &GiftId, policy: &Policy, now: Millis) -> Unscheduled {
        if let Some(at) = self.later.iter().position(|it| it.gift.id == *id) {
            let it = self.later.remove(at);
            let (deliver_at, until) = (it.place.at, now.plus(policy.idempotency_window_ms));
            let gone = Known::Cancelled(Scheduled { id: id.clone(), deliver_at });
            self.ids.insert(id.clone(), (it.gift, gone, until));
            return Unscheduled::Cancelled(deliver_at);
        }
        match self.ids.get(id) {
            Some((_, Known::Taken(_), until)) if now < *until => Unscheduled::Shown,
            _ => Unscheduled::Unknown,
        }
    }

    fn frame(&mut self, gift: &Gift, policy: &Policy, now: Millis) -> (Status, RowId) {
        let (mark, key) = (gift.combo.as_ref().unwrap(), combo_of(gift));
        let found = self.rows.iter().position(|row| self.combos.get(&row.id) == key.as_ref());
        let Some(at) = found.filter(|at| joins(&self.rows[*at], gift)) else {
            return (Status::Accepted, self.add(gift, policy, now));
        };
        let old = (*self.rows[at]).clone();
        let mut row = old.clone();
        if !row.combo.as_ref().unwrap().ended {
            row.count = row.count.max(mark.count.into());
            row.value = larger(row.value, gift.value.clone());
            if u64::from(mark.count) >= old.count {
                newest(&mut row, gift);
            }
            row.combo.as_mut().unwrap().ended = mark.end;
        }
        let id = row.id.clone();
        if row != old {
            self.update(at, row, policy, now);
        }
        (Status::Merged, id)
    }

    fn plain(&mut self, gift: &Gift, policy: &Policy, now: Millis) -> (Status, RowId) {
        if policy.dedup == Dedup::Off {
            return (Status::Accepted, self.add(gift, policy, now));
        }
        let key = (gift.user.id.clone(), gift.gift.id.clone(), gift.test);
        let until = now.plus(policy.dedup_window_ms);
        let lock = self.locks.get(&key).filter(|(_, until)| now < *until).map(|(row, _)| row.clone());
        let found = lock.as_ref().and_then(|row| self.rows.iter().position(|r| r.id == *row));
        let message = gift.message.as_ref().map(|text| serde_json::to_string(text).unwrap());
        let shown = found.and_then(|at| self.rows[at].message.as_deref());
        // A message is never lost to the lock.
        let differs = message.is_some() && message.as_deref() != shown;
        if let Some(row) = &lock
            && policy.dedup == Dedup::Drop
            && !differs
        {
            return (Status::Suppressed, row.clone());
        }
        let may_join = policy.dedup == Dedup::Combine && !(differs && shown.is_some());
        let (status, row) = match found.filter(|at| may_join && joins(&self.rows[*at], gift)) {
            Some(at) => {
                let mut row = (*self.rows[at]).clone();
                row.count = (row.count + gift.count).min(MAX_SAFE);
                row.value = added(row.value, gift.value.clone());
                newest(&mut row, gift);
                let id = row.id.clone();
                self.update(at, row, policy, now);
                (Status::Merged, id)
            }
            None => (Status::Accepted, self.add(gift, policy, now)),
        };
        if policy.dedup_window_ms > 0 {
            self.locks.insert(key, (row.clone(), until));
        }
        (status, row)
    }
}

fn expiry(policy: &Policy, now: Millis) -> Option<Millis> {
    (policy.row_ttl_ms > 0).then(|| now.plus(policy.row_ttl_ms))
}

fn combo_of(gift: &Gift) -> Option<(String, String, String, bool)> {
    let combo = gift.combo.as_ref()?;
    Some((gift.user.id.clone(), gift.gift.id.clone(), combo.id.clone(), gift.test))
}

fn joins(row: &Row, gift: &Gift) -> bool {
    row.value.as_ref().zip(gift.value.as_ref()).is_none_or(|(a, b)| a.currency == b.currency)
}

fn added(a: Option<Value>, b: Option<Value>) -> Option<Value> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Value { amount: (a.amount + b.amount).min(MAX_SAFE), ..a }),
        (a, b) => a.or(b),
    }
}

fn larger(a: Option<Value>, b: Option<Value>) -> Option<Value> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Value { amount: a.amount.max(b.amount), ..a }),
        (a, b) => a.or(b),
    }
}

fn newest(row: &mut Row, gift: &Gift) {
    if let Some(message) = &gift.message {
        row.message = Some(serde_json::to_string(message).unwrap().into());
    }
    if let Some(tier) = gift.tier {
        row.tier = Some(tier);
    }
    if let Some(meta) = &gift.meta {
        row.meta = Some(meta.as_str().into());
    }
}

impl Model {
    pub(crate) fn publish(&self, feed: &FeedId, gifts: Vec<Gift>, now: Millis) -> Vec<Outcome> {
        let most = self.scheduled_max;
        self.on(feed, |f, policy| gifts.iter().map(|g| f.publish(g, &policy, now, most)).collect())
    }

    pub(crate) fn retract(&self, feed: &FeedId, row: &RowId, now: Millis) -> Option<Position> {
        self.on(feed, |f, policy| {
            f.sweep(&policy, now);
            let at = f.rows.iter().position(|known| known.id == *row)?;
            f.remove_row(at, &policy, now);
            Some(f.at.clone())
        })
    }

    pub(crate) fn policy(&self, feed: &FeedId) -> Policy {
        self.on(feed, |_, policy| policy)
    }

    pub(crate) fn set_policy(&self, feed: &FeedId, change: PolicyChange, now: Millis) -> Policy {
        self.on(feed, |f, old| {
            f.sweep(&old, now);
            f.overrides = match change {
                PolicyChange::Replace(patch) => f.overrides.replaced(&patch),
                PolicyChange::Merge(patch) => f.overrides.merged(&patch),
            };
            let new = self.defaults.with(&f.overrides);
            if new.capacity != old.capacity && !f.at.epoch.is_none() {
                f.rows.truncate(new.capacity as usize);
                f.record(Op::Reset, &new);
            }
            f.floor = f.floor.max(f.at.seq.saturating_sub(new.history));
            f.tell();
            f.out.tell(&Notice::Policy);
            new
        })
    }

    pub(crate) fn snapshot(&self, feed: &FeedId, now: Millis) -> Snapshot {
        self.on(feed, |f, policy| {
            f.sweep(&policy, now);
            Snapshot {
                at: f.at.clone(),
                tag: f.tag,
                policy,
                rows: f.rows.clone(),
                drops: f.shown.clone(),
                controls: f.controls,
                totals: f.totals.clone(),
                goals: f.goals.clone(),
                now,
            }
        })
    }

    pub(crate) fn changes(&self, feed: &FeedId, since: &Position, max: usize) -> Missed {
        self.on(feed, |f, _| {
            if since.epoch != f.at.epoch || since.seq > f.at.seq || since.seq < f.floor {
                return Missed::NotCovered;
            }
            Missed::Changes(f.log.iter().skip(since.seq as usize).take(max).cloned().collect())
        })
    }

    pub(crate) fn heads(&self, feeds: &[FeedId]) -> Vec<Result<FeedHead, StoreError>> {
        let head = |f: &mut Feed, _| Ok(FeedHead { at: f.at.clone(), tag: f.tag });
        feeds.iter().map(|feed| self.on(feed, head)).collect()
    }

    pub(crate) fn subscribe(&self, feed: &FeedId) -> Subscription {
        self.on(feed, |f, _| f.out.subscribe())
    }

    pub(crate) fn known(&self, feed: &FeedId) -> Option<Position> {
        Some(self.on(feed, |f, _| f.at.clone()))
    }
}

impl Model {
    pub(crate) fn scheduled(&self, feed: &FeedId, after: Option<DuePlace>, max: usize) -> ScheduledPage {
        self.on(feed, |f, _| {
            let rest = f.later.iter().filter(|it| after.is_none_or(|after| it.place > after));
            let gifts: Vec<_> = rest.clone().take(max).cloned().collect();
            let next = gifts.last().map(|it| it.place).filter(|_| rest.count() > max);
            ScheduledPage { gifts, next }
        })
    }

    pub(crate) fn unschedule(&self, feed: &FeedId, id: &GiftId, now: Millis) -> Unscheduled {
        self.on(feed, |f, policy| f.unschedule(id, &policy, now))
    }

    pub(crate) fn dead(&self, _: &FeedId) -> Vec<DeadDue> {
        vec![]
    }

    pub(crate) fn claim_due(&self, _: Vec<DueDone>, max: usize, now: Millis) -> DueTurn {
        let feeds = self.feeds.lock().unwrap();
        let mut all: Vec<_> =
            feeds.iter().filter_map(|(name, feed)| Some((feed.first()?, name.clone()))).collect();
        all.sort();
        let (due, rest): (Vec<_>, Vec<_>) = all.iter().cloned().partition(|(at, _)| *at <= now);
        let turn = |(_, feed)| DueFeed { feed, token: String::new(), reclaimed: false };
        DueTurn {
            feeds: due.into_iter().take(max).map(turn).collect(),
            next_in_ms: rest.first().map(|(at, _)| at.since(now)),
            waiting: all.len() as u64,
        }
    }

    pub(crate) fn run_due(&self, feed: &FeedId, now: Millis) -> DueRun {
        self.on(feed, |f, policy| f.run_due(&policy, now))
    }
}
