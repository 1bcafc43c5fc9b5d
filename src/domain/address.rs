//! Which addresses are anybody's to reach. A webhook is sent where a stranger may have said, so it must not
//! reach what only this machine or its network should.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether `ip` is an address of the public internet: none that the registries of special-purpose addresses
/// (RFC 6890 and its updates) keep for a machine, a network, many receivers, documents or tests. An IPv6
/// address that carries an IPv4 one is what that one is.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = match (a, b, c) {
        // This network; private; loopback; multicast, reserved and broadcast.
        (0 | 10 | 127 | 224.., ..) => true,
        // Shared by the customers of a provider.
        (100, 64..=127, _) => true,
        (169, 254, _) => true,
        (172, 16..=31, _) => true,
        (192, 168, _) => true,
        // Protocols; documents; 6to4 relays.
        (192, 0, 0 | 2) | (192, 88, 99) => true,
        // Benchmarks.
        (198, 18 | 19, _) => true,
        (198, 51, 100) | (203, 0, 113) => true,
        _ => false,
    };
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let s = ip.segments();
    let carried = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // Unspecified and loopback are among the IPv4-compatible ones, which nobody uses any more.
        [0, 0, 0, 0, 0, 0, _, _] => false,
        // IPv4-mapped.
        [0, 0, 0, 0, 0, 0xffff, high, low] => carried(high, low),
        // NAT64, the well-known prefix. The local one (64:ff9b:1::/48) leads wherever its network says.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => carried(high, low),
        // 6to4.
        [0x2002, high, low, ..] => carried(high, low),
        // Protocols, Teredo, benchmarks, ORCHID: 2001::/23.
        [0x2001, 0..=0x1ff, ..] => false,
        // Documents.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Of all the rest only 2000::/3 is given out; ULA, link-local, site-local and multicast are outside.
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().unwrap())
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.1",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.1",
            "198.51.101.1",
            "203.0.112.1",
            "203.0.114.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2001:200::1",
            "2a00:1450::1",
            "3ffe::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert!(public(ip), "{ip}");
        }
    }

    #[test]
    fn addresses_of_a_machine_a_network_or_a_document_are_not() {
        for ip in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.0.0",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.170",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::ffff:169.254.169.254",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::808:808",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "2002:c0a8:101::",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(!public(ip), "{ip}");
        }
    }

    #[test]
    fn a_mapped_address_is_public_exactly_when_what_it_maps_is() {
        for n in (0..=u32::MAX).step_by(65_521) {
            let v4 = Ipv4Addr::from(n);
            assert_eq!(is_public(IpAddr::V6(v4.to_ipv6_mapped())), is_public(IpAddr::V4(v4)), "{v4}");
        }
    }
}
