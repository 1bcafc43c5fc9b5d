//! Groups that pull, and dead letters.

use super::super::EngineError;
use super::super::due::number;
use super::super::scripts::{self, Script};
use super::super::store::Store;
use super::super::wire::Garbled;
use super::entry;
use crate::domain::{
    Ask, Cursor, DeadLetter, FeedId, GroupId, GroupView, Handed, Job, Millis, Reader, Replay, Start, Taken,
};
use crate::engine::{LISTED, READERS_MAX};

/// Dead letters read in one trip.
const LETTERS: usize = 500;

/// A number as members and fields have it.
pub(super) fn padded(cursor: &Cursor) -> String {
    format!("{:016}", cursor.0)
}

fn name_of_group(feed: &FeedId, group: &GroupId) -> String {
    format!("{feed} {group}")
}

impl Store {
    pub(super) async fn take(
        &self,
        feed: &FeedId,
        group: &GroupId,
        ask: Ask,
        now: Millis,
    ) -> Result<Option<Taken>, EngineError> {
        let reader = Reader::Group(group.clone());
        let mut reply = self.try_take(feed, &reader, ask, now, false).await?;
        if reply.first().is_some_and(|what| what == b"new") {
            // Listed before it is there: one that is listed and is not does no harm.
            self.note(&self.keys.groups(), &name_of_group(feed, group)).await?;
            reply = self.try_take(feed, &reader, ask, now, true).await?;
        }
        if reply.first().is_none_or(|what| what != b"ok") {
            self.unnote_unless_there(feed, group).await?;
            return Ok(None);
        }
        let handed = reply.get(2..).unwrap_or_default().chunks_exact(3).map(|one| {
            let (cursor, attempt) = (number(Some(&one[0]))?, number(Some(&one[1]))?);
            Some(Handed { entry: entry(feed, cursor, &one[2])?, attempt })
        });
        let entries = handed.collect::<Option<Vec<_>>>().ok_or(Garbled("an entry of a ledger"))?;
        Ok(Some(Taken { entries, next_in_ms: number(reply.get(1)) }))
    }

    async fn try_take(
        &self,
        feed: &FeedId,
        reader: &Reader,
        ask: Ask,
        now: Millis,
        listed: bool,
    ) -> Result<Vec<Vec<u8>>, EngineError> {
        let limits = &self.options.reports;
        let mut cmd = self.timed(&scripts::REPORT_TAKE, &self.keys.reader(feed, reader), Some(now));
        cmd.arg(reader.to_string()).arg(ask.max.max(1)).arg(ask.lease_ms);
        cmd.arg(if ask.from == Start::Now { "now" } else { "start" }).arg(limits.ledger_max);
        cmd.arg(limits.max_attempts).arg(limits.dead_max).arg(READERS_MAX);
        cmd.arg(if listed { "listed" } else { "" });
        Ok(self.ask(&scripts::REPORT_TAKE, &cmd, 0).await?)
    }

    /// A group that could not be made, or that somebody else may have made meanwhile.
    async fn unnote_unless_there(&self, feed: &FeedId, group: &GroupId) -> Result<(), EngineError> {
        let [_, _, readers] = self.keys.ledger(feed);
        let reader = Reader::Group(group.clone()).to_string();
        let there: u64 = self.get(redis::cmd("HEXISTS").arg(readers).arg(reader)).await?;
        match there {
            0 => self.unnote(&self.keys.groups(), &name_of_group(feed, group)).await,
            _ => Ok(()),
        }
    }

    async fn about_cursors<'a>(
        &self,
        script: &Script,
        feed: &FeedId,
        reader: &Reader,
        args: [&str; 2],
        cursors: impl Iterator<Item = &'a Cursor>,
        now: Millis,
    ) -> Result<Option<u64>, EngineError> {
        let mut cmd = self.timed(script, &self.keys.reader(feed, reader), Some(now));
        cmd.arg(reader.to_string()).arg(&args);
        let mut many = 0;
        for cursor in cursors {
            cmd.arg(padded(cursor));
            many += 1;
        }
        script.check(&cmd, many);
        let value = self.lane().script(script, &cmd, self.options.call_timeout).await?;
        let text: String = redis::from_redis_value(value).map_err(|_| Garbled("a reply"))?;
        Ok(text.parse().ok())
    }

    pub(super) async fn settle(
        &self,
        feed: &FeedId,
        group: &GroupId,
        how: &str,
        cursors: &[Cursor],
        now: Millis,
    ) -> Result<Option<u64>, EngineError> {
        let (reader, live) = (Reader::Group(group.clone()), self.keys.live(feed));
        let script = &scripts::REPORT_SETTLE;
        self.about_cursors(script, feed, &reader, [how, &live], cursors.iter(), now).await
    }

    pub(super) async fn view(
        &self,
        feed: &FeedId,
        group: &GroupId,
        now: Millis,
    ) -> Result<Option<GroupView>, EngineError> {
        let reader = Reader::Group(group.clone());
        let mut cmd = self.timed(&scripts::REPORT_VIEW, &self.keys.reader(feed, &reader), Some(now));
        cmd.arg(reader.to_string());
        let reply = self.ask(&scripts::REPORT_VIEW, &cmd, 0).await?;
        let numbers: Option<Vec<u64>> = reply.iter().map(|text| number(Some(text))).collect();
        match numbers.as_deref() {
            Some([]) => Ok(None),
            Some(&[lag, pending, oldest_ms, dead, lost]) => {
                Ok(Some(GroupView { lag, pending, oldest_ms, dead, lost }))
            }
            _ => Err(Garbled("how a group stands").into()),
        }
    }

    pub(super) async fn delete_group(&self, feed: &FeedId, group: &GroupId) -> Result<bool, EngineError> {
        let was = self.forget(feed, &Reader::Group(group.clone()), Millis(0)).await?;
        self.unnote_unless_there(feed, group).await?;
        Ok(was)
    }

    pub(super) async fn readers(&self, feed: Option<&FeedId>) -> Result<Vec<(FeedId, Reader)>, EngineError> {
        let mut readers = match feed {
            None => {
                let read = |text: &String| {
                    let (feed, group) = text.split_once(' ')?;
                    Some((feed.parse().ok()?, Reader::Group(group.parse().ok()?)))
                };
                self.noted(&self.keys.groups()).await?.iter().filter_map(read).collect()
            }
            Some(feed) => {
                let [_, _, readers] = self.keys.ledger(feed);
                let names: Vec<String> = self.get(redis::cmd("HKEYS").arg(readers)).await?;
                let own = names.iter().filter_map(|name| name.parse().ok());
                own.map(|reader| (feed.clone(), reader)).collect::<Vec<_>>()
            }
        };
        readers.sort_by_cached_key(|(feed, reader)| (feed.clone(), reader.to_string()));
        readers.truncate(LISTED);
        Ok(readers)
    }

    pub(super) async fn letters(
        &self,
        feed: &FeedId,
        reader: &Reader,
    ) -> Result<Vec<DeadLetter>, EngineError> {
        let keys = self.keys.reader(feed, reader);
        let (dead, deaths) = (&keys[7], &keys[8]);
        let members: Vec<String> = self.get(redis::cmd("ZRANGE").arg(deaths).arg(0).arg(-1)).await?;
        let mut letters = Vec::with_capacity(members.len());
        for part in members.chunks(LETTERS) {
            let texts: Vec<Option<Vec<u8>>> = self.get(redis::cmd("HMGET").arg(dead).arg(part)).await?;
            for (member, text) in part.iter().zip(texts) {
                // One that has gone meanwhile was sent again, or made room.
                let Some(text) = text else { continue };
                letters.push(letter(feed, member, &text).ok_or(Garbled("a dead letter"))?);
            }
        }
        Ok(letters)
    }

    pub(super) async fn replay(
        &self,
        feed: &FeedId,
        reader: &Reader,
        which: &Replay,
        now: Millis,
    ) -> Result<u64, EngineError> {
        let live = self.keys.live(feed);
        let (how, cursors) = match which {
            Replay::All => ("all", &[][..]),
            Replay::Only(cursors) => ("only", cursors.as_slice()),
        };
        let job = Job { feed: feed.clone(), reader: reader.clone() };
        let is_hook = !matches!(reader, Reader::Group(_));
        // Before as well as after: a look between the two would find nothing, and a node that dies between them
        // would leave it to the feed's next entry. What is registered stays in the index for some seconds.
        if is_hook {
            self.register_job(&job, 0, self.clock(Some(now))).await?;
        }
        let script = &scripts::REPORT_REPLAY;
        let moved = self.about_cursors(script, feed, reader, [&live, how], cursors.iter(), now).await?;
        let moved = moved.unwrap_or(0);
        if moved > 0 && is_hook {
            self.register_job(&job, 0, self.clock(Some(now))).await?;
        }
        Ok(moved)
    }
}

/// "DIED_AT ATTEMPTS REASON", and the entry.
fn letter(feed: &FeedId, member: &str, text: &[u8]) -> Option<DeadLetter> {
    let text = std::str::from_utf8(text).ok()?;
    let (head, text) = text.split_once('\n')?;
    let mut head = head.splitn(3, ' ');
    let (died_at, attempts) = (Millis(head.next()?.parse().ok()?), head.next()?.parse().ok()?);
    let reason = head.next()?.to_owned();
    let entry = entry(feed, member.parse().ok()?, text.as_bytes())?;
    Some(DeadLetter { died_at, reason, attempts, entry })
}
