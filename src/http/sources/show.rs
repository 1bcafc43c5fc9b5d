//! A source as it is shown: as it was set, without the secret, and what came to it.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::domain::json::push_string;
use crate::domain::{FeedId, Millis};
use crate::engine::Kept;

/// Members of the settings that are never shown.
const HIDDEN: [&str; 2] = ["secret", "token"];

/// `{"source","feed","path"?, what was set, "counts","last_at"?,"last_error","last_error_at"?,"created_at"}`. The path is
/// left out for who may only observe: some presets have no other secret.
pub(super) fn to_json(feed: &FeedId, (name, source, tally): &Kept, has_path: bool) -> String {
    let mut out = format!("{{\"source\":\"{name}\",\"feed\":\"{feed}\"");
    if has_path {
        let _ = write!(out, ",\"path\":\"/in/{}\"", source.path.reveal());
    }
    // What the store kept was parsed before it was kept.
    let set: Map<String, Value> = serde_json::from_str(&source.settings).unwrap_or_default();
    for (member, value) in set.iter().filter(|(member, _)| !HIDDEN.contains(&member.as_str())) {
        let _ = write!(out, ",\"{member}\":{value}");
    }
    let counts: Vec<_> =
        tally.counts.iter().map(|(outcome, count)| format!("\"{}\":{count}", outcome.as_str())).collect();
    let _ = write!(out, ",\"counts\":{{{}}},\"last_at\":", counts.join(","));
    match tally.last_at {
        Some(at) => drop(write!(out, "\"{at}\"")),
        None => out.push_str("null"),
    }
    out.push_str(",\"last_error\":");
    match &tally.last_error {
        Some((at, error)) => {
            push_string(&mut out, error);
            let _ = write!(out, ",\"last_error_at\":\"{at}\"");
        }
        None => out.push_str("null"),
    }
    let _ = write!(out, ",\"created_at\":\"{}\"}}", Millis(source.since));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Source, SourceOutcome, SourceTally};

    #[test]
    fn a_source_is_shown_as_it_was_set_without_its_secrets() {
        let feed = "show".parse().unwrap();
        let settings =
            r#"{"preset":"kofi","token":"hunter2","secret":"hunter2","default_gift":{"id":"t","name":"T"}}"#;
        let source = Source::new(&feed, settings.into(), [0xabc, 0xdef], Millis(0));
        let tally = SourceTally {
            counts: [(SourceOutcome::Accepted, 1), (SourceOutcome::Refused, 1)].into(),
            last_at: Some(Millis(2)),
            last_error: Some((Millis(2), "it said \"no\"".into())),
        };
        let kept = ("tips".parse().unwrap(), source, tally);
        assert!(!to_json(&feed, &kept, false).contains("path"));
        let text = to_json(&feed, &kept, true);
        let json: Value = serde_json::from_str(&text).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("def\""), "{text}");
        assert_eq!(json["path"], format!("/in/{:032x}.show", 0xabc));
        assert_eq!((json["preset"].as_str(), json["counts"]["refused"].as_u64()), (Some("kofi"), Some(1)));
        assert_eq!(json["last_error"], "it said \"no\"");
        assert_eq!(json["last_at"], "1970-01-01T00:00:00.002Z");
    }
}
