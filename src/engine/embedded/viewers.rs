//! Viewers whose tokens were revoked. They are of no feed.

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, text};
use super::fault::{Fault, Step};
use super::seal::{self, Found};
use crate::domain::Millis;
use crate::engine::{REVOKED_MAX, Revocation, RevokedAt, RevokedPage};

/// Old ones that make room for a new one, at most.
const FORGET_AT_ONCE: i64 = 100;

/// See [`crate::engine::RevokeViewer`]. None: there are as many as may be.
pub(super) fn revoke(db: &Db, what: &Revocation, now: Millis, may_forget: bool) -> Step<Option<Millis>> {
    let sql = "SELECT * FROM revoked WHERE sub = ?1";
    let known = db.one(sql, [&*what.sub], |r| Ok((r.get::<_, i64>(0)?, read(r)?)));
    // One that cannot be read is replaced: it concerns this viewer alone.
    let known = match known {
        Err(Fault::Garbled(_)) => None,
        known => known?,
    };
    let (before, until) = match &known {
        Some((_, known)) if known.before >= what.before => return Ok(Some(known.before)),
        Some((_, known)) => (what.before, known.until.max(what.until)),
        None => (what.before, what.until),
    };
    db.begin()?;
    if may_forget {
        // Never the newest, from which the numbers go on.
        let sql = "DELETE FROM revoked WHERE no IN (SELECT no FROM revoked
            WHERE until <= ?1 AND no < (SELECT max(no) FROM revoked) LIMIT ?2)";
        db.run(sql, params![now.0, FORGET_AT_ONCE])?;
    }
    let count: u64 = db.value("SELECT count(*) FROM revoked", [])?.unwrap_or(0);
    if known.is_none() && count >= REVOKED_MAX {
        return Ok(None);
    }
    let no: i64 = db.value("SELECT max(no) FROM revoked", [])?.unwrap_or(0) + 1;
    let sql = "INSERT OR REPLACE INTO revoked VALUES (?1, ?2, ?3, ?4, ?5)";
    db.put(sql, params![no, &*what.sub, before.0, until.0])?;
    Ok(Some(before))
}

/// See [`crate::engine::ListRevocations`]. What cannot be read is left out and told: it concerns one viewer.
pub(super) fn revoked(db: &Db, after: &RevokedAt, max: usize) -> Step<RevokedPage> {
    let mut query = db.conn.prepare_cached("SELECT * FROM revoked WHERE no > ?1 ORDER BY no LIMIT ?2")?;
    let seq = i64::try_from(after.seq).unwrap_or(i64::MAX);
    let mut rows = query.query(params![seq, i64::try_from(max).unwrap_or(i64::MAX)])?;
    let mut page = RevokedPage { revoked: Vec::new(), at: after.clone() };
    while let Some(r) = rows.next()? {
        page.at.seq = r.get::<_, i64>(0)?.unsigned_abs();
        let whole = seal::check(r).and_then(|found| match found {
            Found::Whole => read(r),
            Found::Stray(_) => Err(Fault::garbled("it is of a feed")),
        });
        match whole {
            Ok(one) => page.revoked.push(one),
            Err(fault) => tracing::error!(
                ?fault,
                no = page.at.seq,
                "what is stored of a revoked viewer is damaged, so its tokens are taken again; revoke it once more"
            ),
        }
    }
    Ok(page)
}

fn read(r: &SqlRow<'_>) -> Step<Revocation> {
    Ok(Revocation { sub: text(r, 1)?.into(), before: Millis(r.get(2)?), until: Millis(r.get(3)?) })
}
