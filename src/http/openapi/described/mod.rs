//! What `docs/openapi.json` is made from. Only tests have it: deriving the description is a large part of what a build
//! would cost, and the file is the same for every build.
//!
//! Bodies are read by hand ([`crate::domain::json`]), so what is here is a second spelling of the
//! same rules. Tests hold the two together: every route is in the document and the other way round,
//! its examples are accepted by the running server, and the server's answers have its shapes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use self::refusals::refusal;
use crate::auth::Right;
use crate::domain::Policy;
use crate::http::access::{self, Access, MethodRow, RouteEntry};
use crate::http::problem::{KINDS, ProblemKind};

mod console;
mod drops;
mod events;
mod moderation;
mod operations;
mod params;
mod producer;
mod refusals;
mod reports;
mod review;
mod scheduled;
mod source_schemas;
mod sources;
mod totals;
mod viewers;
mod watching;

/// The document's root; the paths and schemas are in the files beside this one.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tipcast",
        description = "A live gift feed gateway: POST a gift, every watcher of the feed sees it, in order, \
            exactly once. Durations are integers of milliseconds, money is an integer of minor units, times are \
            RFC 3339 in UTC. Errors are problem documents (RFC 9457) whose `type` can be read at the same host. \
            What flows over /ws, /sse and /v1/ws is described in /docs and, for programs, in /asyncapi.yaml. /openapi-3.0.json is this document as OpenAPI 3.0.3.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "/", description = "This gateway")),
    tags(
        (name = "producer", description = "Writing: gifts, rows, policies. Needs a key when the operator set any"),
        (name = "moderation", description = "What a host does while a show runs. Needs a key when the operator set any"),
        (name = "drops", description = "Limited gifts: defining, claiming, holding and paying. Reading them needs no key"),
        (name = "reports", description = "What happened, for game backends: groups that pull, webhooks that push. Needs a \
            producer key or an admin key when the operator set any producer keys"),
        (name = "deliveries", description = "What a webhook of yours is sent"),
        (name = "totals", description = "Totals, leaders, sessions and goals of feeds that count something"),
        (name = "sources", description = "Tips that come from elsewhere: platforms' webhooks, read as gifts"),
        (name = "viewers", description = "Viewers' tokens. Needs a key that may administer when the operator set any"),
        (name = "watching", description = "Reading and watching feeds"),
        (name = "operations", description = "For those who run it"),
    ),
    paths(
        producer::publish,
        producer::publish_batch,
        producer::retract,
        producer::policy_get,
        producer::policy_put,
        producer::policy_patch,
        moderation::retract_user,
        moderation::retract_gift,
        moderation::refund_gift,
        moderation::control,
        review::list,
        review::decide,
        review::block,
        review::unblock,
        review::blocks,
        scheduled::list,
        scheduled::cancel,
        scheduled::dead,
        drops::put,
        drops::get,
        drops::list,
        drops::claim,
        drops::look_up,
        drops::refund,
        drops::retract,
        drops::confirm,
        drops::cancel,
        drops::holds,
        reports::ledger,
        reports::ledger_summary,
        reports::gift_story,
        reports::claim,
        reports::ack,
        reports::nack,
        reports::seek,
        reports::group,
        reports::groups,
        reports::delete_group,
        reports::group_dead,
        reports::group_replay,
        reports::put_webhook,
        reports::webhook,
        reports::webhooks,
        reports::signing_keys,
        reports::delete_webhook,
        reports::webhook_dead,
        reports::webhook_replay,
        reports::overview,
        totals::totals,
        totals::leaders,
        totals::session,
        totals::goals,
        totals::goal,
        totals::put_goal,
        totals::delete_goal,
        sources::put,
        sources::get,
        sources::list,
        sources::delete,
        sources::test,
        sources::deliver,
        viewers::revoke,
        watching::feed,
        watching::presence,
        watching::ws,
        watching::sse,
        watching::many,
        console::feeds,
        console::nodes,
        console::stats,
        console::audit,
        console::keys,
        console::attempts,
        console::test_webhook,
        console::retry_webhook,
        operations::healthz,
        operations::readyz,
        operations::metrics,
        operations::problem,
    ),
    components(schemas(crate::http::answers::texts::Delivery)),
    modifiers(&Keys),
)]
struct Api;

struct Keys;

impl Modify for Keys {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let components = api.components.get_or_insert_default();
        let mut key = Http::new(HttpAuthScheme::Bearer);
        let description = "A key, as `tipcast key new` makes it. Scopes are the rights that it needs for the feed. Not asked for \
            while the operator has set none, of programs of the same machine";
        key.description = Some(description.into());
        components.add_security_scheme("key", SecurityScheme::Http(key));
        let mut token = Http::new(HttpAuthScheme::Bearer);
        token.bearer_format = Some("JWT".into());
        token.description = Some("A viewer token; also as ?token=. Scopes are words of its may".into());
        components.add_security_scheme("token", SecurityScheme::Http(token));
        let description = "A signed key: its name here, and Standard Webhooks' headers webhook-id, webhook-timestamp and \
            webhook-signature";
        let signed = ApiKeyValue::with_description("Tipcast-Key", description);
        components.add_security_scheme("signed", SecurityScheme::ApiKey(ApiKey::Header(signed)));
    }
}

/// Says of each operation what opens it, from the table that the door judges by, and what the door may answer.
fn secure(api: &mut Value) {
    let paths = api["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        let entry = access::entry(path);
        let methods = entry.map_or(&[][..], |entry| &entry.methods[..]);
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let found = methods.iter().find(|known| known.name.eq_ignore_ascii_case(method));
            let Some(MethodRow { access, .. }) = found else { continue };
            let mut refusals = Vec::new();
            if path.contains('{') {
                refusals.push((400, "A parameter of the path is not percent-encoded as it should be", false));
            }
            if matches!(access, Access::Feed | Access::List | Access::Watch) {
                refusals.push((429, "Too many wrong keys came from this address", true));
            }
            if entry.is_some_and(RouteEntry::takes_signed) {
                refusals.push((409, "A signed request came before, for another path", false));
            }
            for (status, answer) in refusals.into_iter().map(refusal) {
                if operation["responses"].get(&status).is_none() {
                    operation["responses"][status] = serde_json::to_value(answer).unwrap_or_default();
                }
            }
            operation["security"] = match access {
                Access::Page | Access::Open => json!([]),
                // Nothing, where the feed is public.
                Access::Feed | Access::List | Access::Watch => {
                    json!([{}, {"token": ["watch"]}, {"key": ["read"]}])
                }
                Access::Claim => json!([{"key": ["reports"]}, {"key": ["claims"]}]),
                Access::AnyKey => json!([{"key": []}]),
                Access::Hold => json!([{"key": ["claims"]}, {"token": ["hold"]}]),
                Access::Key(Right::Gifts) if entry.is_some_and(RouteEntry::takes_signed) => {
                    json!([{"key": ["gifts"]}, {"signed": ["gifts"]}])
                }
                Access::Key(right) => json!([{"key": [right.as_str()]}]),
            };
        }
    }
}

/// Describes the operations that a query may name in place of the path.
fn name_by_query(api: &mut Value) {
    for entry in access::entries() {
        let methods = entry.methods.iter().filter_map(|it| Some((it.name, entry.named_by_query(it.name)?)));
        for (method, (name, row)) in methods {
            let method = method.to_lowercase();
            let mut operation = api["paths"][row.path][&method].clone();
            for text in ["operationId", "summary"] {
                let more = if text == "summary" { ", by query" } else { "ByQuery" };
                operation[text] = format!("{}{more}", operation[text].as_str().unwrap_or_default()).into();
            }
            operation["description"] =
                format!("The same, for `.` and `..`, which a path cannot carry: `?{name}=`.").into();
            for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
                if parameter["name"] == name {
                    parameter["in"] = "query".into();
                }
            }
            api["paths"][entry.path][method] = operation;
        }
    }
}

/// The document, with what the derive cannot say.
fn document() -> Value {
    let mut api = serde_json::to_value(Api::openapi()).unwrap_or_default();
    let bodies = close_bodies_and_share_problems(&mut api);
    for (name, schema) in api["components"]["schemas"].as_object_mut().into_iter().flatten() {
        tidy(schema);
        if schema["type"] == "object" {
            // Bodies refuse what they do not know. Of `additionalProperties: false` older generators of clients make maps. Answers
            // may say more one day: without the word, clients in Go refuse that.
            let (keyword, is_open) = match bodies.contains(name) {
                true => ("unevaluatedProperties", false),
                false => ("additionalProperties", true),
            };
            schema[keyword] = is_open.into();
        }
    }
    join_parts(&mut api["components"]["schemas"]);
    let schemas = &mut api["components"]["schemas"];
    for shape in ["Policy", "PolicyPatch"] {
        for (field, (least, most)) in Policy::BOUNDS {
            let field = &mut schemas[shape]["properties"][field];
            (field["minimum"], field["maximum"]) = (json!(least), json!(most));
        }
    }
    schemas["PolicyPatch"]["properties"]["row_ttl_ms"]["not"] = json!({ "minimum": 1, "maximum": 999 });
    name_enum_values(schemas);
    name_by_query(&mut api);
    secure(&mut api);
    // For the page; generators of clients pass over it.
    let problem = |kind: &ProblemKind| json!({ "name": kind.name, "status": kind.status.as_u16(), "title": kind.title, "about": kind.about });
    api["x-problems"] = KINDS.iter().map(problem).collect();
    api["webhooks"] = json!({ "gifts": { "post": delivery() } });
    events::add_samples(&mut api);
    api
}

/// Says what generators of clients are to call the values of enums. By themselves some call them as they are, and in Go two enums
/// that both have an `off` do not compile.
fn name_enum_values(schemas: &mut Value) {
    for (name, schema) in schemas.as_object_mut().into_iter().flatten() {
        let Some(values) = schema["enum"].as_array() else { continue };
        let mut prefix = String::new();
        for (at, letter) in name.char_indices() {
            if at > 0 && letter.is_uppercase() {
                prefix.push('_');
            }
            prefix.push(letter.to_ascii_uppercase());
        }
        let words = values.iter().filter_map(Value::as_str);
        let names: Vec<String> = words.map(|word| format!("{prefix}_{}", word.to_uppercase())).collect();
        if names.len() == values.len() {
            schema["x-enum-varnames"] = names.into();
        }
    }
}

/// Gives the names of all schemas that are bodies of requests. The derive spells the shape of a problem out in
/// every single answer; here it becomes a reference.
fn close_bodies_and_share_problems(api: &mut Value) -> BTreeSet<String> {
    let mut bodies = BTreeSet::new();
    let paths = api["paths"].as_object_mut().into_iter().flatten();
    for (_, operation) in paths.filter_map(|(_, item)| item.as_object_mut()).flatten() {
        let body = operation.pointer("/requestBody/content/application~1json/schema/$ref");
        bodies.extend(body.and_then(Value::as_str).and_then(|it| it.rsplit('/').next()).map(str::to_owned));
        for (_, answer) in operation["responses"].as_object_mut().into_iter().flatten() {
            if let Some(problem) = answer.pointer_mut("/content/application~1problem+json") {
                problem["schema"] = json!({ "$ref": "#/components/schemas/Problem" });
            }
        }
    }
    bodies
}

/// What may be absent is never null, and a reference is alone: programs that make clients out of the document
/// stumble over either.
fn tidy(schema: &mut Value) {
    for (_, member) in schema["properties"].as_object_mut().into_iter().flatten() {
        // Of a member with a `default`, openapi-typescript makes one that must be sent.
        if let Some(default) = member.as_object_mut().and_then(|member| member.remove("default")) {
            member["x-default"] = default;
        }
        // Of an object that says nothing more it makes one that must be empty.
        if member["type"] == "object"
            && member.get("properties").is_none()
            && member.get("additionalProperties").is_none()
        {
            member["additionalProperties"] = true.into();
        }
    }
    let required = schema["required"].clone();
    let is_required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|it| it == name));
    for (name, property) in schema["properties"].as_object_mut().into_iter().flatten() {
        if let Some(choices) = property.get_mut("oneOf").and_then(Value::as_array_mut) {
            choices.retain(|choice| choice["type"] != "null");
            if let [only] = &mut choices[..] {
                *property = only.take();
            }
        }
        if let Some(types) = property.get_mut("type").and_then(Value::as_array_mut)
            && !is_required(name)
        {
            types.retain(|kind| kind != "null");
            property["type"] = types[0].take();
        }
        if let Some(reference) = property.get("$ref").cloned() {
            *property = json!({ "$ref": reference });
        }
    }
    if let Some(object) = schema.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
}

/// A shape that is another with more members (`serde(flatten)`) lists all of them itself.
fn join_parts(schemas: &mut Value) {
    let known = schemas.clone();
    for schema in schemas.as_object_mut().into_iter().flatten().map(|(_, schema)| schema) {
        let Some(Value::Array(parts)) = schema.as_object_mut().and_then(|it| it.remove("allOf")) else {
            continue;
        };
        let (mut properties, mut required) = (serde_json::Map::new(), Vec::new());
        for mut part in parts {
            if let Some(name) = part["$ref"].as_str().and_then(|it| it.rsplit('/').next()) {
                part = known[name].clone();
            }
            tidy(&mut part);
            properties.extend(part["properties"].as_object().cloned().unwrap_or_default());
            required.extend(part["required"].as_array().cloned().unwrap_or_default());
        }
        schema["type"] = "object".into();
        schema["additionalProperties"] = true.into();
        schema["properties"] = properties.into();
        schema["required"] = required.into();
    }
}

/// What a webhook's endpoint is sent, and what its answer means.
fn delivery() -> Value {
    let header = |name: &str, description: &str| {
        json!({ "name": name, "in": "header", "required": true,
        "description": description, "schema": { "type": "string" } })
    };
    let means = |description: &str| json!({ "description": description });
    json!({
        "operationId": "deliverGifts",
        "summary": "Entries of a feed's ledger",
        "description": "Signed as Standard Webhooks. A retry has the same webhook-id, batch and entries; entries come \
            at least once, so recognise repeats by `event_id`.",
        // A tag of its own: makers of clients put each tag into a file, and paths and webhooks of one tag into two files
        // of the same name.
        "tags": ["deliveries"],
        "security": [],
        "parameters": [
            header("webhook-id", "The batch's name; the same in a retry"),
            header("webhook-timestamp", "Seconds since 1970 of this attempt"),
            header("webhook-signature", "With a space between: v1, and the base64 of HMAC-SHA256 over id.timestamp.body, for each secret; v1a, and that \
                of an Ed25519 signature, by the key at /.well-known/jwks.json"),
            json!({ "name": "traceparent", "in": "header", "required": false, "schema": { "type": "string" },
                "description": "W3C Trace Context: this attempt, where the gateway records traces and a gift of the batch was traced" }),
            json!({ "name": "tracestate", "in": "header", "required": false, "schema": { "type": "string", "maxLength": 512 },
                "description": "W3C Trace Context: what came with the gift's traceparent, where all gifts of the batch are of one trace" }),
        ],
        "requestBody": { "required": true, "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/Delivery" },
        } } },
        "responses": {
            "2XX": means("The entries are acknowledged"),
            "410": means("The webhook is disabled"),
            "413": means("The batch is halved"),
            "429": means("Tried again after Retry-After; so is 503"),
            "4XX": means("Tried once more, then the batch is halved; an entry refused alone is a dead letter"),
            "5XX": means("Tried again for a day, then the entries are dead letters"),
        },
    })
}

mod tests {
    use super::*;

    /// Pages and files for people, which need no description for programs.
    const PAGES: [&str; 17] = [
        "/console",
        "/admin",
        "/desk/{feed}",
        "/",
        "/docs",
        "/docs/protocol",
        "/asyncapi.yaml",
        "/openapi.json",
        "/openapi-3.0.json",
        "/overlay/{feed}",
        "/overlay/{feed}/leaders",
        "/overlay/{feed}/goal/{goal}",
        "/static/{file}",
        "/static/docs.js",
        "/static/docs_samples.js",
        "/static/docs_try.js",
        "/static/docs.css",
    ];

    /// What there is, as `GET /path`.
    fn registered() -> BTreeSet<String> {
        let entries = access::entries().iter().filter(|entry| !PAGES.contains(&entry.path));
        let lines =
            entries.flat_map(|entry| entry.methods.iter().map(|it| format!("{} {}", it.name, entry.path)));
        lines.collect()
    }

    /// How the file is written anew.
    const WRITE: &str = "TIPCAST_WRITE_OPENAPI";

    #[test]
    fn the_file_that_is_served_is_what_the_code_describes() {
        let mut described = serde_json::to_string_pretty(&document()).unwrap();
        described.push('\n');
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json"), described).unwrap();
        } else {
            assert!(
                described == crate::http::openapi::FILE,
                "docs/openapi.json is out of date: make openapi"
            );
        }
    }

    #[test]
    fn the_files_of_the_events_are_what_the_code_describes() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/events"));
        let described = events::files(&document());
        if std::env::var_os(WRITE).is_some() {
            let _ = std::fs::remove_dir_all(folder);
            std::fs::create_dir_all(folder).unwrap();
            described.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
        }
        let there =
            std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
        let there: BTreeSet<String> = there.collect();
        assert_eq!(there, described.keys().cloned().collect());
        for (name, text) in described {
            let current = std::fs::read_to_string(folder.join(&name)).unwrap();
            assert!(current == text, "docs/events/{name} is out of date: make openapi");
        }
    }

    #[test]
    fn every_route_is_described_and_nothing_else_is() {
        let api = document();
        let mut described = BTreeSet::new();
        for (path, item) in api["paths"].as_object().unwrap() {
            for method in item.as_object().unwrap().keys() {
                described.insert(format!("{} {path}", method.to_uppercase()));
            }
        }
        assert_eq!(described, registered());
    }

    #[test]
    fn every_problem_that_is_answered_is_described_with_its_status() {
        let api = document();
        let mut described = BTreeSet::new();
        for item in api["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                described.extend(operation["responses"].as_object().unwrap().keys().cloned());
            }
        }
        for kind in crate::http::problem::KINDS {
            let status = kind.status.as_str();
            // 405: a path knows its methods. 421: the operator lists the names. 500: a defect is no answer to plan for.
            assert!(matches!(status, "405" | "421" | "500") || described.contains(status), "{}", kind.name);
        }
    }

    #[test]
    fn bodies_refuse_what_they_do_not_know_and_every_reference_leads_somewhere() {
        let api = document();
        for body in
            ["Gift", "GiftBatch", "PolicyPatch", "DropSpec", "DropClaim", "GroupClaim", "EntryCursors"]
                .into_iter()
                .chain(["ReplayRequest", "WebhookSpec", "OverlayControl", "SourceSpec"])
        {
            assert_eq!(api["components"]["schemas"][body]["unevaluatedProperties"], false, "{body}");
        }
        let text = api.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(api["components"]["schemas"][name].is_object(), "{name}");
        }
    }

    /// What made generators of clients fail, or made types that nobody can use.
    #[test]
    fn a_client_can_be_generated_from_the_document() {
        let api = document();
        let mut ids = BTreeSet::new();
        for (path, item) in api["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                let verb_noun = id.starts_with(char::is_lowercase) && id.contains(char::is_uppercase);
                assert!(verb_noun && ids.insert(id.to_owned()), "{method} {path}: {id}");
            }
        }
        let schemas = api["components"]["schemas"].as_object().unwrap();
        for (name, schema) in schemas {
            assert!(schema["type"].is_string(), "{name}: {schema}");
            for (property, it) in schema["properties"].as_object().into_iter().flatten() {
                let typed = it.get("$ref").is_some() || it.get("type").is_some();
                assert!(typed && it.get("anyOf").is_none(), "{name}.{property}: {it}");
                assert!(
                    it.get("$ref").is_none() || it.as_object().unwrap().len() == 1,
                    "{name}.{property}: {it}"
                );
                let optional =
                    !schema["required"].as_array().is_some_and(|all| all.contains(&json!(property)));
                assert!(
                    !(optional && it["type"].is_array()),
                    "{name}.{property} may be absent, never null: {it}"
                );
                assert_ne!(it["enum"], json!([true]), "{name}.{property}");
            }
        }
        let delivery = &api["webhooks"]["gifts"]["post"];
        assert_eq!(delivery["operationId"], "deliverGifts");
        for item in api["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                assert_ne!(operation["tags"], delivery["tags"], "{}", operation["operationId"]);
            }
        }
        // A null is a keyword with a wrong value; examples are the only places that may have one.
        for schema in schemas.values() {
            let text = schema.to_string();
            for keyword in ["oneOf", "anyOf", "allOf", "type", "items", "enum", "properties", "$ref"] {
                assert!(!text.contains(&format!("\"{keyword}\":null")), "{keyword}: {text}");
            }
        }
        assert_eq!(schemas["LedgerEntry"]["properties"]["gift"]["$ref"], "#/components/schemas/GiftEvent");
        assert!(!schemas["DropClaim"]["required"].as_array().unwrap().contains(&json!("id")));
    }
}
