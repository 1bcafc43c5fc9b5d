//! Live sockets. A placeholder: the paths are known, upgrades are not taken yet.

use actix_web::web;

use super::problem::ApiError;
use super::routes::{read, resource};

/// Registers the paths of live sockets.
pub fn configure(cfg: &mut web::ServiceConfig) {
    for path in ["/v1/feeds/{feed:[^/]*}/ws", "/v1/ws"] {
        cfg.service(resource(path, "GET").route(read().to(upgrade)));
    }
}

async fn upgrade() -> Result<&'static str, ApiError> {
    Err(ApiError::UpgradeRequired)
}
