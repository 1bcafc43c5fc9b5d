//! `GET /openapi.json`: the API as a document for programs.
//!
//! Bodies are read by hand ([`crate::domain::json`]), so what stands here is a second spelling of the
//! same rules. Tests hold the two together: every route is in the document and the other way round,
//! its examples are accepted by the running server, and the server's answers have its shapes.

use std::sync::LazyLock;

use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::{Value, json};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::etag;

#[allow(dead_code, reason = "only described, never built or called")]
mod drops;
#[allow(dead_code, reason = "only described, never built or called")]
mod moderation;
#[allow(dead_code, reason = "only described, never built or called")]
mod operations;
#[allow(dead_code, reason = "only described, never built or called")]
mod producer;
#[allow(dead_code, reason = "only described, never built or called")]
mod report_schemas;
#[allow(dead_code, reason = "only described, never built or called")]
mod reports;
#[allow(dead_code, reason = "only described, never built or called")]
mod scheduled;
#[allow(dead_code, reason = "only described, never built or called")]
mod schemas;
#[allow(dead_code, reason = "only described, never built or called")]
mod source_schemas;
#[allow(dead_code, reason = "only described, never built or called")]
mod sources;
#[allow(dead_code, reason = "only described, never built or called")]
mod watching;

/// The document's root; the paths and schemas are in the files beside this one.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tipcast",
        description = "A live gift feed gateway: POST a gift, every watcher of the feed sees it, in order, \
            exactly once. Durations are integers of milliseconds, money is an integer of minor units, times are \
            RFC 3339 in UTC. Errors are problem documents (RFC 9457) whose `type` can be read at the same host. \
            What flows over /ws, /sse and /v1/ws is described in docs/PROTOCOL.md and docs/asyncapi.yaml.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "/", description = "This gateway")),
    tags(
        (name = "producer", description = "Writing: gifts, rows, policies. Needs a producer key when the operator set any"),
        (name = "moderation", description = "What a host does while a show runs. Needs a producer key when the operator set any"),
        (name = "drops", description = "Limited gifts: defining, claiming, holding and paying. Reading them needs no key"),
        (name = "reports", description = "What happened, for game backends: groups that pull, webhooks that push. Needs a \
            producer key or an admin key when the operator set any producer keys"),
        (name = "sources", description = "Tips that come from elsewhere: platforms' webhooks, read as gifts"),
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
        moderation::control,
        scheduled::list,
        scheduled::cancel,
        scheduled::dead,
        drops::put,
        drops::get,
        drops::list,
        drops::claim,
        drops::confirm,
        drops::cancel,
        drops::holds,
        reports::claim,
        reports::ack,
        reports::nack,
        reports::group,
        reports::groups,
        reports::delete_group,
        reports::group_dead,
        reports::group_replay,
        reports::put_webhook,
        reports::webhook,
        reports::webhooks,
        reports::delete_webhook,
        reports::webhook_dead,
        reports::webhook_replay,
        reports::overview,
        sources::put,
        sources::get,
        sources::list,
        sources::delete,
        sources::test,
        sources::deliver,
        watching::feed,
        watching::presence,
        watching::ws,
        watching::sse,
        watching::many,
        operations::healthz,
        operations::readyz,
        operations::metrics,
        operations::problem,
    ),
    modifiers(&Keys),
)]
struct Api;

struct Keys;

impl Modify for Keys {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let mut scheme = Http::new(HttpAuthScheme::Bearer);
        scheme.description = Some("A producer key, as `tipcast key new` makes it".into());
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("producer_key", SecurityScheme::Http(scheme));
        let mut scheme = Http::new(HttpAuthScheme::Bearer);
        scheme.description = Some("One of [auth] admin_keys, as `tipcast key new` makes them".into());
        components.add_security_scheme("admin_key", SecurityScheme::Http(scheme));
    }
}

struct Document {
    text: String,
    tag: String,
}

static DOCUMENT: LazyLock<Document> = LazyLock::new(|| {
    let text = document().to_string();
    let tag = super::pages::hash(&text);
    Document { text, tag }
});

/// The document, with what the derive cannot say.
fn document() -> Value {
    let mut api = serde_json::to_value(Api::openapi()).unwrap_or_default();
    let schemas = &mut api["components"]["schemas"];
    schemas["Gift"]["not"] = json!({ "required": ["deliver_at", "delay_ms"] });
    for policy in ["Policy", "PolicyPatch"] {
        let ttl = &mut schemas[policy]["properties"]["row_ttl_ms"];
        ttl["anyOf"] = json!([{ "maximum": 0 }, { "minimum": 1_000 }]);
    }
    let replay = &mut schemas["Replay"];
    replay["not"] = json!({ "anyOf": [{ "required": ["ids", "from"] }, { "required": ["ids", "to"] }] });
    // The derive spells the shape out in every single answer.
    let paths = api["paths"].as_object_mut().into_iter().flatten();
    for operation in paths.filter_map(|(_, item)| item.as_object_mut()).flatten() {
        for answer in operation.1["responses"].as_object_mut().into_iter().flatten() {
            let problem = answer.1.pointer_mut("/content/application~1problem+json");
            if let Some(problem) = problem {
                problem["schema"] = json!({ "$ref": "#/components/schemas/Problem" });
            }
        }
    }
    api
}

/// `GET /openapi.json`
pub(super) async fn show(req: HttpRequest) -> HttpResponse {
    let document = &*DOCUMENT;
    let known = etag::matches(&req, &document.tag);
    let mut answer = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer.insert_header((ETAG, format!("\"{}\"", document.tag))).insert_header((CACHE_CONTROL, "no-cache"));
    if known {
        return answer.finish();
    }
    answer.content_type("application/json").body(document.text.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Pages and files for people, which need no description for programs.
    const PAGES: [&str; 8] = [
        "/admin",
        "/",
        "/docs",
        "/openapi.json",
        "/overlay/{feed}",
        "/static/{file}",
        "/static/docs.js",
        "/static/docs.css",
    ];

    /// What is registered, as `GET /path`.
    fn registered() -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for text in [
            include_str!("../routes.rs"),
            include_str!("../reports/mod.rs"),
            include_str!("../sources/mod.rs"),
            include_str!("../watch/endpoints.rs"),
            include_str!("../docs.rs"),
            include_str!("../pages.rs"),
        ] {
            let code = text.split("#[cfg(test)]").next().unwrap();
            for call in code.split("resource(\"").skip(1) {
                let mut quoted = call.split('"');
                let path = quoted.next().unwrap().replace(":[^/]*", "");
                let methods = quoted.nth(1).unwrap();
                if !PAGES.contains(&path.as_str()) {
                    let methods = methods.split(", ").filter(|method| *method != "HEAD");
                    all.extend(methods.map(|method| format!("{method} {path}")));
                }
            }
        }
        all
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
            // Paths know their methods; a defect is nobody's answer; which names are listed is the operator's.
            assert!(matches!(status, "405" | "421" | "500") || described.contains(status), "{}", kind.name);
        }
    }

    #[test]
    fn bodies_refuse_what_they_do_not_know_and_every_reference_leads_somewhere() {
        let api = document();
        for body in
            ["Gift", "User", "GiftKind", "Money", "Combo", "Batch", "PolicyPatch", "DropSpec", "Claim"]
                .into_iter()
                .chain(["Pull", "Cursors", "Replay", "WebhookSpec", "SourceSpec"])
        {
            assert_eq!(api["components"]["schemas"][body]["additionalProperties"], false, "{body}");
        }
        let text = api.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(api["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
