//! What of the requests goes to the audit log: changes that are not a show's daily work, and keys that were refused.

use std::borrow::Cow;

use actix_web::dev::ServiceResponse;
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpMessage, HttpRequest};

use super::Gate;
use super::access::{Access, RouteEntry, RouteMatch, find, one_of_query};
use super::door::{Caller, Identity, RequestHead};
use super::problem::ApiError;
use crate::auth::audit::{AuditLine, Outcome};
use crate::auth::{Key, Right};
use crate::domain::{FeedId, Millis};

/// What readers of reports do all day, which changes nothing that an operator set.
const ROUTINE: [&str; 3] = ["/claim", "/ack", "/nack"];

/// In a request's extensions: one word of what was asked, for the line about it.
struct Detail(&'static str);

/// Has the line about this request say `word` too.
pub(super) fn detail(req: &HttpRequest, word: &'static str) {
    req.extensions_mut().insert(Detail(word));
}

/// Writes what is to be written about a request that was answered, or refused at the door; `identity` is who came.
pub(super) fn note<B>(gate: &Gate, answer: &ServiceResponse<B>, identity: Option<&Identity>) {
    let req = answer.request();
    let (method, path) = (req.method(), req.path());
    let RouteMatch::For { access, feed, entry, .. } = find(method, path) else { return };
    let status = answer.status();
    let inside = req.extensions().get::<Caller>().map(|caller| caller.identity.clone());
    let identity = inside.as_ref().or(identity);
    let refused = is_refused_key(status, answer.response().error(), identity);
    if !refused && !is_change(method, access, entry.path) {
        return;
    }
    let outcome = match status {
        _ if refused => Outcome::Refused,
        status if status.is_success() => Outcome::Done,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outcome::Refused,
        _ => Outcome::Failed,
    };
    // Decided before the line is composed: a flood of strangers costs a look into a table.
    if is_stranger(outcome, answer.response().error(), identity)
        && !gate.audit.is_first_refusal(gate.door.counted_address(&RequestHead::of(req)))
    {
        return;
    }
    let extensions = req.extensions();
    let detail = extensions.get::<Detail>().map(|detail| detail.0);
    let named =
        entry.named_by_query(method.as_str()).and_then(|(name, _)| one_of_query(req.query_string(), name));
    let (action, target) = words(method, entry, path, named.as_deref().or(detail));
    gate.audit.write(&AuditLine {
        time: Millis::now(),
        key: identity.and_then(Identity::key).map(|key| &*key.name),
        right: right_of(access),
        feed: feed.as_deref(),
        action: &action,
        target: &target,
        outcome,
    });
}

/// Writes that a watcher's key was refused after its handshake; `None` is a key that is not known.
pub(super) fn refused_watcher(gate: &Gate, key: Option<&Key>, feed: Option<&FeedId>) {
    // Sockets do not remember their address; those of all addresses share a line.
    if key.is_none() && !gate.audit.is_first_refusal(None) {
        return;
    }
    gate.audit.write(&AuditLine {
        time: Millis::now(),
        key: key.map(|key| &*key.name),
        right: Some(Right::Read),
        feed: feed.map(FeedId::as_str),
        action: "GET ws",
        target: "",
        outcome: Outcome::Refused,
    });
}

/// Whether nothing was done for somebody who has not shown a right key, or asks too often. The name of a signing key
/// is no secret, so a request that names one proves nothing before its signature is found right.
fn is_stranger(outcome: Outcome, error: Option<&actix_web::Error>, identity: Option<&Identity>) -> bool {
    let error = error.and_then(|error| error.as_error::<ApiError>());
    let unproved = matches!(error, Some(ApiError::BadSignature(_) | ApiError::RateLimited(_)));
    let has_key = matches!(identity, Some(Identity::Key(_))) && !unproved;
    // Without any keys nobody shows one, and changes are lines all the same.
    outcome != Outcome::Done && !has_key
}

/// A key that is none, or may not. Strangers without a key, and viewers, are no line each.
fn is_refused_key(status: StatusCode, error: Option<&actix_web::Error>, identity: Option<&Identity>) -> bool {
    let error = error.and_then(|error| error.as_error::<ApiError>());
    let about_keys = matches!(
        error,
        Some(ApiError::Unauthenticated { tried: true } | ApiError::BadSignature(_) | ApiError::NotAllowed(_))
    );
    let has_key = matches!(identity, Some(Identity::Key(_) | Identity::WrongKey));
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) && about_keys && has_key
}

/// Whether this is a change that is written down when it was let in.
fn is_change(method: &Method, access: Access, path: &str) -> bool {
    let changes = !matches!(*method, Method::GET | Method::HEAD);
    let daily = matches!(access, Access::Key(Right::Gifts | Right::Claims) | Access::Hold);
    let closed = matches!(access, Access::Key(_) | Access::AnyKey);
    changes && closed && !daily && !ROUTINE.iter().any(|end| path.ends_with(end))
}

fn right_of(access: Access) -> Option<Right> {
    match access {
        Access::Key(right) => Some(right),
        Access::Hold | Access::Claim => Some(Right::Claims),
        Access::Feed | Access::List | Access::Watch => Some(Right::Read),
        Access::AnyKey | Access::Open | Access::Page => None,
    }
}

/// The action and the target: of the path what is always there, and its parameters without the feed.
fn words(method: &Method, entry: &RouteEntry, path: &str, detail: Option<&str>) -> (String, String) {
    let fixed = entry.path.split('/').skip(2).filter(|part| *part != "feeds" && !part.starts_with('{'));
    let fixed: Vec<_> = fixed.collect();
    let params = entry.params(path).filter(|(name, _)| *name != "feed");
    let mut target: Vec<_> = params.map(|(_, value)| value.unwrap_or_default()).collect();
    target.extend(detail.map(Cow::Borrowed));
    (format!("{method} {}", fixed.join("/")), target.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::access::{entries, entry};

    #[test]
    fn changes_are_written_down_and_daily_work_is_not() {
        let asked = |line: &str| {
            let (method, path) = line.split_once(' ').unwrap();
            let method: Method = method.parse().unwrap();
            let RouteMatch::For { access, entry, .. } = find(&method, path) else { panic!("{line}") };
            is_change(&method, access, entry.path)
        };
        for change in [
            "PUT /v1/feeds/a/policy",
            "DELETE /v1/feeds/a/rows/r",
            "POST /v1/feeds/a/control",
            "PUT /v1/feeds/*/webhooks/w",
            "DELETE /v1/feeds/a/groups/g",
            "POST /v1/viewers/ann/revoke",
            "PUT /v1/feeds/a/drops/d",
            "POST /v1/feeds/a/review/r",
            "PUT /v1/feeds/a/blocks/u",
            "DELETE /v1/feeds/a/blocks/u",
            "PUT /v1/feeds/a/goals/g",
            "POST /v1/feeds/a/session",
        ] {
            assert!(asked(change), "{change}");
        }
        for daily in [
            "POST /v1/feeds/a/gifts",
            "POST /v1/feeds/a/drops/d/claims",
            "POST /v1/feeds/a/groups/g/claim",
            "GET /v1/feeds/a/policy",
            "POST /in/x",
        ] {
            assert!(!asked(daily), "{daily}");
        }
        assert!(entries().iter().all(|entry| entry.path.starts_with('/')));
    }

    #[test]
    fn a_line_says_what_was_done_to_what() {
        let words = |method: Method, pattern: &str, path: &str, detail: Option<&str>| {
            words(&method, entry(pattern).unwrap(), path, detail)
        };
        let said = words(Method::DELETE, "/v1/feeds/{feed}/rows/{row}", "/v1/feeds/a/rows/e-1", None);
        assert_eq!(said, ("DELETE rows".into(), "e-1".into()));
        let said = words(Method::POST, "/v1/viewers/{sub}/revoke", "/v1/viewers/ann/revoke", None);
        assert_eq!(said, ("POST viewers/revoke".into(), "ann".into()));
        let said = words(Method::POST, "/v1/feeds/{feed}/control", "/v1/feeds/a/control", Some("pause"));
        assert_eq!(said, ("POST control".into(), "pause".into()));
    }
}
