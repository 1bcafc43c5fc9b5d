//! SQLite's write-ahead log, read by us before SQLite reads it.
//!
//! For SQLite the log ends at the first frame that does not check out, without a word: that is how a write that was torn by a kill
//! looks. A frame that is damaged looks the same, and would take everything behind it along. They differ in what is behind: frames
//! are written in order, so behind one that was torn there is nothing of the same log, whose salts every frame carries.
//! (Format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.)

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Whether checksums are made of words that stand in little-endian order is the last bit of the magic number.
const MAGIC: u32 = 0x377f_0682;

/// How often a log is read that looks damaged while somebody may be writing to it.
const LOOKS: usize = 4;

/// The file beside a database whose name ends with this as well.
pub(super) fn beside(database: &Path, end: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Where SQLite keeps the log of this database.
fn log_of(database: &Path) -> PathBuf {
    beside(database, "-wal")
}

/// A number in a log: the highest byte first.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The size of a page, as the beginning of a database says.
fn page_size(database: &[u8]) -> usize {
    match u16::from_be_bytes([database[16], database[17]]) {
        1 => 65_536,
        size => usize::from(size),
    }
}

/// What is damaged in the log beside this database, if anything is.
pub(super) fn damage(database: &Path) -> Result<Option<String>, String> {
    let path = log_of(database);
    let look = || read(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()));
    let mut found = look()?;
    for _ in 1..LOOKS {
        let Some(frame) = found else { return Ok(None) };
        // A gateway that writes meanwhile may look like that for a moment, and not at the same place again.
        std::thread::sleep(Duration::from_millis(30));
        found = look()?;
        if found == Some(frame) {
            let what = "is not what was written, and others are behind it";
            return Ok(Some(format!("frame {frame} of {} {what}", path.display())));
        }
    }
    Ok(None)
}

/// The number of the first frame that is not as it was written, from 1 on, if there are others of the same log behind it; 0 is the
/// header.
fn read(path: &Path) -> std::io::Result<Option<u64>> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER];
    if !fill(&mut file, &mut header)? {
        return Ok(None);
    }
    let little = word(&header, 0) & 1 == 0;
    let mut sum = add((0, 0), &header[..24], little);
    let page = word(&header, 8) as usize;
    let is_whole = word(&header, 0) & !1 == MAGIC & !1 && sum == (word(&header, 24), word(&header, 28));
    if !is_whole {
        // Whatever page size it says: a log that begins with nothing that can be read has nothing that can be.
        let mut rest = [0; FRAME_HEADER];
        return Ok((fill(&mut file, &mut rest)? && rest != [0; FRAME_HEADER]).then_some(0));
    }
    let salts = &header[16..24];
    let mut frame = vec![0; FRAME_HEADER + page];
    let (mut number, mut bad) = (0, None);
    while fill(&mut file, &mut frame)? {
        number += 1;
        let of_this_log = &frame[8..16] == salts;
        if bad.is_some() {
            if of_this_log {
                return Ok(bad);
            }
            continue;
        }
        let next = add(add(sum, &frame[..8], little), &frame[FRAME_HEADER..], little);
        match of_this_log && next == (word(&frame, 16), word(&frame, 20)) {
            true => sum = next,
            false => bad = Some(number),
        }
    }
    Ok(None)
}

/// Writes the database as it is with the commits of its log to another file, leaving out frames that are not what was written.
/// How many those are.
///
/// Each frame carries the checksum up to it, so the next one can be judged although it was damaged; and pages that are written
/// often stand in later frames once more.
pub(super) fn apply(database: &Path, image: &Path) -> std::io::Result<u64> {
    std::fs::copy(database, image)?;
    let mut image = OpenOptions::new().read(true).write(true).open(image)?;
    let left_out = apply_to(&mut image, &log_of(database))?;
    // SQLite reads nothing of a file that is shorter than it says. One that is as long as it says has pages that cannot be read.
    let mut header = [0; 32];
    image.seek(SeekFrom::Start(0))?;
    image.read_exact(&mut header)?;
    let page = page_size(&header).max(512) as u64;
    let pages = u32::try_from(image.metadata()?.len() / page).unwrap_or(u32::MAX);
    if pages < word(&header, 28) {
        image.seek(SeekFrom::Start(28))?;
        image.write_all(&pages.to_be_bytes())?;
    }
    Ok(left_out)
}

fn apply_to(image: &mut File, log: &Path) -> std::io::Result<u64> {
    let Ok(log) = File::open(log) else { return Ok(0) };
    let mut log = BufReader::with_capacity(1 << 20, log);
    let mut header = [0; HEADER];
    if !fill(&mut log, &mut header)? {
        return Ok(0);
    }
    let little = word(&header, 0) & 1 == 0;
    let sum = add((0, 0), &header[..24], little);
    let is_whole = word(&header, 0) & !1 == MAGIC & !1 && sum == (word(&header, 24), word(&header, 28));
    let mut of_database = [0; 18];
    image.read_exact(&mut of_database)?;
    let page = if is_whole { word(&header, 8) as usize } else { page_size(&of_database) };
    if !(512..=65_536).contains(&page) {
        return Ok(1);
    }
    let little = little || !is_whole;
    let mut salts = is_whole.then(|| header[16..24].to_vec());
    let mut before = is_whole.then_some(sum);
    let mut frame = vec![0; FRAME_HEADER + page];
    let (mut waiting, mut left_out, mut unsure) = (Vec::new(), 0, u64::from(!is_whole));
    while fill(&mut log, &mut frame)? {
        let salts = salts.get_or_insert_with(|| frame[8..16].to_vec());
        let stated = (word(&frame, 16), word(&frame, 20));
        let sum = before.map(|sum| add(add(sum, &frame[..8], little), &frame[FRAME_HEADER..], little));
        before = Some(stated);
        if frame[8..16] != **salts || sum != Some(stated) {
            unsure += 1;
            continue;
        }
        // Behind what cannot be read something can: it was no end.
        left_out += std::mem::take(&mut unsure);
        waiting.push((word(&frame, 0), frame[FRAME_HEADER..].to_vec()));
        let pages = word(&frame, 4);
        if pages > 0 {
            for (number, bytes) in waiting.drain(..).filter(|(number, _)| *number > 0) {
                image.seek(SeekFrom::Start(u64::from(number - 1) * page as u64))?;
                image.write_all(&bytes)?;
            }
            image.set_len(u64::from(pages) * page as u64)?;
        }
    }
    Ok(left_out)
}

/// True when there was so much.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// SQLite's checksum, gone on with.
fn add((mut one, mut other): (u32, u32), bytes: &[u8], little: bool) -> (u32, u32) {
    let word = |bytes: &[u8]| {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    };
    for pair in bytes.chunks_exact(8) {
        one = one.wrapping_add(word(pair)).wrapping_add(other);
        other = other.wrapping_add(word(&pair[4..])).wrapping_add(one);
    }
    (one, other)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_damaged_byte_is_seen_wherever_something_is_behind_it_and_a_torn_end_is_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tipcast.db");
        let conn = Connection::open(&path).unwrap();
        conn.pragma_update(None, "journal_mode", "WAL").unwrap();
        conn.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
        let fill = |rows: usize| {
            for n in 0..rows {
                conn.execute("INSERT INTO t (b) VALUES (?1)", [vec![n as u8; 900]]).unwrap();
            }
        };
        fill(60);
        // Begun anew, with what was there before behind it.
        conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        fill(20);
        let log = path.with_extension("db-wal");
        let (good, before) = (std::fs::read(&log).unwrap(), std::fs::read(&path).unwrap());
        let frame = FRAME_HEADER + 4_096;
        let salts = &good[16..24];
        let frames = good[HEADER..].chunks(frame).take_while(|it| &it[8..16] == salts).count();
        assert!(frames >= 20 && good.len() > HEADER + (frames + 10) * frame, "{frames}");
        let copy = tempfile::tempdir().unwrap();
        let database = copy.path().join("tipcast.db");
        let look = |bytes: &[u8]| {
            std::fs::write(database.with_extension("db-wal"), bytes).unwrap();
            read(&database.with_extension("db-wal")).unwrap()
        };
        assert_eq!(look(&good), None);
        let last = HEADER + (frames - 1) * frame;
        for at in (0..32).chain((HEADER..last).step_by(997)) {
            // The number of the log's checkpoint and its version are covered too.
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            assert!(look(&bytes).is_some(), "byte {at}");
        }
        for end in [last + 10, last + FRAME_HEADER + 100, last] {
            let mut torn = good.clone();
            torn[end..last + frame].fill(7);
            assert_eq!(look(&torn), None, "torn at {end}");
            assert_eq!(look(&good[..end]), None, "cut at {end}");
        }
        assert_eq!(look(b""), None);
        // What is behind a damaged frame is there all the same, but for pages that stand in no other.
        for at in [5, 40, HEADER + 3 * frame + 500, HEADER + 9 * frame + 12] {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&database, &before).unwrap();
            std::fs::write(log_of(&database), &bytes).unwrap();
            let image = copy.path().join("image");
            assert!(apply(&database, &image).unwrap() >= 1, "byte {at}");
            let image = Connection::open(&image).unwrap();
            let rows: i64 = image.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
            assert!(rows > 70, "byte {at}: {rows}");
        }
        std::fs::remove_file(database.with_extension("db-wal")).unwrap();
        assert_eq!(damage(&database), Ok(None));
    }
}
