//! What a configuration amounts to, in four lines for the person who is about to run it.

use std::fmt;

use super::Config;

/// A sentence about each thing that people get wrong. Holds no secret: keys are counted, and the user and password of
/// a Redis URL are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Which store, and where it is.
    pub store: String,
    /// The address with its scheme, and who reaches it.
    pub listen: String,
    /// How many keys there are, and whether viewer tokens are checked.
    pub keys: String,
    /// What needs no key.
    pub strangers: String,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "store: {}", self.store)?;
        writeln!(f, "address: {}", self.listen)?;
        writeln!(f, "keys: {}", self.keys)?;
        write!(f, "open to strangers: {}", self.strangers)
    }
}

impl Config {
    /// What this configuration amounts to. Resolves the host name of `[http] listen`.
    pub fn summary(&self) -> Summary {
        Summary {
            store: self.store_summary(),
            listen: self.address_summary(),
            keys: self.keys_summary(),
            strangers: self.strangers_summary(),
        }
    }

    fn store_summary(&self) -> String {
        if self.redis.url.is_empty() {
            return format!("embedded, in the folder {}", self.embedded.data_dir.display());
        }
        let (scheme, rest) = self.redis.url.split_once("://").unwrap_or(("redis", ""));
        // A password may hold an @; a host cannot.
        let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
        let hosts = hosts.split('?').next().unwrap_or_default();
        let prefix = &self.redis.prefix;
        format!("Redis at {scheme}://{hosts}, keys begin with {prefix}")
    }

    fn address_summary(&self) -> String {
        let scheme = self.scheme();
        let listen = &self.http.listen;
        let reach = match self.is_loopback() {
            true => "only this machine reaches it",
            false => "other machines reach it",
        };
        format!("{scheme}://{listen}, {reach}")
    }

    fn keys_summary(&self) -> String {
        let auth = &self.auth;
        let tokens = &auth.tokens;
        let checks_tokens = !(tokens.hs256_secrets.is_empty()
            && tokens.public_keys.is_empty()
            && tokens.jwks_file.as_os_str().is_empty()
            && tokens.jwks_url.is_empty());
        let tokens = if checks_tokens { "viewer tokens are checked" } else { "no viewer tokens" };
        if !self.has_keys() {
            return format!("none; {tokens}");
        }
        format!(
            "{} producer, {} admin, {} with rights of their own; {tokens}",
            auth.producer_keys.len(),
            auth.admin_keys.len(),
            auth.keys.len()
        )
    }

    fn strangers_summary(&self) -> String {
        match (self.has_keys(), self.is_loopback(), self.feeds.visibility.as_str()) {
            (true, _, "private") => {
                "pages, health and metrics, and feeds whose policy makes them public; feeds are private by default"
            }
            (true, _, _) => {
                "reading and watching feeds that are not private, pages, health and metrics; nothing that writes"
            }
            (false, true, _) => "everything, writing too, but only for programs of this machine",
            (false, false, _) => "everything: anyone who can reach the address may write to every feed",
        }
        .to_owned()
    }

    fn is_loopback(&self) -> bool {
        self.listen_address().is_ok_and(|address| address.ip().is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Flags, load};

    #[test]
    fn a_summary_names_the_store_the_address_the_keys_and_what_is_open_and_no_secret() {
        let mut config = load(None, Vec::new(), Flags::default()).unwrap();
        let lines = config.summary().to_string();
        for part in
            ["./data", "http://127.0.0.1:8080, only this machine", "keys: none", "programs of this machine"]
        {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        config.redis.url = "rediss+cluster://u:hu@sh@a:1,[::1]:2".into();
        config.http.listen = "0.0.0.0:443".into();
        config.auth.producer_keys = vec![format!("sha256:{}", "0".repeat(64)).into()];
        config.auth.tokens.hs256_secrets = vec!["s".repeat(32).into()];
        let lines = config.summary().to_string();
        assert!(lines.contains("Redis at rediss+cluster://a:1,[::1]:2, keys begin with"), "{lines}");
        assert!(lines.contains("other machines reach it"), "{lines}");
        assert!(
            lines.contains("keys: 1 producer, 0 admin, 0 with rights of their own; viewer tokens"),
            "{lines}"
        );
        assert!(lines.contains("nothing that writes"), "{lines}");
        assert!(!lines.contains("hu") && !lines.contains("sha256"), "{lines}");
        assert_eq!(lines.lines().count(), 4);
    }
}
