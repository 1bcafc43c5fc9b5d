//! The rules of the door, from the configuration.

use crate::config::{Config, ConfigError, Secret};
use crate::http::Rules;
use crate::http::door::address::Proxies;
use crate::http::door::hosts::Hosts;
use crate::http::door::keys::Keys;
use crate::http::door::origins::Origins;
use crate::http::door::places::PlaceLimits;
use crate::http::door::rates::Rate;

/// `[auth]`, the part of `[http]` that says who may come in, and `[limits]`.
pub(super) fn rules(config: &Config) -> Result<Rules, ConfigError> {
    let Config { auth, http, limits, .. } = config;
    let wrong = |place: &str| {
        let place = place.to_owned();
        move |why: String| ConfigError(format!("{place}{why}"))
    };
    let keys = Keys::parse(auth.producer_keys.iter().map(Secret::expose));
    let admin = Keys::parse(auth.admin_keys.iter().map(Secret::expose));
    let origins = Origins::parse(http.allowed_origins.iter().map(String::as_str));
    let hosts = Hosts::parse(http.hosts.iter().map(String::as_str));
    let proxies = Proxies::parse(http.trusted_proxies.iter().map(String::as_str), &http.forwarded_header);
    Ok(Rules {
        keys: keys.map_err(wrong("[auth] producer_keys: "))?,
        admin: admin.map_err(wrong("[auth] admin_keys: "))?,
        origins: origins.map_err(wrong("[http] allowed_origins: "))?,
        hosts: hosts.map_err(wrong("[http] hosts: "))?,
        insecure: http.insecure,
        proxies: proxies.map_err(wrong("[http] "))?,
        places: PlaceLimits {
            watchers: super::files::watchers_most(config),
            per_address: limits.watchers_per_address,
            count_loopback: limits.count_loopback,
        },
        rate: Rate::new(limits.requests_per_second, limits.request_burst),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, load};

    #[test]
    fn what_cannot_be_read_is_named_with_its_section() {
        let refused = |change: fn(&mut Config)| {
            let mut config = load(None, Vec::new(), Flags::default()).unwrap();
            change(&mut config);
            rules(&config).err().unwrap().0
        };
        let told = refused(|c| c.auth.producer_keys = vec!["hunter2".to_owned().into()]);
        assert!(told.starts_with("[auth] producer_keys: entry 1") && !told.contains("hunter2"), "{told}");
        let told = refused(|c| c.auth.admin_keys = vec!["hunter2".to_owned().into()]);
        assert!(told.starts_with("[auth] admin_keys: entry 1") && !told.contains("hunter2"), "{told}");
        let told = refused(|c| c.http.allowed_origins = vec!["show.example".into()]);
        assert!(told.starts_with("[http] allowed_origins: \"show.example\""), "{told}");
        let told = refused(|c| c.http.trusted_proxies = vec!["nginx".into()]);
        assert!(told.starts_with("[http] trusted_proxies: \"nginx\""), "{told}");
        let told = refused(|c| c.http.forwarded_header = "X-Real-IP".into());
        assert!(told.starts_with("[http] forwarded_header"), "{told}");
    }
}
