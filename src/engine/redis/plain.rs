//! What publishing is most of the time: gifts that are new rows, shown at once, in a feed whose policy this process
//! knows. Scripts of their own do that and no more, at a fraction of what `feed_publish` costs, which knows every rule. They
//! refuse what is anything else, and then have written nothing. Where nothing is counted and nobody looks at gifts, the
//! texts are ready-made (`ready`); `lua/publish_plain.lua` makes them itself, for feeds to which others write at the same time.
//! Where a feed counts something, `lua/publish_plain_counted.lua` does the same and counts; where a host looks at messages and
//! new names, both have a like that takes gifts of approved names.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::held::{Held, Lasting};
use super::net::faults::Fault;
use super::ready::{Ready, Said, Wish};
use super::runner::Runner;
use super::scripts::{self, Call, Script};
use super::wire::{self, Garbled};
use crate::domain::tally::Points;
use crate::domain::{
    Answer, Dedup, FeedId, Gift, Millis, Outcome, Policy, Position, ReviewMode, Show, Status,
};
use crate::engine::record::entry_extra;

/// Feeds of which it is remembered what they hold and whether calls are plain.
const FEEDS: usize = 16_384;

/// Calls for which a feed is left to `feed_publish` at most, once this script refused it.
const REST: u32 = 64;

/// What is known of a feed.
#[derive(Clone, Default)]
struct Habit {
    /// What its policy's key holds, as far as is known.
    policy: Option<String>,
    /// What its key `count` holds, as far as is known, where it counts something.
    count: String,
    /// Calls that are not tried here.
    rest: u32,
    /// Refusals one after the other: each doubles the rest, so that a feed whose gifts mostly merge costs no more.
    refused: u32,
}

/// What the script is told of a policy.
struct Rules {
    capacity: u64,
    history: u64,
    idempotency_window_ms: u64,
    /// 0 where no lock is taken.
    dedup_window_ms: u64,
    /// What money is worth, where something is counted.
    points: Option<Points>,
    /// Gifts wait for a host that have a message, or a name not approved before.
    reviewed: bool,
}

impl Rules {
    /// None when publishing under this policy is more than the script does. A field that is new to policies is to be
    /// judged here.
    fn of(policy: &Policy) -> Option<Rules> {
        let Policy {
            capacity,
            dedup,
            dedup_window_ms,
            row_ttl_ms,
            delay_ms,
            flush_ms: _,
            idempotency_window_ms,
            history,
            visibility: _,
            presence: _,
            review,
            review_timeout_ms: _,
            review_default: _,
            totals,
            time_zone: _,
            points,
        } = policy.clone();
        let is_plain = row_ttl_ms == 0 && delay_ms == 0 && history > 0 && review != ReviewMode::All;
        let reviewed = review == ReviewMode::Messages;
        let dedup_window_ms = if dedup == Dedup::Off { 0 } else { dedup_window_ms };
        let points = (!totals.is_empty()).then_some(points);
        is_plain.then_some(Rules {
            capacity,
            history,
            idempotency_window_ms,
            dedup_window_ms,
            points,
            reviewed,
        })
    }

    /// Nothing is counted, and nobody looks at gifts.
    fn is_simple(&self) -> bool {
        self.points.is_none() && !self.reviewed
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Plain {
    habits: Mutex<HashMap<FeedId, Habit>>,
    ready: Ready,
}

impl Plain {
    fn locked(&self) -> MutexGuard<'_, HashMap<FeedId, Habit>> {
        self.habits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the gifts, unless they, or the feed, want `feed_publish`: then nothing was done. `hooks` is the version of
    /// the webhooks of all feeds that this process knows.
    pub async fn publish(
        &self,
        runner: &Runner,
        feed: &FeedId,
        gifts: &[Gift],
        now: Option<Millis>,
        hooks: u64,
    ) -> Result<Option<Vec<Outcome>>, Fault> {
        // 0 is the store's clock, and no other time before 1970 is told.
        let clock = match runner.clock(now) {
            None => 0,
            Some(Millis(at)) if at > 0 => at.unsigned_abs(),
            Some(_) => return Ok(None),
        };
        if runner.options.feed_idle_ttl_ms != 0 || !gifts.iter().all(is_plain) {
            return Ok(None);
        }
        let items = Items::of(runner, feed, gifts);
        if !items.ids_differ {
            return Ok(None);
        }
        let Some((mut known, mut count)) = self.begin(feed) else { return Ok(None) };
        if self.may_be_ready(runner, known.as_deref()) {
            let wish = Wish { runner, feed, gifts, items: &items.keys, hooks, clock };
            let lasting = |held: &Held| items.lasting(runner, held);
            match self.ready.publish(&wish, lasting).await? {
                Said::Took(at) => {
                    self.took(feed);
                    return outcomes(&at, gifts).map(Some);
                }
                Said::NotPlain => {
                    self.refused(feed);
                    return Ok(None);
                }
                Said::Unsure => {}
            }
        }
        // Again, when the policy, or what is counted, is another than was thought.
        for _ in 0..3 {
            let policy = known.clone().unwrap_or_default();
            // One that cannot be read is feed_publish's to refuse.
            let Some(rules) = runner.with_overrides(&policy).ok().and_then(|policy| Rules::of(&policy))
            else {
                // It may be another the next time.
                self.learn(feed, None, "");
                break;
            };
            if rules.reviewed && gifts.iter().any(|gift| gift.message.is_some()) {
                return Ok(None);
            }
            // Most feeds have none. Where that is not enough to go by, it is asked for: no policy is "?".
            let policy = match (items.are_apart(&rules), &known) {
                (true, _) => policy,
                (false, None) => "?".to_owned(),
                (false, Some(_)) => return Ok(None),
            };
            let plan = Plan { runner, feed, gifts, items: &items.keys, policy: &policy, hooks, clock };
            // What is counted may be settled just now, or was not heard of yet: then the script says what it is.
            let call = plan.call(&rules, &Counting::read(&count).unwrap_or_default());
            let reply = runner.run_plain(call, feed).await?;
            if let Some((mark, _)) = &reply.mark {
                self.took(feed);
                return outcomes(&mark.at, gifts).map(Some);
            }
            match reply.text(1) {
                Ok("policy") => known = Some(reply.text(2)?.to_owned()),
                Ok("count") if Counting::read(reply.text(2)?).is_some() => {
                    reply.text(2)?.clone_into(&mut count)
                }
                Ok("once") => return Ok(None),
                _ => break,
            }
            self.learn(feed, known.as_deref(), &count);
        }
        self.refused(feed);
        Ok(None)
    }

    /// Whether nothing is counted and nobody looks at gifts, as far as is known of the policy.
    fn may_be_ready(&self, runner: &Runner, policy: Option<&str>) -> bool {
        let policy = runner.with_overrides(policy.unwrap_or_default()).ok();
        policy.and_then(|policy| Rules::of(&policy)).is_some_and(|rules| rules.is_simple())
    }

    /// What the feed's policy and count are thought to hold; none when it is not tried this time.
    fn begin(&self, feed: &FeedId) -> Option<(Option<String>, String)> {
        let mut habits = self.locked();
        let Some(habit) = habits.get_mut(feed) else { return Some(Default::default()) };
        if habit.rest > 0 {
            habit.rest -= 1;
            return None;
        }
        Some((habit.policy.clone(), habit.count.clone()))
    }

    fn took(&self, feed: &FeedId) {
        if let Some(habit) = self.locked().get_mut(feed) {
            habit.refused = 0;
        }
    }

    fn learn(&self, feed: &FeedId, policy: Option<&str>, count: &str) {
        let mut habits = self.locked();
        let habit = self.habit(&mut habits, feed);
        habit.policy = policy.map(str::to_owned);
        count.clone_into(&mut habit.count);
    }

    fn refused(&self, feed: &FeedId) {
        let mut habits = self.locked();
        let habit = self.habit(&mut habits, feed);
        habit.rest = (1 << habit.refused.min(6)).min(REST);
        habit.refused += 1;
    }

    fn habit<'a>(&self, habits: &'a mut HashMap<FeedId, Habit>, feed: &FeedId) -> &'a mut Habit {
        if habits.len() >= FEEDS && !habits.contains_key(feed) {
            habits.clear();
        }
        habits.entry(feed.clone()).or_default()
    }
}

/// Whether a gift may be a row of its own at once, whatever the feed holds.
fn is_plain(gift: &Gift) -> bool {
    !gift.test && gift.combo.is_none() && matches!(gift.show, Show::ByPolicy | Show::After(0))
}

/// Keys of each gift's id and lock, and how far they are distinct.
struct Items {
    keys: Vec<(String, String)>,
    /// No two gifts have an id in common.
    ids_differ: bool,
    /// Nor are two of the same user and kind.
    locks_differ: bool,
}

impl Items {
    fn of(runner: &Runner, feed: &FeedId, gifts: &[Gift]) -> Items {
        let keys = &runner.keys;
        let keys: Vec<_> =
            gifts.iter().map(|gift| (keys.id(feed, &gift.id), keys.lock(feed, gift))).collect();
        let ids: HashSet<&str> = keys.iter().map(|(id, _)| id.as_str()).collect();
        let locks: HashSet<&str> = keys.iter().map(|(_, lock)| lock.as_str()).collect();
        let (ids_differ, locks_differ) = (ids.len() == keys.len(), locks.len() == keys.len());
        Items { keys, ids_differ, locks_differ }
    }

    /// How long what is written of them lasts in a feed that holds this; none where they are not to be written ready-made.
    fn lasting(&self, runner: &Runner, held: &Held) -> Option<Lasting> {
        let rules = Rules::of(&runner.with_overrides(&held.policy).ok()?)?;
        let fits = rules.is_simple() && rules.capacity == held.capacity && self.are_apart(&rules);
        fits.then_some(Lasting {
            history: rules.history,
            idempotency_window_ms: rules.idempotency_window_ms,
            dedup_window_ms: rules.dedup_window_ms,
            ledger_max: runner.options.reports.ledger_max,
        })
    }

    /// Whether none of the gifts depends on another of the same call, under these rules.
    fn are_apart(&self, rules: &Rules) -> bool {
        self.ids_differ && (self.locks_differ || rules.dedup_window_ms == 0)
    }
}

/// How a feed counts, as its key `count` says: `OPENS ENDS KEEP SPAN POINTS` (see `lua/feed_count.lua`).
#[derive(Clone, Copy, Default)]
struct Counting<'a> {
    text: &'a str,
    /// Times between which it holds, until when what counts now is remembered, and the present span.
    words: [&'a str; 4],
}

impl<'a> Counting<'a> {
    /// None where nothing is open, or it is being settled.
    fn read(text: &'a str) -> Option<Counting<'a>> {
        let [opens, ends, keep, span, _] = text.split(' ').collect::<Vec<_>>()[..] else { return None };
        (!text.contains('\n') && span != "-").then_some(Counting { text, words: [opens, ends, keep, span] })
    }
}

/// What a call is made of.
struct Plan<'a> {
    runner: &'a Runner,
    feed: &'a FeedId,
    gifts: &'a [Gift],
    items: &'a [(String, String)],
    policy: &'a str,
    hooks: u64,
    /// Milliseconds, or 0 for the store's.
    clock: u64,
}

impl Plan<'_> {
    /// A call of one of the scripts, without its gifts.
    fn of(&self, script: &'static Script, rules: &Rules) -> Call {
        let keys = &self.runner.keys;
        let mut call = Call::of(script);
        let [list, rows, hist, meta, policy_key] = keys.feed(self.feed);
        let [ledger, reports, _] = keys.ledger(self.feed);
        call.keys([("list", list), ("rows", rows), ("hist", hist), ("meta", meta), ("policy", policy_key)]);
        call.keys([("ledger", ledger), ("reports", reports), ("blocks", keys.blocks(self.feed))]);
        let Rules { capacity, history, idempotency_window_ms, dedup_window_ms, .. } = rules;
        let (clock, hooks, ledger_max) = (self.clock, self.hooks, self.runner.options.reports.ledger_max);
        call.arg("known policy", self.policy).arg(
            "rules",
            format_args!(
                "{clock} {capacity} {history} {idempotency_window_ms} {dedup_window_ms} {hooks} {ledger_max} "
            ),
        );
        call
    }

    fn call(&self, rules: &Rules, counting: &Counting<'_>) -> Call {
        let script = match (&rules.points, rules.reviewed) {
            (None, false) => &scripts::PUBLISH_PLAIN,
            (None, true) => &scripts::PUBLISH_PLAIN_REVIEWED,
            (Some(_), false) => &scripts::PUBLISH_PLAIN_COUNTED,
            (Some(_), true) => &scripts::PUBLISH_PLAIN_COUNTED_REVIEWED,
        };
        let mut call = self.of(script, rules);
        if rules.points.is_some() {
            let [count, tally, parts, left, _] = self.runner.keys.counted(self.feed);
            call.keys([("count", count), ("tally", tally), ("parts", parts), ("left", left)]);
            let [opens, ends, keep, span] = counting.words;
            call.arg("known count", counting.text).arg("calendar", format_args!("{opens} {ends} {keep}"));
            call.arg("span", span);
        }
        if rules.reviewed {
            call.key("approved", self.runner.keys.approved(self.feed));
        }
        for (gift, (id, lock)) in self.gifts.iter().zip(self.items) {
            let counted = rules.points.iter().flat_map(|points| {
                let mut person = String::with_capacity(96);
                gift.user.push_json(&mut person);
                [("counted", wire::counted(gift, points)), ("person", person)]
            });
            let name = rules.reviewed.then(|| ("name", wire::name(&gift.user)));
            call.item(
                [("id", id.clone()), ("lock", lock.clone())],
                own_args(gift).into_iter().chain(counted).chain(name),
            );
        }
        call
    }
}

fn own_args(gift: &Gift) -> [(&'static str, String); 4] {
    let [fingerprint, _, _, body] = wire::gift_args(gift);
    [("fingerprint", fingerprint), ("body", body), ("extra", entry_extra(gift)), ("part", wire::part(gift))]
}

/// All of them are new rows; the last has this position.
fn outcomes(last: &Position, gifts: &[Gift]) -> Result<Vec<Outcome>, Fault> {
    let first = last.seq.saturating_sub(gifts.len() as u64) + 1;
    let answer = |(seq, gift): (u64, &Gift)| -> Result<Outcome, Fault> {
        let row = format!("{}-{seq}", last.epoch).parse().map_err(|_| Garbled("a position"))?;
        let at = Position { epoch: last.epoch.clone(), seq };
        let answer =
            Answer { status: Status::Accepted, id: gift.id.clone(), at, row: Some(row), count: None };
        Ok(Outcome::New(answer))
    };
    (first..).zip(gifts).map(answer).collect()
}
