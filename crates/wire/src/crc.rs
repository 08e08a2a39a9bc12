//! Checksum of a message body.
//!
//! RocketMQ stores the ordinary CRC-32 (IEEE 802.3, the one of zlib) with its top bit cleared. So the value is never
//! negative in a signed 32-bit field. An empty body has checksum 0.

/// Returns the CRC-32 of `body` with the sign bit cleared, as in a record's BODYCRC field.
#[inline]
pub fn body_crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7FFF_FFFF
}

#[cfg(test)]
mod tests {
    use super::body_crc;

    #[test]
    fn sign_bit_is_cleared() {
        assert_eq!(body_crc(b"hello"), 0x3610_A686);
        assert_eq!(body_crc(b"delay"), 0x329A_809B, "the plain CRC is b29a809b");
    }

    #[test]
    fn empty_body_is_zero() {
        assert_eq!(body_crc(b""), 0);
    }
}
