//! Groups that pull, and dead letters.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::domain::answer::GiftFate;
use crate::domain::delivery::Progress;
use crate::domain::ledger::LedgerPart;
use crate::domain::pull::Seek;
use crate::domain::story::{EntryState, GiftMemory};
use crate::domain::{
    Answer, Ask, Cursor, DeadLetter, FeedId, GiftId, GroupId, GroupView, Handed, Job, Millis, Reader, Replay,
    Start, Status, Taken,
};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::Shared;
use crate::engine::protocol::records::WaitingGift;
use crate::engine::protocol::scripts::{self, Call, Script};
use crate::engine::protocol::wire::{self, Corrupt, GiftMark};
use crate::engine::store::reports::index::JobIndex;
use crate::engine::store::reports::stored::{entry, padded, reader_keys};
use crate::engine::store::review::reviews;
use crate::engine::store::runner::{Runner, needed, number};
use crate::engine::{MAX_LISTED, READERS_MAX};

/// Dead letters that one call of the script sends again, where all are to be.
const REPLAYED: u64 = 1_000;

/// Dead letters read in one trip.
const DEAD_LETTERS_PER_TRIP: usize = 500;

fn name_of_group(feed: &FeedId, group: &GroupId) -> String {
    format!("{feed} {group}")
}

/// The groups that read ledgers.
pub struct Groups {
    pub runner: Arc<Runner>,
    pub jobs: Arc<JobIndex>,
}

/// Puts a name into a list of names.
pub async fn note(runner: &Runner, key: &str, name: &str) -> Result<(), Fault> {
    let _: u64 = runner.get(key, redis::cmd("ZADD").arg(key).arg(0).arg(name)).await?;
    Ok(())
}

/// Takes it out again.
pub async fn unnote(runner: &Runner, key: &str, name: &str) -> Result<(), Fault> {
    let _: u64 = runner.get(key, redis::cmd("ZREM").arg(key).arg(name)).await?;
    Ok(())
}

/// Reads the first names in such a list.
pub fn noted(list: String) -> (String, redis::Cmd) {
    let mut range = redis::cmd("ZRANGE");
    range.arg(&list).arg(0).arg(MAX_LISTED - 1);
    (list, range)
}

/// The names in lists that are on several shards, each read by its command. Those of a shard that is away are left out.
pub async fn noted_everywhere(
    runner: &Runner,
    lists: impl Iterator<Item = (String, redis::Cmd)>,
) -> Result<Vec<String>, Fault> {
    let (mut all, mut fault, mut any) = (Vec::new(), None, false);
    let reads = lists.map(async |(list, command)| runner.get::<Vec<String>>(&list, &command).await);
    for names in join_all(reads).await {
        match names.map_err(Fault::of_an_index) {
            Ok(names) => {
                any = true;
                all.extend(names);
            }
            Err(why) => fault = Some(why),
        }
    }
    match fault {
        Some(fault) if !any => Err(fault),
        Some(fault) => {
            tracing::warn!(
                why = fault.why,
                "groups or webhooks are listed without those of a shard that is away"
            );
            Ok(all)
        }
        None => Ok(all),
    }
}

impl Groups {
    /// A call of a script about a reader.
    fn call(&self, script: &'static Script, feed: &FeedId, reader: &Reader, now: Millis) -> Call {
        let mut call = self.runner.timed(script, Some(now));
        reader_keys(&mut call, &self.runner.keys, feed, reader);
        call.arg("reader", reader);
        call
    }

    /// The list that has the feed's groups.
    fn list_of(&self, feed: &FeedId) -> String {
        self.runner.keys.groups(self.runner.part_of(Shared::Groups, feed))
    }

    pub async fn take(
        &self,
        feed: &FeedId,
        group: &GroupId,
        ask: Ask,
        now: Millis,
    ) -> Result<Option<Taken>, Fault> {
        let reader = Reader::Group(group.clone());
        let mut reply = self.try_take(feed, &reader, ask, now, false).await?;
        if reply.first().is_some_and(|what| what == b"new") {
            // Listed before it is there: one that is listed and is not does no harm.
            note(&self.runner, &self.list_of(feed), &name_of_group(feed, group)).await?;
            reply = self.try_take(feed, &reader, ask, now, true).await?;
        }
        if reply.first().is_none_or(|what| what != b"ok") {
            self.unnote_unless_there(feed, group).await?;
            return Ok(None);
        }
        self.runner.entries_lost(feed, number(reply.get(2)).unwrap_or(0));
        let handed = reply.get(3..).unwrap_or_default().chunks_exact(3).map(|one| {
            let (cursor, attempt) = (needed(Some(&one[0]))?, needed(Some(&one[1]))?);
            Ok(Handed { entry: entry(cursor, &one[2])?, attempt })
        });
        let entries = handed.collect::<Result<Vec<_>, Corrupt>>()?;
        Ok(Some(Taken { entries, next_in_ms: number(reply.get(1)) }))
    }

    async fn try_take(
        &self,
        feed: &FeedId,
        reader: &Reader,
        ask: Ask,
        now: Millis,
        listed: bool,
    ) -> Result<Vec<Vec<u8>>, Fault> {
        let limits = &self.runner.options.reports;
        let mut call = self.call(&scripts::REPORT_TAKE, feed, reader, now);
        call.arg("entries_at_most", ask.max.max(1)).arg("lease", ask.lease_ms);
        call.arg("from", if ask.from == Start::Now { "now" } else { "start" });
        call.arg("ledger_max", limits.ledger_max).arg("attempts", limits.max_attempts);
        call.arg("dead_letters", limits.dead_max).arg("readers_at_most", READERS_MAX);
        call.arg("listed", if listed { "listed" } else { "" });
        if listed {
            call.bounded();
        }
        self.runner.run(&call).await
    }

    /// A group that could not be made, or that somebody else may have made meanwhile.
    async fn unnote_unless_there(&self, feed: &FeedId, group: &GroupId) -> Result<(), Fault> {
        let [_, _, readers] = self.runner.keys.ledger(feed);
        let reader = Reader::Group(group.clone()).to_string();
        let there: u64 = self.runner.get(&readers, redis::cmd("HEXISTS").arg(&readers).arg(reader)).await?;
        match there {
            0 => unnote(&self.runner, &self.list_of(feed), &name_of_group(feed, group)).await,
            _ => Ok(()),
        }
    }

    /// Runs a script about these cursors. Returns how many it changed, or `None` if there is no such reader.
    async fn about(&self, feed: &FeedId, mut call: Call, cursors: &[Cursor]) -> Result<Option<u64>, Fault> {
        for cursor in cursors {
            call.item([], [("number", padded(cursor))]);
        }
        let text: String = self.runner.run(&call).await?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| Corrupt("a reply"));
        match text.split_once(' ') {
            None if text.is_empty() => Ok(None),
            None => Ok(Some(number(&text)?)),
            Some((count, lost)) => {
                self.runner.entries_lost(feed, number(lost)?);
                Ok(Some(number(count)?))
            }
        }
    }

    pub async fn settle(
        &self,
        feed: &FeedId,
        group: &GroupId,
        how: &str,
        cursors: &[Cursor],
        now: Millis,
    ) -> Result<Option<u64>, Fault> {
        let mut call = self.call(&scripts::REPORT_SETTLE, feed, &Reader::Group(group.clone()), now);
        call.arg("how", how).arg("live_channel", self.runner.keys.live(feed));
        let limits = &self.runner.options.reports;
        call.arg("attempts", limits.max_attempts).arg("dead_letters", limits.dead_max);
        self.about(feed, call, cursors).await
    }

    pub async fn seek(
        &self,
        feed: &FeedId,
        group: &GroupId,
        to: Seek,
        now: Millis,
    ) -> Result<Option<Cursor>, Fault> {
        let mut call = self.call(&scripts::REPORT_SEEK, feed, &Reader::Group(group.clone()), now);
        call.arg("live_channel", self.runner.keys.live(feed));
        match to {
            Seek::Start => call.arg("to", "start"),
            Seek::Now => call.arg("to", "now"),
            Seek::To(cursor) => call.arg("to", cursor),
            Seek::At(at) => call.arg("to", format_args!("@{}", at.0)),
        };
        let text: String = self.runner.run(&call).await?;
        match text.as_str() {
            "" => Ok(None),
            number => Ok(Some(number.parse().map_err(|_| Corrupt("a reply"))?)),
        }
    }

    pub async fn view(
        &self,
        feed: &FeedId,
        group: &GroupId,
        now: Millis,
    ) -> Result<Option<GroupView>, Fault> {
        let mut call = self.call(&scripts::REPORT_VIEW, feed, &Reader::Group(group.clone()), now);
        call.for_a_reader();
        let reply: Vec<Vec<u8>> = self.runner.run(&call).await?;
        let numbers: Option<Vec<u64>> = reply.iter().map(|text| number(Some(text))).collect();
        match numbers.as_deref() {
            Some([]) => Ok(None),
            Some(&[lag, pending, oldest_ms, dead, lost]) => {
                Ok(Some(GroupView { lag, pending, oldest_ms, dead, lost }))
            }
            _ => Err(Corrupt("how a group stands").into()),
        }
    }

    /// Entries from this number on.
    pub async fn read(
        &self,
        feed: &FeedId,
        from: Cursor,
        max: usize,
        now: Millis,
    ) -> Result<LedgerPart, Fault> {
        let [ledger, reports, readers] = self.runner.keys.ledger(feed);
        let mut call = self.runner.timed(&scripts::REPORT_READ, Some(now));
        call.keys([("ledger", ledger), ("reports", reports), ("readers", readers)]);
        call.arg("number", from).arg("entries_at_most", max).for_a_reader();
        let reply: Vec<Vec<u8>> = self.runner.run(&call).await?;
        let (behind, first): (u64, u64) = (needed(reply.first())?, needed(reply.get(1))?);
        let entries = reply.iter().skip(2).zip(first..).map(|(text, number)| entry(number, text));
        Ok(LedgerPart { entries: entries.collect::<Result<_, _>>()?, behind: Cursor(behind) })
    }

    /// What is remembered of a gift; `window` is the feed's idempotency window.
    pub async fn gift(
        &self,
        feed: &FeedId,
        id: &GiftId,
        window: u64,
        now: Millis,
    ) -> Result<Option<GiftMemory>, Fault> {
        let (runner, keys) = (&self.runner, &self.runner.keys);
        let key = keys.id(feed, id);
        let texts: Vec<Option<String>> = runner.get(&key, redis::cmd("MGET").arg(&key)).await?;
        let text = texts.into_iter().next().flatten().unwrap_or_default();
        let at = runner.store_time(&key, now).await?;
        let steady = runner.steady(at);
        let Some(known) = wire::gift_mark(&text, id, (at, steady), window)? else { return Ok(None) };
        let GiftMark { fate, since, mut is_retracted, refunded, entry } = known;
        let waits_in = match &fate {
            GiftFate::Waits(_) => Some(keys.due(feed)[1].clone()),
            GiftFate::InReview { .. } => Some(keys.reviews(feed)),
            _ => None,
        };
        let mut waiting = None;
        if let Some(key) = waits_in {
            let held: Option<String> =
                runner.get(&key, redis::cmd("HGET").arg(&key).arg(id.as_str())).await?;
            // Its first line is its place in the due queue; in review a note is in front of the gift.
            let text = held.as_deref().and_then(|text| text.split_once('\n')).map(|(_, text)| text);
            waiting = match fate {
                GiftFate::Waits(_) => text.and_then(WaitingGift::read).map(|it| it.gift.into_owned()),
                _ => text.and_then(reviews::read).map(|(_, gift)| gift),
            };
        }
        if let GiftFate::Taken(Answer { row: Some(row), status: Status::Accepted | Status::Merged, .. }) =
            &fate
        {
            let key = keys.retracted(feed);
            let known: Option<f64> =
                runner.get(&key, redis::cmd("ZSCORE").arg(&key).arg(row.as_str())).await?;
            is_retracted |= known.is_some_and(|until| steady.0 < until as i64);
        }
        Ok(Some(GiftMemory { fate, is_retracted, refunded, at: since, waiting, first: entry.map(Cursor) }))
    }

    /// What a reader has done with an entry.
    pub async fn entry_state(
        &self,
        feed: &FeedId,
        reader: &Reader,
        cursor: Cursor,
        now: Millis,
    ) -> Result<Option<EntryState>, Fault> {
        let mut call = self.call(&scripts::REPORT_ENTRY, feed, reader, now);
        call.arg("number", padded(&cursor)).for_a_reader();
        let reply: Vec<Vec<u8>> = self.runner.run(&call).await?;
        let words: Option<Vec<&str>> = reply.iter().map(|text| std::str::from_utf8(text).ok()).collect();
        let garbled = || Fault::from(Corrupt("what became of an entry"));
        Ok(match words.as_deref().ok_or_else(garbled)? {
            [] => None,
            ["dead", attempts, reason] => Some(EntryState::Dead {
                attempts: attempts.parse().map_err(|_| garbled())?,
                reason: (*reason).to_owned(),
            }),
            ["pending", attempts] => Some(EntryState::Pending(attempts.parse().map_err(|_| garbled())?)),
            ["acknowledged"] => Some(EntryState::Acknowledged),
            ["lost"] => Some(EntryState::Lost),
            ["waiting", place, progress] => {
                let place: usize = place.parse().map_err(|_| garbled())?;
                let tries = Progress::read(progress).tries_of(cursor, place.checked_sub(1));
                Some(tries.map_or(EntryState::Waiting, EntryState::Pending))
            }
            _ => return Err(garbled()),
        })
    }

    /// Forgets a reader with all it has; false when it did not read there.
    pub async fn forget(&self, feed: &FeedId, reader: &Reader, now: Millis) -> Result<bool, Fault> {
        let was: u64 = self.runner.run(&self.call(&scripts::REPORT_FORGET, feed, reader, now)).await?;
        Ok(was == 1)
    }

    pub async fn delete_group(&self, feed: &FeedId, group: &GroupId) -> Result<bool, Fault> {
        let was = self.forget(feed, &Reader::Group(group.clone()), Millis(0)).await?;
        self.unnote_unless_there(feed, group).await?;
        Ok(was)
    }

    pub async fn readers(&self, feed: Option<&FeedId>) -> Result<Vec<(FeedId, Reader)>, Fault> {
        let mut readers = match feed {
            None => {
                let keys = &self.runner.keys;
                let lists =
                    self.runner.parts(Shared::Groups).into_iter().map(|part| noted(keys.groups(part)));
                let read = |text: &String| {
                    let (feed, group) = text.split_once(' ')?;
                    Some((feed.parse().ok()?, Reader::Group(group.parse().ok()?)))
                };
                let names = noted_everywhere(&self.runner, lists).await?;
                let read = |name: &String| {
                    read(name).ok_or_else(|| Fault::from(Corrupt("a group's name")).of_an_index())
                };
                names.iter().map(read).collect::<Result<Vec<_>, Fault>>()?
            }
            Some(feed) => {
                let [_, _, readers] = self.runner.keys.ledger(feed);
                let names: Vec<String> = self.runner.get(&readers, redis::cmd("HKEYS").arg(&readers)).await?;
                let own = names
                    .iter()
                    .map(|name| Ok((feed.clone(), name.parse().map_err(|_| Corrupt("a reader's name"))?)));
                own.collect::<Result<Vec<_>, Corrupt>>()?
            }
        };
        readers.sort_by_cached_key(|(feed, reader)| (feed.clone(), reader.to_string()));
        readers.truncate(MAX_LISTED);
        Ok(readers)
    }

    pub async fn letters(
        &self,
        feed: &FeedId,
        reader: &Reader,
        skip: usize,
        max: usize,
    ) -> Result<Vec<DeadLetter>, Fault> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let [dead, deaths] = ["dead", "deaths"].map(|what| self.runner.keys.of_reader(feed, what, reader));
        let members: Vec<String> =
            self.runner.get(&deaths, redis::cmd("ZRANGE").arg(&deaths).arg(skip).arg(skip + max - 1)).await?;
        let mut letters = Vec::with_capacity(members.len());
        for part in members.chunks(DEAD_LETTERS_PER_TRIP) {
            let texts: Vec<Option<Vec<u8>>> =
                self.runner.get(&dead, redis::cmd("HMGET").arg(&dead).arg(part)).await?;
            for (member, text) in part.iter().zip(texts) {
                // One that has gone meanwhile was sent again, or made room.
                let Some(text) = text else { continue };
                letters.push(letter(member, &text).ok_or(Corrupt("a dead letter"))?);
            }
        }
        Ok(letters)
    }

    pub async fn replay(
        &self,
        feed: &FeedId,
        reader: &Reader,
        which: &Replay,
        now: Millis,
    ) -> Result<u64, Fault> {
        let (which, cursors) = match which {
            Replay::All => ("all", &[][..]),
            Replay::Only(cursors) => ("only", cursors.as_slice()),
        };
        let job = Job { feed: feed.clone(), reader: reader.clone() };
        let (is_hook, clock) = (!matches!(reader, Reader::Group(_)), self.runner.clock(Some(now)));
        // Before as well as after: a look between the two would find nothing, and a node that dies between them
        // would leave it to the feed's next entry. What is registered stays in the index for some seconds.
        if is_hook {
            self.jobs.register(&job, 0, clock).await?;
        }
        let mut moved = 0;
        loop {
            let mut call = self.call(&scripts::REPORT_REPLAY, feed, reader, now);
            call.arg("live_channel", self.runner.keys.live(feed)).arg("which", which);
            let step = self.about(feed, call, cursors).await?.unwrap_or(0);
            moved += step;
            if which == "only" || step < REPLAYED {
                break;
            }
        }
        if moved > 0 && is_hook {
            self.jobs.register(&job, 0, clock).await?;
        }
        Ok(moved)
    }
}

/// "DIED_AT ATTEMPTS REASON", and the entry.
fn letter(member: &str, text: &[u8]) -> Option<DeadLetter> {
    let text = std::str::from_utf8(text).ok()?;
    let (head, text) = text.split_once('\n')?;
    let mut head = head.splitn(3, ' ');
    let (died_at, attempts) = (Millis(head.next()?.parse().ok()?), head.next()?.parse().ok()?);
    let reason = head.next()?.to_owned();
    let entry = entry(member.parse().ok()?, text.as_bytes()).ok()?;
    Some(DeadLetter { died_at, reason, attempts, entry })
}
