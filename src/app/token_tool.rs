//! `tipcast token new` and `tipcast token check`: for trying, and for finding out why a token is refused.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::door::{fetching, rules};
use crate::auth::token::mint::Minter;
use crate::auth::{BadToken, Viewer};
use crate::config::Config;
use crate::domain::Millis;

/// How long a key set may take to be fetched.
const KEYS_WITHIN: Duration = Duration::from_secs(6);

/// The viewer of the token, and what it is for.
#[derive(Args, Debug)]
pub struct NewToken {
    /// The viewer.
    #[arg(long, value_name = "VIEWER", default_value = "viewer")]
    sub: String,
    /// The feeds it is for: names, or beginnings of names with a * at the end.
    #[arg(long, value_name = "FEEDS", value_delimiter = ',', default_value = "*")]
    feeds: Vec<String>,
    /// What it may: watch, hold.
    #[arg(long, value_name = "WORDS", value_delimiter = ',', default_value = "watch")]
    may: Vec<String>,
    /// For how many minutes it is good.
    #[arg(long, value_name = "MINUTES", default_value_t = 15, value_parser = clap::value_parser!(i64).range(1..=525_600))]
    minutes: i64,
    /// Sign with this private key (PEM) in place of the first of hs256_secrets.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// What the token's head names as its key.
    #[arg(long, value_name = "KID", requires = "key")]
    kid: Option<String>,
}

/// Which token.
#[derive(Args, Debug)]
pub struct CheckToken {
    /// The token; without it, it is read from standard input, where no history keeps it.
    token: Option<String>,
}

/// A token signed by what the configuration has. The error says what is missing.
pub fn new(config: &Config, options: &NewToken) -> Result<String, String> {
    let tokens = &config.auth.tokens;
    let minter = match (&options.key, tokens.hs256_secrets.first()) {
        (Some(path), _) => {
            let pem = std::fs::read(path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
            Minter::private_pem(&pem).map_err(|why| format!("{} {why}", path.display()))?
        }
        (None, Some(secret)) => Minter::secret(secret.expose()),
        (None, None) => {
            return Err(
                "there is nothing to sign with: set [auth.tokens] hs256_secrets, or give --key with the \
                        private half of a public key"
                    .to_owned(),
            );
        }
    };
    let now = Millis::now().0 / 1_000;
    let mut claims = json!({"sub": options.sub, "feeds": options.feeds, "may": options.may, "iat": now,
        "exp": now + options.minutes * 60});
    for (name, value) in [("iss", &tokens.issuer), ("aud", &tokens.audience)] {
        if !value.is_empty() {
            claims[name] = value.as_str().into();
        }
    }
    minter.sign(&claims, options.kid.as_deref())
}

/// What a server with this configuration thinks of a token: who it is, or why it is refused. Fetches the key set if
/// there is one.
///
/// Boxed in this crate, so that the program that awaits it need not compile it.
pub fn check<'a>(
    config: &'a Config,
    options: &'a CheckToken,
) -> Pin<Box<dyn Future<Output = Result<String, String>> + 'a>> {
    Box::pin(judge(config, options))
}

async fn judge(config: &Config, options: &CheckToken) -> Result<String, String> {
    let token = match &options.token {
        Some(token) => token.clone(),
        None => std::io::read_to_string(std::io::stdin()).map_err(|e| e.to_string())?,
    };
    let rules =
        rules(config).and_then(|rules| fetching(rules, &config.auth.tokens, &mut None, &Arc::default()));
    let verifier = rules.map_err(|why| why.to_string())?.tokens;
    let judge = async {
        loop {
            match verifier.check(token.trim(), Millis::now()) {
                Err(BadToken::KeysUnavailable(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
                judged => return judged,
            }
        }
    };
    let judged = tokio::time::timeout(KEYS_WITHIN, judge).await;
    match judged.unwrap_or(Err(BadToken::KeysUnavailable(1))) {
        Ok(viewer) => Ok(describe(&viewer)),
        Err(bad) => Err(format!("this token is refused: {}", bad.detail())),
    }
}

fn describe(viewer: &Viewer) -> String {
    let Viewer { sub, feeds, may_watch, may_hold, issued_at, ends_at } = viewer;
    let may = match (may_watch, may_hold) {
        (_, true) => "watch and hold",
        (true, false) => "watch",
        (false, false) => "nothing",
    };
    format!(
        "the token is good\n  sub    {}\n  feeds  {feeds}\n  may    {may}\n  iat    {issued_at}\n  exp    {ends_at}\n",
        sub.as_deref().unwrap_or("(nobody in particular)")
    )
}
