//! Agreeing on permessage-deflate (RFC 7692), always without context takeover: then a frame compressed
//! once is right for every watcher, and nobody costs a window of memory.

use actix_web::http::header::SEC_WEBSOCKET_EXTENSIONS;

use crate::http::door::RequestHead;

/// What the server agrees to, whichever offer it takes.
pub(super) const AGREED: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// True when the client offers it in a way that can be taken.
pub(super) fn is_offered(head: &RequestHead<'_>) -> bool {
    head.texts(&SEC_WEBSOCKET_EXTENSIONS).flat_map(|value| value.split(',')).any(is_acceptable)
}

/// An offer of the extension that asks for nothing that the server does not do.
fn is_acceptable(offer: &str) -> bool {
    let mut parts = offer.split(';').map(str::trim);
    let mut seen = Vec::new();
    parts.next() == Some("permessage-deflate")
        && parts.all(|part| {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
                None => (part, None),
            };
            let repeated = seen.contains(&name);
            seen.push(name);
            !repeated
                && match (name, value) {
                    ("server_no_context_takeover" | "client_no_context_takeover", None) => true,
                    // Only a hint of what the client can do.
                    ("client_max_window_bits", None) => true,
                    ("client_max_window_bits", Some(bits)) => is_window(bits),
                    // The compressor's window is the largest; a smaller one cannot be promised.
                    ("server_max_window_bits", Some(bits)) => bits == "15",
                    _ => false,
                }
        })
}

/// RFC 7692, 7.1.2: 8 to 15, without leading zeros.
fn is_window(bits: &str) -> bool {
    matches!(bits, "8" | "9" | "10" | "11" | "12" | "13" | "14" | "15")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_taken_unless_it_asks_for_what_cannot_be_done() {
        for good in [
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits",
            " permessage-deflate; client_max_window_bits=10; server_no_context_takeover",
            "permessage-deflate;server_max_window_bits=\"15\"",
        ] {
            assert!(is_acceptable(good), "{good}");
        }
        for bad in [
            "",
            "x-webkit-deflate-frame",
            "permessage-deflate; server_max_window_bits=10",
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; client_max_window_bits=07",
            "permessage-deflate; client_max_window_bits; client_max_window_bits",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; unheard_of",
        ] {
            assert!(!is_acceptable(bad), "{bad}");
        }
    }
}
