//! A plain HTTP/1.1 client for what happens before and after the load: one request at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::BenchError;
use crate::dialect::http_answer;
use crate::options::Target;
use crate::wire::Wire;

/// Above the 5 s after which a gateway that lost its store says so.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);

/// Answers are lists of at most 100 rows and problems.
const ANSWER_MOST: usize = 4 << 20;

/// One connection, opened again when the server closed it.
#[derive(Debug)]
pub(crate) struct Control {
    target: Target,
    /// The `Host`, and the key's header if there is one; ends with a line break.
    head: String,
    socket: Option<Wire<TcpStream>>,
}

impl Control {
    pub fn new(target: Target, head: String) -> Control {
        Control { target, head, socket: None }
    }

    /// Status and body.
    pub fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, Vec<u8>), BenchError> {
        // The server may have closed an idle connection: one more try, on a new one.
        match self.socket.take() {
            Some(socket) => self.on(socket, method, path, body).or_else(|_| self.fresh(method, path, body)),
            None => self.fresh(method, path, body),
        }
        .map_err(|e| BenchError::Server(format!("{method} {}{path}: {e}", self.target.address)))
    }

    fn fresh(&mut self, method: &str, path: &str, body: &str) -> std::io::Result<(u16, Vec<u8>)> {
        let socket = TcpStream::connect_timeout(&self.target.address, ANSWER_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        socket.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        self.on(Wire::new(socket, self.target.encryption.as_ref())?, method, path, body)
    }

    fn on(
        &mut self,
        mut socket: Wire<TcpStream>,
        method: &str,
        path: &str,
        body: &str,
    ) -> std::io::Result<(u16, Vec<u8>)> {
        let Control { head, .. } = self;
        let length = body.len();
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let request =
            format!("{method} {path} HTTP/1.1\r\n{head}{kind}content-length: {length}\r\n\r\n{body}");
        socket.write_all(request.as_bytes())?;
        let (mut bytes, mut part) = (Vec::new(), [0; 16 * 1024]);
        loop {
            if let Some((status, from, to)) = http_answer(&bytes) {
                self.socket = Some(socket);
                return Ok((status, bytes[from..to].to_vec()));
            }
            match socket.read(&mut part)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                n if bytes.len() + n > ANSWER_MOST => return Err(std::io::Error::other("a huge answer")),
                n => bytes.extend_from_slice(&part[..n]),
            }
        }
    }
}
