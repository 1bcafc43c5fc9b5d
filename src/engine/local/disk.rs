//! The thread that has the file: it commits one group after the other, and says what came of it. It is the only one that waits
//! for the disk.

use std::sync::mpsc::{Receiver, Sender};
use std::time::{SystemTime, UNIX_EPOCH};

use super::effect::Effect;
use super::events::{Event, ToDisk};
use super::tables::{Tables, sentence};
use crate::supervise::{Beat, faults};

/// Until nobody is left who could bring a group.
pub(super) fn run(mut tables: Tables, work: &Receiver<ToDisk>, events: &Sender<Event>, beat: &Beat) {
    loop {
        beat.rests();
        let Ok(next) = work.recv() else { return };
        beat.works();
        let event = match next {
            ToDisk::Commit(effects, asked) => Event::Committed(commit(&mut tables, &effects, asked)),
            ToDisk::Probe => Event::Probed(commit(&mut tables, &[], true)),
        };
        // Whoever waited for it has ended.
        let _ = events.send(event);
    }
}

fn commit(tables: &mut Tables, effects: &[Effect], asked: bool) -> Result<(), String> {
    faults::pass_blocking("before-commit");
    if faults::fails("disk") {
        return Err("the disk of the data folder is full; a test says so".into());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    tables.commit(effects, asked, now).map_err(|error| sentence(&error))?;
    faults::pass_blocking("after-commit");
    Ok(())
}
