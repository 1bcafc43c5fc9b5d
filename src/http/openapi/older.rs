//! The document as OpenAPI 3.0.3, for programs that read nothing newer, or read it badly.

use serde_json::{Map, Value, json};

/// Keywords that 3.0 does not know and that only say more exactly what else is said too.
const UNKNOWN: [&str; 1] = ["propertyNames"];

/// Values in which the words of a schema are only words.
const EXAMPLES: [&str; 4] = ["example", "examples", "default", "enum"];

/// The same API, as far as 3.0 can say it: without webhooks, without roles of keys and tokens.
pub(super) fn rendered(api: &Value) -> Value {
    let mut api = api.clone();
    api["openapi"] = json!("3.0.3");
    if let Some(root) = api.as_object_mut() {
        let webhooks = root.remove("webhooks").unwrap_or_default();
        let only = &webhooks["gifts"]["post"]["tags"][0];
        if let Some(tags) = root.get_mut("tags").and_then(Value::as_array_mut) {
            tags.retain(|tag| tag["name"] != *only);
        }
    }
    if let Some(license) = api.pointer_mut("/info/license").and_then(Value::as_object_mut) {
        license.remove("identifier");
    }
    for (_, item) in api["paths"].as_object_mut().into_iter().flatten() {
        for (_, operation) in item.as_object_mut().into_iter().flatten() {
            for choice in operation.get_mut("security").and_then(Value::as_array_mut).into_iter().flatten() {
                for (_, roles) in choice.as_object_mut().into_iter().flatten() {
                    *roles = json!([]);
                }
            }
        }
    }
    reword(&mut api);
    api
}

fn reword(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(reword),
        Value::Object(members) => {
            reword_keywords(members);
            for (_, member) in members.iter_mut().filter(|(name, _)| !EXAMPLES.contains(&name.as_str())) {
                reword(member);
            }
        }
        _ => {}
    }
}

fn reword_keywords(schema: &mut Map<String, Value>) {
    // Of a map of anything the generator for Kotlin makes what does not compile.
    if schema.get("additionalProperties") == Some(&true.into()) && !schema.contains_key("properties") {
        schema.remove("additionalProperties");
    }
    if let Some(closed) = schema.remove("unevaluatedProperties") {
        schema.insert("additionalProperties".into(), closed);
    }
    for unknown in UNKNOWN {
        schema.remove(unknown);
    }
    if let Some(Value::Array(types)) = schema.get("type").cloned() {
        let named: Vec<_> = types.iter().filter(|kind| *kind != "null").collect();
        if let [only] = named[..] {
            schema.insert("type".into(), only.clone());
            schema.insert("nullable".into(), json!(true));
        } else {
            schema.remove("type");
        }
    }
    // What may be null there may be absent too.
    if let Some(choices) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| choice["type"] != "null");
        if let [only] = &mut choices[..] {
            let only = only.take();
            schema.remove("oneOf");
            schema.extend(only.as_object().cloned().unwrap_or_default());
        }
    }
    if let Some(only) = schema.remove("const") {
        schema.insert("enum".into(), json!([only]));
    }
    // A list belongs to a schema; a map of them is that of a body, which 3.0 has too.
    if let Some(first) = schema.get("examples").and_then(Value::as_array).and_then(|all| all.first()).cloned()
    {
        schema.remove("examples");
        schema.insert("example".into(), first);
    }
    // It goes without saying, and said it makes types of Kotlin's that do not compile.
    if schema.get("additionalProperties") == Some(&json!(true)) {
        schema.remove("additionalProperties");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openapi_3_0_replaces_or_omits_what_it_cannot_say() {
        let newer = json!({
            "openapi": "3.1.0", "info": {"license": {"name": "MIT", "identifier": "MIT"}},
            "tags": [{"name": "a"}, {"name": "w"}], "webhooks": {"gifts": {"post": {"tags": ["w"]}}},
            "paths": {"/a": {"get": {"security": [{}, {"key": ["read"]}]}}},
            "components": {"schemas": {"A": {
                "type": ["string", "null"], "examples": [{"const": 1}], "propertyNames": {},
                "properties": {
                    "any": {"type": ["string", "integer"]}, "one": {"const": "x"}, "more": {"additionalProperties": true}, "closed": {"unevaluatedProperties": false},
                    "none": {"oneOf": [{"type": "null"}, {"$ref": "#/b"}]},
                },
            }}},
        });
        let older = rendered(&newer);
        assert_eq!(
            older,
            json!({
                "openapi": "3.0.3", "info": {"license": {"name": "MIT"}}, "tags": [{"name": "a"}],
                "paths": {"/a": {"get": {"security": [{}, {"key": []}]}}},
                "components": {"schemas": {"A": {
                    "type": "string", "nullable": true, "example": {"const": 1},
                    "properties": {"any": {}, "one": {"enum": ["x"]}, "more": {}, "closed": {"additionalProperties": false},
                        "none": {"$ref": "#/b"}},
                }}},
            })
        );
    }
}
