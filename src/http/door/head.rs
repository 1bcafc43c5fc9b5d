//! The head of a request as access control judges it, read by the HTTP server or by a thread of sockets.

use std::net::SocketAddr;

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderMap, HeaderName};
use actix_web::http::{Method, Version};

/// What a request says before its body, and from where it came. Borrowed from whatever holds it.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// What is to be done.
    pub method: &'a Method,
    /// As it was sent. `access` finds the row and decodes its parameters, for the door and for handlers alike: a path
    /// that is judged as something else than it is served as would be a way around the door.
    pub path: &'a str,
    /// As it was sent, without the question mark.
    pub query: &'a str,
    /// Where the connection comes from.
    pub peer: Option<SocketAddr>,
    /// It is HTTP/1.0, as proxies speak that add no header of their own.
    pub is_http_1_0: bool,
    /// The host that HTTP/2, or an absolute address, names beside the headers.
    authority: Option<&'a str>,
    headers: Headers<'a>,
}

#[derive(Clone, Copy)]
enum Headers<'a> {
    Map(&'a HeaderMap),
    Lines(&'a [httparse::Header<'a>]),
}

impl<'a> RequestHead<'a> {
    /// Of a request that the HTTP server read.
    pub fn of(req: &'a HttpRequest) -> RequestHead<'a> {
        RequestHead {
            method: req.method(),
            path: req.uri().path(),
            query: req.query_string(),
            peer: req.peer_addr(),
            is_http_1_0: req.version() == Version::HTTP_10,
            authority: req.uri().authority().map(|authority| authority.as_str()),
            headers: Headers::Map(req.headers()),
        }
    }

    /// Of a GET of HTTP/1.1 that was read line by line; `path` and `query` are as they were sent.
    pub fn read(
        path: &'a str,
        query: &'a str,
        lines: &'a [httparse::Header<'a>],
        peer: SocketAddr,
    ) -> RequestHead<'a> {
        let (method, headers) = (&Method::GET, Headers::Lines(lines));
        RequestHead { method, path, query, peer: Some(peer), is_http_1_0: false, authority: None, headers }
    }

    /// The host named beside the headers.
    pub(super) fn authority(&self) -> Option<&'a str> {
        self.authority
    }

    /// Every value of a header, in the order they came.
    pub fn all(&self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (map, lines): (_, &[httparse::Header<'a>]) = match self.headers {
            Headers::Map(map) => (Some(map), &[]),
            Headers::Lines(lines) => (None, lines),
        };
        let of_map = map.into_iter().flat_map(move |map| map.get_all(name)).map(|value| value.as_bytes());
        let of_lines = lines.iter().filter(move |line| line.name.eq_ignore_ascii_case(name.as_str()));
        of_map.chain(of_lines.map(|line| line.value))
    }

    /// Every value of a header that is text.
    pub fn texts(&self, name: &'a HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
        self.all(name).filter_map(text)
    }

    /// Whether the header is there.
    pub fn has(&self, name: &HeaderName) -> bool {
        match self.headers {
            Headers::Map(map) => map.contains_key(name),
            Headers::Lines(lines) => lines.iter().any(|line| line.name.eq_ignore_ascii_case(name.as_str())),
        }
    }

    /// Whether a header has a name of which this holds. Names may come in any case.
    pub fn has_name(&self, holds: impl Fn(&str) -> bool) -> bool {
        match self.headers {
            Headers::Map(map) => map.keys().any(|name| holds(name.as_str())),
            Headers::Lines(lines) => lines.iter().any(|line| holds(line.name)),
        }
    }

    /// A header that may be there once: `None` if it is absent, `Some(None)` if it makes no sense.
    pub fn single(&self, name: &'a HeaderName) -> Option<Option<&'a str>> {
        let mut all = self.all(name);
        let first = all.next()?;
        Some(text(first).filter(|_| all.next().is_none()))
    }
}

/// A header's value, if it is visible ASCII.
pub(super) fn text(value: &[u8]) -> Option<&str> {
    let visible = |b: &u8| matches!(b, b' '..=b'~' | b'\t');
    value.iter().all(visible).then(|| std::str::from_utf8(value).ok()).flatten()
}
