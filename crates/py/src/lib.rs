//! `orbitmq._native`: the list of everything in the module. Each class, or family of functions, is in the file of its
//! name; `bytes_like` and `host` convert arguments, `log_scan` uses `scan` and `read_ahead`, and `errors` converts
//! every Rust error into its Python class.
mod appended;
mod batch;
mod bytes_like;
mod cleaned;
mod command;
mod compression;
mod errors;
mod ext_fields;
mod filled_bytes;
mod filter;
mod frame_reader;
mod hashes;
mod header_reader;
mod host;
mod ids;
mod json;
mod log_scan;
mod new_message;
mod properties;
mod read_ahead;
mod read_result;
mod received_message;
mod record;
mod record_columns;
mod recovery;
mod row_packer;
mod scan;
mod send_frame;
mod send_request;
mod socket_reader;
mod store;
mod store_audit;
mod store_options;
mod store_snapshot;
mod stored_ids;

#[pyo3::pymodule]
mod _native {
    /// Version of the package: reading it from the installed metadata would cost every start more than all other
    /// imports.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// Exception that PyO3 raises for a panic. It does not derive from `Exception`, so code that continues after any
    /// error must name it.
    #[pymodule_export]
    use pyo3::panic::PanicException;

    #[pymodule_export]
    use crate::{
        appended::{Appended, answer_send},
        batch::{BatchBody, decode_batch, encode_batch, join_batch_properties},
        cleaned::Cleaned,
        command::{Command, encode_commands, encode_request},
        compression::{compress, compression_flags, decompress},
        filter::Filter,
        frame_reader::FrameReader,
        hashes::{body_crc, java_hash, tags_code},
        header_reader::HeaderReader,
        ids::{UniqueIds, decode_offset_id, decode_unique_id, encode_offset_id, encode_unique_id},
        json::{dumps_lenient, loads_lenient},
        log_scan::{LogScan, ScanReport},
        new_message::NewMessage,
        properties::{decode_properties, encode_properties},
        read_result::ReadResult,
        received_message::{ReceivedMessage, decode_messages},
        record::{Record, decode_records, encode_record},
        record_columns::{ArrowBatch, RecordColumns},
        recovery::Recovery,
        row_packer::{PackedSend, RowPacker},
        send_frame::{decode_send_answer, encode_send},
        send_request::SendRequest,
        socket_reader::SocketReader,
        store::Store,
        store_audit::{AuditPart, StoreAudit},
        store_options::StoreOptions,
        store_snapshot::StoreSnapshot,
        stored_ids::{StoredIds, parse_scope},
    };
}
