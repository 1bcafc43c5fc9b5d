//! The engine's traits, each kept by one part of the engine.

mod drops;
mod due;
mod feeds;
mod moderation;
mod presence;
mod reports;
mod requests;
mod review;
mod sources;
mod totals;
mod viewers;
