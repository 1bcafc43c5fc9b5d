//! Signed requests that were accepted. They are of no feed.

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, text};
use super::fault::{Fault, Step};
use crate::domain::Millis;
use crate::engine::{REQUEST_KEPT_MS, RequestUse};

/// Old ones that go for each new one, at most.
const FORGET_AT_ONCE: i64 = 100;

/// See [`crate::engine::ClaimRequest`].
pub(super) fn claim(db: &Db, request: &str, target: &str, now: Millis, may_forget: bool) -> Step<RequestUse> {
    let sql = "SELECT * FROM requests WHERE id = ?1";
    let read = |r: &SqlRow<'_>| Ok((text(r, 1)? == target, Millis(r.get(2)?)));
    match db.one(sql, [request], read) {
        // What it was for cannot be told: it is not accepted a second time.
        Err(Fault::Garbled(_)) => return Ok(RequestUse::Elsewhere),
        known => match known? {
            Some((_, at)) if now.since(at) >= REQUEST_KEPT_MS => {}
            Some((true, at)) => return Ok(RequestUse::Again(now.since(at))),
            Some((false, _)) => return Ok(RequestUse::Elsewhere),
            None => {}
        },
    }
    db.begin()?;
    if may_forget {
        let sql = "DELETE FROM requests WHERE id IN (SELECT id FROM requests WHERE at <= ?1 LIMIT ?2)";
        db.run(sql, params![now.0.saturating_sub_unsigned(REQUEST_KEPT_MS), FORGET_AT_ONCE])?;
    }
    let sql = "INSERT OR REPLACE INTO requests VALUES (?1, ?2, ?3, ?4)";
    db.put(sql, params![request, target, now.0])?;
    Ok(RequestUse::First)
}
