//! `tipcast store`: what an operator does with the files of the embedded store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::store::target_options;
use crate::config::Config;
use crate::console;
use crate::engine::embedded::FolderContent;
use crate::engine::embedded::files::{self, Report};
use crate::engine::embedded::recover::{Recovered, recover};
use crate::engine::store::{MoveProgress, Moved, list_fits, move_folder, owner_of_key};

/// What is to be done.
#[derive(Clone, Debug)]
pub enum StoreJob {
    /// Look whether everything that is stored can be read.
    Check,
    /// Copy it to this file.
    Backup(PathBuf),
    /// Restore it from this file.
    Restore(PathBuf),
    /// Copy what can be read of it to a new file.
    Recover,
    /// Copy all of it into a Redis.
    Move {
        /// As `[redis] url`, which it is when this is left out.
        to: Option<String>,
        /// As `[redis] prefix`, where that is to be another.
        prefix: Option<String>,
        /// Go on where a run was interrupted.
        resume: bool,
    },
}

/// Why it was not done, or what is wrong with what is stored.
#[derive(Debug)]
pub enum StoreJobError {
    /// It cannot be done; says why and what to do.
    Failed(String),
    /// What is stored is damaged; names every feed that it concerns.
    Damaged(String),
}

impl fmt::Display for StoreJobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreJobError::Failed(why) | StoreJobError::Damaged(why) => f.write_str(why),
        }
    }
}

/// Does it in the data folder of `config`. Returns a text for the operator.
pub fn run_store_job(config: &Config, job: &StoreJob) -> Result<String, StoreJobError> {
    let failed = StoreJobError::Failed;
    // To where a move goes is often configured already.
    if !config.redis.url.is_empty() && !matches!(job, StoreJob::Move { .. }) {
        return Err(failed(
            "this configuration keeps its feeds in Redis, which has backups of its own; `tipcast store` is for a data \
             folder: leave out --redis and [redis] url"
                .into(),
        ));
    }
    let dir = Path::new(&config.embedded.data_dir);
    let shown = dir.display();
    match job {
        StoreJob::Check => {
            let report = files::check(dir, owner_of_key).map_err(failed)?;
            match damage(&report) {
                None => Ok(format!("{shown}: {} feeds, all of them whole", report.feeds)),
                Some(damage) => Err(StoreJobError::Damaged(format!(
                    "{shown}: {} feeds; damaged:\n{damage}\n{} To have these back, stop it, and `tipcast store recover` copies \
                     what can be read into a new file; or move the folder away, and `tipcast store restore` a backup in its \
                     place",
                    report.feeds,
                    match report.shared.is_empty() {
                        true => "A gateway serves all others.",
                        false => "A gateway does not start on it.",
                    }
                ))),
            }
        }
        StoreJob::Recover => {
            let Some(recovered) = recover(dir, owner_of_key, list_fits).map_err(failed)? else {
                return Ok(format!(
                    "{shown}: nothing is damaged, and nothing was changed; a gateway can be started on it"
                ));
            };
            Ok(format!(
                "{} feeds of {shown} are in a new file, each with a new epoch; a gateway can be started on it. The damaged file is \
                 {}: remove it when you do not need it any more.\n{}",
                recovered.feeds,
                recovered.aside.display(),
                losses(&recovered)
            ))
        }
        StoreJob::Backup(to) => {
            let report = files::backup(dir, to, owner_of_key).map_err(failed)?;
            Ok(format!("{} feeds of {shown} are in {}{}", report.feeds, to.display(), warning(&report)))
        }
        StoreJob::Restore(from) => {
            let report = files::restore(dir, from, owner_of_key).map_err(failed)?;
            Ok(format!(
                "{} feeds of {} are in {shown}, each with a new epoch; a gateway can be started on it{}",
                report.feeds,
                from.display(),
                warning(&report)
            ))
        }
        StoreJob::Move { to, prefix, resume } => {
            relocate(config, to.as_deref(), prefix.as_deref(), *resume).map_err(failed)
        }
    }
}

/// How often a line says how far a move is.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Moves the folder, and says on standard error how far it is.
fn relocate(
    config: &Config,
    to: Option<&str>,
    prefix: Option<&str>,
    resumed: bool,
) -> Result<String, String> {
    let mut config = config.clone();
    if let Some(to) = to {
        to.clone_into(&mut config.redis.url);
    }
    if config.redis.url.is_empty() {
        return Err(
            "say where to: --to URL, or [redis] url in the file that --config names, or TIPCAST_REDIS__URL"
                .into(),
        );
    }
    if let Some(prefix) = prefix {
        prefix.clone_into(&mut config.redis.prefix);
    }
    let content = FolderContent::read(Path::new(&config.embedded.data_dir), owner_of_key)?;
    let (begun, mut said) = (Instant::now(), Instant::now());
    let mut show_progress = |MoveProgress { compares, done, all }| {
        if done == all || said.elapsed() >= SAY_EVERY {
            let what = if compares { "compared" } else { "copied" };
            console::complain(format!("{what} {done} of {all} keys, {} s", begun.elapsed().as_secs()));
            said = Instant::now();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("no runtime for connections: {e}"))?;
    let moved =
        runtime.block_on(move_folder(&content, &target_options(&config), resumed, &mut show_progress));
    let Moved { feeds, keys } = moved?;
    Ok(format!("moved {feeds} feeds, {keys} keys"))
}

/// A line for everything that could not be saved.
fn losses(recovered: &Recovered) -> String {
    let feeds = recovered.lost.iter().map(|(feed, what)| format!("  feed {feed}: {what}"));
    let shared = recovered.shared.iter().map(|what| format!("  of no feed alone: {what}"));
    let lines: Vec<String> = feeds.chain(shared).collect();
    match lines.is_empty() {
        true => "Nothing is lost.".into(),
        false => format!("What is lost, or may be:\n{}", lines.join("\n")),
    }
}

/// A line for everything that is damaged.
fn damage(report: &Report) -> Option<String> {
    let feeds = report.damaged.iter().map(|(feed, what)| format!("  feed {feed}: {what}"));
    let shared = report.shared.iter().map(|what| format!("  of no feed alone: {what}"));
    let lines: Vec<String> = feeds.chain(shared).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn warning(report: &Report) -> String {
    damage(report).map_or(String::new(), |damage| {
        format!("\nwarning: it holds damage as it was found, which a gateway answers 503 for:\n{damage}")
    })
}
