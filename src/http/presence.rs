//! Who watches.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::answers::{self, Presence};
use super::problem::ApiError;
use super::{Gate, feed_of};
use crate::domain::Millis;
use crate::engine::Presence as Said;

/// `GET /v1/feeds/{feed}/presence`
pub(super) async fn get(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feeds = [feed_of(&req)?];
    let said = gate.run(gate.store.read_presence(&feeds)).await?.pop().unwrap_or_default();
    let [feed] = feeds;
    let Said { watchers, overlays, nodes } = said;
    let answer = Presence { feed, watchers, overlays, nodes, at: Millis::now() };
    Ok(answers::fresh(StatusCode::OK, &answer))
}
