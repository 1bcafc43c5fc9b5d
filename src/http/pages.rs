//! The demo page and the files it needs, all inside the binary.

use std::fmt::Write;
use std::sync::LazyLock;

use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder};
use askama::Template;
use sha2::{Digest, Sha256};

use super::etag;
use super::problem::ApiError;
use crate::domain::FeedId;

/// Nothing is loaded, run or sent anywhere but from and to this host; pictures may be of any https host.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' https: data:; connect-src 'self' ws: wss:; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'";

/// One file under `/static/`.
struct File {
    name: &'static str,
    mime: &'static str,
    text: &'static str,
    /// A hash of the text; see [`etag`].
    tag: String,
}

static FILES: LazyLock<[File; 4]> = LazyLock::new(|| {
    let file = |name, mime, text: &'static str| File { name, mime, text, tag: hash(text) };
    [
        file("tipcast.js", "text/javascript; charset=utf-8", include_str!("../../static/tipcast.js")),
        file("app.js", "text/javascript; charset=utf-8", include_str!("../../static/app.js")),
        file("tipcast.css", "text/css; charset=utf-8", include_str!("../../static/tipcast.css")),
        file("icon.svg", "image/svg+xml", include_str!("../../static/icon.svg")),
    ]
});

pub(super) fn hash(text: &str) -> String {
    let mut out = String::with_capacity(16);
    for byte in &Sha256::digest(text.as_bytes())[..8] {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[derive(Template)]
#[template(path = "index.html")]
struct IndexPage {
    feed: FeedId,
}

/// `GET /`, with `?feed=` to select a feed.
pub(super) async fn index(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    let feed = url::form_urlencoded::parse(req.query_string().as_bytes())
        .find(|(name, _)| name == "feed")
        .and_then(|(_, value)| value.parse().ok());
    let Some(feed) = feed.or_else(|| "demo".parse().ok()) else {
        return Err(ApiError::Internal);
    };
    let html = IndexPage { feed }.render().map_err(|error| {
        tracing::error!("the demo page cannot be rendered: {error}");
        ApiError::Internal
    })?;
    Ok(secured(HttpResponse::Ok()).content_type("text/html; charset=utf-8").body(html))
}

/// `GET /static/{file}`
pub(super) async fn file(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    let name = req.match_info().get("file").unwrap_or_default();
    let file = FILES.iter().find(|file| file.name == name);
    let file = file.ok_or_else(|| ApiError::NotFound(format!("there is nothing at {}", req.path())))?;
    let known = etag::matches(&req, &file.tag);
    let mut answer = secured(if known { HttpResponse::NotModified() } else { HttpResponse::Ok() });
    answer.insert_header((ETAG, format!("\"{}\"", file.tag)));
    Ok(if known { answer.finish() } else { answer.content_type(file.mime).body(file.text) })
}

fn secured(mut answer: HttpResponseBuilder) -> HttpResponseBuilder {
    answer
        .insert_header((CACHE_CONTROL, "no-cache"))
        .insert_header(("Content-Security-Policy", CONTENT_SECURITY_POLICY))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .insert_header(("Referrer-Policy", "no-referrer"));
    answer
}
