//! A case's verbs for those who read a ledger: groups, webhooks and their jobs.

use serde_json::Value;
use tipcast::domain::story::EntryState;
use tipcast::domain::{
    Ask, Cursor, DeadLetter, Delivery, Entry, EntryStatus, FeedId, GroupId, GroupView, Handed, Hook, HookKey,
    HookScope, HookSpec, Job, Reader, Replay, Start, Taken,
};
use tipcast::engine::{JobDone, JobLease, JobTurn, ReportLimits, Save, Swapped, Want, Work};

use super::case::Case;

/// What a claim of a test asks for when it does not matter.
pub const ASK: Ask = Ask { max: 1_000, lease_ms: 30_000, from: Start::Start };

/// The `batch_ms` of [`spec`].
pub const BATCH_MS: u64 = 1_000;

/// What users of a job share.
pub const WANT: Want = Want { most: 100, batch_ms: BATCH_MS };

/// How long a turn lasts.
pub const TURN_MS: u64 = 30_000;

/// A group's name.
pub fn group_of(name: &str) -> GroupId {
    name.parse().unwrap()
}

/// It as a reader.
pub fn reader_of(name: &str) -> Reader {
    Reader::Group(group_of(name))
}

/// A webhook of all feeds.
pub fn of_all(name: &str) -> HookKey {
    HookKey { scope: HookScope::All, name: name.parse().unwrap() }
}

/// A webhook of one feed.
pub fn of_feed(feed: &FeedId, name: &str) -> HookKey {
    HookKey { scope: HookScope::Feed(feed.clone()), name: name.parse().unwrap() }
}

/// What PUT says.
pub fn spec() -> HookSpec {
    HookSpec {
        url: "https://game.example/gifts".into(),
        secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into(),
        batch_max: 128,
        batch_ms: BATCH_MS,
        max_age_ms: 0,
        delivery: Delivery::AtLeastOnce,
        types: vec![],
        headers: Default::default(),
    }
}

/// The event of an entry.
pub fn event(entry: &Entry) -> Value {
    serde_json::from_str(&entry.gift).unwrap()
}

/// The ids of the gifts.
pub fn gifts<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<String> {
    entries.into_iter().map(|entry| event(entry)["id"].as_str().unwrap().to_owned()).collect()
}

/// The ids of the gifts that were handed out.
pub fn handed(all: &[Handed]) -> Vec<String> {
    gifts(all.iter().map(|it| &it.entry))
}

/// Ids and attempts.
pub fn attempts(all: &[Handed]) -> Vec<(String, u64)> {
    handed(all).into_iter().zip(all.iter().map(|it| it.attempt)).collect()
}

/// Their numbers.
pub fn cursors(all: &[Handed]) -> Vec<Cursor> {
    all.iter().map(|it| it.entry.cursor).collect()
}

/// Ids and what became of the gifts.
pub fn fates(all: &[Handed]) -> Vec<(String, EntryStatus)> {
    handed(all).into_iter().zip(all.iter().map(|it| it.entry.status)).collect()
}

impl Case {
    /// Closes the engine and opens it again on the same store, which keeps so much.
    pub async fn reopen_keeping(&mut self, limits: ReportLimits) {
        self.engine.close().await;
        self.engine = self.store.open_keeping(limits).await;
        self.listen_anew().await;
    }

    /// A claim of a group that may be there or not.
    pub async fn ask(&mut self, group: &str, ask: Ask) -> Option<Taken> {
        let taken = self.engine.claim_entries(&self.feed, &group_of(group), ask, self.now).await.unwrap()?;
        let numbers = cursors(&taken.entries);
        assert!(numbers.is_sorted_by(|a, b| a < b), "in the ledger's order: {numbers:?}");
        for handed in &taken.entries {
            let mut text = String::new();
            handed.entry.push_json(&mut text, &self.feed, Some(handed.attempt));
            super::schema::check_entry(&serde_json::from_str(&text).unwrap());
        }
        Some(taken)
    }

    /// A claim of whatever there is.
    pub async fn take(&mut self, group: &str) -> Vec<Handed> {
        self.ask(group, ASK).await.expect("a group").entries
    }

    /// Acknowledges.
    pub async fn ack(&mut self, group: &str, cursors: &[Cursor]) -> Option<u64> {
        self.engine.ack_entries(&self.feed, &group_of(group), cursors, self.now).await.unwrap()
    }

    /// Gives back.
    pub async fn nack(&mut self, group: &str, cursors: &[Cursor]) -> Option<u64> {
        self.engine.nack_entries(&self.feed, &group_of(group), cursors, self.now).await.unwrap()
    }

    /// Claims and acknowledges whatever there is.
    pub async fn consume(&mut self, group: &str) -> Vec<Handed> {
        let all = self.take(group).await;
        assert_eq!(self.ack(group, &cursors(&all)).await, Some(all.len() as u64));
        all
    }

    /// How a group stands.
    pub async fn group(&mut self, group: &str) -> Option<GroupView> {
        self.engine.read_group(&self.feed, &group_of(group), self.now).await.unwrap()
    }

    /// What a reader has done with an entry.
    pub async fn state_of(&mut self, reader: &Reader, cursor: Cursor) -> Option<EntryState> {
        let (feed, reader, now) = (self.feed.clone(), reader.clone(), self.now);
        self.engine.read_entry_state(&feed, &reader, cursor, now).await.unwrap()
    }

    /// lag, pending and dead.
    pub async fn stands(&mut self, group: &str) -> (u64, u64, u64) {
        let GroupView { lag, pending, dead, .. } = self.group(group).await.expect("a group");
        (lag, pending, dead)
    }

    /// A reader's dead letters.
    pub async fn letters(&mut self, reader: &Reader) -> Vec<DeadLetter> {
        self.engine.list_dead_letters(&self.feed, reader, 0, 100_000).await.unwrap()
    }

    /// Sends dead letters again.
    pub async fn replay(&mut self, reader: &Reader, which: Replay) -> u64 {
        self.engine.replay_dead_letters(&self.feed, reader, &which, self.now).await.unwrap()
    }

    /// Posts gifts of different people, so that each is accepted.
    pub async fn give(&mut self, ids: &[&str]) {
        self.post_all(ids.iter().map(|id| super::gifts::gift(id).by(id))).await;
    }

    /// Posts this number of gifts of different people, `n0` first.
    pub async fn give_many(&mut self, range: std::ops::Range<usize>) {
        let ids: Vec<String> = range.map(|n| format!("n{n}")).collect();
        for part in ids.chunks(100) {
            self.give(&part.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
    }

    /// Makes a webhook that is new.
    pub async fn hook(&mut self, key: &HookKey) -> Hook {
        let hook = Hook::new(spec(), self.now);
        assert_eq!(self.swap(key, None, Some(hook.clone())).await, Swapped::Done);
        hook
    }

    /// Swaps a webhook.
    pub async fn swap(&mut self, key: &HookKey, was: Option<u64>, to: Option<Hook>) -> Swapped {
        self.engine.swap_webhook(key, was, to, self.now).await.unwrap()
    }

    /// A webhook's work in this case's feed.
    pub fn job(&self, key: &HookKey) -> Job {
        Job { feed: self.feed.clone(), reader: key.reader() }
    }

    /// Jobs whose time has come.
    pub async fn turn(&mut self, over: Vec<JobDone>) -> JobTurn {
        self.engine.claim_jobs(over, 100, TURN_MS, self.now).await.unwrap()
    }

    /// The only job whose time has come.
    pub async fn only_job(&mut self) -> JobLease {
        let mut jobs = self.turn(vec![]).await.jobs;
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.remove(0)
    }

    /// No job's time has come.
    pub async fn no_job(&mut self) {
        assert_eq!(self.turn(vec![]).await.jobs, []);
    }

    /// What a webhook has to send.
    pub async fn open_job(&mut self, key: &HookKey) -> Option<Work> {
        self.engine.open_job(&self.job(key), WANT, self.now).await.unwrap()
    }

    /// Keeps what was done.
    pub async fn save_job(&mut self, key: &HookKey, save: Save) -> Option<Work> {
        self.engine.save_job(&self.job(key), save, WANT, self.now).await.unwrap()
    }

    /// Finishes whatever a webhook has to send.
    pub async fn deliver(&mut self, key: &HookKey) -> Vec<Entry> {
        let work = self.open_job(key).await.expect("work");
        let through = work.entries.last().map(|entry| entry.cursor);
        let save = Save { was: work.progress.clone(), progress: work.progress, through, ..Save::default() };
        assert_eq!(self.save_job(key, save).await.expect("nobody else").backlog, 0);
        work.entries
    }
}
