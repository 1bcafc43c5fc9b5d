//! A socket of the load, encrypted or not.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, NamedGroup, RootCertStore};

use crate::BenchError;

/// How connections are encrypted. Clones share their tickets.
#[derive(Clone, Debug)]
pub struct Encryption {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Encryption {
    /// With a server known as `host`, which shows a certificate that those in the PEM file `trusted` vouch for.
    /// `resume`: connections resume sessions of earlier ones.
    pub(crate) fn new(host: &str, trusted: &Path, resume: bool) -> Result<Encryption, BenchError> {
        let wrong = |why: &dyn fmt::Display| BenchError::Usage(format!("--ca {}: {why}", trusted.display()));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(trusted).map_err(|error| wrong(&error))? {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            roots.add(certificate).map_err(|error| wrong(&error))?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = match resume {
            true => Resumption::store(Arc::new(Tickets::default())),
            false => Resumption::disabled(),
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| wrong(&error))?;
        Ok(Encryption { config: Arc::new(config), name })
    }
}

/// Tickets that nobody showed yet, of all connections: each is shown once, and each connection is given another. So as
/// many connections as are made at the same time begin with a full handshake.
#[derive(Debug, Default)]
struct Tickets(Mutex<Vec<Tls13ClientSessionValue>>);

impl Tickets {
    fn all(&self) -> MutexGuard<'_, Vec<Tls13ClientSessionValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.all().push(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.all().pop()
    }
}

/// A socket, blocking or not, over which bytes go as they are or encrypted.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    pub socket: S,
    tls: Option<Box<ClientConnection>>,
}

impl<S> Wire<S> {
    /// Over `socket`, whose handshake is done on the way.
    pub fn new(socket: S, encryption: Option<&Encryption>) -> io::Result<Wire<S>> {
        let connection = |it: &Encryption| {
            let connection = ClientConnection::new(it.config.clone(), it.name.clone());
            let mut connection = connection.map_err(io::Error::other)?;
            connection.set_buffer_limit(None);
            io::Result::Ok(Box::new(connection))
        };
        Ok(Wire { socket, tls: encryption.map(connection).transpose()? })
    }

    /// Whether a read that gave less than there was room for says that nothing more is there.
    pub fn reads_all(&self) -> bool {
        self.tls.is_none()
    }
}

impl<S: Read + Write> Read for Wire<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Wire { socket, tls: Some(tls) } = self else { return self.socket.read(buffer) };
        send(tls, socket)?;
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            if tls.read_tls(socket)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
            send(tls, socket)?;
        }
    }
}

impl<S: Read + Write> Write for Wire<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Wire { socket, tls: Some(tls) } = self else { return self.socket.write(bytes) };
        while tls.wants_write() {
            tls.write_tls(socket)?;
        }
        let taken = tls.writer().write(bytes)?;
        send(tls, socket)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Sends what waits, as far as the socket takes it.
fn send(tls: &mut ClientConnection, socket: &mut impl Write) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            sent => sent?,
        };
    }
    Ok(())
}
