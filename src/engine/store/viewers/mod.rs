//! Viewers and their requests.

mod methods;
pub(crate) mod presence;
pub(crate) mod requests;
pub(crate) mod revocations;
