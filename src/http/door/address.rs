//! From which address a request comes: the peer's, unless the peer is a trusted proxy that names the
//! client.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use actix_web::http::header::{FORWARDED, HeaderName, X_FORWARDED_FOR};
use ipnet::IpNet;

use super::head::{RequestHead, text};

/// `[http] trusted_proxies` and `forwarded_header`, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxies {
    trusted: Vec<IpNet>,
    header: HeaderName,
}

impl Default for Proxies {
    fn default() -> Self {
        Proxies { trusted: Vec::new(), header: X_FORWARDED_FOR }
    }
}

impl Proxies {
    /// Reads the entries of the configuration; the error names the key and says what would be right.
    pub fn parse<'a>(trusted: impl IntoIterator<Item = &'a str>, header: &str) -> Result<Proxies, String> {
        let header = match header {
            h if h.eq_ignore_ascii_case("X-Forwarded-For") => X_FORWARDED_FOR,
            h if h.eq_ignore_ascii_case("Forwarded") => FORWARDED,
            other => {
                return Err(format!(
                    "forwarded_header is {other:?}; it must be \"X-Forwarded-For\" or \"Forwarded\""
                ));
            }
        };
        let read = |entry: &str| {
            let net = entry.parse::<IpNet>().or_else(|_| entry.parse::<IpAddr>().map(IpNet::from));
            let net = net.map_err(|_| {
                format!("trusted_proxies: {entry:?} is no address or network, such as 10.0.0.1 or 10.0.0.0/8")
            })?;
            match net.prefix_len() {
                0 => Err(format!(
                    "trusted_proxies: {entry:?} is everybody, so that anybody could claim any address; name \
                     the networks of your proxies"
                )),
                _ => Ok(net),
            }
        };
        let trusted = trusted.into_iter().map(read).collect::<Result<_, String>>()?;
        Ok(Proxies { trusted, header })
    }

    /// The client of this request. What is nearest to us is said by proxies that we trust, so the header is
    /// read from its end, up to the first address that is not a trusted proxy's.
    pub fn client(&self, head: &RequestHead<'_>) -> Option<IpAddr> {
        let mut client = head.peer?.ip().to_canonical();
        if !self.trusts(client) {
            return Some(client);
        }
        let mut hops = Vec::new();
        for value in head.all(&self.header) {
            // A value that is no text hides who is behind it, and everybody before it.
            let value = text(value).unwrap_or("?");
            hops.extend(value.split(',').map(|part| match self.header == FORWARDED {
                true => forwarded_for(part),
                false => address(part),
            }));
        }
        for hop in hops.into_iter().rev() {
            let Some(hop) = hop else { break };
            client = hop;
            if !self.trusts(hop) {
                break;
            }
        }
        Some(client)
    }

    /// Whether this is a trusted proxy's address.
    pub fn trusts(&self, ip: IpAddr) -> bool {
        self.trusted.iter().any(|net| net.contains(&ip))
    }
}

/// `for=` of one element of a `Forwarded` header (RFC 7239).
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, node) = pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    address(node.trim().trim_matches('"'))
}

/// An address as proxies write it: alone, in brackets, or with a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let alone = text.parse::<IpAddr>().ok();
    let alone =
        alone.or_else(|| text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(IpAddr::V6));
    alone
        .or_else(|| text.parse::<SocketAddr>().ok().map(|with_port| with_port.ip()))
        .map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(proxies: &Proxies, peer: &str, lines: &[(HeaderName, &str)]) -> String {
        let lines = lines
            .iter()
            .map(|(name, value)| httparse::Header { name: name.as_str(), value: value.as_bytes() });
        let (lines, peer) = (lines.collect::<Vec<_>>(), SocketAddr::new(peer.parse().unwrap(), 1));
        proxies.client(&RequestHead::read("/", "", &lines, peer)).unwrap().to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let hops = |line| [(X_FORWARDED_FOR, line)];
        let nobody = Proxies::default();
        assert_eq!(client(&nobody, "10.0.0.1", &hops("1.2.3.4")), "10.0.0.1");
        let ours = Proxies::parse(["10.0.0.0/8", "::1"], "x-forwarded-for").unwrap();
        assert_eq!(client(&ours, "9.9.9.9", &hops("1.2.3.4")), "9.9.9.9");
        assert_eq!(client(&ours, "::ffff:10.1.1.1", &hops("1.2.3.4")), "1.2.3.4");
        assert_eq!(client(&ours, "10.0.0.1", &hops("6.6.6.6, 1.2.3.4, 10.0.0.2")), "1.2.3.4", "claimed");
        assert_eq!(client(&ours, "::1", &hops("1.2.3.4:5555")), "1.2.3.4");
        assert_eq!(client(&ours, "::1", &hops("1.2.3.4, garbage, 10.0.0.2")), "10.0.0.2");
        assert_eq!(client(&ours, "::1", &hops("")), "::1");
        assert_eq!(client(&ours, "::1", &[(FORWARDED, "for=1.2.3.4")]), "::1", "not the header that is read");
        let lines = [(X_FORWARDED_FOR, "6.6.6.6"), (X_FORWARDED_FOR, "1.2.3.4")];
        assert_eq!(client(&ours, "10.0.0.1", &lines), "1.2.3.4", "two lines are one list");
    }

    #[test]
    fn forwarded_is_read_as_its_rfc_writes_it() {
        let ours = Proxies::parse(["10.0.0.1"], "Forwarded").unwrap();
        for (line, who) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
            ("for=6.6.6.6, proto=https;for=192.0.2.43:80", "192.0.2.43"),
            ("for=unknown", "10.0.0.1"),
            ("for=_hidden, for=10.0.0.1", "10.0.0.1"),
        ] {
            assert_eq!(client(&ours, "10.0.0.1", &[(FORWARDED, line)]), who, "{line}");
        }
    }

    #[test]
    fn an_invalid_network_is_named() {
        for (entry, words) in [("10.0.0", "10.0.0.0/8"), ("proxy", "no address"), ("0.0.0.0/0", "everybody")]
        {
            let refused = Proxies::parse([entry], "Forwarded").unwrap_err();
            assert!(refused.contains(entry) && refused.contains(words), "{refused}");
        }
        assert!(Proxies::parse([], "X-Real-IP").unwrap_err().contains("X-Real-IP"));
    }
}
