//! JSON against its schema: what the documents of the API say, and the catalogue of events.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

/// The schemas of `docs/events`, by type.
static EVENTS: LazyLock<HashMap<String, Value>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/events");
    let files = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let schemas = files.filter_map(|path| {
        let kind = path.file_name()?.to_str()?.strip_suffix(".schema.json")?.to_owned();
        Some((kind, serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()))
    });
    schemas.collect()
});

/// Checks an entry against the schema of its type. Every entry that any test is handed passes here.
pub fn check_entry(entry: &Value) {
    let kind = entry["type"].as_str().unwrap_or_default();
    let schema = EVENTS.get(kind).unwrap_or_else(|| panic!("docs/events does not know the type of {entry}"));
    let faults = differences(schema, schema, entry, "");
    assert!(faults.is_empty(), "{kind}:\n{}\n{entry}", faults.join("\n"));
    let id = format!("{}/{}", entry["feed"].as_str().unwrap(), entry["cursor"].as_str().unwrap());
    assert_eq!(entry["event_id"], *id);
}

/// Checks every entry in an answer of a gateway, or in a delivery.
pub fn check_entries(answer: &Value) {
    let dead = answer["dead"].as_array().into_iter().flatten().map(|letter| &letter["entry"]);
    let entries = answer["entries"].as_array().into_iter().flatten().chain(dead);
    entries.filter(|entry| entry["event_id"].is_string()).for_each(check_entry);
}

/// Every way in which `value` differs from `schema`, a part of `root`, as far as the words go that our documents use. More than is
/// described is a fault too: others may say more one day, what we say now is to be described.
pub fn differences(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => {
            root.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("{reference}"))
        }
        None => schema,
    };
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices.iter().filter(|choice| differences(root, choice, value, at).is_empty()).count();
        return if fits == 1 { vec![] } else { vec![format!("{at}: fits {fits} of oneOf: {value}")] };
    }
    // One of several, such as a text or null.
    if let Some(types) = schema["type"].as_array() {
        let fits = types.iter().any(|kind| {
            let mut one = schema.clone();
            one["type"] = kind.clone();
            (kind == "null" && value.is_null()) || differences(root, &one, value, at).is_empty()
        });
        return if fits { vec![] } else { vec![format!("{at}: fits none of {types:?}: {value}")] };
    }
    let mut faults = vec![];
    let mut wrong = |why: String| faults.push(format!("{at}: {why}: {value}"));
    match (schema["type"].as_str(), value) {
        (Some("string"), Value::String(text)) => {
            let length = text.chars().count() as u64;
            if schema["maxLength"].as_u64().is_some_and(|most| length > most)
                || schema["minLength"].as_u64().is_some_and(|least| length < least)
            {
                wrong(format!("{length} characters"));
            }
        }
        (Some("integer"), Value::Number(n)) if n.is_i64() => {
            let n = n.as_i64().unwrap();
            if schema["maximum"].as_i64().is_some_and(|most| n > most)
                || schema["minimum"].as_i64().is_some_and(|least| n < least)
            {
                wrong("out of range".into());
            }
        }
        (Some("boolean"), Value::Bool(_)) | (Some("number"), Value::Number(_)) => {}
        (Some("array"), Value::Array(items)) => {
            for (n, item) in items.iter().enumerate() {
                faults.extend(differences(root, &schema["items"], item, &format!("{at}/{n}")));
            }
        }
        (Some("object"), Value::Object(members)) => {
            for name in schema["required"].as_array().into_iter().flatten() {
                if !members.contains_key(name.as_str().unwrap()) {
                    wrong(format!("{name} is missing"));
                }
            }
            if let Some(properties) = schema["properties"].as_object() {
                for (name, value) in members {
                    match properties.get(name) {
                        Some(schema) => {
                            faults.extend(differences(root, schema, value, &format!("{at}/{name}")))
                        }
                        // Answers may say more than is described; ours say nothing that is not.
                        None => faults.push(format!("{at}: {name} is not described")),
                    }
                }
            }
        }
        (None, _) if schema.get("const").is_some() => {}
        (kind, _) => wrong(format!("is no {kind:?}")),
    }
    if schema.get("const").is_some_and(|wanted| wanted != value) {
        faults.push(format!("{at}: not {}: {value}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        faults.push(format!("{at}: none of {}: {value}", schema["enum"]));
    }
    faults
}
