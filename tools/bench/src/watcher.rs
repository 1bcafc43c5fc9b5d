//! One watcher: a socket, a place in its feed, and as little else as can be.

use std::io::{self, Read, Write};

use memchr::{memchr_iter, memmem};
use mio::net::TcpStream;

use crate::dialect::{Dialect, Greeting, MARK, MARK_DIGITS, Meaning, START, Sample, digits};
use crate::ledger::{FramePosition, Ledger};
use crate::wire::Wire;

/// Room in front of what is read, for what the last read left over.
pub(crate) const HEADROOM: usize = 4096;

/// The longest header of a frame from a server.
const HEADER_MOST: usize = 10;

/// How far a watcher has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The request could not be sent yet.
    Connecting,
    /// Waits for the answer to its handshake.
    Shaking,
    /// What its dialect says before it is ready, and how often the load has spoken.
    Greeting(u8),
    /// Gets everything.
    Live,
    /// Gone.
    Closed,
}

/// The frame under way.
#[derive(Debug)]
struct Frame {
    left: u64,
    kind: Kind,
    marks: u64,
    /// All ops of it were seen by some watcher before: marks need not be read.
    known: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Changes { first: u64, last: u64 },
    Messages,
    Other,
}

/// One watcher and its socket.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub socket: Option<Wire<TcpStream>>,
    pub feed: u32,
    pub stage: Stage,
    /// Is not read from, and its times don't count.
    pub stalled: bool,
    pub place: FramePosition,
    /// Comes while gifts flow: of a server that does not number, nobody can say which messages it is owed.
    pub late: bool,
    frame: Option<Frame>,
    /// What the last read left over: less than the start of a frame, or less than a mark.
    carry: Option<Box<[u8]>>,
    sample: Option<Box<Examined>>,
}

/// A watcher whose frames are read in full.
#[derive(Debug, Default)]
struct Examined {
    text: Vec<u8>,
    sample: Sample,
}

/// Why a watcher ended.
pub(crate) type Ended = String;

impl Watcher {
    pub fn new(feed: u32, stalled: bool) -> Watcher {
        Watcher {
            socket: None,
            feed,
            stage: Stage::Connecting,
            stalled,
            place: FramePosition::default(),
            late: false,
            frame: None,
            carry: None,
            sample: None,
        }
    }

    /// Reads its frames in full from now on.
    pub fn examine(&mut self) {
        self.sample = Some(Box::default());
    }

    /// What it has, if it is sampled.
    pub fn sample(&self) -> Option<&Sample> {
        self.sample.as_ref().map(|examined| &examined.sample)
    }

    /// Sends the handshake's request if the connection stands. False: not yet.
    pub fn shake(&mut self, dialect: &dyn Dialect, scratch: &mut Vec<u8>) -> Result<bool, Ended> {
        scratch.clear();
        dialect.watch(self.feed as usize, scratch);
        let Some(socket) = &mut self.socket else { return Ok(false) };
        match socket.write(scratch) {
            Ok(n) if n == scratch.len() => {
                self.stage = Stage::Shaking;
                Ok(true)
            }
            Ok(_) => Err("the handshake's request did not fit into the socket".into()),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => {
                Ok(false)
            }
            Err(e) => Err(e.to_string()),
        }
    }

    /// Reads what is there into `buffer`, after its headroom. `now` is asked after each read.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        closed: bool,
        dialect: &dyn Dialect,
        ledger: &mut Ledger,
        now: &dyn Fn() -> u64,
    ) -> Result<(), Ended> {
        loop {
            let Some(socket) = &mut self.socket else { return Ok(()) };
            let room = buffer.len() - HEADROOM;
            let n = match socket.read(&mut buffer[HEADROOM..]) {
                Ok(0) => return Err("the server closed the connection".into()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e.to_string()),
            };
            let reads_all = socket.reads_all();
            ledger.counts.bytes += n as u64;
            let mut from = HEADROOM;
            if let Some(carry) = self.carry.take() {
                from -= carry.len();
                buffer[from..HEADROOM].copy_from_slice(&carry);
            }
            let bytes = &buffer[from..HEADROOM + n];
            let used = self.take(bytes, dialect, ledger, now())?;
            let rest = &bytes[used..];
            if rest.len() > HEADROOM {
                return Err("the answer to the handshake has no end".into());
            }
            if !rest.is_empty() {
                self.carry = Some(rest.into());
            }
            // Less than there was room for: the socket is empty, and epoll reports when it is not.
            if n < room && !closed && reads_all {
                return Ok(());
            }
        }
    }

    /// Takes what is whole; gives how much that was.
    fn take(
        &mut self,
        bytes: &[u8],
        dialect: &dyn Dialect,
        ledger: &mut Ledger,
        now: u64,
    ) -> Result<usize, Ended> {
        let mut at = 0;
        if self.stage == Stage::Shaking {
            let Some(end) = memmem::find(bytes, b"\r\n\r\n") else { return Ok(0) };
            if !bytes.starts_with(b"HTTP/1.1 101") {
                let head = String::from_utf8_lossy(&bytes[..end.min(200)]);
                return Err(format!("refused: {}", head.lines().next().unwrap_or_default()));
            }
            at = end + 4;
            self.stage = Stage::Greeting(0);
            self.greet(None, dialect)?;
        }
        loop {
            let rest = &bytes[at..];
            match &mut self.frame {
                None => {
                    let Some((header, length, first)) = header(rest) else { return Ok(at) };
                    let shown = usize::try_from(length).unwrap_or(START).min(START);
                    let Some(start) = rest.get(header..header + shown) else { return Ok(at) };
                    let kind = self.begin(first, start, dialect, ledger)?;
                    let known = match kind {
                        Kind::Changes { last, .. } => last <= ledger.feeds[self.feed as usize].known(),
                        _ => true,
                    };
                    self.frame = Some(Frame { left: length, kind, marks: 0, known });
                    at += header;
                }
                Some(frame) => {
                    let piece = usize::try_from(frame.left).unwrap_or(rest.len()).min(rest.len());
                    let last = piece as u64 == frame.left;
                    let used = self.scan(&rest[..piece], last, ledger, now);
                    at += used;
                    if used < piece {
                        return Ok(at);
                    }
                    if !last {
                        return Ok(at);
                    }
                    self.end(dialect, ledger, now);
                }
            }
        }
    }

    /// What a frame is by its first byte and the start of its payload.
    fn begin(
        &mut self,
        first: u8,
        start: &[u8],
        dialect: &dyn Dialect,
        ledger: &mut Ledger,
    ) -> Result<Kind, Ended> {
        match first & 0x0f {
            8 => {
                let code = start.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
                let reason = String::from_utf8_lossy(start.get(2..).unwrap_or_default());
                return Err(format!("the server closed: {code} {reason}"));
            }
            9 => {
                self.send(0x8a, start)?;
                return Ok(Kind::Other);
            }
            10 => return Ok(Kind::Other),
            _ => ledger.counts.frames += 1,
        }
        let meaning = dialect.judge(start);
        if let Stage::Greeting(_) = self.stage {
            self.greet(Some(start), dialect)?;
            if let Meaning::List(seq) = meaning {
                self.place = FramePosition::at(seq);
                return Ok(Kind::Other);
            }
        }
        let feed = &mut ledger.feeds[self.feed as usize];
        Ok(match meaning {
            Meaning::Changes(first, last) => Kind::Changes { first, last },
            Meaning::Messages => Kind::Messages,
            Meaning::Nothing => Kind::Other,
            Meaning::Reply(text) => {
                self.send(0x81, text)?;
                // The question may have come with messages.
                Kind::Messages
            }
            Meaning::Over(why) => return Err(why),
            Meaning::List(seq) => {
                let from = self.place.seq;
                if self.place.skip_to(seq, &mut ledger.counts) && !self.stalled {
                    feed.fold(from + 1, seq, &mut ledger.times);
                }
                Kind::Other
            }
        })
    }

    fn greet(&mut self, frame: Option<&[u8]>, dialect: &dyn Dialect) -> Result<(), Ended> {
        let Stage::Greeting(step) = self.stage else { return Ok(()) };
        match dialect.greet(self.feed as usize, step, frame) {
            Greeting::Ready => self.stage = Stage::Live,
            Greeting::Wait => {}
            Greeting::Send(opcode, payload) => {
                self.stage = Stage::Greeting(step + 1);
                self.send(0x80 | opcode, &payload)?;
            }
        }
        Ok(())
    }

    /// Counts the marks of a piece, and reads them where nobody has yet. Gives how much it used: all,
    /// unless a mark is cut.
    fn scan(&mut self, piece: &[u8], last: bool, ledger: &mut Ledger, now: u64) -> usize {
        let Some(frame) = &mut self.frame else { return 0 };
        let mut used = piece.len();
        match frame.kind {
            Kind::Other => {}
            Kind::Changes { .. } if frame.known => frame.marks += memchr_iter(MARK, piece).count() as u64,
            Kind::Changes { .. } | Kind::Messages => {
                for at in memchr_iter(MARK, piece) {
                    let Some(text) = piece.get(at + 1..at + 1 + MARK_DIGITS) else {
                        if last {
                            ledger.counts.malformed += 1;
                        } else {
                            used = at;
                        }
                        break;
                    };
                    let (mark, feed) = (digits(text).unwrap_or(0), &mut ledger.feeds[self.feed as usize]);
                    if let Kind::Changes { first, .. } = frame.kind {
                        feed.know(first + frame.marks, mark);
                    } else if let Some(seq) = feed.number(mark) {
                        if self.late {
                            ledger.counts.received += 1;
                        } else {
                            self.place.take(seq, seq, &mut ledger.counts);
                        }
                        if !self.stalled {
                            feed.arrive(seq, seq, now, &mut ledger.times);
                        }
                    } else {
                        ledger.counts.malformed += 1;
                    }
                    frame.marks += 1;
                }
            }
        }
        if let Some(examined) = &mut self.sample {
            examined.text.extend_from_slice(&piece[..used]);
        }
        frame.left -= used as u64;
        used
    }

    fn end(&mut self, dialect: &dyn Dialect, ledger: &mut Ledger, now: u64) {
        let Some(frame) = self.frame.take() else { return };
        if let Kind::Changes { first, last } = frame.kind {
            if last < first || frame.marks != last - first + 1 {
                ledger.counts.malformed += 1;
            }
            self.place.take(first, last, &mut ledger.counts);
            if !self.stalled {
                ledger.feeds[self.feed as usize].arrive(first, last, now, &mut ledger.times);
            }
        }
        if let Some(examined) = &mut self.sample {
            let wrong = dialect.examine(&mut examined.sample, &examined.text);
            examined.text.clear();
            if let Some(wrong) = wrong {
                ledger.counts.malformed += 1;
                ledger.say(wrong);
            }
        }
    }

    /// A frame of ours: masked, as a client's must be, with a mask that changes nothing.
    fn send(&mut self, first: u8, payload: &[u8]) -> Result<(), Ended> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let mut out = Vec::with_capacity(payload.len() + 8);
        out.push(first);
        match u8::try_from(payload.len()) {
            Ok(short @ 0..126) => out.push(0x80 | short),
            _ => {
                out.push(0x80 | 126);
                out.extend((payload.len() as u16).to_be_bytes());
            }
        }
        out.extend([0; 4]);
        out.extend(payload);
        match socket.write(&out) {
            Ok(n) if n == out.len() => Ok(()),
            Ok(_) => Err("the server does not read".into()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Ends it; the port is free again at once.
    pub fn close(&mut self) {
        self.stage = Stage::Closed;
        self.carry = None;
        self.socket = None;
    }
}

/// A frame's header: its length, the payload's, and its first byte. None while it is not all there.
#[inline]
fn header(bytes: &[u8]) -> Option<(usize, u64, u8)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (header, length) = match second & 0x7f {
        126 => (4, u64::from(u16::from_be_bytes(*bytes.get(2..4)?.first_chunk()?))),
        127 => (HEADER_MOST, u64::from_be_bytes(*bytes.get(2..10)?.first_chunk()?)),
        short => (2, u64::from(short)),
    };
    Some((header, length, first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BenchError;
    use crate::dialect::{Answer, mark};
    use crate::ledger::FeedLog;

    /// Frames are `L5` for a list, `C3-4` and marks for changes, `M` and marks for messages.
    struct Plain;

    impl Dialect for Plain {
        fn prepare(&self, feeds: usize) -> Result<Vec<u64>, BenchError> {
            Ok(vec![0; feeds])
        }
        fn watch(&self, _: usize, _: &mut Vec<u8>) {}
        fn judge(&self, start: &[u8]) -> Meaning {
            let text = std::str::from_utf8(start).unwrap();
            match text.split_at(1) {
                ("L", seq) => Meaning::List(seq.parse().unwrap()),
                ("C", rest) => {
                    let seqs = rest.split(' ').next().unwrap().split_once('-').unwrap();
                    Meaning::Changes(seqs.0.parse().unwrap(), seqs.1.parse().unwrap())
                }
                _ => Meaning::Messages,
            }
        }
        fn publish(&self, _: usize, _: std::ops::RangeInclusive<u64>, _: &mut Vec<u8>) {}
        fn answer(&self, _: &[u8]) -> Answer {
            Answer::Partial
        }
    }

    fn frame(payload: &str) -> Vec<u8> {
        let mut out = vec![0x81, 126];
        out.extend((payload.len() as u16).to_be_bytes());
        out.extend(payload.as_bytes());
        out
    }

    fn changes(first: u64, last: u64) -> String {
        let marks = (first..=last).map(|n| format!("{}{}", mark(n), "x".repeat(100)));
        format!("C{first}-{last} {}", marks.collect::<String>())
    }

    /// Feeds `stream` in pieces to a fresh watcher, as reads would.
    fn taken(stream: &[u8], piece: usize) -> (Watcher, Ledger) {
        let mut ledger = Ledger::default();
        ledger.feeds.push(FeedLog::at(0));
        ledger.feeds[0].watching = 1;
        (0..50).for_each(|n| _ = ledger.feeds[0].send(n + 1));
        let mut watcher = Watcher::new(0, false);
        watcher.stage = Stage::Shaking;
        let mut left = vec![];
        for part in stream.chunks(piece) {
            left.extend_from_slice(part);
            let used = watcher.take(&left, &Plain, &mut ledger, 1_000).unwrap();
            left.drain(..used);
            assert!(left.len() <= START + HEADER_MOST, "{}", left.len());
        }
        (watcher, ledger)
    }

    #[test]
    fn frames_are_counted_the_same_from_pieces_of_any_size() {
        let mut stream = b"HTTP/1.1 101 x\r\na: b\r\n\r\n".to_vec();
        for text in ["L4", &changes(5, 5), &changes(6, 20), "L30", &changes(31, 33)] {
            stream.extend(frame(text));
        }
        for piece in (1..300).chain([1_000, 100_000]) {
            let (watcher, ledger) = taken(&stream, piece);
            // The first list came before it was live in its own words: Plain is ready at once, so it folds.
            assert_eq!(watcher.place.seq, 33, "pieces of {piece}");
            assert_eq!(ledger.counts.received, 19);
            assert_eq!(ledger.counts.folded, 4 + 10);
            assert!(ledger.counts.clean(), "{:?}", ledger.counts);
            assert_eq!(ledger.times.to_watcher.count(), 19);
        }
    }

    #[test]
    fn a_frame_that_misses_a_gift_it_speaks_of_is_malformed() {
        let mut stream = b"HTTP/1.1 101 x\r\n\r\n".to_vec();
        stream.extend(frame(&changes(1, 3).replacen('~', "-", 1)));
        assert_eq!(taken(&stream, 10_000).1.counts.malformed, 1);
    }

    #[test]
    fn messages_without_numbers_are_told_apart_by_their_marks() {
        let mut stream = b"HTTP/1.1 101 x\r\n\r\n".to_vec();
        for marks in [&[2, 1][..], &[3], &[3], &[51]] {
            let text: String = marks.iter().map(|n| mark(*n)).collect();
            stream.extend(frame(&format!("M{text}")));
        }
        let counts = taken(&stream, 7).1.counts;
        assert_eq!((counts.received, counts.repeated, counts.malformed), (3, 1, 1));
    }

    #[test]
    fn a_watcher_costs_the_load_next_to_nothing() {
        assert!(size_of::<Watcher>() <= 200, "{}", size_of::<Watcher>());
    }

    #[test]
    fn a_refused_handshake_says_why() {
        let mut watcher = Watcher::new(0, false);
        watcher.stage = Stage::Shaking;
        let refused = watcher.take(b"HTTP/1.1 503 Busy\r\n\r\n", &Plain, &mut Ledger::default(), 0);
        assert_eq!(refused.unwrap_err(), "refused: HTTP/1.1 503 Busy");
    }
}
