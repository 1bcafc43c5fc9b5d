//! SQLite's write-ahead log, read before SQLite reads it: is it damaged before its end?
//!
//! SQLite ends the log at the first frame whose checksum fails, without an error. Most such frames are no damage: a kill, a power
//! loss, a full disk or a failed write leaves them behind, in any order, and SQLite later writes over them with the same salts. A
//! frame that was damaged after it was synced looks the same and would take everything behind it along.
//!
//! What proves damage is a *commit* frame behind the first bad one, followed by a frame that is chained to its checksum: SQLite
//! syncs the log after each commit frame and writes the next frame only then, so everything in front was on the disk. That holds
//! because a new log is begun where it is unknown whether its end was synced ([`super::tables::Tables::commit`]).
//! (Format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.)

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// The magic number of a log; its last bit says whether the words of checksums are big-endian.
const MAGIC: u32 = 0x377f_0682;

/// How often a log is read that looks damaged while a gateway may be writing to it.
const MAX_READS: usize = 4;

/// How long to wait between two of these reads.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(30);

/// The name of the file that SQLite keeps beside a database, by its suffix (`-wal`, `-shm`).
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Says which frame of this database's log is damaged, if one provably is.
///
/// # Errors
/// When the log cannot be read.
pub(super) fn damage(database: &Path) -> Result<Option<String>, String> {
    let path = beside(database, "-wal");
    let look = || {
        let page_size = page_size_of(database)?;
        first_damaged(&path, page_size).map_err(|e| format!("{} cannot be read: {e}", path.display()))
    };
    let mut found = look()?;
    for _ in 1..MAX_READS {
        let Some(frame) = found else { return Ok(None) };
        // A log that a gateway is writing to may look damaged for a moment, but not twice at the same frame.
        std::thread::sleep(READ_AGAIN_AFTER);
        found = look()?;
        if found == Some(frame) {
            let what = "is not what was written, and later commits are behind it";
            return Ok(Some(format!("frame {frame} of {} {what}", path.display())));
        }
    }
    Ok(None)
}

/// The page size that the beginning of a database states; 4096 where it is too short to state one.
fn page_size_of(database: &Path) -> Result<usize, String> {
    let mut head = [0; 18];
    let mut file = File::open(database).map_err(|e| format!("{} cannot be read: {e}", database.display()))?;
    let is_whole =
        fill(&mut file, &mut head).map_err(|e| format!("{} cannot be read: {e}", database.display()))?;
    Ok(match u16::from_be_bytes([head[16], head[17]]) {
        _ if !is_whole => 4_096,
        1 => 65_536,
        size => usize::from(size),
    })
}

/// The number, from 1 on, of the first frame that is not what was written, where the log proves that it had been synced; 0 is the
/// log's header.
fn first_damaged(path: &Path, page_size: usize) -> std::io::Result<Option<u64>> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER];
    if !fill(&mut file, &mut header)? {
        return Ok(None);
    }
    let is_little = word(&header, 0) & 1 == 0;
    let mut sum = add((0, 0), &header[..24], is_little);
    let is_header_whole = word(&header, 0) & !1 == MAGIC && sum == sum_at(&header, 24);
    let (page, mut bad) = match is_header_whole {
        true => (word(&header, 8) as usize, None),
        // Frames are chained among themselves, so they can be checked without their header.
        false => (page_size, Some(0)),
    };
    if !(512..=65_536).contains(&page) {
        return Ok(None);
    }
    let orders: &[bool] = if is_header_whole { &[is_little] } else { &[true, false] };
    let mut frame = vec![0; FRAME_HEADER + page];
    let (mut number, mut commit): (u64, Option<Frame>) = (0, None);
    while fill(&mut file, &mut frame)? {
        number += 1;
        let this = Frame::read(&frame);
        let is_of_this_log = !is_header_whole || this.salts == header[16..24];
        let follows = |before: (u32, u32), is_little| {
            add(add(before, &frame[..8], is_little), &frame[FRAME_HEADER..], is_little) == this.sum
        };
        match bad {
            None if is_of_this_log && follows(sum, is_little) => sum = this.sum,
            None => bad = Some(number),
            Some(_) => {
                let is_chained =
                    |it: &Frame| it.salts == this.salts && orders.iter().any(|order| follows(it.sum, *order));
                if commit.as_ref().is_some_and(is_chained) {
                    return Ok(bad);
                }
            }
        }
        commit = (this.is_commit && is_of_this_log && bad.is_some_and(|bad| bad < number)).then_some(this);
    }
    Ok(None)
}

/// What the header of a frame says.
struct Frame {
    is_commit: bool,
    salts: [u8; 8],
    /// The checksum of the log up to this frame.
    sum: (u32, u32),
}

impl Frame {
    fn read(bytes: &[u8]) -> Frame {
        let mut salts = [0; 8];
        salts.copy_from_slice(&bytes[8..16]);
        Frame { is_commit: word(bytes, 4) > 0, salts, sum: sum_at(bytes, 16) }
    }
}

/// Fills `bytes`; false if the file ends before that.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn sum_at(bytes: &[u8], at: usize) -> (u32, u32) {
    (word(bytes, at), word(bytes, at + 4))
}

/// SQLite's checksum of `bytes`, continued from an earlier one.
fn add((mut one, mut other): (u32, u32), bytes: &[u8], is_little: bool) -> (u32, u32) {
    let word = |bytes: &[u8]| {
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
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

    const FRAME: usize = FRAME_HEADER + 4_096;

    /// A database in a folder of its own, with a log that holds `commits` commits, behind one that was checkpointed.
    fn database(dir: &Path, commits: usize) -> (PathBuf, Connection) {
        let path = dir.join("tipcast.db");
        let conn = Connection::open(&path).unwrap();
        conn.pragma_update(None, "journal_mode", "WAL").unwrap();
        conn.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
        insert(&conn, 60, 1);
        conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
        insert(&conn, commits, 1);
        (path, conn)
    }

    /// `commits` commits of `rows` rows each.
    fn insert(conn: &Connection, commits: usize, rows: usize) {
        for n in 0..commits {
            conn.execute_batch("BEGIN").unwrap();
            for _ in 0..rows {
                conn.execute("INSERT INTO t (b) VALUES (?1)", [vec![n as u8; 900]]).unwrap();
            }
            conn.execute_batch("COMMIT").unwrap();
        }
    }

    fn log_of(path: &Path) -> Vec<u8> {
        std::fs::read(beside(path, "-wal")).unwrap()
    }

    /// What is found in a log of these bytes.
    fn look(bytes: &[u8]) -> Option<u64> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        first_damaged(&path, 4_096).unwrap()
    }

    /// Where each commit of the log ends, in bytes.
    fn commit_ends(log: &[u8]) -> Vec<usize> {
        let frames = log[HEADER..].chunks_exact(FRAME).take_while(|it| it[8..16] == log[16..24]);
        let ends = frames.enumerate().filter(|(_, it)| word(it, 4) > 0);
        ends.map(|(n, _)| HEADER + (n + 1) * FRAME).collect()
    }

    #[test]
    fn a_flipped_byte_in_front_of_the_last_two_commits_is_found_and_a_torn_end_is_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let (path, _conn) = database(dir.path(), 20);
        let good = log_of(&path);
        let ends = commit_ends(&good);
        assert!(ends.len() == 20 && good.len() > ends[19] + 10 * FRAME, "{ends:?}");
        assert_eq!(look(&good), None);
        // The number of the log's checkpoint and its version are covered too.
        for at in (0..32).chain((HEADER..ends[17]).step_by(499)) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            assert!(look(&bytes).is_some(), "byte {at}");
        }
        for end in [ends[18] + 10, ends[18] + FRAME_HEADER + 100, ends[18]] {
            let mut torn = good.clone();
            torn[end..ends[19]].fill(7);
            assert_eq!(look(&torn), None, "torn at {end}");
            assert_eq!(look(&good[..end]), None, "cut at {end}");
        }
        assert_eq!(look(b""), None);
        std::fs::write(beside(&path, "-wal"), &good[..40]).unwrap();
        assert_eq!(damage(&path), Ok(None));
    }

    #[test]
    fn remains_of_a_failed_commit_behind_a_later_one_end_the_log() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, conn) = database(dir.path(), 5);
        for suffix in ["", "-wal"] {
            std::fs::copy(beside(&path, suffix), beside(&other.path().join("tipcast.db"), suffix)).unwrap();
        }
        // The commit that was killed, and then what came in its place, with the same salts.
        let killed = Connection::open(other.path().join("tipcast.db")).unwrap();
        insert(&killed, 1, 40);
        let killed = log_of(&other.path().join("tipcast.db"));
        for _ in 0..3 {
            insert(&conn, 1, 1);
            let mut log = log_of(&path);
            let end = *commit_ends(&log).last().unwrap();
            assert!(killed.len() > end && log[16..24] == killed[16..24]);
            log.truncate(end);
            log.extend(&killed[end..]);
            assert_eq!(look(&log), None);
        }
    }

    #[test]
    fn a_power_loss_that_kept_any_half_of_the_last_commit_is_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let (path, conn) = database(dir.path(), 12);
        let mut random = 7_u64;
        for rows in [1, 3, 40] {
            let before = log_of(&path);
            insert(&conn, 1, rows);
            let after = log_of(&path);
            for (image, unit) in (0..200).flat_map(|image| [(image, 512), (image, 4_096)]) {
                let mut log = before.clone();
                log.resize(after.len(), 0);
                for at in (0..log.len()).step_by(unit) {
                    let end = (at + unit).min(log.len());
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if random >> 63 == 0 {
                        log[at..end].copy_from_slice(&after[at..end]);
                    }
                }
                assert_eq!(look(&log), None, "{rows} rows, image {image}, unit {unit}");
            }
        }
    }
}
