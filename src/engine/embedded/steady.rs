//! The time by which windows run and keys expire: even, whatever becomes of the clock on the wall.

use rusqlite::{Connection, OptionalExtension};

use crate::domain::Millis;

/// By how many milliseconds the clock on the wall and the steady one may differ before somebody should know.
const APART: i64 = 60_000;

/// A clock in milliseconds since 1970, as the wall said it when it was begun. It goes on over restarts of the process; after one of
/// the machine it begins anew.
#[derive(Clone, Copy)]
pub(super) struct Steady {
    /// What is to be added to [`since_boot`].
    offset: i64,
}

impl Steady {
    /// The clock of the data in this file, or a new one.
    pub fn of(conn: &Connection) -> rusqlite::Result<Steady> {
        let kept = "SELECT value FROM meta WHERE name = 'steady'";
        let kept: Option<String> = conn.query_row(kept, [], |row| row.get(0)).optional()?;
        let boot = boot();
        let of_this_boot = kept.as_deref().and_then(|text| {
            let (of, offset) = text.split_once(' ')?;
            (boot.as_deref() == Some(of)).then(|| offset.parse().ok()).flatten()
        });
        if let Some(offset) = of_this_boot {
            return Ok(Steady { offset });
        }
        let new = Steady { offset: Millis::now().0 - since_boot() };
        if let Some(boot) = boot {
            let text = format!("{boot} {}", new.offset);
            // A disk that is full keeps nobody from reading: then the next start begins anew.
            let written = conn.execute("INSERT OR REPLACE INTO meta VALUES ('steady', ?1)", [text]);
            if let Err(error) = written {
                tracing::debug!(%error, "the steady clock is not kept over a restart");
            }
        }
        Ok(new)
    }

    /// By how many milliseconds the clock on the wall is ahead, where somebody should know.
    pub fn apart(&self, wall: i64) -> Option<i64> {
        Some(wall - self.now()).filter(|apart| apart.abs() > APART)
    }

    /// The time now.
    pub fn now(&self) -> i64 {
        self.offset.saturating_add(since_boot())
    }
}

/// Which run of the machine this is.
fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
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
