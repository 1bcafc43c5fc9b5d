//! Section 11 of the contract: sources.

use super::producer::{BodyRefusals, Refusals};
use super::schemas::Problem;
use super::source_schemas::{Delivered, Source, SourceSpec, Sources, Tried};

/// Set a source
///
/// Makes it, or sets it anew; its path stays. Paste the answer's path, behind this gateway's public https address, into
/// the platform's webhook settings (docs/SOURCES.md).
#[utoipa::path(
    put,
    path = "/v1/feeds/{feed}/sources/{name}",
    tag = "sources",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("name" = String, Path, description = "Which source", example = "tips", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
    ),
    request_body(content = SourceSpec, examples(
        ("kofi" = (summary = "Ko-fi", value = json!(
            {"preset": "kofi", "token": "7f1c2a9e-0000-4000-8000-000000000001", "default_gift": {"id": "tip", "name": "Tip"},
             "tier": [{"from": 500, "tier": 1}, {"from": 2000, "tier": 2}]}
        ))),
        ("custom" = (summary = "A platform of one's own", value = json!(
            {"preset": "custom", "secret": "s3cret-of-the-sender", "default_gift": {"id": "tip", "name": "Tip"},
             "verify": {"scheme": "hmac-sha256", "header": "X-Signature", "encoding": "hex", "prefix": "sha256="},
             "when": [{"pointer": "/kind", "equals": "payment"}], "amount": "decimal",
             "map": {"id": "/id", "user_name": "/name", "amount": "/amount", "currency": "/currency", "message": "/text"},
             "refund": {"when": [{"pointer": "/kind", "equals": "refund"}], "id": "/payment"}}
        ))),
    )),
    responses(
        (status = 201, description = "It is new", body = Source),
        (status = 200, description = "It is set anew", body = Source),
        (status = 409, description = "The feed has as many sources as may be", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
    security((), ("producer_key" = [])),
)]
pub(super) fn put() {}

/// See how a source stands
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/sources/{name}",
    tag = "sources",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("name" = String, Path, description = "Which source", example = "tips", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
    ),
    responses(
        (status = 200, description = "As it was set, without its secret, and what came to it", body = Source),
        (status = 404, description = "The feed has no such source", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
    security((), ("producer_key" = [])),
)]
pub(super) fn get() {}

/// List a feed's sources
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/sources",
    tag = "sources",
    params(("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$")),
    responses((status = 200, description = "By name", body = Sources), Refusals),
    security((), ("producer_key" = [])),
)]
pub(super) fn list() {}

/// Delete a source
///
/// Its path leads nowhere from then on; another source of the same name has another one.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/sources/{name}",
    tag = "sources",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("name" = String, Path, description = "Which source", example = "tips", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
    ),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "The feed has no such source", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
    security((), ("producer_key" = [])),
)]
pub(super) fn delete() {}

/// Try a sample on a source
///
/// The body is what the platform would post (of a form, its JSON will do). Says which gift it would become, or why
/// none. Signatures are not asked for, and nothing is done.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/sources/{name}/test",
    tag = "sources",
    params(
        ("feed" = String, Path, description = "Which feed", example = "show", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
        ("name" = String, Path, description = "Which source", example = "tips", pattern = "^[A-Za-z0-9_.-]{1,64}$"),
    ),
    request_body(content = String, content_type = "*/*", description = "A sample, at most 64 KiB"),
    responses(
        (status = 200, description = "What it would become", body = Tried),
        (status = 404, description = "The feed has no such source", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
    security((), ("producer_key" = [])),
)]
pub(super) fn test() {}

/// Deliver to a source
///
/// For platforms. Needs no key: the delivery itself shows whose it is. What is left out, and what came before, is
/// answered 200, since there is no point in sending it again. Twitch's challenge is answered as text.
#[utoipa::path(
    post,
    path = "/in/{path}",
    tag = "sources",
    params(("path" = String, Path, description = "As the source's GET shows it")),
    request_body(content = String, content_type = "*/*", description = "What the platform says, at most 64 KiB"),
    responses(
        (status = 200, description = "What became of it", content(
            (Delivered = "application/json"), (String = "text/plain")
        )),
        (status = 404, description = "No source has this path", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn deliver() {}
