//! Private parsers of strangers' bytes, for fuzz targets and for the check that they take time in proportion to what they
//! are given. Not for anything else.

use std::net::IpAddr;

use actix_web::http::Method;

use super::access::{RouteMatch, find};
use super::door::address::Proxies;
use super::door::head::RequestHead;
use super::inbound::framing::Framing;
use super::watch::handshake::{shake_hands, watch_options};
use super::{batch, totals};

/// How many items a batch has, and how many of them are gifts.
pub fn batch(bytes: &[u8]) -> Option<(usize, usize)> {
    batch::count(bytes)
}

/// Reads a stream of requests in pieces, each answered at once. Gives how many heads were complete, and whether all of it
/// could be HTTP.
pub fn framing(stream: &[u8], piece: usize) -> (u32, bool) {
    let mut framing = Framing::default();
    for part in stream.chunks(piece.max(1)) {
        let mut rest = part;
        while !rest.is_empty() {
            match framing.scan(rest, framing.heads()) {
                Ok(taken @ 1..) => rest = rest.get(taken..).unwrap_or_default(),
                // Bytes that belong to nobody yet.
                Ok(0) => break,
                Err(_) => return (framing.heads(), false),
            }
        }
    }
    (framing.heads(), true)
}

/// The parameters of a path, by name and percent-decoded; `None` if nothing is there, or an escape is malformed.
pub fn route(path: &str) -> Option<Vec<(&'static str, String)>> {
    let RouteMatch::For { entry, .. } = find(&Method::GET, path) else { return None };
    entry.params(path).map(|(name, value)| Some((name, value?.into_owned()))).collect()
}

/// The client for which a trusted proxy asks, by each of the two headers.
pub fn forwarded(header: &str) -> [Option<IpAddr>; 2] {
    ["X-Forwarded-For", "Forwarded"].map(|name| {
        let proxies = Proxies::parse(["10.0.0.0/8"], name).ok()?;
        let lines = [httparse::Header { name, value: header.as_bytes() }];
        proxies.client(&RequestHead::read("/", "", &lines, ([10, 0, 0, 1], 80).into()))
    })
}

/// Whether a socket's handshake is accepted whose headers are these lines.
pub fn handshake(text: &str) -> bool {
    let lines = text.split('\n').filter_map(|line| line.split_once(':'));
    let lines: Vec<_> =
        lines.map(|(name, value)| httparse::Header { name, value: value.trim().as_bytes() }).collect();
    shake_hands(&RequestHead::read("/v1/ws", "", &lines, ([192, 0, 2, 1], 80).into()), true).is_ok()
}

/// Whether a query is one that watchers, and one that readers of rankings may have.
pub fn queries(query: &str) -> (bool, bool) {
    (watch_options(query).is_ok(), totals::is_query(query))
}
