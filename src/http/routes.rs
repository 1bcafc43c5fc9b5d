//! Every path, and what all of them have in common.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, web};

use super::problem::about;
use super::resource::{Routes, delete, patch, post, put, read, resource};
use super::watch::tally::Tally;
use super::{
    Gate, batch, claims, docs, drops, feed, gifts, guard, health, inbound, meter, moderation, pages, policy,
    presence, reports, review, scheduled, sources, totals, viewers, watch,
};
use crate::live::worker::Worker;

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
    let worker = Worker::start(gate.live.clone());
    let tally = Tally::new(gate.live.metrics().clone());
    App::new().app_data(gate).app_data(worker).app_data(tally).wrap(from_fn(around)).default_service(routes())
}

/// What all requests pass, from the outside in. One middleware: each of actix' own is a box more for every request.
async fn around(
    req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let guarded = async |req| guard::around(req, next).await;
    inbound::attend::around(req, async |req| meter::count(req, guarded).await).await
}

/// Every path but the one where gifts are posted, which `guard` answers.
fn routes() -> Routes {
    let mut all = Routes::new();
    let cfg = &mut all;
    cfg.service(resource("/v1/feeds/{feed}/gifts/batch").route(post().to(batch::publish)));
    watch::configure(cfg);
    cfg.service(resource("/v1/feeds/{feed}/drops/{drop}/claims").route(post().to(claims::claim)));
    cfg.service(resource("/v1/feeds/{feed}/drops/{drop}/claims/{id}").route(read().to(claims::look_up)));
    cfg.service(
        resource("/v1/feeds/{feed}/drops/{drop}/claims/{id}/refund").route(post().to(claims::refund)),
    );
    cfg.service(
        resource("/v1/feeds/{feed}/drops/{drop}/claims/{id}/retract").route(post().to(claims::retract)),
    );
    cfg.service(resource("/v1/feeds/{feed}/holds/{hold}/confirm").route(post().to(claims::confirm)));
    cfg.service(resource("/v1/feeds/{feed}/holds/{hold}").route(delete().to(claims::cancel)));
    cfg.service(resource("/v1/feeds/{feed}/users/{user}/holds").route(read().to(claims::holds)));
    cfg.service(
        resource("/v1/feeds/{feed}/drops/{drop}").route(read().to(drops::get)).route(put().to(drops::put)),
    );
    cfg.service(resource("/v1/feeds/{feed}/drops").route(read().to(drops::list)));
    cfg.service(resource("/v1/feeds/{feed}").route(read().to(feed::snapshot)));
    cfg.service(resource("/v1/feeds/{feed}/rows/{row}").route(delete().to(gifts::retract)));
    cfg.service(resource("/v1/feeds/{feed}/rows").route(delete().to(moderation::retract_user)));
    cfg.service(resource("/v1/feeds/{feed}/gifts/{id}/refund").route(post().to(moderation::refund_gift)));
    cfg.service(resource("/v1/feeds/{feed}/gifts/{id}/retract").route(post().to(moderation::retract_gift)));
    cfg.service(resource("/v1/feeds/{feed}/review").route(read().to(review::list)));
    cfg.service(resource("/v1/feeds/{feed}/review/{id}").route(post().to(review::decide)));
    cfg.service(
        resource("/v1/feeds/{feed}/blocks/{user}")
            .route(put().to(review::block))
            .route(delete().to(review::unblock)),
    );
    cfg.service(resource("/v1/feeds/{feed}/blocks").route(read().to(review::blocks)));
    cfg.service(resource("/v1/feeds/{feed}/presence").route(read().to(presence::get)));
    cfg.service(resource("/v1/feeds/{feed}/control").route(post().to(moderation::control)));
    cfg.service(resource("/v1/feeds/{feed}/totals").route(read().to(totals::totals)));
    cfg.service(resource("/v1/feeds/{feed}/leaders").route(read().to(totals::leaders)));
    cfg.service(resource("/v1/feeds/{feed}/session").route(post().to(totals::session)));
    cfg.service(resource("/v1/feeds/{feed}/goals").route(read().to(totals::goals)));
    cfg.service(
        resource("/v1/feeds/{feed}/goals/{goal}")
            .route(read().to(totals::goal))
            .route(put().to(totals::put_goal))
            .route(delete().to(totals::delete_goal)),
    );
    cfg.service(
        resource("/v1/feeds/{feed}/policy")
            .route(read().to(policy::get))
            .route(put().to(policy::put))
            .route(patch().to(policy::patch)),
    );
    cfg.service(resource("/v1/feeds/{feed}/scheduled").route(read().to(scheduled::list)));
    cfg.service(resource("/v1/feeds/{feed}/scheduled/{id}").route(delete().to(scheduled::cancel)));
    cfg.service(resource("/v1/feeds/{feed}/due/dead").route(read().to(scheduled::dead)));
    cfg.service(resource("/healthz").route(read().to(health::alive)));
    cfg.service(resource("/readyz").route(read().to(health::ready)));
    cfg.service(resource("/metrics").route(read().to(meter::show)));
    cfg.service(resource("/v1/viewers/{sub}/revoke").route(post().to(viewers::revoke)));
    reports::configure(cfg);
    sources::configure(cfg);
    docs::configure(cfg);
    pages::configure(cfg);
    cfg.service(resource("/problems/{name}").route(read().to(about)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::access::{self, entries};

    #[test]
    fn every_row_of_the_table_is_answered_by_each_of_its_methods_once() {
        let routes = routes();
        for entry in entries().iter().filter(|entry| entry.path != access::GIFTS) {
            let mut answered = routes.methods(entry);
            let known = entry.methods.iter().map(|(method, _)| *method);
            let mut known: Vec<_> = known.filter(|method| entry.named_by_query(method).is_none()).collect();
            answered.sort_unstable();
            known.sort_unstable();
            assert_eq!(answered, known, "{}", entry.path);
        }
    }
}
