//! What a store can do, a file for each subject.

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
