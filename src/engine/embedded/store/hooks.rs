//! The table of webhooks.

use rusqlite::{OptionalExtension, Row as SqlRow, params};

use super::{Store, parsed, unreadable};
use crate::domain::{Hook, HookId, HookKey, HookScope};

impl Store {
    /// A webhook; none when there is no such one.
    pub fn hook(&self, key: &HookKey) -> rusqlite::Result<Option<Hook>> {
        let sql = "SELECT body FROM hooks WHERE scope = ?1 AND name = ?2";
        let fields = params![key.scope.to_string(), key.name.as_str()];
        self.db.prepare_cached(sql)?.query_row(fields, |r| read_hook(r, 0)).optional()
    }

    /// Webhooks by scope and name, at most `max`.
    pub fn hooks(&self, max: usize) -> rusqlite::Result<Vec<(HookKey, Hook)>> {
        let mut query =
            self.db.prepare_cached("SELECT scope, name, body FROM hooks ORDER BY scope, name LIMIT ?1")?;
        let read = |r: &SqlRow<'_>| {
            let scope = match r.get_ref(0)?.as_str()? {
                "*" => HookScope::All,
                _ => HookScope::Feed(parsed(r, 0)?),
            };
            Ok((HookKey { scope, name: parsed(r, 1)? }, read_hook(r, 2)?))
        };
        let mut hooks = query.query_map([max as i64], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
        hooks.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(hooks)
    }

    /// Webhooks of this scope.
    pub fn hooks_of(&self, scope: &HookScope) -> rusqlite::Result<Vec<(HookId, Hook)>> {
        let mut query = self.db.prepare_cached("SELECT name, body FROM hooks WHERE scope = ?1")?;
        query.query_map([scope.to_string()], |r| Ok((parsed(r, 0)?, read_hook(r, 1)?)))?.collect()
    }

    /// Writes a webhook, or with none forgets it.
    pub fn put_hook(&self, key: &HookKey, hook: Option<&Hook>) -> rusqlite::Result<()> {
        let (scope, name) = (key.scope.to_string(), key.name.as_str());
        match hook {
            Some(hook) => {
                let sql = "INSERT OR REPLACE INTO hooks (scope, name, body) VALUES (?1, ?2, ?3)";
                let body = serde_json::json!(hook).to_string();
                self.db.prepare_cached(sql)?.execute(params![scope, name, body])
            }
            None => {
                let sql = "DELETE FROM hooks WHERE scope = ?1 AND name = ?2";
                self.db.prepare_cached(sql)?.execute(params![scope, name])
            }
        }
        .map(drop)
    }
}

fn read_hook(r: &SqlRow<'_>, column: usize) -> rusqlite::Result<Hook> {
    serde_json::from_str(r.get_ref(column)?.as_str()?).map_err(|e| unreadable(column, e))
}
