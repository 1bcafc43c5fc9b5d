//! The demo page, the overlay, and the files that they and embedding pages need, all inside the binary.

use std::sync::LazyLock;

use actix_web::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_DISPOSITION, ETAG, LOCATION, VARY,
};
use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, web};
use askama::Template;
use data_encoding::HEXLOWER;

use super::door::RequestHead;
use super::problem::ApiError;
use super::{Gate, etag, feed_of};
use crate::domain::FeedId;
use crate::domain::hashing::sha256;
use crate::domain::ledger::ENTRY_TYPES;

use words::Words;

#[cfg(test)]
mod tests;
mod words;

/// Nothing is loaded, run or sent anywhere but from and to this host; pictures may be of any https
/// host, since producers name them.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' https: data:; media-src 'self' https:; connect-src 'self' ws: wss:; base-uri 'none'; \
    form-action 'self'; \
    frame-ancestors 'none'";

/// As [`CONTENT_SECURITY_POLICY`], with inline styles: OBS applies its "Custom CSS" as a `<style>` element. Overlay pages
/// hold no credentials but a token in the fragment, which a style cannot read. No other page allows this.
const OVERLAY_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' https: data:; media-src 'self' https:; connect-src 'self' ws: wss:; base-uri 'none'; \
    form-action 'self'; \
    frame-ancestors 'none'";

/// Nothing at all is loaded from or sent to anywhere but this host: for pages that hold a key.
const KEYED_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const JS: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// One file under `/static/`.
struct StaticFile {
    name: &'static str,
    mime: &'static str,
    text: &'static str,
    /// A hash of the text; see [`etag`].
    tag: String,
}

macro_rules! files {
    ($($name:literal: $mime:expr,)*) => {
        LazyLock::new(|| vec![$({
            let text = include_str!(concat!("../../static/", $name));
            StaticFile { name: $name, mime: $mime, text, tag: hash(text) }
        }),*])
    };
}

static FILES: LazyLock<Vec<StaticFile>> = files! {
    "tipcast.js": JS,
    "console.js": JS,
    "console_access.js": JS,
    "console_feed.js": JS,
    "console_feeds.js": JS,
    "console_form.js": JS,
    "console_gift.js": JS,
    "console_ledger.js": JS,
    "console_overview.js": JS,
    "console_parts.js": JS,
    "console_readers.js": JS,
    "console_sources.js": JS,
    "console_words.js": JS,
    "uplot.js": JS,
    "alerts.js": JS,
    "app.js": JS,
    "board.js": JS,
    "board_page.js": JS,
    "client.js": JS,
    "connect.js": JS,
    "drops.js": JS,
    "element.js": JS,
    "fold.js": JS,
    "format.js": JS,
    "host.js": JS,
    "icons.js": JS,
    "keyed.js": JS,
    "lines.js": JS,
    "look.js": JS,
    "overlay.js": JS,
    "reconnecting.js": JS,
    "rows.js": JS,
    "send.js": JS,
    "shared.js": JS,
    "show.js": JS,
    "sound.js": JS,
    "ticker.js": JS,
    "words.js": JS,
    "tipcast.css": CSS,
    "tokens.css": CSS,
    "console.css": CSS,
    "uplot.css": CSS,
    "desk.css": CSS,
    "host.css": CSS,
    "overlay.css": CSS,
    "icon.svg": "image/svg+xml",
    "loader.html": HTML,
};

/// The first 64 bits of a hash of `text`, in hexadecimal.
pub(super) fn hash(text: &str) -> String {
    HEXLOWER.encode(&sha256(text)[..8])
}

/// From a page to the first one: behind a proxy the gateway may have a path in front of all of its own.
type Root = &'static str;

#[derive(Template)]
#[template(path = "index.html")]
struct IndexPage<'a> {
    feed: FeedId,
    words: &'static Words,
    /// The language that was asked for by name, to be kept in links.
    lang: Option<&'a str>,
    /// There are no keys.
    no_keys: bool,
}

#[derive(Template)]
#[template(path = "overlay.html")]
struct OverlayPage {
    feed: FeedId,
}

/// Leaders, or the goal of this name; "" for leaders.
#[derive(Template)]
#[template(path = "overlay_board.html")]
struct BoardPage {
    feed: FeedId,
    goal: String,
    root: Root,
}

#[derive(Template)]
#[template(path = "console.html")]
struct ConsolePage {
    root: Root,
    words: &'static Words,
    /// Types of entries, to choose from.
    types: &'static [&'static str],
    /// A key is asked for.
    locked: bool,
}

#[derive(Template)]
#[template(path = "desk.html")]
struct DeskPage {
    root: Root,
    feed: FeedId,
    words: &'static Words,
    /// A key is asked for.
    locked: bool,
}

/// The value of the query's `wish`.
fn asked(req: &HttpRequest, wish: &str) -> Option<String> {
    let mut query = url::form_urlencoded::parse(req.query_string().as_bytes());
    query.find(|(name, _)| name == wish).map(|(_, value)| value.into_owned())
}

/// `GET /`, with `?feed=` to select a feed and `?lang=` a language.
pub(super) async fn index(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let feed = asked(&req, "feed").and_then(|name| name.parse().ok()).or_else(|| "demo".parse().ok());
    let feed = feed.ok_or(ApiError::Internal)?;
    let lang = asked(&req, "lang");
    let words = Words::of(&req, lang.as_deref());
    let lang = lang.is_some().then_some(words.lang);
    let mut answer = secured(HttpResponse::Ok());
    answer.insert_header((VARY, "Accept-Language")).insert_header(("Content-Language", words.lang));
    let no_keys = gate.door.has_no_keys();
    page(answer, &IndexPage { feed, words, lang, no_keys })
}

/// `GET /admin`: what the console was called.
pub(super) async fn admin() -> HttpResponse {
    HttpResponse::PermanentRedirect().insert_header((LOCATION, "console")).finish()
}

/// `GET /console`, with `?lang=` for a language. What it shows comes from the API, with the key that it asks for.
pub(super) async fn console(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let locked = gate.door.asks_for_key(&RequestHead::of(&req))?;
    let words = Words::of(&req, asked(&req, "lang").as_deref());
    let mut answer = secured(HttpResponse::Ok());
    answer.insert_header((VARY, "Accept-Language")).insert_header(("Content-Language", words.lang));
    answer.insert_header(("Content-Security-Policy", KEYED_SECURITY_POLICY));
    page(answer, &ConsolePage { root: "", words, types: &ENTRY_TYPES, locked })
}

/// `GET /desk/{feed}`, with `?lang=` for a language. What it shows comes from the API, with the key that it asks for.
pub(super) async fn desk(req: HttpRequest, gate: web::Data<Gate>) -> Result<HttpResponse, ApiError> {
    let (feed, locked) = (feed_of(&req)?, gate.door.asks_for_key(&RequestHead::of(&req))?);
    let words = Words::of(&req, asked(&req, "lang").as_deref());
    let mut answer = secured(HttpResponse::Ok());
    answer.insert_header((VARY, "Accept-Language")).insert_header(("Content-Language", words.lang));
    answer.insert_header(("Content-Security-Policy", KEYED_SECURITY_POLICY));
    page(answer, &DeskPage { root: "../", feed, words, locked })
}

/// `GET /overlay/{feed}`; everything else in its address is for the page's own script.
pub(super) async fn overlay(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    overlay_page(&OverlayPage { feed: feed_of(&req)? })
}

/// `GET /overlay/{feed}/leaders`
pub(super) async fn leaders(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    overlay_page(&BoardPage { feed: feed_of(&req)?, goal: String::new(), root: "../../" })
}

/// `GET /overlay/{feed}/goal/{goal}`
pub(super) async fn goal(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (feed, goal) = (feed_of(&req)?, super::totals::goal_of(&req)?.to_string());
    overlay_page(&BoardPage { feed, goal, root: "../../../" })
}

fn overlay_page(contents: &impl Template) -> Result<HttpResponse, ApiError> {
    let mut answer = secured(HttpResponse::Ok());
    answer.insert_header(("Content-Security-Policy", OVERLAY_SECURITY_POLICY));
    page(answer, contents)
}

fn page(mut answer: HttpResponseBuilder, page: &impl Template) -> Result<HttpResponse, ApiError> {
    let html = page.render().map_err(|error| {
        tracing::error!("a page cannot be rendered: {error}");
        ApiError::Internal
    })?;
    Ok(answer.content_type(HTML).body(html))
}

/// `GET /static/{file}`
pub(super) async fn file(req: HttpRequest) -> Result<HttpResponse, ApiError> {
    let name = req.match_info().get("file").unwrap_or_default();
    let file = FILES.iter().find(|file| file.name == name);
    let file = file.ok_or_else(|| ApiError::NotFound(format!("there is nothing at {}", req.path())))?;
    let known = etag::matches(&req, &file.tag);
    let mut answer = secured(if known { HttpResponse::NotModified() } else { HttpResponse::Ok() });
    answer.insert_header((ETAG, format!("\"{}\"", file.tag)));
    // A ticker on somebody's page loads its modules from here.
    answer.insert_header((ACCESS_CONTROL_ALLOW_ORIGIN, "*"));
    answer.insert_header(("Cross-Origin-Resource-Policy", "cross-origin"));
    if file.mime == HTML {
        // Meant to be saved: its script is its own and would not run from here.
        answer.insert_header((CONTENT_DISPOSITION, "attachment; filename=\"tipcast-loader.html\""));
    }
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
