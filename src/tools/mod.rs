//! Clients of a running gateway that ship with it. They see of Tipcast what any producer sees:
//! its HTTP API, and the words of [`crate::domain`].

pub mod bench;
pub mod demo;
pub mod healthcheck;

/// A client for these tools, http and https. The address given is the gateway itself: no proxies.
fn client() -> reqwest::ClientBuilder {
    // Somebody may have done so before, with the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}
