//! The bytes of the journal: a frame for each commit, with a part for each feed that it brought something to.
//!
//! A frame is a head and the parts behind it. The head says which frame it is, how long each part is, whose, and
//! what its checksum is; and of each frame that stood in the last [`REACH`] bytes before it, to whom it had brought
//! something. So a byte that flips in a part hurts its feed, and of a head that cannot be read, or a page that is
//! lost, the next frame says whom it concerns. The last frame may have been under way when the process was killed:
//! when anything of it is missing it was not acknowledged, and counts as not written.
//!
//! All numbers are little-endian. A head is [`MAGIC`], the generation, the index, how many entries follow of earlier frames, how
//! many parts, and how long they are together; then the entries (how far back, feed), the parts (feed, length,
//! checksum), and the checksum of all that.

use std::collections::VecDeque;

use crate::domain::Millis;

/// No text holds these bytes, so nothing that somebody sends reads as a frame.
const MAGIC: [u8; 8] = [0xff, 0xfe, b'T', b'I', b'P', b'J', 0xfe, 0xff];

/// The head without its entries and parts.
const HEAD: usize = 40;

/// The length of one entry of an earlier frame, and of one part.
const EARLIER: usize = 12;
const PART: usize = 16;

/// How far back a frame says what stood there: two pages.
const REACH: u64 = 8192;

/// What one commit brought to one feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The seq of the last of its changes; 0 without any.
    pub(super) seq: u64,
    /// Its changes.
    pub(super) changes: String,
    /// Its dedup locks.
    pub(super) locks: String,
    /// Its ids.
    pub(super) ids: String,
    /// The number of the last of its entries of the ledger; 0 without any.
    pub(super) last: u64,
    /// How many they are.
    pub(super) count: u64,
    /// The time of the last of them.
    pub(super) at: Millis,
    /// Its entries.
    pub(super) entries: String,
}

impl Record {
    /// True when there is nothing to log.
    pub(super) fn is_empty(&self) -> bool {
        self.seq == 0 && self.count == 0 && self.ids.is_empty()
    }

    /// How many gifts it tells of, about.
    pub(super) fn gifts(&self) -> u64 {
        // A change is fifteen lines or more; without entries the commit was of a feed that somebody reads.
        let least = self.count.max(self.ids.len() as u64 / 256);
        if self.entries.is_empty() { least.max(self.changes.len() as u64 / 256 + 1) } else { least }
    }
}

/// What a commit brings, on its way to the journal.
#[derive(Default)]
pub(super) struct Draft {
    /// Feed, length and checksum of each part.
    parts: Vec<(i64, u32, u32)>,
    body: Vec<u8>,
}

/// Frames that were written last: index, end, and the feeds that they brought something to.
pub(super) type Recent = VecDeque<(u64, u64, Vec<i64>)>;

/// What one frame brought to one feed; none if that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) feed: i64,
    pub(super) record: Option<Record>,
}

impl Draft {
    /// Adds what the commit brings to a feed.
    pub(super) fn push(&mut self, feed: i64, record: &Record) {
        let before = self.body.len();
        let Record { seq, changes, locks, ids, last, count, at, entries } = record;
        for number in [*seq, *last, *count, at.0 as u64] {
            self.body.extend_from_slice(&number.to_le_bytes());
        }
        let texts = [changes, locks, ids, entries];
        for text in texts {
            self.body.extend_from_slice(&(text.len() as u32).to_le_bytes());
        }
        for text in texts {
            self.body.extend_from_slice(text.as_bytes());
        }
        let part = &self.body[before..];
        self.parts.push((feed, part.len() as u32, crc32fast::hash(part)));
    }

    /// True when the commit brings nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Forgets what it holds, and keeps its room.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.body.clear();
    }

    /// What it brings to each feed.
    pub(super) fn parts(&self) -> Vec<Part> {
        parts(&self.parts, &self.body)
    }

    /// The frame of this index: its head, and what stands behind it.
    pub(super) fn spell(&self, (generation, index): (u64, u64), recent: &Recent) -> (Vec<u8>, &[u8]) {
        let earlier: usize = recent.iter().map(|(.., feeds)| feeds.len()).sum();
        let head = HEAD + EARLIER * earlier + PART * self.parts.len() + 4;
        let mut frame = Vec::with_capacity(head);
        frame.extend_from_slice(&MAGIC);
        frame.extend_from_slice(&generation.to_le_bytes());
        frame.extend_from_slice(&index.to_le_bytes());
        frame.extend_from_slice(&(earlier as u32).to_le_bytes());
        frame.extend_from_slice(&(self.parts.len() as u32).to_le_bytes());
        frame.extend_from_slice(&(self.body.len() as u64).to_le_bytes());
        for (other, _, feeds) in recent {
            for feed in feeds {
                frame.extend_from_slice(&((index - other) as u32).to_le_bytes());
                frame.extend_from_slice(&feed.to_le_bytes());
            }
        }
        for (feed, len, sum) in &self.parts {
            frame.extend_from_slice(&feed.to_le_bytes());
            frame.extend_from_slice(&len.to_le_bytes());
            frame.extend_from_slice(&sum.to_le_bytes());
        }
        let sum = crc32fast::hash(&frame);
        frame.extend_from_slice(&sum.to_le_bytes());
        (frame, &self.body)
    }

    /// Notes that it stands in the file as the frame of this index, up to `end`, for the frames that come after it.
    pub(super) fn note(&self, index: u64, end: u64, recent: &mut Recent) {
        recent.push_back((index, end, self.parts.iter().map(|(feed, ..)| *feed).collect()));
        while recent.len() > 1 && recent.front().is_some_and(|(_, other, _)| other + REACH < end) {
            recent.pop_front();
        }
    }
}

/// A head that is as it was written.
struct Head {
    generation: u64,
    index: u64,
    /// How many frames before this one, and a feed that it brought something to.
    earlier: Vec<(u64, i64)>,
    /// Feed, length and checksum.
    parts: Vec<(i64, u32, u32)>,
    /// Where its parts begin and end in the bytes that were read.
    body: (usize, usize),
}

/// What frames of this generation hold, in the order in which they were written; `least` of them are known to have been
/// acknowledged. An error says that somebody's records are lost, and nothing says whose.
pub(super) fn read(bytes: &[u8], generation: u64, least: u64) -> Result<Vec<Part>, String> {
    let frames: Vec<Head> = heads(bytes).into_iter().filter(|head| head.generation == generation).collect();
    let (mut found, mut next, count) = (Vec::new(), 0, frames.len());
    for (n, head) in frames.into_iter().enumerate() {
        for lost in next..head.index {
            let whose: Vec<i64> = of(&head.earlier, head.index - lost).collect();
            if whose.is_empty() {
                return Err(
                    "records of the journal are lost, and whose they are cannot be read either".into()
                );
            }
            found.extend(whose.into_iter().map(|feed| Part { feed, record: None }));
        }
        next = head.index + 1;
        let parts = parts(&head.parts, bytes.get(head.body.0..head.body.1).unwrap_or(&[]));
        let may_be_unfinished = n + 1 == count && head.index >= least;
        if may_be_unfinished && parts.iter().any(|part| part.record.is_none()) {
            break;
        }
        found.extend(parts);
    }
    if next < least {
        return Err("the last records of the journal cannot be read".into());
    }
    Ok(found)
}

/// Every feed that something in these bytes is of, whatever its generation.
pub(super) fn anybodys(bytes: &[u8]) -> Vec<i64> {
    let mut feeds: Vec<i64> = Vec::new();
    for head in heads(bytes) {
        feeds.extend(head.earlier.iter().map(|(_, feed)| *feed));
        feeds.extend(head.parts.iter().map(|(feed, ..)| *feed));
    }
    feeds.sort_unstable();
    feeds.dedup();
    feeds
}

fn of(earlier: &[(u64, i64)], back: u64) -> impl Iterator<Item = i64> {
    earlier.iter().filter(move |(far, _)| *far == back).map(|(_, feed)| *feed)
}

/// Every head that can be read, in the order of the file.
fn heads(bytes: &[u8]) -> Vec<Head> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = bytes[at..].windows(MAGIC.len()).position(|it| it == MAGIC) {
        at += next;
        found.extend(head(bytes, at));
        // Not behind its parts: of a frame that was cut short they are others' frames.
        at += 1;
    }
    found
}

fn head(bytes: &[u8], at: usize) -> Option<Head> {
    let mut rest = Fields(bytes.get(at + MAGIC.len()..)?);
    let (generation, index) = (rest.u64()?, rest.u64()?);
    let (earlier, parts, len) = (rest.u32()? as usize, rest.u32()? as usize, rest.u64()? as usize);
    let end = at.checked_add(HEAD + EARLIER.checked_mul(earlier)? + PART.checked_mul(parts)?)?;
    let sum = Fields(bytes.get(end..)?).u32()?;
    if crc32fast::hash(bytes.get(at..end)?) != sum {
        return None;
    }
    let earlier = (0..earlier).map(|_| Some((u64::from(rest.u32()?), rest.u64()? as i64)));
    let earlier = earlier.collect::<Option<_>>()?;
    let parts =
        (0..parts).map(|_| Some((rest.u64()? as i64, rest.u32()?, rest.u32()?))).collect::<Option<_>>()?;
    Some(Head { generation, index, earlier, parts, body: (end + 4, (end + 4).checked_add(len)?) })
}

/// The parts in a body, each judged by itself.
fn parts(of: &[(i64, u32, u32)], body: &[u8]) -> Vec<Part> {
    let mut from = 0;
    let read = of.iter().map(|(feed, len, sum)| {
        let to = from + *len as usize;
        let part = body.get(from..to).filter(|part| crc32fast::hash(part) == *sum);
        from = to;
        Part { feed: *feed, record: part.and_then(record) }
    });
    read.collect()
}

fn record(part: &[u8]) -> Option<Record> {
    let mut rest = Fields(part);
    let (seq, last, count, at) = (rest.u64()?, rest.u64()?, rest.u64()?, Millis(rest.u64()? as i64));
    let lens = [rest.u32()?, rest.u32()?, rest.u32()?, rest.u32()?];
    let (changes, locks) = (rest.text(lens[0])?, rest.text(lens[1])?);
    let (ids, entries) = (rest.text(lens[2])?, rest.text(lens[3])?);
    rest.0.is_empty().then_some(Record { seq, changes, locks, ids, last, count, at, entries })
}

/// Bytes that are read from the front; none when they are used up.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn text(&mut self, len: u32) -> Option<String> {
        let (text, rest) = self.0.split_at_checked(len as usize)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of which each brings something to two feeds of ten, one after another, and where each begins.
    fn written(generation: u64, frames: u64) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut starts, mut recent) = (Vec::new(), Vec::new(), Recent::new());
        for index in 0..frames {
            let mut draft = Draft::default();
            for feed in [index % 10, (index + 3) % 10] {
                draft.push(feed as i64, &brought(index, feed));
            }
            starts.push(bytes.len());
            let (head, body) = draft.spell((generation, index), &recent);
            bytes.extend(head.iter().chain(body));
            draft.note(index, bytes.len() as u64, &mut recent);
        }
        starts.push(bytes.len());
        (bytes, starts)
    }

    fn brought(index: u64, feed: u64) -> Record {
        let text = |what: &str| format!("{what} of {index} to {feed}").repeat(9);
        let (changes, locks, ids, entries) = (text("changes"), text("locks"), text("ids"), text("entries"));
        Record { seq: index, changes, locks, ids, last: 7, count: 2, at: Millis(-5), entries }
    }

    #[test]
    fn what_is_written_is_read_back_in_its_order_and_nothing_of_another_generation() {
        let (old, _) = written(6, 40);
        let (new, _) = written(7, 30);
        // The new frames were written over the first ones of the old generation.
        let file = [&new[..], &old[new.len()..]].concat();
        let found = read(&file, 7, 30).unwrap();
        let expected = (0..30_u64).flat_map(|index| {
            [index % 10, (index + 3) % 10]
                .map(|feed| Part { feed: feed as i64, record: Some(brought(index, feed)) })
        });
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert_eq!(read(&file, 8, 0).unwrap(), []);
        assert!(read(&file, 8, 1).is_err(), "one was acknowledged");
        assert_eq!(anybodys(&file), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_frame_that_was_under_way_counts_as_not_written_wherever_it_was_cut() {
        let (bytes, starts) = written(1, 12);
        for len in starts[11]..bytes.len() {
            assert_eq!(read(&bytes[..len], 1, 11).unwrap().len(), 22, "cut at {len}");
            assert!(read(&bytes[..len], 1, 12).is_err() || len > starts[11] + 100);
        }
        assert_eq!(read(&bytes, 1, 0).unwrap().len(), 24);
    }

    #[test]
    fn a_byte_that_flips_hurts_the_feeds_of_its_frame_and_in_a_part_its_feed_alone() {
        let (bytes, starts) = written(1, 20);
        // The last frame has nothing behind it: damage there is a frame that was under way.
        for at in (0..starts[19]).step_by(3) {
            let mut hurt = bytes.clone();
            hurt[at] ^= 0x20;
            let index = starts.iter().rposition(|start| *start <= at).unwrap() as i64;
            let whose = [index % 10, (index + 3) % 10];
            let found = read(&hurt, 1, 0).unwrap();
            assert_eq!(found.len(), 40, "at {at}");
            let lost: Vec<i64> =
                found.iter().filter(|part| part.record.is_none()).map(|part| part.feed).collect();
            assert!(!lost.is_empty() && lost.iter().all(|feed| whose.contains(feed)), "at {at}: {lost:?}");
        }
    }

    #[test]
    fn of_a_page_that_is_lost_it_is_known_whose_frames_stood_on_it() {
        let (bytes, starts) = written(1, 60);
        for page in 0..bytes.len() / 4096 - 1 {
            let (from, to) = (page * 4096, (page + 1) * 4096);
            let mut hurt = bytes.clone();
            hurt[from..to].fill(0);
            let found = read(&hurt, 1, 0).unwrap();
            for (index, it) in starts.windows(2).enumerate() {
                let on_it = it[0] < to && it[1] > from;
                let lost = found[2 * index..2 * index + 2].iter().any(|part| part.record.is_none());
                assert_eq!(lost, on_it, "frame {index}, page {page}");
            }
        }
        let mut hurt = bytes.clone();
        hurt[4096..16 * 4096].fill(0);
        assert!(read(&hurt, 1, 0).is_err(), "so much that nobody tells of it");
    }
}
