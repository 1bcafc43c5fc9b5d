//! How many of something each address has. One that has none takes no room.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

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

/// What limits count as one address: of IPv6 the /64 network, which one household or machine has whole.
pub fn counted(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let ip = |text: &str| counted(text.parse().unwrap());
        assert_eq!(ip("2001:db8:1:2:3:4:5:6"), ip("2001:db8:1:2::1"));
        assert_ne!(ip("2001:db8:1:3::1"), ip("2001:db8:1:2::1"));
        assert_ne!(ip("1.2.3.4"), ip("1.2.3.5"));
        assert!(ip("::1").is_loopback());
    }
}
