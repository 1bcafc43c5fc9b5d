//! What nodes say of themselves, all in one slot: they are of no feed.

mod report;
