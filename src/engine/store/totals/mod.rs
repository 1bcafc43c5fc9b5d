//! What feeds count.

pub(crate) mod counting;
pub(crate) mod known_rankings;
mod methods;
