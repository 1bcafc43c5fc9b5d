//! What every path has in common: the methods it allows, and HEAD beside GET.

use actix_web::guard::fn_guard;
use actix_web::http::Method;
use actix_web::{Resource, Route, web};

use super::access;
use super::problem::ApiError;

/// A path of [`access`]; a method that is not there is a 405 that says which are. A path that is not there is
/// never reached: the door knows nobody who may ask for it.
pub(crate) fn resource(path: &str) -> Resource {
    let allow = access::entry(path).map_or("", |entry| &entry.allow);
    // A part may be empty, for its handler to refuse; static files have names.
    let pattern = if ["/v1/", "/in/", "/overlay/"].iter().any(|start| path.starts_with(start)) {
        path.replace('}', ":[^/]*}")
    } else {
        path.to_owned()
    };
    web::resource(pattern).default_service(web::to(move || {
        std::future::ready(Err::<&str, _>(ApiError::MethodNotAllowed(allow)))
    }))
}

/// POST. Without what actix' own guards note for a 405, which is answered from the table of [`access`].
pub(crate) fn post() -> Route {
    web::route().guard(fn_guard(|asked| asked.head().method == Method::POST))
}

/// GET, and HEAD with it: actix sends the head of the answer and leaves the body out.
pub(crate) fn read() -> Route {
    let get_or_head = actix_web::guard::Any(actix_web::guard::Get()).or(actix_web::guard::Head());
    web::route().guard(get_or_head)
}
