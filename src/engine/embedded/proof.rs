//! Whether the disk takes writes, as far as that was found out.

use super::db::Db;
use super::fault::Step;
use super::journal::Journal;

/// What a probe writes after the disk had refused: more than most calls do.
const FILLER: usize = 1 << 20;

/// See the module.
#[derive(Default)]
pub(super) struct Proof {
    /// Commits that wrote something since the last probe.
    commits: u64,
    /// True after the disk had refused, until a probe has proved that there is room again.
    refused: bool,
    /// True when the group that is committed next holds a probe.
    probing: bool,
}

impl Proof {
    /// A group was committed; whether it wrote anything.
    pub(super) fn committed(&mut self, wrote: bool) {
        self.commits += u64::from(wrote);
        self.refused &= !std::mem::take(&mut self.probing);
    }

    /// A group was taken back, with its probe.
    pub(super) fn taken_back(&mut self) {
        self.probing = false;
    }

    /// The disk refuses.
    pub(super) fn refused(&mut self) {
        self.refused = true;
    }

    /// True after the disk had refused, until a probe has proved that a write is possible again.
    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Proves that a write is possible now: by those that were, or by writing.
    pub(super) fn probe(&mut self, db: &Db, journal: &mut Journal) -> Step<()> {
        if !self.refused && std::mem::take(&mut self.commits) > 0 {
            return Ok(());
        }
        db.begin()?;
        self.probing = true;
        let filler = vec![0x54; if self.refused { FILLER } else { 0 }];
        let sql =
            "INSERT OR REPLACE INTO probe VALUES (1, 1 + coalesce((SELECT count FROM probe), 0), ?1, 0)";
        if self.refused {
            journal.prove(&filler)?;
        }
        db.run(sql, [filler])?;
        let sql = "UPDATE probe SET seal = seal(one, count, filler)";
        db.run(sql, []).map(drop)
    }
}
