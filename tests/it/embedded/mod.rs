//! The store in the process: its commands and its file, clocks that are set, records that rot, disks that fill up, kills.

mod batches_killed;
pub mod clock;
mod commands;
mod file;
mod memory;
mod power_loss;
mod recover;
mod running;
mod store_command;
