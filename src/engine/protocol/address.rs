//! Where Redis is: what the URL says.

use std::fmt;

use url::Url;

/// Where one server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A host's name or address, and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(String),
}

impl Endpoint {
    /// Reads `host:port`; an IPv6 address may have brackets or none, as Redis announces it.
    pub fn read(text: &str) -> Option<Endpoint> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty()).then_some(())?;
        Some(Endpoint::Tcp(host.to_owned(), port.parse().ok()?))
    }

    /// Its host; empty for a socket in the file system.
    pub fn host(&self) -> &str {
        match self {
            Endpoint::Tcp(host, _) => host,
            Endpoint::Unix(_) => "",
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp(host, port) => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => f.write_str(path),
        }
    }
}

/// How the servers belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// One server, which has every feed.
    Single(Endpoint),
    /// Nodes of a cluster. Any of them knows the others.
    Cluster(Vec<Endpoint>),
    /// Sentinels, and the name of the primary that they watch.
    Sentinel(Vec<Endpoint>, String),
}

/// What a URL says.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub kind: ServerKind,
    /// Whether every connection is over TLS.
    pub tls: bool,
    /// At the data nodes.
    pub username: Option<String>,
    pub password: Option<String>,
    pub database: i64,
}

/// How URLs are written, for messages.
const FORMS: &str = "write redis://[user:password@]host[:port][/database], redis+cluster://host:port,host:port or \
                     redis+sentinel://host:port,host:port/MASTER, with rediss in place of redis for TLS";

impl Target {
    /// Reads a URL; says what is wrong with it, without repeating its password.
    pub fn read(url: &str) -> Result<Target, String> {
        let bad = |why: &str| format!("the Redis URL cannot be read ({why}); {FORMS}");
        if let Some(path) = url.strip_prefix("unix://").or_else(|| url.strip_prefix("redis+unix://")) {
            let kind =
                ServerKind::Single(Endpoint::Unix(path.split('?').next().unwrap_or_default().to_owned()));
            return Ok(Target { kind, tls: false, username: None, password: None, database: 0 });
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("it has no scheme"))?;
        let (tls, kind) = match scheme.split_once('+').unwrap_or((scheme, "")) {
            ("redis", kind) => (false, kind),
            ("rediss", kind) => (true, kind),
            _ => return Err(bad("its scheme is not known")),
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, place),
        };
        // The crate for URLs knows one host each: every host is read as a URL of its own.
        let read_host = |host: &str, default: Option<u16>| -> Result<Endpoint, String> {
            let one = Url::parse(&format!("redis://{host}")).map_err(|e| bad(&e.to_string()))?;
            let port = one.port().or(default).ok_or_else(|| bad("a host has no port"))?;
            let host =
                one.host_str().filter(|host| !host.is_empty()).ok_or_else(|| bad("it names no host"))?;
            Ok(Endpoint::Tcp(host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
        };
        let hosts = |default| -> Result<Vec<Endpoint>, String> {
            hosts.split(',').map(|host| read_host(host.trim(), Some(default))).collect()
        };
        let mut database = 0;
        let kind = match kind {
            "" => {
                if !path.is_empty() {
                    database = path.parse().map_err(|_| bad("its database is no number"))?;
                }
                match <[Endpoint; 1]>::try_from(hosts(6379)?) {
                    Ok([one]) => ServerKind::Single(one),
                    Err(_) => return Err(bad("several hosts are a cluster or sentinels")),
                }
            }
            "cluster" if path.is_empty() || path == "0" => ServerKind::Cluster(hosts(6379)?),
            "cluster" => return Err(bad("a cluster has no databases")),
            "sentinel" => {
                let (master, number) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(bad("it does not name the primary that the sentinels watch"));
                }
                if !number.is_empty() {
                    database = number.parse().map_err(|_| bad("its database is no number"))?;
                }
                ServerKind::Sentinel(hosts(26379)?, decoded(master))
            }
            _ => return Err(bad("its scheme is not known")),
        };
        let (username, password) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            None => (None, None),
            Some((name, password)) => {
                let some = |text: &str| (!text.is_empty()).then(|| decoded(text));
                (some(name), some(password))
            }
        };
        Ok(Target { kind, tls, username, password, database })
    }
}

/// Percent-decoded.
fn decoded(text: &str) -> String {
    let hex = |at: usize| text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        match (text.as_bytes()[at], hex(at)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                at += 3;
            }
            (byte, _) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp(host.into(), port)
    }

    #[test]
    fn every_form_is_read() {
        let one = Target::read("redis://us%40er:p%2Fw@host:7000/2").unwrap();
        assert_eq!((one.kind, one.tls, one.database), (ServerKind::Single(tcp("host", 7000)), false, 2));
        assert_eq!((one.username.as_deref(), one.password.as_deref()), (Some("us@er"), Some("p/w")));
        let cluster = Target::read("rediss+cluster://:secret@a:1,[::1]:2").unwrap();
        assert_eq!(
            (cluster.kind, cluster.tls),
            (ServerKind::Cluster(vec![tcp("a", 1), tcp("::1", 2)]), true)
        );
        assert_eq!((cluster.username, cluster.password.as_deref()), (None, Some("secret")));
        let sentinel = Target::read("redis+sentinel://a,b:5/main").unwrap();
        let sentinels = vec![tcp("a", 26379), tcp("b", 5)];
        assert_eq!(sentinel.kind, ServerKind::Sentinel(sentinels, "main".into()));
        assert_eq!(Target::read("redis://h").unwrap().kind, ServerKind::Single(tcp("h", 6379)));
    }

    #[test]
    fn an_unreadable_address_is_explained_without_its_password() {
        let bad = [
            "",
            "host:1",
            "http://h",
            "redis://",
            "redis://a,b",
            "redis+sentinel://a",
            "redis+cluster://a/3",
            "redis://u:secret@h:x",
            "redis+magic://a",
        ];
        for url in bad {
            let why = Target::read(url).err().unwrap_or_else(|| panic!("{url} must be refused"));
            assert!(why.contains("redis+cluster://") && !why.contains("secret"), "{url}: {why}");
        }
    }

    #[test]
    fn redis_announcements_are_read() {
        assert_eq!(Endpoint::read("10.0.0.1:7000"), Some(tcp("10.0.0.1", 7000)));
        assert_eq!(Endpoint::read("::1:7000"), Some(tcp("::1", 7000)));
        assert_eq!(Endpoint::read(":7000"), None);
        assert_eq!(tcp("::1", 7).to_string(), "[::1]:7");
    }
}
