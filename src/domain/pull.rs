//! What a group that pulls says: a claim, and which entries it is done with or gives back (contract
//! section 6).

use serde_json::value::RawValue;

use super::json::{Fault, Field, Object, Refused, fault};
use super::{Ask, Cursor, Millis, Start};

/// The longest that a claim waits for entries, in milliseconds.
pub const MAX_WAIT_MS: u64 = 30_000;

/// Entries of one claim, one ack, one nack or one replay at most.
pub const MAX_AT_ONCE: usize = 1_000;

/// The body of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The claimer's name, 1 to 64 bytes. For people who look at logs: any client that has a cursor may acknowledge it.
    pub consumer: String,
    /// What is asked for.
    pub ask: Ask,
    /// How long to wait when there is nothing, in milliseconds.
    pub wait_ms: u64,
}

impl Pull {
    /// Reads the body of a POST.
    pub fn parse(raw: &RawValue) -> Result<Pull, Refused> {
        let mut faults = Vec::new();
        match Self::read(raw, &mut faults) {
            Some(pull) if faults.is_empty() => Ok(pull),
            _ => Err(Refused::Invalid(faults)),
        }
    }

    fn read(raw: &RawValue, faults: &mut Vec<Fault>) -> Option<Pull> {
        let mut body = Object::open(raw, faults)?;
        let consumer = body.need("consumer", faults).and_then(|f| {
            let text = f.string(faults)?;
            if text.is_empty() || text.len() > 64 {
                f.wrong(faults, "must be 1 to 64 bytes long");
                return None;
            }
            Some(text)
        });
        let mut or = |name, least, most, default| match body.take(name) {
            Some(f) => f.integer(least, most, faults),
            None => Some(default),
        };
        let max = or("max", 1, MAX_AT_ONCE as u64, 128);
        let wait_ms = or("wait_ms", 0, MAX_WAIT_MS, 0);
        let lease_ms = or("lease_ms", 1_000, 600_000, 30_000);
        let from = match body.take("from") {
            Some(f) => read_start(&f, faults),
            None => Some(Start::default()),
        };
        body.close(faults);
        let ask = Ask { max: max? as usize, lease_ms: lease_ms?, from: from? };
        Some(Pull { consumer: consumer?, ask, wait_ms: wait_ms? })
    }
}

fn read_start(field: &Field<'_>, faults: &mut Vec<Fault>) -> Option<Start> {
    match field.string(faults)?.as_str() {
        "start" => Some(Start::Start),
        "now" => Some(Start::Now),
        _ => {
            field.wrong(faults, "must be \"start\" or \"now\"");
            None
        }
    }
}

/// Where a group is moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The oldest entry that is kept.
    Start,
    /// What comes next.
    Now,
    /// The entry with this number.
    To(Cursor),
    /// The first entry that happened then or later.
    At(Millis),
}

impl Seek {
    /// Reads the body of a POST: `{"to":"start"|"now"}`, `{"cursor":"17"}` or `{"at":TIME}`.
    pub fn parse(raw: &RawValue) -> Result<Seek, Refused> {
        let mut faults = Vec::new();
        match Self::read(raw, &mut faults) {
            Some(seek) if faults.is_empty() => Ok(seek),
            _ => Err(Refused::Invalid(faults)),
        }
    }

    fn read(raw: &RawValue, faults: &mut Vec<Fault>) -> Option<Seek> {
        let mut body = Object::open(raw, faults)?;
        let (to, cursor, at) = (body.take("to"), body.take("cursor"), body.take("at"));
        body.close(faults);
        match (to, cursor, at) {
            (Some(f), None, None) => read_start(&f, faults).map(|to| match to {
                Start::Start => Seek::Start,
                Start::Now => Seek::Now,
            }),
            (None, Some(f), None) => {
                let cursor = f.string(faults)?.parse();
                if cursor.is_err() {
                    f.wrong(faults, "must be the cursor of an entry");
                }
                cursor.ok().map(Seek::To)
            }
            (None, None, Some(f)) => {
                let at = Millis::parse(&f.string(faults)?);
                if at.is_none() {
                    f.wrong(faults, "must be a time such as \"2026-01-31T20:00:00Z\"");
                }
                at.map(Seek::At)
            }
            _ => {
                faults.push(fault("", "must have one of to, cursor and at"));
                None
            }
        }
    }
}

/// The body of an ack and of a nack, `{"cursors":["17"]}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursors {
    /// Each once, in order.
    pub all: Vec<Cursor>,
    /// How many different texts are no cursors. They are nothing that a group could have pending.
    pub malformed: u64,
}

impl Cursors {
    /// Reads the body of a POST.
    pub fn parse(raw: &RawValue) -> Result<Cursors, Refused> {
        let mut faults = Vec::new();
        let read = Object::open(raw, &mut faults).and_then(|mut body| {
            let field = body.need("cursors", &mut faults);
            let cursors = field.and_then(|f| strings(&f, "/cursors", &mut faults));
            body.close(&mut faults);
            cursors
        });
        let Some(mut texts) = read.filter(|_| faults.is_empty()) else {
            return Err(Refused::Invalid(faults));
        };
        texts.sort_unstable();
        texts.dedup();
        let mut all: Vec<Cursor> = texts.iter().filter_map(|text| text.parse().ok()).collect();
        let malformed = (texts.len() - all.len()) as u64;
        all.sort_unstable();
        all.dedup();
        Ok(Cursors { all, malformed })
    }
}

/// Which dead letters a replay is of, as its body says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayWish {
    /// `{}`: every one.
    All,
    /// Those with these ids: of the list of dead letters, or of their gifts.
    Ids(Vec<String>),
    /// Those between these two cursors, both included; one that was left out is the first, or the last.
    Range(Cursor, Cursor),
}

impl ReplayWish {
    /// Reads the body of a POST.
    pub fn parse(raw: &RawValue) -> Result<ReplayWish, Refused> {
        let mut faults = Vec::new();
        match Self::read(raw, &mut faults) {
            Some(wish) if faults.is_empty() => Ok(wish),
            _ => Err(Refused::Invalid(faults)),
        }
    }

    fn read(raw: &RawValue, faults: &mut Vec<Fault>) -> Option<ReplayWish> {
        let mut body = Object::open(raw, faults)?;
        let (ids, from, to) = (body.take("ids"), body.take("from"), body.take("to"));
        body.close(faults);
        if let (Some(ids), true) = (&ids, from.is_some() || to.is_some()) {
            ids.wrong(faults, "and from or to are not given together; give one of them");
            return None;
        }
        if let Some(ids) = ids {
            return strings(&ids, "/ids", faults).map(ReplayWish::Ids);
        }
        if from.is_none() && to.is_none() {
            return Some(ReplayWish::All);
        }
        let mut cursor = |field: &Option<Field<'_>>, default| match field {
            None => Some(default),
            Some(f) => f.string(faults).and_then(|text| {
                text.parse().map_err(|rule: super::ids::BadName| f.wrong(faults, rule.to_string())).ok()
            }),
        };
        let (first, last) = (cursor(&from, Cursor(0))?, cursor(&to, Cursor(super::MAX_SAFE))?);
        if let (true, Some(to)) = (first > last, &to) {
            to.wrong(faults, "must not be before from");
        }
        Some(ReplayWish::Range(first, last))
    }
}

/// A list of 1 to [`MAX_AT_ONCE`] strings.
fn strings(field: &Field<'_>, pointer: &str, faults: &mut Vec<Fault>) -> Option<Vec<String>> {
    let items = field.items(MAX_AT_ONCE, faults)?;
    let mut all = Vec::with_capacity(items.len());
    for (n, item) in items.iter().enumerate() {
        match item.string(&mut Vec::new()) {
            Some(text) => all.push(text),
            None => faults.push(fault(&format!("{pointer}/{n}"), "must be a string")),
        }
    }
    (all.len() == items.len()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::syntax;
    use proptest::prelude::*;

    fn pull(body: &str) -> Result<Pull, Refused> {
        Pull::parse(syntax(body.as_bytes()).unwrap())
    }

    fn pointers<T: std::fmt::Debug>(refused: Result<T, Refused>) -> Vec<String> {
        match refused.unwrap_err() {
            Refused::Invalid(faults) => faults.into_iter().map(|f| f.pointer).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_claim_gets_defaults_for_absent_fields() {
        let short = pull(r#"{"consumer":"a"}"#).unwrap();
        let ask = Ask { max: 128, lease_ms: 30_000, from: Start::Start };
        assert_eq!(short, Pull { consumer: "a".into(), ask, wait_ms: 0 });
        let whole = pull(r#"{"consumer":"a","max":1000,"wait_ms":30000,"lease_ms":600000,"from":"now"}"#);
        let ask = Ask { max: 1000, lease_ms: 600_000, from: Start::Now };
        assert_eq!(whole, Ok(Pull { consumer: "a".into(), ask, wait_ms: 30_000 }));
    }

    #[test]
    fn every_fault_of_a_claim_is_named() {
        for (body, at) in [
            ("[]", ""),
            ("{}", "/consumer"),
            (r#"{"consumer":""}"#, "/consumer"),
            (r#"{"consumer":7}"#, "/consumer"),
            (r#"{"consumer":"a","max":0}"#, "/max"),
            (r#"{"consumer":"a","max":1001}"#, "/max"),
            (r#"{"consumer":"a","max":"5"}"#, "/max"),
            (r#"{"consumer":"a","wait_ms":30001}"#, "/wait_ms"),
            (r#"{"consumer":"a","wait_ms":-1}"#, "/wait_ms"),
            (r#"{"consumer":"a","lease_ms":999}"#, "/lease_ms"),
            (r#"{"consumer":"a","lease_ms":600001}"#, "/lease_ms"),
            (r#"{"consumer":"a","from":"end"}"#, "/from"),
            (r#"{"consumer":"a","from":1}"#, "/from"),
            (r#"{"consumer":"a","group":"g"}"#, "/group"),
        ] {
            assert_eq!(pointers(pull(body)), [at], "{body}");
        }
        assert_eq!(pointers(pull(&format!(r#"{{"consumer":"{}"}}"#, "x".repeat(65)))), ["/consumer"]);
        assert_eq!(pointers(pull(r#"{"max":0,"x":1,"from":2}"#)), ["/consumer", "/max", "/from", "/x"]);
    }

    fn cursors(body: &str) -> Result<Vec<Cursor>, Refused> {
        Cursors::parse(syntax(body.as_bytes()).unwrap()).map(|cursors| cursors.all)
    }

    #[test]
    fn cursors_are_strings_and_what_is_none_is_nobodys() {
        assert_eq!(cursors(r#"{"cursors":["9","1","9"]}"#), Ok(vec![Cursor(1), Cursor(9)]));
        assert_eq!(cursors(r#"{"cursors":["x","1","-1",""]}"#), Ok(vec![Cursor(1)]));
        assert_eq!(cursors(r#"{"cursors":[]}"#), Ok(vec![]));
        let read = Cursors::parse(syntax(br#"{"cursors":["x","1","","x"]}"#).unwrap()).unwrap();
        assert_eq!((read.all, read.malformed), (vec![Cursor(1)], 2));
        for (body, at) in [
            ("7", ""),
            ("{}", "/cursors"),
            (r#"{"cursors":"1"}"#, "/cursors"),
            (r#"{"cursors":["1",2]}"#, "/cursors/1"),
            (r#"{"cursors":["1"],"group":"g"}"#, "/group"),
        ] {
            assert_eq!(pointers(cursors(body)), [at], "{body}");
        }
        let list = |n: usize| format!("{{\"cursors\":[{}]}}", vec!["\"1\""; n].join(","));
        assert!(cursors(&list(1_000)).is_ok());
        assert_eq!(pointers(cursors(&list(1_001))), ["/cursors"]);
    }

    fn wish(body: &str) -> Result<ReplayWish, Refused> {
        ReplayWish::parse(syntax(body.as_bytes()).unwrap())
    }

    #[test]
    fn a_replay_is_of_all_of_some_or_of_a_range() {
        assert_eq!(wish("{}"), Ok(ReplayWish::All));
        assert_eq!(wish(r#"{"ids":["5","a/5"]}"#), Ok(ReplayWish::Ids(vec!["5".into(), "a/5".into()])));
        assert_eq!(wish(r#"{"from":"3","to":"3"}"#), Ok(ReplayWish::Range(Cursor(3), Cursor(3))));
        let open = ReplayWish::Range(Cursor(3), Cursor(crate::domain::MAX_SAFE));
        assert_eq!(wish(r#"{"from":"3"}"#), Ok(open));
        assert_eq!(wish(r#"{"to":"3"}"#), Ok(ReplayWish::Range(Cursor(0), Cursor(3))));
        for (body, at) in [
            ("null", ""),
            (r#"{"ids":[1]}"#, "/ids/0"),
            (r#"{"ids":["1"],"from":"1"}"#, "/ids"),
            (r#"{"from":1}"#, "/from"),
            (r#"{"from":"5","to":"4"}"#, "/to"),
            (r#"{"to":"x"}"#, "/to"),
            (r#"{"all":true}"#, "/all"),
        ] {
            assert_eq!(pointers(wish(body)), [at], "{body}");
        }
    }

    proptest! {
        /// Whatever comes is read or refused with a place, and what is read keeps the rules.
        #[test]
        fn a_claim_is_read_within_its_bounds_or_refused(
            consumer in ".{0,70}",
            max in 0_u64..1_200,
            wait in 0_u64..40_000,
            lease in 0_u64..700_000,
        ) {
            let body = serde_json::json!({"consumer": consumer, "max": max, "wait_ms": wait, "lease_ms": lease});
            let legal = (1..=64).contains(&consumer.len())
                && (1..=1_000).contains(&max)
                && wait <= 30_000
                && (1_000..=600_000).contains(&lease);
            match pull(&body.to_string()) {
                Ok(read) => {
                    prop_assert!(legal);
                    prop_assert_eq!((read.consumer, read.ask.max as u64, read.wait_ms, read.ask.lease_ms),
                        (consumer, max, wait, lease));
                }
                Err(Refused::Invalid(faults)) => prop_assert!(!legal && !faults.is_empty()),
                Err(other) => prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn cursors_come_back_each_once_in_order(mut all in proptest::collection::vec(0_u64..=crate::domain::MAX_SAFE, 1..50)) {
            let texts: Vec<String> = all.iter().map(|n| n.to_string()).collect();
            let read = cursors(&serde_json::json!({ "cursors": texts }).to_string()).unwrap();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(read, all.into_iter().map(Cursor).collect::<Vec<_>>());
        }
    }
}
