//! The thread that has the file: it commits one group after the other, and says what came of it. It is the only one that waits
//! for the disk.

use std::sync::mpsc::{Receiver, Sender};

use super::effect::Effect;
use super::events::{Event, ToDisk};
use super::file::sentence;
use super::tables::Tables;
use crate::supervise::{Beat, faults};

/// Runs until the store thread has ended.
pub(super) fn run(mut tables: Tables, work: &Receiver<ToDisk>, events: &Sender<Event>, beat: &Beat) {
    loop {
        beat.rests();
        let Ok(next) = work.recv() else { return };
        beat.works();
        let event = match next {
            ToDisk::Commit(effects, asked, now) => {
                Event::Committed(commit(&mut tables, &effects, asked, now))
            }
            ToDisk::Probe => Event::Probed(commit(&mut tables, &[], true, 0)),
        };
        // The store thread has ended: there is no one to answer.
        let _ = events.send(event);
    }
}

fn commit(tables: &mut Tables, effects: &[Effect], asked: bool, now: i64) -> Result<bool, String> {
    faults::pass_blocking("before-commit");
    if faults::fails("disk") {
        return Err("the disk of the data folder is full; a test says so".into());
    }
    let wrote = tables.commit(effects, asked, now).map_err(|error| sentence(&error))?;
    faults::pass_blocking("after-commit");
    Ok(wrote)
}
