//! Lists of records: sizes add up, every record is encoded as the same bytes again, peeks agree, bodies decompress
//! within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::compression::Codec;
use wire::record::{self, Lead};
use wire::{Crc, Record, crc};

limit::limit_allocations!();

/// Far more than the size of a decompressed seed, far less than that of a decompression bomb.
const INFLATE_LIMIT: usize = 64 * 1024;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok((read, len)) = Record::decode(rest, Crc::Trust) {
        assert_eq!(record::lead(rest), Lead::Message { total_size: len });
        assert_eq!(record::total_size(rest), Some(len as u32));
        assert_eq!(record::store_timestamp(rest), Some(read.store_timestamp));
        assert_eq!(record::queue_offset(rest), Some(read.queue_offset));
        assert_eq!(record::physical_offset(rest), Some(read.physical_offset));
        assert_eq!(record::sys_flag(rest), Some(read.sys_flag));

        read.check().expect("decoded, so it fits");
        let mut again = vec![0; read.encoded_len()];
        read.encode_into(&mut again);
        assert_eq!(again[..8], rest[..8]);
        assert_eq!(again[12..], rest[12..len]);
        let crc_holds = read.body.is_empty() || rest[8..12] == crc::body_crc(read.body).to_be_bytes();
        assert_eq!(Record::decode(rest, Crc::Verify).is_ok(), crc_holds);

        if let Ok(Some(codec)) = Codec::of(read.sys_flag) {
            if let Ok(body) = codec.decompress(read.body, INFLATE_LIMIT) {
                assert!(body.len() <= INFLATE_LIMIT);
            }
        }
        rest = &rest[len..];
    }
    let listed = record::decode_list_with(bytes, Crc::Trust).take_while(Result::is_ok).count();
    assert!(listed <= bytes.len() / record::MIN_LEN);
});
