//! `GET /docs`: the document of the API for people. A page that reads `/openapi.json` and asks no
//! other host for anything.

use std::sync::LazyLock;

use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::{HttpRequest, HttpResponse, web};

use super::resource::{read, resource};
use super::{etag, openapi, pages};

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = include_str!("../../templates/docs.html");
const SCRIPT: &str = include_str!("../../static/docs.js");
const STYLE: &str = include_str!("../../static/docs.css");

static TAGS: LazyLock<[String; 3]> = LazyLock::new(|| [HTML, SCRIPT, STYLE].map(pages::hash));

/// Registers the page, its files and the document.
pub(super) fn configure(cfg: &mut web::ServiceConfig) {
    let html = |req: HttpRequest| answer(&req, 0, "text/html; charset=utf-8", HTML);
    let script = |req: HttpRequest| answer(&req, 1, "text/javascript; charset=utf-8", SCRIPT);
    let style = |req: HttpRequest| answer(&req, 2, "text/css; charset=utf-8", STYLE);
    cfg.service(resource("/openapi.json").route(read().to(openapi::show)));
    cfg.service(resource("/docs").route(read().to(move |req| std::future::ready(html(req)))));
    cfg.service(resource("/static/docs.js").route(read().to(move |req| std::future::ready(script(req)))));
    cfg.service(resource("/static/docs.css").route(read().to(move |req| std::future::ready(style(req)))));
}

fn answer(req: &HttpRequest, file: usize, mime: &'static str, text: &'static str) -> HttpResponse {
    let tag = &TAGS[file];
    let known = etag::matches(req, tag);
    let mut answer = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer
        .insert_header((ETAG, format!("\"{tag}\"")))
        .insert_header((CACHE_CONTROL, "no-cache"))
        .insert_header(("Content-Security-Policy", CONTENT_SECURITY_POLICY))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .insert_header(("Referrer-Policy", "no-referrer"));
    if known { answer.finish() } else { answer.content_type(mime).body(text) }
}
