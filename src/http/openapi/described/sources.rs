//! Section 11 of the contract: sources.

use super::params::{FeedName, SourceName};
use super::refusals::{BodyRefusals, Refusals};
use super::source_schemas::{Source, SourceDeliveryResult, SourceList, SourceSpec, SourceTestResult};
use crate::http::problem::Problem;

/// Set a source
///
/// Makes it, or sets it anew; its path stays. Paste the answer's path, behind this gateway's public https address, into
/// the platform's webhook settings (docs/SOURCES.md).
#[utoipa::path(
    put,
    path = "/v1/feeds/{feed}/sources/{name}",
    operation_id = "setSource",
    tag = "sources",
    params(FeedName, SourceName),
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
)]
pub(super) fn put() {}

/// Read a source
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/sources/{name}",
    operation_id = "getSource",
    tag = "sources",
    params(FeedName, SourceName),
    responses(
        (status = 200, description = "As it was set, without its secret, and what came to it", body = Source),
        (status = 404, description = "The feed has no such source", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn get() {}

/// List a feed's sources
#[utoipa::path(
    get,
    path = "/v1/feeds/{feed}/sources",
    operation_id = "listSources",
    tag = "sources",
    params(FeedName),
    responses((status = 200, description = "By name", body = SourceList), Refusals),
)]
pub(super) fn list() {}

/// Delete a source
///
/// Its path leads nowhere from then on; another source of the same name has another one.
#[utoipa::path(
    delete,
    path = "/v1/feeds/{feed}/sources/{name}",
    operation_id = "deleteSource",
    tag = "sources",
    params(FeedName, SourceName),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, description = "The feed has no such source", body = Problem,
            content_type = "application/problem+json"),
        Refusals,
    ),
)]
pub(super) fn delete() {}

/// Try a sample on a source
///
/// The body is what the platform would post (of a form, its JSON will do). Says which gift it would become, or why
/// none. Signatures are not asked for, and nothing is done.
#[utoipa::path(
    post,
    path = "/v1/feeds/{feed}/sources/{name}/test",
    operation_id = "testSource",
    tag = "sources",
    params(FeedName, SourceName),
    request_body(content = String, content_type = "*/*", description = "A sample, at most 64 KiB"),
    responses(
        (status = 200, description = "What it would become", body = SourceTestResult),
        (status = 404, description = "The feed has no such source", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn test() {}

/// Deliver to a source
///
/// For platforms. Needs no key: the delivery itself shows whose it is. What is left out, and what came before, is
/// answered 200, since there is no point in sending it again. Twitch's challenge is answered as text.
#[utoipa::path(
    post,
    path = "/in/{path}",
    operation_id = "deliverToSource",
    tag = "sources",
    params(("path" = String, Path, description = "As the source's GET shows it")),
    request_body(content = String, content_type = "*/*", description = "What the platform says, at most 64 KiB"),
    responses(
        (status = 200, description = "What became of it", content(
            (SourceDeliveryResult = "application/json"), (String = "text/plain")
        )),
        (status = 404, description = "No source has this path", body = Problem,
            content_type = "application/problem+json"),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn deliver() {}
