//! Dead letters: entries that a group or a webhook was handed often enough, listed and sent again.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::value::RawValue;

use super::{Gate, body, feed_of, group_of, hook_of, unknown_group, unknown_hook};
use crate::domain::json::fault;
use crate::domain::pull::MAX_AT_ONCE;
use crate::domain::{
    Cursor, DeadLetter, FeedId, HookKey, HookScope, Millis, Reader, Replay, ReplayWish, json,
};
use crate::engine::MAX_LISTED;
use crate::http::answers::{self, DeadLetterList, ReplayResult, fresh};
use crate::http::problem::ApiError;

/// The dead letters of one group or one webhook.
pub(super) struct Letterbox<'a> {
    gate: &'a Gate,
    /// Feeds in which there may be some.
    feeds: Vec<FeedId>,
    reader: Reader,
    /// The feed is a part of their ids.
    of_all: bool,
}

impl<'a> Letterbox<'a> {
    async fn of_group(req: &HttpRequest, gate: &'a Gate) -> Result<Letterbox<'a>, ApiError> {
        let (feed, group) = (feed_of(req)?, group_of(req)?);
        let known = gate.read(gate.store.read_group(&feed, &group, Millis::now())).await?;
        known.ok_or_else(unknown_group)?;
        Ok(Letterbox { gate, feeds: vec![feed], reader: Reader::Group(group), of_all: false })
    }

    async fn of_webhook(req: &HttpRequest, gate: &'a Gate) -> Result<Letterbox<'a>, ApiError> {
        let key = hook_of(req)?;
        gate.run(gate.store.read_webhook(&key)).await?.ok_or_else(unknown_hook)?;
        Letterbox::of_hook(&key, gate).await
    }

    /// That of a webhook which there is.
    pub(super) async fn of_hook(key: &HookKey, gate: &'a Gate) -> Result<Letterbox<'a>, ApiError> {
        let (feeds, of_all) = match &key.scope {
            HookScope::Feed(feed) => (vec![feed.clone()], false),
            HookScope::All => (gate.run(gate.store.list_dead_letter_feeds(&key.name)).await?, true),
        };
        Ok(Letterbox { gate, feeds, reader: key.reader(), of_all })
    }

    /// That of a group which there is.
    pub(super) fn of_known(feed: FeedId, reader: Reader, gate: &'a Gate) -> Letterbox<'a> {
        Letterbox { gate, feeds: vec![feed], reader, of_all: false }
    }

    fn id(&self, feed: &FeedId, cursor: Cursor) -> String {
        match self.of_all {
            true => format!("{feed}/{cursor}"),
            false => cursor.to_string(),
        }
    }

    /// Appends to `listed` until it has `most`; whether there are more.
    pub(super) async fn list<T>(
        &self,
        listed: &mut Vec<T>,
        most: usize,
        shown: impl Fn(answers::DeadLetter) -> T,
    ) -> Result<bool, ApiError> {
        for feed in &self.feeds {
            // One more says that there are more.
            for letter in self.page(feed, 0, most - listed.len() + 1).await? {
                if listed.len() == most {
                    return Ok(true);
                }
                listed.push(shown(self.shown(feed, letter)?));
            }
        }
        Ok(false)
    }

    async fn page(&self, feed: &FeedId, skip: usize, max: usize) -> Result<Vec<DeadLetter>, ApiError> {
        self.gate.run(self.gate.store.list_dead_letters(feed, &self.reader, skip, max)).await
    }

    fn shown(&self, feed: &FeedId, letter: DeadLetter) -> Result<answers::DeadLetter, ApiError> {
        let DeadLetter { died_at, reason, attempts, entry } = letter;
        let mut text = String::with_capacity(320 + entry.gift.len());
        entry.push_json(&mut text, feed, None);
        let entry_as_json = RawValue::from_string(text).map_err(|error| {
            tracing::error!(%feed, cursor = %entry.cursor, %error, "a stored entry is no JSON");
            ApiError::Internal
        })?;
        let id = self.id(feed, entry.cursor);
        Ok(answers::DeadLetter { id, feed: feed.clone(), reason, died_at, attempts, entry: entry_as_json })
    }

    /// Sends again what was wished; how many there were.
    async fn replay(&self, wish: &ReplayWish) -> Result<u64, ApiError> {
        if self.of_all && matches!(wish, ReplayWish::Range(..)) {
            let detail = "and to are of one feed's cursors; a webhook of all feeds takes ids";
            return Err(ApiError::Invalid(vec![fault("/from", detail)]));
        }
        let mut replayed = 0;
        for feed in &self.feeds {
            let which = match wish {
                ReplayWish::All => vec![Replay::All],
                wish => self.chosen(feed, wish).await?,
            };
            for which in which {
                let replay = self.gate.store.replay_dead_letters(feed, &self.reader, &which, Millis::now());
                replayed += self.gate.run(replay).await?;
            }
        }
        Ok(replayed)
    }

    /// The dead letters of one feed that the request asks for.
    async fn chosen(&self, feed: &FeedId, wish: &ReplayWish) -> Result<Vec<Replay>, ApiError> {
        let wanted = |letter: &&DeadLetter| match wish {
            ReplayWish::All => true,
            ReplayWish::Range(first, last) => (*first..=*last).contains(&letter.entry.cursor),
            ReplayWish::Ids(ids) => {
                let (id, gift) = (self.id(feed, letter.entry.cursor), letter.entry.gift_id());
                ids.iter().any(|wanted| *wanted == id || Some(wanted) == gift.as_ref())
            }
        };
        let (mut cursors, mut skip) = (Vec::<Cursor>::new(), 0);
        loop {
            let letters = self.page(feed, skip, MAX_AT_ONCE).await?;
            cursors.extend(letters.iter().filter(wanted).map(|letter| letter.entry.cursor));
            skip += letters.len();
            if letters.len() < MAX_AT_ONCE {
                break;
            }
        }
        Ok(cursors.chunks(MAX_AT_ONCE).map(|some| Replay::Only(some.to_vec())).collect())
    }
}

/// `GET /v1/feeds/{feed}/groups/{group}/dead`
pub(in crate::http) async fn of_group(
    req: HttpRequest,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    answer_list(Letterbox::of_group(&req, &gate).await?).await
}

/// `GET /v1/feeds/{feed}/webhooks/{name}/dead`
pub(in crate::http) async fn of_webhook(
    req: HttpRequest,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    answer_list(Letterbox::of_webhook(&req, &gate).await?).await
}

async fn answer_list(letters: Letterbox<'_>) -> Result<HttpResponse, ApiError> {
    let mut dead = Vec::new();
    let more = letters.list(&mut dead, MAX_LISTED, |letter| letter).await?;
    Ok(fresh(StatusCode::OK, &DeadLetterList { dead, more }))
}

/// `POST /v1/feeds/{feed}/groups/{group}/dead/replay`
pub(in crate::http) async fn replay_group(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let wish = read_wish(&req, payload, &gate).await?;
    answer_replay(Letterbox::of_group(&req, &gate).await?, &wish).await
}

/// `POST /v1/feeds/{feed}/webhooks/{name}/dead/replay`
pub(in crate::http) async fn replay_webhook(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let wish = read_wish(&req, payload, &gate).await?;
    answer_replay(Letterbox::of_webhook(&req, &gate).await?, &wish).await
}

async fn read_wish(req: &HttpRequest, payload: web::Payload, gate: &Gate) -> Result<ReplayWish, ApiError> {
    // A thousand ids are larger than a gift may be.
    let bytes = body::read(req, payload, gate.limits.batch, gate.limits.body_time).await?;
    Ok(ReplayWish::parse(json::syntax(&bytes)?)?)
}

async fn answer_replay(letters: Letterbox<'_>, wish: &ReplayWish) -> Result<HttpResponse, ApiError> {
    let replayed = letters.replay(wish).await?;
    Ok(fresh(StatusCode::OK, &ReplayResult { replayed }))
}
