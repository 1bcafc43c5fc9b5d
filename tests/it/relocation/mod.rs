//! `tipcast store move`: what one machine kept goes on in a Redis or a cluster.

mod interrupted;
mod kinds;
mod refused;

use std::path::Path;

use crate::support::app::Backing;
use crate::support::process::Process;
use crate::support::stores::{Corner, Storage};

/// Where somebody moves to: the URL, and what keys begin with.
struct Target {
    url: String,
    prefix: String,
    /// Kept for as long as it is used.
    store: Storage,
}

impl Target {
    fn of(store: Storage) -> Target {
        let (url, prefix) = match &store {
            Storage::Redis(Corner { server, prefix }) => (server.url(), prefix.clone()),
            Storage::Cluster(cluster, prefix) => (cluster.url(), prefix.clone()),
            Storage::Model(_) | Storage::Embedded(_) => panic!("nobody moves there"),
        };
        Target { url, prefix, store }
    }

    /// Starts a gateway on it.
    fn gateway(&self) -> Process {
        let (args, env) = self.settings();
        Process::start("127.0.0.1:0", args, env)
    }

    fn settings(&self) -> (Vec<String>, Vec<(String, String)>) {
        let args = vec!["--redis".into(), self.url.clone()];
        (args, vec![("TIPCAST_REDIS__PREFIX".into(), self.prefix.clone())])
    }

    /// The command line that moves a folder to it.
    fn command(&self, dir: &Path, more: &[&str]) -> Vec<String> {
        let dir = dir.display().to_string();
        let words = ["store", "move", "--data-dir", &dir, "--to", &self.url, "--prefix", &self.prefix];
        words.iter().chain(more).map(|word| word.to_string()).collect()
    }

    /// Moves a folder to it: the exit code, and what was said.
    fn take(&self, dir: &Path, more: &[&str]) -> (Option<i32>, String) {
        let (status, said) = Process::run(&self.command(dir, more));
        (status.code(), said)
    }
}

/// Moves a folder, and gives the store that has it then.
pub fn moved(dir: &Path, store: Storage) -> Storage {
    let target = Target::of(store);
    let (code, said) = target.take(dir, &[]);
    assert!(code == Some(0) && said.contains("moved "), "{said}");
    target.store
}

fn folder_of(backing: &Backing) -> &Path {
    let Backing::Folder(dir) = backing else { panic!("it is in Redis") };
    dir.path()
}

/// Stops a gateway as an operator does.
pub fn stop(mut gateway: Process) {
    gateway.terminate();
    assert!(gateway.wait().success());
}
