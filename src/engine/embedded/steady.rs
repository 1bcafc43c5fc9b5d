//! The time by which windows run and keys expire: even, whatever becomes of the clock on the wall.

use rusqlite::{Connection, OptionalExtension};

use crate::domain::Millis;

/// By how many milliseconds the clock on the wall and the steady one may differ before somebody should know.
const MAX_CLOCK_DIFFERENCE_MS: i64 = 60_000;

/// The name of its row in `meta`.
const STEADY_ROW: &str = "steady";

/// A clock in milliseconds since 1970, as the wall said it when the data began. It goes on over restarts of the process. When the
/// machine was started again, it goes on from where it last was, whatever the wall says: that one may have no chip that keeps the
/// time, and an id that is forgotten early counts money twice. So it may be late by as long as the machine was off.
#[derive(Clone)]
pub(super) struct Steady {
    /// This run of the machine; empty where it has no name.
    boot: String,
    /// What is to be added to [`since_boot`] for this time.
    offset: i64,
    /// The same for the wall, as it was when the store was first opened in this run of the machine.
    wall_offset: i64,
}

impl Steady {
    /// The clock of the data in this file, or a new one.
    pub fn of(conn: &Connection) -> rusqlite::Result<Steady> {
        let kept = "SELECT value FROM meta WHERE name = ?1";
        let kept: Option<String> = conn.query_row(kept, [STEADY_ROW], |row| row.get(0)).optional()?;
        Ok(Steady::from_row(kept.as_deref().unwrap_or_default(), boot(), Millis::now().0))
    }

    fn from_row(text: &str, boot: String, wall: i64) -> Steady {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<i64>().ok());
        let (since_boot, is_of_this_boot) = (since_boot(), !boot.is_empty() && words[0] == boot);
        match (number(1), number(2), number(3)) {
            (Some(offset), Some(wall_offset), _) if is_of_this_boot => Steady { boot, offset, wall_offset },
            (_, _, last) => {
                let wall_offset = wall - since_boot;
                Steady { boot, offset: last.map_or(wall_offset, |last| last - since_boot), wall_offset }
            }
        }
    }

    /// Notes where the clock is, in the transaction that is open.
    pub fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        let row = format!("{} {} {} {}", self.boot, self.offset, self.wall_offset, self.now());
        conn.prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?
            .execute([STEADY_ROW, &row])
            .map(drop)
    }

    /// By how many milliseconds the clock on the wall was set since the machine was started, where somebody should know.
    pub fn was_set_by(&self, wall: i64) -> Option<i64> {
        Some(wall - since_boot() - self.wall_offset).filter(|set| set.abs() > MAX_CLOCK_DIFFERENCE_MS)
    }

    /// The time now.
    pub fn now(&self) -> i64 {
        self.offset.saturating_add(since_boot())
    }
}

/// Which run of the machine this is; empty where it does not say.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().replace(' ', "-")).unwrap_or_default()
}

/// Milliseconds since the machine was started, those in which it slept too.
#[cfg(target_os = "linux")]
fn since_boot() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// Milliseconds since this was asked first.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> i64 {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(std::time::Instant::now).elapsed().as_millis() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    #[test]
    fn a_new_run_of_the_machine_goes_on_from_the_last_time_whatever_the_wall_says() {
        let last = 1_800_000_000_000;
        let row = format!("boot-1 {} {} {last}", last - 5_000, last - 5_000);
        for wall in [0, last - DAY, last, last + 400 * DAY] {
            let steady = Steady::from_row(&row, "boot-2".into(), wall);
            assert!((0..1_000).contains(&(steady.now() - last)), "wall {wall}: {}", steady.now());
            // That the wall is another time is no sign that somebody set it.
            assert_eq!(steady.was_set_by(wall), None);
            assert!(steady.was_set_by(wall + DAY).is_some_and(|set| (set - DAY).abs() < 1_000));
        }
        let same = Steady::from_row(&row, "boot-1".into(), 0);
        assert_eq!((same.offset, same.wall_offset), (last - 5_000, last - 5_000));
        let new = Steady::from_row("", "boot-1".into(), last);
        assert!((0..1_000).contains(&(new.now() - last)));
    }
}
