//! The application: what all requests pass on their way to a row of the table.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, web};

use super::resource::Handlers;
use super::watch::tally::Tally;
use super::{Gate, guard, inbound, meter};
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
    App::new().app_data(gate).app_data(worker).app_data(tally).wrap(from_fn(around)).default_service(Handlers)
}

/// What all requests pass, from the outside in. One middleware: each of actix' own is a box more for every request.
async fn around(
    req: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let guarded = async |req| guard::around(req, next).await;
    inbound::attend::around(req, async |req| meter::count(req, guarded).await).await
}
