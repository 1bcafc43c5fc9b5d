//! Every path, and what all of them have in common.

use std::panic::AssertUnwindSafe;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, HttpRequest, Resource, Route, guard, web};
use futures_util::FutureExt;

use super::problem::{ApiError, about};
use super::{Gate, batch, body, docs, feed, gifts, health, meter, pages, policy, scheduled, watch};
use crate::live::hub::Hub;

/// The whole application in front of `gate`.
pub fn app(
    gate: web::Data<Gate>,
) -> App<
    impl ServiceFactory<
        ServiceRequest,
        Config = (),
        Response = ServiceResponse<impl MessageBody>,
        Error = actix_web::Error,
        InitError = (),
    >,
> {
    let hub = Hub::start(gate.live.clone());
    App::new()
        .app_data(gate)
        .app_data(hub)
        .wrap(from_fn(around))
        .wrap(from_fn(meter::count))
        .configure(routes)
}

/// Registers every path. The router tries them in order: the busiest come first.
pub fn routes(cfg: &mut web::ServiceConfig) {
    cfg.service(resource("/v1/feeds/{feed:[^/]*}/gifts", "POST").route(web::post().to(gifts::publish)));
    cfg.service(resource("/v1/feeds/{feed:[^/]*}/gifts/batch", "POST").route(web::post().to(batch::publish)));
    watch::configure(cfg);
    cfg.service(resource("/v1/feeds/{feed:[^/]*}", "GET, HEAD").route(read().to(feed::snapshot)));
    cfg.service(
        resource("/v1/feeds/{feed:[^/]*}/rows/{row:[^/]*}", "DELETE").route(web::delete().to(gifts::retract)),
    );
    cfg.service(
        resource("/v1/feeds/{feed:[^/]*}/policy", "GET, HEAD, PUT, PATCH")
            .route(read().to(policy::get))
            .route(web::put().to(policy::put))
            .route(web::patch().to(policy::patch)),
    );
    cfg.service(resource("/v1/feeds/{feed:[^/]*}/scheduled", "GET, HEAD").route(read().to(scheduled::list)));
    cfg.service(
        resource("/v1/feeds/{feed:[^/]*}/scheduled/{id:[^/]*}", "DELETE")
            .route(web::delete().to(scheduled::cancel)),
    );
    cfg.service(resource("/healthz", "GET, HEAD").route(read().to(health::alive)));
    cfg.service(resource("/readyz", "GET, HEAD").route(read().to(health::ready)));
    cfg.service(resource("/metrics", "GET, HEAD").route(read().to(meter::show)));
    cfg.service(resource("/", "GET, HEAD").route(read().to(pages::index)));
    docs::configure(cfg);
    cfg.service(resource("/static/{file}", "GET, HEAD").route(read().to(pages::file)));
    cfg.service(resource("/problems/{name}", "GET, HEAD").route(read().to(about)));
    cfg.default_service(web::to(nowhere));
}

/// A path whose methods are `allow`; any other is a 405 that says so.
pub(crate) fn resource(path: &str, allow: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move || {
        std::future::ready(Err::<&str, _>(ApiError::MethodNotAllowed(allow)))
    }))
}

/// GET, and HEAD with it: actix sends the head of the answer and leaves the body out.
pub(crate) fn read() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

async fn nowhere(req: HttpRequest) -> Result<&'static str, ApiError> {
    Err(ApiError::NotFound(format!("there is nothing at {}", req.path())))
}

/// Turns a panic of a handler into a 500. What panicked is in the log, by the panic hook. (The request
/// may not be cloned out here: the router needs it to be its only owner.)
async fn around(
    req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    match AssertUnwindSafe(next.call(req)).catch_unwind().await {
        Ok(answer) => answer.map(body::hold_unread),
        Err(_) => Err(ApiError::Internal.into()),
    }
}
