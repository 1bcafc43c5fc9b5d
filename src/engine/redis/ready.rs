//! Plain gifts with every text ready-made (`lua/ready_publish.lua`), at three fifths of what the script costs that makes them
//! in the store. What a feed holds is known from the last call, or looked at (`lua/ready_look.lua`); a script that finds it
//! otherwise refuses, and has written nothing. Calls of one feed may be under way together: each is made on what the one before
//! leaves, and where that one is refused, so is it.
//!
//! A feed that others write to as well costs a look each time, which is cheaper than to be refused. Where others come in
//! between even so, it is left to `plain` for a while.

use redis::Value;

#[cfg(test)]
use super::held::GRACE;
use super::held::{Held, Lasting, Written};
use super::known::{Mark, life_of};
use super::net::faults::{Fault, FaultKind};
use super::net::slots::slot_of_key;
use super::runner::Runner;
use super::scripts::{self, Call};
use super::store_clock::{Moment, StoreClocks, Told};
use super::tags::random;
use super::thought::{Thought, Thoughts};
use super::wire::Garbled;
use crate::domain::{FeedId, Gift, Millis, Position};
use crate::metrics::labels::ReadyCall;

/// How long ids and locks are kept where the script is not told: under the default policy.
const USUAL: (u64, Option<u64>) = (86_460_000, Some(65_000));

/// Times end with the year 9999.
const MAX_TIME: u64 = 253_402_300_799_999;

/// What became of some gifts.
pub(super) enum Said {
    /// All of them are new rows; the last has this position.
    Took(Position),
    /// Nothing was done: some are not plain, or the feed is not.
    NotPlain,
    /// Nothing was done, and nothing can be said.
    Unsure,
}

/// What the store answered.
enum Answer {
    Took,
    NotPlain,
    /// It holds something else.
    Otherwise,
    /// Its clock says this.
    Clock(u64),
}

impl Answer {
    /// Of the script's reply.
    fn read(reply: Value) -> Result<Answer, Fault> {
        Ok(match reply {
            Value::Int(0) => Answer::NotPlain,
            Value::Int(1) => Answer::Took,
            Value::Int(2) => Answer::Otherwise,
            time => {
                let [seconds, micros]: [u64; 2] = redis::from_redis_value::<Vec<u64>>(time)
                    .ok()
                    .and_then(|time| time.try_into().ok())
                    .ok_or(Garbled("a reply"))?;
                Answer::Clock(seconds * 1_000 + micros / 1_000)
            }
        })
    }

    fn counts_as(&self) -> ReadyCall {
        match self {
            Answer::Took => ReadyCall::Taken,
            Answer::NotPlain | Answer::Otherwise | Answer::Clock(_) => ReadyCall::Refused,
        }
    }
}

/// One publishing, whatever is tried for it.
pub(super) struct Wish<'a> {
    pub runner: &'a Runner,
    pub feed: &'a FeedId,
    pub gifts: &'a [Gift],
    /// KEYS of each gift's id and lock.
    pub items: &'a [(String, String)],
    /// The version of the webhooks of all feeds that this process knows.
    pub hooks: u64,
    /// Milliseconds, or 0 for the store's clock.
    pub clock: u64,
}

/// A call that was made on what the feed is thought to hold.
struct Made {
    call: Call,
    mark: Mark,
    known: Option<Mark>,
    life: u64,
    asked_at: Option<Moment>,
}

/// What is to be done next.
enum Next {
    Call(Box<Made>),
    Look,
    Leave(Said),
}

/// See the module.
#[derive(Default)]
pub(super) struct Ready {
    thoughts: Thoughts,
    clocks: StoreClocks,
}

impl Ready {
    /// Takes the gifts. `lasting` says how long what is written lasts under a policy; none where that is not for here.
    pub async fn publish(
        &self,
        wish: &Wish<'_>,
        lasting: impl Fn(&Held) -> Option<Lasting>,
    ) -> Result<Said, Fault> {
        let feed = wish.feed;
        if self.thoughts.of(feed, Thought::rests) {
            return Ok(Said::Unsure);
        }
        let mut looked = false;
        for _ in 0..2 {
            let made = loop {
                match self.next(wish, &lasting, looked)? {
                    Next::Call(made) => break made,
                    Next::Leave(said) => return Ok(said),
                    Next::Look => {
                        looked = true;
                        if let Some(said) = self.look(wish).await? {
                            return Ok(said);
                        }
                    }
                }
            };
            let answer = match self.run(wish, &made).await {
                Ok(answer) => answer,
                Err(fault) => {
                    let _ = self.refused(feed, made.life);
                    return Err(fault);
                }
            };
            match answer {
                Answer::Took => return Ok(self.took(wish, *made, looked)),
                Answer::NotPlain => {
                    let _ = self.refused(feed, made.life);
                    return Ok(Said::NotPlain);
                }
                Answer::Otherwise => {
                    let by_others = self.refused(feed, made.life);
                    self.thoughts.of(feed, |it| it.shared |= by_others);
                }
                Answer::Clock(time) => {
                    let _ = self.refused(feed, made.life);
                    self.clocks.said(&wish.runner.topology.owner(slot(wish))?.endpoint, time, Moment::now());
                }
            }
            looked = false;
        }
        self.thoughts.of(feed, Thought::leave_alone);
        Ok(Said::Unsure)
    }

    /// Makes the call, if the feed is known well enough; then calls that come behind it are made on what it leaves.
    fn next(
        &self,
        wish: &Wish<'_>,
        lasting: &impl Fn(&Held) -> Option<Lasting>,
        looked: bool,
    ) -> Result<Next, Fault> {
        let Wish { runner, feed, gifts, hooks, clock, .. } = *wish;
        let look = if looked { Next::Leave(Said::Unsure) } else { Next::Look };
        let moment = Moment::now();
        let time = match clock {
            0 => self.clocks.at(&runner.topology.owner(slot(wish))?.endpoint, moment),
            time => Some(Told { time, ask: false }),
        };
        let Some(Told { time, ask }) = time else { return Ok(look) };
        let known = runner.known.get(feed);
        self.thoughts.of(feed, |thought| {
            if thought.shared && !looked || !thought.follows(known.as_ref()) {
                return Ok(look);
            }
            let Some(held) = thought.held.as_mut() else { return Ok(look) };
            let Some(lasting) = lasting(held).filter(|_| held.hooks() == hooks) else {
                return Ok(Next::Leave(Said::Unsure));
            };
            let longest = lasting.idempotency_window_ms.max(lasting.dedup_window_ms);
            if time.saturating_add(longest) > MAX_TIME {
                return Ok(Next::Leave(Said::Unsure));
            }
            let (first, tag) = (held.mark().at.seq + 1, random());
            let Some(written) = held.take(gifts, tag, Millis(time as i64), &lasting) else {
                return Ok(Next::Leave(Said::Unsure));
            };
            thought.step(first, written.mark.at.seq, tag);
            let second = ask.then_some(time / 1_000);
            let asked_at = ask.then_some(moment);
            let mark = written.mark.clone();
            let call = call(wish, written, second);
            Ok(Next::Call(Box::new(Made { call, mark, known, life: thought.life, asked_at })))
        })
    }

    async fn run(&self, wish: &Wish<'_>, made: &Made) -> Result<Answer, Fault> {
        let runner = wish.runner;
        let reply = match runner.run::<Value>(&made.call).await {
            // What is known is of another life of the server.
            Err(fault) if fault.kind == FaultKind::OtherLife => return Ok(Answer::Otherwise),
            reply => reply,
        };
        let answer = Answer::read(reply.inspect_err(|fault| runner.damaged.met(wish.feed, fault))?)?;
        runner.options.metrics.redis_ready_calls[answer.counts_as()].inc();
        Ok(answer)
    }

    fn took(&self, wish: &Wish<'_>, made: Made, looked: bool) -> Said {
        if let (Some(at), Ok(shard)) = (made.asked_at, wish.runner.topology.owner(slot(wish))) {
            self.clocks.agreed(&shard.endpoint, at);
        }
        if !looked {
            self.thoughts.of(wish.feed, |it| it.races = 0);
        }
        wish.runner.known.replied(wish.feed, made.known.as_ref(), made.mark.clone());
        Said::Took(made.mark.at)
    }

    /// A call was not taken, or nobody knows: what was thought to come of it does not hold. False when that was found out
    /// before, by a call that this one was made on.
    fn refused(&self, feed: &FeedId, life: u64) -> bool {
        self.thoughts.of(feed, |it| {
            let first = it.life == life;
            if first {
                it.forget();
            }
            first
        })
    }

    /// Looks what the feed holds. Says what is to be answered when that is not for here.
    async fn look(&self, wish: &Wish<'_>) -> Result<Option<Said>, Fault> {
        let Wish { runner, feed, .. } = *wish;
        let keys = &runner.keys;
        let mut call = Call::of(&scripts::READY_LOOK);
        let [list, _, hist, meta, policy] = keys.feed(feed);
        let [ledger, reports, _] = keys.ledger(feed);
        call.keys([("list", list), ("hist", hist), ("meta", meta), ("policy", policy)]);
        call.keys([("ledger", ledger), ("reports", reports)]);
        let known = runner.known.get(feed);
        let said = known.as_ref().map(|Mark { at, tag }| format!("{} {} {tag} ", at.epoch, at.seq));
        call.arg("known", said.unwrap_or_default()).arg("life", "").end_with_life("life");
        let version = self.thoughts.of(feed, |it| it.version);
        runner.options.metrics.redis_ready_calls[ReadyCall::Look].inc();
        let texts = runner.run::<Vec<String>>(&call).await;
        let texts = texts.inspect_err(|fault| runner.damaged.met(feed, fault))?;
        let [meta, list, policy, reports, entries, seconds, micros] = &texts[..] else {
            return Ok(Some(Said::NotPlain));
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| Garbled("a reply"));
        let time = number(seconds)? * 1_000 + number(micros)? / 1_000;
        self.clocks.said(&runner.topology.owner(slot(wish))?.endpoint, time, Moment::now());
        let held = Held::read(meta, list, policy, reports, entries);
        Ok(self.thoughts.of(feed, |it| {
            // Somebody took gifts of it meanwhile, or looked.
            if it.version != version {
                return None;
            }
            let Some(held) = held else {
                // What is not plain about it stays a while.
                it.forget();
                it.leave_alone();
                return Some(Said::Unsure);
            };
            if it.held.as_ref() == Some(&held) {
                it.shared = false;
            }
            it.forget();
            let Mark { at: Position { seq, .. }, tag } = held.mark();
            it.step(seq, seq, tag);
            (it.held, it.seen) = (Some(held), known);
            None
        }))
    }
}

fn slot(wish: &Wish<'_>) -> u16 {
    slot_of_key(&wish.runner.keys.policy(wish.feed))
}

/// `second`: of the texts' time, where it is to be asked whether the store's clock agrees.
fn call(wish: &Wish<'_>, written: Written, second: Option<u64>) -> Call {
    let Wish { runner, feed, items, .. } = *wish;
    let keys = &runner.keys;
    let Written { known_meta, known_reports, list, meta, message, gifts, gone, .. } = &written;
    let mut call = Call::of(&scripts::READY_PUBLISH);
    let [list_key, rows_key, hist, meta_key, policy] = keys.feed(feed);
    let [ledger, reports, _] = keys.ledger(feed);
    call.keys([
        ("list", list_key),
        ("rows", rows_key),
        ("hist", hist),
        ("meta", meta_key),
        ("policy", policy),
    ]);
    call.keys([("ledger", ledger), ("reports", reports), ("blocks", keys.blocks(feed))]);
    call.arg("known meta", known_meta)
        .arg("known reports", known_reports)
        .arg("limit", limit(&written, second));
    call.arg("keep", written.keep).arg("list", list).arg("meta", meta);
    call.arg("live channel", keys.live(feed)).arg("message", message);
    for ((id, lock), [entry, change, answer, held]) in items.iter().zip(gifts) {
        let texts = [("entry", entry), ("change", change), ("answer", answer), ("held", held)];
        call.item(
            [("id", id.clone()), ("lock", lock.clone())],
            texts.map(|(name, text)| (name, text.clone())),
        );
    }
    call.rest(gone.iter().cloned());
    call.only_in(life_of(&written.mark.at.epoch));
    call
}

/// The argument of this name: most calls have nothing in it but the limit.
fn limit(written: &Written, second: Option<u64>) -> String {
    let Written { limit, cut, id_px, lock_px, .. } = *written;
    if cut.is_none() && second.is_none() && (id_px, lock_px) == USUAL {
        return limit.to_string();
    }
    let (readers, most) = cut.unwrap_or_default();
    let text = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |it| it.to_string());
    format!("{limit} {readers} {most} {} {id_px} {}", text(second), text(lock_px))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Policy;

    #[test]
    fn the_script_knows_how_long_ids_and_locks_of_the_default_policy_are_kept() {
        let Policy { idempotency_window_ms, dedup_window_ms, .. } = Policy::default();
        assert_eq!(USUAL, (idempotency_window_ms + GRACE, Some(dedup_window_ms + GRACE)));
        let said = format!("local id_px, lock_px = '{}', '{}'", USUAL.0, USUAL.1.unwrap_or_default());
        assert!(scripts::READY_PUBLISH.text.contains(&said), "{said}");
    }
}
