//! What the engine does for each operation, in files named as those of `engine`.

mod drops;
mod due;
mod feeds;
mod moderation;
mod presence;
mod probe;
mod reports;
mod requests;
mod review;
mod sources;
mod totals;
mod viewers;
