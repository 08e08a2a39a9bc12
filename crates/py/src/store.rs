//! `Store`: a store directory, with bulk methods.
//!
//! Every call that can wait for a disk or another thread releases the GIL: opening, appending, reading, flushing,
//! cleaning and closing. No other call does; reading an offset is cheaper than releasing the GIL.
use std::os::fd::IntoRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use store::{CleanRules, Limits, Options, ReadRequest, StoreError, panic_text};

use crate::appended::Appended;
use crate::bytes_like::BytesLike;
use crate::cleaned::Cleaned;
use crate::errors::{append_error, store_error, store_os_error};
use crate::filter::Filter;
use crate::new_message::NewMessage;
use crate::read_result::ReadResult;
use crate::recovery::Recovery;
use crate::store_options::StoreOptions;
use crate::stored_ids::{StoredIds, restore};

/// Runs `work`; a panic becomes an ordinary error. The class that PyO3 uses for panics does not derive from
/// `Exception`.
fn caught<T>(path: &Path, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(StoreError::Panicked { path: path.to_path_buf(), reason: panic_text(&*payload) }))
}

/// Store directory.
#[pyclass(frozen, module = "orbitmq._native")]
pub struct Store(store::Store);

impl Store {
    /// Calls into the store without the GIL.
    fn detached<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&store::Store) -> Result<T, StoreError> + Send,
    ) -> PyResult<T> {
        py.detach(|| caught(self.0.root(), || work(&self.0))).map_err(|error| store_error(py, &error))
    }

    fn attached<T>(&self, py: Python<'_>, outcome: Result<T, StoreError>) -> PyResult<T> {
        outcome.map_err(|error| store_error(py, &error))
    }
}

#[pymethods]
impl Store {
    /// Opens a directory and recovers the files the last user left.
    #[staticmethod]
    #[pyo3(signature = (path, options = None, *, create = false))]
    fn open(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, StoreOptions>>, create: bool) -> PyResult<Store> {
        let options = options.map_or_else(Options::default, |options| options.get().0.clone());
        let open = if create { store::Store::open } else { store::Store::open_existing };
        py.detach(|| caught(&path, || open(&path, options))).map(Store).map_err(|error| store_error(py, &error))
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.0.root().to_path_buf()
    }

    #[getter]
    fn recovery(&self) -> Recovery {
        self.0.recovery().into()
    }

    /// Sets the maximum size of a body for later messages; larger ones are rejected.
    #[pyo3(signature = (max_bytes, /))]
    fn limit_bodies(&self, py: Python<'_>, max_bytes: u32) -> PyResult<()> {
        self.detached(py, |store| store.limit_bodies(max_bytes.into()))
    }

    /// Appends messages in order.
    #[pyo3(signature = (messages, *, now_ms = None, atomic = false))]
    fn append_many<'py>(
        &self,
        py: Python<'py>,
        messages: Vec<Py<NewMessage>>,
        now_ms: Option<i64>,
        atomic: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let messages: Vec<_> = messages.iter().map(|message| message.borrow(py)).collect();
        let borrowed: Vec<_> = messages.iter().map(|message| message.as_message(py)).collect();
        let now_ms = now_ms.unwrap_or_else(clock_ms);
        let mut appended = Vec::with_capacity(borrowed.len());
        let append = || {
            if atomic {
                self.0.append_batch(&borrowed, now_ms, &mut appended)
            } else {
                self.0.append_many(&borrowed, now_ms, &mut appended)
            }
        };
        let outcome = py.detach(|| caught(self.0.root(), append));
        let appended = PyList::new(py, appended.into_iter().map(Appended))?;
        match outcome {
            Ok(()) => Ok(appended),
            Err(error) => Err(append_error(py, &error, appended)),
        }
    }

    /// Appends one message.
    #[pyo3(signature = (message, *, now_ms = None))]
    fn append(&self, py: Python<'_>, message: &NewMessage, now_ms: Option<i64>) -> PyResult<Appended> {
        let message = message.as_message(py);
        let now_ms = now_ms.unwrap_or_else(clock_ms);
        let mut appended = Vec::with_capacity(1);
        let append = || self.0.append_many(std::slice::from_ref(&message), now_ms, &mut appended);
        py.detach(|| caught(self.0.root(), append)).map_err(|error| store_error(py, &error))?;
        Ok(Appended(appended.pop().expect("appended without an error")))
    }

    /// Reads a queue from an offset on.
    #[pyo3(signature = (
        topic, queue_id, offset, *, max_messages = 32, max_bytes = 262144, tag_codes = None, filter = None, memory_bytes = None,
        max_messages_on_disk = 8, max_bytes_on_disk = 65536, resident_beyond = None,
    ))]
    #[allow(clippy::too_many_arguments)] // three name the position, the rest are keywords with defaults
    fn read(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_messages: usize,
        max_bytes: usize,
        tag_codes: Option<Vec<i64>>,
        filter: Option<&Bound<'_, Filter>>,
        memory_bytes: Option<i64>,
        max_messages_on_disk: usize,
        max_bytes_on_disk: usize,
        resident_beyond: Option<i64>,
    ) -> PyResult<ReadResult> {
        let mut request = ReadRequest {
            topic,
            queue_id,
            offset,
            max_messages,
            in_memory: Limits { max_messages, max_bytes },
            on_disk: Limits { max_messages: max_messages_on_disk, max_bytes: max_bytes_on_disk },
            memory_bytes: memory_bytes.unwrap_or(i64::MAX),
            tags_codes: tag_codes.as_deref(),
            filter: filter.map(|filter| &*filter.get().0),
            resident_beyond,
        };
        loop {
            let found = self.detached(py, |store| store.read(&request))?;
            match ReadResult::copied(py, found)? {
                Ok(result) => return Ok(result),
                // An unreadable message is an error only for a read that starts at it, not for the messages before it.
                Err(readable) => request.max_messages = readable,
            }
        }
    }

    /// Returns the record that begins at a physical offset.
    #[pyo3(signature = (physical_offset, /))]
    fn record_at<'py>(&self, py: Python<'py>, physical_offset: i64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let record = self.detached(py, |store| store.record_at(physical_offset))?;
        Ok(record.map(|record| PyBytes::new(py, &record)))
    }

    /// Returns the ids of exactly-once senders, from a snapshot and the log behind it.
    #[pyo3(signature = (snapshot = None))]
    fn stored_ids(&self, py: Python<'_>, snapshot: Option<BytesLike>) -> PyResult<StoredIds> {
        let snapshot = snapshot.map(|bytes| restore(py, bytes)).transpose()?;
        self.detached(py, |store| store.stored_ids(snapshot)).map(StoredIds::new)
    }

    /// Returns the records that have a key.
    #[pyo3(signature = (topic, key, *, max_messages = 64, begin_ms = 0, end_ms = 9223372036854775807))]
    fn query<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        key: &str,
        max_messages: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> PyResult<Bound<'py, PyList>> {
        let records = self.detached(py, |store| {
            let offsets = store.query(topic, key, max_messages, begin_ms, end_ms)?;
            let records: Result<Vec<_>, _> = offsets.into_iter().map(|offset| store.record_at(offset)).collect();
            records
        })?;
        PyList::new(py, records.iter().flatten().map(|record| PyBytes::new(py, record)).collect::<Vec<_>>())
    }

    /// Returns the queue offset of the message stored nearest to a time.
    #[pyo3(signature = (topic, queue_id, timestamp_ms, /))]
    fn offset_by_time(&self, py: Python<'_>, topic: &str, queue_id: i32, timestamp_ms: i64) -> PyResult<i64> {
        self.detached(py, |store| store.offset_by_time(topic, queue_id, timestamp_ms))
    }

    /// Returns the store time of the oldest message of a queue.
    #[pyo3(signature = (topic, queue_id, /))]
    fn earliest_store_time(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<Option<i64>> {
        self.detached(py, |store| store.earliest_store_time(topic, queue_id))
    }

    /// Returns the oldest offset of a queue.
    #[pyo3(signature = (topic, queue_id, /))]
    fn min_offset(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<i64> {
        self.attached(py, self.0.min_offset(topic, queue_id))
    }

    /// Returns the offset that the next message of a queue will get.
    #[pyo3(signature = (topic, queue_id, /))]
    fn max_offset(&self, py: Python<'_>, topic: &str, queue_id: i32) -> PyResult<i64> {
        self.attached(py, self.0.max_offset(topic, queue_id))
    }

    /// Returns the entry of a consume queue: physical offset, size, tags code.
    #[pyo3(signature = (topic, queue_id, queue_offset, /))]
    fn unit_at(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        queue_offset: i64,
    ) -> PyResult<Option<(i64, i32, i64)>> {
        let unit = self.attached(py, self.0.unit_at(topic, queue_id, queue_offset))?;
        Ok(unit.map(|unit| (unit.physical_offset, unit.size, unit.tags_code)))
    }

    /// Returns every queue that has had a message.
    fn queues(&self, py: Python<'_>) -> PyResult<Vec<(String, i32)>> {
        self.attached(py, self.0.queues())
    }

    /// Deletes the queues of a topic.
    #[pyo3(signature = (topic, /))]
    fn remove_topic(&self, py: Python<'_>, topic: &str) -> PyResult<usize> {
        self.detached(py, |store| store.remove_topic(topic))
    }

    /// Deletes the queues whose messages have all left the log.
    #[pyo3(signature = (*, kept_topic = ""))]
    fn remove_expired_queues(&self, py: Python<'_>, kept_topic: &str) -> PyResult<usize> {
        self.detached(py, |store| store.remove_expired_queues(kept_topic))
    }

    #[getter]
    fn index_last_update(&self, py: Python<'_>) -> PyResult<(i64, i64)> {
        self.attached(py, self.0.index_last_update())
    }

    #[getter]
    fn min_physical_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.attached(py, self.0.min_physical_offset())
    }

    #[getter]
    fn max_physical_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.attached(py, self.0.max_physical_offset())
    }

    #[getter]
    fn flushed_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.attached(py, self.0.flushed_offset())
    }

    /// Waits until everything below an offset is on disk.
    #[pyo3(signature = (offset, timeout_ms, /))]
    fn wait_flushed(&self, py: Python<'_>, offset: i64, timeout_ms: u64) -> PyResult<bool> {
        self.detached(py, |store| store.wait_flushed(offset, Duration::from_millis(timeout_ms)))
    }

    /// Returns a descriptor that becomes readable whenever `flushed_offset` rises.
    fn flushed_event(&self, py: Python<'_>) -> PyResult<i32> {
        // A duplicate: closing the store must not close a descriptor that an event loop still watches.
        let duplicate = self.attached(py, self.0.with_flushed_event(|event| event.try_clone_to_owned()))?;
        duplicate.map(IntoRawFd::into_raw_fd).map_err(|error| store_os_error(py, error, self.0.root()))
    }

    /// Runs one round of expiry.
    #[pyo3(signature = (
        *, now_ms = None, due = false, used_ratio = None, reserved_ms = 259200000, max_used_ratio = 0.75,
        force_ratio = 0.85, warn_ratio = 0.9, max_log_files = 10,
    ))]
    #[allow(clippy::too_many_arguments)] // keywords with defaults
    fn clean(
        &self,
        py: Python<'_>,
        now_ms: Option<i64>,
        due: bool,
        used_ratio: Option<f64>,
        reserved_ms: i64,
        max_used_ratio: f64,
        force_ratio: f64,
        warn_ratio: f64,
        max_log_files: usize,
    ) -> PyResult<Cleaned> {
        let rules = CleanRules { reserved_ms, max_used_ratio, force_ratio, warn_ratio, max_log_files };
        let now_ms = now_ms.unwrap_or_else(clock_ms);
        self.detached(py, |store| store.clean(&rules, now_ms, due, used_ratio)).map(Cleaned::from)
    }

    /// Flushes everything to disk and releases the directory.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, store::Store::close)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_details))]
    fn __exit__(&self, py: Python<'_>, _details: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("Store({:?})", self.0.root())
    }
}

fn clock_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    since.as_millis() as i64
}
