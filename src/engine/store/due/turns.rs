//! An index of what waits for a turn, in parts: of feeds with something due, and of webhooks with something to send
//! (`lua/due/register.lua`, `lua/due/turns.lua`). In a cluster each shard has a part, so an index is away only for feeds that
//! are away themselves. A part that does not answer is left out, and turns that were to be given back there end by themselves.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use tokio::sync::broadcast;

use crate::domain::{FeedId, Millis};
use crate::engine::Wakes;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::keys::{PARTS_MAX, Part, SharedIndex};
use crate::engine::protocol::scripts;
use crate::engine::protocol::slots::slot_of_key;
use crate::engine::protocol::tags::random;
use crate::engine::protocol::topics::Topics;
use crate::engine::store::runner::{Runner, needed, number};

/// Members of a part that are moved in one trip.
const MEMBERS_PER_TRIP: usize = 256;

/// One of the two indexes.
pub(crate) struct TurnIndex {
    pub runner: Arc<Runner>,
    what: SharedIndex,
    topics: Arc<Topics>,
    /// Sends the milliseconds until an owner is due that was registered here.
    pub wakes: broadcast::Sender<u64>,
    /// Parts whose channel is listened to.
    listened: Mutex<HashSet<Part>>,
    /// Counts looks, so that parts take turns in being the first.
    round: AtomicUsize,
}

/// What identifies a member of an index.
#[derive(Clone, Copy)]
pub(crate) struct TurnMember<'a> {
    pub feed: &'a FeedId,
    /// As the index has it.
    pub name: &'a str,
}

/// Where the walk through an index is: which of its parts, and the cursor in it.
pub(crate) type PagePlace = (usize, u64);

/// A turn that is given back.
pub(crate) struct Over {
    pub feed: FeedId,
    pub member: String,
    /// As [`ClaimedTurn`] had it.
    pub token: String,
    /// When the member is to be looked at again: a time, or "+" and milliseconds from now; "" for never.
    pub next: String,
}

/// A turn that was taken.
pub(crate) struct ClaimedTurn<T> {
    pub member: T,
    /// Gives it back.
    pub token: String,
    /// True when somebody else had it and did not give it back in time.
    pub reclaimed: bool,
}

/// A turn that is given back in one part.
struct Return<'a> {
    member: &'a str,
    mark: &'a str,
    next: &'a str,
}

/// What a look into the index found.
pub(crate) struct Turns<T> {
    pub taken: Vec<ClaimedTurn<T>>,
    /// In how many milliseconds the next turn comes.
    pub next_in_ms: Option<u64>,
    /// Members of the index.
    pub waiting: u64,
}

/// How turns are taken.
pub(crate) struct Claim<T> {
    /// Turns at most.
    pub max: usize,
    /// How long they last.
    pub turn_ms: u64,
    /// Reads a member; what cannot be read is taken out of the index.
    pub read: fn(&[u8]) -> Option<T>,
    pub now: Millis,
}

impl TurnIndex {
    pub(crate) fn new(
        runner: Arc<Runner>,
        what: SharedIndex,
        topics: Arc<Topics>,
        wakes: broadcast::Sender<u64>,
    ) -> TurnIndex {
        let (listened, round) = (Mutex::default(), AtomicUsize::new(0));
        let index = TurnIndex { runner, what, topics, wakes, listened, round };
        index.listen();
        index
    }

    /// Listens to the channels of all parts that there are now. Those of parts that were stay: there are few.
    pub(crate) fn listen(&self) {
        let mut listened = self.listened.lock().unwrap_or_else(PoisonError::into_inner);
        for part in self.runner.parts(self.what) {
            if !listened.insert(part) {
                continue;
            }
            let channel = self.runner.keys.wake(self.what, part);
            let slot = slot_of_key(&channel);
            self.topics.want_wakes(channel.clone(), self.wakes.clone());
            // Without a connection now it is asked for with the next one.
            let _ = self.runner.backend.listen(slot, &channel);
        }
    }

    /// The keys of a part.
    pub(crate) fn keys(&self, part: Part) -> [String; 2] {
        self.runner.keys.index(self.what, part)
    }

    /// Puts a member into the index, to be looked at at `at` or `in_ms` milliseconds from now, whichever is earlier.
    /// Since when it is there.
    pub(crate) async fn register(
        &self,
        TurnMember { feed, name }: TurnMember<'_>,
        at: Option<Millis>,
        in_ms: Option<u64>,
        now: Option<Millis>,
    ) -> Result<Millis, Fault> {
        let part = self.runner.part_of(self.what, feed);
        let [members, marks] = self.keys(part);
        let mut mark = random().to_string();
        if self.what == SharedIndex::Due {
            // Who registers a feed adds to its queue within a time that begins here.
            mark.push('@');
        }
        let mut call = self.runner.timed(&scripts::DUE_REGISTER, now);
        call.keys([("feeds", members), ("marks", marks)]);
        call.arg("at", at.map(|at| at.0.to_string()).unwrap_or_default());
        call.arg("within", in_ms.map(|ms| ms.to_string()).unwrap_or_default());
        call.arg("feed", name).arg("mark", mark);
        call.arg("wake_channel", self.runner.keys.wake(self.what, part));
        let reply: Vec<Vec<u8>> = self.runner.run(&call).await.map_err(Fault::of_an_index)?;
        if let Some(in_ms) = number(reply.get(1)) {
            // Nobody waiting for it is no failure.
            let _ = self.wakes.send(in_ms);
        }
        needed(reply.first()).map(Millis).map_err(|garbled| Fault::from(garbled).of_an_index())
    }

    /// Gives turns back and takes new ones, from every part its share, and what is left from those that have more.
    pub(crate) async fn claim<T>(&self, over: &[Over], how: Claim<T>) -> Result<Turns<T>, Fault> {
        let own = self.runner.parts(self.what);
        if own.is_empty() {
            return Err(self.runner.backend.why_empty());
        }
        let round = self.round.fetch_add(1, Ordering::Relaxed);
        let mut looks: Vec<(Part, Vec<Return<'_>>, usize)> = own
            .iter()
            .zip(shares(how.max, own.len(), round))
            .map(|(part, share)| (*part, Vec::new(), share))
            .collect();
        for over in over {
            let Some((part, mark)) = part_of_token(&over.token) else { continue };
            let back = self.hand_over(over, mark, part, how.now).await;
            match looks.iter_mut().find(|(it, ..)| *it == part) {
                Some((_, all, _)) => all.push(back),
                None => looks.push((part, vec![back], 0)),
            }
        }
        let looks =
            looks.iter().map(async |(part, over, most)| (*part, self.look(*part, over, *most, &how).await));
        let mut turns = Turns { taken: Vec::new(), next_in_ms: None, waiting: 0 };
        let (mut fault, mut any, mut more) = (None, false, Vec::new());
        for (part, look) in join_all(looks).await {
            match look {
                Ok(look) => {
                    any = true;
                    if look.next_in_ms == Some(0) && own.contains(&part) {
                        more.push(part);
                    }
                    turns.next_in_ms = [turns.next_in_ms, look.next_in_ms].into_iter().flatten().min();
                    turns.waiting += look.waiting;
                    turns.taken.extend(look.taken);
                }
                Err(why) => fault = Some(why),
            }
        }
        // A part may have more than its share, while others have nothing. Each round asks another of them first, or
        // a crowded one would always come before those behind it.
        let first = round % more.len().max(1);
        more.rotate_left(first);
        for part in more {
            let rest = how.max.saturating_sub(turns.taken.len());
            if rest > 0
                && let Ok(look) = self.look(part, &[], rest, &how).await
            {
                turns.taken.extend(look.taken);
            }
        }
        match fault {
            Some(fault) if !any => return Err(fault),
            Some(fault) => {
                tracing::debug!(why = fault.why, index = ?self.what, "parts of an index were left out")
            }
            None => {}
        }
        if turns.taken.is_empty() && how.max > 0 {
            turns.taken = self.take_strays(&how).await;
        }
        Ok(turns)
    }

    /// Nodes on one server may be configured with more parts than this one, or were once. What they left is looked for
    /// when there is nothing else to do.
    async fn take_strays<T>(&self, how: &Claim<T>) -> Vec<ClaimedTurn<T>> {
        let own = self.runner.keys.named_parts(self.what).filter(|_| self.what == SharedIndex::Due);
        let strays: Vec<Part> = (own.unwrap_or(PARTS_MAX)..PARTS_MAX).map(Part::Named).collect();
        let keys: Vec<String> = strays.iter().map(|part| self.keys(*part)[0].clone()).collect();
        let Some(first) = keys.first() else { return Vec::new() };
        if self.runner.get::<u64>(first, redis::cmd("EXISTS").arg(&keys)).await.unwrap_or(0) == 0 {
            return Vec::new();
        }
        for part in strays {
            match self.look(part, &[], how.max, how).await {
                Ok(look) if !look.taken.is_empty() => return look.taken,
                _ => {}
            }
        }
        Vec::new()
    }

    /// What is to be said where a turn was taken. Where the member no longer belongs there, it is registered where it does
    /// first, if it goes on.
    async fn hand_over<'a>(&self, over: &'a Over, mark: &'a str, part: Part, now: Millis) -> Return<'a> {
        let stays = Return { member: &over.member, mark, next: &over.next };
        let is_at_home = || self.runner.part_of(self.what, &over.feed) == part;
        if matches!(part, Part::Named(_)) || over.next.is_empty() || is_at_home() {
            return stays;
        }
        let (at, in_ms) = match over.next.strip_prefix('+') {
            Some(ms) => (None, ms.parse().ok()),
            None => (over.next.parse().ok().map(Millis), None),
        };
        let member = TurnMember { feed: &over.feed, name: &over.member };
        match self.register(member, at, in_ms, self.runner.clock(Some(now))).await {
            Ok(_) => Return { next: "", ..stays },
            Err(_) => stays,
        }
    }

    /// Moves what does not belong into a part to where it does, but for members whose turn somebody has: they move when
    /// it is given back, or the next time. To move a member twice does no harm.
    pub(crate) async fn move_part<T>(
        &self,
        part: Part,
        read: fn(&[u8]) -> Option<T>,
        feed_of: fn(&T) -> &FeedId,
        now: Millis,
    ) -> Result<(), Fault> {
        let [members, marks] = self.keys(part);
        let (mut stay, mut before) = (0, None);
        loop {
            let mut range = redis::cmd("ZRANGE");
            range.arg(&members).arg(stay).arg(stay + MEMBERS_PER_TRIP - 1).arg("WITHSCORES");
            let found: Vec<(Vec<u8>, f64)> = self.runner.get(&members, &range).await?;
            if found.is_empty() {
                return Ok(());
            }
            let mut ask = redis::cmd("HMGET");
            ask.arg(&marks).arg(found.iter().map(|(name, _)| name).collect::<Vec<_>>());
            let known: Vec<Option<String>> = self.runner.get(&marks, &ask).await?;
            let mut moved = Vec::new();
            for ((name, at), mark) in found.iter().zip(known) {
                let mark = mark.unwrap_or_default();
                match (read(name), std::str::from_utf8(name)) {
                    (Some(member), Ok(name))
                        if !mark.ends_with('*')
                            && self.runner.part_of(self.what, feed_of(&member)) != part =>
                    {
                        let (at, member) =
                            (Some(Millis(*at as i64)), TurnMember { feed: feed_of(&member), name });
                        self.register(member, at, None, self.runner.clock(Some(now))).await?;
                        moved.push((name, mark));
                    }
                    _ => stay += 1,
                }
            }
            if moved.is_empty() {
                continue;
            }
            let back: Vec<_> = moved.iter().map(|(member, mark)| Return { member, mark, next: "" }).collect();
            let how = Claim { max: 0, turn_ms: 0, read, now };
            let left = self.look(part, &back, 0, &how).await?.waiting;
            // Those that were registered a moment ago, or again meanwhile, stay until the next time.
            if before.replace(left) == Some(left) {
                return Ok(());
            }
        }
    }

    /// Some hundreds of members, each with when it is to be looked at, and from where to go on; the default is the beginning. One
    /// that comes meanwhile may be left out.
    pub(crate) async fn page<T>(
        &self,
        (at, cursor): PagePlace,
        read: fn(&[u8]) -> Option<T>,
    ) -> Result<(Vec<(T, Millis)>, Option<PagePlace>), Fault> {
        let parts = self.runner.parts(self.what);
        let Some(part) = parts.get(at) else { return Ok((Vec::new(), None)) };
        let [members, _] = self.keys(*part);
        let mut scan = redis::cmd("ZSCAN");
        scan.arg(&members).arg(cursor).arg("COUNT").arg(MEMBERS_PER_TRIP);
        let (next, found): (u64, Vec<(Vec<u8>, f64)>) = self.runner.get(&members, &scan).await?;
        let found = found.iter().filter_map(|(name, at)| Some((read(name)?, Millis(*at as i64)))).collect();
        let goes_on = if next == 0 { (at + 1, 0) } else { (at, next) };
        Ok((found, Some(goes_on)))
    }

    async fn look<T>(
        &self,
        part: Part,
        over: &[Return<'_>],
        most: usize,
        how: &Claim<T>,
    ) -> Result<Turns<T>, Fault> {
        let [members, marks] = self.keys(part);
        let mut call = self.runner.timed(&scripts::DUE_TURNS, Some(how.now));
        call.keys([("feeds", members.clone()), ("marks", marks)]).arg("turn", how.turn_ms).arg("most", most);
        for Return { member, mark, next } in over {
            call.item(
                [],
                [("feed", *member), ("mark", *mark), ("next", *next)].map(|(name, it)| (name, it.to_owned())),
            );
        }
        let reply: Vec<Vec<u8>> =
            self.runner.run_within(&call, self.runner.part_timeout()).await.map_err(Fault::of_an_index)?;
        let mut turns = Turns {
            taken: Vec::new(),
            next_in_ms: number(reply.first()),
            waiting: number(reply.get(1)).unwrap_or(0),
        };
        for taken in reply.get(2..).unwrap_or_default().chunks_exact(3) {
            match (how.read)(&taken[0]) {
                Some(member) => {
                    let token = format!("{part}:{}", String::from_utf8_lossy(&taken[1]));
                    turns.taken.push(ClaimedTurn { member, token, reclaimed: taken[2] == b"1" });
                }
                None => {
                    let name = String::from_utf8_lossy(&taken[0]);
                    tracing::warn!(%name, index = ?self.what, "what cannot be read is taken out of an index");
                    let mut remove = redis::cmd("ZREM");
                    remove.arg(&members).arg(&taken[0]);
                    let _: u64 = self.runner.get(&members, &remove).await?;
                }
            }
        }
        Ok(turns)
    }
}

/// A new sender of wake-ups.
pub(crate) fn wakes() -> broadcast::Sender<u64> {
    Wakes::sender()
}

/// The part in which a turn was taken, and its mark there.
fn part_of_token(token: &str) -> Option<(Part, &str)> {
    let (part, mark) = token.split_once(':')?;
    Some((part.parse().ok()?, mark))
}

/// How many leases each part may give, if `most` are wanted in all. Parts that come first this time come later the
/// next: `round` counts.
fn shares(wanted: usize, parts: usize, round: usize) -> Vec<usize> {
    let (each, more) = (wanted / parts.max(1), wanted % parts.max(1));
    (0..parts).map(|part| each + usize::from((part + parts - round % parts) % parts < more)).collect()
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn every_part_has_its_turn_and_no_more_are_given_than_wanted() {
        assert_eq!(shares(7, 1, 5), [7]);
        assert_eq!(shares(3, 4, 0), [1, 1, 1, 0]);
        assert_eq!(shares(3, 4, 2), [1, 0, 1, 1]);
        assert_eq!(shares(9, 4, 1), [2, 3, 2, 2]);
        assert_eq!(shares(0, 4, 1), [0; 4]);
    }
}
