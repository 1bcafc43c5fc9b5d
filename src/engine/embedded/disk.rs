//! The thread that has the file: it commits one group after the other, and says what came of it. It is the only one that waits
//! for the disk.

use std::sync::mpsc::{Receiver, Sender};

use super::effect::Effect;
use super::events::{StoreEvent, ToDisk};
use super::file::sentence;
use super::tables::Tables;
use crate::engine::folder::OpenFiles;
use crate::supervise::{Beat, faults};

/// Runs until the store thread has ended. `files` are those that `tables` has open.
pub(super) fn run(
    mut tables: Tables,
    files: &OpenFiles,
    work: &Receiver<ToDisk>,
    events: &Sender<StoreEvent>,
    beat: &Beat,
) {
    loop {
        beat.rests();
        let Ok(next) = work.recv() else { break };
        beat.works();
        let event = match next {
            ToDisk::Commit(effects, asked, now) => {
                StoreEvent::Committed(commit(&mut tables, files, &effects, asked, now))
            }
            // The write-ahead log begins anew after a commit that failed, so a few writes would go on a disk that is still full.
            ToDisk::Probe => {
                StoreEvent::Probed(files.have_room().and_then(|()| commit(&mut tables, files, &[], true, 0)))
            }
        };
        // The store thread has ended: there is no one to answer.
        let _ = events.send(event);
    }
    tables.close();
}

fn commit(
    tables: &mut Tables,
    files: &OpenFiles,
    effects: &[Effect],
    asked: bool,
    now: i64,
) -> Result<bool, String> {
    // A commit into files that have no name any more succeeds, and is gone with the process.
    files.are_in_place()?;
    faults::pass_blocking("before-commit");
    if faults::fails("disk") {
        return Err("the disk of the data folder is full; a test says so".into());
    }
    let wrote = tables.commit(effects, asked, now).map_err(|error| sentence(&error))?;
    faults::pass_blocking("after-commit");
    Ok(wrote)
}
