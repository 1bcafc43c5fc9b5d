//! The documents of the API: `/docs`, the page for people; `/openapi.json` for what is asked by HTTP and `/asyncapi.yaml` for
//! what flows while a feed is watched, for programs. The page asks no other host for anything.

use std::borrow::Cow;
use std::sync::LazyLock;

use actix_web::http::header::{CACHE_CONTROL, ETAG, LOCATION};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};

use super::access::RouteEntry;
use super::problem::ApiError;
use super::{etag, pages};

#[cfg(test)]
mod markdown;

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// docs/PROTOCOL.md as a section of the page; `make openapi` writes it.
const PROTOCOL: &str = include_str!("../../docs/protocol.html");

/// Where that section is. `/docs/protocol` was a page of its own until 0.2.0, and is linked from elsewhere.
const PROTOCOL_PLACE: &str = "../docs#live-protocol";

/// A file that is the same for everybody.
struct DocFile {
    path: &'static str,
    mime: &'static str,
    text: Cow<'static, str>,
    /// A hash of the text; see [`etag`].
    tag: String,
}

impl DocFile {
    fn new(path: &'static str, mime: &'static str, text: impl Into<Cow<'static, str>>) -> DocFile {
        let text = text.into();
        let tag = pages::hash(&text);
        DocFile { path, mime, text, tag }
    }
}

static FILES: LazyLock<[DocFile; 6]> = LazyLock::new(|| {
    let page = include_str!("../../templates/docs.html").replace("{{ protocol }}", PROTOCOL.trim_end());
    [
        DocFile::new("/docs", HTML, page),
        DocFile::new("/asyncapi.yaml", "application/yaml", include_str!("../../docs/asyncapi.yaml")),
        DocFile::new("/static/docs.js", SCRIPT, include_str!("../../static/docs.js")),
        DocFile::new("/static/docs_samples.js", SCRIPT, include_str!("../../static/docs_samples.js")),
        DocFile::new("/static/docs_try.js", SCRIPT, include_str!("../../static/docs_try.js")),
        DocFile::new("/static/docs.css", "text/css; charset=utf-8", include_str!("../../static/docs.css")),
    ]
});

/// `GET /docs/protocol`
pub(super) async fn moved() -> HttpResponse {
    HttpResponse::PermanentRedirect().insert_header((LOCATION, PROTOCOL_PLACE)).finish()
}

/// One of [`FILES`], whose path is the row's.
pub(super) async fn file(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    let path = req.extensions().get::<&'static RouteEntry>().map(|entry| entry.path);
    let file = FILES.iter().find(|file| Some(file.path) == path).ok_or(ApiError::Internal)?;
    let known = etag::matches(&req, &file.tag);
    let mut answer = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer
        .insert_header((ETAG, format!("\"{}\"", file.tag)))
        .insert_header((CACHE_CONTROL, "no-cache"))
        .insert_header(("Content-Security-Policy", CONTENT_SECURITY_POLICY))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .insert_header(("Referrer-Policy", "no-referrer"));
    Ok(if known { answer.finish() } else { answer.content_type(file.mime).body(file.text.as_ref()) })
}
