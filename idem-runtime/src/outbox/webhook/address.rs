//! Which addresses a webhook may go to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Whether an address that is not of the public internet may be connected to all the same.
pub(super) type Allow = fn(IpAddr) -> bool;

/// The host has no address that may be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: not an address of the public internet")]
pub(super) struct Forbidden(pub(super) IpAddr);

pub(super) fn check(address: IpAddr, allow: Allow) -> Result<(), Forbidden> {
    if is_public(address) || allow(address) {
        Ok(())
    } else {
        Err(Forbidden(address))
    }
}

/// Hands on what may be connected to. The client connects to these addresses and asks nobody again, so that a name can't change
/// between the check and the connection.
pub(super) struct Guarded {
    inner: Arc<dyn Resolve>,
    allow: Allow,
}

impl Guarded {
    pub(super) fn new(inner: Arc<dyn Resolve>, allow: Allow) -> Self {
        Self { inner, allow }
    }
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let resolving = self.inner.resolve(name);
        let allow = self.allow;
        Box::pin(async move {
            let mut allowed = Vec::new();
            let mut forbidden = None;
            for address in resolving.await? {
                match check(address.ip(), allow) {
                    Ok(()) => allowed.push(address),
                    Err(error) => forbidden = Some(error),
                }
            }
            match forbidden {
                Some(error) if allowed.is_empty() => Err(error.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

/// The system's resolver.
pub(super) struct System;

impl Resolve for System {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            // The client puts the URL's port in its place.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}

/// Whether the IANA registries of special-purpose addresses (RFC 6890) have nothing about it.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special: &[([u8; 4], u32)] = &[
        ([0, 0, 0, 0], 8),       // this host
        ([10, 0, 0, 0], 8),      // private
        ([100, 64, 0, 0], 10),   // shared, carriers and clouds
        ([127, 0, 0, 0], 8),     // loopback
        ([169, 254, 0, 0], 16),  // link-local, clouds' metadata
        ([172, 16, 0, 0], 12),   // private
        ([192, 0, 0, 0], 24),    // protocols
        ([192, 0, 2, 0], 24),    // documentation
        ([192, 88, 99, 0], 24),  // relays of 6to4
        ([192, 168, 0, 0], 16),  // private
        ([198, 18, 0, 0], 15),   // benchmarks
        ([198, 51, 100, 0], 24), // documentation
        ([203, 0, 113, 0], 24),  // documentation
        ([224, 0, 0, 0], 3),     // multicast, reserved, broadcast
    ];
    let bits = address.to_bits();
    !special.iter().any(|(network, length)| {
        let mask = u32::MAX << (32 - length);
        bits & mask == u32::from_be_bytes(*network)
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    let last = |low: u16, high: u16| {
        let [a, b] = low.to_be_bytes();
        let [c, d] = high.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        // NAT64: the gateway connects to the IPv4 address in it.
        [0x64, 0xff9b, 0, 0, 0, 0, low, high] => is_public_v4(last(low, high)),
        // 6to4, the same.
        [0x2002, low, high, ..] => is_public_v4(last(low, high)),
        // Protocols, Teredo among them; documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // All that is public is in 2000::/3: not loopback, unique local, link-local or multicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_public_internet_are_told_from_all_others() {
        for (public, addresses) in [
            (
                true,
                &[
                    "1.1.1.1",
                    "9.255.255.255",
                    "11.0.0.0",
                    "100.63.255.255",
                    "100.128.0.0",
                    "172.15.255.255",
                    "172.32.0.0",
                    "192.0.1.0",
                    "198.17.255.255",
                    "198.20.0.0",
                    "223.255.255.255",
                    "2606:4700::1111",
                    "2001:200::1",
                    "2a00::1",
                    "::ffff:1.1.1.1",
                    "64:ff9b::1.1.1.1",
                    "2002:101:101::1",
                ][..],
            ),
            (
                false,
                &[
                    "0.0.0.0",
                    "0.1.2.3",
                    "10.0.0.1",
                    "100.64.0.1",
                    "100.100.100.200",
                    "127.0.0.1",
                    "127.255.255.254",
                    "169.254.169.254",
                    "172.16.0.1",
                    "172.31.255.255",
                    "192.0.0.192",
                    "192.168.1.1",
                    "198.19.0.1",
                    "224.0.0.1",
                    "240.0.0.1",
                    "255.255.255.255",
                    "::",
                    "::1",
                    "::127.0.0.1",
                    "::ffff:127.0.0.1",
                    "::ffff:10.0.0.1",
                    "::ffff:169.254.169.254",
                    "64:ff9b::127.0.0.1",
                    "64:ff9b:1::1",
                    "2002:7f00:1::1",
                    "2002:a00:1::1",
                    "2001::1",
                    "2001:db8::1",
                    "3fff::1",
                    "5f00::1",
                    "fc00::1",
                    "fd00:ec2::254",
                    "fe80::1",
                    "fec0::1",
                    "ff02::1",
                ][..],
            ),
        ] {
            for address in addresses {
                assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
            }
        }
    }

    #[test]
    fn an_address_is_forbidden_unless_it_is_public_or_allowed() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(check(loopback, |_| false), Err(Forbidden(loopback)));
        assert_eq!(check(loopback, |address| address.is_loopback()), Ok(()));
        assert_eq!(check(IpAddr::from([1, 1, 1, 1]), |_| false), Ok(()));
    }
}
