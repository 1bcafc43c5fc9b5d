//! `tipcast healthcheck`: asks a gateway whether it lives, for container engines whose images have no
//! other program that could.

use std::time::Duration;

use clap::Args;

/// Longer than a busy gateway takes, shorter than a supervisor waits.
const WITHIN: Duration = Duration::from_secs(3);

/// Which gateway, and what to ask it.
#[derive(Args, Debug)]
pub struct HealthcheckOptions {
    /// What to ask; /readyz in place of /healthz also asks the store behind.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080/healthz")]
    url: String,
}

/// Well when the answer is a 2xx; otherwise says what is wrong.
pub async fn run(options: HealthcheckOptions) -> Result<(), String> {
    let HealthcheckOptions { url } = options;
    let client = crate::outbound::client(|builder| builder.timeout(WITHIN));
    let asked = client.map_err(|e| e.to_string())?.get(&url).send().await;
    let answer = asked.map_err(|e| format!("{url} does not answer: {e}"))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let said = answer.text().await.unwrap_or_default();
    Err(format!("{url} says {status}: {}", said.chars().take(500).collect::<String>()))
}
