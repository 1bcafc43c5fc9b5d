//! Who watches.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::drops::fresh;
use super::problem::ApiError;
use super::{Gate, feed_of};
use crate::domain::Millis;

/// `GET /v1/feeds/{feed}/presence`
pub(super) async fn get(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = feed_of(&req)?;
    let feeds = [feed];
    let presence = gate.ask(gate.engine.presence(&feeds)).await?.pop().unwrap_or_default();
    let (watchers, nodes, at, [feed]) = (presence.watchers, presence.nodes, Millis::now(), feeds);
    let text = format!("{{\"feed\":\"{feed}\",\"watchers\":{watchers},\"nodes\":{nodes},\"at\":\"{at}\"}}");
    Ok(fresh(StatusCode::OK, text))
}
