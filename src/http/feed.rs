//! Reading a feed once.

use std::fmt::Write;

use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::{HttpRequest, HttpResponse, web};

use super::problem::ApiError;
use super::{Gate, caller_of, etag, feed_of};
use crate::domain::{FeedId, Millis, Omit, Visibility};
use crate::live::Shown;

/// `GET /v1/feeds/{feed}`
pub(super) async fn snapshot(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let may_see = || caller_of(&req).identity.may_see(feed.as_str(), Visibility::Private);
    // What a board shows is as new as what this node acknowledged: readers of a watched feed cost the store nothing.
    // Who may not see it is refused only after the store was asked: sooner would tell that it is watched.
    let shown = match gate.live.shown(&feed).filter(|shown| !shown.private || may_see().is_ok()) {
        Some(shown) => shown,
        None => {
            let read = gate.ask(gate.engine.snapshot(&feed, Millis::now())).await?;
            let (capacity, now) = (read.policy.capacity, read.now);
            let private = read.policy.visibility == Visibility::Private;
            Shown { list: read.into_list(), capacity, now, private }
        }
    };
    // Before the tag is compared: that it is the same is for those who may see the list too.
    if shown.private {
        may_see()?;
    }
    let tag = shown.list.at.to_string();
    let known = etag::matches(&req, &tag);
    let mut answer = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    // What only some may see is not for caches that many share.
    let caching = if shown.private { "private, no-cache" } else { "no-cache" };
    answer.insert_header((ETAG, format!("\"{tag}\""))).insert_header((CACHE_CONTROL, caching));
    if known {
        return Ok(answer.finish());
    }
    Ok(answer.content_type("application/json").body(to_json(&feed, &shown)))
}

fn to_json(feed: &FeedId, shown: &Shown) -> String {
    let Shown { list, capacity, now, .. } = shown;
    let mut out = String::with_capacity(256 + list.rows.len() * 512);
    let _ = write!(
        out,
        "{{\"feed\":\"{feed}\",\"epoch\":\"{}\",\"seq\":{},\"capacity\":{capacity},\"server_time\":\"{now}\",\"rows\":[",
        list.at.epoch, list.at.seq
    );
    for (n, row) in list.rows.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        row.push_json(&mut out);
    }
    out.push(']');
    list.push_beside(&mut out, Omit::Nothing);
    out.push('}');
    out
}
