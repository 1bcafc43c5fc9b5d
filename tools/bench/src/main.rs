//! `tipcast-bench`: its command line.

use std::process::ExitCode;

use clap::Parser;
use tipcast_bench::{BenchError, BenchOptions, run};

fn main() -> ExitCode {
    match run(BenchOptions::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tipcast-bench: {error}");
            ExitCode::from(if matches!(error, BenchError::Usage(_)) { 2 } else { 1 })
        }
    }
}
