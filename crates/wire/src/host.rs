//! Born host and store host of a message: an address and a port.
//!
//! ```text
//! IPv4   4 bytes address   i32 port     8 bytes
//! IPv6  16 bytes address   i32 port    20 bytes
//! ```
//!
//! The bytes do not show which of the two forms they have; a bit of the message's sysFlag does. The port is kept as the
//! signed number that was stored: a record with a port outside the range of sockets is still a record.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Encoded length of a host with an IPv4 address.
pub const V4_LEN: usize = 8;
/// Encoded length of a host with an IPv6 address.
pub const V6_LEN: usize = 20;

/// Address and port as stored in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// Address; its family determines the encoded length.
    pub ip: IpAddr,
    /// Port, as stored.
    pub port: i32,
}

impl Host {
    /// `0.0.0.0:0`, for records whose hosts do not matter.
    pub const UNSPECIFIED: Host = Host { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: 0 };

    /// Creates a host from `ip` and `port`.
    #[inline]
    pub const fn new(ip: IpAddr, port: i32) -> Host {
        Host { ip, port }
    }

    /// True if the address is IPv6.
    #[inline]
    pub const fn is_v6(&self) -> bool {
        matches!(self.ip, IpAddr::V6(_))
    }

    /// Returns 8 or 20.
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        if self.is_v6() { V6_LEN } else { V4_LEN }
    }

    /// Writes the host to the front of `out` and returns the rest of it.
    ///
    /// # Panics
    /// If `out` is shorter than [`Host::encoded_len`].
    #[inline]
    pub fn encode_into<'o>(&self, out: &'o mut [u8]) -> &'o mut [u8] {
        match self.ip {
            IpAddr::V4(ip) => {
                let (bytes, rest) = out.split_first_chunk_mut::<V4_LEN>().expect("room for an IPv4 host");
                bytes[..4].copy_from_slice(&ip.octets());
                bytes[4..].copy_from_slice(&self.port.to_be_bytes());
                rest
            }
            IpAddr::V6(ip) => {
                let (bytes, rest) = out.split_first_chunk_mut::<V6_LEN>().expect("room for an IPv6 host");
                bytes[..16].copy_from_slice(&ip.octets());
                bytes[16..].copy_from_slice(&self.port.to_be_bytes());
                rest
            }
        }
    }

    /// Reads a host of the given family from the front of `bytes`; also returns the bytes after it. Returns `None` if
    /// the bytes are too few.
    #[inline]
    pub fn decode(bytes: &[u8], v6: bool) -> Option<(Host, &[u8])> {
        let (ip, rest) = if v6 {
            let (ip, rest) = bytes.split_first_chunk::<16>()?;
            (IpAddr::V6(Ipv6Addr::from(*ip)), rest)
        } else {
            let (ip, rest) = bytes.split_first_chunk::<4>()?;
            (IpAddr::V4(Ipv4Addr::from(*ip)), rest)
        };
        let (port, rest) = rest.split_first_chunk::<4>()?;
        Some((Host { ip, port: i32::from_be_bytes(*port) }, rest))
    }
}

impl fmt::Display for Host {
    /// Writes `10.1.2.3:10911` or `[::1]:10911`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            IpAddr::V4(ip) => write!(f, "{ip}:{}", self.port),
            IpAddr::V6(ip) => write!(f, "[{ip}]:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(host: Host, expected: &[u8]) {
        let mut out = vec![0xEE; expected.len() + 1];
        let rest = host.encode_into(&mut out);
        assert_eq!(rest, [0xEE], "exactly the encoded length is written");
        assert_eq!(&out[..expected.len()], expected);
        assert_eq!(Host::decode(&out, host.is_v6()), Some((host, &[0xEE][..])));
        for end in 0..expected.len() {
            assert_eq!(Host::decode(&out[..end], host.is_v6()), None, "{end} bytes");
        }
    }

    #[test]
    fn ipv4() {
        let host = Host::new(Ipv4Addr::new(10, 1, 2, 3).into(), 10911);
        round_trip(host, &[10, 1, 2, 3, 0, 0, 0x2A, 0x9F]);
        assert_eq!(host.to_string(), "10.1.2.3:10911");
    }

    #[test]
    fn ipv6() {
        let host = Host::new("fe80::1".parse().unwrap(), 80);
        let mut expected = [0u8; 20];
        (expected[0], expected[1], expected[15], expected[19]) = (0xFE, 0x80, 1, 80);
        round_trip(host, &expected);
        assert_eq!(host.to_string(), "[fe80::1]:80");
    }
}
