//! How many of something each address has. One that has none takes no room.

use std::collections::HashMap;
use std::net::IpAddr;

/// By address; an address of none is not counted.
#[derive(Debug, Default)]
pub struct Counts(HashMap<IpAddr, usize>);

impl Counts {
    /// How many it has.
    pub fn of(&self, address: Option<IpAddr>) -> usize {
        address.and_then(|address| self.0.get(&address)).copied().unwrap_or_default()
    }

    /// It has one more.
    pub fn enter(&mut self, address: Option<IpAddr>) {
        if let Some(address) = address {
            *self.0.entry(address).or_default() += 1;
        }
    }

    /// It has one less.
    pub fn leave(&mut self, address: Option<IpAddr>) {
        if let Some(address) = address
            && let Some(count) = self.0.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&address);
            }
        }
    }

    /// Nobody has any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
