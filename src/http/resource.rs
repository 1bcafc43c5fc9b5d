//! What every path has in common: the methods it allows, and HEAD beside GET.

use actix_web::{Resource, Route, web};

use super::problem::ApiError;

/// A path whose methods are `allow`; any other is a 405 that says so.
pub(crate) fn resource(path: &str, allow: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move || {
        std::future::ready(Err::<&str, _>(ApiError::MethodNotAllowed(allow)))
    }))
}

/// GET, and HEAD with it: actix sends the head of the answer and leaves the body out.
pub(crate) fn read() -> Route {
    let get_or_head = actix_web::guard::Any(actix_web::guard::Get()).or(actix_web::guard::Head());
    web::route().guard(get_or_head)
}
