//! Gifts that wait to be shown, and what waited and could not be done.

use std::fmt::Write;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::{self, CancelledGift, DueFailure, DueFailureList};
use super::problem::{ApiError, invalid};
use super::{Gate, feed_of, integer_within};
use crate::domain::{DuePlace, GiftId, Millis};
use crate::engine::{DeadDue, ScheduledPage, Unscheduled};

/// Gifts of a page whose size nobody asked for, and of the largest one.
const GIFTS_PER_PAGE: (usize, usize) = (100, 1_000);

/// `GET /v1/feeds/{feed}/scheduled`
pub(super) async fn list(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let (limit, after) = read_query(req.query_string())?;
    let page = gate.read(gate.store.list_scheduled(&feed, after, limit)).await?;
    Ok(answers::fresh_text(StatusCode::OK, compose(&page)))
}

fn compose(page: &ScheduledPage) -> String {
    let mut out = String::with_capacity(64 + 512 * page.gifts.len());
    out.push_str("{\"scheduled\":[");
    for (n, it) in page.gifts.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        let _ = write!(out, "{{\"id\":\"{}\",\"deliver_at\":\"{}\",\"gift\":", it.gift.id, it.place.at);
        it.gift.push_json(&mut out);
        out.push('}');
    }
    match page.next {
        Some(next) => drop(write!(out, "],\"next\":\"{next}\"}}")),
        None => out.push_str("],\"next\":null}"),
    }
    out
}

fn read_query(query: &str) -> Result<(usize, Option<DuePlace>), ApiError> {
    let (mut limit, mut after) = (GIFTS_PER_PAGE.0, None);
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "limit" => limit = integer_within(&name, &value, 1..=GIFTS_PER_PAGE.1)?,
            "after" => {
                after = Some(value.parse().map_err(|rule| invalid(format!("after {rule}")))?);
            }
            _ => {}
        }
    }
    Ok((limit, after))
}

/// `DELETE /v1/feeds/{feed}/scheduled/{id}`
pub(super) async fn cancel(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let missing = || ApiError::NotFound("no gift of this id waits to be shown".to_owned());
    let id: GiftId = req.match_info().get("id").unwrap_or_default().parse().map_err(|_| missing())?;
    match gate.run(gate.store.cancel_scheduled(&feed, &id, Millis::now())).await? {
        Unscheduled::Cancelled(at) => Ok(answers::json(StatusCode::OK, &CancelledGift::new(&id, at))),
        Unscheduled::Shown => Err(ApiError::AlreadyShown(id)),
        Unscheduled::Unknown => Err(missing()),
    }
}

/// `GET /v1/feeds/{feed}/due/dead`
pub(super) async fn dead(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let dead = gate.read(gate.store.list_dead_due(&feed)).await?;
    Ok(answers::json(StatusCode::OK, &failures(&dead)))
}

fn failures(all: &[DeadDue]) -> DueFailureList<'_> {
    let dead = all.iter().map(|it| DueFailure {
        kind: it.kind_word(),
        id: &it.id,
        due: it.due,
        at: it.at,
        reason: &it.reason,
    });
    DueFailureList { dead: dead.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_and_what_it_must_not_say_is_named() {
        assert_eq!(read_query("").unwrap(), (100, None));
        let place = DuePlace { at: Millis(17), order: 4 };
        assert_eq!(read_query("limit=1000&after=17-4&other=x").unwrap(), (1000, Some(place)));
        for bad in ["limit=0", "limit=1001", "limit=x", "limit=", "after=", "after=x", "after=-1-2"] {
            assert!(matches!(read_query(bad), Err(ApiError::Invalid(_))), "{bad}");
        }
    }

    #[test]
    fn entries_given_up_are_reported_with_their_reason() {
        let dead = DeadDue {
            kind: '?',
            id: "a\"b".into(),
            due: Millis(0),
            at: Millis(1),
            reason: "it \"broke\"".into(),
        };
        let json: serde_json::Value = serde_json::to_value(failures(&[dead.clone(), dead])).unwrap();
        assert_eq!(json["dead"].as_array().unwrap().len(), 2);
        assert_eq!(json["dead"][1]["id"], "a\"b");
        assert_eq!(json["dead"][0]["kind"], "unknown");
        assert_eq!(json["dead"][0]["reason"], "it \"broke\"");
    }
}
