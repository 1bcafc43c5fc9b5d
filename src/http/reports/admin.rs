//! `GET /v1/admin/overview`: how feeds, groups and webhooks stand, for the page of those who look after them.

use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpResponse, web};

use super::Gate;
use super::dead::Letterbox;
use super::groups::views;
use crate::domain::{FeedId, HookScope, Millis, Reader};
use crate::http::answers::{Group, More, Overview, OverviewDeadLetter, OverviewGroup, WatchedFeed, Webhook};
use crate::http::problem::ApiError;
use crate::live::Watched;

/// How long an overview is shown to others who ask: many pages cost as much as one.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// Feeds, and groups, of one overview: the most watched, and the first by name.
const MAX_LISTED: usize = 200;

/// Dead letters of one overview.
const MOST_DEAD: usize = 100;

/// The last overview. Locked while one is made, so that it is made once.
pub type Kept = tokio::sync::Mutex<Option<(Instant, web::Bytes)>>;

/// `GET /v1/admin/overview`
pub(in crate::http) async fn overview(gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let mut kept = gate.overview.lock().await;
    let text = match &*kept {
        Some((made, text)) if made.elapsed() < CACHE_TIME => text.clone(),
        _ => {
            let text = web::Bytes::from(serde_json::to_vec(&compose(&gate).await?).map_err(|error| {
                tracing::error!(%error, "the overview cannot be written as JSON");
                ApiError::Internal
            })?);
            *kept = Some((Instant::now(), text.clone()));
            text
        }
    };
    drop(kept);
    Ok(HttpResponse::build(StatusCode::OK)
        .content_type("application/json")
        .insert_header((CACHE_CONTROL, "no-store"))
        .body(text))
}

async fn compose(gate: &Gate) -> Result<Overview, ApiError> {
    let mut more = More::default();
    let mut feeds = gate.live.watched();
    feeds.sort_by(|a, b| b.watchers.cmp(&a.watchers).then_with(|| a.feed.cmp(&b.feed)));
    more.feeds = feeds.len() > MAX_LISTED;
    feeds.truncate(MAX_LISTED);
    let names: Vec<FeedId> = feeds.iter().map(|it| it.feed.clone()).collect();
    // What cannot be asked leaves what this node knows; the overview shows the rest.
    let mut everywhere = gate.run(gate.store.read_presence(&names)).await.unwrap_or_default().into_iter();

    let readers = gate.run(gate.store.list_readers(None)).await?;
    let mut groups: Vec<_> = readers
        .into_iter()
        .filter_map(|(feed, reader)| match reader {
            Reader::Group(group) => Some((feed, group)),
            _ => None,
        })
        .collect();
    more.groups = groups.len() > MAX_LISTED;
    groups.truncate(MAX_LISTED);
    let groups = views(gate, groups).await?;

    let mut hooks = gate.run(gate.store.list_webhooks()).await?;
    // Those of all feeds first: they matter most, and are few.
    hooks.sort_by_key(|(key, _)| key.scope != HookScope::All);
    more.webhooks = hooks.len() > MAX_LISTED;
    hooks.truncate(MAX_LISTED);

    let mut dead = Vec::new();
    for (feed, group, _) in groups.iter().filter(|(_, _, view)| view.dead > 0) {
        if !more.dead {
            let letters = Letterbox::of_known(feed.clone(), Reader::Group(group.clone()), gate);
            let shown = |letter| OverviewDeadLetter::of_group(letter, group);
            more.dead = letters.list(&mut dead, MOST_DEAD, shown).await?;
        }
    }
    for (key, _) in &hooks {
        if !more.dead {
            let letters = Letterbox::of_hook(key, gate).await?;
            let shown = |letter| OverviewDeadLetter::of_webhook(letter, key);
            more.dead = letters.list(&mut dead, MOST_DEAD, shown).await?;
        }
    }
    let mut watched = |it: Watched| {
        let Watched { feed, watchers, at, .. } = it;
        let everywhere = everywhere.next().map_or(0, |it| it.watchers).max(watchers as u64);
        WatchedFeed { feed, watchers, everywhere, epoch: at.epoch.to_string(), seq: at.seq }
    };
    Ok(Overview {
        server_time: Millis::now(),
        watchers: gate.live.watchers(),
        feeds: feeds.into_iter().map(&mut watched).collect(),
        groups: groups
            .into_iter()
            .map(|(feed, group, view)| OverviewGroup { feed, group: Group::new(&group, &view) })
            .collect(),
        webhooks: hooks.iter().map(|(key, hook)| Webhook::new(key, hook)).collect(),
        dead,
        more,
    })
}
