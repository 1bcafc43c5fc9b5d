//! The table of webhooks.

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, parsed, text};
use super::fault::{Fault, Step};
use super::seal::{self, Found};
use crate::domain::{Hook, HookId, HookKey, HookScope, Millis};

/// What every feed needs to know of a webhook of all feeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookOfAll {
    /// It reads what came since.
    pub(super) since: Millis,
    pub(super) batch_ms: u64,
}

impl From<&Hook> for HookOfAll {
    fn from(hook: &Hook) -> HookOfAll {
        HookOfAll { since: Millis(hook.since), batch_ms: hook.spec.batch_ms }
    }
}

/// A webhook; none when there is no such one.
pub(super) fn get(db: &Db, key: &HookKey) -> Step<Option<Hook>> {
    let sql = "SELECT * FROM hooks WHERE scope = ?1 AND name = ?2";
    db.one(sql, params![key.scope.to_string(), key.name.as_str()], read)
}

/// Webhooks by scope and name, at most `max`. One that cannot be read is left out: it concerns its feed alone.
pub(super) fn all(db: &Db, max: usize) -> Step<Vec<(HookKey, Hook)>> {
    let mut query = db.conn.prepare_cached("SELECT * FROM hooks ORDER BY scope, name LIMIT ?1")?;
    let mut rows = query.query([max as i64])?;
    let mut hooks = Vec::new();
    while let Some(r) = rows.next()? {
        hooks.extend(read_keyed(r).inspect_err(|fault| tracing::debug!(?fault, "a webhook is left out")));
    }
    hooks.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(hooks)
}

fn read_keyed(r: &SqlRow<'_>) -> Step<(HookKey, Hook)> {
    if seal::check(r)? != Found::Whole {
        return Err(Fault::garbled("another feed's webhook"));
    }
    let scope = match text(r, 0)? {
        "*" => HookScope::All,
        _ => HookScope::Feed(parsed(r, 0)?),
    };
    Ok((HookKey { scope, name: parsed(r, 1)? }, read(r)?))
}

/// Webhooks of one feed.
pub(super) fn of_feed(db: &Db, scope: &HookScope) -> Step<Vec<(HookId, Hook)>> {
    let sql = "SELECT * FROM hooks WHERE scope = ?1";
    db.all(sql, [scope.to_string()], |r| Ok((parsed(r, 1)?, read(r)?)))
}

/// Webhooks of all feeds, as far as they can be read.
pub(super) fn of_all(db: &Db) -> Step<Vec<(HookId, HookOfAll)>> {
    let hooks = all(db, usize::MAX >> 1)?.into_iter().filter(|(key, _)| key.scope == HookScope::All);
    Ok(hooks.map(|(key, hook)| (key.name, (&hook).into())).collect())
}

/// Writes a webhook, or with none forgets it.
pub(super) fn put(db: &Db, key: &HookKey, hook: Option<&Hook>) -> Step<()> {
    let (scope, name) = (key.scope.to_string(), key.name.as_str());
    match hook {
        Some(hook) => {
            let sql = "INSERT OR REPLACE INTO hooks VALUES (?1, ?2, ?3, ?4)";
            db.put(sql, params![scope, name, serde_json::json!(hook).to_string()])
        }
        None => db.run("DELETE FROM hooks WHERE scope = ?1 AND name = ?2", params![scope, name]).map(drop),
    }
}

fn read(r: &SqlRow<'_>) -> Step<Hook> {
    serde_json::from_str(text(r, 2)?).map_err(|e| Fault::garbled(format!("a webhook cannot be read: {e}")))
}
