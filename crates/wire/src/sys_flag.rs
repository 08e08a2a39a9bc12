//! The bits of a message's sysFlag.
//!
//! ```text
//! bit  10 9 8   7 6   5         4        3 2          1         0
//!      codec    –     store v6  born v6  transaction  multitag  compressed
//! ```
//!
//! The codec bits have a meaning only when the compressed bit is set; clients older than 4.9.3 (and the Go client) send
//! codec 0, which means zlib. [`crate::compression`] reads them.

/// The body is compressed.
pub const COMPRESSED: i32 = 0x1;
/// The topic is of the multi-tag kind. No effect on the tag hash.
pub const MULTI_TAGS: i32 = 0x2;
/// Both transaction bits.
pub const TRANSACTION_MASK: i32 = 0xC;
/// Not part of a transaction.
pub const TRANSACTION_NONE: i32 = 0;
/// A half message.
pub const TRANSACTION_PREPARED: i32 = 0x4;
/// A half message made visible.
pub const TRANSACTION_COMMIT: i32 = 0x8;
/// A half message taken back.
pub const TRANSACTION_ROLLBACK: i32 = 0xC;
/// The born host takes 20 bytes (IPv6) instead of 8.
pub const BORN_HOST_V6: i32 = 0x10;
/// The store host takes 20 bytes (IPv6) instead of 8.
pub const STORE_HOST_V6: i32 = 0x20;
/// The three bits that name the codec of a compressed body.
pub const COMPRESSION_MASK: i32 = 0x700;
/// Codec bits: an LZ4 frame.
pub const COMPRESSION_LZ4: i32 = 0x100;
/// Codec bits: a Zstandard frame.
pub const COMPRESSION_ZSTD: i32 = 0x200;
/// Codec bits: a zlib stream (as are codec bits 0).
pub const COMPRESSION_ZLIB: i32 = 0x300;

/// Returns the transaction bits of `sys_flag`: one of the `TRANSACTION_` values.
#[inline]
pub const fn transaction(sys_flag: i32) -> i32 {
    sys_flag & TRANSACTION_MASK
}

/// Returns `sys_flag` with its transaction bits replaced.
#[inline]
pub const fn with_transaction(sys_flag: i32, transaction: i32) -> i32 {
    (sys_flag & !TRANSACTION_MASK) | (transaction & TRANSACTION_MASK)
}

/// Returns `sys_flag` without its compression bits, as after decompression of the body.
#[inline]
pub const fn without_compression(sys_flag: i32) -> i32 {
    sys_flag & !(COMPRESSED | COMPRESSION_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_bits_are_replaced_alone() {
        let flag = with_transaction(COMPRESSED | STORE_HOST_V6 | TRANSACTION_PREPARED, TRANSACTION_COMMIT);
        assert_eq!(flag, COMPRESSED | STORE_HOST_V6 | TRANSACTION_COMMIT);
        assert_eq!(transaction(flag), TRANSACTION_COMMIT);
        assert_eq!(transaction(with_transaction(flag, TRANSACTION_NONE)), 0);
    }

    #[test]
    fn compression_bits_go_together() {
        assert_eq!(without_compression(COMPRESSED | COMPRESSION_ZLIB | BORN_HOST_V6), BORN_HOST_V6);
    }
}
