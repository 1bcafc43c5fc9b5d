//! Drops, claims and holds: what their scripts are called with, and what they answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::domain::claim::user_digest;
use crate::domain::drop::MAX_DROPS;
use crate::domain::moderate::{GiftRefunded, TakingBack};
use crate::domain::{
    Cancelled, Claim, ClaimAnswer, ClaimOutcome, ClaimRefused, ClaimState, ClaimStory, Claimed, Confirmed,
    Defined, DropId, DropSpec, DropView, DueKind, FeedId, Hold, HoldId, Millis, Pay, Phase, Position, Sale,
    Trace, Value,
};
use crate::engine::StoreError;
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::records::{StoredClaim, drop_spec, read_drop_at_rest};
use crate::engine::protocol::scripts::{self, Call, Script};
use crate::engine::protocol::wire::{self, Corrupt};
use crate::engine::store::feed::batcher::{Batch, Batcher, Submission};
use crate::engine::store::feed::lists::in_turn;
use crate::engine::store::feed::moderation::{read_reversal, taking_back_args};
use crate::engine::store::runner::{Reply, Runner};
use crate::engine::store::writer::{FeedWriter, Preconditions};

/// Holds of one user in one answer.
const MAX_HOLDS_LISTED: usize = 1000;

/// What was done of a drop.
pub(crate) struct Ticked {
    /// The store's clock.
    pub now: Millis,
    /// When the feed's due queue has something next.
    pub next: Option<Millis>,
    /// The drop, if there is one.
    pub view: Option<DropView>,
}

/// Drops with their stock, claims and holds.
pub(crate) struct DropStock {
    writer: Arc<FeedWriter>,
    claims: Batcher<(FeedId, DropId), Claim, Claimed>,
}

impl DropStock {
    pub fn new(writer: Arc<FeedWriter>) -> DropStock {
        DropStock { writer, claims: Batcher::default() }
    }

    fn runner(&self) -> &Runner {
        &self.writer.runner
    }

    /// A call of a script of drops, without what is its own.
    fn call(&self, script: &'static Script, feed: &FeedId, drop: &DropId) -> Call {
        let keys = &self.runner().keys;
        let [due, _] = keys.due(feed);
        let mut call = self.runner().feed_call(script, feed);
        call.keys([("due", due), ("drops", keys.drops(feed)), ("shown", keys.shown(feed))]);
        call.key("unpaid", keys.unpaid(feed));
        call.keys(["claims", "holds", "units"].map(|what| (what, keys.of_drop(feed, what, drop))));
        call.arg("drop", drop).arg("reminder", self.runner().options.drop_reminder_ms);
        call
    }

    /// Runs a script of drops, again and again while it says that more is due: each run ends a part of
    /// what has ended. `own` adds what only this script gets.
    async fn run(
        &self,
        script: &'static Script,
        feed: &FeedId,
        drop: &DropId,
        now: Millis,
        own: impl Fn(&mut Call) + Sync,
    ) -> Result<Reply, Fault> {
        let mut prepared = Preconditions::default();
        let runs = async {
            loop {
                let call = |_: &Preconditions| {
                    let mut call = self.call(script, feed, drop);
                    own(&mut call);
                    call
                };
                let reply = self.writer.write(feed, Some(now), &mut prepared, call).await?;
                if reply.texts.first().is_none_or(|text| text != "m") {
                    return Ok(reply);
                }
            }
        };
        tokio::time::timeout(self.runner().batch_timeout(), runs).await.unwrap_or_else(|_| {
            Err(Fault::stay("very many holds have expired, and ending them takes a while"))
        })
    }

    /// Does what is due of a drop.
    pub async fn tick(&self, feed: &FeedId, drop: &DropId, now: Millis) -> Result<Ticked, Fault> {
        let reply = self.run(&scripts::DROP_TICK, feed, drop, now, |_| {}).await?;
        let now = reply.mark()?.1;
        let next = reply.texts.get(1).and_then(|at| at.parse().ok()).map(Millis);
        Ok(Ticked { now, next, view: reply.texts.get(2).map(|text| wire::view(text)).transpose()? })
    }

    pub async fn define(
        &self,
        feed: &FeedId,
        drop: &DropId,
        spec: &DropSpec,
        now: Millis,
    ) -> Result<Defined, Fault> {
        let own = |call: &mut Call| {
            call.arg("spec", drop_spec(spec)).arg("most", MAX_DROPS);
        };
        let reply = self.run(&scripts::DROP_DEFINE, feed, drop, now, own).await?;
        Ok(match reply.text(0)? {
            "n" => Defined::New(wire::view(reply.text(1)?)?),
            "c" => Defined::Changed(wire::view(reply.text(1)?)?),
            "b" => Defined::BelowTaken(reply.text(1)?.parse().map_err(|_| Corrupt("a count"))?),
            "f" => Defined::Full,
            _ => return Err(Corrupt("what became of a definition").into()),
        })
    }

    /// Every drop of a feed: two reads, and a call for each whose clock has struck.
    pub async fn all(&self, feed: &FeedId, now: Millis) -> Result<Vec<DropView>, Fault> {
        let (runner, keys) = (self.runner(), &self.runner().keys);
        let (drops, [due, _]) = (keys.drops(feed), keys.due(feed));
        let kept: BTreeMap<String, String> = runner.get(&drops, redis::cmd("HGETALL").arg(&drops)).await?;
        if kept.is_empty() {
            return Ok(Vec::new());
        }
        let mut clocks = redis::cmd("ZMSCORE");
        clocks.arg(&due);
        let clock_of = |name: &String| format!("{:016} {}{name}", 0, DueKind::Drop.letter());
        clocks.arg(kept.keys().map(clock_of).collect::<Vec<_>>());
        let clocks: Vec<Option<f64>> = runner.get(&due, &clocks).await?;
        // One after the other, so that what is announced on the way comes in a fixed order.
        let mut views = Vec::with_capacity(kept.len());
        for ((name, text), strikes) in kept.iter().zip(clocks) {
            if strikes.is_none_or(|at| at > now.0 as f64) {
                views.push(read_drop_at_rest(name, text).ok_or(Corrupt("a drop"))?);
            } else {
                let name = name.parse().map_err(|_| Corrupt("a drop's name"))?;
                views.extend(self.tick(feed, &name, now).await?.view);
            }
        }
        Ok(views)
    }

    pub async fn claim(
        self: &Arc<Self>,
        feed: &FeedId,
        drop: &DropId,
        claim: Claim,
        now: Millis,
    ) -> Result<Claimed, StoreError> {
        let (reply, answer) = oneshot::channel();
        let submission = Submission { items: vec![claim], now: self.runner().clock(Some(now)), reply };
        let key = (feed.clone(), drop.clone());
        // A run goes on when its caller has gone: others may wait for it.
        if let Some(group) = self.claims.submit(&key, submission) {
            tokio::spawn(self.clone().claim_batches(key, group));
        }
        let mut answers = in_turn(self.runner(), answer).await?;
        Ok(answers.pop().ok_or(Corrupt("an answer to a claim"))?)
    }

    /// Runs one batch of claims, and what was submitted meanwhile, until nothing waits.
    async fn claim_batches(
        self: Arc<Self>,
        key: (FeedId, DropId),
        mut group: Vec<Submission<Claim, Claimed>>,
    ) {
        loop {
            let batch = Batch::of(group);
            let result = self.claim_all(&key, &batch.items, batch.now).await.map_err(Into::into);
            match self.claims.next(&key, batch.answer(result).as_ref()) {
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
    ) -> Result<Vec<Claimed>, Fault> {
        let own = |call: &mut Call| {
            for claim in claims {
                call.item([], claim_args(claim));
            }
        };
        // Where the store's own clock counts, this time is not looked at.
        let now = now.unwrap_or(Millis(0));
        let reply = self.run(&scripts::DROP_CLAIM, feed, drop, now, own).await?;
        let one = |(at, claim): (usize, &Claim)| Ok(claimed(reply.text(at)?, drop, claim)?);
        claims.iter().enumerate().map(one).collect()
    }

    async fn end(
        &self,
        feed: &FeedId,
        hold: &HoldId,
        (how, trace): (&str, Option<&Trace>),
        now: Millis,
    ) -> Result<(char, Option<ClaimAnswer>), Fault> {
        let own = |call: &mut Call| {
            call.arg("how", how).arg("claim", &hold.claim).arg("trace", trace_json(trace));
            if how == "confirm" {
                call.bounded();
            }
        };
        let reply = self.run(&scripts::DROP_END, feed, &hold.drop, now, own).await?;
        let (kind, rest) = split(reply.text(0)?)?;
        let sold = match kind {
            'n' | 'a' if how == "confirm" => Some(read_claim(rest, hold.clone())?.sold()?),
            _ => None,
        };
        Ok((kind, sold))
    }

    pub async fn confirm(
        &self,
        feed: &FeedId,
        hold: &HoldId,
        trace: Option<&Trace>,
        now: Millis,
    ) -> Result<Confirmed, Fault> {
        Ok(match self.end(feed, hold, ("confirm", trace), now).await? {
            ('n', Some(answer)) => Confirmed::New(answer),
            ('a', Some(answer)) => Confirmed::Again(answer),
            ('e', _) => Confirmed::Ended,
            _ => Confirmed::Unknown,
        })
    }

    pub async fn cancel(&self, feed: &FeedId, hold: &HoldId, now: Millis) -> Result<Cancelled, Fault> {
        Ok(match self.end(feed, hold, ("cancel", None), now).await?.0 {
            'n' => Cancelled::Done,
            'e' => Cancelled::Ended,
            _ => Cancelled::Unknown,
        })
    }

    pub async fn look_up(
        &self,
        feed: &FeedId,
        claim: &HoldId,
        now: Millis,
    ) -> Result<Option<ClaimStory>, Fault> {
        let keys = &self.runner().keys;
        let mut call = self.runner().feed_call(&scripts::DROP_LOOKUP, feed);
        call.for_a_reader();
        call.keys(["claims", "holds"].map(|what| (what, keys.of_drop(feed, what, &claim.drop))));
        call.key("retracted", keys.retracted(feed)).arg("claim", &claim.claim);
        let reply = self.runner().run_feed(call, feed, Some(now)).await?;
        let texts = &reply.texts[usize::from(reply.mark.is_none()).min(reply.texts.len())..];
        let [state, text] = texts else { return Ok(None) };
        let state =
            serde_json::from_value(state.as_str().into()).map_err(|_| Corrupt("what became of a claim"))?;
        Ok(Some(read_story(text, claim.clone(), state)?))
    }

    pub async fn reverse(
        &self,
        feed: &FeedId,
        claim: &HoldId,
        what: &TakingBack,
        now: Millis,
    ) -> Result<GiftRefunded, Fault> {
        let own = |call: &mut Call| {
            call.arg("claim", &claim.claim).arg("gift", claim.claim.sent());
            taking_back_args(call, what).arg("restock", if what.restock { "1" } else { "" });
            call.key("retracted", self.runner().keys.retracted(feed));
        };
        let reply = self.run(&scripts::DROP_REVERSE, feed, &claim.drop, now, own).await?;
        read_reversal(&reply)
    }

    pub async fn holds(&self, feed: &FeedId, user: &str, now: Millis) -> Result<Vec<Hold>, Fault> {
        let mut call = self.runner().feed_call(&scripts::HOLDS, feed);
        call.for_a_reader();
        call.key("unpaid", self.runner().keys.unpaid(feed));
        call.arg("user", user_digest(user)).arg("most", MAX_HOLDS_LISTED);
        let reply = self.runner().run_feed(call, feed, Some(now)).await?;
        // A feed in doubt gives no position, and a hold needs none.
        let texts = reply.texts.iter().skip(usize::from(reply.mark.is_none()));
        Ok(texts.map(|text| read_hold(text)).collect::<Result<_, _>>()?)
    }
}

/// What the script gets of a claim.
fn claim_args(claim: &Claim) -> [(&'static str, String); 8] {
    [
        ("claim", claim.id.to_string()),
        ("fingerprint", claim.fingerprint.to_string()),
        ("user_digest", user_digest(&claim.user.id).to_string()),
        ("units", claim.count.to_string()),
        ("pay", if claim.pay == Pay::Now { "now" } else { "later" }.to_owned()),
        ("user", claim.user.to_json()),
        ("message", claim.message_json().as_deref().unwrap_or_default().to_owned()),
        ("trace", trace_json(claim.trace.as_ref())),
    ]
}

fn split(text: &str) -> Result<(char, &str), Corrupt> {
    let mut rest = text.chars();
    let kind = rest.next().ok_or(Corrupt("an answer about a drop"))?;
    Ok((kind, rest.as_str()))
}

/// What `claims` has of a claim.
struct Filled {
    claim: HoldId,
    fingerprint: String,
    count: u64,
    value: Option<Value>,
    expires: Option<Millis>,
    sale: Option<Sale>,
}

impl Filled {
    fn first(self) -> Result<ClaimAnswer, Corrupt> {
        match self.expires {
            Some(at) => Ok(self.answer(ClaimOutcome::Held(at))),
            None => self.sold(),
        }
    }

    fn sold(mut self) -> Result<ClaimAnswer, Corrupt> {
        let sale = self.sale.take().ok_or(Corrupt("a sale"))?;
        Ok(self.answer(ClaimOutcome::Sold(sale)))
    }

    fn answer(self, fate: ClaimOutcome) -> ClaimAnswer {
        ClaimAnswer { claim: self.claim, count: self.count, value: self.value, fate }
    }
}

/// What `claims` has of a claim that is looked up.
fn read_story(text: &str, claim: HoldId, state: ClaimState) -> Result<ClaimStory, Corrupt> {
    let it = stored_claim(text)?;
    let (user, at, expires_at) = (it.user.to_owned(), Millis(it.made_at), it.expires_at.map(Millis));
    let refunded = it.sale.as_ref().and_then(|sale| sale.refunded).unwrap_or(0);
    let filled = filled(it, claim);
    let answer = if filled.sale.is_some() { filled.sold()? } else { filled.first()? };
    Ok(ClaimStory { state, answer, user, at, expires_at, refunded })
}

fn read_claim(text: &str, claim: HoldId) -> Result<Filled, Corrupt> {
    Ok(filled(stored_claim(text)?, claim))
}

fn stored_claim(text: &str) -> Result<StoredClaim<'_>, Corrupt> {
    serde_json::from_str(text).map_err(|_| Corrupt("a claim"))
}

fn filled(it: StoredClaim<'_>, claim: HoldId) -> Filled {
    let sale = it.sale.map(|sale| Sale { at: Position { epoch: sale.epoch, seq: sale.seq }, row: sale.row });
    let expires = it.expires_at.map(Millis);
    Filled { claim, fingerprint: it.fingerprint, count: it.count, value: it.value, expires, sale }
}

/// What `feed_drop_claim` says to one claim.
fn claimed(text: &str, drop: &DropId, claim: &Claim) -> Result<Claimed, Corrupt> {
    let (kind, rest) = split(text)?;
    let own = || HoldId { drop: drop.clone(), claim: claim.id.clone() };
    let number = || rest.parse::<u64>().map_err(|_| Corrupt("a number about a claim"));
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
        'o' => ClaimRefused::NotOpen(rest.parse::<Phase>().map_err(|()| Corrupt("a phase"))?),
        'c' => ClaimRefused::AlreadyClaimed(match rest.split_once('\n') {
            Some((id, text)) => {
                let claim = id.parse().map_err(|_| Corrupt("a claim's id"))?;
                Some(read_claim(text, HoldId { drop: drop.clone(), claim })?.first()?)
            }
            None => None,
        }),
        's' => ClaimRefused::SoldOut(number()?),
        'h' => ClaimRefused::TooManyHolds(number()?),
        _ => return Err(Corrupt("an answer to a claim")),
    };
    Ok(Claimed::Refused(refused))
}

/// A member of `unpaid`.
fn read_hold(text: &str) -> Result<Hold, Corrupt> {
    const WHAT: Corrupt = Corrupt("a hold");
    let [_, expires, hold, count] = text.split(' ').collect::<Vec<_>>()[..] else { return Err(WHAT) };
    Ok(Hold {
        hold: hold.parse().map_err(|_| WHAT)?,
        count: count.parse().map_err(|_| WHAT)?,
        expires_at: Millis(expires.parse().map_err(|_| WHAT)?),
    })
}

/// The step of a trace as the entry of a sale has it; "" for none.
fn trace_json(trace: Option<&Trace>) -> String {
    trace.and_then(|trace| serde_json::to_string(trace).ok()).unwrap_or_default()
}
