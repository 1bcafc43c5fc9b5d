//! Every feed that was asked for lately, the group of calls that is committed next, and the feeds that are damaged.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::EmbeddedOptions;
use super::db::Db;
use super::entries;
use super::fault::{Fault, Step};
use super::feed::Feed;
use super::journal::{self, Journal};
use super::log::Log;
use super::mending::{Mending, Unmended};
use super::proof::Proof;
use super::steady::Steady;
use super::txn::{Common, FeedTxn};
use crate::domain::{FeedId, Millis};
use crate::engine::folder;
use crate::engine::{DueTurn, Notice};
use crate::metrics::Metrics;

/// Feeds kept in memory when idle; the rest is read back when asked for.
const FEEDS_IN_MEMORY: usize = 20_000;

/// Ids written before the writer stops at once to forget old ones.
const UNTIDY: usize = 4096;

/// How often it does so otherwise, while it is called.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// See the module.
pub struct Feeds {
    pub(super) db: Db,
    pub(super) common: Common,
    pub(super) journal: Journal,
    by_name: HashMap<FeedId, Feed>,
    damaged: HashMap<FeedId, String>,
    /// True when a feed turned out to be damaged that had its part in this group already.
    must_rerun: bool,
    mending: Mending,
    steady: Steady,
    tidied: Instant,
    proof: Proof,
}

impl Feeds {
    pub(super) fn new(
        (db, journal): (Db, Journal),
        options: &EmbeddedOptions,
        metrics: Arc<Metrics>,
    ) -> Step<Feeds> {
        let common = Common::read(&db, options, metrics)?;
        Ok(Feeds {
            db,
            common,
            journal,
            by_name: HashMap::new(),
            damaged: HashMap::new(),
            must_rerun: false,
            mending: Mending::new(folder::database(&options.data_dir)),
            steady: Steady::new(options.steady_for, Instant::now(), &options.data_dir),
            tidied: Instant::now(),
            proof: Proof::default(),
        })
    }

    /// Serves a call whose clock says `now`.
    pub(super) fn heard(&mut self, now: Millis) {
        let at = Instant::now();
        if let Some(ms) = self.steady.heard(now, at) {
            self.common.jobs.went_back(ms);
        }
        self.common.may_forget = self.steady.may_forget(at);
    }

    /// Runs one call's work on one feed. When it fails, the feed's part of the group is taken back: alone, if its
    /// records cannot be read; with the group, if it is the disk.
    pub(super) fn on<T>(
        &mut self,
        name: &FeedId,
        now: Millis,
        work: impl FnOnce(&mut FeedTxn<'_>) -> Step<T>,
    ) -> Step<T> {
        if let Some(why) = self.damaged.get(name) {
            return Err(Fault::Damaged(why.clone()));
        }
        let done = self.load(name, now).and_then(|()| self.work(name, now, work));
        done.map_err(|fault| self.failed(name, fault))
    }

    /// What a call's failure on a feed means for the feed, and for the caller.
    fn failed(&mut self, name: &FeedId, fault: Fault) -> Fault {
        match fault {
            // Whose records stood there is not known before the file is mended.
            Fault::Unreadable(why) if self.may_mend() => {
                self.mending.wants(&why);
                if self.db.is_refusing() {
                    self.give_up(name);
                }
                Fault::Unreadable(why)
            }
            Fault::Garbled(why) | Fault::Unreadable(why) => {
                self.condemn(name, &why);
                Fault::Damaged(why)
            }
            // Nothing of a call that was refused may stay in memory.
            Fault::Disk(why) => {
                if self.db.is_refusing() {
                    self.give_up(name);
                }
                Fault::Disk(why)
            }
            fault => fault,
        }
    }

    fn work<T>(
        &mut self,
        name: &FeedId,
        now: Millis,
        work: impl FnOnce(&mut FeedTxn<'_>) -> Step<T>,
    ) -> Step<T> {
        let Feeds { db, common, by_name, .. } = self;
        if let Some(feed) = by_name.get_mut(name) {
            return work(&mut FeedTxn::new(db, name, feed, common, now));
        }
        // A feed that nobody wrote to is kept only when something came of it.
        let mut nobody = Feed::new(&common.defaults);
        let done = work(&mut FeedTxn::new(db, name, &mut nobody, common, now));
        if nobody.touched.is_some() {
            by_name.insert(name.clone(), nobody);
        }
        done
    }

    fn load(&mut self, name: &FeedId, now: Millis) -> Step<()> {
        if self.by_name.contains_key(name) {
            return Ok(());
        }
        self.read_log()?;
        let Common { defaults, log, .. } = &self.common;
        let Some(mut feed) = Feed::load(&self.db, name, defaults, log)? else { return Ok(()) };
        if feed.must_write() {
            FeedTxn::new(&self.db, name, &mut feed, &mut self.common, now).touch()?;
        }
        self.by_name.insert(name.clone(), feed);
        Ok(())
    }

    /// What is stored of the feed cannot be read: it is left alone from now on.
    pub(super) fn condemn(&mut self, name: &FeedId, why: &str) {
        if self.damaged.contains_key(name) {
            return;
        }
        tracing::error!(
            feed = %name, why,
            "what is stored of this feed is damaged; it answers 503 until its folder is restored, all others work. \
             `tipcast store check` says more"
        );
        self.common.metrics.feeds_damaged.inc();
        self.disown(name, why);
        let touched = self.by_name.remove(name).is_some_and(|feed| feed.touched.is_some());
        self.must_rerun |= touched || self.common.touched.contains(name);
    }

    /// Nothing under this name is served.
    pub(super) fn disown(&mut self, name: &FeedId, why: &str) {
        self.damaged.insert(name.clone(), why.to_owned());
        forget(&mut self.common, name);
    }

    /// True when the group must be taken back and run again, without the feed that turned out to be damaged.
    pub(super) fn must_rerun(&self) -> bool {
        self.must_rerun
    }

    /// Why the group must be taken back and run again after the file was mended, if it must.
    pub(super) fn must_mend(&self) -> Option<String> {
        self.mending.wanted().filter(|_| !self.db.is_refusing())
    }

    /// False for a while after the file was mended, or could not be.
    pub(super) fn may_mend(&self) -> bool {
        self.mending.may()
    }

    /// Mends the file, because a page of it cannot be read, and reads from it what memory knows. When that is of no
    /// use the file stays as it is, and the damage is the feed's that met it. An error says why it can be mended
    /// later, or not be opened again.
    pub(super) fn mend(&mut self, why: &str) -> Result<(), String> {
        let mended = self.mending.mend(&mut self.db, why)?;
        self.by_name.clear();
        self.mending.reopen(&mut self.db)?;
        match mended {
            Ok(lost) => {
                let is_marked = journal::put_generation(&self.db.conn, self.journal.generation());
                is_marked.map_err(|e| e.to_string())?;
                let journal = self.journal.parts().map_err(Fault::why)?;
                self.common.reread(&self.db, journal).map_err(Fault::why)?;
                self.damaged.keys().for_each(|name| forget(&mut self.common, name));
                lost.iter().for_each(|(name, why)| self.condemn(name, why));
                self.must_rerun = false;
            }
            Err(Unmended::Later(why)) => return Err(why),
            Err(Unmended::Never(what)) => tracing::error!(
                why,
                what,
                "the database has pages that cannot be read, and cannot be copied without them; feeds that meet them \
                 answer 503. Stop, and restore it from a backup"
            ),
        }
        self.mending.is_done();
        Ok(())
    }

    /// True when nothing of this feed can be read.
    pub(super) fn is_damaged(&self, name: &FeedId) -> bool {
        self.damaged.contains_key(name)
    }

    /// Makes the group durable; false when it wrote nothing.
    pub(super) fn commit(&mut self) -> Step<bool> {
        let mut next = 0;
        while let Some(name) = self.common.touched.get(next).cloned() {
            self.on_touched(&name, entries::keep)?;
            next += 1;
        }
        // What is in memory alone, beside the log, is given up when there are too many feeds.
        let is_over = self.common.log.is_long() || self.by_name.len() > FEEDS_IN_MEMORY;
        if is_over {
            self.settle_log()?;
        }
        for name in self.common.touched.clone() {
            self.on_touched(&name, |txn| {
                if is_over {
                    entries::write(txn)?;
                }
                let Common { log, ids, .. } = &mut *txn.common;
                txn.feed.write((txn.db, ids), txn.name, txn.now, Some(log).filter(|_| !is_over))
            })?;
        }
        if self.must_rerun {
            return Err(Fault::garbled("a feed of this group is damaged"));
        }
        let wrote = self.common.log.commit(&self.db, &mut self.journal)?;
        self.proof.committed(wrote);
        Ok(wrote)
    }

    fn on_touched(&mut self, name: &FeedId, work: impl FnOnce(&mut FeedTxn<'_>) -> Step<()>) -> Step<()> {
        let Some(now) = self.by_name.get(name).and_then(|feed| feed.touched) else { return Ok(()) };
        match self.on(name, now, work) {
            Err(Fault::Damaged(_)) => Ok(()),
            done => done,
        }
    }

    /// Reads the log again if that could not be done after a group that failed.
    fn read_log(&mut self) -> Step<()> {
        if self.common.log.must_be_read() {
            self.common.log = Log::read(&self.db, self.journal.parts()?)?;
            self.damaged.keys().for_each(|name| self.common.log.keep(name));
        }
        Ok(())
    }

    /// Brings everything that is logged to the feeds' own tables.
    pub(super) fn settle_log(&mut self) -> Step<()> {
        self.read_log()?;
        let feeds = self.common.log.feeds();
        if feeds.is_empty() {
            return Ok(());
        }
        self.db.begin()?;
        for name in &feeds {
            let now = self.by_name.get(name).and_then(|feed| feed.touched).unwrap_or(Millis(0));
            match self.on(name, now, entries::settle) {
                Ok(()) => {}
                // What was logged of it stays for whoever restores it.
                Err(Fault::Damaged(_)) => self.common.log.keep(name),
                Err(fault) => return Err(fault),
            }
        }
        self.common.log.clear(&self.db, &mut self.journal)
    }

    /// Brings everything that is durable to the database, which is then in one piece. What cannot be brought there stays
    /// in the journal, for the next start.
    pub(super) fn close(&mut self) {
        let done = self.read_log().and_then(|()| {
            if !self.journal.is_empty() {
                self.db.begin()?;
            }
            self.common.log.commit(&self.db, &mut self.journal).map(drop)
        });
        match done {
            Ok(()) => self.journal.close(),
            Err(fault) => {
                self.db.rollback();
                tracing::warn!(
                    ?fault,
                    "the journal could not be brought to the database; the next start does it"
                );
            }
        }
    }

    /// What the durable group has to tell, feed by feed. Afterwards nothing is left to write.
    pub(super) fn told(&mut self, mut tell: impl FnMut(&FeedId, Notice)) {
        for name in std::mem::take(&mut self.common.touched) {
            let Some(feed) = self.by_name.get_mut(&name) else { continue };
            feed.touched = None;
            let must_tell = feed.ledger.must_tell();
            let changes = feed.take_pending();
            if !changes.is_empty() || must_tell {
                tell(&name, Notice::Changes(changes.into()));
            }
            if std::mem::take(&mut feed.policy_is_new) {
                tell(&name, Notice::Policy);
            }
        }
        if self.by_name.len() > FEEDS_IN_MEMORY {
            self.by_name.clear();
        }
    }

    /// Takes a failed group back. Memory is ahead of the disk in the feeds that it touched, and nowhere else.
    pub(super) fn take_back(&mut self) {
        self.db.rollback();
        self.must_rerun = false;
        self.proof.taken_back();
        self.mending.taken_back();
        if let Err(why) = self.mending.reopen(&mut self.db) {
            tracing::warn!(why, "the database could not be opened again; trying again later");
        }
        let touched = std::mem::take(&mut self.common.touched);
        touched.iter().for_each(|name| drop(self.by_name.remove(name)));
        self.common.log.take_back();
        let read = self.read_log();
        let Feeds { db, common, damaged, .. } = self;
        let reread = || -> Step<()> {
            read?;
            for name in touched.iter().filter(|name| !damaged.contains_key(name)) {
                let sql = "SELECT min(at) FROM due WHERE feed = (SELECT no FROM feeds WHERE name = ?1)";
                let first = db.value::<i64>(sql, [name.as_str()])?.map(Millis);
                common.agenda.set(name, first, Millis(i64::MAX));
            }
            common.read_hooks(db)?;
            damaged.keys().for_each(|name| common.jobs.remove_feed(name));
            Ok(())
        };
        if let Err(fault) = reread() {
            // What is in memory may name a feed too early, or one too many; its step finds that out.
            tracing::warn!(?fault, "the queues could not be read again");
        }
    }

    fn give_up(&mut self, name: &FeedId) {
        self.by_name.remove(name);
        self.common.touched.retain(|touched| touched != name);
    }

    /// See [`Proof::is_refused`].
    pub(super) fn is_refused(&self) -> bool {
        self.proof.is_refused()
    }

    /// Has every write of the next run refused, or with none allows them again.
    pub(super) fn refuse(&mut self, why: Option<String>) {
        if why.is_some() {
            self.proof.refused();
        }
        self.db.refuse(why);
    }

    /// See [`super::due::Agenda::turn`].
    pub(super) fn claim_due(&self, max: usize, now: Millis) -> DueTurn {
        self.common.agenda.turn(max, now)
    }

    /// See [`Proof::probe`].
    pub(super) fn probe(&mut self) -> Step<()> {
        self.proof.probe(&self.db, &mut self.journal)
    }

    /// Forgets ids whose window is over at `now`, in a commit of its own, and gets to know old ones, if it is time for that.
    pub(super) fn tidy(&mut self, now: Millis) {
        self.steady.keep(Instant::now());
        let is_time = self.tidied.elapsed() >= TIDY_EVERY;
        let Common { ids, may_forget, .. } = &mut self.common;
        let must_forget = *may_forget && (is_time || ids.written() > UNTIDY);
        if !is_time && !must_forget {
            return;
        }
        self.tidied = Instant::now();
        let learnt = if is_time { ids.learn(&self.db) } else { Ok(()) };
        let done = if must_forget { learnt.and_then(|()| ids.forget(&self.db, now)) } else { learnt };
        if let Err(fault) = done.and_then(|()| self.db.commit()) {
            tracing::warn!(?fault, "old ids could not be forgotten; trying again later");
            self.db.rollback();
            if let Fault::Unreadable(why) = fault
                && self.may_mend()
                && let Err(why) = self.mend(&why)
            {
                tracing::warn!(why, "the database could not be mended; trying again later");
            }
        }
    }
}

/// A feed that is damaged has no work. What is logged of it stays for whoever restores it.
fn forget(common: &mut Common, name: &FeedId) {
    common.agenda.set(name, None, Millis(0));
    common.jobs.remove_feed(name);
    common.log.keep(name);
}
