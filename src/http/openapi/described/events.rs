//! The catalogue of events: each type of entry with a sample as the gateway writes it, and a JSON Schema made from the shape
//! `LedgerEntry` of the document.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::domain::{Cursor, Delta, Entry, EntryStatus, FeedId, Millis};

/// A type of entry.
struct EventType {
    status: EntryStatus,
    /// When it happens.
    when: &'static str,
    /// What every such entry has, beside what every entry has.
    must: &'static [&'static str],
    /// What it may have.
    may: &'static [&'static str],
    /// What its gift has, beside the id.
    gift: &'static [&'static str],
    sample: Entry,
}

/// What every entry has, and may have.
const MUST: [&str; 5] = ["cursor", "event_id", "type", "feed", "at"];
const MAY: [&str; 4] = ["attempt", "test", "traceparent", "tracestate"];

/// What the event of a gift that was given has.
const WHOLE: &[&str] = &["user", "gift", "count"];

const ROSE: &str = r#"{"id":"order-7712","user":{"id":"u-42","name":"Mia"},"gift":{"id":"rose","name":"Rose"},"count":2,"value":{"amount":300,"currency":"EUR"},"message":"For you!"}"#;
const BY_WHOM: &str =
    r#"{"id":"order-7712","user":{"id":"u-42","name":"Mia"},"gift":{"id":"rose","name":"Rose"}}"#;
const CLAIM: &str = r#"{"id":"order-9001","user":{"id":"u-42","name":"Mia"},"gift":{"id":"rocket","name":"Golden rocket"},"count":1,"value":{"amount":4990,"currency":"EUR"}}"#;
const GOAL: &str = r#"{"goal":"mic","title":"A new microphone","period":"session","by":"EUR","target":50000,"value":50150,"reached_at":"2026-01-31T20:00:00.000Z"}"#;
const LOST: &str = r#"{"from":"1795177783042000","to":"1795177783042016","count":17}"#;

fn catalogue() -> Vec<EventType> {
    use EntryStatus::{Accepted, Denied, Goal, Lost, Merged, Refunded, Retracted, Sold, Suppressed};
    let give = |count, amount| Delta { count, value: Some((amount, "EUR".to_owned())) };
    let entry = |status, gift: &str, delta: Option<Delta>| Entry {
        cursor: Cursor(1_795_177_783_042_017),
        status,
        at: Millis(1_769_889_600_000),
        seq: Some(42),
        row: "0mj3k9x2q7a1b-42".parse().ok(),
        gift: gift.into(),
        delta,
        reason: None,
        drop: None,
        hold: None,
        trace: None,
    };
    let unseen = |it: Entry| Entry { seq: None, row: None, ..it };
    let event = |status, when, (must, may, gift), sample| EventType { status, when, must, may, gift, sample };
    let shown: (&[_], &[_], _) = (&["seq", "row", "delta", "gift"], &[], WHOLE);
    let back: (&[_], &[_], &[_]) = (&["delta", "gift"], &["seq", "row", "reason", "drop", "hold"], &[]);
    vec![
        event(Accepted, "A gift became a row.", shown, entry(Accepted, ROSE, Some(give(2, 300)))),
        event(
            Merged,
            "A gift joined a row. Of a combo's frame, `delta` is what the combo grew by.",
            shown,
            entry(Merged, ROSE, Some(give(2, 300))),
        ),
        event(
            Suppressed,
            "A gift was not shown, because of the dedup lock or a block of its giver. It was paid.",
            (&["delta", "gift"], &["row"], WHOLE),
            unseen(entry(Suppressed, ROSE, Some(give(2, 300)))),
        ),
        event(
            Denied,
            "A review denied a gift. It was paid.",
            (&["delta", "gift"], &[], WHOLE),
            unseen(entry(Denied, ROSE, Some(give(2, 300)))),
        ),
        event(
            Retracted,
            "A gift or a sale was taken back, by its id, with its row or with all rows of its giver. `delta` is the negative of \
             what was left of it.",
            back,
            Entry {
                reason: Some("\"chargeback\"".into()),
                ..entry(Retracted, BY_WHOM, Some(give(-2, -300)))
            },
        ),
        event(
            Refunded,
            "A part of a gift's value was refunded. `delta` has a count of 0 and the negative amount.",
            back,
            Entry { reason: Some("\"half of it\"".into()), ..entry(Refunded, BY_WHOM, Some(give(0, -150))) },
        ),
        event(
            Sold,
            "Units of a drop were sold. The gift's id is that of the claim; `hold` is there if they were held before.",
            (&["seq", "row", "delta", "gift", "drop"], &["hold"], WHOLE),
            Entry {
                drop: "rocket".parse().ok(),
                hold: "rocket~order-9001".parse().ok(),
                ..entry(Sold, CLAIM, Some(give(1, 4_990)))
            },
        ),
        event(
            Goal,
            "A goal was reached. It follows the entry that reached it.",
            (&["goal"], &["seq"], &[]),
            Entry { row: None, ..entry(Goal, GOAL, None) },
        ),
        event(
            Lost,
            "Entries were cut from the ledger before this reader was handed them. It is the first thing that the reader gets \
             afterwards; its cursor is that of the last one lost.",
            (&["lost"], &[], &[]),
            Entry { cursor: Cursor(1_795_177_783_042_016), ..unseen(entry(Lost, LOST, None)) },
        ),
    ]
}

impl EventType {
    fn sample(&self) -> String {
        let Ok(feed) = "demo".parse::<FeedId>() else { return String::new() };
        let mut out = String::new();
        self.sample.push_json(&mut out, &feed, Some(1));
        out
    }

    /// Its JSON Schema, out of the shapes of the document.
    fn schema(&self, schemas: &Value) -> Value {
        let kind = self.status.kind();
        let members: Vec<&str> = [&MUST[..], self.must, &MAY, self.may].concat();
        let all = &schemas["LedgerEntry"]["properties"];
        let mut properties: serde_json::Map<_, _> =
            members.iter().map(|name| ((*name).to_owned(), all[name].clone())).collect();
        properties["type"] = json!({ "const": kind });
        let mut defs = BTreeMap::new();
        if members.contains(&"gift") {
            let mut gift = schemas["GiftEvent"].clone();
            gift["required"] = [&["id"], self.gift].concat().into();
            properties["gift"] = gift;
        }
        let mut schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": kind,
            "description": self.when,
            "type": "object",
            "required": ([&MUST[..], self.must].concat()),
            "properties": properties,
        });
        collect_references(&mut schema, schemas, &mut defs);
        schema["$defs"] = json!(defs);
        schema
    }
}

/// Makes every reference one to `$defs`, and puts what they lead to there.
fn collect_references(schema: &mut Value, schemas: &Value, defs: &mut BTreeMap<String, Value>) {
    match schema {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str).and_then(|it| it.rsplit('/').next());
            if let Some(name) = target.map(str::to_owned) {
                members.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
                if !defs.contains_key(&name) {
                    let mut shape = schemas[&name].clone();
                    defs.insert(name.clone(), Value::Null);
                    collect_references(&mut shape, schemas, defs);
                    defs.insert(name, shape);
                }
            }
            members.values_mut().for_each(|it| collect_references(it, schemas, defs));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| collect_references(it, schemas, defs)),
        _ => {}
    }
}

/// Puts the samples into the document: each as an example of its type, all of them as an answer to a claim.
pub(super) fn add_samples(api: &mut Value) {
    let mut examples = serde_json::Map::new();
    let mut entries = Vec::new();
    for event in catalogue() {
        let sample: Value = serde_json::from_str(&event.sample()).unwrap_or_default();
        let kind = event.status.kind();
        examples
            .insert(kind.to_owned(), json!({ "summary": kind, "description": event.when, "value": sample }));
        entries.push(sample);
    }
    let claimed = &mut api["paths"]["/v1/feeds/{feed}/groups/{group}/claim"]["post"]["responses"]["200"];
    claimed["content"]["application/json"]["example"] = json!({ "entries": entries });
    api["components"]["examples"] = examples.into();
}

/// The files of `docs/events`, by name.
pub(super) fn files(api: &Value) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut index = String::from(
        "# Events\n\nWhat an entry of a feed's ledger may be. Each type has a sample as the gateway writes it, and a JSON Schema. New types\n\
         and members may come at any time: acknowledge a type that you do not know, and pass over a member that you do not know.\n\
         [Reports](../REPORTS.md) says how entries are read. `make openapi` writes this folder.\n\n\
         | type | when | |\n|---|---|---|\n",
    );
    for event in catalogue() {
        let kind = event.status.kind();
        let schema =
            serde_json::to_string_pretty(&event.schema(&api["components"]["schemas"])).unwrap_or_default();
        files.insert(format!("{kind}.json"), event.sample() + "\n");
        files.insert(format!("{kind}.schema.json"), schema + "\n");
        let _ = writeln!(
            index,
            "| `{kind}` | {} | [sample]({kind}.json), [schema]({kind}.schema.json) |",
            event.when
        );
    }
    files.insert("README.md".to_owned(), index);
    files
}
