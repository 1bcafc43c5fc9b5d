//! Where heads and bodies begin and end in the bytes of an HTTP/1.1 connection, seen from beside: the server
//! reads the same bytes by itself. Knowing it lets every request have its time-outs, gives the server one request
//! at a time, and refuses heads whose lines end in a bare LF, which proxies and servers read differently (RFC 9112,
//! 2.2 and 11.2). Chunks are read as strictly as the server reads them: what it alone refused behind a head that came in
//! the same bytes, it would not answer.

use memchr::{memchr, memchr2};

/// More of one line than the server takes for a whole head.
const LINE_MOST: usize = 160 << 10;

/// Chunks that a body may have however small they are; and bytes that each further one must have, on the average: the server keeps a
/// place for each that it has not read.
const CHUNKS_FREE: u64 = 512;
const CHUNK_LEAST: u64 = 16;

/// Where in the stream of requests a connection is.
#[derive(Debug, Default)]
pub(in crate::http) struct Framing {
    place: Where,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    head: FramedHead,
    /// Heads that were complete so far.
    heads: u32,
    /// Chunks of the body that is coming, and their bytes.
    chunks: (u64, u64),
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Between requests, or in a head.
    #[default]
    Head,
    /// In a body with this number of bytes left.
    Body(u64),
    /// Before or in the line that says how long the next chunk is.
    ChunkSize,
    /// In a chunk with this number of bytes left.
    Chunk(u64),
    /// Before or in the line end behind a chunk.
    ChunkEnd,
    /// After the last chunk.
    Trailers,
    /// What follows is not HTTP, unless the connection goes on with another request.
    Opaque,
}

/// What a head says of what follows it.
#[derive(Debug, Default)]
struct FramedHead {
    lines: u32,
    length: u64,
    chunked: bool,
    opaque: bool,
}

/// What must not be read as HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http) struct Malformed;

impl Framing {
    /// Takes the next bytes of the connection, up to the end of the request that they belong to: the first bytes of
    /// the next request are taken only when as many requests were `answered` as heads came. Returns how many bytes
    /// were taken.
    pub fn scan(&mut self, all: &[u8], answered: u32) -> Result<usize, Malformed> {
        let mut bytes = all;
        while !bytes.is_empty() {
            if self.is_between_requests() && self.heads != answered {
                break;
            }
            match &mut self.place {
                Where::Opaque => return Ok(all.len()),
                Where::Body(left) | Where::Chunk(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &bytes[taken..];
                    *left -= taken as u64;
                    if *left == 0 {
                        let chunk = matches!(self.place, Where::Chunk(_));
                        self.place = if chunk { Where::ChunkEnd } else { Where::Head };
                    }
                }
                Where::Head | Where::ChunkSize | Where::ChunkEnd | Where::Trailers => {
                    let Some(end) = memchr(b'\n', bytes) else {
                        self.line.extend_from_slice(bytes);
                        return if self.line.len() > LINE_MOST { Err(Malformed) } else { Ok(all.len()) };
                    };
                    let (line, rest) = bytes.split_at(end + 1);
                    bytes = rest;
                    if self.line.is_empty() {
                        self.end_line(line)?;
                    } else {
                        let mut whole = std::mem::take(&mut self.line);
                        whole.extend_from_slice(line);
                        self.end_line(&whole)?;
                    }
                }
            }
        }
        Ok(all.len() - bytes.len())
    }

    fn is_between_requests(&self) -> bool {
        self.place == Where::Head && self.head.lines == 0 && self.line.is_empty()
    }

    fn end_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let line = line.strip_suffix(b"\r\n").ok_or(Malformed)?;
        match self.place {
            Where::ChunkSize => {
                self.place = match chunk_size(line)? {
                    0 => Where::Trailers,
                    size => {
                        let (chunks, bytes) = &mut self.chunks;
                        (*chunks, *bytes) = (*chunks + 1, bytes.saturating_add(size));
                        if *chunks > CHUNKS_FREE + *bytes / CHUNK_LEAST {
                            return Err(Malformed);
                        }
                        Where::Chunk(size)
                    }
                };
            }
            Where::ChunkEnd if line.is_empty() => self.place = Where::ChunkSize,
            Where::ChunkEnd => return Err(Malformed),
            Where::Trailers if line.is_empty() => self.place = Where::Head,
            Where::Trailers => {}
            // Empty lines before a request are skipped by everybody.
            _ if line.is_empty() && self.head.lines == 0 => {}
            _ if line.is_empty() => {
                let head = std::mem::take(&mut self.head);
                self.heads = self.heads.wrapping_add(1);
                self.chunks = (0, 0);
                self.place = match head {
                    FramedHead { chunked: true, .. } => Where::ChunkSize,
                    FramedHead { opaque: true, .. } => Where::Opaque,
                    FramedHead { length: 0, .. } => Where::Head,
                    FramedHead { length, .. } => Where::Body(length),
                };
            }
            _ => self.head.note(line),
        }
        Ok(())
    }

    /// Heads that were complete so far; wraps around.
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Whether a head has begun and not ended.
    pub fn in_head(&self) -> bool {
        self.place == Where::Head && !self.is_between_requests()
    }

    /// Whether a body has not come whole yet.
    pub fn in_body(&self) -> bool {
        !matches!(self.place, Where::Head | Where::Opaque)
    }

    /// The server goes on with another request, so what came was HTTP after all.
    pub fn answered(&mut self) {
        if self.place == Where::Opaque {
            self.place = Where::Head;
        }
    }
}

/// `1*HEXDIG`, then white space, and perhaps an extension behind a `;`.
fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let (size, extension) = line.split_at(memchr(b';', line).unwrap_or(line.len()));
    let digits = size.trim_ascii_end();
    // A sign or a space before the number is one to a parser of numbers only.
    if !digits.iter().all(u8::is_ascii_hexdigit) || memchr2(b'\r', 0, extension).is_some() {
        return Err(Malformed);
    }
    let size = std::str::from_utf8(digits).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
    size.ok_or(Malformed)
}

impl FramedHead {
    /// Reads what the server reads, which refuses two lengths, a length beside chunks, and other codings.
    fn note(&mut self, line: &[u8]) {
        self.lines += 1;
        if self.lines == 1 {
            self.opaque = line.starts_with(b"CONNECT ");
            return;
        }
        let Some(colon) = memchr(b':', line) else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|length| length.parse().ok());
            self.length = length.unwrap_or(0);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked |= value.eq_ignore_ascii_case(b"chunked");
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.opaque |= value.eq_ignore_ascii_case(b"websocket");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REQUESTS: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /x HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 7\r\n\r\n{\n1\n\n2}\
        \r\nPUT /y HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\na\n\n\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n\
        GET /z HTTP/1.1\r\n";

    proptest! {
        #[test]
        fn heads_and_bodies_are_told_apart_however_the_bytes_come(
            cuts in prop::collection::vec(0..REQUESTS.len(), 0..12),
        ) {
            let mut cuts = cuts;
            cuts.extend([0, REQUESTS.len()]);
            cuts.sort();
            let mut framing = Framing::default();
            for piece in cuts.windows(2) {
                scan_all(&mut framing, &REQUESTS.as_bytes()[piece[0]..piece[1]]).unwrap();
            }
            prop_assert_eq!((framing.heads(), framing.in_head(), framing.in_body()), (3, true, false));
        }

        #[test]
        fn the_next_request_is_not_taken_before_the_one_before_is_answered_however_the_bytes_come(
            cuts in prop::collection::vec(0..REQUESTS.len(), 0..12),
        ) {
            let ends: Vec<usize> = ["\r\n\r\nPOST", "}\r\nPUT", "\r\n\r\nGET /z"]
                .iter()
                .zip([4, 1, 4])
                .map(|(end, more)| REQUESTS.find(end).unwrap() + more)
                .collect();
            let (mut framing, mut taken, mut answered) = (Framing::default(), 0, 0);
            let mut cuts = cuts;
            cuts.push(REQUESTS.len());
            cuts.sort();
            for cut in cuts {
                while taken < cut {
                    let more = framing.scan(&REQUESTS.as_bytes()[taken..cut], answered).unwrap();
                    taken += more;
                    prop_assert!(ends.get(answered as usize).is_none_or(|end| taken <= *end));
                    if more == 0 {
                        prop_assert_eq!(taken, ends[answered as usize]);
                        answered += 1;
                    }
                }
            }
        }
    }

    /// Takes everything, as if each request were answered as soon as its head has come.
    fn scan_all(framing: &mut Framing, mut bytes: &[u8]) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            let taken = framing.scan(bytes, framing.heads())?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    #[test]
    fn a_bare_line_feed_in_any_head_is_malformed_and_in_a_body_it_is_not() {
        let all = |text: &str| scan_all(&mut Framing::default(), text.as_bytes());
        for bad in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "\nGET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\n\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nxGET / HTTP/1.1\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
        ] {
            assert_eq!(all(bad), Err(Malformed), "{bad:?}");
        }
        assert_eq!(all("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n\n\n\n"), Ok(()));
    }

    #[test]
    fn a_chunk_that_is_not_spelled_as_the_standard_has_it_is_malformed() {
        let all = |chunks: &str| {
            let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
            scan_all(&mut Framing::default(), format!("{head}{chunks}\r\n0\r\n\r\n").as_bytes())
        };
        for good in ["3\r\nabc", "3 \t\r\nabc", "003;a=\"b\"\r\nabc", "1\r\n\n\r\nA\r\n0123456789"] {
            assert_eq!(all(good), Ok(()), "{good:?}");
        }
        for bad in [
            "+3\r\nabc",
            "-3\r\nabc",
            " 3\r\nabc",
            "0x3\r\nabc",
            "3_0\r\nabc",
            "\r\nabc",
            ";a\r\nabc",
            "3;a=\rb\r\nabc",
            "3\r\nabcd",
            "2\r\nabc",
            "3\r\nabc\r\n+1f\r\nx",
            "fffffffffffffffff\r\nabc",
        ] {
            assert_eq!(all(bad), Err(Malformed), "{bad:?}");
        }
    }

    #[test]
    fn a_body_that_has_not_come_whole_is_open_and_so_are_chunks_without_end() {
        let mut framing = Framing::default();
        scan_all(&mut framing, b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab").unwrap();
        assert!(framing.in_body() && framing.heads() == 1);
        scan_all(&mut framing, b"c").unwrap();
        assert!(!framing.in_body() && !framing.in_head());
        scan_all(&mut framing, b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n").unwrap();
        assert!(framing.in_body() && framing.heads() == 2);
        scan_all(&mut framing, b"0\r\n\r\n").unwrap();
        assert!(!framing.in_body());
    }

    #[test]
    fn after_a_handshake_anything_may_come_unless_the_server_goes_on() {
        let mut framing = Framing::default();
        scan_all(&mut framing, b"GET / HTTP/1.1\r\nUpgrade: WebSocket\r\n\r\n\x81\n\n").unwrap();
        assert!(!framing.in_head() && !framing.in_body());
        framing.answered();
        assert_eq!(scan_all(&mut framing, b"GET / HTTP/1.1\n"), Err(Malformed));
    }

    #[test]
    fn a_body_in_countless_tiny_chunks_is_not_read() {
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let of = |size: usize, chunks: usize| {
            let chunk = format!("{size:x}\r\n{}\r\n", "x".repeat(size));
            Framing::default().scan(format!("{head}{}0\r\n\r\n", chunk.repeat(chunks)).as_bytes(), 0)
        };
        assert!(of(1, 500).is_ok() && of(16, 5_000).is_ok());
        assert_eq!((of(1, 600), of(8, 5_000)), (Err(Malformed), Err(Malformed)));
    }
}
