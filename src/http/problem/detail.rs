//! What an error says about this occurrence of it, to the person who made the request.

use super::ApiError;
use crate::auth::keys::Denied;
use crate::domain::Phase;
use crate::engine::{HOOKS_OF_ALL_MAX, READERS_MAX};

impl ApiError {
    /// What is said to the person who made this request; `None` if nothing may be said.
    pub(super) fn detail(&self) -> Option<String> {
        Some(match self {
            ApiError::Syntax(why) | ApiError::BrokenBody(why) | ApiError::NotFound(why) => why.clone(),
            ApiError::UnsupportedMediaType(why) | ApiError::PartDown(why) | ApiError::NotReady(why) => {
                why.clone()
            }
            ApiError::BadHandshake(why) | ApiError::Unverified(why) => why.clone(),
            ApiError::MalformedPath(name) => format!(
                "{{{name}}} in the path is not percent-encoded UTF-8; encode it once (a literal % is %25, a slash %2F)"
            ),
            ApiError::TooManySources(most) => format!("a feed has at most {most} sources; delete one"),
            ApiError::Unauthenticated { tried: false } => {
                "send a key as Authorization: Bearer tck_...".to_owned()
            }
            ApiError::Unauthenticated { tried: true } => {
                "what the Authorization header holds is no valid key; send Bearer and a key, or to read and watch a \
                 viewer token"
                    .to_owned()
            }
            ApiError::BadToken(bad) => bad.detail().to_owned(),
            ApiError::BadSignature(why) => why.detail().to_owned(),
            ApiError::NotYours(why) => (*why).to_owned(),
            ApiError::NotAllowed(Denied::Right(right)) => {
                format!("this key or token does not have the right \"{right}\"")
            }
            ApiError::NotAllowed(Denied::Feed(feed)) if **feed == *"*" => {
                "this key is not for all feeds (\"*\")".to_owned()
            }
            ApiError::NotAllowed(Denied::Feed(feed)) => {
                format!("this key or token is not for the feed {feed:?}")
            }
            ApiError::NotAllowed(Denied::Signed) => {
                "a signed request may only post gifts and batches; send another key for this".to_owned()
            }
            ApiError::Replayed => {
                "this webhook-id came before for another path, or longer ago than the feed remembers ids; give each \
                 request a webhook-id of its own"
                    .to_owned()
            }
            ApiError::KeysNeeded => {
                "there are no keys, so this is answered only to programs of this machine that ask a loopback name \
                 over HTTP/1.1, without a header that proxies add; make a key with `tipcast key new` and put its hash into [auth] producer_keys"
                    .to_owned()
            }
            ApiError::Misdirected => {
                "this server is not asked by that name; the operator lists its names in [http] hosts".to_owned()
            }
            ApiError::ForeignOrigin => {
                "this page's origin may not do that; the operator lists origins in [http] allowed_origins"
                    .to_owned()
            }
            ApiError::RateLimited(s) => format!("try again in {s} s; a retry with the same id is safe"),
            ApiError::TooManySubscriptions(why) => (*why).to_owned(),
            ApiError::TooManyWaitingClaims(whose) => {
                format!("as many claims of {whose} wait for entries as may; claim again after Retry-After")
            }
            ApiError::TooManyConnections => "close some of this address's connections first".to_owned(),
            ApiError::NoPlace => "there are as many watchers as may be; try again later".to_owned(),
            ApiError::MethodNotAllowed(allow) => format!("this path answers {allow}"),
            ApiError::BodyTimeout(ms) => format!("the body did not arrive within {ms} ms; send it again"),
            ApiError::TooLarge(limit) => format!("the body may have at most {limit} bytes"),
            ApiError::Invalid(faults) => match &faults[..] {
                [one] if one.pointer.is_empty() => one.detail.clone(),
                [one] => format!("{} {}", one.pointer, one.detail),
                many => format!("{} things are wrong; see errors", many.len()),
            },
            ApiError::IdReused(id) => {
                format!("the id {id} came before with another payload; give a new gift a new id")
            }
            ApiError::NotCounted(_) => {
                "the feed's policy counts no such period; PATCH its policy with totals first".to_owned()
            }
            ApiError::TooManyGoals => {
                let most = crate::domain::tally::MAX_GOALS;
                format!("a feed has at most {most} goals; delete one that nobody needs")
            }
            ApiError::DropTotal(taken) => format!("{taken} units are sold or held; give at least that total"),
            ApiError::SoldOut(0) => "nothing is free".to_owned(),
            ApiError::SoldOut(free) => {
                format!("only {free} are free, and a claim is filled whole or refused")
            }
            ApiError::AlreadyClaimed(_) => {
                "the user would have more units than one may; claim is the answer to the first claim"
                    .to_owned()
            }
            ApiError::TooManyHolds(s) => {
                format!("confirm or cancel one of the user's unpaid holds; the earliest ends in {s} s")
            }
            ApiError::DropNotOpen(Phase::Closed) => "the drop has closed".to_owned(),
            ApiError::DropNotOpen(_) => "the drop has not opened yet".to_owned(),
            ApiError::NothingToRefund(why) => (*why).to_owned(),
            ApiError::HoldEnded => "the hold has ended; what it held is free again or sold".to_owned(),
            ApiError::TooManyReaders => {
                format!(
                    "a feed has at most {READERS_MAX} groups and webhooks, and all feeds together at most \
                     {HOOKS_OF_ALL_MAX} webhooks of \"*\"; delete one that nobody needs"
                )
            }
            ApiError::UpgradeRequired => "connect with a WebSocket client".to_owned(),
            ApiError::Internal => return None,
            ApiError::ScheduleFull(s) => format!(
                "as many gifts of this feed wait to be shown as may; the first of them is due in {s} s"
            ),
            ApiError::ReviewFull(s) => format!(
                "as many gifts of this feed wait for review as may; time decides about the first of them in {s} s"
            ),
            ApiError::Reviewed(decision) => format!("the decision about this gift was {decision}"),
            ApiError::UserBlocked => "a host has blocked this user here".to_owned(),
            ApiError::TooManyBlocks(most) => {
                format!("at most {most} users are blocked here; end a block that nobody needs any more")
            }
            ApiError::AlreadyShown(id) => {
                format!("the gift {id} was shown already; to take it from the screens, retract its row")
            }
            ApiError::Unavailable => "the store does not answer; a retry with the same id is safe".to_owned(),
            ApiError::Overloaded(what) => format!("the {what} is full; a retry with the same id is safe"),
            ApiError::StoreFull => "the store has no room for more; nothing was written, and a retry with the same id is safe. \
                The operator sees why at GET /readyz"
                .to_owned(),
            ApiError::NotReplicated => {
                "too few replicas have it yet; a retry with the same id is safe".to_owned()
            }
            ApiError::FeedDamaged => {
                "what is stored of this feed cannot be read; the operator finds it with \
                `tipcast store check` and restores it from a backup. Other feeds are not affected"
                    .to_owned()
            }
        })
    }
}
