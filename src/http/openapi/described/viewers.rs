//! Section 7 of the contract: viewers.

use super::params::ViewerName;
use super::refusals::{BodyRefusals, Refusals};
use crate::http::answers::RevokedViewer;
use crate::http::bodies::Revocation;

/// Refuse a viewer's tokens
///
/// Those that exist are refused on every node within a second, and sockets that were opened with them are closed (4003). An
/// issuer's clock may be ahead by `leeway_ms`, so tokens with an `iat` up to that much later are refused too, unless the body
/// names a time: then those with an `iat` before it are. The time never moves back.
#[utoipa::path(
    post,
    path = "/v1/viewers/{sub}/revoke",
    operation_id = "revokeViewer",
    tag = "viewers",
    params(ViewerName),
    request_body = Option<Revocation>,
    responses(
        (status = 200, description = "The time of the revocation that holds", body = RevokedViewer,
            example = json!({"before": "2026-01-31T12:00:00.000Z"})),
        Refusals, BodyRefusals,
    ),
)]
pub(super) fn revoke() {}
