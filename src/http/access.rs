//! Finding what a request asks for in the table of routes (`http::TABLE`), and who may ask for it.
//!
//! Access control judges requests by the table, `http::resource` finds their handlers in it, metrics take their labels from it, and the
//! OpenAPI document takes each operation's `security` from it. A path that is not in it gets a 404.

use std::borrow::Cow;
use std::sync::LazyLock;

use actix_web::http::Method;
use percent_encoding::percent_decode_str;

use super::TABLE;
use crate::auth::Right;
use crate::metrics::labels::Route;

/// What opens a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everybody may, and no other site's page has a use for it: pages, health, metrics.
    Page,
    /// Everybody may, also other sites' pages: the client library, the description of the API.
    Open,
    /// As open as the feed: a private one needs a token that may watch it, or a key with the right to read. Judged
    /// before the handler runs.
    Feed,
    /// As [`Access::Feed`]; judged by its handler, which learns who may see the feed together with what is in it.
    List,
    /// As [`Access::Feed`], for as long as the connection lives. A socket is judged after its handshake.
    Watch,
    /// Any key of the feed.
    AnyKey,
    /// A key of the feed with this right; for a GET also one with the right to observe.
    Key(Right),
    /// A key of the feed with the right to reports or to claims.
    Claim,
    /// A key of the feed with the right to claims, or a token that may hold, for its own viewer.
    Hold,
}

/// A path carries no `.` and `..`, which programs take for steps through folders. So an id that a body may have is named by a query as
/// well, on the path without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByQuery {
    /// The parameter.
    pub name: &'static str,
    /// The number of the row that has it in its path, and answers.
    pub row: usize,
}

/// A path with its methods.
pub struct RouteEntry {
    /// Its place in the table.
    pub number: usize,
    /// The label of its requests in metrics.
    pub label: Route,
    /// With names in braces for parts that vary.
    pub path: &'static str,
    /// The methods it knows. HEAD goes with GET.
    pub methods: Vec<MethodRow>,
    /// The row whose last parameter a query may name here, and that parameter.
    pub by_query: Option<ByQuery>,
    /// The `Allow` header, without a query that names a parameter.
    pub allow: String,
}

const GET: &str = "GET";

/// Where gifts are posted, one by one and in batches: what signed requests may ask for.
pub const GIFTS: &str = "/v1/feeds/{feed}/gifts";
/// See [`GIFTS`].
pub const BATCH: &str = "/v1/feeds/{feed}/gifts/batch";

/// A row of the table: the label of its requests in metrics, a path, and its methods.
pub type TableRow = (Route, &'static str, &'static [MethodRow]);

/// What a method of a path is answered by.
#[derive(Clone, Copy)]
pub enum Handler {
    /// A handler of actix.
    Route(fn() -> actix_web::Route),
    /// `http::guard` itself, without the boxes of a handler: what is asked for most.
    Guard,
}

/// A method of a path: what opens it, and what answers it.
#[derive(Clone, Copy)]
pub struct MethodRow {
    /// As HTTP names it.
    pub name: &'static str,
    /// What opens it.
    pub access: Access,
    /// What answers it.
    pub handler: Handler,
}

/// GET, and HEAD with it: actix sends the head of the answer and leaves the body out.
pub const fn get(access: Access, handler: Handler) -> MethodRow {
    MethodRow { name: GET, access, handler }
}

/// POST.
pub const fn post(access: Access, handler: Handler) -> MethodRow {
    MethodRow { name: "POST", access, handler }
}

/// PUT.
pub const fn put(access: Access, handler: Handler) -> MethodRow {
    MethodRow { name: "PUT", access, handler }
}

/// PATCH.
pub const fn patch(access: Access, handler: Handler) -> MethodRow {
    MethodRow { name: "PATCH", access, handler }
}

/// DELETE.
pub const fn delete(access: Access, handler: Handler) -> MethodRow {
    MethodRow { name: "DELETE", access, handler }
}

/// Parameters that queries may name in place of paths.
const NAMED_BY_QUERY: [&str; 3] = ["user", "id", "sub"];

static ENTRIES: LazyLock<Vec<RouteEntry>> = LazyLock::new(|| {
    let mut lines: Vec<(Route, &str, Vec<MethodRow>)> =
        TABLE.iter().map(|(label, path, methods)| (*label, *path, methods.to_vec())).collect();
    let mut by_query = vec![None; lines.len()];
    for (row, (label, path, methods)) in TABLE.iter().enumerate() {
        let name = NAMED_BY_QUERY.iter().find(|name| path.contains(&format!("/{{{name}}}")));
        let Some(name) = name else { continue };
        let shorter = path.replace(&format!("/{{{name}}}"), "");
        let at = lines.iter().position(|(_, known, _)| *known == shorter).unwrap_or_else(|| {
            lines.push((*label, shorter.leak(), Vec::new()));
            by_query.push(None);
            lines.len() - 1
        });
        lines[at].2.extend_from_slice(methods);
        by_query[at] = Some(ByQuery { name, row });
    }
    let entry = |(number, (label, path, methods)): (usize, (Route, &'static str, Vec<MethodRow>))| {
        let by_query: Option<ByQuery> = by_query[number];
        let of_row = by_query.map_or(&[][..], |by_query| TABLE[by_query.row].2);
        // Methods that need a query are not known without it.
        let own: Vec<_> =
            methods.iter().filter(|method| !of_row.iter().any(|it| it.name == method.name)).collect();
        let own = if own.is_empty() { methods.iter().collect() } else { own };
        let allow = own.iter().map(|method| if method.name == GET { "GET, HEAD" } else { method.name });
        // A handshake has no HEAD.
        let allow = allow.filter(|_| !path.ends_with("/ws")).collect::<Vec<_>>().join(", ");
        let allow = if path.ends_with("/ws") { GET.to_owned() } else { allow };
        RouteEntry { number, label, path, by_query, methods, allow }
    };
    lines.into_iter().enumerate().map(entry).collect()
});

impl RouteEntry {
    /// The parameters of a path of this row by name, percent-decoded; the value is `None` if its escapes are malformed
    /// or it is not UTF-8. `path` is as it was sent.
    ///
    /// No other code decodes paths. [`find`] compares segments before they are decoded, so `%2F` never makes two
    /// segments of one, and what is decoded here is never decoded again, so `%2541` is `%41` everywhere.
    pub fn params<'a>(
        &self,
        path: &'a str,
    ) -> impl Iterator<Item = (&'static str, Option<Cow<'a, str>>)> + use<'a> {
        let segments = self.path.split('/').zip(path.split('/'));
        segments.filter_map(|(part, sent)| Some((part.strip_prefix('{')?.strip_suffix('}')?, decode(sent))))
    }

    /// What opens this method; `None` if the path does not know it.
    fn method(&self, name: &str) -> Option<Access> {
        self.methods.iter().find(|method| method.name == name).map(|method| method.access)
    }

    /// Whether `http::guard` answers this method itself.
    pub fn is_answered_by_guard(&self, method: &Method) -> bool {
        self.methods.iter().any(|it| it.name == method.as_str() && matches!(it.handler, Handler::Guard))
    }

    /// The parameter that a query names in a request with this method, and the row that answers it.
    pub fn named_by_query(&self, method: &str) -> Option<(&'static str, &'static RouteEntry)> {
        let ByQuery { name, row } = self.by_query?;
        let row = &entries()[row];
        row.method(method).map(|_| (name, row))
    }

    /// Whether signed requests may ask for it.
    pub fn takes_signed(&self) -> bool {
        [GIFTS, BATCH].contains(&self.path)
    }

    /// One parameter of a path of this row; empty if the row has none of this name.
    pub fn param<'a>(&self, path: &'a str, name: &str) -> Cow<'a, str> {
        self.params(path).find(|(known, _)| *known == name).and_then(|(_, value)| value).unwrap_or_default()
    }
}

/// Decodes a segment of a path; `None` if an escape is malformed, or the result is not UTF-8.
fn decode(segment: &str) -> Option<Cow<'_, str>> {
    let mut rest = segment;
    while let Some((_, from)) = rest.split_once('%') {
        let is_hex = from.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
        // The library below leaves a malformed escape as it is.
        rest = from.get(2..).filter(|_| is_hex)?;
    }
    percent_decode_str(segment).decode_utf8().ok()
}

/// The parameter of this name of a query, decoded; `None` if it has none, an empty one, or several.
pub fn one_of_query(query: &str, name: &str) -> Option<String> {
    let mut found = url::form_urlencoded::parse(query.as_bytes()).filter(|(known, _)| known == name);
    match (found.next(), found.next()) {
        (Some((_, value)), None) if !value.is_empty() => Some(value.into_owned()),
        _ => None,
    }
}

/// Everything there is.
pub fn entries() -> &'static [RouteEntry] {
    &ENTRIES
}

/// The entry that is spelled so.
#[cfg(test)]
pub fn entry(path: &str) -> Option<&'static RouteEntry> {
    entries().iter().find(|entry| entry.path == path)
}

/// What a request asks for.
#[derive(Clone)]
pub enum RouteMatch<'a> {
    /// Something of the table.
    For {
        /// What opens it.
        access: Access,
        /// It changes nothing.
        is_get: bool,
        /// The feed that the path names, percent-decoded.
        feed: Option<Cow<'a, str>>,
        /// The row of the table.
        entry: &'static RouteEntry,
    },
    /// A path of the table with another method; holds the `Allow` header.
    OtherMethod(&'static str),
    /// A path of the table whose parameter of this name cannot be decoded.
    Malformed(&'static str),
    /// A path that is not in the table.
    Nothing,
}

/// The row that a request is about, also where that does not know the method.
fn row_of(method: &str, path: &str) -> Option<&'static RouteEntry> {
    let mut fitting = entries().iter().filter(|entry| fits(entry.path, path));
    let first = fitting.next()?;
    if first.method(method).is_some() {
        return Some(first);
    }
    // Paths that are there for queries alone come last, and others have a parameter in place of their last part.
    let by_query = fitting.find(|entry| entry.number >= TABLE.len() && entry.method(method).is_some());
    Some(by_query.unwrap_or(first))
}

/// A request's method as the table has it.
fn name_of<'a>(method: &'a Method, path: &str) -> &'a str {
    if *method == Method::HEAD && !path.ends_with("/ws") { GET } else { method.as_str() }
}

/// The label of a request in metrics, also of one with a path that a stranger made up.
pub fn label_of(method: &Method, path: &str) -> Route {
    let name = name_of(method, path);
    let row = row_of(name, path);
    row.map_or(Route::Other, |row| row.named_by_query(name).map_or(row.label, |(_, row)| row.label))
}

/// Finds what a request asks for, by its path as it was sent.
pub fn find<'a>(method: &Method, path: &'a str) -> RouteMatch<'a> {
    let name = name_of(method, path);
    let Some(entry) = row_of(name, path) else { return RouteMatch::Nothing };
    if path.contains('%')
        && let Some((name, _)) = entry.params(path).find(|(_, value)| value.is_none())
    {
        return RouteMatch::Malformed(name);
    }
    match entry.method(name) {
        Some(access) => {
            let feed = entry.path.starts_with("/v1/feeds/{feed}").then(|| entry.param(path, "feed"));
            RouteMatch::For { access, is_get: name == GET, feed, entry }
        }
        None => RouteMatch::OtherMethod(&entry.allow),
    }
}

/// Whether a path is one of this pattern. A part that varies may be empty, for its handler to refuse; but for files and
/// pages, which have names.
fn fits(pattern: &str, path: &str) -> bool {
    let may_be_empty = ["/v1/", "/in/", "/overlay/"].iter().any(|start| pattern.starts_with(start));
    let (mut pattern, mut path) = (pattern.as_bytes(), path.as_bytes());
    loop {
        let (part, given) = (first(pattern), first(path));
        let is_one = match part.starts_with(b"{") {
            true => may_be_empty || !given.is_empty(),
            false => part == given || is_spelled_as(part, given),
        };
        if !is_one {
            return false;
        }
        match (pattern.get(part.len() + 1..), path.get(given.len() + 1..)) {
            (Some(rest), Some(other)) => (pattern, path) = (rest, other),
            (None, None) => return true,
            _ => return false,
        }
    }
}

/// Whether a segment with escapes is this fixed part.
fn is_spelled_as(part: &[u8], segment: &[u8]) -> bool {
    // Every row of the table asks this, also about a segment of a hundred kilobytes.
    if segment.len() > 3 * part.len() {
        return false;
    }
    let segment = std::str::from_utf8(segment).ok().filter(|segment| segment.contains('%'));
    segment.and_then(decode).is_some_and(|decoded| decoded.as_bytes() == part)
}

/// What is before the first slash. Parts are short: this is quicker than a searcher that is made for each.
fn first(path: &[u8]) -> &[u8] {
    let end = path.iter().position(|byte| *byte == b'/');
    &path[..end.unwrap_or(path.len())]
}

#[cfg(test)]
mod tests {
    use Access::{AnyKey, Claim, Feed, Hold, Key, List, Open, Page, Watch};
    use Right::{Admin, Claims, Gifts, Moderate, Reports};

    use super::*;

    fn found(line: &str) -> Option<(Access, Option<Cow<'_, str>>)> {
        let (method, path) = line.split_once(' ').unwrap();
        match find(&method.parse().unwrap(), path) {
            RouteMatch::For { access, feed, .. } => Some((access, feed)),
            _ => None,
        }
    }

    #[test]
    fn a_request_is_found_by_its_path_and_method() {
        assert_eq!(found("POST /v1/feeds/show/gifts"), Some((Key(Gifts), Some("show".into()))));
        assert_eq!(found("HEAD /v1/feeds/show"), Some((List, Some("show".into()))));
        assert_eq!(found("GET /v1/feeds/*/webhooks"), Some((Key(Reports), Some("*".into()))));
        assert_eq!(found("GET /v1/feeds/%2A/webhooks"), Some((Key(Reports), Some("*".into()))));
        assert_eq!(found("GET /v1/feeds/"), Some((List, Some("".into()))));
        assert_eq!(found("GET /v1/ws"), Some((Watch, None)));
        assert_eq!(found("GET /%761/w%73"), Some((Watch, None)), "another spelling of the same path");
        assert_eq!(found("POST /in/"), Some((Page, None)));
        for nothing in [
            "GET /v1",
            "GET /v1/feeds/a/ws/",
            "GET /v1/feeds/a/b",
            "HEAD /v1/ws",
            "get /v1/ws",
            "GET //",
            "GET ",
            "GET /static/",
            "GET /desk/",
        ] {
            assert_eq!(found(nothing), None, "{nothing}");
        }
        assert!(matches!(
            find(&Method::DELETE, "/v1/feeds/a/policy"),
            RouteMatch::OtherMethod("GET, HEAD, PUT, PATCH")
        ));
    }

    #[test]
    fn a_path_has_its_parameters_by_name_decoded_once() {
        let params = |pattern: &str, path: &'static str| -> Vec<_> {
            let all = entry(pattern).unwrap().params(path);
            all.map(|(name, value)| (name, value.unwrap().into_owned())).collect()
        };
        assert_eq!(params("/v1/ws", "/v1/ws"), []);
        assert_eq!(
            params("/v1/feeds/{feed}/drops/{drop}/claims", "/v1/feeds/a%20b/drops/c/claims"),
            [("feed", "a b".into()), ("drop", "c".into())]
        );
        let user = |sent: &'static str| params("/v1/feeds/{feed}/blocks/{user}", sent).remove(1).1;
        for (sent, means) in [
            ("/v1/feeds/f/blocks/odd%3A%C3%A9%2Fuser", "odd:é/user"),
            ("/v1/feeds/f/blocks/100%25", "100%"),
            ("/v1/feeds/f/blocks/%2541", "%41"),
            ("/v1/feeds/f/blocks/%252F", "%2F"),
            ("/v1/feeds/f/blocks/a%20b", "a b"),
            ("/v1/feeds/f/blocks/%2E%2e", ".."),
            ("/v1/feeds/f/blocks/+%2B", "++"),
            ("/v1/feeds/f/blocks/é", "é"),
            ("/v1/feeds/f/blocks/", ""),
        ] {
            assert_eq!(user(sent), means, "{sent}");
        }
    }

    #[test]
    fn an_escape_that_is_malformed_is_found_in_every_parameter_of_every_row() {
        for entry in entries().iter().filter(|entry| entry.path.contains('{')) {
            let names: Vec<_> = entry.params(entry.path).map(|(name, _)| name).collect();
            for name in names {
                for bad in ["%", "%4", "a%zz", "%G0", "%+1", "%%41", "%C3", "%FF", "%ED%A0%80", "a%é"] {
                    let path = entry.path.replace(&format!("{{{name}}}"), bad);
                    let asked = find(&Method::GET, &path);
                    assert!(matches!(asked, RouteMatch::Malformed(found) if found == name), "{path}");
                }
            }
        }
        assert!(matches!(find(&Method::GET, "/v1/nothing/%zz"), RouteMatch::Nothing));
    }

    /// What a right opens, as docs/AUTH.md has it.
    fn opened_by(right: Right) -> String {
        let opens = |access: Access| match access {
            Key(needed) => needed == right,
            Hold => right == Claims,
            Claim => matches!(right, Reports | Claims),
            Feed | List | Watch => right == Right::Read,
            Page | Open | AnyKey => false,
        };
        let rows = entries().iter().flat_map(|entry| entry.methods.iter().map(move |it| (it, entry)));
        let opened = rows.filter(|(it, entry)| opens(it.access) && entry.named_by_query(it.name).is_none());
        let mut all: Vec<_> = opened
            .map(|(it, entry)| format!("`{} {}`", it.name, entry.path.replace("/v1/feeds/{feed}", "…")))
            .collect();
        all.extend((right == Moderate).then(|| "all of `read`".to_owned()));
        all.extend((right == Right::Observe).then(|| "every other `GET`, and all of `read`".to_owned()));
        all.extend((right == Admin).then(|| "everything else; needs `feeds = [\"*\"]`".to_owned()));
        all.join(", ")
    }

    #[test]
    fn the_page_about_rights_has_what_this_table_says() {
        let mut table = "| right | opens |\n|---|---|\n".to_owned();
        for right in Right::ALL {
            table.push_str(&format!("| `{right}` | {} |\n", opened_by(right)));
        }
        table.push_str("| any of the feed | `GET …/policy` |\n");
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/AUTH.md");
        let text = std::fs::read_to_string(page).unwrap();
        let (before, rest) = text.split_once("| right | opens |\n").unwrap();
        let (_, behind) = rest.split_once("\n\n").unwrap();
        let written = format!("{before}{table}\n{behind}");
        if std::env::var_os("TIPCAST_WRITE_OPENAPI").is_some() {
            std::fs::write(page, &written).unwrap();
        } else {
            assert_eq!(text, written, "`make openapi` writes the table of rights");
        }
    }

    #[test]
    fn every_path_below_v1_but_reading_and_watching_needs_a_key() {
        for entry in entries() {
            for MethodRow { name: method, access, .. } in &entry.methods {
                let open = matches!(access, Feed | List | Watch);
                let v1 = entry.path.starts_with("/v1/");
                assert_eq!(
                    matches!(access, AnyKey | Key(_) | Hold | Claim),
                    v1 && !open,
                    "{method} {}",
                    entry.path
                );
                assert!(!open || *method == GET, "{method} {}", entry.path);
            }
            assert_eq!(
                entries().iter().filter(|other| other.path == entry.path).count(),
                1,
                "{}",
                entry.path
            );
        }
    }
}
