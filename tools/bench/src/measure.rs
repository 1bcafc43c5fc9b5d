//! One run from its first look at the server to its report.

use std::time::Duration;

use crate::BenchError;
use crate::dialect::Dialect;
use crate::options::{LoadOptions, Target};
use crate::process::Processes;
use crate::report::Report;
use crate::run::Load;

/// Descriptors that are not watchers' or producers'.
const OTHER_FILES: u64 = 32;

/// Loads a server and gives what was measured.
pub fn measure<'a>(
    options: &LoadOptions,
    target: &Target,
    dialect: &'a dyn Dialect,
) -> Result<(Report, KeptOpen<'a>), BenchError> {
    let shape = options.shape();
    enough_files(u64::from(options.watchers) + shape.producers as u64)?;
    let server = Processes::find(&options.pid).map_err(|e| BenchError::Usage(e.to_string()))?;
    let stands = dialect.prepare(shape.feeds)?;
    let mut load = Load::new(options, target, dialect, server, &stands)?;
    if options.storm {
        let stormed = load.storm(options, shape, &stands)?;
        load.progress.clear();
        return Ok((Report::storm(options, stormed), KeptOpen(load)));
    }
    let connected = load.connect(options)?;
    if options.idle {
        let quiet = load.look()?;
        load.hear_for(options.run())?;
        let idle = load.look()?;
        load.progress.clear();
        let report = Report::idle(options, connected, idle.cpu - quiet.cpu, load.crowd.ended);
        return Ok((report, KeptOpen(load)));
    }
    let measured = load.send(options, shape, &stands)?;
    load.progress.clear();
    let report = Report::loaded(options, connected, measured);
    Ok((report, KeptOpen(load)))
}

/// The watchers after a run; they close when it is dropped.
pub struct KeptOpen<'a>(Load<'a>);

impl KeptOpen<'_> {
    /// Reads on until the process is stopped.
    pub fn wait(mut self) -> Result<(), BenchError> {
        loop {
            self.0.turn(Duration::from_secs(1))?;
        }
    }
}

fn enough_files(sockets: u64) -> Result<(), BenchError> {
    let needed = sockets + OTHER_FILES;
    let limit = rlimit::increase_nofile_limit(u64::MAX)?;
    if limit < needed {
        return Err(BenchError::Usage(format!(
            "this needs {needed} open files and may have {limit}: raise the limit (ulimit -n), or take fewer watchers"
        )));
    }
    Ok(())
}
