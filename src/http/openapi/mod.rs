//! `GET /openapi.json`: the API as a document for programs. It is a file, which a test compares with what the code
//! describes.

use std::sync::LazyLock;

use actix_web::http::header::{CACHE_CONTROL, ETAG};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::Value;

use super::etag;

#[cfg(test)]
#[allow(dead_code, reason = "only described, never built or called")]
mod described;
mod older;

/// OpenAPI 3.1; `make openapi` writes it.
const FILE: &str = include_str!("../../../docs/openapi.json");

/// The document in one rendering.
struct Document {
    text: String,
    tag: String,
}

impl Document {
    fn new(api: &Value) -> Document {
        let text = api.to_string();
        let tag = super::pages::hash(&text);
        Document { text, tag }
    }
}

/// OpenAPI 3.1.
static NEWEST: LazyLock<Document> = LazyLock::new(|| Document::new(&read()));

/// OpenAPI 3.0.3.
static OLDER: LazyLock<Document> = LazyLock::new(|| Document::new(&older::rendered(&read())));

fn read() -> Value {
    // Tests read the file too: it is JSON.
    serde_json::from_str(FILE).unwrap_or_default()
}

/// `GET /openapi.json`
pub(super) async fn newest(req: HttpRequest) -> HttpResponse {
    show(&req, &NEWEST)
}

/// `GET /openapi-3.0.json`
pub(super) async fn older_version(req: HttpRequest) -> HttpResponse {
    show(&req, &OLDER)
}

fn show(req: &HttpRequest, document: &'static Document) -> HttpResponse {
    let known = etag::matches(req, &document.tag);
    let mut answer = if known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer.insert_header((ETAG, format!("\"{}\"", document.tag))).insert_header((CACHE_CONTROL, "no-cache"));
    if known {
        return answer.finish();
    }
    answer.content_type("application/json").body(document.text.as_str())
}
