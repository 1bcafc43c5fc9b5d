//! A claim that was filled, as its drop stores it.

use crate::domain::{ClaimAnswer, ClaimOutcome, HoldId, Millis, Position, Sale, Trace, Value};
use crate::engine::protocol::records::StoredClaim;
use crate::engine::protocol::wire::Corrupt;

/// What `claims` has of a claim.
pub struct Filled {
    pub claim: HoldId,
    pub fingerprint: String,
    pub count: u64,
    pub value: Option<Value>,
    pub expires: Option<Millis>,
    pub sale: Option<Sale>,
}

impl Filled {
    pub fn first(self) -> Result<ClaimAnswer, Corrupt> {
        match self.expires {
            Some(at) => Ok(self.answer(ClaimOutcome::Held(at))),
            None => self.sold(),
        }
    }

    pub fn sold(mut self) -> Result<ClaimAnswer, Corrupt> {
        let sale = self.sale.take().ok_or(Corrupt("a sale"))?;
        Ok(self.answer(ClaimOutcome::Sold(sale)))
    }

    fn answer(self, fate: ClaimOutcome) -> ClaimAnswer {
        ClaimAnswer { claim: self.claim, count: self.count, value: self.value, fate }
    }
}

pub fn read_claim(text: &str, claim: HoldId) -> Result<Filled, Corrupt> {
    Ok(filled(stored_claim(text)?, claim))
}

pub fn stored_claim(text: &str) -> Result<StoredClaim<'_>, Corrupt> {
    serde_json::from_str(text).map_err(|_| Corrupt("a claim"))
}

pub fn filled(it: StoredClaim<'_>, claim: HoldId) -> Filled {
    let sale = it.sale.map(|sale| Sale { at: Position { epoch: sale.epoch, seq: sale.seq }, row: sale.row });
    let expires = it.expires_at.map(Millis);
    Filled { claim, fingerprint: it.fingerprint, count: it.count, value: it.value, expires, sale }
}

pub fn split(text: &str) -> Result<(char, &str), Corrupt> {
    let mut rest = text.chars();
    let kind = rest.next().ok_or(Corrupt("an answer about a drop"))?;
    Ok((kind, rest.as_str()))
}

/// The step of a trace as the entry of a sale has it; "" for none.
pub fn trace_json(trace: Option<&Trace>) -> String {
    trace.and_then(|trace| serde_json::to_string(trace).ok()).unwrap_or_default()
}
