//! `GET /v1/admin/overview`: how feeds, groups and webhooks stand, for the page of those who look after them.

use std::fmt::Write;
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpResponse, web};

use super::Gate;
use super::dead::Letterbox;
use super::groups::{push_view, views};
use super::webhooks::to_json;
use crate::domain::{FeedId, HookScope, Millis, Reader};
use crate::http::problem::ApiError;

/// How long an overview is shown to others who ask: so many pages cost as much as one.
const KEPT: Duration = Duration::from_secs(1);

/// Feeds, and groups, of one overview: the most watched, and the first by name.
const MOST: usize = 200;

/// Dead letters of one overview.
const MOST_DEAD: usize = 100;

/// The last overview. Locked while one is made, so that it is made once.
pub type Kept = tokio::sync::Mutex<Option<(Instant, web::Bytes)>>;

/// `GET /v1/admin/overview`
pub(super) async fn overview(gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let mut kept = gate.overview.lock().await;
    let text = match &*kept {
        Some((made, text)) if made.elapsed() < KEPT => text.clone(),
        _ => {
            let text = web::Bytes::from(compose(&gate).await?);
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

async fn compose(gate: &Gate) -> Result<String, ApiError> {
    let mut out = format!("{{\"server_time\":\"{}\",\"watchers\":{}", Millis::now(), gate.live.watchers());
    let more_feeds = push_feeds(&mut out, gate).await?;

    let readers = gate.ask(gate.engine.readers(None)).await?;
    let mut groups: Vec<_> = readers
        .into_iter()
        .filter_map(|(feed, reader)| match reader {
            Reader::Group(group) => Some((feed, group)),
            _ => None,
        })
        .collect();
    let more_groups = groups.len() > MOST;
    groups.truncate(MOST);
    let groups = views(gate, groups).await?;
    out.push_str(",\"groups\":[");
    for (n, (feed, group, view)) in groups.iter().enumerate() {
        let _ = write!(out, "{}{{\"feed\":\"{feed}\",", if n == 0 { "" } else { "," });
        push_view(&mut out, group, view);
        out.push('}');
    }

    let mut hooks = gate.ask(gate.engine.hooks()).await?;
    // Those of all feeds first: they matter most, and are few.
    hooks.sort_by_key(|(key, _)| key.scope != HookScope::All);
    let shown: Vec<String> = hooks.iter().take(MOST).map(|(key, hook)| to_json(key, hook)).collect();
    let more_hooks = hooks.len() > MOST;
    let _ = write!(out, "],\"webhooks\":[{}],\"dead\":[", shown.join(","));

    let (mut listed, mut more_dead) = (0, false);
    for (feed, group, _) in groups.iter().filter(|(_, _, view)| view.dead > 0) {
        if !more_dead {
            let letters = Letterbox::of_known(feed.clone(), Reader::Group(group.clone()), gate);
            let whose = format!(",\"scope\":\"{feed}\",\"group\":\"{group}\"");
            more_dead = letters.list(&mut out, &mut listed, MOST_DEAD, &whose).await?;
        }
    }
    for (key, _) in hooks.iter().take(MOST) {
        if !more_dead {
            let letters = Letterbox::of_hook(key, gate).await?;
            let whose = format!(",\"scope\":\"{}\",\"webhook\":\"{}\"", key.scope, key.name);
            more_dead = letters.list(&mut out, &mut listed, MOST_DEAD, &whose).await?;
        }
    }
    let _ = write!(
        out,
        "],\"more\":{{\"feeds\":{more_feeds},\"groups\":{more_groups},\"webhooks\":{more_hooks},\
         \"dead\":{more_dead}}}}}"
    );
    Ok(out)
}

/// What this node follows; whether there is more.
async fn push_feeds(out: &mut String, gate: &Gate) -> Result<bool, ApiError> {
    let mut feeds = gate.live.watched();
    feeds.sort_by(|a, b| b.watchers.cmp(&a.watchers).then_with(|| a.feed.cmp(&b.feed)));
    let names: Vec<FeedId> = feeds.iter().take(MOST).map(|it| it.feed.clone()).collect();
    let presence = gate.ask(gate.engine.presence(&names)).await?;
    out.push_str(",\"feeds\":[");
    for (n, (it, everywhere)) in feeds.iter().zip(presence).enumerate() {
        let _ = write!(
            out,
            "{}{{\"feed\":\"{}\",\"watchers\":{},\"everywhere\":{},\"epoch\":\"{}\",\"seq\":{}}}",
            if n == 0 { "" } else { "," },
            it.feed,
            it.watchers,
            everywhere.watchers,
            it.at.epoch,
            it.at.seq
        );
    }
    out.push(']');
    Ok(feeds.len() > MOST)
}
