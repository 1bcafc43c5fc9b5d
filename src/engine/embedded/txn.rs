//! The unit of work: what one call changes in one feed, it changes through one value, which knows the feed, its
//! number and its policy, and which happens whole or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::EmbeddedOptions;
use super::blocks::{self, Blocks};
use super::db::Db;
use super::due::Agenda;
use super::fault::Step;
use super::feed::Feed;
use super::frames::Part;
use super::hooks::{self, HookOfAll};
use super::ids::Ids;
use super::jobs::Jobs;
use super::log::Log;
use super::readers;
use crate::domain::answer::Remembered;
use crate::domain::feed::Effects;
use crate::domain::{FeedId, FeedState, GiftId, HookId, Millis, Policy};
use crate::engine::ReportLimits;
use crate::engine::log_throttle::LogThrottle;
use crate::metrics::Metrics;

/// What all feeds have in common.
pub(super) struct Common {
    /// The policy of feeds that set none.
    pub(super) defaults: Arc<Policy>,
    /// Gifts of one feed that may wait.
    pub(super) scheduled_max: u64,
    /// How long before it opens or closes watchers are reminded of a drop.
    pub(super) reminder_ms: u64,
    /// How much is kept of what happened.
    pub(super) limits: ReportLimits,
    pub(super) metrics: Arc<Metrics>,
    /// Bounds warnings about ledgers that were cut, which every gift may cause.
    pub(super) cut_warnings: LogThrottle,
    pub(super) agenda: Agenda,
    pub(super) jobs: Jobs,
    pub(super) log: Log,
    pub(super) ids: Ids,
    /// Webhooks of all feeds: each feed makes them its readers when something comes to it.
    pub(super) hooks_of_all: BTreeMap<HookId, HookOfAll>,
    /// Users whose gifts are shown in no feed.
    pub(super) blocks_of_all: Blocks,
    /// Feeds that changed in this group.
    pub(super) touched: Vec<FeedId>,
    /// The last number that a feed was given.
    last_feed: i64,
    /// True when what is over by age may be forgotten for good: the clock has been steady.
    pub(super) may_forget: bool,
}

impl Common {
    /// As the tables say.
    pub(super) fn read(db: &Db, options: &EmbeddedOptions, metrics: Arc<Metrics>) -> Step<Common> {
        let mut common = Common {
            defaults: Arc::new(options.defaults.clone()),
            scheduled_max: options.scheduled_max,
            reminder_ms: options.drop_reminder_ms,
            limits: options.reports,
            metrics,
            cut_warnings: LogThrottle::default(),
            agenda: Agenda::read(db)?,
            jobs: Jobs::default(),
            log: Log::read(db, Vec::new())?,
            ids: Ids::read(db)?,
            hooks_of_all: BTreeMap::new(),
            blocks_of_all: blocks::of_all(db)?,
            touched: Vec::new(),
            last_feed: db.value("SELECT max(no) FROM feeds", [])?.unwrap_or(0),
            may_forget: false,
        };
        common.read_hooks(db)?;
        Ok(common)
    }

    /// As the tables and the journal say now, after the file was mended. Jobs stay: one too many finds out that there is nothing.
    pub(super) fn reread(&mut self, db: &Db, journal: Vec<Part>) -> Step<()> {
        self.agenda = Agenda::read(db)?;
        self.log = Log::read(db, journal)?;
        self.ids = Ids::read(db)?;
        self.touched.clear();
        self.last_feed = self.last_feed.max(db.value("SELECT max(no) FROM feeds", [])?.unwrap_or(0));
        self.read_hooks(db)
    }

    /// Reads webhooks of all feeds, and what work there is, from the tables: at the start, and after a group that
    /// failed, when memory may be ahead of the disk. A job too many finds out that there is nothing.
    pub(super) fn read_hooks(&mut self, db: &Db) -> Step<()> {
        self.hooks_of_all = hooks::of_all(db)?.into_iter().collect();
        self.blocks_of_all = blocks::of_all(db)?;
        for job in readers::jobs(db)? {
            self.jobs.note(job, Millis(0), Millis(0));
        }
        Ok(())
    }
}

/// See the module.
pub struct FeedTxn<'a> {
    pub(super) db: &'a Db,
    pub(super) name: &'a FeedId,
    pub(super) feed: &'a mut Feed,
    pub(super) common: &'a mut Common,
    /// The policy in force.
    pub(super) policy: Arc<Policy>,
    /// The caller's clock.
    pub(super) now: Millis,
}

impl<'a> FeedTxn<'a> {
    pub(super) fn new(
        db: &'a Db,
        name: &'a FeedId,
        feed: &'a mut Feed,
        common: &'a mut Common,
        now: Millis,
    ) -> FeedTxn<'a> {
        let policy = feed.policy.clone();
        FeedTxn { db, name, feed, common, policy, now }
    }

    /// Makes the feed part of the group that is committed next. Whatever changes it calls this first, or
    /// [`FeedTxn::number`].
    pub(super) fn touch(&mut self) -> Step<()> {
        if self.feed.touched.replace(self.now).is_none() {
            self.common.touched.push(self.name.clone());
        }
        self.db.may_write()
    }

    /// The feed's number in the tables, for writing; a feed that has none gets one, and is kept from then on.
    pub(super) fn number(&mut self) -> Step<i64> {
        self.touch()?;
        if let Some(no) = self.feed.no {
            return Ok(no);
        }
        self.common.last_feed += 1;
        self.feed.no = Some(self.common.last_feed);
        self.feed.write_whole();
        Ok(self.common.last_feed)
    }

    /// What was answered to a gift id, if it is still remembered.
    pub(super) fn remembered(&self, id: &GiftId) -> Step<Option<Remembered>> {
        Ok(self.known_id(id)?.filter(|(_, until)| *until > self.now).map(|(it, _)| it))
    }

    /// What was answered to a gift id, whether it is still remembered or not, and until when it is.
    pub(super) fn known_id(&self, id: &GiftId) -> Step<Option<(Remembered, Millis)>> {
        match (self.feed.ids.get(id)?, self.feed.no) {
            (None, Some(no)) => self.common.ids.find(self.db, no, id),
            (known, _) => Ok(known),
        }
    }

    /// Runs a rule on the feed's list and keeps what comes of it.
    pub(super) fn change<T>(
        &mut self,
        rule: impl FnOnce(&mut FeedState, &Policy, Millis, &mut Effects) -> T,
    ) -> Step<T> {
        let mut effects = Effects::default();
        let result = rule(&mut self.feed.state, &self.policy, self.now, &mut effects);
        if self.feed.keep(effects) {
            self.number()?;
        }
        Ok(result)
    }
}
