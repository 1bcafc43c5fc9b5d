//! Watching (contract section 3).

mod frames;
