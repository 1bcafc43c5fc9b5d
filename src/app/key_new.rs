//! `tipcast key new`: a fresh key for its holder, and what the configuration needs of it.

use std::fmt::Write;

use clap::Args;
use data_encoding::{BASE64, HEXLOWER};

use crate::auth::keys::KeySpec;
use crate::auth::{Key, KeyHash, fresh_key};
use crate::domain::Millis;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// Its name, and its rights.
#[derive(Args, Debug, Default)]
pub struct KeyOptions {
    /// The key's name, for people and the audit log. Without it, the key may do all but administer.
    #[arg(long, value_name = "NAME", requires = "may")]
    name: Option<String>,
    /// The feeds it is for: names, or beginnings of names with a * at the end.
    #[arg(long, value_name = "FEEDS", value_delimiter = ',', default_value = "*", requires = "name")]
    feeds: Vec<String>,
    /// What it may: gifts, moderate, policy, drops, claims, reports, read, observe, admin.
    #[arg(long, value_name = "RIGHTS", value_delimiter = ',', requires = "name")]
    may: Vec<String>,
    /// For how many days it is good. Without it, for ever.
    #[arg(long, value_name = "DAYS", requires = "name", value_parser = clap::value_parser!(u64).range(1..=36_500))]
    days: Option<u64>,
    /// A key that never travels: requests are signed with it, as Standard Webhooks are.
    #[arg(long, requires = "name")]
    signed: bool,
}

/// A key, and where its two halves go. The error says which option is wrong.
pub fn explain(options: &KeyOptions) -> Result<String, String> {
    let key = fresh_key();
    match &options.name {
        None => Ok(plain(&key)),
        Some(name) => scoped(options, name, &key, Millis::now()),
    }
}

fn plain(key: &str) -> String {
    let hash = KeyHash::of(key);
    format!(
        "{key}\n\n\
         # The key above is the producer's, who sends it as `Authorization: Bearer {key}`.\n\
         # It is not stored anywhere and cannot be shown again. The server needs its hash only:\n\
         [auth]\n\
         producer_keys = [\"{hash}\"]\n"
    )
}

fn scoped(options: &KeyOptions, name: &str, key: &str, now: Millis) -> Result<String, String> {
    let expires_at = options.days.map(|days| now.plus(days * DAY_MS).to_string());
    let hash = KeyHash::of(key).to_string();
    let secret = format!("whsec_{}", BASE64.encode(&random_of(key)));
    let spec = KeySpec {
        name,
        hash: (!options.signed).then_some(&*hash),
        secret: options.signed.then_some(&*secret),
        feeds: Some(&options.feeds),
        may: &options.may,
        expires_at: expires_at.as_deref(),
        signed: options.signed,
    };
    // What the server would refuse is not handed out.
    Key::parse(spec).map_err(|why| format!("this key cannot be: it {why}"))?;
    let mut out = match options.signed {
        true => format!(
            "{secret}\n\n\
             # The secret above is for the signer, who never sends it: each request carries `Tipcast-Key: {name}` and\n\
             # webhook-id, webhook-timestamp and webhook-signature over id.timestamp.body (standardwebhooks.com).\n\
             # The server needs it too, so keep the configuration as secret as the key:\n"
        ),
        false => format!(
            "{key}\n\n\
             # The key above is for its holder, who sends it as `Authorization: Bearer {key}`.\n\
             # It is not stored anywhere and cannot be shown again. The server needs its hash only:\n"
        ),
    };
    let list = |all: &[String]| all.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ");
    let _ = write!(out, "[[auth.keys]]\nname = {name:?}\n");
    let _ = match options.signed {
        true => write!(out, "signed = true\nsecret = {secret:?}\n"),
        false => writeln!(out, "hash = {hash:?}"),
    };
    let _ = write!(out, "feeds = [{}]\nmay = [{}]\n", list(&options.feeds), list(&options.may));
    if let Some(expires_at) = expires_at {
        let _ = writeln!(out, "expires_at = {expires_at:?}");
    }
    Ok(out)
}

/// The random bytes that a key spells.
fn random_of(key: &str) -> Vec<u8> {
    HEXLOWER.decode(key.as_bytes().get(4..).unwrap_or_default()).unwrap_or_default()
}
