//! `orbitmq._native`: lists what the module holds. Each class, or family of functions, lives in the file of its name;
//! `bytes_like` and `host` convert arguments, `errors` turns every Rust error into its Python class.
mod bytes_like;
mod errors;
mod hashes;
mod host;
mod properties;
mod record;

#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::{
        hashes::{body_crc, java_hash, tags_code},
        properties::{decode_properties, encode_properties},
        record::{Record, decode_records, encode_record},
    };
}
