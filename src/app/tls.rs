//! The certificate that https and wss are served with, read again when the configuration is.

use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::config::{Config, ConfigError};

/// The certificate in force.
#[derive(Debug)]
pub(super) struct Certificate {
    current: ArcSwap<CertifiedKey>,
}

impl Certificate {
    /// What `[http] tls_cert` and `tls_key` name; `None` if neither is set.
    pub fn open(config: &Config) -> Result<Option<Arc<Certificate>>, ConfigError> {
        let key = read(config)?;
        Ok(key.map(|key| Arc::new(Certificate { current: ArcSwap::from_pointee(key) })))
    }

    /// Reads the files again. On an error the certificate in force stays.
    pub fn renew(&self, config: &Config) -> Result<(), ConfigError> {
        if let Some(key) = read(config)? {
            self.current.store(Arc::new(key));
        }
        Ok(())
    }

    /// What the server negotiates with.
    pub fn server_config(self: &Arc<Self>) -> Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        // HTTP/2 is left to proxies in front: actix' server for it cannot bound streams and header lists.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Who comes back shows a ticket that only this process can read, so nothing is kept per client. One is
        // enough: each connection gets a new one.
        config.ticketer = ring::Ticketer::new()?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 1;
        Ok(config)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// The key and chain of a configuration; `None` without TLS.
pub(super) fn read(config: &Config) -> Result<Option<CertifiedKey>, ConfigError> {
    let (cert, key) = (&config.http.tls_cert, &config.http.tls_key);
    let wrong = |what: &str| ConfigError(format!("[http] {what}"));
    if cert.is_empty() && key.is_empty() {
        return Ok(None);
    }
    if cert.is_empty() || key.is_empty() {
        return Err(wrong("tls_cert and tls_key belong together: set both files, or neither for no TLS"));
    }
    let open = |path: &String, name: &str| {
        let file = File::open(path).map_err(|error| {
            wrong(&format!(
                "{name}: {path:?} cannot be read ({error}); name a PEM file that this user may read"
            ))
        })?;
        Ok::<_, ConfigError>(BufReader::new(file))
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_reader_iter(open(cert, "tls_cert")?)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&format!("tls_cert: {cert:?} is no PEM file of certificates ({error})")))?;
    if chain.is_empty() {
        return Err(wrong(&format!(
            "tls_cert: there is no certificate in {cert:?}; name the chain's PEM file"
        )));
    }
    let secret = PrivateKeyDer::from_pem_reader(open(key, "tls_key")?)
        .map_err(|error| wrong(&format!("tls_key: there is no PEM private key in {key:?} ({error})")))?;
    let made = CertifiedKey::from_der(chain, secret, &ring::default_provider());
    let made = made.map_err(|error| {
        wrong(&format!("tls_key: the key in {key:?} does not fit the certificate in {cert:?} ({error})"))
    })?;
    Ok(Some(made))
}
