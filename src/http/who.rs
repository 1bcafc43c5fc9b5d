//! Who may come in, and who changed what: `GET /v1/keys`, `GET /v1/audit`.

use std::fmt::Write;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::{self, KeyList};
use super::problem::{ApiError, invalid};
use super::{Gate, caller_of, integer_within};
use crate::auth::Right;

/// Lines of one answer: at most, and when the query does not say.
const LINES_PER_PAGE: (usize, usize) = (1_000, 100);

/// `GET /v1/keys`
pub(super) async fn keys(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    // Keys are of no feed: a key that is for some feeds only does not see those of others.
    if let Some(key) = caller_of(&req).identity.key() {
        key.allows(Some(Right::Observe), Some("*")).map_err(ApiError::NotAllowed)?;
    }
    Ok(answers::fresh(StatusCode::OK, &KeyList::new(gate.door.keys().all())))
}

/// `GET /v1/audit?after=&limit=`
pub(super) async fn audit(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (mut before, mut limit) = (None, LINES_PER_PAGE.1);
    for (name, value) in url::form_urlencoded::parse(req.query_string().as_bytes()) {
        match &*name {
            "after" => {
                let after =
                    value.parse().map_err(|_| invalid("after must be the `next` of the page before"))?;
                before = Some(after);
            }
            "limit" => limit = integer_within(&name, &value, 1..=LINES_PER_PAGE.0)?,
            _ => {}
        }
    }
    let caller = caller_of(&req);
    let key = caller.identity.key();
    let lines = gate.audit.recent(before, limit + 1, |line| {
        key.is_none_or(|key| match &line.feed {
            Some(feed) => key.feeds.covers(feed),
            None => key.feeds.is_everything(),
        })
    });
    let mut out = String::from("{\"audit\":[");
    for (n, line) in lines.iter().take(limit).enumerate() {
        let comma = if n > 0 { "," } else { "" };
        // Each is an object with members.
        let _ = write!(out, "{comma}{{\"cursor\":\"{}\",{}", line.number, line.text.trim_start_matches('{'));
    }
    out.push(']');
    if let (true, Some(last)) = (lines.len() > limit, lines.get(limit - 1)) {
        let _ = write!(out, ",\"next\":\"{}\"", last.number);
    }
    out.push('}');
    Ok(answers::fresh_text(StatusCode::OK, out))
}
