//! An index of what waits for a turn, in parts: of feeds with something due, and of webhooks with something to send
//! (`lua/due_register.lua`, `lua/due_turns.lua`). Parts may be on several servers; one that is away is left out, and
//! the turns that were to be given back there end by themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::sync::broadcast;

use super::keys::{PARTS_ALL, Shared};
use super::net::faults::Fault;
use super::runner::{Runner, needed, number};
use super::scripts;
use crate::domain::{FeedId, Millis};
use crate::engine::Wakes;

/// One of the two indexes.
pub(super) struct TurnIndex {
    pub runner: Arc<Runner>,
    what: Shared,
    /// Tells in how many milliseconds somebody's turn comes that was registered here.
    pub wakes: broadcast::Sender<u64>,
    /// Counts looks, so that parts take turns in being the first.
    round: AtomicUsize,
    /// Counts looks into parts that nobody here writes to.
    strays: AtomicUsize,
}

/// A turn that is given back.
pub(super) struct Over {
    pub member: String,
    /// As [`Taken`] had it.
    pub token: String,
    /// When the member is to be looked at again: a time, or "+" and milliseconds from now; "" for never.
    pub next: String,
}

/// A turn that was taken.
pub(super) struct Taken<T> {
    pub member: T,
    /// Gives it back.
    pub token: String,
    /// True when somebody else had it and did not give it back in time.
    pub reclaimed: bool,
}

/// What a look into the index found.
pub(super) struct Turns<T> {
    pub taken: Vec<Taken<T>>,
    /// In how many milliseconds the next turn comes.
    pub next_in_ms: Option<u64>,
    /// Members of the index.
    pub waiting: u64,
}

/// How turns are taken.
pub(super) struct Claim<T> {
    /// Turns at most.
    pub max: usize,
    /// How long they last.
    pub turn_ms: u64,
    /// Reads a member; what cannot be read is taken out of the index.
    pub read: fn(&[u8]) -> Option<T>,
    /// Parts that nobody here writes to, and into how many of them one look that found nothing goes: what nodes that
    /// were told otherwise have left there is found in time.
    pub strays: (std::ops::Range<usize>, usize),
    pub now: Millis,
}

impl TurnIndex {
    pub(super) fn new(runner: Arc<Runner>, what: Shared, wakes: broadcast::Sender<u64>) -> TurnIndex {
        TurnIndex { runner, what, wakes, round: AtomicUsize::new(0), strays: AtomicUsize::new(0) }
    }

    /// How many parts this node writes to.
    pub(super) fn parts(&self) -> usize {
        self.runner.keys.parts(self.what)
    }

    /// The keys of a part.
    pub(super) fn keys(&self, part: usize) -> [String; 2] {
        self.runner.keys.index(self.what, part)
    }

    /// Puts a member of this feed into the index, to be looked at at `at` or `in_ms` milliseconds from now, whichever
    /// is earlier. Since when it is there.
    pub(super) async fn register(
        &self,
        (feed, member): (&FeedId, &str),
        at: Option<Millis>,
        in_ms: Option<u64>,
        mark: String,
        now: Option<Millis>,
    ) -> Result<Millis, Fault> {
        let part = self.runner.keys.part_of(self.what, feed);
        let [members, marks] = self.keys(part);
        let mut call = self.runner.timed(&scripts::DUE_REGISTER, now);
        call.keys([("feeds", members), ("marks", marks)]);
        call.arg("at", at.map(|at| at.0.to_string()).unwrap_or_default());
        call.arg("in", in_ms.map(|ms| ms.to_string()).unwrap_or_default());
        call.arg("feed", member).arg("mark", mark);
        call.arg("wake channel", self.runner.keys.wake(self.what, part));
        let reply: Vec<Vec<u8>> = self.runner.run(&call).await.map_err(Fault::of_an_index)?;
        if let Some(in_ms) = number(reply.get(1)) {
            // Nobody waiting for it is no failure.
            let _ = self.wakes.send(in_ms);
        }
        needed(reply.first()).map(Millis).map_err(|garbled| Fault::from(garbled).of_an_index())
    }

    /// Gives turns back and takes new ones, from every part its share, and what is left from those that have more.
    pub(super) async fn claim<T>(&self, over: &[Over], how: Claim<T>) -> Result<Turns<T>, Fault> {
        let own = self.parts();
        let round = self.round.fetch_add(1, Ordering::Relaxed);
        let shares = shares(how.max, own, round);
        let looks = (0..PARTS_ALL).filter_map(|part| {
            let over: Vec<_> =
                over.iter().filter_map(|over| Some((over, mark_in(part, &over.token)?))).collect();
            (part < own || !over.is_empty()).then_some((part, over, shares.get(part).copied().unwrap_or(0)))
        });
        let looks = looks.map(async |(part, over, most)| (part, self.look(part, &over, most, &how).await));
        let mut turns = Turns { taken: Vec::new(), next_in_ms: None, waiting: 0 };
        let (mut fault, mut any, mut more) = (None, false, Vec::new());
        for (part, look) in join_all(looks).await {
            match look {
                Ok(look) => {
                    any = true;
                    if look.next_in_ms == Some(0) && part < own {
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
        let (strays, looks) = &how.strays;
        for _ in 0..*looks {
            if !turns.taken.is_empty() || how.max == 0 {
                break;
            }
            let part = strays.start + self.strays.fetch_add(1, Ordering::Relaxed) % strays.len();
            turns
                .taken
                .extend(self.look(part, &[], how.max, &how).await.map(|look| look.taken).unwrap_or_default());
        }
        Ok(turns)
    }

    async fn look<T>(
        &self,
        part: usize,
        over: &[(&Over, &str)],
        most: usize,
        how: &Claim<T>,
    ) -> Result<Turns<T>, Fault> {
        let [members, marks] = self.keys(part);
        let mut call = self.runner.timed(&scripts::DUE_TURNS, Some(how.now));
        call.keys([("feeds", members.clone()), ("marks", marks)]).arg("turn", how.turn_ms).arg("most", most);
        for (over, mark) in over {
            let (member, next) = (over.member.clone(), over.next.clone());
            call.item([], [("feed", member), ("mark", (*mark).to_owned()), ("next", next)]);
        }
        let reply: Vec<Vec<u8>> =
            self.runner.run_within(&call, self.runner.part_patience()).await.map_err(Fault::of_an_index)?;
        let mut turns = Turns {
            taken: Vec::new(),
            next_in_ms: number(reply.first()),
            waiting: number(reply.get(1)).unwrap_or(0),
        };
        for taken in reply.get(2..).unwrap_or_default().chunks_exact(3) {
            match (how.read)(&taken[0]) {
                Some(member) => {
                    let token = format!("{part}:{}", String::from_utf8_lossy(&taken[1]));
                    turns.taken.push(Taken { member, token, reclaimed: taken[2] == b"1" });
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
pub(super) fn wakes() -> broadcast::Sender<u64> {
    Wakes::sender()
}

/// The mark in a token of this part of the index.
fn mark_in(part: usize, token: &str) -> Option<&str> {
    let (own, mark) = token.split_once(':')?;
    (own.parse() == Ok(part)).then_some(mark)
}

/// How many turns each part may give, when so many are wanted in all. Parts that come first this time come later the
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
