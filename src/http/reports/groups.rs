//! Groups: handing entries out and taking them back.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;

use super::{Gate, ask_each, body, feed_of, group_of, unknown_group, waiting};
use crate::domain::pull::Seek;
use crate::domain::{Cursors, FeedId, GroupId, GroupView, Millis, Pull, Reader, Taken, json};
use crate::http::answers::{AckResult, Group, GroupList, NackResult, SeekResult, fresh, fresh_text};
use crate::http::caller_of;
use crate::http::problem::ApiError;

/// `POST /v1/feeds/{feed}/groups/{group}/claim`
pub(in crate::http) async fn claim(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, group) = (feed_of(&req)?, group_of(&req)?);
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let pull = Pull::parse(json::syntax(&bytes)?)?;
    let taken = waiting::take(&gate, &caller_of(&req), &feed, &group, &pull).await?;
    if !taken.entries.is_empty() {
        let (entries, consumer) = (taken.entries.len(), pull.consumer.as_str());
        tracing::debug!(%feed, %group, consumer, entries, "handed out");
    }
    Ok(fresh_text(StatusCode::OK, compose(&feed, &taken)))
}

fn compose(feed: &FeedId, taken: &Taken) -> String {
    let mut out = String::with_capacity(32 + 640 * taken.entries.len());
    out.push_str("{\"entries\":[");
    for (n, handed) in taken.entries.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        handed.entry.push_json(&mut out, feed, Some(handed.attempt));
    }
    out.push_str("]}");
    out
}

/// `POST /v1/feeds/{feed}/groups/{group}/ack`
pub(in crate::http) async fn ack(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, group) = (feed_of(&req)?, group_of(&req)?);
    let cursors = cursors(&req, payload, &gate).await?;
    let acked = gate.run(gate.store.ack_entries(&feed, &group, &cursors.all, Millis::now())).await?;
    let acked = acked.ok_or_else(unknown_group)?;
    let unknown = (cursors.all.len() as u64 + cursors.malformed).saturating_sub(acked);
    Ok(fresh(StatusCode::OK, &AckResult { acked, unknown }))
}

/// `POST /v1/feeds/{feed}/groups/{group}/nack`
pub(in crate::http) async fn nack(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, group) = (feed_of(&req)?, group_of(&req)?);
    let cursors = cursors(&req, payload, &gate).await?;
    let nacked = gate.run(gate.store.nack_entries(&feed, &group, &cursors.all, Millis::now())).await?;
    let nacked = nacked.ok_or_else(unknown_group)?;
    Ok(fresh(StatusCode::OK, &NackResult { nacked }))
}

/// `POST /v1/feeds/{feed}/groups/{group}/seek`
pub(in crate::http) async fn seek(
    req: HttpRequest,
    payload: web::Payload,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, group) = (feed_of(&req)?, group_of(&req)?);
    let bytes = body::read(&req, payload, gate.limits.body, gate.limits.body_time).await?;
    let to = Seek::parse(json::syntax(&bytes)?)?;
    let moved = gate.run(gate.store.seek_group(&feed, &group, to, Millis::now())).await?;
    let cursor = moved.ok_or_else(unknown_group)?.to_string();
    tracing::info!(%feed, %group, cursor, "a group was moved");
    Ok(fresh(StatusCode::OK, &SeekResult { cursor }))
}

async fn cursors(req: &HttpRequest, payload: web::Payload, gate: &Gate) -> Result<Cursors, ApiError> {
    // A thousand cursors are larger than a gift may be.
    let bytes: Bytes = body::read(req, payload, gate.limits.batch, gate.limits.body_time).await?;
    Ok(Cursors::parse(json::syntax(&bytes)?)?)
}

/// `GET /v1/feeds/{feed}/groups/{group}`
pub(in crate::http) async fn get(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (feed, group) = (feed_of(&req)?, group_of(&req)?);
    let view = gate.read(gate.store.read_group(&feed, &group, Millis::now())).await?;
    let view = view.ok_or_else(unknown_group)?;
    Ok(fresh(StatusCode::OK, &Group::new(&group, &view)))
}

/// `GET /v1/feeds/{feed}/groups`
pub(in crate::http) async fn list(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let readers = gate.run(gate.store.list_readers(Some(&feed))).await?;
    let groups = readers.into_iter().filter_map(|(_, reader)| match reader {
        Reader::Group(group) => Some((feed.clone(), group)),
        _ => None,
    });
    let groups = views(&gate, groups.collect()).await?;
    let groups = groups.iter().map(|(_, group, view)| Group::new(group, view)).collect();
    Ok(fresh(StatusCode::OK, &GroupList { groups }))
}

/// How groups stand; those that went meanwhile are left out.
pub(super) async fn views(
    gate: &Gate,
    groups: Vec<(FeedId, GroupId)>,
) -> Result<Vec<(FeedId, GroupId, GroupView)>, ApiError> {
    let now = Millis::now();
    let views = ask_each(&groups, |(feed, group)| gate.read(gate.store.read_group(feed, group, now))).await?;
    let known = groups.iter().zip(views);
    Ok(known.filter_map(|((feed, group), view)| Some((feed.clone(), group.clone(), view?))).collect())
}

/// `DELETE /v1/feeds/{feed}/groups/{group}`
pub(in crate::http) async fn delete(
    req: HttpRequest,
    gate: web::Data<Gate>,
) -> Result<HttpResponse, ApiError> {
    let (feed, group) = (feed_of(&req)?, group_of(&req)?);
    match gate.run(gate.store.delete_group(&feed, &group)).await? {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(unknown_group()),
    }
}
