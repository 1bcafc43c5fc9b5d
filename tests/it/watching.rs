//! Watching (contract section 3).

mod compressed;
mod frames;
mod goodbye;
mod hanging_up;
mod keepalive;
mod many_feeds;
mod resuming;
mod rude_clients;
mod slow_readers;
mod sse;
mod timing;
mod way_in;
mod without_totals;
