//! The rules of the door, from the configuration.

use std::fs;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::auth::keys::KeySpec;
use crate::auth::keyset::{Fetched, KeySet};
use crate::auth::{Key, Keys, Rights, TokenRules, Verifier};
use crate::config::{Auth, Config, ConfigError, Secret, Tokens};
use crate::http::AccessRules;
use crate::http::door::address::Proxies;
use crate::http::door::hosts::Hosts;
use crate::http::door::origins::Origins;
use crate::http::door::places::PlaceLimits;
use crate::http::door::rates::Rate;
use crate::supervise::Parts;

/// How many seconds' worth of requests about holds a viewer may make at once.
const VIEWER_BURST: u32 = 4;

/// `[auth]`, the part of `[http]` that says who may come in, and `[limits]`. Reads the key files of tokens; what
/// is fetched is added by [`fetching`].
pub(super) fn rules(config: &Config) -> Result<AccessRules, ConfigError> {
    let Config { auth, http, limits, .. } = config;
    let wrong = |place: &str| {
        let place = place.to_owned();
        move |why: String| ConfigError(format!("{place}{why}"))
    };
    let origins = Origins::parse(http.allowed_origins.iter().map(String::as_str));
    let hosts = Hosts::parse(http.hosts.iter().map(String::as_str));
    let proxies = Proxies::parse(http.trusted_proxies.iter().map(String::as_str), &http.forwarded_header);
    let viewer = limits.viewer_requests_per_second;
    Ok(AccessRules {
        keys: keys(auth)?,
        tokens: verifier(&auth.tokens)?,
        origins: origins.map_err(wrong("[http] allowed_origins: "))?,
        hosts: hosts.map_err(wrong("[http] hosts: "))?,
        insecure: http.insecure,
        proxies: proxies.map_err(wrong("[http] "))?,
        places: PlaceLimits {
            watchers: super::files::Descriptors::of(config)?.watchers(config),
            per_address: limits.watchers_per_address,
            count_loopback: limits.count_loopback,
        },
        rate: Rate::new(limits.requests_per_second, limits.request_burst),
        viewer_rate: NonZeroU32::new(viewer).map(|per_second| Rate {
            per_second,
            burst: per_second.saturating_mul(NonZeroU32::MIN.saturating_add(VIEWER_BURST - 1)),
        }),
        ..AccessRules::default()
    })
}

fn keys(auth: &Auth) -> Result<Keys, ConfigError> {
    let mut keys = Keys::default();
    for (list, may, entries) in [
        ("producer_keys", Rights::PRODUCER, &auth.producer_keys),
        ("admin_keys", Rights::ALL, &auth.admin_keys),
    ] {
        let added = keys.add_list(list, may, entries.iter().map(Secret::expose));
        added.map_err(|why| ConfigError(format!("[auth] {list}: {why}")))?;
    }
    for (n, table) in (1..).zip(&auth.keys) {
        let expires_at = table.expires_at.as_ref().map(ToString::to_string);
        let spec = KeySpec {
            name: &table.name,
            hash: table.hash.as_ref().map(Secret::expose),
            secret: table.secret.as_ref().map(Secret::expose),
            feeds: table.feeds.as_deref(),
            may: &table.may,
            expires_at: expires_at.as_deref(),
            signed: table.signed,
        };
        let added = Key::parse(spec).and_then(|key| keys.add(key));
        added.map_err(|why| ConfigError(format!("[[auth.keys]] {n} ({:?}): {why}", table.name)))?;
    }
    Ok(keys)
}

/// Judges tokens by the secrets and key files of the configuration.
pub(super) fn verifier(tokens: &Tokens) -> Result<Verifier, ConfigError> {
    let text = |text: &str| (!text.is_empty()).then(|| text.into());
    let mut verifier = Verifier::new(TokenRules {
        issuer: text(&tokens.issuer),
        audience: text(&tokens.audience),
        leeway_ms: tokens.leeway_ms,
        max_age_ms: tokens.max_age_ms,
    });
    let refuse = |key: &str, why: &dyn std::fmt::Display| ConfigError(format!("[auth.tokens] {key}: {why}"));
    for (n, secret) in (1..).zip(&tokens.hs256_secrets) {
        let added = verifier.add_secret(secret.expose());
        added.map_err(|why| refuse("hs256_secrets", &format!("entry {n} {why}")))?;
    }
    for path in &tokens.public_keys {
        let shown = path.display();
        let pem =
            fs::read(path).map_err(|e| refuse("public_keys", &format!("{shown} cannot be read: {e}")))?;
        let added = verifier.add_public_pem(&pem);
        added.map_err(|why| refuse("public_keys", &format!("{shown} {why}")))?;
    }
    let file = &tokens.jwks_file;
    if !file.as_os_str().is_empty() {
        let shown = file.display();
        let text =
            fs::read(file).map_err(|e| refuse("jwks_file", &format!("{shown} cannot be read: {e}")))?;
        let set = KeySet::parse(&text).map_err(|why| refuse("jwks_file", &format!("{shown}: {why}")))?;
        verifier.set_local(Some(set));
    }
    if !tokens.jwks_url.is_empty() {
        let url = url::Url::parse(&tokens.jwks_url).ok();
        if !url.is_some_and(|url| matches!(url.scheme(), "https" | "http") && url.has_host()) {
            return Err(refuse(
                "jwks_url",
                &"it is no address such as https://login.example/.well-known/jwks.json",
            ));
        }
    }
    Ok(verifier)
}

/// Rules that also take tokens whose keys are fetched; what `running` fetches goes on where the address is the
/// same. Needs a tokio runtime.
pub(super) fn fetching(
    mut rules: AccessRules,
    tokens: &Tokens,
    running: &mut Option<Arc<Fetched>>,
    parts: &Arc<Parts>,
) -> Result<AccessRules, ConfigError> {
    let url = &tokens.jwks_url;
    if running.as_ref().is_some_and(|fetched| fetched.url() != url) {
        *running = None;
    }
    if running.is_none() && !url.is_empty() {
        let started = Fetched::start(url, parts);
        *running = Some(started.map_err(|why| ConfigError(format!("[auth.tokens] jwks_url: {why}")))?);
    }
    rules.tokens.set_fetched(running.clone());
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, load};

    #[test]
    fn an_unreadable_setting_is_named_with_its_section() {
        let refused = |change: fn(&mut Config)| {
            let mut config = load(None, Vec::new(), Flags::default()).unwrap();
            change(&mut config);
            rules(&config).err().unwrap().0
        };
        let message = refused(|c| c.auth.producer_keys = vec!["hunter2".to_owned().into()]);
        assert!(
            message.starts_with("[auth] producer_keys: entry 1") && !message.contains("hunter2"),
            "{message}"
        );
        let message = refused(|c| c.auth.admin_keys = vec!["hunter2".to_owned().into()]);
        assert!(
            message.starts_with("[auth] admin_keys: entry 1") && !message.contains("hunter2"),
            "{message}"
        );
        let message = refused(|c| c.auth.tokens.hs256_secrets = vec!["hunter2".to_owned().into()]);
        assert!(
            message.starts_with("[auth.tokens] hs256_secrets: entry 1") && !message.contains("hunter2"),
            "{message}"
        );
        let message = refused(|c| c.auth.tokens.jwks_file = "/no/such.json".into());
        assert!(message.starts_with("[auth.tokens] jwks_file: /no/such.json"), "{message}");
        let message = refused(|c| c.auth.tokens.jwks_url = "login.example".into());
        assert!(message.starts_with("[auth.tokens] jwks_url"), "{message}");
        let message = refused(|c| {
            c.auth.keys = vec![crate::config::KeyTable {
                name: "game".into(),
                hash: Some("x".to_owned().into()),
                may: vec!["fly".into()],
                ..Default::default()
            }];
        });
        assert!(message.starts_with("[[auth.keys]] 1 (\"game\"): hash"), "{message}");
        let message = refused(|c| c.http.hosts = vec!["https://a".into()]);
        assert!(message.starts_with("[http] hosts: \"https://a\""), "{message}");
        let message = refused(|c| c.http.allowed_origins = vec!["show.example".into()]);
        assert!(message.starts_with("[http] allowed_origins: \"show.example\""), "{message}");
        let message = refused(|c| c.http.trusted_proxies = vec!["nginx".into()]);
        assert!(message.starts_with("[http] trusted_proxies: \"nginx\""), "{message}");
        let message = refused(|c| c.http.forwarded_header = "X-Real-IP".into());
        assert!(message.starts_with("[http] forwarded_header"), "{message}");
    }
}
