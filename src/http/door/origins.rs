//! Web pages: which of them may read, watch and write from a browser.
//!
//! A browser names the page's origin where that matters: with every request across origins and with
//! every write, and nothing in a page can keep it from that. Programs that are no browsers need not.

use url::Url;

/// `[http] allowed_origins`, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    any: bool,
    /// As browsers spell them.
    named: Vec<String>,
}

/// What an origin is to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// No browser, or a page of this server that a browser did not care to name.
    Unnamed,
    /// A page of this server: the origin is what the request says to be addressed to. Any name that
    /// somebody lets point here might be there: see [`super::hosts`].
    Own,
    /// Listed by name.
    Named,
    /// Not listed, but every origin is welcome.
    Welcome,
    /// Not listed.
    Foreign,
}

impl Origins {
    /// Reads the entries of the configuration; the error says which and what would be right.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Origins, String> {
        let mut origins = Origins::default();
        for entry in entries {
            match entry.trim() {
                "*" => origins.any = true,
                "null" => origins.named.push("null".to_owned()),
                entry => origins.named.push(spelled(entry)?),
            }
        }
        Ok(origins)
    }

    /// True when every origin may watch.
    pub fn is_any(&self) -> bool {
        self.any
    }

    /// What the page is that sent `origin` along, to the server addressed as `host`.
    pub fn judge(&self, origin: Option<&str>, host: Option<&str>) -> Page {
        let Some(origin) = origin else { return Page::Unnamed };
        if self.named.iter().any(|named| named == origin) {
            return Page::Named;
        }
        if host.is_some_and(|host| is_own(origin, host)) {
            return Page::Own;
        }
        if self.any { Page::Welcome } else { Page::Foreign }
    }
}

/// An entry as a browser would send it.
fn spelled(entry: &str) -> Result<String, String> {
    let refuse =
        |why: &str| Err(format!("{entry:?} is not an origin: {why}, as in \"https://show.example\""));
    let Some((scheme, rest)) = entry.split_once("://") else {
        return refuse("write scheme, host and, if it is not the scheme's own, port");
    };
    if rest.contains('*') {
        return refuse("\"*\" stands alone and is every origin; else name each");
    }
    if rest.contains(['/', '?', '#', '@']) {
        return refuse("it ends after host and port, without a path or a slash");
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if rest.is_empty() || scheme.is_empty() || !scheme.chars().all(fits) {
        return refuse("write scheme, host and port");
    }
    match Url::parse(entry) {
        Ok(url) if url.origin().is_tuple() => Ok(url.origin().ascii_serialization()),
        // Schemes of apps (capacitor://localhost): browsers send them as they stand.
        Ok(_) => Ok(entry.to_ascii_lowercase()),
        Err(why) => refuse(&why.to_string()),
    }
}

/// Whether a page of `origin` is the one that `host`, from the request, names. A proxy may have taken TLS
/// off, so the schemes are not compared.
fn is_own(origin: &str, host: &str) -> bool {
    let Ok(origin) = Url::parse(origin) else { return false };
    // Without a port it is the default of the scheme that the client used, which is the page's.
    let host = Url::parse(&format!("{}://{host}", origin.scheme()));
    host.is_ok_and(|host| {
        origin.origin().is_tuple()
            && origin.host() == host.host()
            && origin.port_or_known_default() == host.port_or_known_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(entries: &[&str]) -> Origins {
        Origins::parse(entries.iter().copied()).unwrap()
    }

    #[test]
    fn entries_are_spelled_as_browsers_spell_them() {
        let all =
            origins(&["https://Show.Example:443", "http://10.0.0.1:8080", "null", "capacitor://LOCALHOST"]);
        assert_eq!(
            all.named,
            ["https://show.example", "http://10.0.0.1:8080", "null", "capacitor://localhost"]
        );
        for bad in [
            "show.example",
            "https://show.example/",
            "https://",
            "https://a/b",
            "https://*.example",
            "x y://z",
            "http://a:b",
        ] {
            let refused = Origins::parse([bad]).unwrap_err();
            assert!(refused.contains(bad) && refused.contains("https://show.example"), "{refused}");
        }
    }

    #[test]
    fn a_page_is_known_by_its_origin_alone() {
        let some = origins(&["https://show.example"]);
        let judge = |origin| some.judge(Some(origin), Some("gifts.example:8080"));
        assert_eq!(some.judge(None, None), Page::Unnamed);
        assert_eq!(judge("https://show.example"), Page::Named);
        for foreign in
            ["https://show.example:8443", "http://show.example", "https://show.example.evil", "null", "", "x"]
        {
            assert_eq!(judge(foreign), Page::Foreign, "{foreign}");
        }
        let any = origins(&["*", "https://show.example"]);
        assert_eq!(any.judge(Some("https://evil.example"), None), Page::Welcome);
        assert_eq!(any.judge(Some("https://show.example"), None), Page::Named);
    }

    #[test]
    fn the_servers_own_pages_are_those_it_is_addressed_by() {
        let none = origins(&[]);
        let judge = |origin, host| none.judge(Some(origin), Some(host));
        for (origin, host) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://localhost:8080", "LOCALHOST:8080"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(judge(origin, host), Page::Own, "{origin}");
        }
        for (origin, host) in [
            ("http://show.example", "show.example"),
            ("https://show.example", "show.example"),
            ("https://show.example", "show.example:443"),
            ("http://10.0.0.1:8080", "10.0.0.1:8080"),
        ] {
            assert_eq!(judge(origin, host), Page::Own, "{origin}");
        }
        for (origin, host) in [
            ("http://127.0.0.1:8081", "127.0.0.1:8080"),
            ("http://localhost:8080", "127.0.0.1:8080"),
            ("null", "null"),
            ("https://evil.example", "show.example"),
        ] {
            assert_eq!(judge(origin, host), Page::Foreign, "{origin}");
        }
    }
}
