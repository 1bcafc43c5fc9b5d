//! Reading a feed once.

use std::fmt::Write;

use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::{HttpRequest, HttpResponse, web};

use super::problem::ApiError;
use super::{Gate, etag, feed_of};
use crate::domain::{FeedId, Millis};
use crate::engine::Snapshot;

/// `GET /v1/feeds/{feed}`
pub(super) async fn snapshot(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let snapshot = gate.ask(gate.engine.snapshot(&feed, Millis::now())).await?;
    let tag = snapshot.at.to_string();
    let known = etag::matches(&req, &tag);
    let mut answer = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer.insert_header((ETAG, format!("\"{tag}\""))).insert_header((CACHE_CONTROL, "no-cache"));
    if known {
        return Ok(answer.finish());
    }
    Ok(answer.content_type("application/json").body(to_json(&feed, snapshot)))
}

fn to_json(feed: &FeedId, snapshot: Snapshot) -> String {
    let (capacity, now) = (snapshot.policy.capacity, snapshot.now);
    let list = snapshot.into_list();
    let mut out = String::with_capacity(256 + list.rows.len() * 512);
    let _ = write!(
        out,
        "{{\"feed\":\"{feed}\",\"epoch\":\"{}\",\"seq\":{},\"capacity\":{},\"server_time\":\"{now}\",\"rows\":[",
        list.at.epoch, list.at.seq, capacity
    );
    for (n, row) in list.rows.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        row.push_json(&mut out);
    }
    out.push(']');
    list.push_beside(&mut out);
    out.push('}');
    out
}
