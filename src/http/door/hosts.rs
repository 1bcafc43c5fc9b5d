//! The name by which the server is asked: the `Host` header of HTTP/1.1, the authority of HTTP/2.
//!
//! A browser sends the name of the page's own address bar, and a page cannot change it. So a name that
//! somebody made point at this machine (DNS rebinding) shows up here, and nowhere else.

use std::net::{IpAddr, Ipv4Addr};

use actix_web::http::header::{HOST, HeaderName};
use url::{Host, Url};

use super::RequestHead;

/// Headers that proxies and tunnels add. One of them means that the request may come from anywhere, whatever its
/// peer's address is. Compared in lower case.
const PROXY_HEADERS: [&str; 4] = ["forwarded", "via", "x-real-ip", "client-ip"];

/// How families of such headers begin.
const PROXY_PREFIXES: [&str; 5] = ["x-forwarded", "x-original-", "cf-", "fastly-", "tailscale-"];

/// How a family of such headers ends.
const PROXY_SUFFIX: &str = "-client-ip";

/// `[http] hosts`, read: the names by which the server may be asked; none is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<(String, Option<u16>)>);

impl Hosts {
    /// Reads the entries of the configuration, each a name or an address, with a port where only that one
    /// will do; the error says which is wrong and what would be right.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Hosts, String> {
        let read = |entry: &str| {
            split(entry.trim()).ok_or_else(|| {
                format!(
                    "{entry:?} is no host; write the name that stands in the address, as in \"gifts.example\" or \
                     \"127.0.0.1\", with a port only if no other will do"
                )
            })
        };
        entries.into_iter().map(read).collect::<Result<_, String>>().map(Hosts)
    }

    /// Whether the server may be asked by this name.
    pub fn allow(&self, host: Option<&str>) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let Some((name, port)) = host.and_then(split) else { return false };
        self.0.iter().any(|(known, only)| *known == name && (only.is_none() || *only == port))
    }
}

/// The name and port that a request is addressed to; `None` if it names nothing, or several things.
pub(super) fn asked<'a>(head: &RequestHead<'a>) -> Option<&'a str> {
    static NAME: HeaderName = HOST;
    let header = match head.single(&NAME) {
        Some(value) => Some(value?),
        None => None,
    };
    match (head.authority(), header) {
        (Some(authority), Some(header)) => authority.eq_ignore_ascii_case(header).then_some(header),
        (one, other) => one.or(other),
    }
}

/// Whether a request looks like one of a program of this machine: from a loopback address, to a loopback name, and
/// through no proxy that can be seen. A tunnel that passes bytes on unchanged (`ssh -R`), and a proxy that speaks
/// HTTP/1.1 and adds no header, look the same.
pub(super) fn looks_local(host: Option<&str>, head: &RequestHead<'_>) -> bool {
    head.peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
        && host.is_some_and(is_loopback)
        && !head.is_http_1_0
        && !head.has_name(|name| is_of_proxy(&name.to_ascii_lowercase()))
}

fn is_of_proxy(name: &str) -> bool {
    PROXY_HEADERS.contains(&name)
        || PROXY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name.ends_with(PROXY_SUFFIX)
}

/// Whether this is `localhost`, in 127.0.0.0/8, or `[::1]`, with or without a port.
fn is_loopback(host: &str) -> bool {
    // As nearly every program spells it, which asks for every gift while there are no keys.
    let digits = |port: &str| port.bytes().all(|b| b.is_ascii_digit());
    let bare = match host.rsplit_once(':') {
        Some((name, port)) if digits(port) && port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    if bare == "localhost" || bare.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback()) {
        return true;
    }
    split(host).is_some_and(|(name, _)| {
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        name == "localhost" || address.is_ok_and(|ip| ip.is_loopback())
    })
}

/// Name and port, spelled as browsers do: lower case, no dot at the end, addresses in their usual form.
fn split(host: &str) -> Option<(String, Option<u16>)> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    if host.is_empty() || !host.chars().all(plain) {
        return None;
    }
    // A scheme whose own port nobody uses: the URL parser leaves out a scheme's default port.
    let url = Url::parse(&format!("ftp://{host}")).ok()?;
    let name = match url.host()? {
        Host::Domain(name) => name.trim_end_matches('.').to_owned(),
        address => address.to_string(),
    };
    let port = url.port().or_else(|| host.ends_with(":21").then_some(21));
    (!name.is_empty()).then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_hosts_lets_in_who_uses_one_of_its_names() {
        let hosts = Hosts::parse(["Gifts.Example", "localhost:8080", "[::1]", "10.0.0.1"]).unwrap();
        for right in ["gifts.example", "GIFTS.example.:443", "localhost:8080", "[::1]:9", "10.0.0.1:21"] {
            assert!(hosts.allow(Some(right)), "{right}");
        }
        for wrong in [
            "",
            "localhost",
            "localhost:80",
            "evil.example",
            "gifts.example.evil",
            "a@gifts.example",
            "10.0.0.2",
        ] {
            assert!(!hosts.allow(Some(wrong)), "{wrong}");
        }
        assert!(!hosts.allow(None) && Hosts::default().allow(None));
        for bad in ["https://gifts.example", "gifts.example/", "", "*"] {
            assert!(Hosts::parse([bad]).unwrap_err().contains("gifts.example"), "{bad}");
        }
    }

    #[test]
    fn only_the_names_that_every_machine_has_for_itself_are_loopback() {
        for host in ["localhost", "LocalHost:8080", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:8080"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "gifts.example",
            "localhost.evil.example",
            "a.localhost",
            "evil@localhost",
            "10.0.0.1",
            "[::2]",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn http2_names_its_host_in_the_authority_and_two_different_names_are_none() {
        let of = |uri: &str, host: &[&str]| {
            let mut req = actix_web::test::TestRequest::default().uri(uri);
            for host in host {
                req = req.append_header((HOST, *host));
            }
            asked(&RequestHead::of(&req.to_http_request())).map(str::to_owned)
        };
        assert_eq!(of("https://gifts.example/", &[]).as_deref(), Some("gifts.example"));
        assert_eq!(of("https://gifts.example/", &["Gifts.Example"]).as_deref(), Some("Gifts.Example"));
        assert_eq!(of("/", &["gifts.example"]).as_deref(), Some("gifts.example"));
        assert_eq!(of("https://gifts.example/", &["localhost"]), None);
        assert_eq!(of("/", &["localhost", "localhost"]), None);
        assert_eq!(of("/", &[]), None);
    }
}
