//! `tipcast store`: what an operator does with the files of the embedded store.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::engine::embedded::files::{self, Report};
use crate::engine::embedded::recover::{Recovered, recover};
use crate::engine::store::{list_fits, owner_of_key};

/// What is to be done.
#[derive(Clone, Debug)]
pub enum StoreJob {
    /// Look whether everything that is stored can be read.
    Check,
    /// Copy it to this file.
    Backup(PathBuf),
    /// Bring it back from this file.
    Restore(PathBuf),
    /// Copy what can be read of it to a new file.
    Recover,
}

/// Why it was not done, or what is wrong with what is stored.
#[derive(Debug)]
pub enum StoreError {
    /// It cannot be done; says why and what to do.
    Failed(String),
    /// What is stored is damaged; names every feed that it concerns.
    Damaged(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Failed(why) | StoreError::Damaged(why) => f.write_str(why),
        }
    }
}

/// Does it in the data folder of `config`. What to tell the operator.
pub fn store(config: &Config, job: &StoreJob) -> Result<String, StoreError> {
    let failed = StoreError::Failed;
    if !config.redis.url.is_empty() {
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
                Some(told) => Err(StoreError::Damaged(format!(
                    "{shown}: {} feeds; damaged:\n{told}\n{} To have these back, stop it, and `tipcast store recover` copies \
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
            let recovered = recover(dir, owner_of_key, list_fits).map_err(failed)?;
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
    }
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
    damage(report).map_or(String::new(), |told| {
        format!("\nwarning: it holds damage as it was found, which a gateway answers 503 for:\n{told}")
    })
}
