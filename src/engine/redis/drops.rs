//! Drops, claims and holds: what their scripts are called with, and what they answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::faults::Fault;
use super::lineup::{Party, Run};
use super::scripts::{self, Script};
use super::store::{Extra, Reply, Store};
use super::wire::{self, Garbled};
use super::{EngineError, RedisEngine};
use crate::domain::claim::user_digest;
use crate::domain::drop::MAX_DROPS;
use crate::domain::{
    Cancelled, Claim, ClaimAnswer, ClaimOutcome, ClaimRefused, Claimed, Confirmed, Defined, DropId, DropSpec,
    DropView, FeedId, Hold, HoldId, Millis, Pay, Phase, Position, Sale,
};
use crate::engine::record::SpecNumbers;
use crate::engine::{DropStore, Wait};

/// ARGV of one claim.
const CLAIM_ARGS: usize = 7;

/// Holds of one user in one answer.
const HOLDS: &str = "1000";

/// What was done of a drop.
pub(super) struct Ticked {
    /// The store's clock.
    pub now: Millis,
    /// When the feed's due queue has something next.
    pub next: Option<Millis>,
    /// How the drop stands, if there is one.
    pub view: Option<DropView>,
}

impl Store {
    /// Runs a script of drops, again and again while it says that more is due: each run ends a part of
    /// what is over.
    async fn run_drop(
        &self,
        script: &Script,
        feed: &FeedId,
        drop: &DropId,
        now: Millis,
        args: Vec<String>,
    ) -> Result<Reply, Fault> {
        let keys = self.keys.drop(feed, drop);
        const RESTED: usize = 1;
        const LOOKED_AT: usize = 5;
        let mut all = self.append_args("").to_vec();
        all.extend([drop.to_string(), self.options.drop_reminder_ms.to_string(), String::new()]);
        all.extend(args);
        let runs = async {
            loop {
                let many = (all.len() - LOOKED_AT - 1).checked_div(script.args.1).unwrap_or(0);
                let extra = Extra { keys: keys.clone(), args: all.clone(), many };
                let reply = self.try_run(script, feed, Some(now), extra).await?;
                if reply.mark.is_none() {
                    let ready = self.before_entries(feed, &reply.texts, self.clock(Some(now))).await;
                    if let Some(rested) = ready.map_err(|error| Fault::stay(error.to_string()))? {
                        let [version, ..] = self.append_args("");
                        (all[0], all[RESTED]) = (version, rested);
                        continue;
                    }
                    // The drop's clock is to strike before anybody would look at the feed.
                    let at = reply.texts.get(2).and_then(|at| at.parse().ok()).ok_or(Garbled("a reply"))?;
                    let registered = self.register(feed, Some(Millis(at)), None, self.clock(Some(now))).await;
                    let by = registered.map_err(|error| Fault::stay(error.to_string()))?;
                    all[LOOKED_AT] = by.0.to_string();
                } else if reply.texts.first().is_none_or(|text| text != "m") {
                    self.reports.appended(feed);
                    return Ok(reply);
                }
            }
        };
        let within: Duration = self.options.call_timeout * 19 / 10;
        tokio::time::timeout(within, runs)
            .await
            .unwrap_or_else(|_| Err(Fault::stay("so many holds are over that ending them takes a while")))
    }

    /// Does what is due of a drop.
    pub(super) async fn tick(&self, feed: &FeedId, drop: &DropId, now: Millis) -> Result<Ticked, Fault> {
        let reply = self.run_drop(&scripts::DROP_TICK, feed, drop, now, Vec::new()).await?;
        let (_, now) = reply.mark.ok_or(Garbled("a reply"))?;
        let next = reply.texts.get(1).and_then(|at| at.parse().ok()).map(Millis);
        Ok(Ticked { now, next, view: reply.texts.get(2).map(|text| wire::view(text)).transpose()? })
    }

    /// Runs parties of claims, and whoever lined up meanwhile, until nobody waits.
    async fn claim(self: Arc<Self>, key: (FeedId, DropId), mut group: Vec<Party<Claim, Claimed>>) {
        loop {
            let run = Run::of(group);
            let result = self.claim_all(&key, &run.items, run.now).await;
            match self.claims.next(&key, run.answer(result).as_ref()) {
                Some(next) => group = next,
                None => return,
            }
        }
    }

    async fn claim_all(
        &self,
        (feed, drop): &(FeedId, DropId),
        claims: &[Claim],
        now: Option<Millis>,
    ) -> Result<Vec<Claimed>, EngineError> {
        let args = claims.iter().flat_map(claim_args).collect();
        // Where the store's own clock counts, this time is not looked at.
        let now = now.unwrap_or(Millis(0));
        let reply = self.run_drop(&scripts::DROP_CLAIM, feed, drop, now, args).await?;
        let one = |(at, claim): (usize, &Claim)| Ok(claimed(reply.text(at)?, drop, claim)?);
        claims.iter().enumerate().map(one).collect()
    }

    async fn end(
        &self,
        feed: &FeedId,
        hold: &HoldId,
        how: &str,
        now: Millis,
    ) -> Result<(char, Option<ClaimAnswer>), EngineError> {
        let args = vec![how.to_owned(), hold.claim.to_string()];
        let reply = self.run_drop(&scripts::DROP_END, feed, &hold.drop, now, args).await?;
        let (kind, rest) = split(reply.text(0)?)?;
        let sold = match kind {
            'n' | 'a' if how == "confirm" => Some(read_claim(rest, hold.clone())?.sold()?),
            _ => None,
        };
        Ok((kind, sold))
    }
}

impl DropStore for RedisEngine {
    fn define_drop<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        spec: DropSpec,
        now: Millis,
    ) -> Wait<'a, Defined> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let args = vec![SpecNumbers(&spec).to_string(), spec.gift.to_string(), MAX_DROPS.to_string()];
            let reply = self.store.run_drop(&scripts::DROP_DEFINE, feed, drop, now, args).await?;
            Ok(match reply.text(0)? {
                "n" => Defined::New(wire::view(reply.text(1)?)?),
                "c" => Defined::Changed(wire::view(reply.text(1)?)?),
                "b" => Defined::BelowTaken(reply.text(1)?.parse().map_err(|_| Garbled("a count"))?),
                "f" => Defined::Full,
                _ => return Err(Garbled("what became of a definition").into()),
            })
        })
    }

    fn tick<'a>(&'a self, feed: &'a FeedId, drop: &'a DropId, now: Millis) -> Wait<'a, Option<DropView>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(self.store.tick(feed, drop, now).await?.view)
        })
    }

    fn drops<'a>(&'a self, feed: &'a FeedId, now: Millis) -> Wait<'a, Vec<DropView>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let mut cmd = redis::cmd("HKEYS");
            cmd.arg(self.store.keys.drops(feed));
            let names = self.store.lane().command(&cmd, self.store.options.call_timeout).await?;
            let names =
                redis::from_redis_value::<Vec<String>>(names).map_err(|_| Garbled("names of drops"))?;
            let mut names: Vec<DropId> = names.iter().filter_map(|name| name.parse().ok()).collect();
            names.sort_unstable();
            // One after the other: what watchers are told by the way comes in a fixed order.
            let mut views = Vec::with_capacity(names.len());
            for name in &names {
                views.extend(self.store.tick(feed, name, now).await?.view);
            }
            Ok(views)
        })
    }

    fn claim<'a>(
        &'a self,
        feed: &'a FeedId,
        drop: &'a DropId,
        claim: Claim,
        now: Millis,
    ) -> Wait<'a, Claimed> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let (reply, answer) = oneshot::channel();
            let party = Party { items: vec![claim], now: self.store.clock(Some(now)), reply };
            let key = (feed.clone(), drop.clone());
            // A run goes on when its caller has gone: others may wait for it.
            if let Some(group) = self.store.claims.join(&key, party) {
                tokio::spawn(self.store.clone().claim(key, group));
            }
            let mut answers = self.store.in_line(answer).await?;
            Ok(answers.pop().ok_or(Garbled("an answer to a claim"))?)
        })
    }

    fn confirm<'a>(&'a self, feed: &'a FeedId, hold: &'a HoldId, now: Millis) -> Wait<'a, Confirmed> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(match self.store.end(feed, hold, "confirm", now).await? {
                ('n', Some(answer)) => Confirmed::New(answer),
                ('a', Some(answer)) => Confirmed::Again(answer),
                ('e', _) => Confirmed::Ended,
                _ => Confirmed::Unknown,
            })
        })
    }

    fn cancel<'a>(&'a self, feed: &'a FeedId, hold: &'a HoldId, now: Millis) -> Wait<'a, Cancelled> {
        Box::pin(async move {
            let _permit = self.permit()?;
            Ok(match self.store.end(feed, hold, "cancel", now).await?.0 {
                'n' => Cancelled::Done,
                'e' => Cancelled::Ended,
                _ => Cancelled::Unknown,
            })
        })
    }

    fn holds<'a>(&'a self, feed: &'a FeedId, user: &'a str, now: Millis) -> Wait<'a, Vec<Hold>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let keys = vec![self.store.keys.unpaid(feed)];
            let args = vec![user_digest(user).to_string(), HOLDS.to_owned()];
            let reply =
                self.store.run(&scripts::HOLDS, feed, Some(now), Extra { keys, args, many: 0 }).await?;
            // A feed whose state is doubtful tells no position; holds do not hang on it.
            let texts = reply.texts.iter().skip(usize::from(reply.mark.is_none()));
            Ok(texts.map(|text| read_hold(text)).collect::<Result<_, _>>()?)
        })
    }
}

/// A claim's ARGV, 7 of them, in the order of `lua/feed_drop_claim.lua`.
fn claim_args(claim: &Claim) -> [String; CLAIM_ARGS] {
    [
        claim.id.to_string(),
        claim.fingerprint.to_string(),
        user_digest(&claim.user.id).to_string(),
        claim.count.to_string(),
        if claim.pay == Pay::Now { "now" } else { "later" }.to_owned(),
        claim.user.to_json(),
        claim.message_json().as_deref().unwrap_or_default().to_owned(),
    ]
}

fn split(text: &str) -> Result<(char, &str), Garbled> {
    let mut rest = text.chars();
    let kind = rest.next().ok_or(Garbled("an answer about a drop"))?;
    Ok((kind, rest.as_str()))
}

/// What `claims` has of a claim.
struct Filled {
    claim: HoldId,
    fingerprint: String,
    count: u64,
    expires: Option<Millis>,
    sale: Option<Sale>,
}

impl Filled {
    fn first(self) -> Result<ClaimAnswer, Garbled> {
        match self.expires {
            Some(at) => {
                Ok(ClaimAnswer { claim: self.claim, count: self.count, fate: ClaimOutcome::Held(at) })
            }
            None => self.sold(),
        }
    }

    fn sold(self) -> Result<ClaimAnswer, Garbled> {
        let sale = self.sale.ok_or(Garbled("a sale"))?;
        Ok(ClaimAnswer { claim: self.claim, count: self.count, fate: ClaimOutcome::Sold(sale) })
    }
}

fn read_claim(text: &str, claim: HoldId) -> Result<Filled, Garbled> {
    const WHAT: Garbled = Garbled("a claim");
    let head = text.split('\n').next().ok_or(WHAT)?;
    let [fingerprint, count, _, expires, seq, epoch, row] = head.split(' ').collect::<Vec<_>>()[..] else {
        return Err(WHAT);
    };
    let count = count.parse().map_err(|_| WHAT)?;
    let expires: i64 = expires.parse().map_err(|_| WHAT)?;
    let sale = match row {
        "-" => None,
        row => {
            let epoch = epoch.parse().map_err(|_| WHAT)?;
            let at = Position { epoch, seq: seq.parse().map_err(|_| WHAT)? };
            Some(Sale { at, row: row.parse().map_err(|_| WHAT)? })
        }
    };
    let expires = (expires > 0).then_some(Millis(expires));
    Ok(Filled { claim, fingerprint: fingerprint.to_owned(), count, expires, sale })
}

/// What `feed_drop_claim` says to one claim.
fn claimed(text: &str, drop: &DropId, claim: &Claim) -> Result<Claimed, Garbled> {
    let (kind, rest) = split(text)?;
    let own = || HoldId { drop: drop.clone(), claim: claim.id.clone() };
    let number = || rest.parse::<u64>().map_err(|_| Garbled("a number about a claim"));
    let refused = match kind {
        'n' => return Ok(Claimed::New(read_claim(rest, own())?.first()?)),
        'a' => {
            let filled = read_claim(rest, own())?;
            if filled.fingerprint == claim.fingerprint.to_string() {
                return Ok(Claimed::Again(filled.first()?));
            }
            ClaimRefused::IdReused
        }
        'u' => ClaimRefused::UnknownDrop,
        'p' => ClaimRefused::AbovePerUser(number()?),
        'o' => ClaimRefused::NotOpen(rest.parse::<Phase>().map_err(|()| Garbled("a phase"))?),
        'c' => ClaimRefused::AlreadyClaimed(match rest.split_once('\n') {
            Some((id, text)) => {
                let claim = id.parse().map_err(|_| Garbled("a claim's id"))?;
                Some(read_claim(text, HoldId { drop: drop.clone(), claim })?.first()?)
            }
            None => None,
        }),
        's' => ClaimRefused::SoldOut(number()?),
        'h' => ClaimRefused::TooManyHolds(number()?),
        _ => return Err(Garbled("an answer to a claim")),
    };
    Ok(Claimed::Refused(refused))
}

/// A member of `unpaid`.
fn read_hold(text: &str) -> Result<Hold, Garbled> {
    const WHAT: Garbled = Garbled("a hold");
    let [_, expires, hold, count] = text.split(' ').collect::<Vec<_>>()[..] else { return Err(WHAT) };
    Ok(Hold {
        hold: hold.parse().map_err(|_| WHAT)?,
        count: count.parse().map_err(|_| WHAT)?,
        expires_at: Millis(expires.parse().map_err(|_| WHAT)?),
    })
}
