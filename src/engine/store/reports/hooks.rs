//! Webhooks as they are set. Those of a feed are in the feed's slot, where they begin to read in the step that makes
//! them. Those of all feeds are in a slot of their own, and are brought to feeds ([`crate::engine::store::reports::attach`]).

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::{FeedId, Hook, HookId, HookKey, HookScope, Job, Millis, Reader};
use crate::engine::protocol::faults::{Fault, FaultKind};
use crate::engine::protocol::keys::{Part, SharedIndex};
use crate::engine::protocol::scripts;
use crate::engine::protocol::tags::random;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::reports::attach::Attaching;
use crate::engine::store::reports::groups::{Groups, note, noted, noted_everywhere, unnote};
use crate::engine::store::reports::signing::Signing;
use crate::engine::store::reports::stored::{read_hook, reader_keys, stored_hook};
use crate::engine::store::runner::Runner;
use crate::engine::{HOOKS_OF_ALL_MAX, MAX_LISTED, READERS_MAX, Swapped};

/// The webhooks of feeds, and those of all feeds.
pub struct Webhooks {
    pub runner: Arc<Runner>,
    pub attaching: Arc<Attaching>,
    pub signing: Arc<Signing>,
    pub groups: Arc<Groups>,
}

impl Webhooks {
    pub(super) fn key_of(&self, scope: &HookScope) -> String {
        match scope {
            HookScope::Feed(feed) => self.runner.keys.hooks(feed),
            HookScope::All => self.runner.keys.hooks_of_all()[0].clone(),
        }
    }

    /// The list that has the feed, if it has webhooks of its own.
    fn list_of(&self, feed: &FeedId) -> String {
        self.runner.keys.hook_feeds(self.runner.part_of(SharedIndex::Hooks, feed))
    }

    pub async fn hook(&self, key: &HookKey) -> Result<Option<Hook>, Fault> {
        let at = self.key_of(&key.scope);
        let text =
            self.runner.get::<Option<String>>(&at, redis::cmd("HGET").arg(&at).arg(key.name.as_str())).await;
        let is_of_all = key.scope == HookScope::All;
        let text = match text {
            Ok(text) => text,
            // Where the shard is away that has those of all feeds, what is known of them holds.
            Err(fault) if is_of_all => return self.attaching.known(&key.name).map(Some).ok_or(fault),
            Err(fault) => return Err(fault),
        };
        let hook = text.map(|text| read_hook(&text)).transpose()?;
        if let Some(hook) = hook.as_ref().filter(|_| is_of_all) {
            self.attaching.learn(&key.name, hook);
        }
        Ok(hook)
    }

    /// Names in lists that are in parts. A part whose server is away is left out.
    pub(super) async fn feeds_with_hooks(&self) -> Result<Vec<FeedId>, Fault> {
        let parts = self.runner.parts(SharedIndex::Hooks).into_iter();
        let lists = parts.map(|part| noted(self.runner.keys.hook_feeds(part)));
        let names = noted_everywhere(&self.runner, lists).await?;
        let read =
            |name: String| name.parse().map_err(|_| Fault::from(Corrupt("a feed's name")).of_an_index());
        names.into_iter().map(read).collect()
    }

    /// Feeds in which a webhook of all feeds has dead letters.
    pub async fn letter_feeds(&self, hook: &HookId) -> Result<Vec<FeedId>, Fault> {
        let (first, behind) = letters_of(hook);
        let lists = self.runner.parts(SharedIndex::Hooks).into_iter().map(|part| {
            let (list, mut range) = (self.runner.keys.letter_feeds(part), redis::cmd("ZRANGE"));
            range.arg(&list).arg(&first).arg(&behind).arg("BYLEX").arg("LIMIT").arg(0).arg(MAX_LISTED);
            (list, range)
        });
        let read = |name: String| {
            let feed = name.split_once(' ').and_then(|(_, feed)| feed.parse().ok());
            feed.ok_or_else(|| Fault::from(Corrupt("a feed's name")).of_an_index())
        };
        let mut feeds = noted_everywhere(&self.runner, lists)
            .await?
            .into_iter()
            .map(read)
            .collect::<Result<Vec<FeedId>, Fault>>()?;
        feeds.sort_unstable();
        feeds.truncate(MAX_LISTED);
        Ok(feeds)
    }

    pub async fn swap(
        &self,
        key: &HookKey,
        was: Option<u64>,
        mut to: Option<Hook>,
        now: Millis,
    ) -> Result<Swapped, Fault> {
        if let (HookScope::All, None, Some(hook)) = (&key.scope, was, &mut to) {
            // By the clock that dates entries: by one that is ahead of it, the first of them would be left out.
            let at = self.key_of(&key.scope);
            hook.since += self.runner.store_time(&at, now).await?.0 - now.0;
        }
        if to.is_some() {
            // Made, and copied to every shard, before the first delivery needs it.
            tidied(self.signing.key().await);
        }
        let was = was.map(|version| version.to_string()).unwrap_or_default();
        let text = to.as_ref().map(stored_hook).transpose()?.unwrap_or_default();
        let reply = match &key.scope {
            HookScope::Feed(feed) => self.swap_in_feed(feed, key, &was, &text, to.as_ref(), now).await?,
            HookScope::All => self.swap_of_all(key, &was, &text, to.as_ref(), now).await?,
        };
        match reply.as_slice() {
            b"done" => Ok(Swapped::Done),
            b"stale" => Ok(Swapped::Stale),
            b"full" => Ok(Swapped::Full),
            _ => Err(Corrupt("a reply").into()),
        }
    }

    async fn swap_in_feed(
        &self,
        feed: &FeedId,
        key: &HookKey,
        was: &str,
        text: &str,
        to: Option<&Hook>,
        now: Millis,
    ) -> Result<Vec<u8>, Fault> {
        let (feeds, job) = (self.list_of(feed), Job { feed: feed.clone(), reader: key.reader() });
        if to.is_some() {
            note(&self.runner, &feeds, feed.as_str()).await?;
        }
        let hooks = self.runner.keys.hooks(feed);
        let mut call = self.runner.timed(&scripts::REPORT_HOOK, Some(now));
        reader_keys(&mut call, &self.runner.keys, feed, &job.reader);
        call.key("hooks", &hooks).arg("reader", &job.reader).arg("name", &key.name);
        call.arg("was", was).arg("to", text).arg("gathers", to.map_or(0, |hook| hook.spec.batch_ms));
        call.arg("readers_at_most", READERS_MAX).arg("stamp", random());
        let reply: Result<Vec<u8>, Fault> = self.runner.run(&call).await;
        if reply.as_ref().is_err_and(|fault| fault.kind != FaultKind::Full) {
            // Nobody knows whether it is there now: the feed stays on the list.
            return reply;
        }
        let is_done = reply.as_ref().is_ok_and(|reply| reply == b"done");
        if is_done && to.is_some() {
            // Again: one that went at the same time may have taken the feed off the list.
            note(&self.runner, &feeds, feed.as_str()).await?;
            if !was.is_empty() && to.is_some_and(Hook::is_well) {
                self.attaching.jobs.register(&job, 0, self.runner.clock(Some(now))).await?;
            }
        }
        if is_done && to.is_none() {
            self.attaching.jobs.remove(&job).await?;
        }
        let left: u64 = self.runner.get(&hooks, redis::cmd("HLEN").arg(&hooks)).await?;
        if left == 0 {
            unnote(&self.runner, &feeds, feed.as_str()).await?;
        }
        reply
    }

    async fn swap_of_all(
        &self,
        key: &HookKey,
        was: &str,
        text: &str,
        to: Option<&Hook>,
        now: Millis,
    ) -> Result<Vec<u8>, Fault> {
        let [all, version] = self.runner.keys.hooks_of_all();
        let mut call = self.runner.timed(&scripts::HOOKS_SWAP, Some(now));
        call.keys([("all", all), ("version", version)])
            .arg("name", &key.name)
            .arg("was", was)
            .arg("to", text);
        call.arg("webhooks_of_all_feeds_at_most", HOOKS_OF_ALL_MAX);
        call.arg("wake_channel", self.runner.keys.hooks_wake());
        let reply: Vec<u8> = self.runner.run(&call).await.map_err(Fault::of_an_index)?;
        if reply != b"done" {
            return Ok(reply);
        }
        if let Some(hook) = to {
            self.attaching.learn(&key.name, hook);
        }
        self.attaching.refresh(now).await?;
        if text.is_empty() {
            for feed in self.letter_feeds(&key.name).await? {
                tidied(self.groups.forget(&feed, &key.reader(), now).await);
            }
            for part in self.runner.parts(SharedIndex::Hooks) {
                tidied(self.forget_letters(part, &key.name).await);
                tidied(self.attaching.jobs.remove_all_of(&key.reader(), part).await);
            }
        } else if !was.is_empty() && to.is_some_and(Hook::is_well) {
            self.wake_feeds_of(key, now).await;
        }
        Ok(reply)
    }

    async fn forget_letters(&self, part: Part, hook: &HookId) -> Result<(), Fault> {
        let (letters, (first, behind)) = (self.runner.keys.letter_feeds(part), letters_of(hook));
        let mut range = redis::cmd("ZRANGE");
        range.arg(&letters).arg(first).arg(behind).arg("BYLEX");
        for name in self.runner.get::<Vec<String>>(&letters, &range).await? {
            unnote(&self.runner, &letters, &name).await?;
        }
        Ok(())
    }

    /// A webhook of all feeds may have been disabled, with entries that wait where it did not rest.
    async fn wake_feeds_of(&self, key: &HookKey, now: Millis) {
        for feed in self.attaching.recent() {
            let job = Job { feed, reader: key.reader() };
            // A job of a shard that is away is found when that is back.
            tidied(self.attaching.jobs.register(&job, 0, self.runner.clock(Some(now))).await);
        }
    }

    /// A webhook that does not read a feed though it should, because the store lost that (an eviction), begins
    /// again there. False when it is right that it does not.
    pub async fn read_again(&self, job: &Job, now: Millis) -> Result<bool, Fault> {
        match &job.reader {
            Reader::Group(_) => return Ok(false),
            Reader::HookOfAll(name) => {
                if self.attaching.known(name).is_none() {
                    return Ok(false);
                }
                self.attaching.attach(&job.feed, "again", self.runner.clock(Some(now))).await?;
            }
            Reader::Hook(name) => {
                let key = HookKey { scope: HookScope::Feed(job.feed.clone()), name: name.clone() };
                let Some(hook) = self.hook(&key).await? else { return Ok(false) };
                let was = Some(hook.version);
                self.swap(&key, was, Some(hook), now).await?;
            }
        }
        tracing::warn!(feed = %job.feed, reader = %job.reader, "the store lost how far a webhook was; it begins again");
        Ok(true)
    }
}

/// What a webhook of all feeds leaves on a shard that is away is cleared there when its feeds get to know that it is gone.
fn tidied<T>(done: Result<T, Fault>) {
    if let Err(fault) = done {
        tracing::debug!(why = fault.why, "a shard gets later what it has of webhooks");
    }
}

/// The range of members that [`crate::engine::protocol::keys::Keys::letter_feeds`] has of one webhook: no name holds a blank.
fn letters_of(hook: &HookId) -> (String, String) {
    (format!("[{hook} "), format!("({hook}!"))
}

/// The webhooks of one scope, as HGETALL answers.
pub(super) fn read_hooks(scope: &HookScope, reply: redis::Value) -> Result<Vec<(HookKey, Hook)>, Fault> {
    let texts: HashMap<String, String> = redis::from_redis_value(reply).map_err(|_| Corrupt("webhooks"))?;
    let read = |(name, text): (&String, &String)| {
        let name = name.parse().map_err(|_| Corrupt("a webhook's name"))?;
        Ok((HookKey { scope: scope.clone(), name }, read_hook(text)?))
    };
    texts.iter().map(read).collect()
}
