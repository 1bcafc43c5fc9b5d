//! `tipcast healthcheck`: asks a gateway whether it lives, for container engines whose images have no
//! other program that could.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use clap::Args;

use super::unreachable_gateway;
use crate::outbound::root_cause;

/// Longer than a busy gateway takes, shorter than a supervisor waits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Which gateway, and what to ask it.
#[derive(Args, Debug)]
pub struct HealthcheckOptions {
    /// What to ask; /readyz in place of /healthz also asks the store behind. Without it, the gateway that this
    /// machine's configuration describes, over TLS if that has a certificate.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// The configuration file of that gateway; environment variables count as well.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Well when the answer is a 2xx; otherwise says what is wrong.
///
/// `own` is the URL of this machine's gateway: it is asked although its certificate has another name, as the address is
/// loopback's.
///
/// Boxed in this crate, so that the program that awaits it need not compile it.
pub fn run(options: HealthcheckOptions, own: String) -> Pin<Box<dyn Future<Output = Result<(), String>>>> {
    Box::pin(ask(options, own))
}

async fn ask(options: HealthcheckOptions, own: String) -> Result<(), String> {
    let is_own = options.url.is_none();
    let url = options.url.unwrap_or(own);
    let client = crate::outbound::client(|builder| {
        builder.timeout(ANSWER_TIMEOUT).tls_danger_accept_invalid_certs(is_own)
    });
    let asked = client.map_err(|e| e.to_string())?.get(&url).send().await;
    let answer = asked
        .map_err(|e| format!("{url} does not answer. {}", unreachable_gateway(&url, &root_cause(&e))))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let said = answer.text().await.unwrap_or_default();
    Err(format!("{url} says {status}: {}", said.chars().take(500).collect::<String>()))
}
