//! An attempt to deliver to a webhook, as those who look after it see it.

use serde::Serialize;

use super::Millis;

/// Bytes that are kept of what an endpoint answered.
pub const RESPONSE_MAX: usize = 512;

/// What was sent, and what came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DeliveryAttempt {
    /// When it began.
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    pub at: Millis,
    /// The feed whose entries were sent; * for a test of a webhook of all feeds.
    pub feed: String,
    /// The batch's `webhook-id`.
    pub batch: String,
    /// Entries of the batch.
    #[cfg_attr(test, schema(value_type = u64))]
    pub entries: usize,
    /// The status of the answer; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long it took.
    pub ms: u64,
    /// Why it failed; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The first 512 bytes of the answer's body, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
    /// True if it was a test; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(test, schema(required = false))]
    pub test: bool,
}

/// The body of a test: a sample entry of each of these types, or of every type, all marked as tests.
pub fn test_body(feed: &str, batch: &str, types: &[String], now: Millis) -> (String, usize) {
    let wanted = |sample: &&(&str, &str)| types.is_empty() || types.iter().any(|kind| kind == sample.0);
    let mut entries = Vec::new();
    for (n, (_, text)) in SAMPLES.iter().filter(wanted).enumerate() {
        let Ok(mut entry) = serde_json::from_str::<serde_json::Map<_, _>>(text) else { continue };
        let new = [
            ("cursor", n.to_string().into()),
            // Entries of ledgers have numbers that begin with the time, so that no other event has this id.
            ("event_id", format!("{feed}/{n}").into()),
            ("feed", feed.into()),
            ("at", now.to_string().into()),
            ("test", true.into()),
        ];
        entry.extend(new.map(|(name, value): (_, serde_json::Value)| (name.to_owned(), value)));
        entries.push(serde_json::Value::from(entry));
    }
    let count = entries.len();
    let body = serde_json::json!({
        "type": "entries", "feed": feed, "batch": batch, "test": true, "entries": entries,
    });
    (body.to_string(), count)
}

macro_rules! samples {
    ($($kind:literal),*) => {
        [$(($kind, include_str!(concat!("../../docs/events/", $kind, ".json")))),*]
    };
}

/// A sample of each type of entry.
const SAMPLES: [(&str, &str); 9] = samples![
    "gift.accepted",
    "gift.merged",
    "gift.suppressed",
    "gift.denied",
    "gift.retracted",
    "gift.refunded",
    "drop.sold",
    "goal.reached",
    "ledger.lost"
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_a_sample_of_each_type_that_is_wanted() {
        let (body, count) = test_body("show", "b", &[], Millis(0));
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((count, &body["test"], &body["feed"]), (9, &true.into(), &"show".into()));
        let entries = body["entries"].as_array().unwrap();
        assert!(entries.iter().all(|it| it["test"] == true && it["feed"] == "show"));
        let ids: std::collections::HashSet<_> =
            entries.iter().map(|it| it["event_id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 9);
        for kind in super::super::ledger::ENTRY_TYPES {
            // No person is erased yet.
            assert!(kind == "person.erased" || SAMPLES.iter().any(|(known, _)| *known == kind), "{kind}");
        }
        let (_, few) = test_body("show", "b", &["drop.sold".into(), "person.erased".into()], Millis(0));
        assert_eq!(few, 1);
    }
}
