//! Message ids, as text in upper-case hexadecimal.
//!
//! ```text
//! offset id (given by the broker: where the message is stored)
//!     ip 4 | 16    i32 port    i64 physical offset                             16 | 28 bytes
//! unique id (given by the producer: property UNIQ_KEY)
//!     ip 4 | 16    u16 pid     i32 class loader hash   i32 ms   u16 counter    16 | 28 bytes
//! ```
//!
//! So both kinds have 32 digits with an IPv4 address and 56 with an IPv6 one, and only the context shows which kind an
//! id is. `ms` counts from midnight local time on the first of the month in which the producer started (or of the last
//! new month that it detected). So the creation time can be computed from a unique id only with its month and time
//! zone.

use std::net::IpAddr;

use thiserror::Error;

use crate::host::Host;

/// Number of digits of an id with an IPv4 address.
const V4_DIGITS: usize = 32;
/// Number of digits of an id with an IPv6 address.
const V6_DIGITS: usize = 56;

/// Reason why a text is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IdError {
    /// Neither 32 nor 56 characters.
    #[error("message id of {0} characters, 32 or 56 expected")]
    Length(usize),
    /// A character that is not a hexadecimal digit.
    #[error("message id has a character that is not a hexadecimal digit")]
    Digit,
}

/// Position of a stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetId {
    /// Broker that stores it.
    pub store_host: Host,
    /// Position in that broker's commit log.
    pub physical_offset: i64,
}

impl OffsetId {
    /// Returns the id as text.
    pub fn encode(&self) -> String {
        let mut bytes = [0; V6_DIGITS / 2];
        let len = self.store_host.encoded_len() + 8;
        let rest = self.store_host.encode_into(&mut bytes);
        rest[..8].copy_from_slice(&self.physical_offset.to_be_bytes());
        to_hex(&bytes[..len])
    }

    /// Appends the id's text to `out`, for columns of ids.
    #[inline]
    pub fn encode_to(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; V6_DIGITS / 2];
        let len = self.store_host.encoded_len() + 8;
        let rest = self.store_host.encode_into(&mut bytes);
        rest[..8].copy_from_slice(&self.physical_offset.to_be_bytes());
        let mut text = [0; V6_DIGITS];
        for (digits, &byte) in text.chunks_exact_mut(2).zip(&bytes[..len]) {
            digits.copy_from_slice(&hex_digits(byte));
        }
        out.extend_from_slice(&text[..2 * len]);
    }

    /// Reads an id, in upper or lower case.
    pub fn parse(text: &str) -> Result<OffsetId, IdError> {
        let mut bytes = [0; V6_DIGITS / 2];
        let bytes = from_hex(text, &mut bytes)?;
        // from_hex accepts only the two lengths, so both reads have enough bytes.
        let (store_host, rest) = Host::decode(bytes, text.len() == V6_DIGITS).ok_or(IdError::Length(text.len()))?;
        let &offset = rest.first_chunk::<8>().ok_or(IdError::Length(text.len()))?;
        Ok(OffsetId { store_host, physical_offset: i64::from_be_bytes(offset) })
    }
}

/// Parts of a producer's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UniqueId {
    /// Address of the producer.
    pub ip: IpAddr,
    /// Lower half of its process id.
    pub pid: u16,
    /// In Java the hash code of a class loader; elsewhere any number that distinguishes two producers of one process.
    pub class_loader_hash: i32,
    /// Milliseconds since the beginning of the month.
    pub month_ms: i32,
    /// Counts messages, wraps around.
    pub counter: u16,
}

impl UniqueId {
    /// Returns the id as text.
    pub fn encode(&self) -> String {
        let mut bytes = [0; V6_DIGITS / 2];
        let (ip, rest) = match self.ip {
            IpAddr::V4(ip) => {
                let (front, rest) = bytes.split_at_mut(4);
                front.copy_from_slice(&ip.octets());
                (4, rest)
            }
            IpAddr::V6(ip) => {
                let (front, rest) = bytes.split_at_mut(16);
                front.copy_from_slice(&ip.octets());
                (16, rest)
            }
        };
        rest[0..2].copy_from_slice(&self.pid.to_be_bytes());
        rest[2..6].copy_from_slice(&self.class_loader_hash.to_be_bytes());
        rest[6..10].copy_from_slice(&self.month_ms.to_be_bytes());
        rest[10..12].copy_from_slice(&self.counter.to_be_bytes());
        to_hex(&bytes[..ip + 12])
    }

    /// Reads an id, in upper or lower case.
    pub fn parse(text: &str) -> Result<UniqueId, IdError> {
        let mut bytes = [0; V6_DIGITS / 2];
        let bytes = from_hex(text, &mut bytes)?;
        let wrong = || IdError::Length(text.len());
        let (&[p1, p0, h3, h2, h1, h0, m3, m2, m1, m0, c1, c0], ip) = {
            let (ip, rest) = bytes.split_last_chunk::<12>().ok_or_else(wrong)?;
            (rest, ip)
        };
        let ip = match (<[u8; 4]>::try_from(ip), <[u8; 16]>::try_from(ip)) {
            (Ok(ip), _) => IpAddr::from(ip),
            (_, Ok(ip)) => IpAddr::from(ip),
            _ => return Err(wrong()),
        };
        Ok(UniqueId {
            ip,
            pid: u16::from_be_bytes([p1, p0]),
            class_loader_hash: i32::from_be_bytes([h3, h2, h1, h0]),
            month_ms: i32::from_be_bytes([m3, m2, m1, m0]),
            counter: u16::from_be_bytes([c1, c0]),
        })
    }
}

#[inline]
fn hex_digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xF)]]
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|&byte| hex_digits(byte)).map(char::from).collect()
}

/// Decodes the bytes of `text`, which must have one of the two lengths.
fn from_hex<'o>(text: &str, out: &'o mut [u8; V6_DIGITS / 2]) -> Result<&'o [u8], IdError> {
    if !matches!(text.len(), V4_DIGITS | V6_DIGITS) {
        return Err(IdError::Length(text.len()));
    }
    let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8).ok_or(IdError::Digit);
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(&out[..text.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_ids() {
        let id =
            |ip: &str, physical_offset| OffsetId { store_host: Host::new(ip.parse().unwrap(), 10911), physical_offset };
        for (id, text) in [
            (id("192.168.1.10", 123_456_789), "C0A8010A00002A9F00000000075BCD15"),
            (id("10.1.2.3", 452), "0A01020300002A9F00000000000001C4"),
            (id("2001:db8::1", -1), "20010DB800000000000000000000000100002A9FFFFFFFFFFFFFFFFF"),
        ] {
            assert_eq!(id.encode(), text);
            let mut column = b"before".to_vec();
            id.encode_to(&mut column);
            assert_eq!(column, format!("before{text}").into_bytes());
            assert_eq!(OffsetId::parse(text), Ok(id));
            assert_eq!(OffsetId::parse(&text.to_lowercase()), Ok(id));
        }
    }

    #[test]
    fn unique_ids() {
        let id = UniqueId {
            ip: "127.0.0.1".parse().unwrap(),
            pid: 0xFEDC,
            class_loader_hash: 0x18B4_AAC2,
            month_ms: 1,
            counter: 0xFFFF,
        };
        assert_eq!(id.encode(), "7F000001FEDC18B4AAC200000001FFFF");
        let v6 = UniqueId { ip: "fe80::1".parse().unwrap(), class_loader_hash: -1, ..id };
        assert_eq!(v6.encode(), "FE800000000000000000000000000001FEDCFFFFFFFF00000001FFFF");
        for id in [id, v6] {
            assert_eq!(UniqueId::parse(&id.encode()), Ok(id));
        }
    }

    #[test]
    fn what_is_not_an_id() {
        for len in [0, 31, 33, 40, 55, 57] {
            assert_eq!(OffsetId::parse(&"0".repeat(len)), Err(IdError::Length(len)));
            assert_eq!(UniqueId::parse(&"0".repeat(len)), Err(IdError::Length(len)));
        }
        assert_eq!(OffsetId::parse("G0A8010A00002A9F00000000075BCD15"), Err(IdError::Digit));
        assert_eq!(UniqueId::parse("中0A8010A00002A9F00000000075BCD1"), Err(IdError::Length(33)));
        assert_eq!(UniqueId::parse("中0A8010A00002A9F00000000075BCD"), Err(IdError::Digit));
    }
}
