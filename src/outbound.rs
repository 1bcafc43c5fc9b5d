//! HTTP clients for the way out: webhooks, and the tools that call a gateway. http and https, trusting the certificates that the
//! system trusts, never through a proxy that the environment names, and following no redirect.

use std::error::Error;
use std::sync::Arc;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

/// A client as `configure` makes it. On a machine without certificates of authorities (no `ca-certificates`)
/// everything but https works, and the log says so.
pub fn client(configure: impl Fn(ClientBuilder) -> ClientBuilder) -> Result<Client, reqwest::Error> {
    // Somebody may have done so before, with the same.
    let _ = ring::default_provider().install_default();
    // The operator chooses which hosts are called; an answer must not choose another.
    let plain = || configure(Client::builder().no_proxy().redirect(Policy::none()));
    plain().build().or_else(|error| {
        let Ok(nobody) = trusting_nobody() else { return Err(error) };
        let made = plain().tls_backend_preconfigured(nobody).build()?;
        tracing::warn!("this machine trusts no authority, so https is not sent to; install ca-certificates");
        Ok(made)
    })
}

fn trusting_nobody() -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// The innermost cause of a failed call: "Connection refused" says more than "error sending request", and the outer
/// errors name the URL, which may hold a token.
pub fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Whether `ip` is an address of this machine: one that a socket of ours can have.
pub fn is_own(ip: std::net::IpAddr) -> bool {
    std::net::UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_made_that_trusts_nobody() {
        let _ = ring::default_provider().install_default();
        let nobody = trusting_nobody().unwrap();
        assert!(Client::builder().no_proxy().tls_backend_preconfigured(nobody).build().is_ok());
        assert!(client(|builder| builder).is_ok());
    }
}
