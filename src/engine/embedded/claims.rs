//! The tables of drops and of what was claimed of them: `drops` holds each drop's definition and counts, and what
//! watchers were told last; `claims` every claim that was filled: sold ones for as long as the drop is there, ended
//! holds for the idempotency window.

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, parsed, text};
use super::fault::{Fault, Step};
use crate::domain::stock::Record;
use crate::domain::{
    Claim, ClaimAnswer, ClaimOutcome, DropId, DropSpec, DropView, Fingerprint, Hold, HoldId, Millis,
    Position, Sale, Stock,
};
use crate::engine::record::{Records, SpecNumbers, push_drop};

/// Holds of one user in one answer.
const HOLDS: i64 = 1000;

/// When to look again for ended holds to forget, while the clock is not trusted to forget anything.
const LOOK_AGAIN_MS: u64 = 60_000;

/// What `claims.state` says.
const SOLD: u8 = 0;
const HELD: u8 = 1;
const ENDED: u8 = 2;

/// A claim as the table has it.
pub(super) struct Filled {
    no: i64,
    id: String,
    /// Of the payload it came with.
    pub(super) fingerprint: Fingerprint,
    /// The claimer as JSON.
    pub(super) person: String,
    /// The message as a JSON string.
    pub(super) message: Option<String>,
    /// Its units.
    pub(super) count: u64,
    /// Whether it is sold, held, or an ended hold.
    pub(super) state: State,
    /// When its hold ends or ended; none when it was paid at once.
    pub(super) expires: Option<Millis>,
    sale: Option<Sale>,
}

/// What a claim is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Paid for.
    Sold,
    /// An unpaid hold, which may be over by now.
    Held,
    /// A hold that ended.
    Ended,
}

impl Filled {
    /// What was answered to the claim.
    pub(super) fn first(&self, claim: HoldId) -> Step<ClaimAnswer> {
        match self.expires {
            Some(at) => Ok(ClaimAnswer { claim, count: self.count, fate: ClaimOutcome::Held(at) }),
            None => self.sold(claim),
        }
    }

    /// What was answered when it was paid for.
    pub(super) fn sold(&self, claim: HoldId) -> Step<ClaimAnswer> {
        let sale = self.sale.clone().ok_or_else(|| Fault::garbled("a sale has no row"))?;
        Ok(ClaimAnswer { claim, count: self.count, fate: ClaimOutcome::Sold(sale) })
    }
}

/// The drops of a feed, each with what watchers were told last.
pub(super) fn drops(db: &Db, feed: i64) -> Step<Vec<(Stock, DropView)>> {
    db.all("SELECT * FROM drops WHERE feed = ?1", [feed], |r| {
        let garbled = || Fault::garbled("a drop cannot be read");
        let shown = Records::new(text(r, 3)?).drop().ok_or_else(garbled)?;
        Ok((read_stock(text(r, 2)?).ok_or_else(garbled)?, shown))
    })
}

/// Writes a drop.
pub(super) fn put_drop(db: &Db, feed: i64, drop: &DropId, stock: &Stock, shown: &DropView) -> Step<()> {
    let sql = "INSERT OR REPLACE INTO drops VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut told = String::with_capacity(256);
    push_drop(&mut told, shown);
    db.put(sql, params![feed, drop.as_str(), spell_stock(stock), told])
}

/// Ends the holds of a drop whose time is over, to be forgotten at `forget_at`; and forgets what ended long ago, if
/// `may_forget`. The units that came back, and when there is something to do next.
pub(super) fn end_overdue(
    db: &Db,
    feed: i64,
    drop: &DropId,
    now: Millis,
    (forget_at, may_forget): (Millis, bool),
) -> Step<(u64, Option<Millis>)> {
    let drop = drop.as_str();
    let sql = "SELECT * FROM claims WHERE feed = ?1 AND drop_name = ?2 AND state = 1 AND expires <= ?3";
    let over = db.all(sql, params![feed, drop, now.0], read_claim)?;
    for claim in &over {
        end(db, claim, forget_at)?;
    }
    if may_forget {
        let sql = "DELETE FROM claims WHERE feed = ?1 AND drop_name = ?2 AND state = 2 AND until <= ?3";
        db.run(sql, params![feed, drop, now.0])?;
    }
    let sql = "SELECT min(expires) FROM claims WHERE feed = ?1 AND drop_name = ?2 AND state = 1";
    let expires: Option<i64> = db.value(sql, params![feed, drop])?;
    let sql = "SELECT min(until) FROM claims WHERE feed = ?1 AND drop_name = ?2 AND state = 2";
    let until: Option<i64> = db.value(sql, params![feed, drop])?;
    let until = until.map(|at| if at <= now.0 { now.plus(LOOK_AGAIN_MS).0 } else { at });
    Ok((over.iter().map(|claim| claim.count).sum(), expires.into_iter().chain(until).min().map(Millis)))
}

/// A claim that was filled, if it is still known.
pub(super) fn claim(db: &Db, feed: i64, claim: &HoldId) -> Step<Option<Filled>> {
    let sql = "SELECT * FROM claims WHERE feed = ?1 AND drop_name = ?2 AND id = ?3";
    db.one(sql, params![feed, claim.drop.as_str(), claim.claim.to_string()], read_claim)
}

/// What a user has: units in this drop, and unpaid holds in the feed.
pub(super) fn record(db: &Db, feed: i64, drop: &DropId, user: &str, now: Millis) -> Step<Record> {
    let sql = "SELECT * FROM claims WHERE feed = ?1 AND drop_name = ?2 AND user = ?3 AND state < 2";
    let units = db.all(sql, params![feed, drop.as_str(), user], |r| Ok(r.get::<_, u64>(8)?))?;
    let sql = "SELECT * FROM claims WHERE feed = ?1 AND user = ?2 AND state = 1 AND expires > ?3";
    let unpaid = db.all(sql, params![feed, user, now.0], |r| Ok(Millis(r.get(10)?)))?;
    Ok(Record { units: units.iter().sum(), unpaid: (unpaid.len() as u64, unpaid.into_iter().min()) })
}

/// The user's first claim of a drop that stands.
pub(super) fn standing(db: &Db, feed: i64, drop: &DropId, user: &str) -> Step<Option<ClaimAnswer>> {
    let sql = "SELECT * FROM claims WHERE feed = ?1 AND drop_name = ?2 AND user = ?3 AND state < 2
        ORDER BY no LIMIT 1";
    let found = db.one(sql, params![feed, drop.as_str(), user], read_claim)?;
    let answer = |filled: Filled| {
        let claim = filled.id.parse().map_err(|_| Fault::garbled("a claim's id cannot be read"))?;
        filled.first(HoldId { drop: drop.clone(), claim })
    };
    found.map(answer).transpose()
}

/// Writes a claim that was filled.
pub(super) fn put_claim(db: &Db, feed: i64, drop: &DropId, claim: &Claim, fate: &ClaimOutcome) -> Step<()> {
    let sql =
        "INSERT INTO claims VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    let (state, expires, sale) = match fate {
        ClaimOutcome::Sold(sale) => (SOLD, 0, Some(sale)),
        ClaimOutcome::Held(expires) => (HELD, expires.0, None),
    };
    let no = db.value::<i64>("SELECT max(no) FROM claims", [])?.unwrap_or(0) + 1;
    let (user, person, message) = (&claim.user.id, claim.user.to_json(), claim.message_json());
    let (drop, id, fingerprint) = (drop.as_str(), claim.id.to_string(), claim.fingerprint.0);
    let epoch = sale.map(|sale| sale.at.epoch.as_str());
    let (seq, row) = (sale.map(|sale| sale.at.seq), sale.map(|sale| sale.row.as_str()));
    let fields = params![
        no,
        feed,
        drop,
        id,
        fingerprint,
        user,
        person,
        message,
        claim.count,
        state,
        expires,
        epoch,
        seq,
        row,
        rusqlite::types::Null
    ];
    db.put(sql, fields)
}

/// A hold was paid for.
pub(super) fn sell(db: &Db, filled: &Filled, sale: &Sale) -> Step<()> {
    let sql =
        "UPDATE claims SET state = ?2, epoch = ?3, seq = ?4, row = ?5, seal = seal(no, feed, drop_name, id,
        fingerprint, user, person, message, count, ?2, expires, ?3, ?4, ?5, until) WHERE no = ?1";
    let Sale { at, row } = sale;
    db.run(sql, params![filled.no, SOLD, at.epoch.as_str(), at.seq, row.as_str()]).map(::core::mem::drop)
}

/// A hold ended; it is forgotten at `until`.
pub(super) fn end(db: &Db, filled: &Filled, until: Millis) -> Step<()> {
    let sql =
        "UPDATE claims SET state = ?2, until = ?3, seal = seal(no, feed, drop_name, id, fingerprint, user,
        person, message, count, ?2, expires, epoch, seq, row, ?3) WHERE no = ?1";
    db.run(sql, params![filled.no, ENDED, until.0]).map(::core::mem::drop)
}

/// The holds of a user that hold at `now`.
pub(super) fn holds(db: &Db, feed: i64, user: &str, now: Millis) -> Step<Vec<Hold>> {
    let sql = "SELECT * FROM claims WHERE feed = ?1 AND user = ?2 AND state = 1 AND expires > ?3
        ORDER BY expires, drop_name || '~' || id LIMIT ?4";
    db.all(sql, params![feed, user, now.0, HOLDS], |r| {
        let hold = HoldId { drop: parsed(r, 2)?, claim: parsed(r, 3)? };
        Ok(Hold { hold, count: r.get(8)?, expires_at: Millis(r.get(10)?) })
    })
}

fn read_claim(r: &SqlRow<'_>) -> Step<Filled> {
    let expires: i64 = r.get(10)?;
    let sale = match r.get::<_, Option<u64>>(12)? {
        Some(seq) => Some(Sale { at: Position { epoch: parsed(r, 11)?, seq }, row: parsed(r, 13)? }),
        None => None,
    };
    Ok(Filled {
        no: r.get(0)?,
        id: r.get(3)?,
        fingerprint: Fingerprint(r.get(4)?),
        person: r.get(6)?,
        message: r.get(7)?,
        count: r.get(8)?,
        state: match r.get(9)? {
            SOLD => State::Sold,
            HELD => State::Held,
            ENDED => State::Ended,
            other => return Err(Fault::garbled(format!("a claim has the state {other}"))),
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
