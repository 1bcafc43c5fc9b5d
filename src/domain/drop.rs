//! A drop: a limited gift, as it is defined and as it is announced (contract section 5).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::gift::{Value, push_value, read_kind, read_time, read_value};
use super::json::{Fault, Object, Refused};
use super::{DropId, MAX_SAFE, Millis};

/// The most units of one drop.
pub const MAX_TOTAL: u64 = 1_000_000_000;

/// The longest time of a hold: a year, in milliseconds.
pub const MAX_HOLD_TTL_MS: u64 = 31_536_000_000;

/// Drops of one feed. A snapshot carries them all.
pub const MAX_DROPS: usize = 64;

/// A feed's drops as they were announced, by name.
pub type Drops = BTreeMap<DropId, Arc<DropView>>;

/// How a drop is defined: what PUT says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropSpec {
    /// What is sold, as rows carry it: `{"id","name","icon"?}` as JSON.
    pub gift: Arc<str>,
    /// The price of one unit.
    pub value: Option<Value>,
    /// Units in all, 1…10^9.
    pub total: u64,
    /// Units of one user, held and sold, 1…10^9.
    pub per_user: u64,
    /// How long a hold lasts, in milliseconds.
    pub hold_ttl_ms: u64,
    /// Unpaid holds that one user may have over all drops of the feed when claiming here.
    pub max_holds_per_user: u64,
    /// Claims are refused before.
    pub opens_at: Option<Millis>,
    /// Claims are refused from then on.
    pub closes_at: Option<Millis>,
}

impl DropSpec {
    /// Reads the body of a PUT.
    pub fn parse(raw: &RawValue) -> Result<DropSpec, Refused> {
        let mut faults = Vec::new();
        match Self::read(raw, &mut faults) {
            Some(spec) if faults.is_empty() => Ok(spec),
            _ => Err(Refused::Invalid(faults)),
        }
    }

    fn read(raw: &RawValue, faults: &mut Vec<Fault>) -> Option<DropSpec> {
        let mut body = Object::open(raw, faults)?;
        let gift = body.need("gift", faults).and_then(|f| read_kind(&f, faults));
        let total = body.need("total", faults).and_then(|f| f.integer(1, MAX_TOTAL, faults));
        let mut or = |name: &'static str, most, default| match body.take(name) {
            Some(f) => f.integer(1, most, faults),
            None => Some(default),
        };
        let per_user = or("per_user", MAX_TOTAL, 1);
        let hold_ttl_ms = or("hold_ttl_ms", MAX_HOLD_TTL_MS, 1_800_000);
        let max_holds_per_user = or("max_holds_per_user", MAX_TOTAL, 3);
        let value = body.take("value").map(|f| (read_value(&f, faults), f));
        // No claim is for more units than these, so the value of every claim is a number that all programs can read.
        let units = per_user.unwrap_or(1).min(total.unwrap_or(1));
        if let Some((Some(price), field)) = &value
            && price.amount.saturating_mul(units) > MAX_SAFE
        {
            field.wrong(
                faults,
                "is too much: a claim of as many units as one user may have must cost at most 2^53-1",
            );
        }
        // A time before 1970 is as good as 1970: long over.
        let mut time = |name: &'static str| {
            body.take(name).map(|f| (read_time(&f, faults).map(|at| at.max(Millis(0))), f))
        };
        let (opens, closes) = (time("opens_at"), time("closes_at"));
        if let (Some((Some(opens), _)), Some((Some(closes), field))) = (&opens, &closes)
            && closes <= opens
        {
            field.wrong(faults, "must be after opens_at");
        }
        body.close(faults);
        Some(DropSpec {
            gift: gift?.to_json().into(),
            value: value.and_then(|(value, _)| value),
            total: total?,
            per_user: per_user?,
            hold_ttl_ms: hold_ttl_ms?,
            max_holds_per_user: max_holds_per_user?,
            opens_at: opens.and_then(|(at, _)| at),
            closes_at: closes.and_then(|(at, _)| at),
        })
    }
}

/// What a drop does with claims now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(utoipa::ToSchema), schema(as = DropState, rename_all = "snake_case"))]
pub enum Phase {
    /// It has not opened yet.
    Pending,
    /// It sells.
    Open,
    /// Nothing is free, even if units are held.
    SoldOut,
    /// It has closed.
    Closed,
}

impl Phase {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "pending",
            Phase::Open => "open",
            Phase::SoldOut => "sold_out",
            Phase::Closed => "closed",
        }
    }
}

impl FromStr for Phase {
    type Err = ();
    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "pending" => Ok(Phase::Pending),
            "open" => Ok(Phase::Open),
            "sold_out" => Ok(Phase::SoldOut),
            "closed" => Ok(Phase::Closed),
            _ => Err(()),
        }
    }
}

/// A drop as GET and announcements show it. Always free + held + sold = total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropView {
    /// Its name.
    pub drop: DropId,
    /// What it does now.
    pub phase: Phase,
    /// How it is defined.
    pub spec: DropSpec,
    /// Units that can be claimed.
    pub free: u64,
    /// Units of unpaid holds.
    pub held: u64,
    /// Units that were paid for.
    pub sold: u64,
}

impl DropView {
    /// Appends the drop as GET answers it.
    pub fn push_json(&self, out: &mut String) {
        let DropView { drop, phase, spec, free, held, sold } = self;
        let DropSpec { gift, value, total, per_user, hold_ttl_ms, max_holds_per_user, opens_at, closes_at } =
            spec;
        let phase = phase.as_str();
        let _ = write!(
            out,
            "{{\"drop\":\"{drop}\",\"state\":\"{phase}\",\"total\":{total},\"free\":{free},\"held\":{held},\
             \"sold\":{sold},\"gift\":{gift},\"per_user\":{per_user},\"hold_ttl_ms\":{hold_ttl_ms},\
             \"max_holds_per_user\":{max_holds_per_user}"
        );
        push_value(out, value.as_ref());
        for (name, at) in [("opens_at", opens_at), ("closes_at", closes_at)] {
            if let Some(at) = at {
                let _ = write!(out, ",\"{name}\":\"{at}\"");
            }
        }
        out.push('}');
    }

    /// See [`DropView::push_json`].
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(256);
        self.push_json(&mut out);
        out
    }
}

/// Appends `,"drops":[…]`, or nothing when the feed has none.
pub fn push_drops<'a>(out: &mut String, drops: impl IntoIterator<Item = &'a Arc<DropView>>) {
    let mut some = false;
    for view in drops {
        out.push_str(if some { "," } else { ",\"drops\":[" });
        view.push_json(out);
        some = true;
    }
    if some {
        out.push(']');
    }
}

/// What became of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defined {
    /// The drop is new.
    New(DropView),
    /// It was there; this is what it is now.
    Changed(DropView),
    /// Its total would be below what is sold and held, which is this. Nothing changed.
    BelowTaken(u64),
    /// The feed has [`MAX_DROPS`] already. Nothing changed.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::syntax;

    fn parse(body: &str) -> Result<DropSpec, Vec<String>> {
        DropSpec::parse(syntax(body.as_bytes()).unwrap()).map_err(|refused| match refused {
            Refused::Invalid(faults) => faults.into_iter().map(|fault| fault.pointer).collect(),
            Refused::Syntax(why) => panic!("{why}"),
        })
    }

    #[test]
    fn absent_members_have_their_defaults() {
        let spec = parse(r#"{"gift":{"id":"r","name":"Rocket"},"total":100}"#).unwrap();
        assert_eq!((spec.per_user, spec.hold_ttl_ms, spec.max_holds_per_user), (1, 1_800_000, 3));
        assert_eq!((spec.opens_at, spec.closes_at), (None, None));
        assert_eq!(&*spec.gift, r#"{"id":"r","name":"Rocket"}"#);
    }

    #[test]
    fn every_fault_is_named() {
        let body = r#"{"gift":{"id":"r"},"total":0,"per_user":0,"hold_ttl_ms":1.5,"max_holds_per_user":"3",
            "opens_at":"soon","x":1}"#;
        let wanted =
            ["/gift/name", "/total", "/per_user", "/hold_ttl_ms", "/max_holds_per_user", "/opens_at", "/x"];
        assert_eq!(parse(body).unwrap_err(), wanted);
        assert_eq!(parse("{}").unwrap_err(), ["/gift", "/total"]);
        assert_eq!(parse("[]").unwrap_err(), [""]);
        let times = r#"{"gift":{"id":"r","name":"R"},"total":1000000000,
            "opens_at":"2026-01-01T00:00:00Z","closes_at":"2026-01-01T00:00:00Z"}"#;
        assert_eq!(parse(times).unwrap_err(), ["/closes_at"]);
        assert_eq!(parse(r#"{"gift":{"id":"r","name":"R"},"total":1000000001}"#).unwrap_err(), ["/total"]);
    }
}
