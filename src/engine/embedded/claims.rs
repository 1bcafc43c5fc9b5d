//! The tables of drops and of what was claimed of them.
//!
//! `drops` holds each drop's definition and counts, and what watchers were told last; `claims` every
//! claim that was filled: sold ones for as long as the drop is there, ended holds for the idempotency
//! window.

use rusqlite::{OptionalExtension, Row as SqlRow, params};

use super::super::record::{Records, SpecNumbers, push_drop};
use super::store::{Store, parsed, unreadable};
use crate::domain::stock::Record;
use crate::domain::{
    Claim, ClaimAnswer, ClaimOutcome, DropId, DropSpec, DropView, Fingerprint, Hold, HoldId, Millis,
    Position, Sale, Stock,
};

/// Holds of one user in one answer.
const HOLDS: i64 = 1000;

/// What `claims.state` says.
const SOLD: u8 = 0;
const HELD: u8 = 1;
const ENDED: u8 = 2;

/// What layout 3 adds.
pub(super) const TABLES: &str = "
CREATE TABLE drops (
    feed INTEGER NOT NULL, name TEXT NOT NULL, stock TEXT NOT NULL, shown TEXT NOT NULL, PRIMARY KEY (feed, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE claims (
    no INTEGER PRIMARY KEY, feed INTEGER NOT NULL, drop_name TEXT NOT NULL, id TEXT NOT NULL,
    fingerprint BLOB NOT NULL, user TEXT NOT NULL, person TEXT NOT NULL, message TEXT, count INTEGER NOT NULL,
    state INTEGER NOT NULL, expires INTEGER NOT NULL, epoch TEXT, seq INTEGER, row TEXT, until INTEGER,
    UNIQUE (feed, drop_name, id)
) STRICT;
CREATE INDEX claims_user ON claims (feed, drop_name, user);
CREATE INDEX claims_held ON claims (feed, drop_name, expires) WHERE state = 1;
CREATE INDEX claims_unpaid ON claims (feed, user, expires) WHERE state = 1;
CREATE INDEX claims_over ON claims (feed, drop_name, until) WHERE state = 2;
";

/// A claim as the table has it.
pub struct Filled {
    no: i64,
    /// Of the payload it came with.
    pub fingerprint: Fingerprint,
    /// The claimer as JSON.
    pub person: String,
    /// The message as a JSON string.
    pub message: Option<String>,
    /// Its units.
    pub count: u64,
    /// Whether it is sold, held, or an ended hold.
    pub state: State,
    /// When its hold ends or ended; none when it was paid at once.
    pub expires: Option<Millis>,
    sale: Option<Sale>,
}

/// What a claim is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Paid for.
    Sold,
    /// An unpaid hold, which may be over by now.
    Held,
    /// A hold that ended.
    Ended,
}

impl Filled {
    /// What was answered to the claim.
    pub fn first(&self, claim: HoldId) -> Option<ClaimAnswer> {
        let fate = match self.expires {
            Some(at) => ClaimOutcome::Held(at),
            None => ClaimOutcome::Sold(self.sale.clone()?),
        };
        Some(ClaimAnswer { claim, count: self.count, fate })
    }

    /// What was answered when it was paid for.
    pub fn sold(&self, claim: HoldId) -> Option<ClaimAnswer> {
        Some(ClaimAnswer { claim, count: self.count, fate: ClaimOutcome::Sold(self.sale.clone()?) })
    }
}

impl Store {
    /// The drops of a feed, each with what watchers were told last.
    pub fn drops(&self, feed: i64) -> rusqlite::Result<Vec<(Stock, DropView)>> {
        let mut query = self.db.prepare_cached("SELECT stock, shown FROM drops WHERE feed = ?1")?;
        let read = |r: &SqlRow<'_>| {
            let garbled = |column| unreadable(column, std::fmt::Error);
            let shown = Records::new(r.get_ref(1)?.as_str()?).drop().ok_or_else(|| garbled(1))?;
            let stock = read_stock(r.get_ref(0)?.as_str()?).ok_or_else(|| garbled(0))?;
            Ok((stock, shown))
        };
        query.query_map([feed], read)?.collect()
    }

    /// Writes a drop.
    pub fn put_drop(
        &self,
        feed: i64,
        drop: &DropId,
        stock: &Stock,
        shown: &DropView,
    ) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO drops (feed, name, stock, shown) VALUES (?1, ?2, ?3, ?4)";
        let mut told = String::with_capacity(256);
        push_drop(&mut told, shown);
        self.db
            .prepare_cached(sql)?
            .execute(params![feed, drop.as_str(), spell_stock(stock), told])
            .map(::core::mem::drop)
    }

    /// Ends the holds of a drop whose time is over, and forgets what ended long ago. The units that came
    /// back, and when there is something to do next.
    pub fn end_overdue(
        &self,
        feed: i64,
        drop: &DropId,
        now: Millis,
        forget_at: Millis,
    ) -> rusqlite::Result<(u64, Option<Millis>)> {
        let drop = drop.as_str();
        let sql = "UPDATE claims SET state = 2, until = ?4
            WHERE feed = ?1 AND drop_name = ?2 AND state = 1 AND expires <= ?3 RETURNING count";
        let mut ended = self.db.prepare_cached(sql)?;
        let units = ended.query_map(params![feed, drop, now.0, forget_at.0], |r| r.get::<_, u64>(0))?;
        let units = units.sum::<rusqlite::Result<u64>>()?;
        let sql = "DELETE FROM claims WHERE feed = ?1 AND drop_name = ?2 AND state = 2 AND until <= ?3";
        self.db.prepare_cached(sql)?.execute(params![feed, drop, now.0])?;
        let mut soonest = None;
        for sql in [
            "SELECT min(expires) FROM claims WHERE feed = ?1 AND drop_name = ?2 AND state = 1",
            "SELECT min(until) FROM claims WHERE feed = ?1 AND drop_name = ?2 AND state = 2",
        ] {
            let at: Option<i64> =
                self.db.prepare_cached(sql)?.query_row(params![feed, drop], |r| r.get(0))?;
            soonest = soonest.into_iter().chain(at).min();
        }
        Ok((units, soonest.map(Millis)))
    }

    /// A claim that was filled, if it is still known.
    pub fn claim(&self, feed: i64, claim: &HoldId) -> rusqlite::Result<Option<Filled>> {
        let sql =
            "SELECT no, fingerprint, person, message, count, state, expires, epoch, seq, row FROM claims
            WHERE feed = ?1 AND drop_name = ?2 AND id = ?3";
        let key = params![feed, claim.drop.as_str(), claim.claim.as_str()];
        self.db.prepare_cached(sql)?.query_row(key, read_claim).optional()
    }

    /// What a user has: units in this drop, and unpaid holds in the feed.
    pub fn record(&self, feed: i64, drop: &DropId, user: &str, now: Millis) -> rusqlite::Result<Record> {
        let sql = "SELECT coalesce(sum(count), 0) FROM claims
            WHERE feed = ?1 AND drop_name = ?2 AND user = ?3 AND state < 2";
        let units =
            self.db.prepare_cached(sql)?.query_row(params![feed, drop.as_str(), user], |r| r.get(0))?;
        let sql = "SELECT count(*), min(expires) FROM claims
            WHERE feed = ?1 AND user = ?2 AND state = 1 AND expires > ?3";
        let unpaid = self.db.prepare_cached(sql)?.query_row(params![feed, user, now.0], |r| {
            Ok((r.get(0)?, r.get::<_, Option<i64>>(1)?.map(Millis)))
        })?;
        Ok(Record { units, unpaid })
    }

    /// The user's first claim of a drop that stands.
    pub fn standing(&self, feed: i64, drop: &DropId, user: &str) -> rusqlite::Result<Option<ClaimAnswer>> {
        let sql =
            "SELECT no, fingerprint, person, message, count, state, expires, epoch, seq, row, id FROM claims
            WHERE feed = ?1 AND drop_name = ?2 AND user = ?3 AND state < 2 ORDER BY no LIMIT 1";
        let mut query = self.db.prepare_cached(sql)?;
        let read = |r: &SqlRow<'_>| {
            let claim = HoldId { drop: drop.clone(), claim: parsed(r, 10)? };
            Ok(read_claim(r)?.first(claim))
        };
        Ok(query.query_row(params![feed, drop.as_str(), user], read).optional()?.flatten())
    }

    /// Writes a claim that is filled.
    pub fn put_claim(
        &self,
        feed: i64,
        drop: &DropId,
        claim: &Claim,
        fate: &ClaimOutcome,
    ) -> rusqlite::Result<()> {
        let sql = "INSERT INTO claims
            (feed, drop_name, id, fingerprint, user, person, message, count, state, expires, epoch, seq, row)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let (state, expires, sale) = match fate {
            ClaimOutcome::Sold(sale) => (SOLD, 0, Some(sale)),
            ClaimOutcome::Held(at) => (HELD, at.0, None),
        };
        let message = claim.message_json();
        let fields = params![
            feed,
            drop.as_str(),
            claim.id.as_str(),
            claim.fingerprint.0,
            claim.user.id,
            claim.user.to_json(),
            message.as_deref(),
            claim.count,
            state,
            expires,
            sale.map(|sale| sale.at.epoch.as_str()),
            sale.map(|sale| sale.at.seq),
            sale.map(|sale| sale.row.as_str()),
        ];
        self.db.prepare_cached(sql)?.execute(fields).map(::core::mem::drop)
    }

    /// A hold was paid for.
    pub fn sell_claim(&self, filled: &Filled, sale: &Sale) -> rusqlite::Result<()> {
        let sql = "UPDATE claims SET state = ?2, epoch = ?3, seq = ?4, row = ?5 WHERE no = ?1";
        let Sale { at, row } = sale;
        let fields = params![filled.no, SOLD, at.epoch.as_str(), at.seq, row.as_str()];
        self.db.prepare_cached(sql)?.execute(fields).map(::core::mem::drop)
    }

    /// A hold was cancelled; it is forgotten at `until`.
    pub fn end_claim(&self, filled: &Filled, until: Millis) -> rusqlite::Result<()> {
        let sql = "UPDATE claims SET state = ?2, until = ?3 WHERE no = ?1";
        self.db.prepare_cached(sql)?.execute(params![filled.no, ENDED, until.0]).map(::core::mem::drop)
    }

    /// The holds of a user that hold at `now`.
    pub fn holds(&self, feed: i64, user: &str, now: Millis) -> rusqlite::Result<Vec<Hold>> {
        let sql = "SELECT drop_name, id, count, expires FROM claims
            WHERE feed = ?1 AND user = ?2 AND state = 1 AND expires > ?3 ORDER BY expires, drop_name || '~' || id LIMIT ?4";
        let read = |r: &SqlRow<'_>| {
            let hold = HoldId { drop: parsed(r, 0)?, claim: parsed(r, 1)? };
            Ok(Hold { hold, count: r.get(2)?, expires_at: Millis(r.get(3)?) })
        };
        self.db.prepare_cached(sql)?.query_map(params![feed, user, now.0, HOLDS], read)?.collect()
    }
}

fn read_claim(r: &SqlRow<'_>) -> rusqlite::Result<Filled> {
    let expires: i64 = r.get(6)?;
    let sale = match r.get::<_, Option<u64>>(8)? {
        Some(seq) => Some(Sale { at: Position { epoch: parsed(r, 7)?, seq }, row: parsed(r, 9)? }),
        None => None,
    };
    Ok(Filled {
        no: r.get(0)?,
        fingerprint: Fingerprint(r.get(1)?),
        person: r.get(2)?,
        message: r.get(3)?,
        count: r.get(4)?,
        state: match r.get(5)? {
            SOLD => State::Sold,
            HELD => State::Held,
            _ => State::Ended,
        },
        expires: (expires > 0).then_some(Millis(expires)),
        sale,
    })
}

/// `held sold said told stale soonest|- ` and the definition's numbers; then a line with the gift.
fn spell_stock(stock: &Stock) -> String {
    let Stock { spec, held, sold, said, told, stale, soonest } = stock;
    let soonest = soonest.map_or("-".to_owned(), |at| at.0.to_string());
    let (said, stale) = (said.as_str(), u8::from(*stale));
    format!("{held} {sold} {said} {} {stale} {soonest} {}\n{}\n", told.0, SpecNumbers(spec), spec.gift)
}

fn read_stock(text: &str) -> Option<Stock> {
    let (numbers, gift) = text.split_once('\n')?;
    let mut parts = numbers.split(' ');
    let (held, sold) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let (said, told) = (parts.next()?.parse().ok()?, Millis(parts.next()?.parse().ok()?));
    let stale = parts.next()? == "1";
    let time = |text: &str| match text {
        "-" => Some(None),
        at => Some(Some(Millis(at.parse().ok()?))),
    };
    let soonest = time(parts.next()?)?;
    let mut number = || parts.next()?.parse().ok();
    let (total, per_user, hold_ttl_ms, max_holds_per_user) = (number()?, number()?, number()?, number()?);
    let (opens_at, closes_at) = (time(parts.next()?)?, time(parts.next()?)?);
    let gift = gift.strip_suffix('\n')?.into();
    let spec = DropSpec { gift, total, per_user, hold_ttl_ms, max_holds_per_user, opens_at, closes_at };
    Some(Stock { spec, held, sold, said, told, stale, soonest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::syntax;

    #[test]
    fn stock_survives_being_written_and_read() {
        let body = r#"{"gift":{"id":"r","name":"a\nb c"},"total":9,"closes_at":"2026-01-01T00:00:00Z"}"#;
        let spec = DropSpec::parse(syntax(body.as_bytes()).unwrap()).unwrap();
        let mut stock = Stock::new(spec, Millis(5));
        assert_eq!(read_stock(&spell_stock(&stock)), Some(stock.clone()));
        stock.heed(Millis(7));
        stock.tell(Millis(6));
        assert_eq!(read_stock(&spell_stock(&stock)), Some(stock));
    }
}
