//! TLS to Redis: trusted certificates, and our own.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::engine::protocol::options::StoreOptions;

/// The configuration of every connection over TLS. Without a `ca_file` the system's certificates are trusted.
pub fn client_config(options: &StoreOptions) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match &options.ca_file {
        Some(file) => {
            for certificate in certificates(file, "[redis] ca_file")? {
                roots.add(certificate).map_err(|e| unreadable("[redis] ca_file", file, &e.to_string()))?;
            }
        }
        None => {
            for certificate in rustls_native_certs::load_native_certs().certs {
                // What the system trusts and rustls cannot read is left out, as browsers do.
                let _ = roots.add(certificate);
            }
            if roots.is_empty() {
                return Err(
                    "the system trusts no certificates; name those of your Redis in [redis] ca_file".into()
                );
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots);
    let config = match (&options.client_cert, &options.client_key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(chain), Some(key_file)) => {
            let chain = certificates(chain, "[redis] client_cert")?;
            let key = PrivateKeyDer::from_pem_file(key_file)
                .map_err(|e| unreadable("[redis] client_key", key_file, &e.to_string()))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| format!("[redis] client_cert and client_key do not go together: {e}"))?
        }
        _ => return Err("[redis] client_cert and client_key belong together: set both, or none".into()),
    };
    Ok(Arc::new(config))
}

fn certificates(file: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = |e: rustls::pki_types::pem::Error| unreadable(what, file, &e.to_string());
    let found: Vec<_> =
        CertificateDer::pem_file_iter(file).map_err(read)?.collect::<Result<_, _>>().map_err(read)?;
    match found.is_empty() {
        true => Err(unreadable(what, file, "it holds no certificate")),
        false => Ok(found),
    }
}

fn unreadable(what: &str, file: &Path, why: &str) -> String {
    format!("{what} {} cannot be read: {why}", file.display())
}
