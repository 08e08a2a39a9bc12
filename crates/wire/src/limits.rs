//! Every limit of the byte formats in one place. Each is defined, and explained, where it is enforced.

pub use crate::frame::{MAX_FRAME_LEN, MAX_HEADER_LEN};
pub use crate::header::MAX_EXT_FIELDS;
pub use crate::properties::MAX_LEN as MAX_PROPERTIES_LEN;
pub use crate::record::MAX_TOPIC_LEN;

/// Maximum size of a body that a broker accepts unless configured otherwise: 4 MiB.
pub const DEFAULT_MAX_BODY_LEN: usize = 4 * 1024 * 1024;
